package twostage_planner;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.DataWritingCommand;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat$;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.*;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.collection.mutable.ListBuffer;

/**
 * Replaces relations that gain nothing from reading in two stages by Spark's own Parquet reader over the pinned files.
 * Python decides which (handover/decide.py). Executors get Spark's own classes; ours stay in the driver.
 */
final class ScanHandover {
  /** Part of the columns' names: Spark pushes filters down by name, and a file may have one under another field id. */
  private static final String SALT = Long.toHexString(new SecureRandom().nextLong());

  private final SparkSession session;
  /** Whether the plan calls input_file_name() or its like; null until that is known. */
  private Boolean namesFiles;
  /** Our tables by relation, because making one of a stock relation takes a call to Python. */
  private final Map tables = new IdentityHashMap();

  ScanHandover(Object session) {
    this.session = (SparkSession) session;
  }

  LogicalPlan rewrite(LogicalPlan plan) {
    namesFiles = null;
    return visit(plan, PlanDemand.ROOT, plan);
  }

  private LogicalPlan visit(LogicalPlan node, PlanDemand above, LogicalPlan root) {
    if (node instanceof DataSourceV2Relation) {
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      TwoStageTable table = tableOf(relation);
      return table == null ? node : replace(relation, table, above, root);
    }
    boolean writes = node instanceof V2WriteCommand || node instanceof DataWritingCommand;
    if (node instanceof Command && !writes) {
      return node; // what is below DELETE or DESCRIBE is a table, and not a scan
    }
    AggregateFromMetadataAndFiles mixed =
        node instanceof Aggregate ? AggregateFromMetadataAndFiles.of((Aggregate) node, this) : null;
    if (mixed != null) {
      return mixed.merge(visit(mixed.rest(), PlanDemand.ROOT, root));
    }
    Seq children = node.children();
    ListBuffer visited = new ListBuffer();
    boolean changed = false;
    for (int i = 0; i < children.size(); i++) {
      LogicalPlan child = (LogicalPlan) children.apply(i);
      LogicalPlan other = visit(child, above.child(node, i), root);
      changed = changed || other != child;
      visited.$plus$eq(other);
    }
    return changed ? (LogicalPlan) node.withNewChildren(visited.toList()) : node;
  }

  /** Our table of a relation, under the relation's options; null for another source's. */
  TwoStageTable tableOf(DataSourceV2Relation relation) {
    TwoStageTable table = (TwoStageTable) tables.get(relation);
    if (table == null) {
      table = PlannerInstaller.tableOf(relation);
      if (table != null) {
        table = table.at(relation.options());
        tables.put(relation, table);
      }
    }
    return table;
  }

  private LogicalPlan replace(DataSourceV2Relation relation, TwoStageTable table, PlanDemand above, LogicalPlan root) {
    List needed = new ArrayList();
    Requests.ScanDemand demand = demand(relation, table, above, root, needed);
    Requests.WantedAggregates aggregates =
        above.aggregates == null ? null : above.aggregates.wanted(relation.output());
    Answers.HandOver answer = (Answers.HandOver) table.call(
        new Requests.HandOver(
            demand, above.order == null ? null : firstRows(relation, above), aggregates, PlannerInstaller.parallelism(),
            null, false),
        Answers.HandOver.class);
    String reason = answer.reason;
    if (reason == null) {
      TwoStageFiles files = filesOf(answer.handedOver);
      reason = SparkFileSystems.differs(session, files.firstOfEachStore());
      if (reason == null) {
        return handOver(needed, files, answer.handedOver);
      }
    }
    AwaitedKeys awaited =
        answer.awaitsKeys ? new AwaitedKeys(this, table, demand, needed, above.predicates, answer) : null;
    return relation.copy(
        table.notHandedOver(reason, answer.byMetadata ? aggregates : null, awaited), relation.output(), relation.catalog(),
        relation.identifier(), relation.options(), relation.timeTravelSpec());
  }

  /**
   * Spark's reader for a relation that has awaited keys of a join, planned here as the scan `planned`. If it has keys, they
   * prune its files (see `KeyRanges`).
   */
  Late afterKeys(TwoStageTable table, Requests.ScanDemand demand, List needed, String planned, boolean hasKeys) {
    Answers.HandOver answer = (Answers.HandOver) table.call(
        new Requests.HandOver(demand, null, null, PlannerInstaller.parallelism(), planned, hasKeys),
        Answers.HandOver.class);
    TwoStageFiles files = answer.reason == null ? filesOf(answer.handedOver) : null;
    String reason = files == null ? answer.reason : SparkFileSystems.differs(session, files.firstOfEachStore());
    return new Late(reason == null ? handOver(needed, files, answer.handedOver) : null, reason);
  }

  /** Spark's reader for a relation, or the reason why there is none. */
  static final class Late {
    final LogicalPlan scan;
    final String reason;

    Late(LogicalPlan scan, String reason) {
      this.scan = scan;
      this.reason = reason;
    }
  }

  private static TwoStageFiles filesOf(Answers.SparkScan scan) {
    return new TwoStageFiles(scan, SALT);
  }

