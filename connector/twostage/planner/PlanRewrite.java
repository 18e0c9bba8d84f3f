package twostage_planner;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * A plan with scans of ours replaced, the same wherever they stand: in a join, and in the copies of the join's side that dynamic
 * filters take their keys from, which must remain equal to that side.
 *
 * Each node is visited once, though filters share their sides: the number of these doubles with each join.
 */
abstract class PlanRewrite {
  /** Rewritten plans by the original ones, by identity. */
  private final Map rewritten = new IdentityHashMap();

  /** The plan, rewritten; the same one if nothing in it changes. */
  final LogicalPlan rewrite(LogicalPlan plan) {
    LogicalPlan node = (LogicalPlan) rewritten.get(plan);
    if (node == null) {
      node = visit(plan);
      rewritten.put(plan, node);
    }
    return node;
  }

  /** A node and what is below it, rewritten; `below` does that where the node itself stays. */
  abstract LogicalPlan visit(LogicalPlan plan);

  /** The node with its children rewritten, and the sides that its dynamic filters take their keys from. */
  final LogicalPlan below(LogicalPlan plan) {
    Seq children = plan.children();
    ListBuffer visited = new ListBuffer();
    boolean changed = false;
    for (int i = 0; i < children.size(); i++) {
      LogicalPlan child = (LogicalPlan) children.apply(i);
      LogicalPlan other = rewrite(child);
      changed = changed || other != child;
      visited.$plus$eq(other);
    }
    LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(visited.toList()) : plan;
    return node instanceof Filter ? withSides((Filter) node) : node;
  }

  private LogicalPlan withSides(Filter node) {
    List conjuncts = new ArrayList();
    PlanDemand.split(node.condition(), conjuncts);
    Expression condition = null;
    boolean changed = false;
    for (int i = 0; i < conjuncts.size(); i++) {
      Expression one = (Expression) conjuncts.get(i);
      Expression other = one instanceof DynamicPruningSubquery ? withSide((DynamicPruningSubquery) one) : one;
      changed = changed || other != one;
      condition = condition == null ? other : new And(condition, other);
    }
    return changed ? new Filter(condition, node.child()) : node;
  }

  /** A dynamic filter that takes its keys from the rewritten side. */
  final Expression withSide(DynamicPruningSubquery filter) {
    LogicalPlan side = (LogicalPlan) filter.plan();
    LogicalPlan other = rewrite(side);
    return other == side ? filter : filter.withNewPlan(other);
  }
}
