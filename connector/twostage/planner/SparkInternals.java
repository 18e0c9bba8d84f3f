package twostage_planner;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonRDD;
import org.apache.spark.package$;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.datasources.DataSourceManager;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceCreationResult;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import scala.Option;

/**
 * The private members of Spark's that the planner reaches by reflection: these and no others, and here only. What is
 * private to Spark's Scala alone (`SparkContext.listenerBus`, `PartitionPruning`, …) is public to Java; the compiler
 * finds out where it differs, in the driver and in `make lint-java`.
 *
 * Checked on Spark 4.1.4, 4.2.1 and 4.3.0 (CHECKED): all of
 *
 *   DataSourceManager.runtimeDataSourceBuilders()    method: a Map of sources by name
 *   PythonTable.ds                                   field: the table's PythonDataSourceV2
 *   PythonDataSourceV2.dataSourceInPython            field: a PythonDataSourceCreationResult, or null
 *   DynamicPruningSubquery.<init>                    constructor, public: six parameters, and then options
 *   PythonRDD.func                                   field: a PythonFunction
 *   LogicalRDD.<init>                                constructor, public: of the fields LOGICAL_RDD, of which some are private
 */
final class SparkInternals {
  static final String CHECKED = "4.1.4, 4.2.1 and 4.3.0";

  /** What a LogicalRDD is made of; the last since 4.3. */
  private static final String[] LOGICAL_RDD = {
      "output", "rdd", "outputPartitioning", "outputOrdering", "isStreaming", "stream", "session", "originStats",
      "originConstraints", "fromCheckpoint"};

  private SparkInternals() {}

  /** This Spark has no such member. */
  public static final class MissingMember extends UnsupportedOperationException {
    private static final long serialVersionUID = 1L;

    MissingMember(Class owner, String name, Throwable cause) {
      super("[TWOSTAGE.SPARK_INTERNALS] Spark " + package$.MODULE$.SPARK_VERSION() + " has no member " + owner.getName() + "."
          + name + ". Hint: twostage was checked on Spark " + CHECKED + "; use one of these, or a newer twostage.", cause);
    }
  }

  /** The session's sources by name, to which one may be added; Spark's own way asks a Python worker first, for seconds. */
  static Map runtimeDataSources(DataSourceManager manager) {
    return (Map) call(DataSourceManager.class, "runtimeDataSourceBuilders", manager);
  }

  /** The pickled source that gave a relation its schema; null for a relation with a declared schema. */
  static byte[] pickledSource(PythonTable table) {
    Object provider = get(PythonTable.class, "ds", table);
    Object result = get(PythonDataSourceV2.class, "dataSourceInPython", provider);
    return result == null ? null : ((PythonDataSourceCreationResult) result).dataSource();
  }

  /** Spark's filter by keys of a join, of the first arguments of its constructor; each version has more, which are options. */
  static DynamicPruningSubquery dynamicPruning(List first) {
    Constructor made = DynamicPruningSubquery.class.getConstructors()[0];
    List values = new ArrayList(first);
    while (values.size() < made.getParameterTypes().length) {
      values.add(Option.empty()); // the join's hint; since 4.3 a projection of the broadcast's values, too
    }
    try {
      return (DynamicPruningSubquery) made.newInstance(values.toArray());
    } catch (ReflectiveOperationException error) {
      throw new MissingMember(DynamicPruningSubquery.class, "<init>", error);
    } catch (IllegalArgumentException error) {
      throw new MissingMember(DynamicPruningSubquery.class, "<init>", error);
    }
  }

  /** What Python workers do with the rows of an RDD. */
  static PythonFunction functionOf(PythonRDD rdd) {
    return (PythonFunction) get(PythonRDD.class, "func", rdd);
  }

  /** The same rows of an RDD, whose size is known from now on. */
  static LogicalRDD withStatistics(LogicalRDD rows, Statistics statistics) {
    Constructor made = LogicalRDD.class.getConstructors()[0];
    Object[] values = new Object[made.getParameterTypes().length];
    for (int i = 0; i < values.length; i++) {
      if (i == LOGICAL_RDD.length) {
        throw new MissingMember(LogicalRDD.class, "<init>", null);
      }
      values[i] = LOGICAL_RDD[i].equals("originStats") ? Option.apply(statistics) : get(LogicalRDD.class, LOGICAL_RDD[i], rows);
    }
    try {
      return (LogicalRDD) made.newInstance(values);
    } catch (ReflectiveOperationException error) {
      throw new MissingMember(LogicalRDD.class, "<init>", error);
    } catch (IllegalArgumentException error) {
      throw new MissingMember(LogicalRDD.class, "<init>", error);
    }
  }

  private static Object call(Class owner, String name, Object object) {
    try {
      Method method = owner.getDeclaredMethod(name, new Class[0]);
      method.setAccessible(true);
      return method.invoke(object, new Object[0]);
    } catch (ReflectiveOperationException error) {
      throw new MissingMember(owner, name + "()", error);
    }
  }

  private static Object get(Class owner, String name, Object object) {
    try {
      Field field = owner.getDeclaredField(name);
      field.setAccessible(true);
      return field.get(object);
    } catch (ReflectiveOperationException error) {
      throw new MissingMember(owner, name, error);
    }
  }
}
