package twostage_planner;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.optimizer.NormalizeNaNAndZero;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.*;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import scala.Option;
import scala.Tuple8;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Puts dynamic filters before scans of ours where Spark's `PartitionPruning` puts none: if the side that gives the keys has no
 * visible filter, because our scan took it over, or has few rows for another reason (VALUES, LIMIT, a cached relation), if
 * the join will have no broadcast, if the key is under a cast that widens, or if Spark does not follow it down to the scan.
 *
 * Several keys that are columns of one scan filter it together, as `TuplesOfKeys`; each of them by itself then needs no filter.
 * A filter stands directly above the scan, and only where every operator in between passes a row or not by itself, or all
 * rows of one key together. `DynamicFilters` chooses among these filters and Spark's own.
 */
final class OfferedKeys {
  /** How often each scan occurs in the plan. */
  private final Map places = new IdentityHashMap();
  private final LogicalPlan root;

  OfferedKeys(LogicalPlan root) {
    this.root = root;
    count(root);
  }

  private void count(LogicalPlan plan) {
    if (DynamicFilters.isOurs(plan)) {
      Object scan = ((DataSourceV2ScanRelation) plan).scan();
      places.put(scan, Integer.valueOf(places.containsKey(scan) ? 2 : 1));
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      count((LogicalPlan) children.apply(i));
    }
  }

  boolean hasScans() {
    return !places.isEmpty();
  }

  /** The plan with a filter before each scan that a join could give keys. */
  LogicalPlan offer(LogicalPlan plan) {
    if (DynamicFilters.isPlannedLater(plan)) {
      return plan;
    }
    Seq children = plan.children();
    ListBuffer visited = new ListBuffer();
    boolean changed = false;
    for (int i = 0; i < children.size(); i++) {
      LogicalPlan child = (LogicalPlan) children.apply(i);
      LogicalPlan other = offer(child);
      changed = changed || other != child;
      visited.$plus$eq(other);
    }
    LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(visited.toList()) : plan;
    if (plan instanceof Filter && !ScalarKey.IS_SPARK_S) {
      return offerScalar((Filter) node);
    }
    return plan instanceof Join ? offerTo((Join) node, (Join) plan) : node;
  }

  /** The plan with the Bloom filters of Spark's own before the scans whose columns they test; not where keys of a join do. */
  LogicalPlan offerBlooms(LogicalPlan plan) {
    if (DynamicFilters.isPlannedLater(plan)) {
      return plan;
    }
    LogicalPlan node = plan;
    for (int i = 0; i < plan.children().size(); i++) {
      node = with(node, i, offerBlooms((LogicalPlan) plan.children().apply(i)));
    }
    List blooms = SparkBloom.allOf(plan);
    for (int i = 0; i < blooms.size(); i++) {
      SparkBloom bloom = (SparkBloom) blooms.get(i);
      node = push(node, new Expression[] {bloom.key}, new Keys(bloom.build, bloom.build.output(), new int[0]));
    }
    return node;
  }

  /** `column = (SELECT …)`: the condition stays, and with it the error of a second row. */
  private LogicalPlan offerScalar(Filter node) {
    List conjuncts = new ArrayList();
    PlanDemand.split(node.condition(), conjuncts);
    LogicalPlan filtered = node;
    for (int i = 0; i < conjuncts.size(); i++) {
      ScalarKey key = ScalarKey.of((Expression) conjuncts.get(i));
      if (key != null) {
        LogicalPlan build = (LogicalPlan) key.subquery.plan();
        filtered = push(filtered, new Expression[] {key.column}, new Keys(build, build.output(), new int[] {0}));
      }
    }
    return filtered;
  }

  /** `bare`: the join without filters of ours, whose sides give the keys. */
  private LogicalPlan offerTo(Join join, Join bare) {
    Option found = ExtractEquiJoinKeys$.MODULE$.unapply(bare);
    if (found.isEmpty() || bare.isStreaming()) {
      return join;
    }
    Seq leftKeys = (Seq) ((Tuple8) found.get())._2();
    Seq rightKeys = (Seq) ((Tuple8) found.get())._3();
    LogicalPlan left = join.left();
    LogicalPlan right = join.right();
    if (PartitionPruning$.MODULE$.canPruneLeft(join.joinType()) && BuildSide.isSelective(bare.right())) {
      left = filterBy(left, leftKeys, bare.right(), rightKeys);
    }
    if (PartitionPruning$.MODULE$.canPruneRight(join.joinType()) && BuildSide.isSelective(bare.left())) {
      right = filterBy(right, rightKeys, bare.left(), leftKeys);
    }
    boolean changed = left != join.left() || right != join.right();
    return changed ? (LogicalPlan) join.withNewChildren(list(left, right)) : join;
  }

