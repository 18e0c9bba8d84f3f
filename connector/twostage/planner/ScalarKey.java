package twostage_planner;

import java.util.List;
import org.apache.spark.package$;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;

/** `column = (SELECT …)`: while the query runs, the value is the only key of the column. */
final class ScalarKey {
  /** Since 4.2 Spark hands such a value to the scan itself, once the subquery has run. */
  static final boolean IS_SPARK_S = !package$.MODULE$.SPARK_VERSION().startsWith("4.1.");

  /** A column, or one under casts that widen. */
  final Expression column;
  final ScalarSubquery subquery;

  private ScalarKey(Expression column, ScalarSubquery subquery) {
    this.column = column;
    this.subquery = subquery;
  }

  /** The first among these conjuncts; null if there is none. */
  static ScalarKey of(List conjuncts) {
    ScalarKey found = null;
    for (int i = 0; i < conjuncts.size() && found == null; i++) {
      found = of((Expression) conjuncts.get(i));
    }
    return found;
  }

  /** Of one conjunct; null if it is none, or if the subquery depends on the query's rows. */
  static ScalarKey of(Expression conjunct) {
    if (!(conjunct instanceof EqualTo)) {
      return null;
    }
    Expression left = ((EqualTo) conjunct).left();
    Expression right = ((EqualTo) conjunct).right();
    Expression column = left instanceof ScalarSubquery ? right : left;
    Expression value = left instanceof ScalarSubquery ? left : right;
    Expression bare = column;
    while (bare instanceof Cast && KeyCast.widens((Cast) bare)) {
      bare = ((Cast) bare).child();
    }
    boolean fits = bare instanceof Attribute && value instanceof ScalarSubquery
        && ((ScalarSubquery) value).outerAttrs().isEmpty();
    return fits ? new ScalarKey(column, (ScalarSubquery) value) : null;
  }
}
