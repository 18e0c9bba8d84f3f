package twostage_planner;

import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;

/**
 * A plan whose scans of ours were not read yet.
 *
 * A recursive CTE plans its optimized recursive member again for each level, around the same scans. Where one level has keys
 * of a join for a scan and the next has none, Spark does not tell the scan, which would read with the keys that it had: rows
 * would be missing. So a scan that was read, or was given keys, is replaced by a copy without them.
 */
final class UnusedScans extends PlanRewrite {
  /** Copies by the scans that they replace, by identity. */
  private final Map copies = new IdentityHashMap();
  /** What distinguishes copies from their scans, by scan: for equal scans it is equal, too. */
  private final Map tokens = new HashMap();

  LogicalPlan visit(LogicalPlan plan) {
    return DynamicFilters.isOurs(plan) ? unused((DataSourceV2ScanRelation) plan) : below(plan);
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
}
