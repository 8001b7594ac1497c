"""on_delivered: delete, in the daemon: what is delivered leaves the table, and nothing else does."""
import json

from rig.outbox import disorder, number
from rig.relay import run_command
from rig.wait import stays, wait_until

DELETE = {"on_delivered": "delete", "poll": "200ms"}


def test_what_is_delivered_leaves_the_table(mock_outbox):
    relay = mock_outbox.start(DELETE)
    mock_outbox.fill(3000, keys=30)
    mock_outbox.wait_states({})
    records = mock_outbox.records(3000)
    assert disorder(records) == [] and sorted(map(number, records)) == list(range(1, 3001))
    wait_until(lambda: relay.metrics().value("outboxd_settled_total", outcome="sent") == 3000, 10, lambda: relay.metrics().page)
    assert relay.metrics().sum("outboxd_settle_fenced_total") == 0
    rows = json.loads(run_command("status", "-c", relay.file, "--json").stdout)["sources"][0]["rows"]
    assert (rows["pending"], rows["in_flight"], rows["failed"]) == (0, 0, 0)
    assert relay.stop() == 0


def test_F034_a_failed_row_stays_and_blocks_its_key(mock_outbox):
    relay = mock_outbox.start(DELETE, kafka={"properties": {"message.max.bytes": "1000"}})
    large, = mock_outbox.insert(1, "K", payload=json.dumps({"n": 0, "text": "x" * 2000}))
    behind, = mock_outbox.insert(1, "K")
    mock_outbox.insert(1, "other")
    mock_outbox.wait_states({"FAILED": 1, "PENDING": 1})
    assert mock_outbox.row(large)["last_error"] is not None
    stays(lambda: mock_outbox.row(behind)["status"] == "PENDING", 1)
    # Mended and retried by hand; then all of the key may go.
    mock_outbox.database.execute("UPDATE event_outbox SET status = 'PENDING', attempts = 0, available_at = now(), payload = '{\"n\": 7}'"
                                 " WHERE id = %s", (large,))
    mock_outbox.database.execute("UPDATE event_outbox SET available_at = now() WHERE id = %s", (behind,))
    mock_outbox.wait_states({})
    assert [number(each) for each in mock_outbox.records(3) if each.key == b"K"] == [7, 0]
    assert relay.metrics().value("outboxd_settled_total", outcome="failed") == 1


def test_a_row_that_must_not_be_deleted_fails_alone(mock_outbox):
    """Another table refers to it: the settle is halved down to that row, and the row says why."""
    relay = mock_outbox.relay(DELETE)
    mock_outbox.fill(40, keys=40)
    mock_outbox.database.execute("CREATE TABLE pointer (event bigint REFERENCES event_outbox (id)); INSERT INTO pointer VALUES (17)")
    relay.start()
    mock_outbox.wait_states({"FAILED": 1})
    assert mock_outbox.row(17)["last_error"] == "settle refused: 23503"
    assert sorted(mock_outbox.numbers(40)) == list(range(1, 41))
    mock_outbox.insert(1, "later")
    mock_outbox.wait_states({"FAILED": 1})
    assert relay.metrics().sum("outboxd_settle_fenced_total") == 0


def test_F009_nothing_is_delivered_that_could_not_be_deleted(mock_outbox):
    """The privilege is looked for before the first claim, and found as soon as it is granted."""
    database = mock_outbox.database
    relay = mock_outbox.relay(DELETE)
    database.execute("DROP ROLE IF EXISTS relay_keeps; CREATE ROLE relay_keeps LOGIN; GRANT SELECT, UPDATE ON event_outbox TO relay_keeps")
    try:
        relay.config["postgres"]["dsn"] = database.dsn(user="relay_keeps")
        relay.write_config()
        mock_outbox.insert(3)
        relay.start(ready=False)
        wait_until(lambda: "DELETE" in relay.get("/readyz")[1], 10, lambda: relay.get("/readyz"))
        stays(lambda: mock_outbox.states() == {"PENDING": 3}, 1)
        assert mock_outbox.records() == []
        database.execute("GRANT DELETE ON event_outbox TO relay_keeps")
        mock_outbox.wait_states({}, deadline=20)
        assert mock_outbox.numbers(3) == [0, 1, 2]
        assert relay.stop() == 0
    finally:
        relay.kill()
        database.execute("DROP OWNED BY relay_keeps; DROP ROLE relay_keeps")
