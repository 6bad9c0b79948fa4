// A client in Java: lists the tables, then asks for what a request says. Prints JSON, one object a line.
//
//     java --add-opens=java.base/java.nio=ALL-UNNAMED Client ADDRESS TOKEN LIMIT REQUEST
//
// With a LIMIT above 0 it goes away after so many batches.

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.flight.CallOption;
import org.apache.arrow.flight.Criteria;
import org.apache.arrow.flight.FlightClient;
import org.apache.arrow.flight.FlightDescriptor;
import org.apache.arrow.flight.FlightInfo;
import org.apache.arrow.flight.FlightRuntimeException;
import org.apache.arrow.flight.FlightStream;
import org.apache.arrow.flight.Location;
import org.apache.arrow.flight.grpc.CredentialCallOption;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;

public class Client {
    public static void main(String[] arguments) throws Exception {
        String[] place = arguments[0].split(":");
        Location location = Location.forGrpcInsecure(place[0], Integer.parseInt(place[1]));
        try (BufferAllocator allocator = new RootAllocator();
                FlightClient client = FlightClient.builder(allocator, location).build()) {
            run(client, arguments[1], Integer.parseInt(arguments[2]), arguments[3]);
        } catch (FlightRuntimeException error) {
            say("{\"code\": " + text(error.status().code().name()) + ", \"error\": " + text(error.status().description()) + "}");
            System.exit(1);
        }
    }

    static void run(FlightClient client, String token, int limit, String request) throws Exception {
        CallOption[] options = token.isEmpty()
                ? new CallOption[0]
                : new CallOption[] {
                    new CredentialCallOption(headers -> headers.insert("authorization", "Bearer " + token))
                };
        List<String> tables = new ArrayList<>();
        for (FlightInfo info : client.listFlights(Criteria.ALL, options)) {
            tables.add(text(String.join("/", info.getDescriptor().getPath())));
        }
        say("{\"tables\": [" + String.join(", ", tables) + "]}");

        byte[] command = request.getBytes(StandardCharsets.UTF_8);
        FlightInfo info = client.getInfo(FlightDescriptor.command(command), options);
        say("{\"info\": " + new String(info.getAppMetadata(), StandardCharsets.UTF_8) + "}");
        int batches = 0;
        long rows = 0;
        try (FlightStream stream = client.getStream(info.getEndpoints().get(0).getTicket(), options)) {
            while (stream.next()) {
                VectorSchemaRoot root = stream.getRoot();
                batches++;
                rows += root.getRowCount();
                if (limit > 0 && batches == limit) {
                    stream.cancel("enough", null);
                    say("{\"batches\": " + batches + ", \"rows\": " + rows + ", \"gone\": true}");
                    return;
                }
                if (root.getRowCount() < 100) {
                    say("{\"batch\": " + batch(root) + "}");
                }
            }
        }
        say("{\"batches\": " + batches + ", \"rows\": " + rows + "}");
    }

    static String batch(VectorSchemaRoot root) {
        List<String> rows = new ArrayList<>();
        for (int row = 0; row < root.getRowCount(); row++) {
            List<String> fields = new ArrayList<>();
            for (FieldVector vector : root.getFieldVectors()) {
                Object value = vector.getObject(row);
                fields.add(text(vector.getName()) + ": " + (value instanceof Number ? value : text(value)));
            }
            rows.add("{" + String.join(", ", fields) + "}");
        }
        return "[" + String.join(", ", rows) + "]";
    }

    static String text(Object value) {
        if (value == null) {
            return "null";
        }
        StringBuilder quoted = new StringBuilder("\"");
        for (char sign : value.toString().toCharArray()) {
            quoted.append(sign == '"' || sign == '\\' || sign < ' ' ? String.format("\\u%04x", (int) sign) : sign);
        }
        return quoted.append('"').toString();
    }

    static void say(String line) {
        System.out.println(line);
    }
}
