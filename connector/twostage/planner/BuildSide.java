package twostage_planner;

import java.util.Arrays;
import java.util.List;
import org.apache.spark.network.util.JavaUtils;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.DynamicPruningSubquery;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.UserDefinedExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.util.UnsafeRowUtils;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.execution.columnar.CachedRDDBuilder;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.dynamicpruning.PartitionPruning$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegralType;
import org.apache.spark.storage.StorageLevel;
import scala.collection.immutable.Seq;

/** What is known about the side of a join that gives its keys, before it has run. */
final class BuildSide {
  /** A session's conf: the bytes that reading a side again, for its keys, may cost, as a share of those of the scan. */
  private static final String MAX_SHARE = "spark.twostage.dynamicFilter.maxBuildShare";
  private static final String DEFAULT_MAX_SHARE = "0.125";
  /** A session's conf: the bytes that reading a side again may cost at most; its keys come to the driver. */
  private static final String MAX_BYTES = "spark.twostage.dynamicFilter.maxBuildBytes";
  private static final String DEFAULT_MAX_BYTES = "64m";

  /** Bytes of a file or a range without a filter: 100,000 numbers or so. Larger ones may have all keys that there are. */
  private static final long MAX_LIST_BYTES = 1 << 20;

  private static final List ANY_ORDER = Arrays.asList(
      new Object[] {"Max", "Min", "Count", "BoolAnd", "BoolOr", "BitAndAgg", "BitOrAgg", "BitXorAgg", "BloomFilterAggregate"});
  /** Digits of decimals whose sum overflows in no order of the rows: Spark adds them with ten more digits, up to 38. */
  private static final int MAX_SUMMED = 28;

  private BuildSide() {}

  /** Whether a side probably has few of the keys that there are. */
  static boolean isSelective(LogicalPlan plan) {
    if (plan instanceof Filter && PartitionPruning$.MODULE$.isLikelySelective(((Filter) plan).condition())) {
      return true;
    }
    if (isList(plan) || plan instanceof GlobalLimit || plan instanceof LocalLimit || isAnswered(plan)) {
      return true;
    }
    if (plan instanceof Aggregate && ((Aggregate) plan).groupingExpressions().isEmpty()) {
      return true;
    }
    if (plan instanceof InMemoryRelation) {
      LogicalPlan cached = cached(plan);
      return cached != null && isSelective(cached);
    }
    if (DynamicFilters.isOurs(plan)) {
      return ((TwoStageScan) ((DataSourceV2ScanRelation) plan).scan()).isFiltered;
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      if (isSelective((LogicalPlan) children.apply(i))) {
        return true;
      }
    }
    return false;
  }

  /**
   * Whether a leaf is probably a list of what to look for: values, few numbers, rows of the driver's, or a small file that is
   * no table of Iceberg's.
   */
  static boolean isList(LogicalPlan plan) {
    if (plan instanceof LocalRelation || plan instanceof LogicalRDD) {
      return !plan.isStreaming();
    }
    if (plan instanceof Range) {
      return size(plan) <= MAX_LIST_BYTES;
    }
    return isOfFiles(plan) && size(plan) <= MAX_LIST_BYTES
        && !(((HadoopFsRelation) ((LogicalRelation) plan).relation()).location() instanceof TwoStageFiles);
  }

  private static boolean isOfFiles(LogicalPlan plan) {
    return plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation;
  }

  /** Whether the plan is a scan of ours whose rows metadata gave while planning. */
  private static boolean isAnswered(LogicalPlan plan) {
    return plan instanceof DataSourceV2ScanRelation && ((DataSourceV2ScanRelation) plan).scan() instanceof TwoStageLocalScan;
  }

  /** Whether a side may be read a second time: the keys are certainly the same, and it costs little compared to the scan. */
  static boolean isCheap(LogicalPlan side, DataSourceV2ScanRelation scan) {
    return isRepeatable(side) && bytesRead(side) <= Math.min(maxShare() * size(scan), maxBytes());
  }

  /** The same, where keys can also be had without a second reading. */
  static boolean isVeryCheap(LogicalPlan side, DataSourceV2ScanRelation scan) {
    return isRepeatable(side) && bytesRead(side) <= Math.min(maxShare() * maxShare() * size(scan), maxBytes());
  }

  private static double maxShare() {
    String text = SQLConf.get().getConfString(MAX_SHARE, DEFAULT_MAX_SHARE);
    try {
      return Double.parseDouble(text);
    } catch (NumberFormatException error) {
      throw new IllegalArgumentException("[TWOSTAGE.OPTION] " + MAX_SHARE + " is not a number: " + text);
    }
  }

  private static long maxBytes() {
    String text = SQLConf.get().getConfString(MAX_BYTES, DEFAULT_MAX_BYTES);
    try {
      return JavaUtils.byteStringAsBytes(text);
    } catch (NumberFormatException error) {
      throw new IllegalArgumentException("[TWOSTAGE.OPTION] " + MAX_BYTES + " is not a number of bytes: " + text);
    }
  }

