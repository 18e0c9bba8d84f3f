import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.ee10.servlet.ServletContextHandler;
import org.eclipse.jetty.ee10.servlet.ServletHolder;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/** Iceberg's own REST catalog of its tests, over SQLite, on 127.0.0.1 (its own main binds every interface). */
public final class RestCatalog {
  public static void main(String[] args) throws Exception {
    Map properties = new HashMap();
    properties.put("catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog");
    properties.put("uri", "jdbc:sqlite:file:" + args[0] + "/rest.db");
    properties.put("jdbc.schema-version", "V1");
    properties.put("warehouse", "file:" + args[0] + "/warehouse");
    properties.put("io-impl", "org.apache.iceberg.hadoop.HadoopFileIO");
    Catalog catalog = CatalogUtil.buildIcebergCatalog("rest", properties, new Configuration());
    ServletContextHandler context = new ServletContextHandler();
    context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    Server server = new Server(new InetSocketAddress("127.0.0.1", 0));
    server.setHandler(context);
    server.start();
    System.out.println("listening on " + ((ServerConnector) server.getConnectors()[0]).getLocalPort());
    server.join();
  }
}