  /** What the query demands of a relation; puts the attributes that a scan must return into `needed`. */
  private Requests.ScanDemand demand(
      DataSourceV2Relation relation, TwoStageTable table, PlanDemand above, LogicalPlan root, List needed) {
    if (namesFiles == null) {
      namesFiles = Boolean.valueOf(namesFiles(root));
    }
    AttributeSet filtered = AttributeSet$.MODULE$.empty();
    List predicates = new ArrayList();
    for (int i = 0; i < above.predicates.size(); i++) {
      Expression condition = (Expression) above.predicates.get(i);
      filtered = filtered.$plus$plus(condition.references());
      org.apache.spark.sql.connector.expressions.filter.Predicate predicate = FilterTranslator.translate(condition, table);
      predicates.add(new Requests.FilterConjunct(
          predicate == null ? null : PredicateTranslator.translate(predicate), names(relation, condition.references())));
    }
    List returned = new ArrayList();
    List columns = new ArrayList();
    Iterator attributes = relation.output().iterator();
    while (attributes.hasNext()) {
      AttributeReference attribute = (AttributeReference) attributes.next();
      boolean wanted = above.returned == null || above.returned.contains(attribute);
      if (wanted) {
        returned.add(attribute.name());
      }
      if (wanted || filtered.contains(attribute)) {
        columns.add(attribute.name());
        needed.add(attribute);
      }
    }
    Requests.ScanDemand demand = new Requests.ScanDemand();
    demand.columns = (String[]) columns.toArray(new String[0]);
    demand.returned = (String[]) returned.toArray(new String[0]);
    demand.predicates = (Requests.FilterConjunct[]) predicates.toArray(new Requests.FilterConjunct[0]);
    demand.underLimit = above.limit;
    demand.underJoin = above.underJoin;
    demand.mayBePrunedByJoin = above.mayBePruned;
    boolean isOwn = above.joinedBy != null && relation.outputSet().contains(above.joinedBy);
    demand.joinedBy = isOwn ? above.joinedBy.name() : null;
    demand.namesFiles = namesFiles.booleanValue();
    demand.readsVectors = SQLConf.get().parquetVectorizedReaderEnabled();
    demand.fileSystems = SparkFileSystems.known(session, table.schemes);
    return demand;
  }

  /** The first rows by an order; null if the first key is no plain column. */
  private static Requests.FirstRows firstRows(DataSourceV2Relation relation, PlanDemand above) {
    SortOrder first = (SortOrder) above.order.apply(0);
    if (!(first.child() instanceof AttributeReference) || !relation.outputSet().contains((NamedExpression) first.child())) {
      return null;
    }
    return new Requests.FirstRows(
        new String[] {((AttributeReference) first.child()).name()}, first.direction() instanceof Descending$,
        first.nullOrdering() instanceof NullsFirst$, above.order.size(), above.count());
  }

  private static String[] names(DataSourceV2Relation relation, AttributeSet wanted) {
    List names = new ArrayList();
    Iterator attributes = relation.output().iterator();
    while (attributes.hasNext()) {
      AttributeReference attribute = (AttributeReference) attributes.next();
      if (wanted.contains(attribute)) {
        names.add(attribute.name());
      }
    }
    return (String[]) names.toArray(new String[0]);
  }

  /** Spark's reader over these files, and above it the relation's own attributes. */
  private LogicalPlan handOver(List needed, TwoStageFiles files, Answers.SparkScan scan) {
    StructType schema = new StructType();
    for (int i = 0; i < needed.size(); i++) {
      AttributeReference attribute = (AttributeReference) needed.get(i);
      long id = ((Number) scan.ids.get(attribute.name())).longValue();
      String name = attribute.name().replaceAll("[^A-Za-z0-9_]", "_") + "_" + id + "_" + SALT;
      schema = schema.add(new StructField(
          name, attribute.dataType(), attribute.nullable(),
          new MetadataBuilder().putLong("parquet.field.id", id).build()));
    }
    if (scan.deleted != null) {
      // Spark's reader fills a column of this name with the row's position in its file.
      schema = schema.add(new StructField(
          ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME(), DataTypes.LongType, true, Metadata.empty()));
    }
    scala.collection.immutable.HashMap settings = new scala.collection.immutable.HashMap();
    for (java.util.Iterator it = scan.options.entrySet().iterator(); it.hasNext();) {
      Map.Entry option = (Map.Entry) it.next();
      settings = settings.updated(option.getKey(), option.getValue());
    }
    LogicalRelation parquet = LogicalRelation$.MODULE$.apply(
        new HadoopFsRelation(
            files, files.partitionSchema(), schema, Option.empty(), new ParquetFileFormat(), settings, session),
        false);
    ListBuffer columns = new ListBuffer();
    for (int i = 0; i < needed.size(); i++) {
      AttributeReference attribute = (AttributeReference) needed.get(i);
      columns.$plus$eq(new Alias(
          (Expression) parquet.output().apply(i), attribute.name(), attribute.exprId(), attribute.qualifier(),
          Option.apply(attribute.metadata()), (Seq) Nil$.MODULE$));
    }
    return new Project(columns.toList(), scan.deleted == null ? (LogicalPlan) parquet : DeletedRowFilter.without(parquet, needed.size(), scan.deleted));
  }

  private static boolean namesFiles(LogicalPlan plan) {
    Iterator expressions = plan.expressions().iterator();
    while (expressions.hasNext()) {
      if (namesFile((Expression) expressions.next())) {
        return true;
      }
    }
    Seq children = plan.children();
    for (int i = 0; i < children.size(); i++) {
      if (namesFiles((LogicalPlan) children.apply(i))) {
        return true;
      }
    }
    return false;
  }

  private static boolean namesFile(Expression expression) {
    if (expression instanceof InputFileName || expression instanceof InputFileBlockStart
        || expression instanceof InputFileBlockLength) {
      return true;
    }
    Seq children = expression.children();
    for (int i = 0; i < children.size(); i++) {
      if (namesFile((Expression) children.apply(i))) {
        return true;
      }
    }
    return false;
  }
}
