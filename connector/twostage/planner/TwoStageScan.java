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
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.expressions.FieldReference;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonPartitionReaderFactory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;
import scala.Option;

/**
 * One scan: planned once in Python for its statistics and its partitions, once more if runtime filters come.
 * Its partitions and reader factory are Spark's own classes, because executors do not have ours.
 */
final class TwoStageScan implements Scan, Batch, SupportsRuntimeV2Filtering, SupportsReportStatistics {
  /** Predicates of its own leave rows out: as a join's build side it has only some of the keys. */
  final boolean isFiltered;
  private final TwoStageScanBuilder builder;
  private final TwoStageTable table;
  private final StructType readSchema;
  /** The scan without its runtime filters. */
  private final Requests.Plan request;
  private final String text;
  private final List key;
  /** Runtime filters, as a list of maps. */
  private List runtime = new ArrayList();
  /** Answers by the runtime filters that they are for. */
  private final Map plans = new HashMap();
  private final Map reads = new HashMap();
  /** How Spark's own reader does the scan if no keys of a join come; null if it does not. */
  final AwaitedKeys awaited;
  /** The predicates that the scan evaluates, as maps. */
  private final List exact;
  /** What distinguishes the scan from the one that it is a copy of; null for an original. */
  private final Object copyToken;
  private static volatile boolean wasRead;

  TwoStageScan(TwoStageScanBuilder builder) {
    this(builder, null);
  }

  private TwoStageScan(TwoStageScanBuilder builder, Object copyToken) {
    this.builder = builder;
    this.copyToken = copyToken;
    isFiltered = dropsRows(builder.exact) || dropsRows(builder.hints);
    table = builder.table;
    readSchema = builder.readSchema;
    awaited = builder.limit < 0 && builder.top == null ? table.awaited : null;
    exact = new ArrayList(builder.exact);
    request = new Requests.Plan(
        readSchema.json(), (Map[]) builder.exact.toArray(new Map[0]), (Map[]) builder.hints.toArray(new Map[0]),
        new Map[0], builder.limit < 0 ? null : Integer.valueOf(builder.limit), builder.top,
        PlannerInstaller.parallelism(), table.reason);
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
    text = words.toString();
    key = new ArrayList();
    key.add(table.key());
    key.add(readSchema.json());
    key.add(builder.exact.toString());
    key.add(builder.hints.toString());
    key.add(Integer.valueOf(builder.limit));
    key.add(String.valueOf(builder.top));
    key.add(copyToken);
  }

  /** Whether some of these predicates, as maps, test more than IS NOT NULL, which Spark itself adds for a join's keys. */
  private static boolean dropsRows(List forms) {
    for (int i = 0; i < forms.size(); i++) {
      Object op = ((Map) forms.get(i)).get("op");
      if (!"is_not_null".equals(op) && !"true".equals(op) && !"unknown".equals(op)) {
        return true;
      }
    }
    return false;
  }

  public StructType readSchema() {
    return readSchema;
  }

  public synchronized String description() {
    StringBuilder keys = new StringBuilder();
    for (int i = 0; i < runtime.size(); i++) {
      keys.append(i == 0 ? ", keys of joins [" : ", ").append(JoinKeys.shown((Map) runtime.get(i)));
    }
    if (keys.length() > 0) {
      keys.append("]");
    }
    // What was planned with other keys tells the same; without a plan, this must not make one.
    Iterator planned = plans.values().iterator();
    String indexed = planned.hasNext() ? ((Answers.Plan) planned.next()).indexed : "";
    return text + (indexed.isEmpty() ? "" : ", indexes [" + indexed + "]") + keys;
  }

  public Scan.ColumnarSupportMode columnarSupportMode() {
    return Scan.ColumnarSupportMode.UNSUPPORTED; // as of the stock reader; known without planning
  }

  public CustomMetric[] supportedCustomMetrics() {
    return PlannerInstaller.stockSource().createPythonMetrics();
  }

  /** The columns by which keys of a join may filter the scan while the query runs; `DynamicFilters` chooses among them. */
  public NamedReference[] filterAttributes() {
    List attributes = new ArrayList();
    StructField[] fields = readSchema.fields();
    for (int i = 0; i < fields.length; i++) {
      DataType type = fields[i].dataType();
      boolean nested = isNested(type);
      boolean serves = takesAnyKeys() || awaited.columns.contains(fields[i].name());
      if (!nested && serves && isNamedAlone(fields, i)) {
        attributes.add(FieldReference.column(fields[i].name()));
      }
    }
    // Last, because only a plan tells that no key could leave anything out of the scan.
    boolean prunable = !attributes.isEmpty() && plan().prunable;
    return prunable ? (NamedReference[]) attributes.toArray(new NamedReference[0]) : new NamedReference[0];
  }

  /** Whether keys of a join may filter the scan by this column, given by its names from the outermost struct on. */
  boolean takesKeys(List names) {
    if (!table.filtersByKeys()) {
      return false; // they would only prune: less than running a side once more for them may cost
    }
    if (names.size() > 1) {
      return takesAnyKeys() && holds(readSchema, names) && plan().prunable;
    }
    NamedReference[] attributes = filterAttributes();
    for (int i = 0; i < attributes.length; i++) {
      if (names.get(0).equals(attributes[i].fieldNames()[0])) {
        return true;
      }
    }
    return false;
  }

  /** Whether keys of any column, and of several together, may filter the scan: it is not certain that Spark's reader does it. */
  boolean takesAnyKeys() {
    return awaited == null || awaited.takesOthers;
  }

