package twostage_planner;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.HintInfo;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_HASH$;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_MERGE$;
import org.apache.spark.sql.catalyst.plans.logical.SHUFFLE_REPLICATE_NL$;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.plans.logical.UnionLoop;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.Tuple2;
import scala.Tuple8;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Limits the dynamic filters by which keys of joins reach our scans, and hands scans over to Spark's own reader that have
 * awaited such keys and get none (see `ScansWithoutKeys`).
 *
 * Spark's `PartitionPruning` puts a filter before a scan for each join that could give it keys. The filter has a copy of
 * the join's other side, the build side, and the copy has that side's own dynamic filters: their number doubles with each
 * join, and Spark plans each of them. This rule keeps at most MAX_FILTERS in a plan, those that save most bytes first, and
 * only filters that will have keys. A scan on a build side is never filtered itself, neither in the filter's copy nor in
 * the join: the two must stay equal, or Spark finds no broadcast to take the keys from.
 *
 * In `experimental.extraOptimizations`, the only batch after `PartitionPruning` that a live session can add rules to. It runs
 * to a fixed point: given its own result, the rule must return it unchanged.
 */
final class DynamicFilters extends Rule {
  /** Filters in one plan: for each, Spark plans its build side once more. */
  static final int MAX_FILTERS = 32;
  /** A session's conf: whether joins give scans keys where Spark itself gives them none. */
  private static final String ENABLED = "spark.twostage.dynamicFilter.enabled";

  static synchronized void addTo(ExperimentalMethods methods) {
    Seq rules = methods.extraOptimizations();
    for (int i = 0; i < rules.size(); i++) {
      if (rules.apply(i) instanceof DynamicFilters) {
        return;
      }
    }
    methods.extraOptimizations_$eq((Seq) rules.appended(new DynamicFilters()));
  }

  public String ruleName() {
    return "twostage.DynamicFilters";
  }

  public TreeNode apply(TreeNode tree) {
    LogicalPlan plan = offered(new UnusedScans().rewrite((LogicalPlan) tree));
    List found = new ArrayList();
    collect(plan, false, found);
    LogicalPlan chosen = found.isEmpty() ? plan : new FilterChoice(plan, found).rewrite(plan);
    return new ScansWithoutKeys(chosen).rewrite(chosen);
  }

  /** The plan with filters where Spark put none, unless the session says that there are to be none. */
  private static LogicalPlan offered(LogicalPlan plan) {
    SQLConf conf = SQLConf.get();
    boolean correlated = plan instanceof Subquery && ((Subquery) plan).correlated();
    if (!conf.dynamicPartitionPruningEnabled() || correlated || !"true".equals(conf.getConfString(ENABLED, "true"))) {
      return plan;
    }
    if (!new OfferedKeys(plan).hasScans()) {
      return plan;
    }
    LogicalPlan sized = DriverRows.withSizes(plan);
    LogicalPlan offered = new OfferedKeys(sized).offer(sized);
    return new OfferedKeys(offered).offerBlooms(offered);
  }

  /** Spark's own filter of `key` by one of the keys of a build side. */
  static DynamicPruningSubquery pruning(
      Expression key, LogicalPlan build, Seq buildKeys, int place, boolean onlyInBroadcast) {
    ListBuffer places = new ListBuffer();
    places.$plus$eq(Integer.valueOf(place));
    List values = new ArrayList();
    values.add(key);
    values.add(build);
    values.add(buildKeys);
    values.add(places.toList());
    values.add(Boolean.valueOf(onlyInBroadcast));
    values.add(NamedExpression$.MODULE$.newExprId());
    return SparkInternals.dynamicPruning(values);
  }

  /** A filter of the plan, with the scan of ours that it filters (null for another source's). */
  private static final class PlacedFilter {
    final DynamicPruningSubquery filter;
    final DataSourceV2ScanRelation relation;
    /** See `isPlannedLater`. */
    final boolean isInLaterPlan;
    /** The scans of ours that its keys are read from, as the relation by each. */
    final Map sources = new IdentityHashMap();
    /** Bytes that are read if this filter is not kept, less those that are read because it is. */
    double gain;

    PlacedFilter(DynamicPruningSubquery filter, DataSourceV2ScanRelation relation, boolean isInLaterPlan) {
      this.filter = filter;
      this.relation = relation;
      this.isInLaterPlan = isInLaterPlan;
      collectScans((LogicalPlan) filter.plan(), sources, new IdentityHashMap());
    }

    /** The scan's bytes, less those of scans that give it its keys and could be filtered themselves. */
    void weigh(Map filterable) {
      gain = BuildSide.size(relation);
      for (Iterator it = sources.entrySet().iterator(); it.hasNext();) {
        Map.Entry source = (Map.Entry) it.next();
        gain -= filterable.containsKey(source.getKey()) ? BuildSide.size((LogicalPlan) source.getValue()) : 0;
      }
    }
  }

