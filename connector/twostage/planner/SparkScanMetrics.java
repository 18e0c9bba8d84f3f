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
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.util.AccumulatorV2;
import scala.Option;

/**
 * What the scan report takes from Spark's listeners. When a query ends: how long Spark planned it, and Spark's metrics of
 * the scans that its own reader did; of the last MAX_SCANS scans. Not the bytes that Spark's tasks count, which leave
 * vectored reads out (55 KiB of 157 MiB). It also tells which task attempts run, and how the last MAX_LOST_ATTEMPTS that did
 * not succeed ended. And it tells Python of each query that ends in a session with a query log; see spark/query_log.py.
 */
public final class SparkScanMetrics extends SparkListener {
  private static final int MAX_SCANS = 100;
  private static final int MAX_LOST_ATTEMPTS = 10000;
  private static final int MAX_QUERIES = 1000;
  private static final String QUERY_LOG = "spark.twostage.query-log";
  private static final long TIMEOUT_MILLISECONDS = 5000L;
  private static final String[] PHASES = {"analysis", "optimization", "planning"};
  private static final String[] METRICS = {"numFiles", "filesSize", "numOutputRows", "scanTime"};
  /** By context. */
  private static final Map LISTENERS = new WeakHashMap();
  /** By scan id: numbers by metric name, and what is known about the joins that filtered it, as a list of maps. */
  private static final Map SCANS = new LinkedHashMap();
  /** The attempts of tasks, by Spark's number. */
  private final TreeSet running = new TreeSet();
  private final Map lost = new LinkedHashMap();
  /** The start events of queries that have not ended, by Spark's number. */
  private final Map queries = new LinkedHashMap();

  private SparkScanMetrics() {}

  /** Listens to a context's queries, once. */
  static synchronized void watch(SparkContext context) {
    if (!LISTENERS.containsKey(context)) {
      SparkScanMetrics listener = new SparkScanMetrics();
      LISTENERS.put(context, listener);
      context.addSparkListener(listener);
    }
  }

  /** What Spark measured, by scan id, as JSON, once its listeners have seen what happened before. */
  public static String scanMetrics(Object session) throws java.io.IOException {
    listenerOf(session);
    synchronized (SCANS) {
      return new ObjectMapper().writeValueAsString(SCANS);
    }
  }

  /** The attempts that run, and how those ended that did not succeed, as JSON. */
  public static String taskStates(Object session) throws java.io.IOException {
    SparkScanMetrics listener = listenerOf(session);
    Map found = new HashMap();
    if (listener != null) {
      synchronized (listener) {
        found.put("running", new TreeSet(listener.running));
        found.put("lost", new LinkedHashMap(listener.lost));
      }
    }
    return new ObjectMapper().writeValueAsString(found);
  }

