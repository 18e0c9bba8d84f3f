package twostage_planner;

import java.util.Base64;
import java.util.Iterator;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.DataSourceManager;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.*;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Puts the planner into a live session and into sessions made from it later: the data source, and a pre-CBO rule that
 * replaces relations of the stock Python source by `TwoStageTable`, or by Spark's own Parquet reader (see `ScanHandover`).
 * Doing it twice changes nothing.
 */
public final class PlannerInstaller {
  static final String NAME = "twostage";
  /** What was injected into sessions, by their extensions. */
  private static final Map SETUPS = new WeakHashMap();
  private static volatile UserDefinedPythonDataSource stock;

  private PlannerInstaller() {}

  /**
   * Connects `callback`, whose Python class reads as the stock source `source`, to the session. `confs` (the
   * SQL catalogs) are set in it and in every session made from it later.
   */
  public static synchronized void install(Object session, Function callback, Object source, Map confs) {
    PythonBridge.connect(callback);
    stock = (UserDefinedPythonDataSource) source;
    SparkSession spark = (SparkSession) session;
    SparkScanMetrics.watch(((org.apache.spark.sql.SparkSession) spark).sparkContext());
    SparkSessionExtensions extensions = spark.extensions();
    SessionSetup setup = (SessionSetup) SETUPS.get(extensions);
    if (setup == null) {
      setup = new SessionSetup();
      SETUPS.put(extensions, setup);
      extensions.injectPreCBORule(new PlanScansBuilder());
      extensions.injectResolutionRule(setup);
    }
    setup.confs.putAll(confs);
    setup.apply(spark);
  }

  static UserDefinedPythonDataSource stockSource() {
    return stock;
  }

  /** Our table of a relation, or null for another source's. */
  static TwoStageTable tableOf(DataSourceV2Relation relation) {
    if (relation.table() instanceof TwoStageTable) {
      return (TwoStageTable) relation.table();
    }
    return isStock(relation) ? ReplaceStockRelations.table((PythonTable) relation.table()) : null;
  }

  static boolean isOurs(DataSourceV2Relation relation) {
    return relation.table() instanceof TwoStageTable || isStock(relation);
  }

  private static boolean isStock(DataSourceV2Relation relation) {
    return relation.table() instanceof PythonTable && relation.table().name().equalsIgnoreCase(NAME);
  }

  static int parallelism() {
    return context().defaultParallelism();
  }

  static org.apache.spark.SparkContext context() {
    return ((org.apache.spark.sql.SparkSession) SparkSession.active()).sparkContext();
  }

  /** Registers the source without asking a Python worker which modules it discovers, which takes seconds. */
  private static void register(DataSourceManager manager) {
    DriverDataSource source = new DriverDataSource(stock.dataSourceCls());
    try {
      SparkInternals.runtimeDataSources(manager).put(NAME, source);
    } catch (SparkInternals.MissingMember slower) {
      manager.registerDataSource(NAME, source);
    }
  }

  /** The source as Spark looks it up by name: its schema comes from the driver's Python, not from a worker. */
  static final class DriverDataSource extends UserDefinedPythonDataSource {
    private static final long serialVersionUID = 1L;

    DriverDataSource(org.apache.spark.api.python.PythonFunction function) {
      super(function);
    }

    public PythonDataSourceCreationResult createDataSourceInPython(
        String name, CaseInsensitiveStringMap options, Option schema) {
      Answers.Create created = (Answers.Create) PythonBridge.call(
          new Requests.Create(options.asCaseSensitiveMap(), PythonBridge.confs()), Answers.Create.class);
      return new PythonDataSourceCreationResult(
          Base64.getDecoder().decode(created.source),
          schema.isDefined()
              ? (StructType) schema.get()
              : (StructType) org.apache.spark.sql.types.DataType.fromJson(created.schema));
    }
  }

  /** Runs when Spark builds a session's analyzer, as if it made a rule: gives that session the source and the catalogs. */
  public static final class SessionSetup extends AbstractFunction1 {
    final Map confs = new ConcurrentHashMap();

    public Object apply(Object session) {
      SessionState state = ((SparkSession) session).sessionState();
      register(state.dataSourceManager());
      for (Iterator it = confs.entrySet().iterator(); it.hasNext();) {
        Map.Entry conf = (Map.Entry) it.next();
        state.conf().setConfString((String) conf.getKey(), (String) conf.getValue());
      }
      DynamicFilters.addTo(state.experimentalMethods());
      return new NoOpRule();
    }
  }

  /** The resolution rule that `SessionSetup` must build. */
  static final class NoOpRule extends Rule {
    public String ruleName() {
      return "twostage.Nothing";
    }

    public TreeNode apply(TreeNode plan) {
      return plan;
    }
  }

  public static final class PlanScansBuilder extends AbstractFunction1 {
    public Object apply(Object session) {
      return new PlanScans(session);
    }
  }

  static final class PlanScans extends Rule {
    private final Object session;

    PlanScans(Object session) {
      this.session = session;
    }

    public String ruleName() {
      return "twostage.PlanScans";
    }

    public TreeNode apply(TreeNode plan) {
      LogicalPlan planned = new ScanHandover(session).rewrite((LogicalPlan) plan);
      return (TreeNode) planned.transformDownWithSubqueries(new ReplaceStockRelations());
    }
  }

  /** Replaces the relations of the stock Python source that are left after `ScanHandover`. */
  static final class ReplaceStockRelations extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      return node instanceof DataSourceV2Relation && isStock((DataSourceV2Relation) node);
    }

    public Object apply(Object node) {
      return applyOrElse(node, null);
    }

    public Object applyOrElse(Object node, scala.Function1 otherwise) {
      if (!isDefinedAt(node)) {
        return otherwise.apply(node);
      }
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      return relation.copy(
          table((PythonTable) relation.table()), relation.output(), relation.catalog(), relation.identifier(), relation.options(),
          relation.timeTravelSpec());
    }

    static TwoStageTable table(PythonTable python) {
      byte[] source = SparkInternals.pickledSource(python);
      return source == null ? TwoStageTable.declared(python.schema()) : TwoStageTable.adopt(source);
    }
  }
}
