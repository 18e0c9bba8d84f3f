package twostage_planner;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * The files of one scan that Spark's Parquet reader does: pinned, so that nothing is listed, matched by a pattern or
 * skipped for its name. Stays in the driver. Two are equal if they hold the same files.
 */
final class TwoStageFiles implements FileIndex {
  private final Path root;
  private final Answers.SparkFile[] listed;
  private final FileStatus[] files;
  /** The files as plain values, to be compared. */
  private final List key;
  private final long bytes;
  private final String scan;
  /** The partition column that holds each file's first bit among those of deleted rows; null for no such column. */
  private final String firstBitName;
  private final String salt;
  /** The columns whose range in each file the last partition columns hold. */
  final String[] keyColumns;
  private boolean started;
  private static volatile boolean made;

  /** `salt` makes names of columns that no file has. */
  TwoStageFiles(Answers.SparkScan handedOver, String salt) {
    scan = handedOver.scan;
    keyColumns = handedOver.keyColumns;
    firstBitName = handedOver.deleted == null ? null : "first_row_" + salt;
    this.salt = salt;
    made = true;
    root = path(handedOver.root);
    bytes = handedOver.bytes;
    listed = handedOver.files;
    files = new FileStatus[listed.length];
    key = new ArrayList();
    for (int i = 0; i < files.length; i++) {
      long length = listed[i].length;
      files[i] = new FileStatus(length, false, 1, Math.max(1L, length), 0L, path(listed[i].path));
      key.add(listed[i].path);
      key.add(Long.valueOf(length));
      key.add(listed[i].firstBit);
      key.add(listed[i].toJson().get("ranges"));
    }
  }

  /** A local path is literal, and Hadoop's default file system does not apply to it. */
  private static Path path(String located) {
    return located.startsWith("/") ? new Path("file", null, located) : new Path(located);
  }

  /** Whether a scan was handed over since Spark started. */
  static boolean wasMade() {
    return made;
  }

  String scan() {
    return scan;
  }

  /** The first file of each store, which is a scheme and a host. */
  List firstOfEachStore() {
    Map found = new LinkedHashMap();
    for (int i = 0; i < files.length; i++) {
      java.net.URI uri = files[i].getPath().toUri();
      String store = uri.getScheme() + "://" + uri.getAuthority();
      if (!found.containsKey(store)) {
        found.put(store, files[i]);
      }
    }
    return new ArrayList(found.values());
  }

  public Seq rootPaths() {
    return seq(root);
  }

  /** Spark calls this when it runs the scan, and not before. */
  public synchronized Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    if (!SQLConf.get().parquetVectorizedReaderEnabled()) {
      // Spark's row reader takes the switch for field ids from the session alone: without it, columns are all NULL.
      throw new IllegalStateException(
          "[TWOSTAGE.SETTING_CHANGED] spark.sql.parquet.enableVectorizedReader was switched off after the query was "
              + "planned. Hint: Make the DataFrame again, or leave the setting as it was.");
    }
    if (!started) {
      started = true;
      PythonBridge.call(new Requests.Started(scan), Answers.Started.class);
    }
    int width = partitionSchema().length();
    if (width == 0) {
      return seq(PartitionDirectory.apply(InternalRow.empty(), files));
    }
    ListBuffer each = new ListBuffer();
    for (int i = 0; i < files.length; i++) {
      Object[] values = new Object[width];
      values[0] = listed[i].firstBit; // or the first range
      KeyRanges.addTo(values, firstBitName == null ? 0 : 1, listed[i].ranges, keyColumns);
      each.$plus$eq(PartitionDirectory.apply(new GenericInternalRow(values), new FileStatus[] {files[i]}));
    }
    return each.toList();
  }

  public String[] inputFiles() {
    String[] names = new String[files.length];
    for (int i = 0; i < names.length; i++) {
      names[i] = files[i].getPath().toUri().toString();
    }
    return names;
  }

  public void refresh() {}

  public long sizeInBytes() {
    return bytes;
  }

  public StructType partitionSchema() {
    StructType schema = new StructType();
    if (firstBitName != null) {
      schema = schema.add(new StructField(firstBitName, DataTypes.IntegerType, false, Metadata.empty()));
    }
    return KeyRanges.addTo(schema, keyColumns, salt);
  }

  public Option metadataOpsTimeNs() {
    return Option.empty();
  }

  private static Seq seq(Object only) {
    ListBuffer list = new ListBuffer();
    list.$plus$eq(only);
    return list.toList();
  }

  public boolean equals(Object other) {
    return other instanceof TwoStageFiles && ((TwoStageFiles) other).key.equals(key)
        && (firstBitName == null) == (((TwoStageFiles) other).firstBitName == null)
        && ((TwoStageFiles) other).root.equals(root);
  }

  public int hashCode() {
    return key.hashCode();
  }

  public String toString() {
    return "TwoStageFiles(" + files.length + " files of " + root + ")";
  }
}
