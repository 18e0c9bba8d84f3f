package twostage_planner;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;
import java.util.zip.DeflaterOutputStream;
import org.apache.spark.sql.catalyst.expressions.XxHash64Function$;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;
import org.apache.spark.util.sketch.BloomFilter;

/**
 * The keys of a join as predicates of the scan, in the form that suits their number: a list of them, up to MAX_KEYS; more of
 * them, if they do not fill their range, as a set of whole numbers up to MAX_SET_KEYS, as a range with a Bloom filter up to
 * MAX_BLOOM_KEYS, or as their range. Limits are confs of the session.
 */
final class JoinKeys {
  /** The text of 150,000 keys took 6 s in every task. */
  private static final String MAX_KEYS = "spark.twostage.dynamicFilter.maxKeys";
  private static final int DEFAULT_MAX_KEYS = 1000;
  /** Each task gets the set, of 2 to 7 bytes a key. In query 5 of TPC-H, 225,253 keys drop 85 % of the rows: 2.4 s, as a range 4.5. */
  private static final String MAX_SET_KEYS = "spark.twostage.dynamicFilter.maxSetKeys";
  private static final int DEFAULT_MAX_SET_KEYS = 1000000;
  /** Each task gets the filter, of one byte a key. */
  private static final String MAX_BLOOM_KEYS = "spark.twostage.dynamicFilter.maxBloomKeys";
  private static final int DEFAULT_MAX_BLOOM_KEYS = 200000;
  /** The share of other values that pass a Bloom filter; the default of Spark's own. */
  private static final double FALSE_POSITIVES = 0.03;
  /** The share of a range's whole numbers from which on keys count as filling it. */
  static final double DENSE = 0.9;
  static final long SEED = 42L;
  /** Digits of a decimal that fit 64 bits. */
  private static final int MAX_DIGITS = 18;

  private JoinKeys() {}

  /** What a filter's predicate, `column IN (…)`, tells the scan. */
  static Map translate(Predicate predicate) {
    Expression[] children = predicate.children();
    if (!predicate.name().equals("IN")) {
      return PredicateTranslator.translate(predicate);
    }
    HashSet seen = new HashSet();
    List keys = new ArrayList();
    for (int i = 1; i < children.length; i++) {
      if (!(children[i] instanceof Literal)) {
        return PredicateTranslator.unknown(predicate);
      }
      Object value = ((Literal) children[i]).value();
      boolean isNew = value != null && (value instanceof byte[] || seen.add(value)); // NULL joins nothing
      if (isNew) {
        keys.add(children[i]);
      }
    }
    if (keys.isEmpty()) {
      return PredicateTranslator.node("false", null, null);
    }
    return keys.size() <= limit(MAX_KEYS, DEFAULT_MAX_KEYS) ? list(children[0], keys) : many(predicate, keys);
  }

  /** What `translate` made of keys, for EXPLAIN: the column, the form and the number. */
  static String shown(Map form) {
    Object op = form.get("op");
    if (op.equals("and")) {
      List parts = (List) form.get("children");
      boolean bloom = parts.size() > 2;
      return column((Map) ((Map) parts.get(0)).get("left")) + (bloom ? " in range and Bloom filter" : " in range");
    }
    if (op.equals("=")) {
      return column((Map) form.get("left")) + " = one key";
    }
    if (op.equals("in_tuples")) {
      List names = new ArrayList();
      for (int i = 0; i < ((List) form.get("terms")).size(); i++) {
        names.add(column((Map) ((List) form.get("terms")).get(i)));
      }
      return "(" + String.join(", ", names) + ") in set of " + form.get("count");
    }
    if (op.equals("in_bloom")) {
      return column((Map) ((Map) form.get("term")).get("cast")) + " in Bloom filter of " + form.get("count");
    }
    if (op.equals("in") || op.equals("in_keys")) {
      Object count = op.equals("in") ? Integer.valueOf(((List) form.get("values")).size()) : form.get("count");
      return column((Map) form.get("term")) + (op.equals("in") ? " in list of " : " in set of ") + count;
    }
    return String.valueOf(op);
  }

  private static String column(Map term) {
    Object names = term.get("column");
    return names instanceof List ? String.join(".", (List) names) : "?";
  }

  /** Sorts keys by value, so that the same keys of two filters are one predicate. */
  private static final class ByValue implements Comparator {
    public int compare(Object one, Object other) {
      return ((Comparable) ((Literal) one).value()).compareTo(((Literal) other).value());
    }
  }

  private static Map list(Expression column, List keys) {
    if (((Literal) keys.get(0)).value() instanceof Comparable) {
      Collections.sort(keys, new ByValue());
    }
    Expression[] listed = new Expression[keys.size() + 1];
    listed[0] = column;
    for (int i = 0; i < keys.size(); i++) {
      listed[i + 1] = (Expression) keys.get(i);
    }
    return PredicateTranslator.translate(new Predicate(keys.size() == 1 ? "=" : "IN", listed));
  }

  private static Map many(Predicate predicate, List keys) {
    Literal lowest = (Literal) keys.get(0);
    Literal highest = lowest;
    for (int i = 0; i < keys.size(); i++) {
      Literal key = (Literal) keys.get(i);
      if (!(key.value() instanceof Comparable)) {
        return PredicateTranslator.unknown(predicate);
      }
      lowest = ((Comparable) key.value()).compareTo(lowest.value()) < 0 ? key : lowest;
      highest = ((Comparable) key.value()).compareTo(highest.value()) > 0 ? key : highest;
    }
    Expression column = predicate.children()[0];
    boolean dense = fill(lowest, highest, keys.size());
    long[] numbers = dense || keys.size() > limit(MAX_SET_KEYS, DEFAULT_MAX_SET_KEYS) ? null : numbers(keys);
    if (numbers != null) {
      return set(column, lowest.dataType(), numbers);
    }
    List parts = new ArrayList();
    parts.add(bound(">=", column, lowest));
    parts.add(bound("<=", column, highest));
    boolean fits = keys.size() <= maxBloomKeys() && !dense;
    Map bloom = fits ? bloom(column, keys) : null;
    if (bloom != null) {
      parts.add(bloom);
    }
    return PredicateTranslator.node("and", "children", parts);
  }

