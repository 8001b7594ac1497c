// Debezium's own PostgreSQL connector and its outbox event router, with their defaults, on the tables public.outbox_*: prints what
// would go to Kafka, a record a line. usage: java EventRouter.java PORT DATABASE ROWS      it ends after so many records
import io.debezium.engine.ChangeEvent;
import io.debezium.engine.DebeziumEngine;
import io.debezium.embedded.Connect;
import java.util.Base64;
import java.util.Map;
import java.util.Properties;
import java.util.StringJoiner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import org.apache.kafka.connect.converters.ByteArrayConverter;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.storage.StringConverter;

public class EventRouter {
    static final Converter TEXT = new StringConverter(), BYTES = new ByteArrayConverter();
    static final SimpleHeaderConverter HEADER = new SimpleHeaderConverter(); // Kafka Connect's own default

    public static void main(String[] args) throws Exception {
        Properties is = new Properties();
        is.putAll(Map.of(
            "name", "outbox", "connector.class", "io.debezium.connector.postgresql.PostgresConnector",
            "database.hostname", "127.0.0.1", "database.port", args[0], "database.dbname", args[1],
            "database.user", "postgres", "database.password", "none", "topic.prefix", "any", "plugin.name", "pgoutput"));
        is.putAll(Map.of(
            "table.include.list", "public.outbox_.*", "publication.autocreate.mode", "filtered", "snapshot.mode", "no_data",
            "offset.storage", "org.apache.kafka.connect.storage.MemoryOffsetBackingStore", "slot.drop.on.stop", "true",
            "transforms", "outbox", "transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter"));
        TEXT.configure(Map.of(), false);
        CountDownLatch left = new CountDownLatch(Integer.parseInt(args[2]));
        DebeziumEngine<?> engine = DebeziumEngine.create(Connect.class).using(is)
            .using((success, message, error) -> {
                if (!success) {
                    System.err.println(message + " " + error);
                    System.exit(1);
                }
            })
            .notifying((ChangeEvent<SourceRecord, SourceRecord> event) -> {
                System.out.println("record " + json(event.value()));
                left.countDown();
            }).build();
        Executors.newSingleThreadExecutor().execute(engine);
        left.await();
        engine.close();
        System.exit(0);
    }

    static String json(SourceRecord record) {
        StringJoiner headers = new StringJoiner(", ", "[", "]");
        for (Header header : record.headers())
            headers.add("[\"" + header.key() + "\", " + base64(HEADER.fromConnectHeader("", header.key(), header.schema(), header.value())) + "]");
        return "{\"topic\": \"" + record.topic() + "\", \"partition\": " + record.kafkaPartition()
            + ", \"timestamp\": " + record.timestamp() + ", \"key\": " + base64(bytes(record.keySchema(), record.key()))
            + ", \"value\": " + base64(bytes(record.valueSchema(), record.value())) + ", \"headers\": " + headers + "}";
    }

    // What its documentation advises: StringConverter, and for a bytea payload a converter that passes bytes on.
    static byte[] bytes(Schema schema, Object value) {
        Converter converter = schema != null && schema.type() == Schema.Type.BYTES ? BYTES : TEXT;
        return converter.fromConnectData("", schema, value);
    }

    static String base64(byte[] bytes) {
        return bytes == null ? "null" : '"' + Base64.getEncoder().encodeToString(bytes) + '"';
    }
}
