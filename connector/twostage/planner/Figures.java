package twostage_planner;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.WeakHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.SparkListenerTaskStart;
import org.apache.spark.sql.catalyst.QueryPlanningTracker;
import org.apache.spark.sql.execution.BaseLimitExec;
import org.apache.spark.sql.execution.CollectLimitExec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.exchange.Exchange;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/**
 * What a report needs of Spark's listeners. Kept when a query ends, of the last MOST scans: how long Spark planned the
 * query, and its own metrics of scans that were handed over. Not the bytes that its tasks count, which leave vectored reads
 * out: 55 KiB of 157 MiB. And which tasks run, and which were lost: of the last MOST_LOST.
 */
public final class Figures extends SparkListener {
  private static final int MOST = 100;
  private static final int MOST_LOST = 10000;
  private static final long PATIENCE_MILLISECONDS = 5000L;
  private static final String[] PHASES = {"analysis", "optimization", "planning"};
  private static final String[] NAMES = {"numFiles", "filesSize", "numOutputRows", "scanTime"};
  private static final Map WATCHED = new WeakHashMap();
  /** By scan id: numbers by metric name. */
  private static final Map SCANS = new LinkedHashMap();
  /** The attempts of tasks, by Spark's number. */
  private final TreeSet running = new TreeSet();
  private final Map lost = new LinkedHashMap();

  private Figures() {}

  /** Listens to a context's queries, once. */
  static synchronized void watch(SparkContext context) {
    if (!WATCHED.containsKey(context)) {
      Figures figures = new Figures();
      WATCHED.put(context, figures);
      context.addSparkListener(figures);
    }
  }

  /** The figures by scan id, as JSON, once Spark's listeners have seen what happened before. */
  public static String take(Object session) throws java.io.IOException {
    settled(session);
    synchronized (SCANS) {
      return new ObjectMapper().writeValueAsString(SCANS);
    }
  }

  /** The tasks that run, and how those ended that did not succeed, as JSON. */
  public static String tasks(Object session) throws java.io.IOException {
    Figures figures = settled(session);
    Map found = new HashMap();
    if (figures != null) {
      synchronized (figures) {
        found.put("running", new TreeSet(figures.running));
        found.put("lost", new LinkedHashMap(figures.lost));
      }
    }
    return new ObjectMapper().writeValueAsString(found);
  }

  /** The listener of a session's context, once it has seen what happened before. */
  private static Figures settled(Object session) {
    SparkContext context = ((org.apache.spark.sql.SparkSession) session).sparkContext();
    try {
      context.listenerBus().waitUntilEmpty(PATIENCE_MILLISECONDS);
    } catch (Exception busy) {
      // What is there by now must do.
    }
    synchronized (Figures.class) {
      return (Figures) WATCHED.get(context);
    }
  }

  public synchronized void onTaskStart(SparkListenerTaskStart event) {
    running.add(Long.valueOf(event.taskInfo().taskId()));
  }

  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    Long attempt = Long.valueOf(event.taskInfo().taskId());
    running.remove(attempt);
    if (!event.taskInfo().successful()) {
      lost.put(attempt, event.taskInfo().killed() ? "killed" : "failed");
      if (lost.size() > MOST_LOST) {
        lost.remove(lost.keySet().iterator().next());
      }
    }
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd) || !TwoStageFiles.wasMade() && !TwoStageScan.wasRead()) {
      return;
    }
    QueryExecution query = ((SparkListenerSQLExecutionEnd) event).qe();
    Option error = ((SparkListenerSQLExecutionEnd) event).errorMessage();
    try {
      if (query != null) {
        Map found = phases(query);
        if (error.isDefined() && !((String) error.get()).isEmpty()) {
          found.put("failed", Long.valueOf(1L)); // or was cancelled
        }
        visit(query.executedPlan(), found, false);
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

  /** `limited`: an operator above may have had its rows before the plan gave all of its own. */
  private static void visit(SparkPlan plan, Map phases, boolean limited) {
    boolean below = (limited || plan instanceof BaseLimitExec || plan instanceof CollectLimitExec) && !(plan instanceof Exchange);
    if (plan instanceof FileSourceScanExec) {
      FileIndex files = ((HadoopFsRelation) ((FileSourceScanExec) plan).productElement(0)).location();
      if (files instanceof TwoStageFiles) {
        keep(((TwoStageFiles) files).scan(), (FileSourceScanExec) plan, phases, limited);
      }
    } else if (plan instanceof BatchScanExec && ((BatchScanExec) plan).scan() instanceof TwoStageScan) {
      Iterator ids = ((TwoStageScan) ((BatchScanExec) plan).scan()).ids().iterator();
      while (ids.hasNext()) {
        put((String) ids.next(), phases);
      }
    } else if (plan instanceof AdaptiveSparkPlanExec) {
      visit(((AdaptiveSparkPlanExec) plan).executedPlan(), phases, limited);
    } else if (plan instanceof QueryStageExec) {
      visit(((QueryStageExec) plan).plan(), phases, limited);
    } else if (plan instanceof InMemoryTableScanExec) {
      visit(((InMemoryTableScanExec) plan).relation().cachedPlan(), phases, limited);
    }
    visitAll(plan.children().iterator(), phases, below);
    visitAll(plan.subqueries().iterator(), phases, false);
  }

  private static void visitAll(scala.collection.Iterator plans, Map phases, boolean limited) {
    while (plans.hasNext()) {
      visit((SparkPlan) plans.next(), phases, limited);
    }
  }

  /** Keeps a scan's figures; those of a query that found its rows in a cache say nothing. */
  private static void keep(String id, FileSourceScanExec scan, Map phases, boolean limited) {
    Map found = new LinkedHashMap(phases);
    found.put("limited", Long.valueOf(limited ? 1L : 0L));
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

  /** Keeps what was found of a scan; who reads its rows from a cache later planned another query. */
  private static void put(String id, Map found) {
    synchronized (SCANS) {
      Map kept = new LinkedHashMap(found);
      Map known = (Map) SCANS.remove(id);
      for (int i = 0; known != null && i < PHASES.length; i++) {
        if (known.containsKey(PHASES[i])) {
          kept.put(PHASES[i], known.get(PHASES[i]));
        }
      }
      SCANS.put(id, kept);
      if (SCANS.size() > MOST) {
        SCANS.remove(SCANS.keySet().iterator().next());
      }
    }
  }
}
