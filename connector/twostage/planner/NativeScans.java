package twostage_planner;

import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.util.V2ExpressionBuilder;
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
 * Puts Spark's own Parquet reader, over the pinned files, in the place of relations that gain nothing from late
 * reads. Python decides. What executors get is Spark's own; our classes stay in the driver.
 */
final class NativeScans {
  /** Spark pushes filters down by name, so a name that a file has under another id would lose rows. */
  private static final String SALT = Long.toHexString(new SecureRandom().nextLong());

  private final SparkSession session;
  private Boolean namesFiles;
  /** Tables by relation: to make one from a stock relation, Python is asked. */
  private final Map tables = new IdentityHashMap();

  NativeScans(Object session) {
    this.session = (SparkSession) session;
  }

  LogicalPlan rewrite(LogicalPlan plan) {
    namesFiles = null;
    return visit(plan, Above.NOTHING, plan);
  }

  private LogicalPlan visit(LogicalPlan node, Above above, LogicalPlan root) {
    if (node instanceof DataSourceV2Relation) {
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      TwoStageTable table = tableOf(relation);
      return table == null ? node : replace(relation, table, above, root);
    }
    boolean writes = node instanceof V2WriteCommand || node instanceof DataWritingCommand;
    if (node instanceof Command && !writes) {
      return node; // what is below DELETE or DESCRIBE is a table, and not a scan
    }
    MixedAnswers mixed = node instanceof Aggregate ? MixedAnswers.of((Aggregate) node, this) : null;
    if (mixed != null) {
      return mixed.with(visit(mixed.rest(), Above.NOTHING, root));
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

  /** Our table of a relation under its options; null for another source's. */
  TwoStageTable tableOf(DataSourceV2Relation relation) {
    TwoStageTable table = (TwoStageTable) tables.get(relation);
    if (table == null) {
      table = Install.tableOf(relation);
      if (table != null) {
        table = table.at(relation.options());
        tables.put(relation, table);
      }
    }
    return table;
  }

  private LogicalPlan replace(DataSourceV2Relation relation, TwoStageTable table, Above above, LogicalPlan root) {
    List needed = new ArrayList();
    Map aggregates = above.aggregates == null ? null : above.aggregates.form(relation.output());
    Map request = request(relation, table, above, root, needed);
    request.put("aggregates", aggregates);
    Map answer = table.call(request);
    String reason = (String) answer.get("stays");
    if (reason == null) {
      Map deleted = (Map) answer.get("deleted");
      String first = "first_row_" + SALT;
      TwoStageFiles files = new TwoStageFiles(
          (String) answer.get("scan"), (String) answer.get("root"), (List) answer.get("files"),
          ((Number) answer.get("bytes")).longValue(), deleted == null ? null : first);
      reason = FileSystems.differs(session, files.ofEachStore());
      if (reason == null) {
        return handOver(needed, files, (Map) answer.get("ids"), (Map) answer.get("options"), deleted);
      }
    }
    return relation.copy(
        table.staying(reason, answer.get("answers") == null ? null : aggregates), relation.output(), relation.catalog(), relation.identifier(), relation.options(),
        relation.timeTravelSpec());
  }

  private Map request(
      DataSourceV2Relation relation, TwoStageTable table, Above above, LogicalPlan root, List needed) {
    if (namesFiles == null) {
      namesFiles = Boolean.valueOf(namesFiles(root));
    }
    AttributeSet filtered = AttributeSet$.MODULE$.empty();
    List predicates = new ArrayList();
    for (int i = 0; i < above.predicates.size(); i++) {
      Expression condition = (Expression) above.predicates.get(i);
      filtered = filtered.$plus$plus(condition.references());
      Option predicate = new V2ExpressionBuilder(condition, true).buildPredicate();
      Map entry = new LinkedHashMap();
      entry.put("form", predicate.isDefined()
          ? Predicates.translate((org.apache.spark.sql.connector.expressions.filter.Predicate) predicate.get())
          : null);
      entry.put("columns", names(relation, condition.references()));
      predicates.add(entry);
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
    Map request = Bridge.request("native");
    request.put("columns", columns);
    request.put("returned", returned);
    request.put("predicates", predicates);
    request.put("top", above.order == null ? null : top(relation, above));
    request.put("under_limit", Boolean.valueOf(above.limit));
    request.put("may_be_pruned_by_join", Boolean.valueOf(above.joined));
    request.put("names_files", namesFiles);
    request.put("reads_vectors", Boolean.valueOf(SQLConf.get().parquetVectorizedReaderEnabled()));
    request.put("parallelism", Integer.valueOf(Install.parallelism()));
    request.put("file_systems", FileSystems.known(session, table.schemes));
    return request;
  }

  /** The first rows by an order, as `TwoStageScanBuilder` says them; null if the first key is no plain column. */
  private static Map top(DataSourceV2Relation relation, Above above) {
    SortOrder first = (SortOrder) above.order.apply(0);
    if (!(first.child() instanceof AttributeReference) || !relation.outputSet().contains((NamedExpression) first.child())) {
      return null;
    }
    List column = new ArrayList();
    column.add(((AttributeReference) first.child()).name());
    Map top = new LinkedHashMap();
    top.put("column", column);
    top.put("descending", Boolean.valueOf(first.direction() instanceof Descending$));
    top.put("nulls_first", Boolean.valueOf(first.nullOrdering() instanceof NullsFirst$));
    top.put("keys", Integer.valueOf(above.order.size()));
    top.put("count", Integer.valueOf(above.count()));
    return top;
  }

  private static List names(DataSourceV2Relation relation, AttributeSet wanted) {
    List names = new ArrayList();
    Iterator attributes = relation.output().iterator();
    while (attributes.hasNext()) {
      AttributeReference attribute = (AttributeReference) attributes.next();
      if (wanted.contains(attribute)) {
        names.add(attribute.name());
      }
    }
    return names;
  }

  private LogicalPlan handOver(List needed, TwoStageFiles files, Map ids, Map options, Map deleted) {
    StructType schema = new StructType();
    for (int i = 0; i < needed.size(); i++) {
      AttributeReference attribute = (AttributeReference) needed.get(i);
      long id = ((Number) ids.get(attribute.name())).longValue();
      String name = attribute.name().replaceAll("[^A-Za-z0-9_]", "_") + "_" + id + "_" + SALT;
      schema = schema.add(new StructField(
          name, attribute.dataType(), attribute.nullable(),
          new MetadataBuilder().putLong("parquet.field.id", id).build()));
    }
    if (deleted != null) {
      // Spark's reader fills a column of this name with the row's place in its file.
      schema = schema.add(new StructField(
          ParquetFileFormat$.MODULE$.ROW_INDEX_TEMPORARY_COLUMN_NAME(), DataTypes.LongType, true, Metadata.empty()));
    }
    scala.collection.immutable.HashMap settings = new scala.collection.immutable.HashMap();
    for (java.util.Iterator it = options.entrySet().iterator(); it.hasNext();) {
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
          Option.apply(attribute.metadata()), Nil$.MODULE$));
    }
    return new Project(columns.toList(), deleted == null ? (LogicalPlan) parquet : Deleted.without(parquet, deleted));
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
