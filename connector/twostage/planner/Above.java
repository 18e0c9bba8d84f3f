package twostage_planner;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Exists;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.InSubquery;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.*;
import scala.collection.immutable.Seq;

/** What the operators above a plan's node ask of it, from the root down. Immutable. */
final class Above {
  static final Above NOTHING = new Above(null, new ArrayList(), false, false, null, null, null);

  /** Columns that the operators use, those of `predicates` not counted; null for all. */
  final AttributeSet returned;
  /** Conjuncts of the filters directly above. */
  final List predicates;
  final boolean limit;
  /** The other side of a join is filtered: its keys may prune this side while the query runs. */
  final boolean joined;
  /** How many rows the nearest limit lets pass, with nothing in between but projections; null for no limit. */
  private final Integer count;
  /** The order by which the first `count` rows are wanted (its `SortOrder`s); null for none. */
  final Seq order;
  /** The aggregates above, with nothing but filters and columns in between; null if there are none. */
  final Aggregates aggregates;

  private Above(
      AttributeSet returned, List predicates, boolean limit, boolean joined, Integer count, Seq order,
      Aggregates aggregates) {
    this.returned = returned;
    this.predicates = predicates;
    this.limit = limit;
    this.joined = joined;
    this.count = count;
    this.order = order;
    this.aggregates = aggregates;
  }

  /** How many of the first rows by `order` are wanted. */
  int count() {
    return count.intValue();
  }

  /** What holds for child `place` of `node`. */
  Above child(LogicalPlan node, int place) {
    if (node instanceof Filter) {
      List all = new ArrayList(predicates);
      split(((Filter) node).condition(), all);
      return new Above(
          returned, all, limit, joined || asksForKeys(((Filter) node).condition()), order == null ? null : count, order,
          aggregates);
    }
    if (node instanceof Project) {
      // Filters above the columns are lost here, and with them what the aggregates are about.
      Aggregates below = aggregates == null || !predicates.isEmpty() ? null : aggregates.below((Project) node);
      return new Above(node.references(), new ArrayList(), limit, joined, count, order, below);
    }
    if (node instanceof Aggregate) {
      return new Above(node.references(), new ArrayList(), false, joined, null, null, Aggregates.of((Aggregate) node));
    }
    if (node instanceof GlobalLimit || node instanceof LocalLimit || node instanceof Offset) {
      return new Above(null, new ArrayList(), true, joined, rows(node), null, null);
    }
    if (node instanceof Sort && ((Sort) node).global() && count != null && order == null) {
      return new Above(null, new ArrayList(), false, joined, count, ((Sort) node).order(), null);
    }
    if (node instanceof SubqueryAlias || node instanceof Subquery) {
      return this;
    }
    boolean keys = node instanceof Join && ((Join) node).condition().isDefined()
        && isSelective((LogicalPlan) node.children().apply(1 - place));
    return new Above(null, new ArrayList(), false, joined || keys, null, null, null);
  }

  /** The number of rows that a limit lets pass; null where it is no plain number. */
  private static Integer rows(LogicalPlan limit) {
    Expression number = limit instanceof GlobalLimit ? ((GlobalLimit) limit).limitExpr()
        : limit instanceof LocalLimit ? ((LocalLimit) limit).limitExpr() : null;
    boolean isPlain = number instanceof Literal && ((Literal) number).value() instanceof Integer;
    return isPlain ? (Integer) ((Literal) number).value() : null;
  }

  static boolean isPlain(Project node) {
    Seq items = node.projectList();
    for (int i = 0; i < items.size(); i++) {
      if (!(items.apply(i) instanceof Attribute)) {
        return false;
      }
    }
    return true;
  }

  static void split(Expression condition, List into) {
    if (condition instanceof And) {
      split(((And) condition).left(), into);
      split(((And) condition).right(), into);
    } else {
      into.add(condition);
    }
  }

  /** Whether a filter in the plan may keep few rows. */
  private static boolean isSelective(LogicalPlan plan) {
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

  /** Whether it holds IN (SELECT …) or EXISTS, which become joins later. */
  private static boolean asksForKeys(Expression expression) {
    if (expression instanceof InSubquery || expression instanceof Exists) {
      return true;
    }
    Seq children = expression.children();
    for (int i = 0; i < children.size(); i++) {
      if (asksForKeys((Expression) children.apply(i))) {
        return true;
      }
    }
    return false;
  }
}
