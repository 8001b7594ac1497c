"""Each preset on the table its name stands for, as people write it: with a history, two instances, and rows that fail."""
import dataclasses
import json

import pytest

from rig.outbox import disorder, header, number, psql
from rig.relay import run_command
from rig.tables import statement
from rig.wait import wait_until

HISTORY = 100_000
ROWS, KEYS = 1000, 20
SMALL_LIMIT = {"kafka": {"properties": {"message.max.bytes": "1000"}}}


@dataclasses.dataclass
class Preset:
    """A table as docs/tables.md has it, how an application writes it, and what its columns are called."""
    table: str
    row: dict  # columns of a new row as SQL over n, {key}, {topic} and {payload}
    finished: dict  # what differs in one of the history
    key: str
    payload: str
    sent: str
    failed: str
    error: str
    attempts: str
    headers: dict  # the column that each header comes from
    adopted: bool = False  # the table has what `schema --adopt` prints
    topic: str = "{}"

    def insert(self, database, count, key, topic, payload="jsonb_build_object('n', n)", first=0, **more):
        values = {name: text.format(key=key, topic=f"'{topic}'", payload=payload) for name, text in {**self.row, **more}.items()}
        database.execute(f"INSERT INTO {self.table} ({', '.join(values)}) SELECT {', '.join(values.values())}"
                         f" FROM generate_series({first}, {first + count - 1}) n")


PRESETS = {
    "outboxd": Preset(
        "event_outbox", {"aggregate_id": "{key}", "event_type": "{topic}", "payload": "{payload}"}, {"status": "'SENT'", "attempts": "1"},
        key="aggregate_id", payload="payload", sent="SENT", failed="FAILED", error="last_error", attempts="attempts",
        headers={"event_id": "event_id", "event_type": "event_type", "created_at": "created_at"}),
    "message": Preset(
        "agent_message", {"task_id": "{key}", "message_type": "{topic}", "message_content": "({payload})::text"},
        {"status": "'SUCCESS'", "retry_count": "1"}, key="task_id", payload="message_content", sent="SUCCESS",
        failed="FAILED_PERMANENTLY", error="error_message", attempts="retry_count", headers={"event_id": "id"}),
    "debezium": Preset(
        "outbox", {"id": "gen_random_uuid()", "aggregatetype": "{topic}", "aggregateid": "{key}", "type": "'Made'", "payload": "{payload}"},
        {}, key="aggregateid", payload="payload", sent="SENT", failed="FAILED", error="last_error", attempts="attempts",
        headers={"id": "id"}, adopted=True, topic="outbox.event.{}"),
}


def relay_for(outbox, name):
    """A relay with nothing but the preset's name in its configuration, and short times."""
    relay = outbox.relay({"preset": name}, schema=False, **SMALL_LIMIT)
    del relay.config["sources"][0]["topic"]
    relay.write_config()
    return relay


def command(*args):
    done = run_command(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def states(outbox, preset, written):
    """Of the rows that are no history."""
    return dict(outbox.database.all(f"SELECT status::text, count(*)::int FROM {preset.table} t WHERE {written} GROUP BY 1"))


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_on_its_plain_table(outbox, broker, name):
    preset, database = PRESETS[name], outbox.database
    topic = preset.topic.format(outbox.topic)
    if topic != outbox.topic:
        broker.create_topic(topic)
    database.execute(statement(f"CREATE TABLE {preset.table} ("))
    preset.insert(database, HISTORY, f"n % {KEYS}", outbox.topic, **preset.finished)
    relays = [relay_for(outbox, name) for _ in range(2)]
    if preset.adopted:
        psql(database.dsn(), command("schema", "--adopt", "-c", relays[0].file))
    database.execute(f"CREATE TABLE history AS SELECT id, md5(t::text) AS was FROM {preset.table} t")
    database.execute("CREATE UNIQUE INDEX ON history (id)")
    for relay in relays:
        relay.start()

    def wait(expected):
        written = "NOT EXISTS (SELECT FROM history h WHERE h.id = t.id)"
        wait_until(lambda: states(outbox, preset, written) == expected, 40, lambda: states(outbox, preset, written), every=0.2)

    for first in range(0, ROWS, 100):
        preset.insert(database, 100, f"n % {KEYS}", outbox.topic, first=first)
    # One row of this key is too large; the one behind it waits for a decision.
    preset.insert(database, 3, "77", outbox.topic, first=ROWS,
                  payload=f"jsonb_build_object('n', n, 'more', repeat('x', CASE n WHEN {ROWS + 1} THEN 2000 ELSE 1 END))")
    wait({preset.sent: ROWS + 1, preset.failed: 1, "PENDING": 1})
    error, attempts = database.one(f"SELECT {preset.error}, {preset.attempts} FROM {preset.table} WHERE status = %s", (preset.failed,))
    assert "MSG_SIZE_TOO_LARGE" in error and attempts == 1
    command("skip", "-c", relays[0].file, "--key", "77", "--reason", "too large")
    wait({preset.sent: ROWS + 2, preset.failed: 1})
    assert database.value(f"SELECT {preset.error} FROM {preset.table} WHERE status = %s", (preset.failed,)) == "skipped: too large"

    records = broker.read(topic, ROWS + 2)
    assert sorted(map(number, records)) == [*range(ROWS + 1), ROWS + 2] and disorder(records) == []
    sent = {json.loads(row["payload"])["n"]: row for (row,) in database.all(
        f"SELECT to_jsonb(t) || jsonb_build_object('payload', {preset.payload}::text) FROM {preset.table} t"
        f" WHERE status = '{preset.sent}' AND NOT EXISTS (SELECT FROM history h WHERE h.id = t.id)")}
    for record in records:
        row = sent[number(record)]
        assert record.key.decode() == str(row[preset.key])
        assert {key for key, _ in record.headers} == set(preset.headers)
        assert all(str(row[column])[:10] == header(record, key)[:10] for key, column in preset.headers.items())
        assert row[preset.attempts] == 1
    # Nothing of the history was touched, nor sent again.
    assert database.value(f"SELECT count(*) FROM {preset.table} t JOIN history h USING (id) WHERE md5(t::text) = h.was") == HISTORY
    assert sum(relay.metrics().sum("outboxd_delivered_total") for relay in relays) == ROWS + 2
    assert [relay.stop() for relay in relays] == [0, 0]
