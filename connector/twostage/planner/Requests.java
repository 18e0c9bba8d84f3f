package twostage_planner;

import java.util.Arrays;
import java.util.Map;

/** The requests to Python: one class for each call, which is the class's name in snake case. See spark/requests.py. */
final class Requests {
  private Requests() {}

  /** A request; its class's name is the call. */
  public abstract static class Request extends Message {
    final String call() {
      return snakeCase(getClass().getName().substring(getClass().getName().lastIndexOf('$') + 1));
    }
  }

  /** A request about a table that was loaded; see `TwoStageTable.call`, which names the table. */
  public abstract static class PinnedRequest extends Request {
    public static final String[] NULLABLE = {"pinned"};

    public String pin;
    public String pinned;
  }

  // --- tables

  public static class Load extends Request {
    public final Map options;
    public final Map confs;

    Load(Map options, Map confs) {
      this.options = options;
      this.confs = confs;
    }
  }

  public static final class Create extends Load {
    Create(Map options, Map confs) {
      super(options, confs);
    }
  }

  public static final class Adopt extends Request {
    public final String source;
    public final Map confs;

    Adopt(String source, Map confs) {
      this.source = source;
      this.confs = confs;
    }
  }

  // --- scans

  /** The first rows by a sort order; `column` is null where the first key is no column. */
  public static final class FirstRows extends Message {
    public static final String[] NULLABLE = {"column"};

    public final String[] column;
    public final boolean descending;
    public final boolean nullsFirst;
    public final int keys;
    public final int count;

    FirstRows(String[] column, boolean descending, boolean nullsFirst, int keys, int count) {
      this.column = column;
      this.descending = descending;
      this.nullsFirst = nullsFirst;
      this.keys = keys;
      this.count = count;
    }

    /** Scans are compared by this. */
    public String toString() {
      return toJson().toString();
    }
  }

  public static final class Push extends PinnedRequest {
    public final Map[] predicates;

    Push(Map[] predicates) {
      this.predicates = predicates;
    }
  }

  public static final class Top extends PinnedRequest {
    public final FirstRows top;

    Top(FirstRows top) {
      this.top = top;
    }
  }

  public static class Plan extends PinnedRequest {
    public static final String[] NULLABLE = {"pinned", "limit", "top", "reason"};

    public final String schema;
    public final Map[] exact;
    public final Map[] hints;
    public final Map[] runtime;
    public final Integer limit;
    public final FirstRows top;
    public final int parallelism;
    public final String reason;

    Plan(
        String schema, Map[] exact, Map[] hints, Map[] runtime, Integer limit, FirstRows top, int parallelism,
        String reason) {
      this.schema = schema;
      this.exact = exact;
      this.hints = hints;
      this.runtime = runtime;
      this.limit = limit;
      this.top = top;
      this.parallelism = parallelism;
      this.reason = reason;
    }
  }

  public static final class Read extends Plan {
    public final String scan;
    public final String[] executors;

    Read(Plan plan, String scan, String[] executors) {
      super(plan.schema, plan.exact, plan.hints, plan.runtime, plan.limit, plan.top, plan.parallelism, plan.reason);
      this.scan = scan;
      this.executors = executors;
    }
  }

  public static final class Started extends Request {
    public final String scan;

    Started(String scan) {
      this.scan = scan;
    }
  }

  /** A query has ended whose session keeps a log: `scans` has what Spark measured, by scan id; `confs` those of the log. */
  public static final class Ended extends Request {
    public static final String[] NULLABLE = {"description", "milliseconds"};

    public final long query;
    public final String description;
    public final Long milliseconds;
    public final boolean failed;
    public final Map application;
    public final Map scans;
    public final Map confs;

    Ended(long query, String description, Long milliseconds, boolean failed, Map application, Map scans, Map confs) {
      this.query = query;
      this.description = description;
      this.milliseconds = milliseconds;
      this.failed = failed;
      this.application = application;
      this.scans = scans;
      this.confs = confs;
    }
  }

