/*
 * An application that places orders: each order and its event in one transaction, so that both are there or neither.
 *
 * usage: java -cp postgresql.jar Writer.java JDBC_URL COUNT     needs the table that `outboxd schema` prints
 */
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;

public class Writer {
    static void placeOrder(Connection connection, String customer, int amount) throws SQLException {
        // Whoever changes the customer's row holds it until the commit: so the events of a customer have the order of
        // their ids, whatever other writers do.
        try (PreparedStatement change = connection.prepareStatement("UPDATE customer SET orders = orders + 1 WHERE name = ?");
             PreparedStatement event = connection.prepareStatement(
                 "INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES (?, 'order_placed', ?::jsonb)")) {
            change.setString(1, customer);
            change.executeUpdate();
            event.setString(1, customer);
            event.setString(2, String.format("{\"customer\": \"%s\", \"amount\": %d}", customer, amount));
            event.executeUpdate();
            connection.commit();
        } catch (SQLException e) {
            connection.rollback();
            throw e;
        }
    }

    public static void main(String[] args) throws SQLException {
        try (Connection connection = DriverManager.getConnection(args[0])) {
            connection.setAutoCommit(false);
            for (int number = 0; number < Integer.parseInt(args[1]); number++)
                placeOrder(connection, "customer-" + number % 3, 10 + number);
        }
    }
}
