import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableContext;
import org.apache.spark.sql.connector.catalog.TimeTravel;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The name that users write. From Spark 4.3 on, a read's options reach the catalog before the schema is known. */
public class twostage extends twostage_planner.TwoStageCatalog {
  public Set tableStateOptionKeys() {
    return new HashSet(Arrays.asList(new Object[] {
        "branch", "tag", "snapshot-id", "as-of-timestamp", "allow-moved-paths", "columns", "metadata-table"}));
  }

  public Table loadTable(Identifier id, TableContext context, CaseInsensitiveStringMap given)
      throws NoSuchTableException {
    Map options = new HashMap(given.asCaseSensitiveMap());
    if (context.timeTravel().isPresent()) {
      TimeTravel travel = (TimeTravel) context.timeTravel().get();
      if (travel instanceof TimeTravel.AsOfVersion) {
        options.put("versionAsOf", ((TimeTravel.AsOfVersion) travel).version());
      } else {
        long microseconds = ((TimeTravel.AsOfTimestamp) travel).micros();
        options.put("as-of-timestamp", String.valueOf(Math.floorDiv(microseconds, 1000L)));
      }
    }
    return load(id, options);
  }
}