  /** `command`: a function of PySpark's over the rows of an RDD, pickled, in Base64. */
  public static final class PassesRowsOn extends Request {
    public final String command;

    PassesRowsOn(String command) {
      this.command = command;
    }
  }

  // --- scans that Spark's own reader may do

  /** A conjunct of the filters directly above a relation; `form` is null where connectors are given none. */
  public static final class FilterConjunct extends Message {
    public static final String[] NULLABLE = {"form"};

    public final Map form;
    public final String[] columns;

    FilterConjunct(Map form, String[] columns) {
      this.form = form;
      this.columns = columns;
    }
  }

  /** What the query above a relation needs of it. */
  public static final class ScanDemand extends Message {
    public static final String[] NULLABLE = {"joinedBy"};

    public String[] columns;
    public String[] returned;
    public FilterConjunct[] predicates;
    public boolean underLimit;
    public boolean underJoin;
    public boolean mayBePrunedByJoin;
    public String joinedBy;
    public boolean namesFiles;
    public boolean readsVectors;
    public String[] fileSystems;
  }

  public static final class HandOver extends PinnedRequest {
    public static final String[] NULLABLE = {"pinned", "top", "aggregates", "planned"};

    public final ScanDemand demand;
    public final FirstRows top;
    public final WantedAggregates aggregates;
    public final int parallelism;
    public final String planned;
    public final boolean hasKeys;

    HandOver(
        ScanDemand demand, FirstRows top, WantedAggregates aggregates, int parallelism, String planned, boolean hasKeys) {
      this.demand = demand;
      this.top = top;
      this.aggregates = aggregates;
      this.parallelism = parallelism;
      this.planned = planned;
      this.hasKeys = hasKeys;
    }
  }

  // --- aggregates

  /** rows (count(*)), or count, distinct (count(DISTINCT ...)), min, max or sum of a column. */
  public static final class AggregateFunction extends Message {
    public static final String[] NULLABLE = {"column"};

    public final String name;
    public final String column;

    AggregateFunction(String name, String column) {
      this.name = name;
      this.column = column;
    }

    public boolean equals(Object other) {
      return other instanceof AggregateFunction && ((AggregateFunction) other).toJson().equals(toJson());
    }

    public int hashCode() {
      return name.hashCode();
    }
  }

  /** The distinct functions of an aggregation, and the columns that it groups by. */
  public static final class WantedAggregates extends Message {
    public final AggregateFunction[] functions;
    public final String[] groups;

    WantedAggregates(AggregateFunction[] functions, String[] groups) {
      this.functions = functions;
      this.groups = groups;
    }

    public boolean equals(Object other) {
      return other instanceof WantedAggregates && ((WantedAggregates) other).toJson().equals(toJson());
    }

    public int hashCode() {
      return Arrays.hashCode(groups);
    }
  }

  public static class Aggregate extends PinnedRequest {
    public final WantedAggregates aggregates;
    public final Map[] predicates;

    Aggregate(WantedAggregates aggregates, Map[] predicates) {
      this.aggregates = aggregates;
      this.predicates = predicates;
    }
  }

  public static final class Mixed extends Aggregate {
    Mixed(WantedAggregates aggregates, Map[] predicates) {
      super(aggregates, predicates);
    }
  }

  // --- catalogs

  public static class Namespace extends Request {
    public final String catalog;
    public final String[] namespace;
    public final Map confs;

    Namespace(String catalog, String[] namespace, Map confs) {
      this.catalog = catalog;
      this.namespace = namespace;
      this.confs = confs;
    }
  }

  public static final class Namespaces extends Namespace {
    Namespaces(String catalog, String[] namespace, Map confs) {
      super(catalog, namespace, confs);
    }
  }

  public static final class Tables extends Namespace {
    Tables(String catalog, String[] namespace, Map confs) {
      super(catalog, namespace, confs);
    }
  }
}
