package twostage_planner;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;
import java.util.zip.DeflaterOutputStream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.XxHash64;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.*;
import org.apache.spark.util.sketch.BloomFilter;
import scala.collection.mutable.ListBuffer;

/**
 * Spark's own runtime filter, `might_contain((SELECT bloom_filter_agg(xxhash64(…)) …), xxhash64(key))`, for the scan that has
 * the key: Spark tests rows that were read in full, the scan drops them before. Spark's filter stays above the scan.
 *
 * To Spark the filter's bytes are a key, in a struct, of a column that stands for the real one: an attribute of the same
 * struct in its place. The struct's second field, NULL, has the type that is hashed.
 */
final class SparkBloom {
  private static final int NUM_FIELDS = 2;

  /** What is hashed, as an expression of what is below the filter. */
  final Expression key;
  /** Gives the filter's bytes, as its only column. */
  final LogicalPlan build;

  private SparkBloom(Expression key, LogicalPlan build) {
    this.key = key;
    this.build = build;
  }

  /** Those of a plan's own condition. */
  static List allOf(LogicalPlan plan) {
    List conjuncts = new ArrayList();
    if (plan instanceof Filter) {
      PlanDemand.split(((Filter) plan).condition(), conjuncts);
    }
    List found = new ArrayList();
    for (int i = 0; i < conjuncts.size(); i++) {
      SparkBloom bloom = of((Expression) conjuncts.get(i));
      if (bloom != null) {
        found.add(bloom);
      }
    }
    return found;
  }

  /** Of one conjunct; null if it is no such filter, or of a type whose values key_bloom.py does not hash. */
  static SparkBloom of(Expression conjunct) {
    if (!(conjunct instanceof BloomFilterMightContain)) {
      return null;
    }
    Expression bytes = ((BloomFilterMightContain) conjunct).bloomFilterExpression();
    Expression hash = ((BloomFilterMightContain) conjunct).valueExpression();
    boolean hashes = hash instanceof XxHash64 && hash.children().size() == 1
        && ((XxHash64) hash).productElement(1).equals(Long.valueOf(JoinKeys.SEED)); // Janino finds two methods `seed`
    // Spark makes one subquery of several filters by one side, which is not in its place yet when this rule runs: none of ours.
    if (!hashes || !(bytes instanceof ScalarSubquery) || !((ScalarSubquery) bytes).outerAttrs().isEmpty()) {
      return null;
    }
    Expression key = (Expression) hash.children().apply(0);
    LogicalPlan build = (LogicalPlan) ((ScalarSubquery) bytes).plan();
    boolean fits = build instanceof Aggregate && ((Aggregate) build).groupingExpressions().isEmpty()
        && build.output().size() == 1 && build.deterministic() && JoinKeys.isHashed(key.dataType())
        && ((Expression) build.output().apply(0)).dataType() instanceof BinaryType;
    return fits ? new SparkBloom(key, build) : null;
  }

  /** The filter of a scan; `column` is an attribute of it or a field of its structs, and `key` is that, or a cast of it. */
  static DynamicPruningSubquery filter(Expression column, Expression key, LogicalPlan build) {
    List names = OfferedKeys.nameOf(column);
    ListBuffer named = new ListBuffer();
    named.$plus$eq(Literal$.MODULE$.apply(TuplesOfKeys.quoted(names)));
    named.$plus$eq(build.output().apply(0));
    named.$plus$eq(Literal$.MODULE$.apply("hashed"));
    named.$plus$eq(Literal$.MODULE$.create(null, key.dataType()));
    CreateNamedStruct struct = new CreateNamedStruct(named.toList());
    Attribute top = TuplesOfKeys.top(column);
    Attribute stand = new AttributeReference(
        String.join(".", names), struct.dataType(), true, Metadata.empty(), top.exprId(), top.qualifier());
    ListBuffer one = new ListBuffer();
    one.$plus$eq(struct);
    return DynamicFilters.pruning(stand, build, one.toList(), 0, false);
  }