  private LogicalPlan filterBy(LogicalPlan side, Seq keys, LogicalPlan build, Seq buildKeys) {
    List places = new ArrayList();
    List together = new ArrayList();
    for (int i = 0; i < keys.size(); i++) {
      if (((Expression) keys.apply(i)).dataType().equals(((Expression) buildKeys.apply(i)).dataType())) {
        places.add(Integer.valueOf(i));
        Expression key = plain((Expression) keys.apply(i));
        if (columnOf(key) != null && !(key instanceof Cast) && TuplesOfKeys.takes(key.dataType())) {
          together.add(Integer.valueOf(i));
        }
      }
    }
    LogicalPlan filtered = together.size() > 1 && TuplesOfKeys.areOffered()
        ? push(side, keys, new Keys(build, buildKeys, numbers(together))) : side;
    for (int i = 0; i < places.size(); i++) {
      filtered = push(filtered, keys, new Keys(build, buildKeys, numbers(places.subList(i, i + 1))));
    }
    return filtered;
  }

  private static int[] numbers(List values) {
    int[] numbers = new int[values.size()];
    for (int i = 0; i < numbers.length; i++) {
      numbers[i] = ((Integer) values.get(i)).intValue();
    }
    return numbers;
  }

  private LogicalPlan push(LogicalPlan side, Seq keysOfSide, Keys keys) {
    Expression[] chosen = new Expression[keys.places.length];
    for (int i = 0; i < chosen.length; i++) {
      chosen[i] = plain((Expression) keysOfSide.apply(keys.places[i]));
    }
    return push(side, chosen, keys);
  }

  /** One or several of the keys by which a join finds rows of its build side; or that side makes a Bloom filter of its keys. */
  private static final class Keys {
    final LogicalPlan build;
    final Seq all;
    /** None for a Bloom filter: `all` is its bytes. */
    final int[] places;

    Keys(LogicalPlan build, Seq all, int[] places) {
      this.build = build;
      this.all = all;
      this.places = places;
    }
  }

  /** The plan, with a filter before the scans that all of `of` are columns of; the same plan if there is none. */
  private LogicalPlan push(LogicalPlan plan, Expression[] of, Keys keys) {
    Attribute[] columns = new Attribute[of.length];
    for (int i = 0; i < of.length; i++) {
      columns[i] = columnOf(of[i]);
      if (columns[i] == null || !plan.outputSet().contains(columns[i])) {
        return plan;
      }
    }
    if (plan.isStreaming()) {
      return plan;
    }
    if (DynamicFilters.isOurs(plan)) {
      return filter((DataSourceV2ScanRelation) plan, null, of, keys);
    }
    if (plan instanceof Filter) {
      Filter node = (Filter) plan;
      if (!node.condition().deterministic()) {
        return plan;
      }
      return DynamicFilters.isOurs(node.child())
          ? filter((DataSourceV2ScanRelation) node.child(), node, of, keys)
          : with(plan, 0, push(node.child(), of, keys));
    }
    if (plan instanceof Project || plan instanceof Aggregate) {
      Expression[] below = new Expression[of.length];
      for (int i = 0; i < of.length; i++) {
        below[i] = below(plan, of[i], columns[i]);
        if (below[i] == null) {
          return plan;
        }
      }
      return with(plan, 0, push((LogicalPlan) plan.children().apply(0), below, keys));
    }
    if (plan instanceof Union) {
      return pushIntoAll((Union) plan, of, columns, keys);
    }
    if (plan instanceof Join) {
      Join join = (Join) plan;
      boolean left = join.left().outputSet().contains(columns[0]); // of several, all are, or none is found below
      boolean passes = left ? keepsLeftRows(join.joinType()) : keepsRightRows(join.joinType());
      return passes ? with(plan, left ? 0 : 1, push(left ? join.left() : join.right(), of, keys)) : plan;
    }
    boolean passes = plan instanceof Sort || plan instanceof SubqueryAlias
        || plan instanceof Window && holdsAll(((Window) plan).partitionSpec(), columns)
        || plan instanceof Generate && ((Expression) ((Generate) plan).generator()).deterministic();
    return passes && plan.children().size() == 1
        ? with(plan, 0, push((LogicalPlan) plan.children().apply(0), of, keys)) : plan;
  }

  private LogicalPlan pushIntoAll(Union union, Expression[] of, Attribute[] columns, Keys keys) {
    LogicalPlan plan = union;
    for (int i = 0; i < union.children().size(); i++) {
      LogicalPlan child = (LogicalPlan) union.children().apply(i);
      Expression[] own = new Expression[of.length];
      boolean fits = true;
      for (int k = 0; k < of.length; k++) {
        Expression column = ofChild(union, columns[k], child);
        fits = fits && column != null && column.dataType().equals(columns[k].dataType());
        own[k] = fits ? replaced(of[k], column) : null;
      }
      plan = fits ? with(plan, i, push(child, own, keys)) : plan;
    }
    return plan;
  }

