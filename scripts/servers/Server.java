import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.security.MessageDigest;
import java.util.concurrent.Executors;

/** Answers every GET after some work: java Server PORT. */
public class Server {
    public static void main(String[] arguments) throws Exception {
        var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0]));
        var server = HttpServer.create(address, 64);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            // Garbage, so that its collector runs.
            byte[] sum = new byte[256 << 10];
            try {
                var digest = MessageDigest.getInstance("SHA-256");
                for (int round = 0; round < 100; round++) {
                    digest.update(sum, 0, 1024);
                    System.arraycopy(digest.digest(), 0, sum, 0, 32);
                }
            } catch (java.security.NoSuchAlgorithmException impossible) {
                throw new IllegalStateException(impossible);
            }
            exchange.sendResponseHeaders(200, 32);
            exchange.getResponseBody().write(sum, 0, 32);
            exchange.close();
        });
        server.start();
    }
}
