"""Dead letters: what is given up is on the dead letter topic before it is failed, whole or with what fits; a topic that refuses
them is told, and nothing is lost or sent again."""
import json
import re

from rig.outbox import header
from rig.relay import run_command
from rig.wait import stays, wait_until

OURS = ("outboxd-source", "outboxd-topic", "outboxd-id", "outboxd-error", "outboxd-attempts", "outboxd-failed-at")
OMITTED = ("outboxd-payload", "outboxd-key", "outboxd-headers")
SMALL = {"kafka": {"properties": {"message.max.bytes": "3000"}}}
SOURCE = {"poll": "200ms", "on_failed": "continue", "columns": {"partition": "part", "topic": "own_topic"}}
LAST = "status = 'SENDING', lease_owner = 'nobody', lease_until = now() - interval '1 s', attempts = %s"


def letters(outbox, topic, count):
    """{id: dead letter}; each row has one."""
    found = outbox.broker.read(topic, count)
    by_id = {int(header(each, "outboxd-id")): each for each in found}
    assert len(by_id) == len(found) == count, [header(each, "outboxd-id") for each in found]
    return by_id


def omitted(letter):
    return {name for name in OMITTED if header(letter, name) == "omitted"}


def test_F044_F045_dead_letters(outbox, broker):
    """Every kind of failure, among good rows of the same key."""
    dead = broker.create_topic()
    compact = broker.create_topic(cleanup_policy="compact")
    relay = outbox.relay({**SOURCE, "dead_letter_topic": dead}, **SMALL)

    def add(**columns):
        outbox.insert(2, "k")
        return outbox.insert(1, columns.pop("key", "k"), columns.pop("payload", '{"n": -1}'), **columns)[0]

    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    rows = {
        "name": add(own_topic="no name!", headers=json.dumps({"traceparent": trace, "tracestate": "X", "outboxd-id": "7", "n": 1})),
        "headers": add(headers="[1]"),
        "partition": add(part=99),
        "large": add(payload=json.dumps({"n": -1, "text": "x" * 4000}), headers='{"a": "b"}'),
        "huge": add(payload=json.dumps({"n": -1}), headers=json.dumps({"a": "x" * 4000})),
        "keyless": add(own_topic=compact, key=None),
        "tombstone": add(payload="null", own_topic="?"),
        "expired": add(), "died": add(), "lost": add(), "used": add(),
    }
    outbox.database.execute("UPDATE event_outbox SET payload = NULL WHERE id = %s", (rows["tombstone"],))
    outbox.database.execute(f"UPDATE event_outbox SET {LAST} WHERE id = %s", (10, rows["expired"]))
    outbox.database.execute(f"UPDATE event_outbox SET {LAST}, last_error = 'before' WHERE id = %s", (13, rows["died"]))
    outbox.database.execute(f"UPDATE event_outbox SET {LAST}, last_error = 'before' WHERE id = %s", (16, rows["lost"]))
    outbox.database.execute("UPDATE event_outbox SET attempts = 10, last_error = 'before' WHERE id = %s", (rows["used"],))
    relay.start()
    outbox.wait_states({"SENT": 2 * len(rows), "FAILED": len(rows)})

    found = letters(outbox, dead, len(rows) - 1)
    assert rows["lost"] not in found  # whoever had it for its dead letter was lost with it six times
    assert outbox.row(rows["lost"])["last_error"].startswith("before; no dead letter")
    errors = {"name": "INVALID_RECORD: invalid topic name", "headers": "INVALID_RECORD: the headers", "partition": "_UNKNOWN_PARTITION: ",
              "large": "MSG_SIZE_TOO_LARGE: ", "huge": "MSG_SIZE_TOO_LARGE: ", "keyless": "INVALID_RECORD: ",
              "tombstone": "INVALID_RECORD: invalid topic name", "expired": "lease expired, attempt 10 of 10", "died": "before",
              "used": "before"}
    left = {"headers": {"outboxd-headers"}, "large": {"outboxd-payload"}, "huge": set(OMITTED), "died": {"outboxd-payload"}}
    for kind, error in errors.items():
        letter, row = found[rows[kind]], outbox.row(rows[kind])
        assert header(letter, "outboxd-error") == row["last_error"] and row["last_error"].startswith(error), kind
        assert omitted(letter) == left.get(kind, set()), kind
        assert header(letter, "outboxd-attempts") == ("10" if kind in ("expired", "died", "used") else "1"), kind
        assert header(letter, "outboxd-source") == "orders" and header(letter, "outboxd-topic") == (row["own_topic"] or outbox.topic)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", header(letter, "outboxd-failed-at"))
        bare = "outboxd-headers" in left.get(kind, ()) and "outboxd-key" in left[kind]
        assert letter.key == (None if bare or kind == "keyless" else b"k"), kind
        assert header(letter, "event_id") == (None if bare else row["event_id"]), kind
        assert letter.value == (None if "outboxd-payload" in left.get(kind, ()) or kind == "tombstone" else b'{"n": -1}'), kind
    assert header(found[rows["name"]], "traceparent") == trace and header(found[rows["name"]], "n") == "1"
    assert header(found[rows["name"]], "tracestate") is None
    assert outbox.database.value("SELECT count(*) FROM event_outbox WHERE settled_at IS NULL AND status = 'FAILED'") == len(rows)
    assert outbox.numbers(2 * len(rows)) == [0, 1] * len(rows)  # and no dead row among them
    metrics = relay.metrics()
    assert metrics.value("outboxd_dead_letters_total") == len(rows) - 1
    assert metrics.sum("outboxd_failed_total") == len(rows)
    assert len(relay.events("row_failed")) >= 1 and relay.events("dead_letter_refused") == []


