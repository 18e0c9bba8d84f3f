package twostage_planner;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningExpression;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.execution.BaseSubqueryExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.InSubqueryExec;
import org.apache.spark.sql.execution.ReusedSubqueryExec;
import org.apache.spark.sql.execution.ScalarSubquery;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.SubqueryBroadcastExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;
import scala.collection.Iterator;

/** What Spark measured about the joins whose keys filter a scan, for its report. */
final class KeyFilterMetrics {
  private static final String[] WAITED = {"collectTime"};
  private static final String[] BUILT = {"collectTime", "buildTime", "broadcastTime"};

  private KeyFilterMetrics() {}

  /**
   * One map for each join that gave keys: column, sources, milliseconds until the keys were there, how many they are, from a
   * broadcast or not, and the milliseconds that it took.
   */
  static List of(BatchScanExec scan) {
    List found = new ArrayList();
    Iterator filters = scan.runtimeFilters().iterator();
    while (filters.hasNext()) {
      Object filter = filters.next();
      Expression keys =
          filter instanceof DynamicPruningExpression ? ((DynamicPruningExpression) filter).child() : (Expression) filter;
      if (keys instanceof InSubqueryExec) {
        found.add(of((InSubqueryExec) keys));
      } else if (keys instanceof EqualTo) {
        addScalar((EqualTo) keys, found);
      }
    }
    return found;
  }

  /** The same for a scan by Spark's reader, whose files keys prune (see `KeyRanges`). */
  static List of(FileSourceScanExec scan, String[] columns) {
    List found = new ArrayList();
    Iterator filters = scan.partitionFilters().iterator();
    while (filters.hasNext()) {
      Expression filter = (Expression) filters.next();
      String column = KeyRanges.columnOf(filter, columns);
      collect(filter, column, found);
    }
    return found;
  }

  private static void collect(Expression expression, String column, List found) {
    if (expression instanceof InSubqueryExec) {
      Map keys = of((InSubqueryExec) expression);
      keys.put("column", column == null ? keys.get("column") : column);
      found.add(keys);
    }
    Iterator children = expression.children().iterator();
    while (children.hasNext()) {
      collect((Expression) children.next(), column, found);
    }
  }

  /** `column = (SELECT …)`, which Spark itself hands to a scan since 4.2. */
  private static void addScalar(EqualTo filter, List found) {
    Expression value = filter.left() instanceof ScalarSubquery ? filter.left() : filter.right();
    Expression column = value == filter.left() ? filter.right() : filter.left();
    while (column instanceof Cast) {
      column = ((Cast) column).child();
    }
    if (value instanceof ScalarSubquery) {
      found.add(of(column, ((ScalarSubquery) value).plan(), Integer.valueOf(1)));
    }
  }

  private static Map of(InSubqueryExec keys) {
    Option values = keys.values();
    boolean counted = values.isDefined() && !SparkBloom.isTested(keys.child().dataType());
    return of(keys.child(), keys.plan(), counted ? Integer.valueOf(((Object[]) values.get()).length) : null);
  }

  private static Map of(Expression column, BaseSubqueryExec subquery, Integer count) {
    BaseSubqueryExec plan = subquery;
    while (plan instanceof ReusedSubqueryExec) {
      plan = ((ReusedSubqueryExec) plan).child();
    }
    Set sources = new LinkedHashSet();
    collectSources((SparkPlan) plan, sources);
    Map found = new LinkedHashMap();
    found.put("column", column.sql().replace("`", ""));
    found.put("sources", new ArrayList(sources));
    found.put("milliseconds", milliseconds((SparkPlan) plan, WAITED));
    found.put("keys", count);
    BroadcastExchangeExec broadcast = broadcastOf((SparkPlan) plan);
    found.put("built", broadcast == null ? null : milliseconds(broadcast, BUILT));
    found.put("broadcast", Boolean.valueOf(plan instanceof SubqueryBroadcastExec));
    return found;
  }

  private static Long milliseconds(SparkPlan plan, String[] metrics) {
    long sum = 0;
    for (int i = 0; i < metrics.length; i++) {
      Object value = plan.metrics().contains(metrics[i]) ? ((AccumulatorV2) plan.metrics().apply(metrics[i])).value() : null;
      sum += value instanceof Number ? Math.max(0L, ((Number) value).longValue()) : 0L;
    }
    return Long.valueOf(sum);
  }

  /** The broadcast that keys are taken from, wherever it was made; null for none. */
  private static BroadcastExchangeExec broadcastOf(SparkPlan plan) {
    if (plan instanceof BroadcastExchangeExec) {
      return (BroadcastExchangeExec) plan;
    }
    if (plan instanceof SubqueryBroadcastExec) {
      return broadcastOf(((SubqueryBroadcastExec) plan).child());
    }
    if (plan instanceof AdaptiveSparkPlanExec) {
      return broadcastOf(((AdaptiveSparkPlanExec) plan).executedPlan());
    }
    if (plan instanceof QueryStageExec) {
      return broadcastOf(((QueryStageExec) plan).plan());
    }
    return plan instanceof ReusedExchangeExec ? broadcastOf((SparkPlan) ((ReusedExchangeExec) plan).child()) : null;
  }

  /** The names of what a side reads, as EXPLAIN has them. */
  private static void collectSources(SparkPlan plan, Set into) {
    if (plan instanceof AdaptiveSparkPlanExec) {
      collectSources(((AdaptiveSparkPlanExec) plan).executedPlan(), into);
    } else if (plan instanceof QueryStageExec) {
      collectSources(((QueryStageExec) plan).plan(), into);
    } else if (plan instanceof ReusedExchangeExec) {
      collectSources((SparkPlan) ((ReusedExchangeExec) plan).child(), into);
    } else if (plan.children().isEmpty()) {
      into.add(plan.nodeName().trim());
    }
    Iterator children = plan.children().iterator();
    while (children.hasNext()) {
      collectSources((SparkPlan) children.next(), into);
    }
  }
}
