package twostage_planner;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.optimizer.BuildLeft$;
import org.apache.spark.sql.catalyst.optimizer.BuildRight$;
import org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
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
 * Bounds the filters by which a join's keys come to our scans. Spark's `PartitionPruning` puts one before a scan for each
 * join that could give it keys, with a copy of the join's other side, which holds that side's own such filters: their
 * number doubles with each join, and Spark plans each of them. Here stay at most MOST of a plan, the largest scans'
 * first, and only those that will have keys. No side that gives keys is filtered by another one's, neither in its copy
 * nor in the join: the two must stay alike, or Spark finds no broadcast to take the keys from.
 *
 * In `experimental.extraOptimizations`, the only batch behind `PartitionPruning` that a live session takes. It runs to a
 * fixed point, so what is bounded already must come out as it went in.
 */
final class DynamicFilters extends Rule {
  /** Filters of one plan: each is planned once more, with the keys' side, and so is its scan. */
  static final int MOST = 32;

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
    LogicalPlan plan = (LogicalPlan) tree;
    List found = new ArrayList();
    collect(plan, found);
    if (found.isEmpty()) {
      return plan;
    }
    return new Bounded(plan, found).rewrite(plan);
  }

  /** One filter of the plan, with the scan of ours that it is put before (null for another source's). */
  private static final class Found {
    final DynamicPruningSubquery filter;
    final DataSourceV2ScanRelation relation;

    Found(DynamicPruningSubquery filter, DataSourceV2ScanRelation relation) {
      this.filter = filter;
      this.relation = relation;
    }

    scala.math.BigInt size() {
      return relation.stats().sizeInBytes();
    }
  }

  private static final class BySize implements Comparator {
    public int compare(Object one, Object other) {
      return ((Found) other).size().compare(((Found) one).size());
    }
  }

  private static void collect(LogicalPlan plan, List found) {
    if (plan instanceof Filter) {
      List conjuncts = new ArrayList();
      Above.split(((Filter) plan).condition(), conjuncts);
      for (int i = 0; i < conjuncts.size(); i++) {
        if (conjuncts.get(i) instanceof DynamicPruningSubquery) {
          DynamicPruningSubquery filter = (DynamicPruningSubquery) conjuncts.get(i);
          found.add(new Found(filter, filtered(filter, (Filter) plan)));
        }
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      collect((LogicalPlan) children.apply(i), found);
    }
  }

  /** The scan of ours whose column a filter tests; null if it is another source's. */
  private static DataSourceV2ScanRelation filtered(DynamicPruningSubquery filter, Filter node) {
    Option found = PartitionPruning$.MODULE$.findExpressionAndTrackLineageDown(filter.pruningKey(), node.child());
    Object leaf = found.isDefined() ? ((Tuple2) found.get())._2() : null;
    return isOurs(leaf) ? (DataSourceV2ScanRelation) leaf : null;
  }

  private static boolean isOurs(Object leaf) {
    return leaf instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) leaf).scan() instanceof TwoStageScan;
  }

  /** Which filters of one plan stay. Maps are by identity: optimized plans share nodes, and so do the copies of sides. */
  private static final class Bounded {
    private final Map stay = new IdentityHashMap();
    private final Map stripped = new IdentityHashMap();

    Bounded(LogicalPlan plan, List all) {
      Map giving = new IdentityHashMap();
      List ours = new ArrayList();
      for (int i = 0; i < all.size(); i++) {
        Found found = (Found) all.get(i);
        if (found.relation == null) {
          stay.put(found.filter, found);
          scans((LogicalPlan) found.filter.plan(), giving, new IdentityHashMap());
        } else {
          ours.add(found);
        }
      }
      Collections.sort(ours, new BySize());
      Map filtered = new IdentityHashMap();
      int count = 0;
      for (int i = 0; i < ours.size() && count < MOST; i++) {
        Found found = (Found) ours.get(i);
        Map sources = new IdentityHashMap();
        scans((LogicalPlan) found.filter.plan(), sources, new IdentityHashMap());
        if (!giving.containsKey(found.relation.scan())
            && Collections.disjoint(sources.keySet(), filtered.keySet()) && comes(found.filter, plan)) {
          giving.putAll(sources);
          filtered.put(found.relation.scan(), found);
          stay.put(found.filter, found);
          count++;
        }
      }
    }

    LogicalPlan rewrite(LogicalPlan plan) {
      LogicalPlan node = withChildren(plan, false);
      return node instanceof Filter ? filter((Filter) node, false) : node;
    }

    /** A side that gives keys, without filters on scans of ours. */
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
      Above.split(node.condition(), conjuncts);
      Expression kept = null;
      boolean changed = false;
      for (int i = 0; i < conjuncts.size(); i++) {
        Expression one = (Expression) conjuncts.get(i);
        if (one instanceof DynamicPruningSubquery) {
          DynamicPruningSubquery filter = (DynamicPruningSubquery) one;
          boolean stays = strips ? filtered(filter, node) == null : stay.containsKey(filter);
          LogicalPlan side = (LogicalPlan) filter.plan();
          LogicalPlan bare = stays ? strip(side) : null;
          changed = changed || bare != side;
          one = bare == null ? null : bare == side ? filter : filter.withNewPlan(bare);
        }
        kept = kept == null ? one : one == null ? kept : new And(kept, one);
      }
      return !changed ? node : kept == null ? node.child() : new Filter(kept, node.child());
    }
  }

  /** Puts the scans of ours in a plan into `into`. */
  private static void scans(LogicalPlan plan, Map into, Map seen) {
    if (seen.put(plan, plan) != null) {
      return;
    }
    if (isOurs(plan)) {
      into.put(((DataSourceV2ScanRelation) plan).scan(), plan);
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      scans((LogicalPlan) children.apply(i), into, seen);
    }
  }

  /** Whether a filter will have keys: Spark drops one that needs the join's broadcast where the join has none. */
  private static boolean comes(DynamicPruningSubquery filter, LogicalPlan plan) {
    if (!filter.onlyInBroadcast()) {
      return true;
    }
    Boolean found = isBuilt(filter, plan);
    return found != null ? found.booleanValue()
        : PartitionPruning$.MODULE$.canBroadcastBySize((LogicalPlan) filter.plan(), SQLConf.get());
  }

  /** Whether the join that a filter was made for will broadcast the side that gives the keys; null if it isn't there. */
  private static Boolean isBuilt(DynamicPruningSubquery filter, LogicalPlan plan) {
    if (plan instanceof Join) {
      Option keys = ExtractEquiJoinKeys$.MODULE$.unapply((Join) plan);
      if (keys.isDefined()) {
        boolean left = same((Seq) ((Tuple8) keys.get())._2(), filter.buildKeys());
        if (left || same((Seq) ((Tuple8) keys.get())._3(), filter.buildKeys())) {
          Object side = broadcast((Join) plan);
          return Boolean.valueOf(side == (left ? (Object) BuildLeft$.MODULE$ : (Object) BuildRight$.MODULE$));
        }
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      Boolean found = isBuilt(filter, (LogicalPlan) children.apply(i));
      if (found != null) {
        return found;
      }
    }
    return null;
  }

  /** The side that a join will broadcast for a hash join, as Spark chooses it; null for none. */
  private static Object broadcast(Join join) {
    SQLConf conf = SQLConf.get();
    Option side = PartitionPruning$.MODULE$.getBroadcastBuildSide(join, true, conf);
    if (side.isEmpty() && PartitionPruning$.MODULE$.canPlanAsBroadcastHashJoin(join, conf)) {
      side = PartitionPruning$.MODULE$.getBroadcastBuildSide(join, false, conf);
    }
    return side.isDefined() ? side.get() : null;
  }

  private static boolean same(Seq keys, Seq others) {
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
