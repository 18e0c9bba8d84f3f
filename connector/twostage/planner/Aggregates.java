package twostage_planner;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.execution.datasources.DataSourceStrategy$;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/** Aggregates as plain values for Python: functions with their columns, and the columns to group by. */
final class Aggregates {
  private Aggregates() {}

  /** Null where a function is none that metadata could answer. */
  static Map translate(Aggregation aggregation) {
    List functions = new ArrayList();
    AggregateFunc[] asked = aggregation.aggregateExpressions();
    for (int i = 0; i < asked.length; i++) {
      String name = null;
      Expression column = null;
      if (asked[i] instanceof CountStar) {
        name = "rows";
      } else if (asked[i] instanceof Count && !((Count) asked[i]).isDistinct()) {
        name = "count";
        column = ((Count) asked[i]).column();
      } else if (asked[i] instanceof Min) {
        name = "min";
        column = ((Min) asked[i]).column();
      } else if (asked[i] instanceof Max) {
        name = "max";
        column = ((Max) asked[i]).column();
      }
      if (name == null || (column != null && columnName(column) == null)) {
        return null;
      }
      List function = new ArrayList();
      function.add(name);
      function.add(column == null ? null : columnName(column));
      functions.add(function);
    }
    List groups = new ArrayList();
    Expression[] grouped = aggregation.groupByExpressions();
    for (int i = 0; i < grouped.length; i++) {
      if (columnName(grouped[i]) == null) {
        return null;
      }
      groups.add(columnName(grouped[i]));
    }
    Map form = new LinkedHashMap();
    form.put("functions", functions);
    form.put("groups", groups);
    return form;
  }

  /** The same of the operator that Spark will push down later; null where it can't be answered. */
  static Map translate(Aggregate node) {
    ListBuffer functions = new ListBuffer();
    Seq results = node.aggregateExpressions();
    for (int i = 0; i < results.size(); i++) {
      collect((org.apache.spark.sql.catalyst.expressions.Expression) results.apply(i), functions);
    }
    Seq groups = node.groupingExpressions();
    for (int i = 0; i < groups.size(); i++) {
      if (!(groups.apply(i) instanceof Attribute)) {
        return null;
      }
    }
    Option pushed = DataSourceStrategy$.MODULE$.translateAggregation((Seq) functions.toList().distinct(), groups);
    return pushed.isDefined() ? translate((Aggregation) pushed.get()) : null;
  }

  /** The same of one function alone. */
  static Map translate(org.apache.spark.sql.catalyst.expressions.Expression function, Seq groups) {
    ListBuffer one = new ListBuffer();
    one.$plus$eq(function);
    Option pushed = DataSourceStrategy$.MODULE$.translateAggregation(one.toList(), groups);
    return pushed.isDefined() ? translate((Aggregation) pushed.get()) : null;
  }

  private static void collect(
      org.apache.spark.sql.catalyst.expressions.Expression expression, ListBuffer functions) {
    if (expression instanceof AggregateExpression) {
      functions.$plus$eq(expression);
      return;
    }
    Seq children = expression.children();
    for (int i = 0; i < children.size(); i++) {
      collect((org.apache.spark.sql.catalyst.expressions.Expression) children.apply(i), functions);
    }
  }

  private static String columnName(Expression expression) {
    if (!(expression instanceof NamedReference)) {
      return null;
    }
    String[] names = ((NamedReference) expression).fieldNames();
    return names.length == 1 ? names[0] : null;
  }
}
