package twostage_planner;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/**
 * A table pinned to one snapshot, or (declared) a schema whose table comes with the options of each read.
 * Two instances are equal if they return the same rows under the same options.
 */
public final class TwoStageTable
    implements Table, SupportsRead, SupportsWrite, SupportsDeleteV2, SupportsMetadataColumns {
  static final String READ_ONLY = "[TWOSTAGE.READ_ONLY] twostage reads tables and never changes them: ";

  private final Map options;
  private final Map confs;
  private final StructType schema;
  private final StructType hidden;
  private final boolean inCatalog;
  final String name;
  final String pin;
  final String snapshot;
  final String pinned;
  private final String key;
  private final Map properties;
  /** The URI schemes under which its files may be opened; of a moved table not that of the location in its metadata. */
  final String[] schemes;
  /** Why Spark's own Parquet reader does not do this relation's scan; null where that was not decided. */
  final String reason;
  /** The aggregates of the operator above this relation that metadata answers; null for none. */
  final Requests.WantedAggregates answerable;
  /** How Spark's own reader does this relation's scan if no keys of a join come; null if it does not. */
  final AwaitedKeys awaited;
  /** These are some of a table's files: metadata answers the query's aggregates for the others. */
  final boolean isPart;

  private TwoStageTable(Map options, Map confs, Answers.Load loaded, boolean inCatalog) {
    this.options = options;
    this.confs = confs;
    this.inCatalog = inCatalog;
    schema = (StructType) DataType.fromJson(loaded.schema);
    hidden = (StructType) DataType.fromJson(loaded.hidden);
    name = loaded.name;
    pin = loaded.pin;
    pinned = loaded.pinned;
    snapshot = loaded.snapshot;
    key = loaded.key;
    properties = loaded.properties;
    schemes = loaded.schemes;
    reason = null;
    answerable = null;
    awaited = null;
    isPart = false;
  }

  private TwoStageTable(
      TwoStageTable table, String reason, Requests.WantedAggregates answerable, AwaitedKeys awaited, String pin, String pinned) {
    options = table.options;
    confs = table.confs;
    inCatalog = table.inCatalog;
    schema = table.schema;
    hidden = table.hidden;
    name = table.name;
    this.pin = pin;
    this.pinned = pinned;
    snapshot = table.snapshot;
    key = pin.equals(table.pin) ? table.key : pin;
    isPart = table.isPart || !pin.equals(table.pin);
    properties = table.properties;
    schemes = table.schemes;
    this.reason = reason;
    this.answerable = answerable;
    this.awaited = awaited;
  }

  /** This table, with the reason why Spark's own Parquet reader does not do the scan, and what metadata answers. */
  TwoStageTable notHandedOver(String reason, Requests.WantedAggregates answerable, AwaitedKeys awaited) {
    return new TwoStageTable(this, reason, answerable, awaited, pin, pinned);
  }

  /** Some of this table's files, pinned as `pin`. */
  TwoStageTable part(String pin, String pinned) {
    return new TwoStageTable(this, reason, null, null, pin, pinned);
  }

  private TwoStageTable(StructType declared) {
    options = new HashMap();
    confs = new HashMap();
    inCatalog = false;
    schema = declared;
    hidden = new StructType();
    name = "twostage";
    pin = null;
    pinned = null;
    snapshot = null;
    key = declared.json();
    properties = new HashMap();
    schemes = new String[0];
    reason = null;
    answerable = null;
    awaited = null;
    isPart = false;
  }

  /** Loads the table that the options name and pins its snapshot. */
  static TwoStageTable load(Map options, Map catalogConfs, boolean inCatalog) {
    Map confs = new HashMap(catalogConfs);
    confs.putAll(PythonBridge.confs());
    Answers.Load loaded = (Answers.Load) PythonBridge.call(new Requests.Load(options, confs), Answers.Load.class);
    return new TwoStageTable(options, catalogConfs, loaded, inCatalog);
  }

  /** Takes over a Python source's instance (pickled), with the snapshot it pinned. */
  static TwoStageTable adopt(byte[] source) {
    Answers.Adopt loaded = (Answers.Adopt) PythonBridge.call(
        new Requests.Adopt(java.util.Base64.getEncoder().encodeToString(source), PythonBridge.confs()),
        Answers.Adopt.class);
    return new TwoStageTable(loaded.options, new HashMap(), loaded, false);
  }

  /** A table known by its schema only, such as one that was created in Spark's own catalog. */
  static TwoStageTable declared(StructType schema) {
    return new TwoStageTable(schema.asNullable());
  }

  public String name() {
    return name;
  }

  @SuppressWarnings("deprecation") // columns(), which replaces it, is made of it
  public StructType schema() {
    return schema;
  }

  /** Columns such as _file that a query may name and SELECT * does not show. */
  public MetadataColumn[] metadataColumns() {
    StructField[] fields = hidden.fields();
    MetadataColumn[] columns = new MetadataColumn[fields.length];
    for (int i = 0; i < fields.length; i++) {
      columns[i] = new Hidden(fields[i]);
    }
    return columns;
  }

  static final class Hidden implements MetadataColumn {
    private final StructField field;

    Hidden(StructField field) {
      this.field = field;
    }

    public String name() {
      return field.name();
    }

    public DataType dataType() {
      return field.dataType();
    }

    public boolean isNullable() {
      return field.nullable();
    }
  }

  public Map properties() {
    return properties;
  }

  public Set capabilities() {
    Set capabilities = new HashSet();
    capabilities.add(TableCapability.BATCH_READ);
    if (inCatalog) { // so that INSERT reaches newWriteBuilder, which refuses it by name
      capabilities.addAll(Arrays.asList(new Object[] {
          TableCapability.BATCH_WRITE, TableCapability.TRUNCATE, TableCapability.OVERWRITE_BY_FILTER,
          TableCapability.OVERWRITE_DYNAMIC}));
    }
    return capabilities;
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    throw new UnsupportedOperationException(READ_ONLY + "write to " + name + ".");
  }

  public void deleteWhere(Predicate[] predicates) {
    throw new UnsupportedOperationException(READ_ONLY + "DELETE FROM " + name + ".");
  }

  public boolean truncateTable() {
    throw new UnsupportedOperationException(READ_ONLY + "TRUNCATE TABLE " + name + ".");
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap given) {
    return new TwoStageScanBuilder(at(given));
  }

  /** This table under the options of one read, which may pin another snapshot. */
  TwoStageTable at(CaseInsensitiveStringMap given) {
    Map wanted = new LinkedHashMap(options);
    Set known = lower(options.keySet());
    boolean changed = false;
    for (Iterator it = given.asCaseSensitiveMap().entrySet().iterator(); it.hasNext();) {
      Map.Entry option = (Map.Entry) it.next();
      String word = ((String) option.getKey()).toLowerCase(Locale.ROOT);
      boolean timeTravel = word.equals("versionasof") || word.equals("timestampasof");
      if (inCatalog && timeTravel && (known.contains("versionasof") || known.contains("as-of-timestamp"))) {
        continue; // Spark read this option itself and had the catalog load that version
      }
      if (!option.getValue().equals(value(options, word))) {
        changed = true;
        remove(wanted, word);
        wanted.put(option.getKey(), option.getValue());
      }
    }
    if (!changed && pin != null) {
      return this;
    }
    if (!lower(wanted.keySet()).contains("path")) {
      throw new IllegalArgumentException(
          "[TWOSTAGE.MISSING_OPTION] Option 'path' is missing: Spark drops the options of CREATE TABLE … USING"
              + " twostage. Hint: Use CREATE TEMPORARY VIEW … USING twostage OPTIONS (path '…'), or"
              + " SELECT … FROM t WITH (path = '…').");
    }
    TwoStageTable other = load(wanted, confs, inCatalog);
    if (other.schema.catalogString().equals(schema.catalogString())) {
      return other;
    }
    if (pin != null) {
      throw new IllegalArgumentException(
          "[TWOSTAGE.SCHEMA_MISMATCH] The options of this read choose a table version with another schema: "
              + other.schema.catalogString() + " instead of " + schema.catalogString()
              + ". Hint: Give the options to format('twostage').load(…), or use VERSION AS OF.");
    }
    String columns = value(wanted, "columns") == null ? columns(other.schema) : null;
    if (columns == null) {
      throw new IllegalArgumentException(
          "[TWOSTAGE.SCHEMA_MISMATCH] The schema that was given for this read is not the table's, nor some columns of it: "
              + schema.catalogString() + "; " + other.name + " has " + other.schema.catalogString()
              + ". Hint: Leave the schema out; the table has its own.");
    }
    wanted.put("columns", columns);
    return load(wanted, confs, inCatalog);
  }

  /** The declared columns as an option; null where the table does not have all of them, in their types. */
  private String columns(StructType all) {
    StringBuilder names = new StringBuilder();
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) {
      Option place = all.getFieldIndex(fields[i].name());
      if (!place.isDefined()
          || !all.apply(fields[i].name()).dataType().catalogString().equals(fields[i].dataType().catalogString())) {
        return null;
      }
      names.append(i == 0 ? "`" : ", `").append(fields[i].name().replace("`", "``")).append('`');
    }
    return fields.length == 0 ? null : names.toString();
  }

  private static Set lower(Set words) {
    Set result = new HashSet();
    for (Iterator it = words.iterator(); it.hasNext();) {
      result.add(((String) it.next()).toLowerCase(Locale.ROOT));
    }
    return result;
  }

  /** Whether rows may be filtered by keys of joins: the option dynamic-filter is not off. */
  boolean filtersByKeys() {
    return !"off".equalsIgnoreCase(String.valueOf(value(options, "dynamic-filter")));
  }

  /** Whether the scan evaluates tests of a list's elements: the option filter.elements is not false. */
  boolean testsElements() {
    return !"false".equalsIgnoreCase(String.valueOf(value(options, "filter.elements")).trim());
  }

  /** Whether tests of dates, years and NaN become comparisons of columns: the option filter.rewrite is not false. */
  boolean rewritesFilters() {
    return !"false".equalsIgnoreCase(String.valueOf(value(options, "filter.rewrite")).trim());
  }

  private static Object value(Map options, String word) {
    Map sorted = new TreeMap(String.CASE_INSENSITIVE_ORDER);
    sorted.putAll(options);
    return sorted.get(word);
  }

  private static void remove(Map options, String word) {
    for (Iterator it = options.keySet().iterator(); it.hasNext();) {
      if (((String) it.next()).equalsIgnoreCase(word)) {
        it.remove();
      }
    }
  }

  /** Calls Python about this table; sends the pinned table itself if Python has evicted it. */
  Message call(Requests.PinnedRequest request, Class answer) {
    request.pin = pin;
    request.pinned = null;
    try {
      return PythonBridge.call(request, answer);
    } catch (PythonBridge.UnknownPin evicted) {
      request.pinned = pinned;
      return PythonBridge.call(request, answer);
    }
  }

  String key() {
    return key;
  }

  public boolean equals(Object other) {
    // Without the reason, Spark would not take a plan that has it for a new plan, and would drop it.
    return other instanceof TwoStageTable && ((TwoStageTable) other).key.equals(key)
        && ((TwoStageTable) other).schema.equals(schema) && Objects.equals(((TwoStageTable) other).reason, reason)
        && Objects.equals(((TwoStageTable) other).answerable, answerable);
  }

  public int hashCode() {
    return key.hashCode();
  }

  public String toString() {
    return name;
  }
}
