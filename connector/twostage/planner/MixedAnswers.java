package twostage_planner;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.*;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;
import scala.runtime.AbstractPartialFunction;

/**
 * Aggregates of which metadata answers for most files: the aggregates of the others are read, and both are put
 * together. count adds up, min and max are taken again. A group that only one side has is there all the same.
 */
final class MixedAnswers {
  private final Aggregate node;
  private final NativeScans scans;
  /** The different aggregate functions, each as a list of name and column, and their expressions. */
  private final List forms = new ArrayList();
  private final List functions = new ArrayList();
  private DataSourceV2Relation relation;
  private TwoStageTable table;
  private final List predicates = new ArrayList();
  private LogicalPlan rest;
  private LocalRelation known;

  private MixedAnswers(Aggregate node, NativeScans scans) {
    this.node = node;
    this.scans = scans;
  }

  /** Null where metadata answers for all files, for too few, or for none. */
  static MixedAnswers of(Aggregate node, NativeScans scans) {
    MixedAnswers mixed = new MixedAnswers(node, scans);
    return mixed.isOverTable(node.child()) && mixed.takesFunctions() && mixed.ask() ? mixed : null;
  }

  /** The aggregates of the files that are read, one column for each function after those of the groups. */
  LogicalPlan rest() {
    return rest;
  }

  /** The whole, given what `rest` became. */
  LogicalPlan with(LogicalPlan read) {
    ListBuffer sides = new ListBuffer();
    sides.$plus$eq(read);
    sides.$plus$eq(known);
    Union both = new Union(sides.toList(), false, false);
    Together together = new Together(both.output());
    ListBuffer results = new ListBuffer();
    for (int i = 0; i < node.aggregateExpressions().size(); i++) {
      results.$plus$eq(((Expression) node.aggregateExpressions().apply(i)).transformUp(together));
    }
    return new Aggregate(node.groupingExpressions(), results.toList(), both, node.hint());
  }

  /** Whether there is nothing but filters and columns above a relation of ours. */
  private boolean isOverTable(LogicalPlan plan) {
    if (plan instanceof Filter) {
      List conjuncts = new ArrayList();
      Above.split(((Filter) plan).condition(), conjuncts);
      for (int i = 0; i < conjuncts.size(); i++) {
        Option predicate = new V2ExpressionBuilder((Expression) conjuncts.get(i), true).buildPredicate();
        if (!predicate.isDefined()) {
          return false;
        }
        Map entry = new LinkedHashMap();
        entry.put("form", Predicates.translate(
            (org.apache.spark.sql.connector.expressions.filter.Predicate) predicate.get()));
        predicates.add(entry);
      }
      return isOverTable(((Filter) plan).child());
    }
    if (plan instanceof Project) {
      return Above.isPlain((Project) plan) && isOverTable(((Project) plan).child());
    }
    if (!(plan instanceof DataSourceV2Relation)) {
      return false;
    }
    relation = (DataSourceV2Relation) plan;
    table = scans.tableOf(relation);
    return table != null && !table.isPart;
  }

  private boolean takesFunctions() {
    for (int i = 0; i < node.aggregateExpressions().size(); i++) {
      if (!collect((Expression) node.aggregateExpressions().apply(i))) {
        return false;
      }
    }
    return !functions.isEmpty();
  }

  private boolean collect(Expression expression) {
    if (expression instanceof AggregateExpression) {
      List form = form((AggregateExpression) expression);
      if (form != null && !forms.contains(form)) {
        forms.add(form);
        functions.add(((AggregateExpression) expression).aggregateFunction());
      }
      return form != null;
    }
    for (int i = 0; i < expression.children().size(); i++) {
      if (!collect((Expression) expression.children().apply(i))) {
        return false;
      }
    }
    return true;
  }

  /** A function's name and column; null where metadata can't answer it. */
  private List form(AggregateExpression expression) {
    return Aggregates.function(expression, relation.output());
  }

