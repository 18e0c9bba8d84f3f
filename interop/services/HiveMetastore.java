import java.net.InetAddress;
import java.net.InetSocketAddress;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.TSetIpAddressProcessor;
import org.apache.hadoop.hive.metastore.txn.TxnDbUtil;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;

/** The Hive metastore out of PySpark's own JARs, over Derby, on 127.0.0.1 (its own main binds every interface). */
public final class HiveMetastore {
  public static void main(String[] args) throws Exception {
    HiveConf conf = new HiveConf();
    conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:;databaseName=" + args[0] + "/metastore;create=true");
    conf.set("javax.jdo.option.ConnectionDriverName", "org.apache.derby.iapi.jdbc.AutoloadedDriver");
    conf.set("datanucleus.schema.autoCreateAll", "true");
    conf.set("datanucleus.connectionPoolingType", "NONE"); // what pools them is not among the JARs
    conf.set("hive.metastore.schema.verification", "false");
    conf.set("hive.metastore.warehouse.dir", "file:" + args[0] + "/warehouse");
    conf.set("hive.metastore.uris", "");
    conf.set("hive.async.log.enabled", "false");
    IHMSHandler handler =
        RetryingHMSHandler.getProxy(conf, new HiveMetaStore.HMSHandler("metastore", conf, false), false);
    TxnDbUtil.prepDb(conf);
    TServerSocket socket = new TServerSocket(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    TThreadPoolServer.Args settings = new TThreadPoolServer.Args(socket);
    settings.processor(new TSetIpAddressProcessor(handler));
    settings.protocolFactory(new TBinaryProtocol.Factory());
    System.out.println("listening on " + socket.getServerSocket().getLocalPort());
    new TThreadPoolServer(settings).serve();
  }
}