  static long size(LogicalPlan plan) {
    scala.math.BigInt bytes = plan.stats().sizeInBytes();
    return bytes.isValidLong() ? bytes.toLong() : Long.MAX_VALUE;
  }

  /** The plan that a cached relation was made of; null where that is not known. */
  static LogicalPlan cached(LogicalPlan plan) {
    return ((InMemoryRelation) plan).cacheBuilder().logicalPlan();
  }

  /** Whether a second run certainly gives the same keys: no LIMIT, sample, window, function of the user or foreign source. */
  static boolean isRepeatable(LogicalPlan plan) {
    if (!plan.deterministic()) {
      return false;
    }
    if (plan instanceof LeafNode) {
      return plan instanceof LocalRelation || plan instanceof Range || plan instanceof OneRowRelation || isAnswered(plan)
          || plan instanceof InMemoryRelation && isRepeatable((InMemoryRelation) plan)
          || isOfFiles(plan)
          || DriverRows.are(plan)
          || DynamicFilters.isOurs(plan)
          || plan instanceof DataSourceV2Relation && PlannerInstaller.isOurs((DataSourceV2Relation) plan);
    }
    boolean plain = plan instanceof Project || plan instanceof Filter || plan instanceof SubqueryAlias || plan instanceof Join
        || plan instanceof Union || plan instanceof Aggregate || plan instanceof Distinct || plan instanceof View;
    boolean isGrouped = plan instanceof Aggregate || plan instanceof Distinct;
    Seq expressions = isGrouped ? (Seq) plan.expressions().appendedAll(plan.output()) : plan.expressions();
    for (int i = 0; plain && i < expressions.size(); i++) {
      Expression expression = (Expression) expressions.apply(i);
      plain = isPlain(expression) && !(isGrouped && isCollated(expression));
    }
    Seq children = plan.children();
    for (int i = 0; plain && i < children.size(); i++) {
      plain = isRepeatable((LogicalPlan) children.apply(i));
    }
    return plain;
  }

  /**
   * Whether a cached relation gives the same rows twice: because what it was made from does, or because its blocks are there
   * and stay. Blocks that are not there yet, or were dropped for lack of memory, are computed again, perhaps with other rows.
   */
  private static boolean isRepeatable(InMemoryRelation cached) {
    CachedRDDBuilder builder = cached.cacheBuilder();
    LogicalPlan origin = builder.logicalPlan();
    if (origin != null && isRepeatable(origin)) {
      return true;
    }
    StorageLevel level = builder.storageLevel();
    boolean stays = level.useDisk() && (level.replication() > 1 || builder.cachedPlan().session().sparkContext().isLocal());
    return stays && builder.isCachedColumnBuffersLoaded();
  }

  /**
   * Whether an expression, or part of it, has texts that a collation takes for equal. Of these, each run may choose another one
   * as the greatest, or as the group's.
   */
  private static boolean isCollated(Expression expression) {
    Seq children = expression.children();
    boolean found = !UnsafeRowUtils.isBinaryStable(expression.dataType());
    for (int i = 0; !found && i < children.size(); i++) {
      found = isCollated((Expression) children.apply(i));
    }
    return found;
  }

  /** Whether an expression gives the same result for the same rows, in whatever order they come. */
  private static boolean isPlain(Expression expression) {
    if (expression instanceof UserDefinedExpression
        || expression instanceof SubqueryExpression && !(expression instanceof DynamicPruningSubquery)) {
      return false;
    }
    if (expression instanceof AggregateExpression) {
      if (!isOfAnyOrder((Expression) ((AggregateExpression) expression).aggregateFunction())) {
        return false;
      }
    }
    Seq children = expression.children();
    for (int i = 0; i < children.size(); i++) {
      if (!isPlain((Expression) children.apply(i))) {
        return false;
      }
    }
    return true;
  }

  /** Whether an aggregate function gives the same for its rows in any order: a sum of doubles, or the first of them, does not. */
  private static boolean isOfAnyOrder(Expression function) {
    String name = function.getClass().getSimpleName();
    if (name.equals("Sum")) {
      DataType type = ((Expression) function.children().apply(0)).dataType();
      return type instanceof IntegralType || type instanceof DecimalType && ((DecimalType) type).precision() <= MAX_SUMMED;
    }
    return ANY_ORDER.contains(name);
  }

  /** The bytes that a side's leaves read. */
  private static long bytesRead(LogicalPlan plan) {
    if (plan instanceof LeafNode) {
      return plan instanceof InMemoryRelation || isAnswered(plan) ? 0 : size(plan);
    }
    long sum = 0;
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      sum += Math.min(bytesRead((LogicalPlan) children.apply(i)), Long.MAX_VALUE / 4 - sum);
    }
    return sum;
  }
}