  /** What a union's column is in one of its children; null if it is not found. */
  private static Expression ofChild(Union union, Attribute column, LogicalPlan child) {
    Expression found = null;
    for (int i = 0; i < union.output().size(); i++) {
      if (((Attribute) union.output().apply(i)).exprId().equals(column.exprId())) {
        found = (Expression) child.output().apply(i);
      }
    }
    return found;
  }

  /** Whether a join returns rows of its left side only as they are, each by itself. */
  private static boolean keepsLeftRows(JoinType type) {
    return type instanceof InnerLike || type.equals(LeftOuter$.MODULE$) || type.equals(LeftSemi$.MODULE$)
        || type.equals(LeftAnti$.MODULE$) || type instanceof ExistenceJoin;
  }

  private static boolean keepsRightRows(JoinType type) {
    return type instanceof InnerLike || type.equals(RightOuter$.MODULE$);
  }

  private static boolean holdsAll(Seq expressions, Attribute[] columns) {
    for (int i = 0; i < columns.length; i++) {
      if (!holds(expressions, columns[i])) {
        return false;
      }
    }
    return true;
  }

  private static boolean holds(Seq expressions, Expression wanted) {
    for (int i = 0; i < expressions.size(); i++) {
      if (((Expression) expressions.apply(i)).semanticEquals(wanted)) {
        return true;
      }
    }
    return false;
  }

  /** A key of a projection or an aggregate as an expression of what is below; null where we do not follow it. */
  private static Expression below(LogicalPlan plan, Expression key, Attribute column) {
    Seq items = plan instanceof Project ? ((Project) plan).projectList() : ((Aggregate) plan).aggregateExpressions();
    Expression found = null;
    for (int i = 0; i < items.size(); i++) {
      NamedExpression item = (NamedExpression) items.apply(i);
      if (!((Expression) item).deterministic()) {
        return null;
      }
      if (item.exprId().equals(column.exprId())) {
        found = item instanceof Alias ? ((Alias) item).child() : (Expression) item;
      }
    }
    if (found == null || plan instanceof Aggregate && !holds(((Aggregate) plan).groupingExpressions(), found)) {
      return null;
    }
    Expression below = replaced(key, found);
    return columnOf(below) == null ? null : below;
  }

  /** A key of floats as it was before Spark made one value of 0.0 and -0.0, and of all NaNs: they are equal here, too. */
  private static Expression plain(Expression key) {
    boolean wrapped = key instanceof KnownFloatingPointNormalized || key instanceof NormalizeNaNAndZero;
    return wrapped ? plain((Expression) key.children().apply(0)) : key;
  }

  /** The column under casts that widen and fields of structs; null for any other expression. */
  private static Attribute columnOf(Expression key) {
    if (key instanceof Attribute) {
      return (Attribute) key;
    }
    if (key instanceof Cast && KeyCast.widens((Cast) key)) {
      return columnOf(((Cast) key).child());
    }
    return key instanceof GetStructField ? columnOf(((GetStructField) key).child()) : null;
  }

  /** A key with another expression in place of its column. */
  private static Expression replaced(Expression key, Expression column) {
    return key instanceof Attribute ? column
        : (Expression) key.withNewChildren(list(replaced((Expression) key.children().apply(0), column)));
  }

  /** The filter directly above a scan; `above` is the filter that stands there already, null for none. */
  private LogicalPlan filter(DataSourceV2ScanRelation relation, Filter above, Expression[] of, Keys keys) {
    LogicalPlan there = above == null ? relation : (LogicalPlan) above;
    TwoStageScan scan = (TwoStageScan) relation.scan();
    Expression[] columns = new Expression[of.length];
    boolean widened = false;
    for (int i = 0; i < of.length; i++) {
      columns[i] = of[i];
      while (columns[i] instanceof Cast) {
        columns[i] = ((Cast) columns[i]).child();
      }
      widened = widened || columns[i] != of[i];
      if (!scan.takesKeys(nameOf(columns[i]))) {
        return there;
      }
    }
    if (keys.places.length == 0) {
      DynamicPruningSubquery bloom = SparkBloom.filter(columns[0], of[0], keys.build);
      boolean fits = scan.takesAnyKeys() && !SparkBloom.isNeedless(above, columns[0], root) && !isThere(above, bloom);
      return fits ? placed(relation, above, bloom) : there;
    }
    boolean cheap = BuildSide.isCheap(keys.build, relation);
    boolean stands = widened && of.length == 1 && !cheap; // a broadcast has the keys in the wider type
    if (of.length > 1 && !cheap || stands && !(columns[0] instanceof AttributeReference && scan.takesAnyKeys())) {
      return there; // Spark takes one key of a broadcast
    }
    Expression filter;
    if (of.length > 1) {
      if (widened || !scan.takesAnyKeys() || hasBroadcast(keys) && !BuildSide.isVeryCheap(keys.build, relation)) {
        return there;
      }
      filter = TuplesOfKeys.filter(columns, keys.build, keys.all, keys.places);
    } else if (stands) {
      Attribute wide = KeyCast.widened((AttributeReference) columns[0], of[0].dataType());
      filter = DynamicFilters.pruning(wide, keys.build, keys.all, keys.places[0], true);
    } else if (widened) {
      Expression key = KeyCast.narrowed((Expression) keys.all.apply(keys.places[0]), columns[0].dataType());
      filter = DynamicFilters.pruning(columns[0], keys.build, list(key), 0, false);
    } else {
      filter = DynamicFilters.pruning(columns[0], keys.build, keys.all, keys.places[0], !cheap);
    }
    return isThere(above, (DynamicPruningSubquery) filter) ? there : placed(relation, above, filter);
  }

