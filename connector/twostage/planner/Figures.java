package twostage_planner;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/**
 * What Spark itself measured, kept when a query ends, of the last MOST scans: how long it planned the query, and its own
 * metrics of scans that were handed over. Not the bytes that its tasks count, which leave vectored reads out: 55 KiB of
 * 157 MiB.
 */
public final class Figures extends SparkListener {
  private static final int MOST = 100;
  private static final long PATIENCE_MILLISECONDS = 5000L;
  private static final String[] PHASES = {"analysis", "optimization", "planning"};
  private static final String[] NAMES = {"numFiles", "filesSize", "numOutputRows", "scanTime"};
  private static final Map WATCHED = new WeakHashMap();
  /** By scan id: numbers by metric name. */
  private static final Map SCANS = new LinkedHashMap();

  private Figures() {}

  /** Listens to a context's queries, once. */
  static synchronized void watch(SparkContext context) {
    if (!WATCHED.containsKey(context)) {
      WATCHED.put(context, Boolean.TRUE);
      context.addSparkListener(new Figures());
    }
  }

  /** The figures by scan id, as JSON, once Spark's listeners have seen what happened before. */
  public static String take(Object session) throws java.io.IOException {
    try {
      ((org.apache.spark.sql.SparkSession) session).sparkContext().listenerBus().waitUntilEmpty(PATIENCE_MILLISECONDS);
    } catch (Exception busy) {
      // What is there by now must do.
    }
    synchronized (SCANS) {
      return new ObjectMapper().writeValueAsString(SCANS);
    }
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd) || !TwoStageFiles.wasMade() && !TwoStageScan.wasRead()) {
      return;
    }
    QueryExecution query = ((SparkListenerSQLExecutionEnd) event).qe();
    try {
      if (query != null) {
        visit(query.executedPlan(), phases(query));
      }
    } catch (Exception planningFailed) {
      // Such a query read nothing.
    }
  }

  /** Milliseconds of each phase of planning, before the query began. */
  private static Map phases(QueryExecution query) {
    Map found = new LinkedHashMap();
    for (int i = 0; i < PHASES.length; i++) {
      Option phase = query.tracker().phases().get(PHASES[i]);
      if (phase.isDefined()) {
        found.put(PHASES[i], Long.valueOf(((QueryPlanningTracker.PhaseSummary) phase.get()).durationMs()));
      }
    }
    return found;
  }

  private static void visit(SparkPlan plan, Map phases) {
    if (plan instanceof FileSourceScanExec) {
      FileIndex files = ((HadoopFsRelation) ((FileSourceScanExec) plan).productElement(0)).location();
      if (files instanceof TwoStageFiles) {
        keep(((TwoStageFiles) files).scan(), (FileSourceScanExec) plan, phases);
      }
    } else if (plan instanceof BatchScanExec && ((BatchScanExec) plan).scan() instanceof TwoStageScan) {
      Iterator ids = ((TwoStageScan) ((BatchScanExec) plan).scan()).ids().iterator();
      while (ids.hasNext()) {
        put((String) ids.next(), phases);
      }
    } else if (plan instanceof AdaptiveSparkPlanExec) {
      visit(((AdaptiveSparkPlanExec) plan).executedPlan(), phases);
    } else if (plan instanceof QueryStageExec) {
      visit(((QueryStageExec) plan).plan(), phases);
    } else if (plan instanceof InMemoryTableScanExec) {
      visit(((InMemoryTableScanExec) plan).relation().cachedPlan(), phases);
    }
    visitAll(plan.children().iterator(), phases);
    visitAll(plan.subqueries().iterator(), phases);
  }

  private static void visitAll(scala.collection.Iterator plans, Map phases) {
    while (plans.hasNext()) {
      visit((SparkPlan) plans.next(), phases);
    }
  }

  /** Keeps a scan's figures; those of a query that found its rows in a cache say nothing. */
  private static void keep(String id, FileSourceScanExec scan, Map phases) {
    Map found = new LinkedHashMap(phases);
    for (int i = 0; i < NAMES.length; i++) {
      if (scan.metrics().contains(NAMES[i])) {
        found.put(NAMES[i], ((AccumulatorV2) scan.metrics().apply(NAMES[i])).value());
      }
    }
    Long files = (Long) found.get("numFiles");
    if (files == null || files.longValue() <= 0) {
      return;
    }
    put(id, found);
  }

  private static void put(String id, Map found) {
    synchronized (SCANS) {
      SCANS.remove(id);
      SCANS.put(id, found);
      if (SCANS.size() > MOST) {
        SCANS.remove(SCANS.keySet().iterator().next());
      }
    }
  }
}
