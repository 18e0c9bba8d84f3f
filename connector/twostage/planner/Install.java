package twostage_planner;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
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
 * Puts the planner into a live session: a pre-CBO rule that swaps relations of the stock Python source for
 * `TwoStageTable`, or for Spark's own Parquet reader (see `NativeScans`), and the source itself, for sessions made later too. Doing it twice changes nothing.
 */
public final class Install {
  static final String NAME = "twostage";
  private static final Map EXTENDED = new WeakHashMap();
  private static volatile UserDefinedPythonDataSource stock;

  private Install() {}

  /**
   * Connects `callback`, whose Python class reads as the stock source `source`, to the session. `confs` (the
   * SQL catalogs) are set in it and in every session made from it later.
   */
  public static synchronized void install(Object session, Function callback, Object source, Map confs) {
    Bridge.connect(callback);
    stock = (UserDefinedPythonDataSource) source;
    SparkSession spark = (SparkSession) session;
    Figures.watch(((org.apache.spark.sql.SparkSession) spark).sparkContext());
    SparkSessionExtensions extensions = spark.extensions();
    Registration registration = (Registration) EXTENDED.get(extensions);
    if (registration == null) {
      registration = new Registration();
      EXTENDED.put(extensions, registration);
      extensions.injectPreCBORule(new RuleBuilder());
      extensions.injectResolutionRule(registration);
    }
    registration.confs.putAll(confs);
    registration.apply(spark);
  }

  static UserDefinedPythonDataSource stockSource() {
    return stock;
  }

  /** Our table of a relation, or null for another source's. */
  static TwoStageTable tableOf(DataSourceV2Relation relation) {
    if (relation.table() instanceof TwoStageTable) {
      return (TwoStageTable) relation.table();
    }
    return isStock(relation) ? Swap.table((PythonTable) relation.table()) : null;
  }

  private static boolean isStock(DataSourceV2Relation relation) {
    return relation.table() instanceof PythonTable && relation.table().name().equalsIgnoreCase(NAME);
  }

  static int parallelism() {
    return ((org.apache.spark.sql.SparkSession) SparkSession.active()).sparkContext().defaultParallelism();
  }

  /** Registers without asking a Python worker what modules it can discover, which takes seconds. */
  private static void register(DataSourceManager manager) {
    Source source = new Source(stock.dataSourceCls());
    try {
      Method registered = DataSourceManager.class.getDeclaredMethod("runtimeDataSourceBuilders", new Class[0]);
      registered.setAccessible(true);
      ((Map) registered.invoke(manager, new Object[0])).put(NAME, source);
    } catch (ReflectiveOperationException changed) {
      manager.registerDataSource(NAME, source);
    }
  }

  /** The source as Spark looks it up by name: its schema comes from the driver's Python, not a worker. */
  static final class Source extends UserDefinedPythonDataSource {
    Source(org.apache.spark.api.python.PythonFunction function) {
      super(function);
    }

    public PythonDataSourceCreationResult createDataSourceInPython(
        String name, CaseInsensitiveStringMap options, Option schema) {
      Map request = Bridge.request("create");
      request.put("options", options.asCaseSensitiveMap());
      request.put("confs", Bridge.confs());
      Map loaded = Bridge.call(request);
      return new PythonDataSourceCreationResult(
          Base64.getDecoder().decode((String) loaded.get("source")),
          schema.isDefined()
              ? (StructType) schema.get()
              : (StructType) org.apache.spark.sql.types.DataType.fromJson((String) loaded.get("schema")));
    }
  }

  /** Runs when a session's analyzer is built: gives that session the source and the catalogs. */
  public static final class Registration extends AbstractFunction1 {
    final Map confs = new ConcurrentHashMap();

    public Object apply(Object session) {
      SessionState state = ((SparkSession) session).sessionState();
      register(state.dataSourceManager());
      for (Iterator it = confs.entrySet().iterator(); it.hasNext();) {
        Map.Entry conf = (Map.Entry) it.next();
        state.conf().setConfString((String) conf.getKey(), (String) conf.getValue());
      }
      DynamicFilters.addTo(state.experimentalMethods());
      return new Nothing();
    }
  }

  static final class Nothing extends Rule {
    public String ruleName() {
      return "twostage.Nothing";
    }

    public TreeNode apply(TreeNode plan) {
      return plan;
    }
  }

  public static final class RuleBuilder extends AbstractFunction1 {
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
      LogicalPlan planned = new NativeScans(session).rewrite((LogicalPlan) plan);
      return (TreeNode) planned.transformDownWithSubqueries(new Swap());
    }
  }

  static final class Swap extends AbstractPartialFunction {
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
      byte[] source = instance(python);
      return source == null ? TwoStageTable.declared(python.schema()) : TwoStageTable.adopt(source);
    }

    /** The pickled source that gave the relation its schema; null for a relation with a declared schema. */
    private static byte[] instance(PythonTable table) {
      try {
        Object provider = field(PythonTable.class, "ds").get(table);
        Object result = field(PythonDataSourceV2.class, "dataSourceInPython").get(provider);
        return result == null ? null : ((PythonDataSourceCreationResult) result).dataSource();
      } catch (ReflectiveOperationException error) {
        throw new IllegalStateException("[TWOSTAGE.INTERNAL] This Spark's PythonTable differs: " + error, error);
      }
    }

    private static Field field(Class owner, String name) throws ReflectiveOperationException {
      Field field = owner.getDeclaredField(name);
      field.setAccessible(true);
      return field;
    }
  }
}
