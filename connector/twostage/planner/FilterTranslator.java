package twostage_planner;

import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.ArrayContains;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MapKeys;
import org.apache.spark.sql.catalyst.expressions.Not;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import scala.Option;

/**
 * Spark's filters as V2 predicates: as Spark itself translates what `FilterRewriter` makes of them, and two that it has no V2
 * form for: array_contains and map_contains_key of a column and a literal become `ARRAY_CONTAINS` and `MAP_CONTAINS_KEY`.
 */
final class FilterTranslator {
  private FilterTranslator() {}

  /** The predicate that is true, false and NULL for the same rows of a table; null if there is none. */
  static Predicate translate(Expression filter, TwoStageTable table) {
    return translate(table.rewritesFilters() ? FilterRewriter.rewrite(filter) : filter, table.testsElements());
  }

  private static Predicate translate(Expression filter, boolean elements) {
    Option own = translatedBySpark(filter);
    if (own.isDefined()) {
      return (Predicate) own.get();
    }
    if (elements && filter instanceof ArrayContains) {
      return contains((ArrayContains) filter);
    }
    if (filter instanceof Not) {
      Predicate child = translate(((Not) filter).child(), elements);
      return child == null ? null : new org.apache.spark.sql.connector.expressions.filter.Not(child);
    }
    if (filter instanceof And || filter instanceof Or) {
      Predicate left = translate((Expression) filter.children().apply(0), elements);
      Predicate right = left == null ? null : translate((Expression) filter.children().apply(1), elements);
      if (right == null) {
        return null;
      }
      return filter instanceof And
          ? (Predicate) new org.apache.spark.sql.connector.expressions.filter.And(left, right)
          : (Predicate) new org.apache.spark.sql.connector.expressions.filter.Or(left, right);
    }
    return null;
  }

  private static Option translatedBySpark(Expression filter) {
    try {
      return DataSourceV2Strategy$.MODULE$.translateFilterV2(filter);
    } catch (AssertionError error) { // up to 4.3, an AND or OR with a NULL, as an argument of coalesce or CASE, ends the query
      return Option.empty();
    }
  }

  private static Predicate contains(ArrayContains test) {
    Expression list = test.left();
    boolean ofMap = list instanceof MapKeys;
    Option column = term(ofMap ? ((MapKeys) list).child() : list);
    Option value = test.right() instanceof Literal ? term(test.right()) : Option.empty();
    if (!column.isDefined() || !(column.get() instanceof NamedReference) || !value.isDefined()) {
      return null;
    }
    return new Predicate(
        ofMap ? "MAP_CONTAINS_KEY" : "ARRAY_CONTAINS",
        new org.apache.spark.sql.connector.expressions.Expression[] {
            (org.apache.spark.sql.connector.expressions.Expression) column.get(),
            (org.apache.spark.sql.connector.expressions.Expression) value.get()});
  }

  private static Option term(Expression expression) {
    return new V2ExpressionBuilder(expression, false).build();
  }
}