  private boolean ask() {
    List groups = new ArrayList();
    ListBuffer results = new ListBuffer();
    ListBuffer columns = new ListBuffer();
    for (int i = 0; i < node.groupingExpressions().size(); i++) {
      if (!(node.groupingExpressions().apply(i) instanceof AttributeReference)) {
        return false;
      }
      AttributeReference group = (AttributeReference) node.groupingExpressions().apply(i);
      if (groups.contains(group.name())) {
        return false;
      }
      groups.add(group.name());
      results.$plus$eq(group);
      columns.$plus$eq(column(group.name(), group.dataType(), group.nullable()));
    }
    for (int i = 0; i < functions.size(); i++) {
      AggregateExpression function =
          ((org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction) functions.get(i)).toAggregateExpression();
      String name = "part_" + i;
      results.$plus$eq(new Alias(
          function, name, NamedExpression$.MODULE$.newExprId(), Nil$.MODULE$, Option.empty(), Nil$.MODULE$));
      columns.$plus$eq(column(name, function.dataType(), function.nullable()));
    }
    Map wanted = new LinkedHashMap();
    wanted.put("functions", forms);
    wanted.put("groups", groups);
    Map request = Bridge.request("mixed");
    request.put("aggregates", wanted);
    request.put("predicates", predicates);
    Map answer = table.call(request);
    if (answer.get("lacks") != null) {
      return false;
    }
    StructType schema = (StructType) DataType.fromJson((String) answer.get("schema"));
    Seq attributes = columns.toList();
    for (int i = 0; i < attributes.size(); i++) {
      if (!((Attribute) attributes.apply(i)).dataType().equals(schema.fields()[i].dataType())) {
        return false;
      }
    }
    ListBuffer rows = new ListBuffer();
    InternalRow[] given = TwoStageAnswer.rows((List) answer.get("rows"), schema);
    for (int i = 0; i < given.length; i++) {
      rows.$plus$eq(given[i]);
    }
    known = new LocalRelation(attributes, rows.toList(), false, Option.empty());
    DataSourceV2Relation others = relation.copy(
        table.part((String) answer.get("pin"), (String) answer.get("pinned")), relation.output(), relation.catalog(),
        relation.identifier(), relation.options(), relation.timeTravelSpec());
    rest = new Aggregate(
        node.groupingExpressions(), results.toList(), (LogicalPlan) over(node.child(), others), node.hint());
    return true;
  }

  private static AttributeReference column(String name, DataType type, boolean nullable) {
    return new AttributeReference(
        name, type, nullable, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), Nil$.MODULE$);
  }

  /** The filters and columns above the relation, above another one. */
  private LogicalPlan over(LogicalPlan plan, LogicalPlan other) {
    if (plan == relation) {
      return other;
    }
    ListBuffer child = new ListBuffer();
    child.$plus$eq(over((LogicalPlan) plan.children().apply(0), other));
    return (LogicalPlan) plan.withNewChildren(child.toList());
  }

  /** Puts the function over both sides in the place of each function. */
  private final class Together extends AbstractPartialFunction {
    private final Seq columns;

    Together(Seq columns) {
      this.columns = columns;
    }

    public boolean isDefinedAt(Object expression) {
      return expression instanceof AggregateExpression;
    }

    public Object apply(Object expression) {
      return applyOrElse(expression, null);
    }

    public Object applyOrElse(Object expression, scala.Function1 otherwise) {
      if (!isDefinedAt(expression)) {
        return otherwise.apply(expression);
      }
      List form = form((AggregateExpression) expression);
      Expression part = (Expression) columns.apply(node.groupingExpressions().size() + forms.indexOf(form));
      if ("min".equals(form.get(0))) {
        return new Min(part).toAggregateExpression();
      }
      if ("max".equals(form.get(0))) {
        return new Max(part).toAggregateExpression();
      }
      ListBuffer sum = new ListBuffer();
      sum.$plus$eq(new Sum(part).toAggregateExpression());
      sum.$plus$eq(Literal$.MODULE$.apply(Long.valueOf(0L), DataTypes.LongType)); // a count is never NULL
      return new Coalesce(sum.toList());
    }
  }
}