  /** Whether keys of a join will test a column in the filter above its scan (null for none): they say more. */
  static boolean isNeedless(Filter above, Expression column, LogicalPlan root) {
    List conjuncts = new ArrayList();
    if (above != null) {
      PlanDemand.split(above.condition(), conjuncts);
    }
    for (int i = 0; i < conjuncts.size(); i++) {
      Object one = conjuncts.get(i);
      if (one instanceof DynamicPruningSubquery && ((DynamicPruningSubquery) one).pruningKey().semanticEquals(column)
          && DynamicFilters.willHaveKeys((DynamicPruningSubquery) one, root)) {
        return true;
      }
    }
    return false;
  }

  /** Whether a column stands for one whose values such a filter tests. */
  static boolean isTested(DataType type) {
    StructField[] fields = type instanceof StructType ? ((StructType) type).fields() : new StructField[0];
    return fields.length == NUM_FIELDS && fields[0].dataType() instanceof BinaryType && fields[1].name().equals("hashed");
  }

  /** Whether a filter's predicate, `column IN (…)`, has such a filter. */
  static boolean is(Predicate predicate) {
    Object first = predicate.children().length > 1 ? predicate.children()[1] : null;
    return predicate.name().equals("IN") && first instanceof Literal && isTested(((Literal) first).dataType());
  }

  /** What it tells the scan: what Spark's filter tests, a NULL's hash included, and no more. */
  static Map translate(Predicate predicate) {
    Literal literal = (Literal) predicate.children()[1];
    InternalRow row = (InternalRow) literal.value();
    if (predicate.children().length > 2) {
      return PredicateTranslator.node("true", null, null);
    }
    if (row == null || row.isNullAt(0)) {
      return PredicateTranslator.node("false", null, null); // Spark makes no filter of no rows, and then none passes
    }
    StructField[] fields = ((StructType) literal.dataType()).fields();
    byte[] bytes = row.getBinary(0);
    int count = countOf(bytes);
    if (count > JoinKeys.maxBloomKeys()) {
      return PredicateTranslator.node("true", null, null);
    }
    Map term = new LinkedHashMap();
    term.put("cast", PredicateTranslator.term(Expressions.column(fields[0].name())));
    term.put("type", PredicateTranslator.word(fields[1].dataType()));
    Map node = PredicateTranslator.node("in_bloom", "term", term);
    node.put("type", PredicateTranslator.word(fields[1].dataType()));
    node.put("count", Integer.valueOf(count));
    node.put("filter", Base64.getEncoder().encodeToString(deflated(bytes)));
    if (!takesNull(bytes)) {
      return node;
    }
    return PredicateTranslator.node(
        "or", "children", new ArrayList(Arrays.asList(new Object[] {PredicateTranslator.node("is_null", "term", term), node})));
  }

  /** Whether NULL passes: its hash is the seed, and a NULL key or another key may have set its bits. */
  private static boolean takesNull(byte[] bytes) {
    try {
      return BloomFilter.readFrom(new ByteArrayInputStream(bytes)).mightContainLong(JoinKeys.SEED);
    } catch (IOException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] " + error, error);
    }
  }

  /** About how many keys set its bits. */
  private static int countOf(byte[] bytes) {
    ByteBuffer read = ByteBuffer.wrap(bytes);
    int version = read.getInt();
    int hashes = read.getInt();
    if (version == 2) {
      read.getInt(); // its seed
    }
    long bits = 64L * read.getInt();
    long set = 0;
    while (read.remaining() >= 8) {
      set += Long.bitCount(read.getLong());
    }
    double keys = set >= bits ? bits : -Math.log1p(-(double) set / bits) * bits / hashes;
    return (int) Math.min(Integer.MAX_VALUE, Math.max(1, Math.round(keys)));
  }

  /** Spark makes room for a million keys, 1 MiB, where it does not know how many come: if few do, nearly all of it is 0. */
  private static byte[] deflated(byte[] bytes) {
    ByteArrayOutputStream small = new ByteArrayOutputStream();
    Deflater fast = new Deflater(Deflater.BEST_SPEED);
    try {
      DeflaterOutputStream compressed = new DeflaterOutputStream(small, fast);
      compressed.write(bytes);
      compressed.close();
    } catch (IOException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] " + error, error);
    } finally {
      fast.end();
    }
    return small.toByteArray();
  }
}
