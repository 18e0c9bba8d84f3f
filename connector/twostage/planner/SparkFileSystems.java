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

/** Whether Spark's own file systems see a scan's files as Python does: only then is it handed over. */
final class SparkFileSystems {
  /** Schemes of one store each: a file of the first is found under the others too. */
  private static final String[][] SYNONYMS = {
    {"s3", "s3a", "s3n"}, {"gs", "gcs"}, {"abfs", "abfss"}, {"wasb", "wasbs"}
  };
  /** A store that takes longer to tell a file's length would hold up every query. */
  private static final long TIMEOUT_SECONDS = 10;
  private static final long SECONDS_UNTIL_RETRY = 300;
  /** Stores that did not answer, by scheme and authority: the System.nanoTime() at which they are tried again. */
  private static final Map RETRY_AT = new ConcurrentHashMap();

  private SparkFileSystems() {}

  /** Of these URI schemes and their synonyms, those that Hadoop has a class for; local files and HDFS left out. */
  static String[] known(SparkSession session, String[] wanted) {
    List known = new ArrayList();
    Configuration settings = null;
    for (int n = 0; n < wanted.length; n++) {
      String scheme = wanted[n].toLowerCase(Locale.ROOT);
      if (scheme.equals("file") || scheme.equals("hdfs") || scheme.equals("viewfs")) {
        continue; // every Hadoop has these
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
    return (String[]) known.toArray(new String[0]);
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
    Long again = (Long) RETRY_AT.get(store);
    if (again != null && System.nanoTime() - again.longValue() < 0) {
      return "Spark did not reach " + store + " a while ago";
    }
    FutureTask status = new FutureTask(new Callable() {
      public Object call() throws Exception {
        return file.getPath().getFileSystem(settings).getFileStatus(file.getPath());
      }
    });
    try {
      if ("file".equals(file.getPath().toUri().getScheme())) {
        status.run();
      } else {
        Thread thread = new Thread(status, "twostage-file-status-" + store);
        thread.setDaemon(true);
        thread.start();
      }
      FileStatus found = (FileStatus) status.get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
      return found.getLen() == file.getLen() ? null : "Spark sees a file of another length";
    } catch (Exception error) { // one for all: for several that continue below, Janino makes invalid code
      if (error.getCause() instanceof FileNotFoundException) {
        return "Spark does not find the files";
      }
      if (error instanceof InterruptedException) {
        Thread.currentThread().interrupt();
        return "the query was interrupted";
      }
    }
    status.cancel(true);
    RETRY_AT.put(store, Long.valueOf(System.nanoTime() + SECONDS_UNTIL_RETRY * 1000000000L));
    return "Spark does not reach " + store;
  }
}
