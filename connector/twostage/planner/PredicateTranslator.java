package twostage_planner;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.*;

/** Spark's V2 predicates as the JSON that predicates/bind.py reads. What has no form there becomes "unknown". */
final class PredicateTranslator {
  private static final List COMPARISONS = Arrays.asList(new Object[] {"=", "<>", "<", "<=", ">", ">=", "<=>"});

  private PredicateTranslator() {}

  static Map[] translateAll(Predicate[] predicates) {
    Map[] forms = new Map[predicates.length];
    for (int i = 0; i < forms.length; i++) {
      forms[i] = translate(predicates[i]);
    }
    return forms;
  }

  static Map translate(Expression expression) {
    if (!(expression instanceof Predicate)) {
      return truth(expression);
    }
    Predicate predicate = (Predicate) expression;
    String name = predicate.name();
    Expression[] children = predicate.children();
    if (name.equals("AND") || name.equals("OR")) {
      List parts = new ArrayList();
      for (int i = 0; i < children.length; i++) {
        parts.add(translate(children[i]));
      }
      return node(name, "children", parts);
    }
    if (name.equals("NOT")) {
      return node("not", "child", translate(children[0]));
    }
    if (name.equals("ALWAYS_TRUE") || name.equals("ALWAYS_FALSE")) {
      return node(name.substring(7), null, null);
    }
    if (hasBacktick(predicate.references())) {
      return unknown(predicate);
    }
    if (name.equals("BOOLEAN_EXPRESSION")) {
      return truth(children[0]);
    }
    if (name.equals("IS_NULL") || name.equals("IS_NOT_NULL")) {
      return node(name, "term", term(children[0]));
    }
    if (name.equals("IN")) {
      return membership(predicate);
    }
    boolean match = name.equals("STARTS_WITH") || name.equals("ENDS_WITH") || name.equals("CONTAINS")
        || name.equals("ARRAY_CONTAINS") || name.equals("MAP_CONTAINS_KEY");
    if (children.length == 2 && (match || COMPARISONS.contains(name))) {
      Map node = node(name, "left", term(children[0]));
      node.put("right", term(children[1]));
      return node;
    }
    return unknown(predicate);
  }

  /**
   * Whether one of these columns is a field of a struct with a backtick in one of its names. Where Spark no longer reads it for
   * a filter, it looks for the others, and to word its message about the missing one, which it then drops, is itself an error.
   */
  private static boolean hasBacktick(NamedReference[] columns) {
    for (int i = 0; i < columns.length; i++) {
      String[] names = columns[i].fieldNames();
      if (names.length > 1 && String.join("", names).indexOf('`') >= 0) {
        return true;
      }
    }
    return false;
  }

  private static Map membership(Predicate predicate) {
    Expression[] children = predicate.children();
    List values = new ArrayList(children.length);
    for (int i = 1; i < children.length; i++) {
      Map value = term(children[i]);
      if (!value.containsKey("literal")) {
        return unknown(predicate);
      }
      values.add(value);
    }
    Map node = node("in", "term", term(children[0]));
    node.put("values", values);
    return node;
  }

  /** A boolean column, or another expression that is used as a predicate. */
  private static Map truth(Expression expression) {
    if (expression instanceof Predicate) {
      return translate(expression);
    }
    Map node = node("=", "left", term(expression));
    Map right = new LinkedHashMap();
    right.put("literal", Boolean.TRUE);
    right.put("type", "boolean");
    node.put("right", right);
    return node;
  }

  static Map term(Expression expression) {
    Map term = new LinkedHashMap();
    if (expression instanceof NamedReference) {
      term.put("column", Arrays.asList((Object[]) ((NamedReference) expression).fieldNames()));
      return term;
    }
    if (expression instanceof Literal) {
      return literal((Literal) expression);
    }
    if (expression instanceof Cast) {
      Cast cast = (Cast) expression;
      if (isPlain(cast.dataType()) && (cast.expressionDataType() == null || isPlain(cast.expressionDataType()))) {
        term.put("cast", term(cast.expression()));
        term.put("type", word(cast.dataType()));
        return term;
      }
    }
    if (expression instanceof GeneralScalarExpression && expression.children().length == 1
        && ((GeneralScalarExpression) expression).name().equals("CHAR_LENGTH")) {
      term.put("call", "CHAR_LENGTH");
      term.put("of", term(expression.children()[0]));
      term.put("unknown", shown(expression)); // what to call it where no length is compared
      return term;
    }
    term.put("unknown", shown(expression));
    return term;
  }

  static Map literal(Literal literal) {
    Map term = new LinkedHashMap();
    DataType type = literal.dataType();
    Object value = literal.value();
    Object form = null;
    boolean known = isPlain(type);
    if (value instanceof Float || value instanceof Double) {
      form = value.toString();
    } else if (value instanceof Boolean || value instanceof Number && !(value instanceof java.math.BigDecimal)) {
      form = value;
      known = known && !(value instanceof java.math.BigInteger);
    } else if (value instanceof Decimal) {
      form = ((Decimal) value).toJavaBigDecimal().toPlainString();
    } else if (value instanceof byte[]) {
      form = Base64.getEncoder().encodeToString((byte[]) value);
    } else if (value instanceof org.apache.spark.unsafe.types.UTF8String) {
      form = value.toString();
      known = known && ((org.apache.spark.unsafe.types.UTF8String) value).equals(
          org.apache.spark.unsafe.types.UTF8String.fromString((String) form));
    } else {
      known = known && value == null;
    }
    if (!known) {
      term.put("unknown", shown(literal));
      return term;
    }
    term.put("literal", form);
    term.put("type", word(type));
    return term;
  }

  /** Whether we compare values of the type as Spark does in every session: no collation but the binary one. */
  private static boolean isPlain(DataType type) {
    if (type instanceof StringType) {
      return type.equals(StringType$.MODULE$);
    }
    return type instanceof BooleanType || type instanceof ByteType || type instanceof ShortType
        || type instanceof IntegerType || type instanceof LongType || type instanceof FloatType
        || type instanceof DoubleType || type instanceof DecimalType || type instanceof BinaryType
        || type instanceof DateType || type instanceof TimestampType || type instanceof TimestampNTZType
        || type instanceof NullType;
  }

  static String word(DataType type) {
    return type.json().replace("\"", "");
  }

  static Map unknown(Expression expression) {
    return node("unknown", "name", shown(expression));
  }

  private static String shown(Expression expression) {
    String text;
    try {
      text = String.valueOf(expression);
    } catch (AssertionError error) { // before 4.3 Spark has no text of a NULL of type binary
      text = expression instanceof Predicate ? ((Predicate) expression).name() : "NULL";
    }
    return text.length() > 200 ? text.substring(0, 200) + "…" : text;
  }

  static Map node(String op, String key, Object value) {
    Map node = new LinkedHashMap();
    node.put("op", op.toLowerCase(Locale.ROOT));
    if (key != null) {
      node.put(key, value);
    }
    return node;
  }
}
