package twostage_planner;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.internal.SQLConf;

/** Calls the driver's Python: JSON text in, JSON text out. Works from any thread. */
public final class Bridge {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static volatile Function function;

  private Bridge() {}

  /** An error of the Python side whose message begins with its stable code. */
  public static class NotFound extends IllegalArgumentException {
    public NotFound(String message) {
      super(message);
    }
  }

  static final class UnknownPin extends RuntimeException {
    UnknownPin(String message) {
      super(message);
    }
  }

  public static void connect(Function callback) {
    function = callback;
  }

  static Map request(String call) {
    Map request = new LinkedHashMap();
    request.put("call", call);
    return request;
  }

  static Map call(Map request) {
    Function callback = function;
    if (callback == null) {
      throw new IllegalStateException(
          "[TWOSTAGE.NOT_ENABLED] The planner is not connected to Python. Hint: Call twostage.enable(spark).");
    }
    Map answer;
    try {
      answer = (Map) MAPPER.readValue((String) callback.apply(MAPPER.writeValueAsString(request)), Map.class);
    } catch (java.io.IOException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] The planner sent no JSON: " + error.getMessage() + " Hint: Please report this.", error);
    } catch (py4j.Py4JException error) {
      throw new IllegalStateException(
          "[TWOSTAGE.NOT_ENABLED] The Python process of twostage.enable does not answer: " + error.getMessage()
              + " Hint: It has ended, or its gateway is closed; start Spark again from Python.", error);
    }
    Map error = (Map) answer.get("error");
    if (error != null) {
      RuntimeException failure = failure((String) error.get("kind"), (String) error.get("message"));
      if (!"internal".equals(error.get("kind"))) {
        // The message says it all, and Spark Connect shows each frame to its clients: 8,000 characters.
        failure.setStackTrace(new StackTraceElement[0]);
      }
      throw failure;
    }
    return answer;
  }

  private static RuntimeException failure(String kind, String message) {
    if ("table_not_found".equals(kind)) {
      return new NotFound(message);
    }
    if ("unknown_pin".equals(kind)) {
      return new UnknownPin(message);
    }
    if ("unsupported".equals(kind)) {
      return new UnsupportedOperationException(message);
    }
    return new IllegalArgumentException(message);
  }

  /** The session's confs that the Python side needs to find a catalog and to resolve names. */
  static Map confs() {
    Map found = new HashMap();
    Map all = scala.jdk.javaapi.CollectionConverters.asJava(SQLConf.get().getAllConfs());
    for (Iterator it = all.entrySet().iterator(); it.hasNext();) {
      Map.Entry entry = (Map.Entry) it.next();
      String key = (String) entry.getKey();
      if (key.startsWith("spark.sql.catalog.") || key.startsWith("spark.hadoop.fs.s3a.")
          || key.equals("spark.sql.defaultCatalog")) {
        found.put(entry.getKey(), entry.getValue());
      }
    }
    found.put("spark.sql.caseSensitive", String.valueOf(SQLConf.get().caseSensitiveAnalysis()));
    found.put("spark.sql.session.timeZone", SQLConf.get().sessionLocalTimeZone());
    return found;
  }

  static String[] texts(Object list) {
    List items = (List) list;
    return (String[]) items.toArray(new String[0]);
  }

  static List list(Object[] items) {
    List list = new ArrayList();
    for (int i = 0; i < items.length; i++) {
      list.add(items[i]);
    }
    return list;
  }
}
