package twostage_planner;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * A plan whose scans of ours were not read yet.
 *
 * A recursive CTE plans its optimized recursive member anew for each level, around the same scans. Where one level has keys
 * of a join for a scan and the next has none, Spark does not tell the scan, which would read with the keys that it had: rows
 * would be missing. So a scan that was read, or was given keys, makes place for a copy without; the same one wherever it
 * stands in the plan, because a dynamic filter's copy of a join's side must remain equal to that side.
 */
final class UnusedScans {
  /** Copies by the scans in whose place they stand, by identity. */
  private final Map copies = new IdentityHashMap();
  /** What tells copies from their scans, by scan: those of equal scans are equal, too. */
  private final Map tokens = new HashMap();
  /** Results by node, by identity: dynamic filters share their build sides, whose number doubles with each join. */
  private final Map visited = new IdentityHashMap();

  /** The plan with copies of scans that were used; the same plan if there are none. */
  LogicalPlan in(LogicalPlan plan) {
    LogicalPlan found = (LogicalPlan) visited.get(plan);
    if (found == null) {
      found = visit(plan);
      visited.put(plan, found);
    }
    return found;
  }

  private LogicalPlan visit(LogicalPlan plan) {
    if (DynamicFilters.isOurs(plan)) {
      return unused((DataSourceV2ScanRelation) plan);
    }
    Seq children = plan.children();
    ListBuffer others = new ListBuffer();
    boolean changed = false;
    for (int i = 0; i < children.size(); i++) {
      LogicalPlan child = (LogicalPlan) children.apply(i);
      LogicalPlan other = in(child);
      changed = changed || other != child;
      others.$plus$eq(other);
    }
    LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(others.toList()) : plan;
    return node instanceof Filter ? withSides((Filter) node) : node;
  }

  private LogicalPlan unused(DataSourceV2ScanRelation relation) {
    TwoStageScan scan = (TwoStageScan) relation.scan();
    if (!scan.isUsed()) {
      return relation;
    }
    if (!copies.containsKey(scan)) {
      if (!tokens.containsKey(scan)) {
        tokens.put(scan, new Object());
      }
      copies.put(scan, scan.forAnotherPlan(tokens.get(scan)));
    }
    return OfferedKeys.with(relation, (TwoStageScan) copies.get(scan));
  }

  /** The filter with such build sides of its dynamic filters. */
  private LogicalPlan withSides(Filter node) {
    List conjuncts = new ArrayList();
    PlanDemand.split(node.condition(), conjuncts);
    Expression condition = null;
    boolean changed = false;
    for (int i = 0; i < conjuncts.size(); i++) {
      Expression one = (Expression) conjuncts.get(i);
      if (one instanceof DynamicPruningSubquery) {
        LogicalPlan side = (LogicalPlan) ((DynamicPruningSubquery) one).plan();
        LogicalPlan other = in(side);
        changed = changed || other != side;
        one = other == side ? one : ((DynamicPruningSubquery) one).withNewPlan(other);
      }
      condition = condition == null ? one : new And(condition, one);
    }
    return changed ? new Filter(condition, node.child()) : node;
  }
}
