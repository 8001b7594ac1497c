"""Behind a real PgBouncer in transaction mode: nothing of a request may outlive its transaction."""
import psycopg2

from rig.wait import wait_until


def test_F059_behind_a_transaction_pooler(mock_outbox, pooler):
    rows, database = 2000, mock_outbox.database
    mock_outbox.relay(name="direct")  # makes the table: a script is no transaction
    relay = mock_outbox.relay({"poll": "200ms"}, postgres={"dsn": database.dsn(port=pooler)})
    mock_outbox.fill(rows, 100)
    relay.start()
    wait_until(lambda: mock_outbox.states() == {"SENT": rows}, 30, mock_outbox.states)
    relay.wait_event("notify_unavailable", 20)
    assert relay.metrics().sum("outboxd_notify_active") == 0
    # The pooler's sessions, as the next client gets them.
    connection = psycopg2.connect(database.dsn(port=pooler))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), current_setting('enable_sort'), current_setting('statement_timeout'),"
                       " current_setting('plan_cache_mode') FROM pg_prepared_statements")
        assert cursor.fetchone() == (0, "on", "0", "auto")
    connection.close()
    assert relay.stop() == 0


def test_F059_F067_three_relays_and_two_server_sessions(mock_outbox, pooler):
    """One relay is killed; the others take its rows over. Nobody logs an error, and no lock outlives a transaction."""
    rows, database = 1000, mock_outbox.database
    mock_outbox.relay(name="direct")
    relays = [mock_outbox.relay({"poll": "100ms", "batch": 20, "lease": "7s"}, kafka={"message_timeout": "2s"},
                                postgres={"dsn": database.dsn(port=pooler)}).start() for _ in range(3)]
    mock_outbox.fill(rows // 2, 100)
    wait_until(lambda: mock_outbox.states().get("SENDING"), 20, mock_outbox.states)
    relays[0].kill()
    mock_outbox.fill(rows // 2, 100, first=rows // 2 + 1)

    def all_sent():
        assert database.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        return mock_outbox.states() == {"SENT": rows}

    wait_until(all_sent, 30, mock_outbox.states)
    for relay in relays[1:]:
        assert len(relay.events("notify_unavailable")) <= 1 and relay.events(level="error") == [], relay.log()
        assert relay.metrics().sum("outboxd_notify_active") == 0 and relay.stop() == 0
    assert relays[0].events(level="error") == []
