package twostage_planner;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.*;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A read-only SQL catalog, and the provider behind format("twostage"). Python knows the tables. */
public class TwoStageCatalog
    implements TableCatalog, SupportsNamespaces, TableProvider, CreatableRelationProvider {
  private String name = "twostage";
  private Map confs = new HashMap();
  private TwoStageTable inferred;
  private CaseInsensitiveStringMap inferredOptions;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    confs = new HashMap();
    confs.put("spark.sql.catalog." + name, "twostage");
    for (Iterator it = options.asCaseSensitiveMap().entrySet().iterator(); it.hasNext();) {
      Map.Entry option = (Map.Entry) it.next();
      confs.put("spark.sql.catalog." + name + "." + option.getKey(), option.getValue());
    }
  }

  public String name() {
    return name;
  }

  // --- tables

  public Table loadTable(Identifier id) throws NoSuchTableException {
    return load(id, new HashMap());
  }

  public Table loadTable(Identifier id, String version) throws NoSuchTableException {
    Map options = new HashMap();
    options.put("versionAsOf", version);
    return load(id, options);
  }

  public Table loadTable(Identifier id, long microseconds) throws NoSuchTableException {
    Map options = new HashMap();
    options.put("as-of-timestamp", String.valueOf(Math.floorDiv(microseconds, 1000L)));
    return load(id, options);
  }

  protected Table load(Identifier id, Map given) throws NoSuchTableException {
    Map options = new LinkedHashMap(given);
    StringBuilder path = new StringBuilder(quoted(name));
    String[] namespace = id.namespace();
    for (int i = 0; i < namespace.length; i++) {
      path.append('.').append(quoted(namespace[i]));
    }
    options.put("path", path.append('.').append(quoted(id.name())).toString());
    try {
      return TwoStageTable.load(options, confs, true);
    } catch (PythonBridge.NotFound error) {
      throw new NoSuchTableException(id);
    }
  }

  private static String quoted(String part) {
    return part.matches("[\\w-]+") ? part : "`" + part.replace("`", "``") + "`";
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    Answers.Tables found =
        (Answers.Tables) call(new Requests.Tables(name, namespace, allConfs()), Answers.Tables.class);
    Identifier[] tables = new Identifier[found.names.length];
    for (int i = 0; i < tables.length; i++) {
      tables[i] = Identifier.of(namespace, found.names[i]);
    }
    return tables;
  }

  public void invalidateTable(Identifier id) {}

  @SuppressWarnings("deprecation") // as long as Spark may call it
  public Table createTable(Identifier id, StructType schema, Transform[] partitions, Map properties) {
    throw refused("CREATE TABLE " + id);
  }

  @SuppressWarnings("deprecation")
  public Table createTable(Identifier id, Column[] columns, Transform[] partitions, Map properties) {
    throw refused("CREATE TABLE " + id);
  }

  public Table alterTable(Identifier id, TableChange... changes) {
    throw refused("ALTER TABLE " + id);
  }

  public boolean dropTable(Identifier id) {
    throw refused("DROP TABLE " + id);
  }

  public boolean purgeTable(Identifier id) {
    throw refused("DROP TABLE " + id);
  }

  public void renameTable(Identifier id, Identifier other) {
    throw refused("ALTER TABLE " + id + " RENAME");
  }

  // --- namespaces

  public String[][] listNamespaces() throws NoSuchNamespaceException {
    return listNamespaces(new String[0]);
  }

  public String[][] listNamespaces(String[] parent) throws NoSuchNamespaceException {
    return ((Answers.Namespaces) call(
        new Requests.Namespaces(name, parent, allConfs()), Answers.Namespaces.class)).names;
  }

  public boolean namespaceExists(String[] namespace) {
    try {
      check(namespace);
      return true;
    } catch (NoSuchNamespaceException error) {
      return false;
    }
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    check(namespace);
    return new HashMap();
  }

  public void createNamespace(String[] namespace, Map metadata) {
    throw refused("CREATE NAMESPACE " + String.join(".", namespace));
  }

  public void alterNamespace(String[] namespace, NamespaceChange... changes) {
    throw refused("ALTER NAMESPACE " + String.join(".", namespace));
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw refused("DROP NAMESPACE " + String.join(".", namespace));
  }

  private void check(String[] namespace) throws NoSuchNamespaceException {
    call(new Requests.Namespace(name, namespace, allConfs()), Answers.Namespace.class);
  }

  private static Message call(Requests.Namespace request, Class answer) throws NoSuchNamespaceException {
    try {
      return PythonBridge.call(request, answer);
    } catch (PythonBridge.NotFound error) {
      throw new NoSuchNamespaceException(request.namespace);
    }
  }

  /** This catalog's confs, and over them the session's. */
  private Map allConfs() {
    Map all = new HashMap(confs);
    all.putAll(PythonBridge.confs());
    return all;
  }

  protected UnsupportedOperationException refused(String statement) {
    return new UnsupportedOperationException(TwoStageTable.READ_ONLY + statement + " in catalog " + name + ".");
  }

  // --- format("twostage")

  public StructType inferSchema(CaseInsensitiveStringMap options) {
    inferred = TwoStageTable.load(options.asCaseSensitiveMap(), new HashMap(), false);
    inferredOptions = options;
    return inferred.schema();
  }

  public Table getTable(StructType schema, Transform[] partitioning, Map options) {
    CaseInsensitiveStringMap wanted = new CaseInsensitiveStringMap(options);
    if (inferred != null && wanted.equals(inferredOptions)) {
      return inferred;
    }
    return TwoStageTable.declared(schema);
  }

  public boolean supportsExternalMetadata() {
    return true;
  }

  public BaseRelation createRelation(
      SQLContext context, SaveMode mode, scala.collection.immutable.Map options, Dataset data) {
    throw new UnsupportedOperationException(TwoStageTable.READ_ONLY + "format('twostage').save().");
  }
}
