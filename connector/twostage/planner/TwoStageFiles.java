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
  private final FileStatus[] files;
  private final List key;
  private final long bytes;
  private final String scan;
  /** The column that tells, of each file, where its rows begin among those of all files; null for no such column. */
  private final String first;
  private boolean started;
  private static volatile boolean made;

  /**
   * `listed` holds a path and a length for each file, and where its rows begin if there is such a column; `bytes` is
   * what the optimizer should take the rows for.
   */
  TwoStageFiles(String scan, String root, List listed, long bytes, String first) {
    this.scan = scan;
    this.first = first;
    made = true;
    this.root = path(root);
    this.key = listed;
    this.bytes = bytes;
    files = new FileStatus[listed.size()];
    for (int i = 0; i < files.length; i++) {
      List file = (List) listed.get(i);
      long length = ((Number) file.get(1)).longValue();
      files[i] = new FileStatus(length, false, 1, Math.max(1L, length), 0L, path((String) file.get(0)));
    }
  }

  /** A local file's name is literal and belongs to no default file system. */
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
  List ofEachStore() {
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

  /** Spark asks when it runs the scan, and not before. */
  public synchronized Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    if (!SQLConf.get().parquetVectorizedReaderEnabled()) {
      // Its other reader takes field ids from the session's setting alone, and gives NULLs.
      throw new IllegalStateException(
          "[TWOSTAGE.SETTING_CHANGED] spark.sql.parquet.enableVectorizedReader was switched off after the query was "
              + "planned. Hint: Make the DataFrame again, or leave the setting as it was.");
    }
    if (!started) {
      started = true;
      Map request = Bridge.request("started");
      request.put("scan", scan);
      Bridge.call(request);
    }
    if (first == null) {
      return seq(PartitionDirectory.apply(InternalRow.empty(), files));
    }
    ListBuffer each = new ListBuffer();
    for (int i = 0; i < files.length; i++) {
      Object begins = ((List) key.get(i)).get(2);
      each.$plus$eq(PartitionDirectory.apply(
          new GenericInternalRow(new Object[] {begins}), new FileStatus[] {files[i]}));
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
    return first == null ? schema : schema.add(new StructField(first, DataTypes.IntegerType, false, Metadata.empty()));
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
        && (first == null) == (((TwoStageFiles) other).first == null)
        && ((TwoStageFiles) other).root.equals(root);
  }

  public int hashCode() {
    return key.hashCode();
  }

  public String toString() {
    return "TwoStageFiles(" + files.length + " files of " + root + ")";
  }
}
