package twostage_planner;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Average;
import org.apache.spark.sql.catalyst.expressions.aggregate.Complete$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.*;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractPartialFunction;

/**
 * Translates the aggregates of an operator for Python: functions with their columns, and the columns to group by.
 *
 * Whether metadata may answer is decided by the query's own expressions, because in what Spark pushes down, literals have
 * lost their DISTINCT: `count(DISTINCT 1)` arrives as `count(*)`. What it pushes must then be the same functions.
 */
final class AggregateTranslator {
  /** The expressions of the operator's results and groups, in columns of the node below that was reached. */
  private final List results;
  private final List groups;

  private AggregateTranslator(List results, List groups) {
    this.results = results;
    this.groups = groups;
  }

  static AggregateTranslator of(Aggregate node) {
    return new AggregateTranslator(list(node.aggregateExpressions()), list(node.groupingExpressions()));
  }

  private static List list(Seq expressions) {
    List all = new ArrayList();
    for (int i = 0; i < expressions.size(); i++) {
      all.add(expressions.apply(i));
    }
    return all;
  }

  /** The same aggregates in the columns below a projection. */
  AggregateTranslator below(Project node) {
    Map named = new HashMap();
    for (int i = 0; i < node.projectList().size(); i++) {
      Expression item = (Expression) node.projectList().apply(i);
      if (item instanceof Alias) {
        named.put(((Alias) item).exprId(), ((Alias) item).child());
      }
    }
    return named.isEmpty() ? this : new AggregateTranslator(replaced(results, named), replaced(groups, named));
  }

  private static List replaced(List expressions, Map named) {
    List all = new ArrayList();
    for (int i = 0; i < expressions.size(); i++) {
      all.add(((Expression) expressions.get(i)).transformUp(new ReplaceProjectedColumns(named)));
    }
    return all;
  }

  /** As a request has them, over a relation with these columns; null where metadata can't answer one of them. */
  Requests.WantedAggregates wanted(Seq columns) {
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
    return wanted(functions, names);
  }

  static Requests.WantedAggregates wanted(List functions, List groups) {
    return new Requests.WantedAggregates(
        (Requests.AggregateFunction[]) functions.toArray(new Requests.AggregateFunction[0]),
        (String[]) groups.toArray(new String[0]));
  }

  private static boolean collect(Expression expression, Seq columns, List functions) {
    if (expression instanceof AggregateExpression) {
      AggregateExpression aggregate = (AggregateExpression) expression;
      if (aggregate.aggregateFunction() instanceof Average) {
        // If it isn't answered as it is, Spark asks for it again as sum and count.
        Average average = (Average) aggregate.aggregateFunction();
        return isPlain(aggregate) && !aggregate.isDistinct() && isSummed(average.child(), average.evalMode())
            && add(function("sum", name(average.child(), columns)), functions)
            && add(function("count", name(average.child(), columns)), functions);
      }
      return add(function(aggregate, columns), functions);
    }
    for (int i = 0; i < expression.children().size(); i++) {
      if (!collect((Expression) expression.children().apply(i), columns, functions)) {
        return false;
      }
    }
    return true;
  }

  private static boolean add(Requests.AggregateFunction function, List functions) {
    if (function != null && !functions.contains(function)) {
      functions.add(function);
    }
    return function != null;
  }

  /** Whether it is of all rows, and has one argument. */
  private static boolean isPlain(AggregateExpression expression) {
    return expression.filter().isEmpty() && expression.mode() == Complete$.MODULE$
        && expression.aggregateFunction().children().size() == 1;
  }

  /** Whether sums of this type don't depend on the order of rows, and an overflow is an error or wraps. */
  private static boolean isSummed(Expression child, scala.Enumeration.Value mode) {
    DataType type = child.dataType();
    return (type instanceof IntegerType || type instanceof LongType || type instanceof DecimalType)
        && !mode.toString().equals("TRY");
  }

  /** One function; null where metadata can't answer it. */
  static Requests.AggregateFunction function(AggregateExpression expression, Seq columns) {
    AggregateFunction function = expression.aggregateFunction();
    if (!isPlain(expression)) {
      return null;
    }
    Expression child = (Expression) function.children().apply(0);
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Count) {
      if (child instanceof Literal) {
        return expression.isDistinct() || ((Literal) child).value() == null ? null : function("rows", null);
      }
      return function(expression.isDistinct() ? "distinct" : "count", name(child, columns));
    }
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Min) {
      return function("min", name(child, columns));
    }
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Max) {
      return function("max", name(child, columns));
    }
    if (function instanceof org.apache.spark.sql.catalyst.expressions.aggregate.Sum) {
      scala.Enumeration.Value mode =
          ((org.apache.spark.sql.catalyst.expressions.aggregate.Sum) function).evalContext().evalMode();
      return !expression.isDistinct() && isSummed(child, mode) ? function("sum", name(child, columns)) : null;
    }
    return null;
  }

  /** Null where a function needs a column and there is none. */
  private static Requests.AggregateFunction function(String name, String column) {
    return column == null && !name.equals("rows") ? null : new Requests.AggregateFunction(name, column);
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

  /** What Spark pushes down, if that is what was found to be `answerable`; null otherwise. */
  static Requests.WantedAggregates pushed(Aggregation aggregation, Requests.WantedAggregates answerable) {
    if (answerable == null) {
      return null;
    }
    List functions = new ArrayList();
    AggregateFunc[] given = aggregation.aggregateExpressions();
    for (int i = 0; i < given.length; i++) {
      Requests.AggregateFunction function = null;
      if (given[i] instanceof CountStar) {
        function = function("rows", null);
      } else if (given[i] instanceof Count) {
        function = function(((Count) given[i]).isDistinct() ? "distinct" : "count", name(((Count) given[i]).column()));
      } else if (given[i] instanceof Min) {
        function = function("min", name(((Min) given[i]).column()));
      } else if (given[i] instanceof Max) {
        function = function("max", name(((Max) given[i]).column()));
      } else if (given[i] instanceof Sum && !((Sum) given[i]).isDistinct()) {
        function = function("sum", name(((Sum) given[i]).column()));
      }
      functions.add(function);
    }
    List groups = new ArrayList();
    org.apache.spark.sql.connector.expressions.Expression[] grouped = aggregation.groupByExpressions();
    for (int i = 0; i < grouped.length; i++) {
      groups.add(name(grouped[i]));
    }
    boolean same = groups.equals(Arrays.asList((Object[]) answerable.groups))
        && new HashSet(functions).equals(new HashSet(Arrays.asList((Object[]) answerable.functions)));
    return same ? wanted(functions, groups) : null;
  }

  private static String name(org.apache.spark.sql.connector.expressions.Expression expression) {
    if (!(expression instanceof NamedReference)) {
      return null;
    }
    String[] names = ((NamedReference) expression).fieldNames();
    return names.length == 1 ? names[0] : null;
  }

  /** Replaces a projection's columns by what they are computed from. */
  private static final class ReplaceProjectedColumns extends AbstractPartialFunction {
    private final Map named;

    ReplaceProjectedColumns(Map named) {
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
