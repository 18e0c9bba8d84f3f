package twostage_planner;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.LiteralValue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.*;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Keys of a join over several columns of one scan, which filter it together: a row with the first column of one key and the
 * second of another joins nothing.
 *
 * To Spark this is one key, a struct, of a column that stands for all of them: an attribute of the same struct in place
 * of the first. No broadcast has such a key, so that the side is read once more; the keys of each column come with it.
 */
final class TuplesOfKeys {
  /** Each task gets the set of the tuples' hashes, of 8 bytes each. */
  private static final String MAX_TUPLES = "spark.twostage.dynamicFilter.maxTuples";
  private static final int DEFAULT_MAX_TUPLES = 200000;

  private TuplesOfKeys() {}

  static boolean areOffered() {
    return limit() > 0;
  }

  private static int limit() {
    return JoinKeys.limit(MAX_TUPLES, DEFAULT_MAX_TUPLES);
  }

  /** Whether key_tuples.py hashes values of a type as Spark does. */
  static boolean takes(DataType type) {
    return JoinKeys.isWhole(type) || JoinKeys.isDecimalOfLong(type) || type instanceof FloatType || type instanceof DoubleType
        || type.equals(StringType$.MODULE$);
  }

  /** The filter of a scan by these of the keys; `columns` are attributes of the scan or fields of its structs. */
  static DynamicPruningSubquery filter(Expression[] columns, LogicalPlan build, Seq keys, int[] places) {
    ListBuffer named = new ListBuffer();
    List shown = new ArrayList();
    for (int i = 0; i < columns.length; i++) {
      String name = quoted(OfferedKeys.nameOf(columns[i]));
      named.$plus$eq(org.apache.spark.sql.catalyst.expressions.Literal$.MODULE$.apply(name));
      named.$plus$eq(keys.apply(places[i]));
      shown.add(name);
    }
    CreateNamedStruct struct = new CreateNamedStruct(named.toList());
    Attribute top = top(columns[0]);
    Attribute column = new AttributeReference(
        "(" + String.join(", ", shown) + ")", struct.dataType(), true, Metadata.empty(), top.exprId(), top.qualifier());
    ListBuffer one = new ListBuffer();
    one.$plus$eq(struct);
    return DynamicFilters.pruning(column, build, one.toList(), 0, false);
  }

  /** The attribute that a column is, or is a field of. */
  static Attribute top(Expression column) {
    Expression top = column;
    while (top instanceof GetStructField) {
      top = ((GetStructField) top).child();
    }
    return (Attribute) top;
  }

  /** A column's name, from the outermost struct on, as one string. */
  static String quoted(List names) {
    List parts = new ArrayList();
    for (int i = 0; i < names.size(); i++) {
      parts.add("`" + ((String) names.get(i)).replace("`", "``") + "`");
    }
    return String.join(".", parts);
  }

  /** Whether a filter by tuples has this key of the column with this name. */
  static boolean have(DynamicPruningSubquery filter, List name, Expression key) {
    Expression tuple = OfferedKeys.keyOf(filter);
    if (!(tuple instanceof CreateNamedStruct) || !(filter.pruningKey().dataType() instanceof StructType)) {
      return false;
    }
    StructField[] fields = ((StructType) filter.pruningKey().dataType()).fields();
    for (int i = 0; i < fields.length; i++) {
      if (fields[i].name().equals(quoted(name)) && ((Expression) tuple.children().apply(2 * i + 1)).semanticEquals(key)) {
        return true;
      }
    }
    return false;
  }

  /** Whether a filter's predicate, `column IN (…)`, has tuples. */
  static boolean are(Predicate predicate) {
    Object first = predicate.children().length > 1 ? predicate.children()[1] : null;
    return predicate.name().equals("IN") && first instanceof Literal && ((Literal) first).dataType() instanceof StructType;
  }

  /**
   * What they tell the scan: the keys of each column, and, if these are fewer than all combinations of those and not too
   * many, the hashes of the tuples.
   */
  static List translate(Predicate predicate) {
    org.apache.spark.sql.connector.expressions.Expression[] children = predicate.children();
    StructField[] fields = ((StructType) ((Literal) children[1]).dataType()).fields();
    Set[] values = new Set[fields.length];
    for (int i = 0; i < fields.length; i++) {
      values[i] = new LinkedHashSet();
    }
    long[] hashes = new long[children.length - 1];
    int count = 0;
    for (int i = 1; i < children.length; i++) {
      InternalRow row = (InternalRow) ((Literal) children[i]).value();
      if (!row.anyNull()) { // NULL joins nothing
        long hash = JoinKeys.SEED;
        for (int k = 0; k < fields.length; k++) {
          Object value = row.get(k, fields[k].dataType());
          values[k].add(value);
          hash = JoinKeys.hash(value, fields[k].dataType(), hash);
        }
        hashes[count++] = hash;
      }
    }
    double combinations = 1;
    List forms = new ArrayList();
    for (int i = 0; i < fields.length; i++) {
      forms.add(JoinKeys.translate(keysOf(fields[i], values[i])));
      combinations *= values[i].size();
    }
    long[] distinct = java.util.Arrays.stream(hashes, 0, count).distinct().toArray();
    if (count > 0 && distinct.length <= limit() && distinct.length < JoinKeys.DENSE * combinations) {
      forms.add(set(fields, distinct));
    }
    return forms;
  }

  private static Predicate keysOf(StructField field, Set values) {
    Object[] all = values.toArray();
    org.apache.spark.sql.connector.expressions.Expression[] listed =
        new org.apache.spark.sql.connector.expressions.Expression[all.length + 1];
    listed[0] = Expressions.column(field.name());
    for (int i = 0; i < all.length; i++) {
      listed[i + 1] = new LiteralValue(all[i], field.dataType());
    }
    return new Predicate("IN", listed);
  }

  private static Map set(StructField[] fields, long[] hashes) {
    List terms = new ArrayList();
    List types = new ArrayList();
    for (int i = 0; i < fields.length; i++) {
      terms.add(PredicateTranslator.term(Expressions.column(fields[i].name())));
      types.add(PredicateTranslator.word(fields[i].dataType()));
    }
    Map node = PredicateTranslator.node("in_tuples", "terms", terms);
    node.put("types", types);
    return JoinKeys.addSet(node, hashes);
  }
}
