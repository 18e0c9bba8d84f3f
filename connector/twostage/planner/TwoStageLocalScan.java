package twostage_planner;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.*;
import org.apache.spark.unsafe.types.UTF8String;

/** Aggregates that metadata answered: rows that Python computed, and no task reads. */
final class TwoStageLocalScan implements LocalScan {
  private final String scan;
  private final String[][] values;
  private final StructType schema;
  private final String text;
  private static volatile boolean wasRead;

  TwoStageLocalScan(Answers.MetadataRows answered, String text) {
    scan = answered.scan;
    values = answered.rows;
    schema = (StructType) DataType.fromJson(answered.schema);
    this.text = text;
  }

  public StructType readSchema() {
    return schema;
  }

  public String description() {
    return text;
  }

  /** The id that Python gave the answer. */
  String scan() {
    return scan;
  }

  /** Whether the rows of one were taken since Spark started. */
  static boolean wasRead() {
    return wasRead;
  }

  public InternalRow[] rows() {
    wasRead = true;
    PythonBridge.call(new Requests.Started(scan), Answers.Started.class);
    return rows(values, schema);
  }

  /** Rows of texts as Spark holds them. */
  static InternalRow[] rows(String[][] values, StructType schema) {
    StructField[] fields = schema.fields();
    InternalRow[] rows = new InternalRow[values.length];
    for (int i = 0; i < rows.length; i++) {
      Object[] row = new Object[fields.length];
      for (int j = 0; j < fields.length; j++) {
        row[j] = parse(fields[j].dataType(), values[i][j]);
      }
      rows[i] = new GenericInternalRow(row);
    }
    return rows;
  }

  /** A value as Spark holds it. */
  private static Object parse(DataType type, String text) {
    if (text == null) {
      return null;
    }
    if (type instanceof BooleanType) {
      return Boolean.valueOf(text);
    }
    if (type instanceof IntegerType || type instanceof DateType) {
      return Integer.valueOf(text);
    }
    if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
      return Long.valueOf(text);
    }
    if (type instanceof FloatType) {
      return Float.valueOf(text);
    }
    if (type instanceof DoubleType) {
      return Double.valueOf(text);
    }
    if (type instanceof DecimalType) {
      DecimalType decimal = (DecimalType) type;
      return Decimal.apply(new java.math.BigDecimal(text), decimal.precision(), decimal.scale());
    }
    if (type instanceof StringType) {
      return UTF8String.fromString(text);
    }
    throw new IllegalStateException("[TWOSTAGE.INTERNAL] Metadata answered with a value of type " + type);
  }
}