  /** The filter that saves most first. */
  private static final class ByGain implements Comparator {
    public int compare(Object one, Object other) {
      return Double.compare(((PlacedFilter) other).gain, ((PlacedFilter) one).gain);
    }
  }

  /**
   * Whether Spark plans again what is below, in another plan: a CTE that is not inlined, whose references it replaces by
   * repartitions, or a recursive one. A dynamic filter there ends the query in an error of Spark's own, even for a partitioned
   * table of Spark's. Each level of a recursive CTE is given keys of its own when it is planned, for the scans that were not handed to Spark's reader before.
   */
  static boolean isPlannedLater(LogicalPlan plan) {
    return plan instanceof CTERelationDef || plan instanceof UnionLoop;
  }

  private static void collect(LogicalPlan plan, boolean isBelow, List found) {
    boolean isInLaterPlan = isBelow || isPlannedLater(plan);
    if (plan instanceof Filter) {
      List conjuncts = new ArrayList();
      PlanDemand.split(((Filter) plan).condition(), conjuncts);
      for (int i = 0; i < conjuncts.size(); i++) {
        if (conjuncts.get(i) instanceof DynamicPruningSubquery) {
          DynamicPruningSubquery filter = (DynamicPruningSubquery) conjuncts.get(i);
          found.add(new PlacedFilter(filter, filtered(filter, (Filter) plan), isInLaterPlan));
        }
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      collect((LogicalPlan) children.apply(i), isInLaterPlan, found);
    }
  }

  /** The scan of ours whose column a filter tests; null if it is another source's. */
  private static DataSourceV2ScanRelation filtered(DynamicPruningSubquery filter, Filter node) {
    Option found = PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(filter.pruningKey(), node.child());
    Object leaf = found.isDefined() ? ((Tuple2) found.get())._2() : null;
    return isOurs(leaf) ? (DataSourceV2ScanRelation) leaf : null;
  }

  static boolean isOurs(Object leaf) {
    return leaf instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) leaf).scan() instanceof TwoStageScan;
  }

  /** Which filters of one plan are kept. Maps are by identity: optimized plans share nodes, and so do copies of build sides. */
  private static final class FilterChoice {
    private final Map kept = new IdentityHashMap();
    /** Build sides without filters on scans of ours, by what they were. */
    private final Map stripped = new IdentityHashMap();

    FilterChoice(LogicalPlan plan, List all) {
      Map buildScans = new IdentityHashMap();
      Map filterable = new IdentityHashMap();
      List ours = new ArrayList();
      for (int i = 0; i < all.size(); i++) {
        PlacedFilter found = (PlacedFilter) all.get(i);
        if (found.relation == null) {
          kept.put(found.filter, found);
          buildScans.putAll(found.sources);
        } else if (!found.isInLaterPlan && testsColumn(found.filter) && willHaveKeys(found.filter, plan)) {
          ours.add(found);
          filterable.put(found.relation.scan(), found);
        }
      }
      for (int i = 0; i < ours.size(); i++) {
        ((PlacedFilter) ours.get(i)).weigh(filterable);
      }
      Collections.sort(ours, new ByGain());
      Map filtered = new IdentityHashMap();
      int count = 0;
      for (int i = 0; i < ours.size() && count < MAX_FILTERS; i++) {
        PlacedFilter found = (PlacedFilter) ours.get(i);
        if (!buildScans.containsKey(found.relation.scan())
            && Collections.disjoint(found.sources.keySet(), filtered.keySet())) {
          buildScans.putAll(found.sources);
          filtered.put(found.relation.scan(), found);
          kept.put(found.filter, found);
          count++;
        }
      }
    }

    LogicalPlan rewrite(LogicalPlan plan) {
      LogicalPlan node = withChildren(plan, false);
      return node instanceof Filter ? filter((Filter) node, false) : node;
    }

    /** A build side without filters on scans of ours. */
    private LogicalPlan strip(LogicalPlan plan) {
      LogicalPlan node = (LogicalPlan) stripped.get(plan);
      if (node == null) {
        node = withChildren(plan, true);
        node = node instanceof Filter ? filter((Filter) node, true) : node;
        stripped.put(plan, node);
      }
      return node;
    }

    private LogicalPlan withChildren(LogicalPlan plan, boolean strips) {
      Seq children = plan.children();
      ListBuffer visited = new ListBuffer();
      boolean changed = false;
      for (int i = 0; i < children.size(); i++) {
        LogicalPlan child = (LogicalPlan) children.apply(i);
        LogicalPlan other = strips ? strip(child) : rewrite(child);
        changed = changed || other != child;
        visited.$plus$eq(other);
      }
      return changed ? (LogicalPlan) plan.withNewChildren(visited.toList()) : plan;
    }

    private LogicalPlan filter(Filter node, boolean strips) {
      List conjuncts = new ArrayList();
      PlanDemand.split(node.condition(), conjuncts);
      Expression remaining = null;
      boolean changed = false;
      for (int i = 0; i < conjuncts.size(); i++) {
        Expression one = (Expression) conjuncts.get(i);
        if (one instanceof DynamicPruningSubquery) {
          DynamicPruningSubquery filter = (DynamicPruningSubquery) one;
          boolean isKept = strips ? filtered(filter, node) == null : kept.containsKey(filter);
          LogicalPlan side = (LogicalPlan) filter.plan();
          LogicalPlan bare = isKept ? strip(side) : null;
          changed = changed || bare != side;
          one = bare == null ? null : bare == side ? filter : filter.withNewPlan(bare);
        }
        remaining = remaining == null ? one : one == null ? remaining : new And(remaining, one);
      }
      return !changed ? node : remaining == null ? node.child() : new Filter(remaining, node.child());
    }
  }

  /** Whether a filter tests a column or a field of its structs: of `n + 1` Spark tells a source nothing. */
  private static boolean testsColumn(DynamicPruningSubquery filter) {
    Expression key = filter.pruningKey();
    while (key instanceof GetStructField) {
      key = ((GetStructField) key).child();
    }
    return key instanceof AttributeReference;
  }

  /** Puts the scans of ours in a plan into `into`. */
  static void collectScans(LogicalPlan plan, Map into, Map seen) {
    if (seen.put(plan, plan) != null) {
      return;
    }
    if (isOurs(plan)) {
      into.put(((DataSourceV2ScanRelation) plan).scan(), plan);
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      collectScans((LogicalPlan) children.apply(i), into, seen);
    }
  }

  /**
   * Whether a filter will certainly have keys of the join's rows: Spark drops one that needs the join's broadcast if the join
   * has none, and reads the side of any other a second time (`spark.sql.optimizer.dynamicPartitionPruning.reuseBroadcastOnly`
   * is false), though a second run may give other keys.
   */
  static boolean willHaveKeys(DynamicPruningSubquery filter, LogicalPlan plan) {
    if (!filter.onlyInBroadcast()) {
      return BuildSide.isRepeatable((LogicalPlan) filter.plan());
    }
    Boolean found = isBroadcast(filter, plan);
    return found != null ? found.booleanValue()
        : PartitionPruning$.MODULE$.canBroadcastBySize((LogicalPlan) filter.plan(), SQLConf.get());
  }

  /** Whether the join that a filter was made for will broadcast its build side; null if the plan has no such join. */
  private static Boolean isBroadcast(DynamicPruningSubquery filter, LogicalPlan plan) {
    if (plan instanceof Join) {
      Option keys = ExtractEquiJoinKeys$.MODULE$.unapply((Join) plan);
      if (keys.isDefined()) {
        boolean left = areEqual((Seq) ((Tuple8) keys.get())._2(), filter.buildKeys());
        if (left || areEqual((Seq) ((Tuple8) keys.get())._3(), filter.buildKeys())) {
          Object side = broadcastSide((Join) plan);
          return Boolean.valueOf(side == (left ? (Object) BuildLeft$.MODULE$ : (Object) BuildRight$.MODULE$));
        }
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      Boolean found = isBroadcast(filter, (LogicalPlan) children.apply(i));
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  /** The side that a join will broadcast for a hash join, as Spark chooses it; null for none. */
  private static Object broadcastSide(Join join) {
    SQLConf conf = SQLConf.get();
    Option side = PartitionPruning$.MODULE$.getBroadcastBuildSide(join, true, conf);
    boolean asked = isShuffled(join.hint().leftHint()) || isShuffled(join.hint().rightHint());
    if (side.isEmpty() && !asked && PartitionPruning$.MODULE$.canPlanAsBroadcastHashJoin(join, conf)) {
      side = PartitionPruning$.MODULE$.getBroadcastBuildSide(join, false, conf);
    }
    return side.isDefined() ? side.get() : null;
  }

  /** Whether a hint asks for another join than a broadcast join, which `canPlanAsBroadcastHashJoin` ignores. */
  private static boolean isShuffled(Option hint) {
    Option strategy = hint.isDefined() ? ((HintInfo) hint.get()).strategy() : Option.empty();
    Object asked = strategy.isDefined() ? strategy.get() : null;
    return asked == SHUFFLE_MERGE$.MODULE$ || asked == SHUFFLE_HASH$.MODULE$ || asked == SHUFFLE_REPLICATE_NL$.MODULE$;
  }

  private static boolean areEqual(Seq keys, Seq others) {
    if (keys.size() != others.size()) {
      return false;
    }
    for (int i = 0; i < keys.size(); i++) {
      if (!((Expression) keys.apply(i)).semanticEquals((Expression) others.apply(i))) {
        return false;
      }
    }
    return true;
  }
}
