package twostage_planner;

import java.util.ArrayList;
import java.util.LinkedHashMap;
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
import org.apache.spark.sql.types.StructType;

/** Collects what Spark pushes into one scan. A predicate is taken over only if Python evaluates it exactly. */
final class TwoStageScanBuilder
    implements ScanBuilder, SupportsPushDownV2Filters, SupportsPushDownRequiredColumns, SupportsPushDownLimit,
        SupportsPushDownTopN, SupportsPushDownAggregates {
  final TwoStageTable table;
  final List taken = new ArrayList();
  final List hints = new ArrayList();
  final List texts = new ArrayList();
  private final List pushed = new ArrayList();
  StructType readSchema;
  int limit = -1;
  /** The first rows by a sort order, as the bridge's request says them, and in words; null for all rows. */
  Map top;
  String topText;
  private Map asked;
  private Map answer;

  TwoStageScanBuilder(TwoStageTable table) {
    this.table = table;
    this.readSchema = table.schema();
  }

  public Predicate[] pushPredicates(Predicate[] predicates) {
    if (predicates.length == 0) {
      return predicates;
    }
    List forms = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      forms.add(Predicates.translate(predicates[i]));
    }
    Map request = Bridge.request("push");
    request.put("predicates", forms);
    Map answer = table.call(request);
    List exact = (List) answer.get("exact");
    List shown = (List) answer.get("texts");
    List rest = new ArrayList();
    for (int i = 0; i < predicates.length; i++) {
      if (((Boolean) exact.get(i)).booleanValue()) {
        taken.add(forms.get(i));
        texts.add(shown.get(i));
        pushed.add(predicates[i]);
      } else {
        hints.add(forms.get(i));
        rest.add(predicates[i]);
      }
    }
    return (Predicate[]) rest.toArray(new Predicate[0]);
  }

  public Predicate[] pushedPredicates() {
    return (Predicate[]) pushed.toArray(new Predicate[0]);
  }

  public void pruneColumns(StructType required) {
    readSchema = required;
  }

  /** Asked first: metadata answers all of it, or nothing is pushed. */
  public boolean supportCompletePushDown(Aggregation aggregation) {
    Map wanted = hints.isEmpty() ? Aggregates.pushed(aggregation, table.answerable) : null;
    if (wanted == null || !wanted.equals(asked)) {
      asked = wanted;
      answer = wanted == null ? null : ask(wanted);
    }
    return answer != null;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    return supportCompletePushDown(aggregation);
  }

  private Map ask(Map wanted) {
    List predicates = new ArrayList();
    for (int i = 0; i < taken.size(); i++) {
      Map predicate = new LinkedHashMap();
      predicate.put("form", taken.get(i));
      predicates.add(predicate);
    }
    Map request = Bridge.request("aggregate");
    request.put("aggregates", wanted);
    request.put("predicates", predicates);
    Map found = table.call(request);
    return found.get("lacks") == null ? found : null;
  }

  public boolean pushLimit(int rows) {
    limit = rows;
    return true;
  }

  public boolean pushTopN(SortOrder[] orders, int rows) {
    if (orders.length == 0 || !hints.isEmpty()) {
      return false;
    }
    Map first = new LinkedHashMap();
    Expression key = orders[0].expression();
    first.put("column", key instanceof NamedReference ? Bridge.list(((NamedReference) key).fieldNames()) : null);
    first.put("descending", Boolean.valueOf(orders[0].direction() == SortDirection.DESCENDING));
    first.put("nulls_first", Boolean.valueOf(orders[0].nullOrdering() == NullOrdering.NULLS_FIRST));
    first.put("keys", Integer.valueOf(orders.length));
    first.put("count", Integer.valueOf(rows));
    Map request = Bridge.request("top");
    request.put("top", first);
    topText = (String) table.call(request).get("text");
    top = topText == null ? null : first;
    return top != null;
  }

  public boolean isPartiallyPushed() {
    return true; // each task stops at the limit; Spark sorts and cuts what the tasks return together
  }

  public Scan build() {
    if (answer != null) {
      return new TwoStageAnswer(answer, "twostage " + table.name + ", snapshot " + table.snapshot
          + ", answered from metadata, predicates " + texts);
    }
    return new TwoStageScan(this);
  }
}
