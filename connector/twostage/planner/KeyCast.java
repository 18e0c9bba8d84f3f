package twostage_planner;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode$;
import org.apache.spark.sql.catalyst.expressions.Expression;
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
}
