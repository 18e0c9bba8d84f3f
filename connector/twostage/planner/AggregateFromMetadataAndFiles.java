package twostage_planner;

import java.util.ArrayList;
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
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.*;
import scala.Option;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;
import scala.runtime.AbstractPartialFunction;

/**
 * An aggregation that metadata and indexes answer for most files: the other files are read and aggregated, and both results
 * are merged. Counts and sums are added, of minima and maxima the extreme is taken, and the distinct values of one column come from
 * both sides as groups, which are then counted. A group of only one side is part of the result.
 */
final class AggregateFromMetadataAndFiles {
  private final Aggregate node;
  private final ScanHandover scans;
  /** The distinct aggregate functions, as a request has them and as Spark does. */
  private final List wanted = new ArrayList();
  private final List functions = new ArrayList();
  /** The column whose distinct values are counted: both sides give them as groups. Null for none. */
  private AttributeReference distinct;
  /** The groups of both sides: the query's, and that column. */
  private final List groups = new ArrayList();
  private DataSourceV2Relation relation;
  private TwoStageTable table;
  /** Conjuncts of the filters above the relation, as maps. */
  private final List predicates = new ArrayList();
  private LogicalPlan rest;
  private LocalRelation known;

  private AggregateFromMetadataAndFiles(Aggregate node, ScanHandover scans) {
    this.node = node;
    this.scans = scans;
  }

  /** Null where metadata answers for all files, or for too few. */
  static AggregateFromMetadataAndFiles of(Aggregate node, ScanHandover scans) {
    AggregateFromMetadataAndFiles mixed = new AggregateFromMetadataAndFiles(node, scans);
    return mixed.isOverTable(node.child()) && mixed.takesFunctions() && mixed.answerFromMetadata() ? mixed : null;
  }

  /** The aggregates of the files that are read, one column for each function after those of the groups. */
  LogicalPlan rest() {
    return rest;
  }

  /** The whole aggregation, over what became of `rest` and what metadata answered. */
  LogicalPlan merge(LogicalPlan read) {
    ListBuffer sides = new ListBuffer();
    sides.$plus$eq(read);
    sides.$plus$eq(known);
    Union both = new Union(sides.toList(), false, false);
    MergePartialAggregates merge = new MergePartialAggregates(both.output());
    ListBuffer results = new ListBuffer();
    for (int i = 0; i < node.aggregateExpressions().size(); i++) {
      results.$plus$eq(((Expression) node.aggregateExpressions().apply(i)).transformUp(merge));
    }
    return new Aggregate(node.groupingExpressions(), results.toList(), both, node.hint());
  }