  /** Whether each of these names is that of one field of the struct before it, and the last one's type has values to compare. */
  private static boolean holds(DataType type, List names) {
    for (int i = 0; i < names.size(); i++) {
      StructField[] fields = type instanceof StructType ? ((StructType) type).fields() : new StructField[0];
      type = null;
      for (int k = 0; k < fields.length; k++) {
        if (fields[k].name().equals(names.get(i)) && isNamedAlone(fields, k)) {
          type = fields[k].dataType();
        }
      }
    }
    return type != null && !isNested(type);
  }

  private static boolean isNested(DataType type) {
    return type instanceof StructType || type instanceof ArrayType || type instanceof MapType;
  }

  /** Whether it was read, or was given keys of joins. */
  synchronized boolean isUsed() {
    return !runtime.isEmpty() || !reads.isEmpty();
  }

  /** The same scan without runtime filters: those of one place in a plan must not filter another. */
  TwoStageScan forAnotherPlace() {
    return copied(copyToken);
  }

  /** The same scan as before it was used. `token` makes it unequal to this one: Spark leaves equal parts of a plan as they are. */
  TwoStageScan forAnotherPlan(Object token) {
    return copied(token);
  }

  private synchronized TwoStageScan copied(Object token) {
    TwoStageScan copy = new TwoStageScan(builder, token);
    Object plan = plans.get(new ArrayList());
    if (plan != null) {
      copy.plans.put(new ArrayList(), plan);
    }
    return copy;
  }

  /** Whether the session resolves this name to one column: of names that differ by case alone it finds, and refuses, two. */
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
      if (SparkBloom.is(predicates[i])) {
        forms.add(SparkBloom.translate(predicates[i]));
      } else if (TuplesOfKeys.are(predicates[i])) {
        forms.addAll(TuplesOfKeys.translate(predicates[i]));
      } else {
        forms.add(JoinKeys.translate(KeyCast.narrowed(predicates[i], readSchema)));
      }
    }
    runtime = forms;
  }

  public Statistics estimateStatistics() {
    final Answers.Plan plan = plan();
    return new Statistics() {
      public OptionalLong sizeInBytes() {
        return OptionalLong.of(plan.bytes);
      }

      public OptionalLong numRows() {
        return OptionalLong.of(plan.rows);
      }
    };
  }

  public Batch toBatch() {
    return this;
  }

  /** Whether keys of this column prune files for Spark's own scan in place of this one. */
  boolean awaitsKeysOfFiles(String column) {
    return awaited != null && awaited.columns.contains(column);
  }

  /** Spark's own scan in place of this one, `relation`; null if it stays. See `AwaitedKeys.scan`. */
  LogicalPlan handedOver(DataSourceV2ScanRelation relation, boolean hasKeys, List keys) {
    return awaited == null ? null : awaited.scan(relation, exact, plan().scan, hasKeys, keys);
  }

  private synchronized Answers.Plan plan() {
    Answers.Plan plan = (Answers.Plan) plans.get(runtime);
    if (plan == null) {
      plan = (Answers.Plan) table.call(filteredRequest(), Answers.Plan.class);
      plans.put(runtime, plan);
    }
    return plan;
  }

  private synchronized Answers.Read read() {
    Answers.Read read = (Answers.Read) reads.get(runtime);
    if (read == null) {
      String[] executors = plan().placed ? PlacedPartition.executors(PlannerInstaller.context()) : new String[0];
      read = (Answers.Read) table.call(
          new Requests.Read(filteredRequest(), plan().scan, executors), Answers.Read.class);
      reads.put(runtime, read);
      wasRead = true;
    }
    return read;
  }

  /** The ids of the scans that Spark read of this one; more than one if its runtime filters changed. */
  synchronized List ids() {
    List ids = new ArrayList();
    for (Iterator it = reads.values().iterator(); it.hasNext();) {
      ids.add(((Answers.Read) it.next()).scan);
    }
    return ids;
  }

  /** Whether one was read since Spark started. */
  static boolean wasRead() {
    return wasRead;
  }

  /** The scan with its current runtime filters. */
  private Requests.Plan filteredRequest() {
    return new Requests.Plan(
        request.schema, request.exact, request.hints, (Map[]) runtime.toArray(new Map[0]), request.limit, request.top,
        request.parallelism, awaited == null || awaited.reason() == null ? request.reason : awaited.reason());
  }

  public InputPartition[] planInputPartitions() {
    String[] pickled = read().partitions;
    String[] executors = read().executors;
    InputPartition[] partitions = new InputPartition[pickled.length];
    for (int i = 0; i < partitions.length; i++) {
      partitions[i] = PlacedPartition.of(i, Base64.getDecoder().decode(pickled[i]), executors[i]);
    }
    return partitions;
  }

  public PartitionReaderFactory createReaderFactory() {
    byte[] function = Base64.getDecoder().decode(read().function);
    Option state = JobArtifactSet.getCurrentJobArtifactState();
    Option artifacts =
        state.isDefined() ? Option.apply(((JobArtifactState) state.get()).uuid()) : Option.empty();
    return new PythonPartitionReaderFactory(
        PlannerInstaller.stockSource(), function, readSchema, artifacts, Option.empty());
  }

  public boolean equals(Object other) {
    return other instanceof TwoStageScan && ((TwoStageScan) other).key.equals(key);
  }

  public int hashCode() {
    return key.hashCode();
  }
}
