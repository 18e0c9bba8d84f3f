package twostage_planner;

import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/**
 * Spark's own Parquet format, asked for columns under other names than the query has. So no projection need rename
 * what it gives, which beyond `spark.sql.codegen.maxFields` would copy each row once more. Stays in the driver: what
 * executors get is made by a stock format.
 */
final class TwoStageFormat extends ParquetFileFormat {
  /** By a column's name in the query, what the stock format is asked for. */
  private final Map columns;

  TwoStageFormat(Map columns) {
    this.columns = columns;
  }

  /** The filters stay behind: Spark looks for their columns by name, and skips row groups by what it finds. */
  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType dataSchema, StructType partitionSchema, StructType requiredSchema,
      Seq filters, scala.collection.immutable.Map options, Configuration conf) {
    return new ParquetFileFormat().buildReaderWithPartitionValues(
        session, renamed(dataSchema), partitionSchema, renamed(requiredSchema), (Seq) Nil$.MODULE$, options, conf);
  }

  private StructType renamed(StructType schema) {
    StructField[] fields = schema.fields();
    StructField[] asked = new StructField[fields.length];
    for (int i = 0; i < fields.length; i++) {
      StructField column = (StructField) columns.get(fields[i].name());
      asked[i] = column == null ? fields[i] : column;
    }
    return new StructType(asked);
  }

  public boolean equals(Object other) {
    return other instanceof TwoStageFormat && ((TwoStageFormat) other).columns.equals(columns);
  }

  public int hashCode() {
    return columns.hashCode();
  }
}
