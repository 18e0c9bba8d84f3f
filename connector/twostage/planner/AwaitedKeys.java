package twostage_planner;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.collection.immutable.Seq;

/**
 * A relation whose scan Spark's own reader was not given for one reason: join keys may prune it. Where none will come,
 * or only keys that leave out whole files, the scan is handed over after all.
 */
final class AwaitedKeys {
  private final ScanHandover handover;
  private final TwoStageTable table;
  private final Requests.ScanDemand demand;
  /** The attributes that the scan must return, and the conjuncts of the filters above it, in the demand's order. */
  private final List needed;
  private final List predicates;
  /** The columns whose keys prune whole files for Spark's reader. */
  final List columns;
  /** Keys of all others are wanted too, for our own reader: if any come, the scan stays. */
  final boolean takesOthers;
  /** Spark's scan of the relation; null if it was decided that there is none. */
  private LogicalPlan scan;
  private boolean isDecided;
  /** The scan has the columns by which keys prune its files. */
  private boolean isPruned;
  /** Why the scan stays though it could have been handed over; null if that was not asked, or it does not stay. */
  private String reason;

  AwaitedKeys(
      ScanHandover handover, TwoStageTable table, Requests.ScanDemand demand, List needed, List predicates,
      Answers.HandOver answer) {
    this.handover = handover;
    this.table = table;
    this.demand = demand;
    this.needed = needed;
    this.predicates = predicates;
    columns = Arrays.asList(answer.keyColumns);
    takesOthers = !answer.onlyKeyColumns;
  }

  /**
   * Spark's scan in place of `relation`, which returns the same rows: those that meet the predicates `exact`, which our scan
   * took over from Spark. Null if the scan stays. The same object each time, so that Spark finds equal sides of joins equal.
   * `keys` are the filters by keys (`DynamicPruningSubquery`) above it in this place of the plan, and `hasKeys` tells
   * whether there are any in one of its places.
   */
  synchronized LogicalPlan scan(
      DataSourceV2ScanRelation relation, List exact, String planned, boolean hasKeys, List keys) {
    List conjuncts = filtersOf(exact);
    if (conjuncts == null) {
      return null;
    }
    if (!isDecided) {
      isDecided = true;
      isPruned = hasKeys;
      ScanHandover.Late late = handover.afterKeys(table, demand, needed, planned, hasKeys);
      scan = late.scan;
      reason = late.reason;
    }
    if (scan == null || !returnsAll((Seq) relation.output())) {
      return null;
    }
    Expression condition = null;
    for (int i = 0; i < conjuncts.size(); i++) {
      Expression one = (Expression) conjuncts.get(i);
      condition = condition == null ? one : new And(condition, one);
    }
    LogicalPlan pruned = isPruned ? KeyRanges.prune(scan, (String[]) columns.toArray(new String[0]), keys) : scan;
    return new Project((Seq) relation.output(), condition == null ? pruned : new Filter(condition, pruned));
  }

  synchronized String reason() {
    return reason;
  }

  /** The conjuncts of Spark's filters that have these forms; null if one has no such conjunct. */
  private List filtersOf(List exact) {
    List found = new ArrayList();
    for (int i = 0; i < exact.size(); i++) {
      Expression conjunct = filterOf((Map) exact.get(i));
      if (conjunct == null) {
        return null;
      }
      found.add(conjunct);
    }
    return found;
  }

  private Expression filterOf(Map form) {
    for (int i = 0; i < predicates.size(); i++) {
      if (form.equals(demand.predicates[i].form) && ((Expression) predicates.get(i)).deterministic()) {
        return (Expression) predicates.get(i);
      }
    }
    return null;
  }

  private boolean returnsAll(Seq output) {
    for (int i = 0; i < output.size(); i++) {
      if (!(output.apply(i) instanceof AttributeReference) || !scan.outputSet().contains((AttributeReference) output.apply(i))) {
        return false;
      }
    }
    return true;
  }
}
