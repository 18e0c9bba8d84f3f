package twostage_planner;

import java.util.List;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.*;
import scala.Option;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Prunes the files of a scan that Spark's reader does, by keys of joins, as Spark's dynamic pruning prunes partitions: a
 * filter over partition columns, two for each key column, which hold the least and the greatest value of the column in a
 * file. It looks up all whole numbers between them among the keys. A file whose range is not known is read.
 */
final class KeyRanges {
  private KeyRanges() {}

  /** The partition columns' names and types, after those of `schema`. */
  static StructType addTo(StructType schema, String[] columns, String salt) {
    StructType all = schema;
    for (int i = 0; i < columns.length; i++) {
      all = all.add(new StructField("lower_" + i + "_" + salt, DataTypes.LongType, true, Metadata.empty()));
      all = all.add(new StructField("upper_" + i + "_" + salt, DataTypes.LongType, true, Metadata.empty()));
    }
    return all;
  }

  /** A file's values of these partition columns. */
  static void addTo(Object[] values, int first, Answers.KeyRange[] ranges, String[] columns) {
    for (int i = 0; i < columns.length; i++) {
      for (int k = 0; k < ranges.length; k++) {
        if (ranges[k].column.equals(columns[i])) {
          values[first + 2 * i] = Long.valueOf(ranges[k].lower);
          values[first + 2 * i + 1] = Long.valueOf(ranges[k].upper);
        }
      }
    }
  }

  /**
   * The scan with filters by keys, each a `DynamicPruningSubquery` that tests one of its key columns. The scan is a
   * projection over the files' relation, whose last columns are those of `addTo`, and maybe over a filter between them.
   */
  static LogicalPlan prune(LogicalPlan scan, String[] columns, List filters) {
    if (filters.isEmpty()) {
      return scan;
    }
    if (scan instanceof Project || scan instanceof Filter) {
      ListBuffer child = new ListBuffer();
      child.$plus$eq(prune((LogicalPlan) scan.children().apply(0), columns, filters));
      return (LogicalPlan) scan.withNewChildren(child.toList());
    }
    Expression condition = null;
    for (int i = 0; i < filters.size(); i++) {
      Expression one = ofFile((DynamicPruningSubquery) filters.get(i), scan.output(), columns);
      condition = condition == null ? one : new And(condition, one);
    }
    return new Filter(condition, scan);
  }

  /** Whether a file may have one of the keys. */
  private static Expression ofFile(DynamicPruningSubquery filter, Seq output, String[] columns) {
    AttributeReference key = (AttributeReference) filter.pruningKey();
    int place = output.size() - 2 * columns.length + 2 * java.util.Arrays.asList(columns).indexOf(key.name());
    Expression lower = (Expression) output.apply(place);
    Expression upper = (Expression) output.apply(place + 1);
    NamedLambdaVariable value = new NamedLambdaVariable(
        "value", DataTypes.LongType, false, NamedExpression$.MODULE$.newExprId(), new AtomicReference());
    ListBuffer tested = new ListBuffer();
    tested.$plus$eq(ofType(value, key.dataType()));
    ListBuffer arguments = new ListBuffer();
    arguments.$plus$eq(value);
    Expression found = new ArrayExists(
        new Sequence(lower, upper, Option.empty(), Option.apply("UTC")), // which numbers do not use
        new LambdaFunction((Expression) filter.withNewChildren(tested.toList()), arguments.toList(), false), false);
    return new Or(new IsNull(lower), found);
  }

  /** Which of these columns' keys a filter of `prune` looks up; null if it is not such a filter. */
  static String columnOf(Expression filter, String[] columns) {
    if (filter instanceof AttributeReference && ((AttributeReference) filter).name().startsWith("lower_")) {
      String place = ((AttributeReference) filter).name().split("_")[1];
      return place.matches("[0-9]{1,3}") && Integer.parseInt(place) < columns.length ? columns[Integer.parseInt(place)] : null;
    }
    String found = null;
    for (int i = 0; i < filter.children().size() && found == null; i++) {
      found = columnOf((Expression) filter.children().apply(i), columns);
    }
    return found;
  }

  /** Whether keys of a type are looked up: a filter's column may stand for one in a wider type, or for a Bloom filter's. */
  static boolean takes(DataType type) {
    return type == DataTypes.LongType || type == DataTypes.IntegerType || type == DataTypes.DateType;
  }

  private static Expression ofType(Expression value, DataType type) {
    if (type == DataTypes.LongType) {
      return value;
    }
    Expression number = new Cast(value, DataTypes.IntegerType, Option.empty(), EvalMode.LEGACY());
    return type == DataTypes.DateType ? new DateFromUnixDate(number) : number;
  }
}