  private LogicalPlan placed(DataSourceV2ScanRelation relation, Filter above, Expression filter) {
    TwoStageScan scan = (TwoStageScan) relation.scan();
    boolean several = ((Integer) places.get(scan)).intValue() > 1;
    DataSourceV2ScanRelation own = several ? with(relation, scan.forAnotherPlace()) : relation;
    return new Filter(above == null ? filter : new And(above.condition(), filter), own);
  }

  /** Whether a filter has this one already, by the same keys, of which it will have some. */
  private boolean isThere(Filter node, DynamicPruningSubquery wanted) {
    List conjuncts = new ArrayList();
    if (node != null) {
      PlanDemand.split(node.condition(), conjuncts);
    }
    for (int i = 0; i < conjuncts.size(); i++) {
      if (conjuncts.get(i) instanceof DynamicPruningSubquery) {
        DynamicPruningSubquery one = (DynamicPruningSubquery) conjuncts.get(i);
        boolean same = one.pruningKey().semanticEquals(wanted.pruningKey()) && keyOf(one).semanticEquals(keyOf(wanted))
            || TuplesOfKeys.have(one, nameOf(wanted.pruningKey()), keyOf(wanted));
        if (same && (wanted.onlyInBroadcast() || DynamicFilters.willHaveKeys(one, root))) {
          return true;
        }
      }
    }
    return false;
  }

  /** Whether the join will broadcast the side that has these keys, so that each of them costs nothing. */
  private boolean hasBroadcast(Keys keys) {
    Expression any = (Expression) keys.all.apply(keys.places[0]);
    return DynamicFilters.willHaveKeys(DynamicFilters.pruning(any, keys.build, keys.all, keys.places[0], true), root);
  }

  static Expression keyOf(DynamicPruningSubquery filter) {
    return (Expression) filter.buildKeys().apply(((Integer) filter.broadcastKeyIndices().apply(0)).intValue());
  }

  /** A column's name with those of the structs around it, as `TwoStageScan` knows it. */
  static List nameOf(Expression column) {
    List names = column instanceof GetStructField ? nameOf(((GetStructField) column).child()) : new ArrayList();
    names.add(column instanceof GetStructField ? ((GetStructField) column).extractFieldName() : ((Attribute) column).name());
    return names;
  }

  /** The relation with another scan; Spark's versions differ in what else a relation has. */
  static DataSourceV2ScanRelation with(DataSourceV2ScanRelation relation, TwoStageScan scan) {
    Object[] values = new Object[relation.productArity()];
    for (int i = 0; i < values.length; i++) {
      values[i] = relation.productElement(i) == relation.scan() ? scan : relation.productElement(i);
    }
    return (DataSourceV2ScanRelation) relation.makeCopy(values);
  }

  private static LogicalPlan with(LogicalPlan plan, int place, LogicalPlan child) {
    if (plan.children().apply(place) == child) {
      return plan;
    }
    ListBuffer children = new ListBuffer();
    for (int i = 0; i < plan.children().size(); i++) {
      children.$plus$eq(i == place ? child : plan.children().apply(i));
    }
    return (LogicalPlan) plan.withNewChildren(children.toList());
  }

  private static Seq list(Object one) {
    ListBuffer buffer = new ListBuffer();
    buffer.$plus$eq(one);
    return buffer.toList();
  }

  private static Seq list(Object one, Object two) {
    ListBuffer buffer = new ListBuffer();
    buffer.$plus$eq(one);
    buffer.$plus$eq(two);
    return buffer.toList();
  }
}
