package twostage_planner;

import java.util.Base64;
import java.util.Collections;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.Dependency;
import org.apache.spark.Partition;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.PythonRDD;
import org.apache.spark.rdd.MapPartitionsRDD;
import org.apache.spark.rdd.ParallelCollectionPartition;
import org.apache.spark.rdd.ParallelCollectionRDD;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.catalyst.expressions.AttributeMap$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.OneRowRelation;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Rows that `createDataFrame` brought from the driver's Python, such as lists of ids.
 *
 * Spark does not know their size, takes them for larger than any table, and sorts and shuffles the table that they are
 * joined to. They are in the driver, pickled, so their size is known here, and with it they are broadcast, and give keys.
 * That holds only where no function of the user's stands between them and the plan: it could make anything of them.
 */
final class DriverRows {
  /** How many times larger a row is in memory: a number takes 2 to 9 bytes pickled, and in memory 8, with 8 more for the row. */
  private static final int GROWTH = 4;
  /** Steps that Spark puts above the pickled rows: it unpickles them, makes arrays of them, and rows of these. */
  private static final int CONVERSIONS = 3;
  private static final Long UNKNOWN = Long.valueOf(-1);
  /** Bytes by RDD, once Python was asked about its function. */
  private static final Map KNOWN = Collections.synchronizedMap(new WeakHashMap());

  private DriverRows() {}

  /** The plan, with the size of such rows wherever Spark has none. */
  static LogicalPlan withSizes(LogicalPlan plan) {
    if (plan instanceof LogicalRDD) {
      return withSize((LogicalRDD) plan);
    }
    Seq children = plan.children();
    ListBuffer visited = new ListBuffer();
    ListBuffer others = new ListBuffer();
    boolean changed = false;
    for (int i = 0; i < children.size(); i++) {
      LogicalPlan child = withSizes((LogicalPlan) children.apply(i));
      changed |= child != children.apply(i);
      visited.$plus$eq(child);
      others.$plus$eq(new OneRowRelation());
    }
    // Spark keeps children that are equal to the new ones, and for it rows are equal whatever is known about their size.
    return changed ? (LogicalPlan) ((LogicalPlan) plan.withNewChildren(others.toList())).withNewChildren(visited.toList()) : plan;
  }

  private static LogicalPlan withSize(LogicalRDD rows) {
    boolean unknown = BuildSide.size(rows) == SQLConf.get().defaultSizeInBytes();
    long bytes = unknown && !rows.isStreaming() ? bytes(rows) : -1;
    if (bytes < 0) {
      return rows;
    }
    scala.math.BigInt size = scala.math.BigInt.apply(Math.max(1, GROWTH * bytes));
    try {
      return SparkInternals.withStatistics(
          rows, new Statistics(size, Option.empty(), AttributeMap$.MODULE$.empty(), false));
    } catch (SparkInternals.MissingMember slower) {
      return rows;
    }
  }

  /** Whether a plan's rows lie in the driver as they are: reading them twice gives the same. */
  static boolean are(LogicalPlan plan) {
    return plan instanceof LogicalRDD && !plan.isStreaming() && bytes((LogicalRDD) plan) >= 0;
  }

  /** The bytes of the pickled rows; less than 0 where the rows are not the driver's, or not as it gave them. */
  private static long bytes(LogicalRDD rows) {
    RDD top = rows.rdd();
    Long known = (Long) KNOWN.get(top);
    if (known == null) {
      known = Long.valueOf(findBytes(top));
      KNOWN.put(top, known);
    }
    return known.longValue();
  }

  private static long findBytes(RDD top) {
    try {
      return find(top);
    } catch (SparkInternals.MissingMember slower) {
      return UNKNOWN.longValue();
    }
  }

  private static long find(RDD top) {
    RDD rdd = top;
    for (int i = 0; i < CONVERSIONS; i++) {
      if (!(rdd instanceof MapPartitionsRDD)) {
        return UNKNOWN.longValue();
      }
      rdd = parent(rdd);
    }
    RDD given = rdd instanceof PythonRDD ? parent(rdd) : null;
    if (!(given instanceof ParallelCollectionRDD) || !passesOn(SparkInternals.functionOf((PythonRDD) rdd))) {
      return UNKNOWN.longValue();
    }
    long bytes = 0;
    Partition[] partitions = given.partitions();
    for (int i = 0; i < partitions.length; i++) {
      Seq values = ((ParallelCollectionPartition) partitions[i]).values();
      for (int j = 0; j < values.size(); j++) {
        if (!(values.apply(j) instanceof byte[])) {
          return UNKNOWN.longValue();
        }
        bytes += ((byte[]) values.apply(j)).length;
      }
    }
    return bytes;
  }

  private static RDD parent(RDD rdd) {
    Seq dependencies = rdd.dependencies();
    return dependencies.size() == 1 ? ((Dependency) dependencies.apply(0)).rdd() : null;
  }

  /** Whether a function of PySpark's passes the rows on unchanged, as that of `createDataFrame` does. */
  private static boolean passesOn(PythonFunction function) {
    Seq command = function.command();
    byte[] bytes = new byte[command.size()];
    for (int i = 0; i < bytes.length; i++) {
      bytes[i] = ((Byte) command.apply(i)).byteValue();
    }
    String encoded = Base64.getEncoder().encodeToString(bytes);
    return ((Answers.PassesRowsOn) PythonBridge.call(new Requests.PassesRowsOn(encoded), Answers.PassesRowsOn.class)).unchanged;
  }
}