  private static Map bound(String operator, Expression column, Literal key) {
    Map node = PredicateTranslator.node(operator, "left", PredicateTranslator.term(column));
    node.put("right", PredicateTranslator.literal(key));
    return node;
  }

  /** Whether nearly every whole number of the range is a key. */
  private static boolean fill(Literal lowest, Literal highest, int count) {
    if (!isWhole(lowest.dataType())) {
      return false;
    }
    double span = (double) ((Number) highest.value()).longValue() - (double) ((Number) lowest.value()).longValue() + 1;
    return count >= DENSE * span;
  }

  static boolean isWhole(DataType type) {
    return type instanceof IntegerType || type instanceof LongType || type instanceof DateType
        || type instanceof TimestampType || type instanceof TimestampNTZType;
  }

  /**
   * Keys as whole numbers: decimals without their point, floats as `ordered` in key_set.py makes them; null where they are
   * not numbers, or do not fit 64 bits.
   */
  private static long[] numbers(List keys) {
    DataType type = ((Literal) keys.get(0)).dataType();
    boolean decimal = isDecimalOfLong(type);
    boolean real = type instanceof FloatType || type instanceof DoubleType;
    if (!isWhole(type) && !decimal && !real) {
      return null;
    }
    long[] numbers = new long[keys.size()];
    for (int i = 0; i < numbers.length; i++) {
      Object value = ((Literal) keys.get(i)).value();
      if (decimal && ((Decimal) value).scale() != ((DecimalType) type).scale()) {
        return null;
      }
      numbers[i] = decimal ? ((Decimal) value).toUnscaledLong()
          : real ? ordered(((Number) value).doubleValue()) : ((Number) value).longValue();
    }
    return numbers;
  }

  private static long ordered(double value) {
    long bits = Double.doubleToLongBits(value == 0 ? 0.0 : value);
    return bits ^ ((bits >> 63) & Long.MAX_VALUE);
  }

  private static Map set(Expression column, DataType type, long[] numbers) {
    Map node = PredicateTranslator.node("in_keys", "term", PredicateTranslator.term(column));
    node.put("type", PredicateTranslator.word(type));
    return addSet(node, numbers);
  }

  /** Adds `count` and `keys` to a predicate, as key_set.py reads them. */
  static Map addSet(Map node, long[] numbers) {
    Arrays.sort(numbers);
    ByteBuffer differences = ByteBuffer.allocate(8 * numbers.length).order(ByteOrder.LITTLE_ENDIAN);
    differences.putLong(numbers[0]);
    for (int i = 1; i < numbers.length; i++) {
      if (numbers[i] != numbers[i - 1]) {
        differences.putLong(numbers[i] - numbers[i - 1]);
      }
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    Deflater fast = new Deflater(Deflater.BEST_SPEED);
    try {
      DeflaterOutputStream compressed = new DeflaterOutputStream(bytes, fast);
      compressed.write(differences.array(), 0, differences.position());
      compressed.close();
    } catch (IOException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] " + error, error);
    } finally {
      fast.end();
    }
    node.put("count", Integer.valueOf(differences.position() / 8));
    node.put("keys", Base64.getEncoder().encodeToString(bytes.toByteArray()));
    return node;
  }

  /** Null for a type whose values key_bloom.py does not hash. */
  private static Map bloom(Expression column, List keys) {
    DataType type = ((Literal) keys.get(0)).dataType();
    if (!isHashed(type)) {
      return null;
    }
    BloomFilter filter = BloomFilter.create(keys.size(), FALSE_POSITIVES);
    for (int i = 0; i < keys.size(); i++) {
      filter.putLong(hash(((Literal) keys.get(i)).value(), type, SEED));
    }
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      filter.writeTo(bytes);
    } catch (IOException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] " + error, error);
    }
    Map node = PredicateTranslator.node("in_bloom", "term", PredicateTranslator.term(column));
    node.put("type", PredicateTranslator.word(type));
    node.put("count", Integer.valueOf(keys.size()));
    node.put("filter", Base64.getEncoder().encodeToString(bytes.toByteArray()));
    return node;
  }

  /** Whether key_bloom.py hashes values of a type. */
  static boolean isHashed(DataType type) {
    return isWhole(type) || type.equals(StringType$.MODULE$);
  }

  static int maxBloomKeys() {
    return limit(MAX_BLOOM_KEYS, DEFAULT_MAX_BLOOM_KEYS);
  }

  /** As Spark's SQL function xxhash64, which its own runtime filters use; `seed` is SEED, or the hash of the value before. */
  static long hash(Object value, DataType type, long seed) {
    return XxHash64Function$.MODULE$.hash(value, type, seed);
  }

  static boolean isDecimalOfLong(DataType type) {
    return type instanceof DecimalType && ((DecimalType) type).precision() <= MAX_DIGITS;
  }

  static int limit(String name, int otherwise) {
    String text = SQLConf.get().getConfString(name, String.valueOf(otherwise));
    try {
      return Integer.parseInt(text);
    } catch (NumberFormatException error) {
      throw new IllegalArgumentException("[TWOSTAGE.OPTION] " + name + " is not a whole number: " + text);
    }
  }
}
