package twostage_planner;

import java.util.Map;

/** What Python answers: one class for each class of `Requests`. See spark/answers.py. */
final class Answers {
  private Answers() {}

  /** An error: `kind` chooses the exception. */
  public static final class Failure extends Message {
    public String kind;
    public String code;
    public String message;
  }

  // --- tables

  public static class Load extends Message {
    public String pin;
    public String pinned;
    public String key;
    public String schema;
    public String hidden;
    public String name;
    public String snapshot;
    public Map properties;
    public String[] schemes;
  }

  public static final class Create extends Message {
    public String source;
    public String schema;
  }

  public static final class Adopt extends Load {
    public Map options;
  }

  // --- scans

  public static final class Push extends Message {
    public boolean[] exact;
    public String[] texts;
  }

  public static final class Top extends Message {
    public static final String[] NULLABLE = {"text"};

    public String text;
  }

  public static final class Plan extends Message {
    public String scan;
    public long rows;
    public long bytes;
    public boolean prunable;
    public String indexed;
    public boolean placed;
  }

  public static final class PassesRowsOn extends Message {
    public boolean unchanged;
  }

  public static final class Read extends Message {
    public String scan;
    public String function;
    public String[] partitions;
    public String[] executors;
  }

  public static final class Started extends Message {}

  public static final class Ended extends Message {}

  // --- scans that Spark's own reader does

  public static final class HandOver extends Message {
    public static final String[] NULLABLE = {"reason", "handedOver"};

    public String reason;
    public boolean byMetadata;
    public boolean awaitsKeys;
    public String[] keyColumns;
    public boolean onlyKeyColumns;
    public SparkScan handedOver;
  }

  public static final class SparkScan extends Message {
    public static final String[] NULLABLE = {"deleted"};

    public String scan;
    public String root;
    public SparkFile[] files;
    public DeletedRows deleted;
    public String[] keyColumns;
    public long bytes;
    public Map ids;
    public Map options;
  }

  public static final class SparkFile extends Message {
    public static final String[] NULLABLE = {"firstBit"};

    public String path;
    public long length;
    public Integer firstBit;
    public KeyRange[] ranges;
  }

  public static final class KeyRange extends Message {
    public String column;
    public long lower;
    public long upper;
  }

  public static final class DeletedRows extends Message {
    public int size;
    public String[] texts;
  }

  // --- aggregates

  public static final class Aggregate extends Message {
    public static final String[] NULLABLE = {"reason", "answered"};

    public String reason;
    public MetadataRows answered;
  }

  public static final class MetadataRows extends Message {
    public String scan;
    public String schema;
    public String[][] rows;
    public String source;
  }

  public static final class Mixed extends Message {
    public static final String[] NULLABLE = {"reason", "answered"};

    public String reason;
    public PartialRows answered;
  }

  public static final class PartialRows extends Message {
    public String schema;
    public String[][] rows;
    public String pin;
    public String pinned;
  }

  // --- catalogs

  public static final class Namespace extends Message {}

  public static final class Namespaces extends Message {
    public String[][] names;
  }

  public static final class Tables extends Message {
    public String[] names;
  }
}
