package twostage_planner;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;

/**
 * The scans of a plan that have awaited keys, and get none or only such as prune whole files: they become Spark's own.
 * A scan may be in several places: in a join, and in the copies of the join's side that filters take their keys from. All
 * become Spark's or none, or Spark would not find them equal.
 */
final class ScansWithoutKeys extends PlanRewrite {
  /** Scans below a filter by keys that only our own reader can apply. */
  private final Map filtered = new IdentityHashMap();
  /** The `AwaitedKeys` of scans directly below a filter by keys that prune files. */
  private final Map pruned = new IdentityHashMap();

  ScansWithoutKeys(LogicalPlan plan) {
    collectFiltered(plan, new IdentityHashMap());
  }

  private void collectFiltered(LogicalPlan plan, Map seen) {
    if (seen.put(plan, plan) != null) {
      return;
    }
    if (plan instanceof Filter) {
      List conjuncts = new ArrayList();
      PlanDemand.split(((Filter) plan).condition(), conjuncts);
      for (int i = 0; i < conjuncts.size(); i++) {
        if (conjuncts.get(i) instanceof DynamicPruningSubquery) {
          if (leavesOutFiles((DynamicPruningSubquery) conjuncts.get(i), plan)) {
            pruned.put(((TwoStageScan) ((DataSourceV2ScanRelation) ((Filter) plan).child()).scan()).awaited, plan);
          } else {
            DynamicFilters.collectScans(plan, filtered, new IdentityHashMap());
          }
          collectFiltered((LogicalPlan) ((DynamicPruningSubquery) conjuncts.get(i)).plan(), seen);
        }
      }
      if (ScalarKey.IS_SPARK_S && ScalarKey.of(conjuncts) != null) {
        DynamicFilters.collectScans(plan, filtered, new IdentityHashMap());
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      collectFiltered((LogicalPlan) children.apply(i), seen);
    }
  }

  /** Whether a filter by keys that is directly above a scan prunes its files. */
  private static boolean leavesOutFiles(DynamicPruningSubquery filter, LogicalPlan above) {
    LogicalPlan child = (LogicalPlan) above.children().apply(0);
    return filter.pruningKey() instanceof AttributeReference && KeyRanges.takes(filter.pruningKey().dataType())
        && DynamicFilters.isOurs(child)
        && ((TwoStageScan) ((DataSourceV2ScanRelation) child).scan())
            .awaitsKeysOfFiles(((AttributeReference) filter.pruningKey()).name());
  }

  LogicalPlan visit(LogicalPlan plan) {
    if (plan instanceof Subquery && ((Subquery) plan).correlated()) {
      return plan; // Spark offers keys when it has become a join of the query around it, which is optimized later
    }
    if (DynamicFilters.isOurs(plan)) {
      LogicalPlan other = scan((DataSourceV2ScanRelation) plan, new ArrayList());
      return other == null ? plan : other;
    }
    if (plan instanceof Filter && DynamicFilters.isOurs(((Filter) plan).child())) {
      LogicalPlan other = prunedScan((Filter) plan);
      if (other != null) {
        return other;
      }
    }
    return below(plan);
  }

  /** Spark's own scan; null if it stays ours. */
  private LogicalPlan scan(DataSourceV2ScanRelation relation, List keys) {
    TwoStageScan scan = (TwoStageScan) relation.scan();
    return filtered.containsKey(scan) ? null : scan.handedOver(relation, pruned.containsKey(scan.awaited), keys);
  }

  /** Spark's own scan below a filter, whose filters by keys go into the scan; null if the scan stays ours. */
  private LogicalPlan prunedScan(Filter node) {
    List conjuncts = new ArrayList();
    PlanDemand.split(node.condition(), conjuncts);
    List keys = new ArrayList();
    Expression condition = null;
    for (int i = 0; i < conjuncts.size(); i++) {
      Expression one = (Expression) conjuncts.get(i);
      if (one instanceof DynamicPruningSubquery) {
        keys.add(withSide((DynamicPruningSubquery) one));
      } else {
        condition = condition == null ? one : new And(condition, one);
      }
    }
    LogicalPlan scan = scan((DataSourceV2ScanRelation) node.child(), keys);
    return scan == null || condition == null ? scan : new Filter(condition, scan);
  }
}