  /** Whether the plan is a relation of ours under nothing but filters and plain projections; collects their predicates. */
  private boolean isOverTable(LogicalPlan plan) {
    if (plan instanceof Filter) {
      if (!isOverTable(((Filter) plan).child())) {
        return false;
      }
      List conjuncts = new ArrayList();
      PlanDemand.split(((Filter) plan).condition(), conjuncts);
      for (int i = 0; i < conjuncts.size(); i++) {
        org.apache.spark.sql.connector.expressions.filter.Predicate predicate =
            FilterTranslator.translate((Expression) conjuncts.get(i), table);
        if (predicate == null) {
          return false;
        }
        predicates.add(PredicateTranslator.translate(predicate));
      }
      return true;
    }
    if (plan instanceof Project) {
      return PlanDemand.isPlain((Project) plan) && isOverTable(((Project) plan).child());
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
    return distinct != null || !functions.isEmpty();
  }

  private boolean collect(Expression expression) {
    if (expression instanceof AggregateExpression) {
      Requests.AggregateFunction function = wanted((AggregateExpression) expression);
      if (function != null && "distinct".equals(function.name)) {
        AttributeReference column =
            (AttributeReference) ((AggregateExpression) expression).aggregateFunction().children().apply(0);
        if (distinct != null && !distinct.exprId().equals(column.exprId())) {
          return false;
        }
        distinct = column;
      } else if (function != null && !wanted.contains(function)) {
        wanted.add(function);
        functions.add(((AggregateExpression) expression).aggregateFunction());
      }
      return function != null;
    }
    for (int i = 0; i < expression.children().size(); i++) {
      if (!collect((Expression) expression.children().apply(i))) {
        return false;
      }
    }
    return true;
  }

  /** A function as a request has it; null where metadata can't answer it, or answers all files or none. */
  private Requests.AggregateFunction wanted(AggregateExpression expression) {
    Requests.AggregateFunction function = AggregateTranslator.function(expression, relation.output());
    // A sum of sums of decimals has another type.
    boolean isMerged = function == null || !"sum".equals(function.name) || expression.dataType() instanceof LongType;
    return isMerged ? function : null;
  }

  /** Whether metadata answers for some files; then sets `known` and `rest`. */
  private boolean answerFromMetadata() {
    ListBuffer results = new ListBuffer();
    ListBuffer columns = new ListBuffer();
    ListBuffer grouping = new ListBuffer();
    for (int i = 0; i < node.groupingExpressions().size(); i++) {
      if (!(node.groupingExpressions().apply(i) instanceof AttributeReference)) {
        return false;
      }
      AttributeReference group = (AttributeReference) node.groupingExpressions().apply(i);
      if (groups.contains(group.name())) {
        return false;
      }
      groups.add(group.name());
      grouping.$plus$eq(group);
      columns.$plus$eq(column(group.name(), group.dataType(), group.nullable()));
    }
    if (distinct != null && !groups.contains(distinct.name())) {
      groups.add(distinct.name());
      grouping.$plus$eq(distinct);
      columns.$plus$eq(column(distinct.name(), distinct.dataType(), distinct.nullable()));
    }
    Seq groupedBy = grouping.toList();
    for (int i = 0; i < groups.size(); i++) {
      results.$plus$eq(groupedBy.apply(i));
    }
    for (int i = 0; i < functions.size(); i++) {
      AggregateExpression function =
          ((org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction) functions.get(i)).toAggregateExpression();
      String name = "part_" + i;
      results.$plus$eq(new Alias(
          function, name, NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$, Option.empty(), (Seq) Nil$.MODULE$));
      columns.$plus$eq(column(name, function.dataType(), function.nullable()));
    }
    Answers.PartialRows answered = ((Answers.Mixed) table.call(
        new Requests.Mixed(
            AggregateTranslator.wanted(wanted, groups), (Map[]) predicates.toArray(new Map[0])),
        Answers.Mixed.class)).answered;
    if (answered == null) {
      return false;
    }
    StructType schema = (StructType) DataType.fromJson(answered.schema);
    Seq attributes = columns.toList();
    for (int i = 0; i < attributes.size(); i++) {
      if (!((Attribute) attributes.apply(i)).dataType().equals(schema.fields()[i].dataType())) {
        return false;
      }
    }
    ListBuffer rows = new ListBuffer();
    InternalRow[] given = TwoStageLocalScan.rows(answered.rows, schema);
    for (int i = 0; i < given.length; i++) {
      rows.$plus$eq(given[i]);
    }
    known = new LocalRelation(attributes, rows.toList(), false, Option.empty());
    DataSourceV2Relation others = relation.copy(
        table.part(answered.pin, answered.pinned), relation.output(), relation.catalog(),
        relation.identifier(), relation.options(), relation.timeTravelSpec());
    rest = new Aggregate(
        groupedBy, results.toList(), (LogicalPlan) over(node.child(), others), node.hint());
    return true;
  }

  private static Seq one(Object element) {
    ListBuffer list = new ListBuffer();
    list.$plus$eq(element);
    return list.toList();
  }

  private static AttributeReference column(String name, DataType type, boolean nullable) {
    return new AttributeReference(
        name, type, nullable, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), (Seq) Nil$.MODULE$);
  }

  /** The plan with another relation in place of this one. */
  private LogicalPlan over(LogicalPlan plan, LogicalPlan other) {
    if (plan == relation) {
      return other;
    }
    return (LogicalPlan) plan.withNewChildren(one(over((LogicalPlan) plan.children().apply(0), other)));
  }

  /** Replaces each function by the one that merges its partial results: columns of the union of both sides. */
  private final class MergePartialAggregates extends AbstractPartialFunction {
    private final Seq columns;

    MergePartialAggregates(Seq columns) {
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
      Requests.AggregateFunction function = wanted((AggregateExpression) expression);
      if ("distinct".equals(function.name)) {
        return new Count(one((Expression) columns.apply(groups.indexOf(distinct.name())))).toAggregateExpression(true, Option.empty());
      }
      Expression part = (Expression) columns.apply(groups.size() + wanted.indexOf(function));
      if ("min".equals(function.name)) {
        return new Min(part).toAggregateExpression();
      }
      if ("max".equals(function.name)) {
        return new Max(part).toAggregateExpression();
      }
      if ("sum".equals(function.name)) {
        return new Sum(part).toAggregateExpression();
      }
      ListBuffer sum = new ListBuffer();
      sum.$plus$eq(new Sum(part).toAggregateExpression());
      sum.$plus$eq(Literal$.MODULE$.apply(Long.valueOf(0L), DataTypes.LongType)); // a count is never NULL
      return new Coalesce(sum.toList());
    }
  }
}
