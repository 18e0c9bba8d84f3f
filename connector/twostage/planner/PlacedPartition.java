package twostage_planner;

import java.util.TreeSet;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.status.api.v1.ExecutorSummary;

/**
 * A partition that prefers an executor. Only the driver's scheduler needs that: what is sent to executors, which do not have
 * this class, is Spark's own partition.
 */
final class PlacedPartition extends PythonInputPartition {
  private static final long serialVersionUID = 1L;

  private final String executor;

  private PlacedPartition(int index, byte[] pickled, String executor) {
    super(index, pickled);
    this.executor = executor;
  }

  /** A partition for an executor, as `executors` names it; for any where that is empty. */
  static InputPartition of(int index, byte[] pickled, String executor) {
    return executor.isEmpty()
        ? new PythonInputPartition(index, pickled) : new PlacedPartition(index, pickled, executor);
  }

  public String[] preferredLocations() {
    return new String[] {executor};
  }

  /** Called by Java's serialization; not private, because Janino renames private methods. */
  Object writeReplace() {
    return new PythonInputPartition(index(), pickedPartition());
  }

  /**
   * The live executors, in order, as Spark's `TaskLocation` reads them; none where the driver runs the tasks. Asks the
   * status store, because Janino cannot look into `SparkEnv` of 4.3, some of whose types PySpark does not ship.
   */
  static String[] executors(SparkContext context) {
    TreeSet found = new TreeSet();
    if (!context.isLocal()) {
      scala.collection.Iterator executors = context.statusStore().executorList(true).iterator();
      while (executors.hasNext()) {
        ExecutorSummary executor = (ExecutorSummary) executors.next();
        String address = executor.hostPort();
        int port = address == null ? -1 : address.lastIndexOf(':'); // the host alone until its block manager is there
        if (port > 0 && !executor.id().equals("driver")) {
          found.add("executor_" + address.substring(0, port) + "_" + executor.id());
        }
      }
    }
    return (String[]) found.toArray(new String[0]);
  }
}
