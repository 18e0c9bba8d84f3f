package twostage_planner;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Function;
import org.apache.spark.sql.internal.SQLConf;

/** Calls the driver's Python (spark/bridge.py) through one py4j callback: JSON in, JSON out. Works from any thread. */
public final class PythonBridge {
  private static final ObjectMapper MAPPER = new ObjectMapper();
  private static volatile Function function;

  private PythonBridge() {}

  /** A table or namespace that is not there. */
  public static class NotFound extends IllegalArgumentException {
    private static final long serialVersionUID = 1L;

    public NotFound(String message) {
      super(message);
    }
  }

  /** Python has evicted the pinned table: the request must bring it along. */
  static final class UnknownPin extends RuntimeException {
    private static final long serialVersionUID = 1L;

    UnknownPin(String message) {
      super(message);
    }
  }

  public static void connect(Function callback) {
    function = callback;
  }

  /** The answer to a request, as an object of this class of `Answers`. Throws what Python answered with an error. */
  static Message call(Requests.Request request, Class answer) {
    Function callback = function;
    if (callback == null) {
      throw new IllegalStateException(
          "[TWOSTAGE.NOT_ENABLED] The planner is not connected to Python. Hint: Call twostage.enable(spark).");
    }
    Map sent = new LinkedHashMap();
    sent.put("call", request.call());
    sent.putAll(request.toJson());
    Map received;
    try {
      received = (Map) MAPPER.readValue((String) callback.apply(MAPPER.writeValueAsString(sent)), Map.class);
    } catch (java.io.IOException error) {
      throw new IllegalStateException("[TWOSTAGE.INTERNAL] The planner sent no JSON: " + error.getMessage() + " Hint: Please report this.", error);
    } catch (py4j.Py4JException error) {
      throw new IllegalStateException(
          "[TWOSTAGE.NOT_ENABLED] The Python process of twostage.enable does not answer: " + error.getMessage()
              + " Hint: It has ended, or its gateway is closed; start Spark again from Python.", error);
    }
    if (received.containsKey("error")) {
      throw exception((Answers.Failure) Message.read(Answers.Failure.class, (Map) received.get("error")));
    }
    return Message.read(answer, (Map) received.get("answer"));
  }

  private static RuntimeException exception(Answers.Failure failure) {
    RuntimeException exception;
    if ("table_not_found".equals(failure.kind)) {
      exception = new NotFound(failure.message);
    } else if ("unknown_pin".equals(failure.kind)) {
      exception = new UnknownPin(failure.message);
    } else if ("unsupported".equals(failure.kind)) {
      exception = new UnsupportedOperationException(failure.message);
    } else {
      exception = new IllegalArgumentException(failure.message);
    }
    if (!"internal".equals(failure.kind)) {
      // The message says it all, and Spark Connect shows each frame to its clients: 8,000 characters.
      exception.setStackTrace(new StackTraceElement[0]);
    }
    return exception;
  }

  /** The session's confs that Python needs to find a catalog and to resolve names. */
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
}
