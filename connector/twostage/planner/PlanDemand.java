package twostage_planner;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.LeftExistence;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import scala.collection.immutable.Seq;

/** What the operators above a node of a plan need of it; made from the root down. Immutable. */
final class PlanDemand {
  /** At the root: all columns of all rows. */
  static final PlanDemand ROOT = new PlanDemand(null, new ArrayList(), false, false, false, null, null, null, null);

  /** Columns that the operators use, without those that only `predicates` use; null for all. */
  final AttributeSet returned;
  /** Conjuncts of the filters directly above. */
  final List predicates;
  /** A limit may end the query before all rows are read. */
  final boolean limit;
  /** The rows are joined, so that other scans wait for this one. */
  final boolean underJoin;
  /** The other side of a join is filtered: its keys may prune this side while the query runs. */
  final boolean mayBePruned;
  /**
   * The column by which the nearest join finds the rows of this side, if it gives a row for each pair and the other side may
   * have many rows; null if there are several columns.
   */
  final Attribute joinedBy;
  /** How many rows the nearest limit lets pass, if only projections are in between; null for no such limit. */
  private final Integer count;
  /** The order (`SortOrder`s) by which the first `count` rows are wanted; null for none. */
  final Seq order;
  /** The aggregates above, if only filters and projections are in between; null for none. */
  final AggregateTranslator aggregates;

  private PlanDemand(
      AttributeSet returned, List predicates, boolean limit, boolean underJoin, boolean mayBePruned, Attribute joinedBy,
      Integer count, Seq order, AggregateTranslator aggregates) {
    this.returned = returned;
    this.predicates = predicates;
    this.limit = limit;
    this.underJoin = underJoin;
    this.mayBePruned = mayBePruned;
    this.joinedBy = joinedBy;
    this.count = count;
    this.order = order;
    this.aggregates = aggregates;
  }

  /** How many of the first rows by `order` are wanted. */
  int count() {
    return count.intValue();
  }

  /** What this node and those above it need of its child number `place`. */
  PlanDemand child(LogicalPlan node, int place) {
    if (node instanceof Filter) {
      List all = new ArrayList(predicates);
      split(((Filter) node).condition(), all);
      boolean joins = hasSubquery(((Filter) node).condition());
      boolean keys = joins || ScalarKey.of(all) != null;
      return new PlanDemand(
          returned, all, limit, underJoin || joins, mayBePruned || keys, joinedBy, order == null ? null : count, order,
          aggregates);
    }
    if (node instanceof Project) {
      // Filters above a projection are not followed below it, so the aggregates would be of other rows.
      AggregateTranslator below = aggregates == null || !predicates.isEmpty() ? null : aggregates.below((Project) node);
      return new PlanDemand(node.references(), new ArrayList(), limit, underJoin, mayBePruned, joinedBy, count, order, below);
    }
    if (node instanceof Aggregate) {
      return new PlanDemand(
          node.references(), new ArrayList(), false, underJoin, mayBePruned, null, null, null,
          AggregateTranslator.of((Aggregate) node));
    }
    if (node instanceof GlobalLimit || node instanceof LocalLimit || node instanceof Offset) {
      return new PlanDemand(null, new ArrayList(), true, underJoin, mayBePruned, null, rows(node), null, null);
    }
    if (node instanceof Sort && ((Sort) node).global() && count != null && order == null) {
      return new PlanDemand(null, new ArrayList(), false, underJoin, mayBePruned, null, count, ((Sort) node).order(), null);
    }
    if (node instanceof SubqueryAlias) {
      return this;
    }
    if (node instanceof Subquery) {
      // IN (SELECT …) becomes a join later, and a query waits for a scalar subquery as a join does for its side.
      return new PlanDemand(returned, predicates, limit, true, mayBePruned, joinedBy, count, order, aggregates);
    }
    boolean keys = node instanceof Join && ((Join) node).condition().isDefined()
        && isSelective((LogicalPlan) node.children().apply(1 - place));
    return new PlanDemand(
        null, new ArrayList(), false, underJoin || node instanceof Join, mayBePruned || keys,
        keys ? null : joinedBy(node, place), null, null, null);
  }

  /** The only column that a join, other than a semi or anti join, compares for equality on its child's side; null if none. */
  private static Attribute joinedBy(LogicalPlan node, int place) {
    if (!(node instanceof Join) || ((Join) node).condition().isEmpty()
        || LeftExistence.unapply(((Join) node).joinType()).isDefined()) {
      return null;
    }
    List conjuncts = new ArrayList();
    split((Expression) ((Join) node).condition().get(), conjuncts);
    AttributeSet side = ((LogicalPlan) node.children().apply(place)).outputSet();
    Attribute found = null;
    for (int i = 0; i < conjuncts.size(); i++) {
      if (conjuncts.get(i) instanceof EqualTo) {
        EqualTo equal = (EqualTo) conjuncts.get(i);
        Attribute left = ofSide(equal.left(), side);
        Attribute one = left == null ? ofSide(equal.right(), side) : left;
        if (found != null || one == null) {
          return null;
        }
        found = one;
      }
    }
    return found;
  }

  private static Attribute ofSide(Expression key, AttributeSet side) {
    return key instanceof Attribute && side.contains((Attribute) key) ? (Attribute) key : null;
  }

  /** The number of rows that a limit lets pass; null where it is no literal. */
  private static Integer rows(LogicalPlan limit) {
    Expression number = limit instanceof GlobalLimit ? ((GlobalLimit) limit).limitExpr()
        : limit instanceof LocalLimit ? ((LocalLimit) limit).limitExpr() : null;
    boolean isPlain = number instanceof Literal && ((Literal) number).value() instanceof Integer;
    return isPlain ? (Integer) ((Literal) number).value() : null;
  }

  /** Whether a projection only chooses columns. */
  static boolean isPlain(Project node) {
    Seq items = node.projectList();
    for (int i = 0; i < items.size(); i++) {
      if (!(items.apply(i) instanceof Attribute)) {
        return false;
      }
    }
    return true;
  }

  /** Puts the conjuncts of a condition into `into`. */
  static void split(Expression condition, List into) {
    if (condition instanceof And) {
      split(((And) condition).left(), into);
      split(((And) condition).right(), into);
    } else {
      into.add(condition);
    }
  }

  /** Whether the plan may have few rows: by a filter, or because few are at hand. */
  private static boolean isSelective(LogicalPlan plan) {
    if (BuildSide.isList(plan) || plan instanceof GlobalLimit || plan instanceof LocalLimit
        || plan instanceof Aggregate && ((Aggregate) plan).groupingExpressions().isEmpty()
        || plan instanceof InMemoryRelation && BuildSide.isSelective(plan)) {
      return true;
    }
    if (plan instanceof Filter) {
      List conjuncts = new ArrayList();
      split(((Filter) plan).condition(), conjuncts);
      for (int i = 0; i < conjuncts.size(); i++) {
        if (!(conjuncts.get(i) instanceof IsNotNull)) {
          return true;
        }
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      if (isSelective((LogicalPlan) children.apply(i))) {
        return true;
      }
    }
    return false;
  }

  /** Whether an expression has IN (SELECT …) or EXISTS, which become joins later. */
  private static boolean hasSubquery(Expression expression) {
    if (expression instanceof InSubquery || expression instanceof Exists) {
      return true;
    }
    Seq children = expression.children();
    for (int i = 0; i < children.size(); i++) {
      if (hasSubquery((Expression) children.apply(i))) {
        return true;
      }
    }
    return false;
  }
}