  /** The listener of a session's context, once it has seen what happened before. */
  private static SparkScanMetrics listenerOf(Object session) {
    SparkContext context = ((org.apache.spark.sql.SparkSession) session).sparkContext();
    try {
      context.listenerBus().waitUntilEmpty(TIMEOUT_MILLISECONDS);
    } catch (Exception busy) {
      // Then the report shows what is there by now.
    }
    synchronized (SparkScanMetrics.class) {
      return (SparkScanMetrics) LISTENERS.get(context);
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
      if (lost.size() > MAX_LOST_ATTEMPTS) {
        lost.remove(lost.keySet().iterator().next());
      }
    }
  }

  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart) {
      queries.put(Long.valueOf(((SparkListenerSQLExecutionStart) event).executionId()), event);
      if (queries.size() > MAX_QUERIES) {
        queries.remove(queries.keySet().iterator().next());
      }
    }
    if (!(event instanceof SparkListenerSQLExecutionEnd)) {
      return;
    }
    SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
    SparkListenerSQLExecutionStart start =
        (SparkListenerSQLExecutionStart) queries.remove(Long.valueOf(end.executionId()));
    if (!TwoStageFiles.wasMade() && !TwoStageScan.wasRead() && !TwoStageLocalScan.wasRead()) {
      return;
    }
    QueryExecution query = end.qe();
    boolean failed = end.errorMessage().isDefined() && !((String) end.errorMessage().get()).isEmpty(); // or was cancelled
    try {
      if (query != null) {
        Map found = phases(query);
        if (failed && !found.containsKey("planning")) {
          return; // it read nothing, and looking for its plan would put this class into the user's stack trace
        }
        if (failed) {
          found.put("failed", Long.valueOf(1L));
        }
        Map scans = new LinkedHashMap();
        visit(query.executedPlan(), found, false, scans);
        if (TwoStageLocalScan.wasRead()) {
          visitAnswers(query.optimizedPlan(), scans);
        }
        if (!scans.isEmpty()) {
          log(query, start, end, failed, scans);
        }
      }
    } catch (Exception planningFailed) {
      // Such a query read nothing; or Python has ended, and writes no log.
    }
  }

  /** Tells Python of a query that has ended, if its session has a log. */
  private static void log(
      QueryExecution query, SparkListenerSQLExecutionStart start, SparkListenerSQLExecutionEnd end, boolean failed,
      Map scans) {
    SQLConf conf = query.sparkSession().sessionState().conf();
    if (conf.getConfString(QUERY_LOG, "").isEmpty()) {
      return;
    }
    Map confs = new HashMap();
    Map all = scala.jdk.javaapi.CollectionConverters.asJava(conf.getAllConfs());
    for (Iterator it = all.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      if (((String) entry.getKey()).startsWith(QUERY_LOG)) {
        confs.put(entry.getKey(), entry.getValue());
      }
    }
    SparkContext context = ((org.apache.spark.sql.SparkSession) query.sparkSession()).sparkContext();
    Map application = new HashMap();
    application.put("id", context.applicationId());
    application.put("name", context.appName());
    application.put("user", context.sparkUser());
    PythonBridge.call(
        new Requests.Ended(
            end.executionId(), start == null ? null : start.description(),
            start == null ? null : Long.valueOf(end.time() - start.time()), failed, application, scans, confs),
        Answers.Ended.class);
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

  /**
   * `limited`: an operator above may have had all its rows before the plan gave all of its own. `scans` gains what was
   * measured, by scan id.
   */
  private static void visit(SparkPlan plan, Map phases, boolean limited, Map scans) {
    boolean below = (limited || plan instanceof BaseLimitExec || plan instanceof CollectLimitExec) && !(plan instanceof Exchange);
    if (plan instanceof FileSourceScanExec) {
      FileIndex files = ((HadoopFsRelation) ((FileSourceScanExec) plan).productElement(0)).location();
      if (files instanceof TwoStageFiles) {
        putHandedOver((TwoStageFiles) files, (FileSourceScanExec) plan, phases, limited, scans);
      }
    } else if (plan instanceof BatchScanExec && ((BatchScanExec) plan).scan() instanceof TwoStageScan) {
      Iterator ids = ((TwoStageScan) ((BatchScanExec) plan).scan()).ids().iterator();
      Map found = new LinkedHashMap(phases);
      found.put("joins", KeyFilterMetrics.of((BatchScanExec) plan));
      while (ids.hasNext()) {
        put((String) ids.next(), found, scans);
      }
    } else if (plan instanceof AdaptiveSparkPlanExec) {
      visit(((AdaptiveSparkPlanExec) plan).executedPlan(), phases, limited, scans);
    } else if (plan instanceof QueryStageExec) {
      visit(((QueryStageExec) plan).plan(), phases, limited, scans);
    } else if (plan instanceof InMemoryTableScanExec) {
      visit(((InMemoryTableScanExec) plan).relation().cachedPlan(), phases, limited, scans);
    }
    visitAll(plan.children().iterator(), phases, below, scans);
    visitAll(plan.subqueries().iterator(), phases, false, scans);
  }

  private static void visitAll(scala.collection.Iterator plans, Map phases, boolean limited, Map scans) {
    while (plans.hasNext()) {
      visit((SparkPlan) plans.next(), phases, limited, scans);
    }
  }

  /** Adds the answers from metadata and indexes: the physical plan has their rows alone. */
  private static void visitAnswers(LogicalPlan plan, Map scans) {
    if (plan instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) plan).scan() instanceof TwoStageLocalScan) {
      scans.put(((TwoStageLocalScan) ((DataSourceV2ScanRelation) plan).scan()).scan(), new LinkedHashMap());
    }
    visitAllAnswers(plan.children().iterator(), scans);
    visitAllAnswers(plan.subqueries().iterator(), scans);
  }

  private static void visitAllAnswers(scala.collection.Iterator plans, Map scans) {
    while (plans.hasNext()) {
      visitAnswers((LogicalPlan) plans.next(), scans);
    }
  }

  /** Remembers a scan that Spark's reader did, unless its query found the rows in a cache and read no file. */
  private static void putHandedOver(
      TwoStageFiles read, FileSourceScanExec scan, Map phases, boolean limited, Map scans) {
    Map found = new LinkedHashMap(phases);
    found.put("limited", Long.valueOf(limited ? 1L : 0L));
    for (int i = 0; i < METRICS.length; i++) {
      if (scan.metrics().contains(METRICS[i])) {
        found.put(METRICS[i], ((AccumulatorV2) scan.metrics().apply(METRICS[i])).value());
      }
    }
    Long files = (Long) found.get("numFiles");
    if (files == null || files.longValue() <= 0) {
      return;
    }
    found.put("joins", KeyFilterMetrics.of(scan, read.keyColumns));
    put(read.scan(), found, scans);
  }

  /** Remembers a scan. Its planning times stay those of the first query: later ones took its rows from a cache. */
  private static void put(String id, Map found, Map scans) {
    synchronized (SCANS) {
      Map remembered = new LinkedHashMap(found);
      Map known = (Map) SCANS.remove(id);
      for (int i = 0; known != null && i < PHASES.length; i++) {
        if (known.containsKey(PHASES[i])) {
          remembered.put(PHASES[i], known.get(PHASES[i]));
        }
      }
      SCANS.put(id, remembered);
      scans.put(id, remembered);
      if (SCANS.size() > MAX_SCANS) {
        SCANS.remove(SCANS.keySet().iterator().next());
      }
    }
  }
}
