/*
 * A consumer whose effects happen once, however often a record arrives: it adds up each customer's orders.
 *
 * usage: java -cp 'kafka/*:postgresql.jar' Consumer.java BOOTSTRAP_SERVERS TOPIC GROUP JDBC_URL
 * It needs kafka-clients (with Jackson and slf4j beside it), PostgreSQL's driver, and what `outboxd schema --inbox` prints.
 */
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

public class Consumer {
    static final ObjectMapper JSON = new ObjectMapper();

    /* The record's effect and its entry in the inbox, in one transaction: a repeat finds the entry and has no effect. */
    static void applyOnce(Connection connection, String group, ConsumerRecord<String, String> record) throws Exception {
        String eventId = new String(record.headers().lastHeader("event_id").value(), StandardCharsets.UTF_8);
        JsonNode order = JSON.readTree(record.value());
        try (PreparedStatement entry = connection.prepareStatement(
                 "INSERT INTO inbox (consumer, event_id) VALUES (?, ?) ON CONFLICT DO NOTHING");
             PreparedStatement effect = connection.prepareStatement(
                 "INSERT INTO revenue (consumer, customer, amount) VALUES (?, ?, ?)"
                     + " ON CONFLICT (consumer, customer) DO UPDATE SET amount = revenue.amount + excluded.amount")) {
            entry.setString(1, group);
            entry.setString(2, eventId);
            if (entry.executeUpdate() == 1) {
                effect.setString(1, group);
                effect.setString(2, order.get("customer").asText());
                effect.setLong(3, order.get("amount").asLong());
                effect.executeUpdate();
            }
            connection.commit();
        }
    }

    static Properties settings(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        // Offsets are committed by hand, behind the transactions: a crash between the two brings repeats, not a loss.
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        return settings;
    }

    public static void main(String[] args) throws Exception {
        String group = args[2];
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(settings(args[0], group));
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                main.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }));
        try (consumer; Connection connection = DriverManager.getConnection(args[3])) {
            connection.setAutoCommit(false);
            consumer.subscribe(List.of(args[1]));
            while (true) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500)))
                    applyOnce(connection, group, record);
                consumer.commitSync();
            }
        } catch (WakeupException e) {
            // asked to stop
        }
    }
}
