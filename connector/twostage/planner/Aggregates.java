package twostage_planner;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Aggregates as plain values for Python: functions with their columns, and the columns to group by.
 *
 * What may be answered is told by the query's own expressions, as in what Spark pushes down DISTINCT is lost
 * of literals: `count(DISTINCT 1)` arrives as `count(*)`. What it pushes must then be the same.
 */
final class Aggregates {
  /** The expressions of the operator's results and groups, in the columns of the node that is looked at. */
  private final List results;
  private final List groups;

  private Aggregates(List results, List groups) {
    this.results = results;
    this.groups = groups;
  }

  static Aggregates of(Aggregate node) {
    return new Aggregates(list(node.aggregateExpressions()), list(node.groupingExpressions()));
  }

  private static List list(Seq expressions) {
    List all = new ArrayList();
    for (int i = 0; i < expressions.size(); i++) {
      all.add(expressions.apply(i));
    }
    return all;
  }

  /** The same in the columns below a projection. */
  Aggregates below(Project node) {
    Map named = new HashMap();
    for (int i = 0; i < node.projectList().size(); i++) {
      Expression item = (Expression) node.projectList().apply(i);
      if (item instanceof Alias) {
        named.put(((Alias) item).exprId(), ((Alias) item).child());
      }
    }
    return named.isEmpty() ? this : new Aggregates(replaced(results, named), replaced(groups, named));
  }

  private static List replaced(List expressions, Map named) {
    List all = new ArrayList();
    for (int i = 0; i < expressions.size(); i++) {
      all.add(((Expression) expressions.get(i)).transformUp(new Unnamed(named)));
    }
    return all;
  }

  /** As a request says them, over a relation with these columns; null where metadata can't answer one of them. */
  Map form(Seq columns) {
    List functions = new ArrayList();
    for (int i = 0; i < results.size(); i++) {
      if (!collect((Expression) results.get(i), columns, functions)) {
        return null;
      }
    }
    List names = new ArrayList();
    for (int i = 0; i < groups.size(); i++) {
      String name = name((Expression) groups.get(i), columns);
      if (name == null) {
        return null;
      }
      names.add(name);
    }
    return form(functions, names);
  }

  private static Map form(List functions, List groups) {
    Map form = new LinkedHashMap();
    form.put("functions", functions);
    form.put("groups", groups);
    return form;
  }

  private static boolean collect(Expression expression, Seq columns, List functions) {
    if (expression instanceof AggregateExpression) {
      List function = function((AggregateExpression) expression, columns);
      if (function != null && !functions.contains(function)) {
        functions.add(function);
      }
      return function != null;
    }
    for (int i = 0; i < expression.children().size(); i++) {
      if (!collect((Expression) expression.children().apply(i), columns, functions)) {
        return false;
      }
    }
    return true;
  }

  /** One function's name and column; null where metadata can't answer it. */
  static List function(AggregateExpression expression, Seq columns) {
    AggregateFunction function = expression.aggregateFunction();
    if (expression.filter().isDefined() || expression.mode() != Complete$.MODULE$ || function.children().size() != 1) {
      return null;
    }
    Expression child = (Expression) function.children().apply(0);
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Count) {
      if (expression.isDistinct()) {
        return null;
      }
      if (child instanceof Literal) {
        return ((Literal) child).value() == null ? null : pair("rows", null);
      }
      return pair("count", name(child, columns));
    }
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Min) {
      return pair("min", name(child, columns));
    }
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Max) {
      return pair("max", name(child, columns));
    }
    return null;
  }

  /** Null where a function is to be of a column and there is none. */
  private static List pair(String function, String column) {
    if (column == null && !function.equals("rows")) {
      return null;
    }
    List pair = new ArrayList();
    pair.add(function);
    pair.add(column);
    return pair;
  }

  /** The relation's own name of a column; null if the expression is none. */
  private static String name(Expression expression, Seq columns) {
    for (int i = 0; expression instanceof Attribute && i < columns.size(); i++) {
      Attribute column = (Attribute) columns.apply(i);
      if (column.exprId().equals(((Attribute) expression).exprId())) {
        return column.name();
      }
    }
    return null;
  }

  /** What Spark pushes down, if it is what was found to be `answerable`; null otherwise. */
  static Map pushed(Aggregation aggregation, Map answerable) {
    if (answerable == null) {
      return null;
    }
    List functions = new ArrayList();
    AggregateFunc[] asked = aggregation.aggregateExpressions();
    for (int i = 0; i < asked.length; i++) {
      List function = null;
      if (asked[i] instanceof CountStar) {
        function = pair("rows", null);
      } else if (asked[i] instanceof Count && !((Count) asked[i]).isDistinct()) {
        function = pair("count", name(((Count) asked[i]).column()));
      } else if (asked[i] instanceof Min) {
        function = pair("min", name(((Min) asked[i]).column()));
      } else if (asked[i] instanceof Max) {
        function = pair("max", name(((Max) asked[i]).column()));
      }
      functions.add(function);
    }
    List groups = new ArrayList();
    org.apache.spark.sql.connector.expressions.Expression[] grouped = aggregation.groupByExpressions();
    for (int i = 0; i < grouped.length; i++) {
      groups.add(name(grouped[i]));
    }
    boolean same = groups.equals(answerable.get("groups"))
        && new HashSet(functions).equals(new HashSet((List) answerable.get("functions")));
    return same ? form(functions, groups) : null;
  }

  private static String name(org.apache.spark.sql.connector.expressions.Expression expression) {
    if (!(expression instanceof NamedReference)) {
      return null;
    }
    String[] names = ((NamedReference) expression).fieldNames();
    return names.length == 1 ? names[0] : null;
  }

  /** Puts in the place of a projection's column what the column is. */
  private static final class Unnamed extends AbstractPartialFunction {
    private final Map named;

    Unnamed(Map named) {
      this.named = named;
    }

    public boolean isDefinedAt(Object expression) {
      return expression instanceof Attribute && named.containsKey(((Attribute) expression).exprId());
    }

    public Object apply(Object expression) {
      return applyOrElse(expression, null);
    }

    public Object applyOrElse(Object expression, scala.Function1 otherwise) {
      return isDefinedAt(expression) ? named.get(((Attribute) expression).exprId()) : otherwise.apply(expression);
    }
  }
}
