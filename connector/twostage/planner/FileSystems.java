package twostage_planner;

import java.io.FileNotFoundException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.spark.sql.classic.SparkSession;

/** What Spark's own file systems reach: a scan is handed over only if they see its files as Python does. */
final class FileSystems {
  /** Schemes of one store each: a file of the first is found under the others too. */
  private static final String[][] SYNONYMS = {
    {"s3", "s3a", "s3n"}, {"gs", "gcs"}, {"abfs", "abfss"}, {"wasb", "wasbs"}
  };
  /** A store that needs longer to say how long a file is would hold up every query. */
  private static final long PATIENCE_SECONDS = 10;
  private static final long NOT_AGAIN_SECONDS = 300;
  /** When stores that did not answer are asked again, by scheme and authority; in nanoseconds. */
  private static final Map SILENT = new ConcurrentHashMap();

  private FileSystems() {}

  /** Of these schemes and their synonyms, those that Hadoop has a class for; none for local files and HDFS. */
  static List known(SparkSession session, List asked) {
    List known = new ArrayList();
    Configuration settings = null;
    for (int n = 0; n < asked.size(); n++) {
      String scheme = ((String) asked.get(n)).toLowerCase(Locale.ROOT);
      if (scheme.equals("file") || scheme.equals("hdfs") || scheme.equals("viewfs")) {
        continue; // Python knows of these without asking
      }
      settings = settings == null ? session.sessionState().newHadoopConf() : settings;
      String[] schemes = {scheme};
      for (int i = 0; i < SYNONYMS.length; i++) {
        if (java.util.Arrays.asList(SYNONYMS[i]).contains(scheme)) {
          schemes = SYNONYMS[i];
        }
      }
      for (int i = 0; i < schemes.length; i++) {
        try {
          FileSystem.getFileSystemClass(schemes[i], settings);
        } catch (Throwable error) {
          continue; // none, or a class of Hadoop's defaults whose jar is not there
        }
        if (!known.contains(schemes[i])) {
          known.add(schemes[i]);
        }
      }
    }
    return known;
  }

  /** Why Spark's file systems do not see these files, one of each store, as we do; null if they do. */
  static String differs(SparkSession session, List files) {
    for (int i = 0; i < files.size(); i++) {
      String reason = differs(session, (FileStatus) files.get(i));
      if (reason != null) {
        return reason;
      }
    }
    return null;
  }

  private static String differs(SparkSession session, final FileStatus file) {
    final Configuration settings = session.sessionState().newHadoopConf();
    String store = file.getPath().toUri().getScheme() + "://" + file.getPath().toUri().getAuthority();
    Long again = (Long) SILENT.get(store);
    if (again != null && System.nanoTime() - again.longValue() < 0) {
      return "Spark did not reach " + store + " a while ago";
    }
    FutureTask asked = new FutureTask(new Callable() {
      public Object call() throws Exception {
        return file.getPath().getFileSystem(settings).getFileStatus(file.getPath());
      }
    });
    try {
      if ("file".equals(file.getPath().toUri().getScheme())) {
        asked.run();
      } else {
        Thread thread = new Thread(asked, "twostage-asks-" + store);
        thread.setDaemon(true);
        thread.start();
      }
      FileStatus found = (FileStatus) asked.get(PATIENCE_SECONDS, TimeUnit.SECONDS);
      return found.getLen() == file.getLen() ? null : "Spark sees a file of another length";
    } catch (Exception error) { // one for all: Janino's code for several that go on below is not valid
      if (error.getCause() instanceof FileNotFoundException) {
        return "Spark does not find the files";
      }
      if (error instanceof InterruptedException) {
        Thread.currentThread().interrupt();
        return "the query was interrupted";
      }
    }
    asked.cancel(true);
    SILENT.put(store, Long.valueOf(System.nanoTime() + NOT_AGAIN_SECONDS * 1000000000L));
    return "Spark does not reach " + store;
  }
}
