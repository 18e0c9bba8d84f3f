package twostage_planner;

import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.JobArtifactState;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.python.PythonInputPartition;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;
import scala.Option;

/**
 * One scan: planned once in Python for its statistics and its partitions, once more if runtime filters come.
 * Its partitions and reader factory are Spark's own classes, because executors do not have ours.
 */
final class TwoStageScan implements Scan, Batch, SupportsRuntimeV2Filtering, SupportsReportStatistics {
  private final TwoStageTable table;
  private final StructType readSchema;
  private final Map request;
  private final String text;
  private final List key;
  private List runtime = new ArrayList();
  private final Map plans = new HashMap();
  private final Map reads = new HashMap();
  private static volatile boolean wasRead;

  TwoStageScan(TwoStageScanBuilder builder) {
    table = builder.table;
    readSchema = builder.readSchema;
    request = Bridge.request("plan");
    request.put("schema", readSchema.json());
    request.put("taken", builder.taken);
    request.put("hints", builder.hints);
    request.put("limit", builder.limit < 0 ? null : Integer.valueOf(builder.limit));
    request.put("top", builder.top);
    request.put("parallelism", Integer.valueOf(Install.parallelism()));
    StringBuilder words = new StringBuilder("twostage ").append(table.name);
    words.append(", snapshot ").append(table.snapshot);
    words.append(", columns [").append(String.join(", ", readSchema.fieldNames())).append("]");
    words.append(", predicates ").append(builder.texts);
    if (builder.limit >= 0) {
      words.append(", limit ").append(builder.limit);
    }
    if (builder.top != null) {
      words.append(", first by ").append(builder.topText);
    }
    if (table.reason != null) {
      words.append(", not Spark's reader: ").append(table.reason);
    }
    request.put("stays", table.reason);
    text = words.toString();
    key = new ArrayList();
    key.add(table.key());
    key.add(readSchema.json());
    key.add(builder.taken.toString());
    key.add(builder.hints.toString());
    key.add(Integer.valueOf(builder.limit));
    key.add(String.valueOf(builder.top));
  }

  public StructType readSchema() {
    return readSchema;
  }

  public String description() {
    return text;
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.UNSUPPORTED; // as of the stock reader; known without planning
  }

  public CustomMetric[] supportedCustomMetrics() {
    return Install.stockSource().createPythonMetrics();
  }

  /** The columns that keys of a join may filter by while the query runs; see `DynamicFilters` for which of them do. */
  public NamedReference[] filterAttributes() {
    List attributes = new ArrayList();
    StructField[] fields = readSchema.fields();
    for (int i = 0; i < fields.length; i++) {
      DataType type = fields[i].dataType();
      boolean nested = type instanceof StructType || type instanceof ArrayType || type instanceof MapType;
      if (!nested && isNamedAlone(fields, i)) {
        attributes.add(FieldReference.column(fields[i].name()));
      }
    }
    // Asked last: a scan of which nothing can be left out needs no keys, but to know that it must be planned.
    boolean thins = !attributes.isEmpty() && ((Boolean) plan().get("thins")).booleanValue();
    return thins ? (NamedReference[]) attributes.toArray(new NamedReference[0]) : new NamedReference[0];
  }

  /** Whether the session finds one column by this name: of names equal but for case it finds, and refuses, two. */
  private static boolean isNamedAlone(StructField[] fields, int place) {
    for (int i = 0; i < fields.length; i++) {
      if (i != place && !SQLConf.get().caseSensitiveAnalysis()
          && fields[i].name().equalsIgnoreCase(fields[place].name())) {
        return false;
      }
    }
    return true;
  }

  public synchronized void filter(Predicate[] predicates) {
    List forms = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      forms.add(Predicates.runtime(predicates[i]));
    }
    runtime = forms;
  }

  public Statistics estimateStatistics() {
    final Map plan = plan();
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(((Number) plan.get("bytes")).longValue());
      }

      public OptionalLong numRows() {
        return OptionalLong.of(((Number) plan.get("rows")).longValue());
      }
    };
  }

  public Batch toBatch() {
    return this;
  }

  private synchronized Map plan() {
    Map plan = (Map) plans.get(runtime);
    if (plan == null) {
      plan = table.call(wanted("plan"));
      plans.put(runtime, plan);
    }
    return plan;
  }

  private synchronized Map read() {
    Map read = (Map) reads.get(runtime);
    if (read == null) {
      Map wanted = wanted("read");
      wanted.put("scan", plan().get("scan"));
      read = table.call(wanted);
      reads.put(runtime, read);
      wasRead = true;
    }
    return read;
  }

  /** The ids of the scans that Spark made of this one; more than one if its runtime filters changed. */
  synchronized List ids() {
    List ids = new ArrayList();
    for (Iterator it = reads.values().iterator(); it.hasNext();) {
      ids.add(((Map) it.next()).get("scan"));
    }
    return ids;
  }

  /** Whether one was read since Spark started. */
  static boolean wasRead() {
    return wasRead;
  }

  private Map wanted(String call) {
    Map wanted = new HashMap(request);
    wanted.put("call", call);
    wanted.put("runtime", runtime);
    wanted.put("description", text);
    return wanted;
  }

  public InputPartition[] planInputPartitions() {
    List pickled = (List) read().get("partitions");
    InputPartition[] partitions = new InputPartition[pickled.size()];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = new PythonInputPartition(i, Base64.getDecoder().decode((String) pickled.get(i)));
    }
    return partitions;
  }

  public PartitionReaderFactory createReaderFactory() {
    byte[] function = Base64.getDecoder().decode((String) read().get("function"));
    Option state = JobArtifactSet.getCurrentJobArtifactState();
    Option artifacts =
        state.isDefined() ? Option.apply(((JobArtifactState) state.get()).uuid()) : Option.empty();
    return new PythonPartitionReaderFactory(
        Install.stockSource(), function, readSchema, artifacts, Option.empty());
  }

  public boolean equals(Object other) {
    return other instanceof TwoStageScan && ((TwoStageScan) other).key.equals(key);
  }

  public int hashCode() {
    return key.hashCode();
  }
}
