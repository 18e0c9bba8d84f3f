package twostage_planner;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.*;
import org.apache.spark.sql.internal.connector.SupportsPushDownCatalystFilters;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Collects what Spark pushes into one scan. A predicate is pushed only if Python evaluates it exactly as Spark does. Spark
 * hands over its own expressions, because it translates neither tests of a list's elements nor those of a timestamp's date as
 * we need them (see `FilterTranslator`).
 */
final class TwoStageScanBuilder
    implements SupportsPushDownCatalystFilters, SupportsPushDownRequiredColumns, SupportsPushDownLimit,
        SupportsPushDownTopN, SupportsPushDownAggregates {
  final TwoStageTable table;
  /** Predicates as maps: those that the scan evaluates, and those that it only prunes by. */
  final List exact = new ArrayList();
  final List hints = new ArrayList();
  /** Those that the scan evaluates, for EXPLAIN and as Spark pushed them. */
  final List texts = new ArrayList();
  private final List pushed = new ArrayList();
  StructType readSchema;
  int limit = -1;
  /** The first rows by a sort order, and their text for EXPLAIN; null for all rows. */
  Requests.FirstRows top;
  String topText;
  /** The aggregates that metadata was last tried for, and its answer; null for none. */
  private Requests.WantedAggregates tried;
  private Answers.MetadataRows answered;

  TwoStageScanBuilder(TwoStageTable table) {
    this.table = table;
    this.readSchema = table.schema();
  }

  /** Returns the filters that Spark evaluates on what the scan returns. */
  public Seq pushFilters(Seq filters) {
    List predicates = new ArrayList();
    List translated = new ArrayList();
    ListBuffer rest = new ListBuffer();
    ListBuffer others = new ListBuffer();
    for (int i = 0; i < filters.size(); i++) {
      org.apache.spark.sql.catalyst.expressions.Expression filter =
          (org.apache.spark.sql.catalyst.expressions.Expression) filters.apply(i);
      Predicate predicate = FilterTranslator.translate(filter, table);
      if (predicate == null) {
        others.$plus$eq(filter);
      } else {
        predicates.add(predicate);
        translated.add(filter);
      }
    }
    boolean[] taken = push((Predicate[]) predicates.toArray(new Predicate[0]));
    for (int i = 0; i < taken.length; i++) {
      if (!taken[i]) {
        rest.$plus$eq(translated.get(i));
      }
    }
    rest.$plus$plus$eq(others);
    return rest.toList();
  }

  /** Which of the predicates the scan evaluates. */
  private boolean[] push(Predicate[] predicates) {
    if (predicates.length == 0) {
      return new boolean[0];
    }
    Map[] forms = PredicateTranslator.translateAll(predicates);
    Answers.Push answer = (Answers.Push) table.call(new Requests.Push(forms), Answers.Push.class);
    for (int i = 0; i < predicates.length; i++) {
      if (answer.exact[i]) {
        exact.add(forms[i]);
        texts.add(answer.texts[i]);
        pushed.add(predicates[i]);
      } else {
        hints.add(forms[i]);
      }
    }
    return answer.exact;
  }

  public Predicate[] pushedFilters() {
    return (Predicate[]) pushed.toArray(new Predicate[0]);
  }

  public void pruneColumns(StructType required) {
    readSchema = required;
  }

  /** Spark calls this before `pushAggregation`: metadata answers all of it, or nothing is pushed. */
  public boolean supportCompletePushDown(Aggregation aggregation) {
    Requests.WantedAggregates wanted =
        hints.isEmpty() ? AggregateTranslator.pushed(aggregation, table.answerable) : null;
    if (wanted == null || !wanted.equals(tried)) {
      tried = wanted;
      answered = wanted == null ? null : ((Answers.Aggregate) table.call(
          new Requests.Aggregate(wanted, (Map[]) exact.toArray(new Map[0])), Answers.Aggregate.class)).answered;
    }
    return answered != null;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    return supportCompletePushDown(aggregation);
  }

  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  public boolean pushTopN(SortOrder[] orders, int rows) {
    if (orders.length == 0 || !hints.isEmpty()) {
      return false;
    }
    Expression key = orders[0].expression();
    Requests.FirstRows first = new Requests.FirstRows(
        key instanceof NamedReference ? ((NamedReference) key).fieldNames() : null,
        orders[0].direction() == SortDirection.DESCENDING, orders[0].nullOrdering() == NullOrdering.NULLS_FIRST,
        orders.length, rows);
    topText = ((Answers.Top) table.call(new Requests.Top(first), Answers.Top.class)).text;
    top = topText == null ? null : first;
    return top != null;
  }

  public boolean isPartiallyPushed() {
    return true; // each task stops at the limit; Spark sorts and cuts what the tasks return together
  }

  public Scan build() {
    if (answered != null) {
      return new TwoStageLocalScan(answered, "twostage " + table.name + ", snapshot " + table.snapshot
          + ", answered from " + answered.source + ", predicates " + texts);
    }
    return new TwoStageScan(this);
  }
}