def test_a_dead_letter_topic_that_refuses_is_told_and_waited_for(outbox, broker):
    """Its rows are not failed, and what follows them waits, until somebody makes the topic. Then each goes there once, and not again
    to its own; a failed row blocks its key as ever, until it is retried."""
    dead = f"{outbox.topic}-dead"
    relay = outbox.relay({"poll": "200ms", "dead_letter_topic": dead}, **SMALL)
    bad = outbox.insert(5, lambda n: f"k{n}", '{"n": -1, "text": "%s"}' % ("x" * 4000))
    outbox.insert(5, lambda n: f"k{n}")
    relay.start(ready=False)
    refused = relay.wait_event("dead_letter_refused")
    assert refused["level"] == "error" and refused["topic"] == dead and "UNKNOWN_TOPIC" in refused["error"]
    wait_until(lambda: dead in relay.get("/readyz")[1], 10, lambda: relay.get("/readyz"))
    stays(lambda: set(outbox.states()) <= {"PENDING", "SENDING"}, 2)
    outbox.wait_states({"PENDING": 10})
    waiting = outbox.row(bad[0])
    assert waiting["attempts"] == 10 and waiting["last_error"].startswith("MSG_SIZE_TOO_LARGE")
    metrics = relay.metrics()
    assert metrics.sum("outboxd_dead_letters_refused_total") >= 1 and metrics.sum("outboxd_failed_total") == 0

    broker.create_topic(dead)
    outbox.wait_states({"FAILED": 5, "PENDING": 5}, deadline=60)
    found = letters(outbox, dead, 5)
    assert set(found) == set(bad)
    assert {header(each, "outboxd-error") for each in found.values()} == {waiting["last_error"]}
    assert outbox.records() == []
    wait_until(lambda: relay.metrics().value("outboxd_blocked_keys") == 5, 15, lambda: relay.metrics().page)
    outbox.database.execute("UPDATE event_outbox SET payload = '{\"n\": 7}' WHERE id = ANY (%s)", (bad,))
    assert run_command("retry", "-c", relay.file, "--all").returncode == 0
    outbox.wait_sent(10)
    assert sorted(outbox.numbers(10)) == [0, 1, 2, 3, 4, 7, 7, 7, 7, 7]
    assert broker.count(dead) == 5
