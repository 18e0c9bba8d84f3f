package twostage_planner;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.*;
import scala.Option;

/** Casts that a key of a join is compared under. */
final class KeyCast {
  private KeyCast() {}

  /** Whether each value has a wide one of its own, and that one, cast back, is the value again. */
  static boolean widens(Cast cast) {
    DataType from = cast.child().dataType();
    DataType to = cast.dataType();
    if (from instanceof IntegerType) {
      return to instanceof LongType || to instanceof DecimalType && holds((DecimalType) to, 10, 0);
    }
    if (from instanceof LongType) {
      return to instanceof DecimalType && holds((DecimalType) to, 20, 0);
    }
    return from instanceof DecimalType && to instanceof DecimalType
        && holds((DecimalType) to, ((DecimalType) from).precision(), ((DecimalType) from).scale());
  }

  private static boolean holds(DecimalType wide, int precision, int scale) {
    return wide.scale() >= scale && wide.precision() - wide.scale() >= precision - scale;
  }

  /** A wide key in the column's own type; where the column has no such key, NULL or any value at all. */
  static Expression narrowed(Expression key, DataType type) {
    return new Cast(key, type, Option.empty(), EvalMode$.MODULE$.TRY());
  }

  /** A column of the type that a join compares it in, so that the keys of a broadcast, which have that type, are its keys. */
  static Attribute widened(AttributeReference column, DataType type) {
    return new AttributeReference(column.name(), type, true, Metadata.empty(), column.exprId(), column.qualifier());
  }

  /** A filter's predicate, `column IN (…)`, with the keys in the column's own type; those that it cannot have are left out. */
  static Predicate narrowed(Predicate predicate, StructType schema) {
    org.apache.spark.sql.connector.expressions.Expression[] children = predicate.children();
    DataType type = children.length > 1 && predicate.name().equals("IN") ? typeOf(children[0], schema) : null;
    if (type == null || !(children[1] instanceof Literal) || ((Literal) children[1]).dataType().equals(type)) {
      return predicate;
    }
    List narrow = new ArrayList();
    narrow.add(children[0]);
    for (int i = 1; i < children.length; i++) {
      Object value = narrowed(((Literal) children[i]).value(), type);
      if (value != null) {
        narrow.add(new LiteralValue(value, type));
      }
    }
    return new Predicate("IN", (org.apache.spark.sql.connector.expressions.Expression[]) narrow.toArray(
        new org.apache.spark.sql.connector.expressions.Expression[0]));
  }

  /** The type of a column that `widens` knows; null for any other. */
  private static DataType typeOf(org.apache.spark.sql.connector.expressions.Expression column, StructType schema) {
    String[] names = column instanceof NamedReference ? ((NamedReference) column).fieldNames() : new String[0];
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length && names.length == 1; i++) {
      DataType type = fields[i].dataType();
      if (fields[i].name().equals(names[0])) {
        return type instanceof IntegerType || type instanceof LongType || type instanceof DecimalType ? type : null;
      }
    }
    return null;
  }

  /** Null where the type has no such value. */
  private static Object narrowed(Object value, DataType type) {
    if (value == null) {
      return null;
    }
    java.math.BigDecimal exact = value instanceof Decimal
        ? ((Decimal) value).toJavaBigDecimal() : java.math.BigDecimal.valueOf(((Number) value).longValue());
    try {
      if (type instanceof IntegerType) {
        return Integer.valueOf(exact.intValueExact());
      }
      if (type instanceof LongType) {
        return Long.valueOf(exact.longValueExact());
      }
      DecimalType decimal = (DecimalType) type;
      java.math.BigDecimal scaled = exact.setScale(decimal.scale());
      return scaled.precision() > decimal.precision()
          ? null : Decimal$.MODULE$.apply(scaled, decimal.precision(), decimal.scale());
    } catch (ArithmeticException noSuchValue) {
      return null;
    }
  }
}
