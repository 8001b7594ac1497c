"""Each preset on the table its name stands for, as people write it: with a history, two instances, and rows that fail."""
import json

import pytest

from rig.outbox import disorder, header, number, psql
from rig.relay import run_command
from rig.wait import wait_until

HISTORY = 100_000
ROWS, KEYS = 1000, 20
SMALL_LIMIT = {"kafka": {"properties": {"message.max.bytes": "1000"}}}


class Preset:
    """A table, how an application writes it, and what its columns are called.

    before: values of a finished row by column; row: of a new one, as SQL over n, {key} and {topic}. adopted: the table has what
    `schema --adopt` prints."""

    def __init__(self, ddl, before, row, key, sent, failed, error, attempts, headers, adopted=False, topic="{}"):
        self.ddl, self.before, self.row, self.key, self.sent, self.failed, self.error = ddl, before, row, key, sent, failed, error
        self.attempts, self.headers, self.adopted, self.topic = attempts, headers, adopted, topic
        self.table = ddl.split()[2]

        self.payload = next(name for name, text in row.items() if "payload" in text)

    def insert(self, database, count, key, topic, payload="jsonb_build_object('n', n)", first=0, **more):
        values = {name: text.format(key=key, topic=f"'{topic}'", payload=payload) for name, text in {**self.row, **more}.items()}
        database.execute(f"INSERT INTO {self.table} ({', '.join(values)}) SELECT {', '.join(values.values())}"
                         f" FROM generate_series({first}, {first + count - 1}) n")


PRESETS = {
    "outboxd": Preset("""
        CREATE TABLE event_outbox (
          id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
          event_id     uuid NOT NULL DEFAULT gen_random_uuid(),
          aggregate_id varchar(64) NOT NULL,
          event_type   varchar(64) NOT NULL,
          payload      jsonb NOT NULL,
          status       varchar(16) NOT NULL DEFAULT 'PENDING',
          available_at timestamptz NOT NULL DEFAULT now(),
          attempts     int NOT NULL DEFAULT 0,
          last_error   text,
          created_at   timestamptz NOT NULL DEFAULT now()
        )""", {"status": "'SENT'", "attempts": "1"}, {"aggregate_id": "{key}", "event_type": "{topic}", "payload": "{payload}"},
        "aggregate_id", "SENT", "FAILED", "last_error", "attempts", {"event_id": "event_id", "event_type": "event_type",
                                                                    "created_at": "created_at"}),
    "message": Preset("""
        CREATE TABLE agent_message (
          id              bigserial PRIMARY KEY,
          task_id         bigint NOT NULL,
          message_type    varchar(50) NOT NULL,
          message_content text,
          status          varchar(20) NOT NULL DEFAULT 'PENDING',
          retry_count     int NOT NULL DEFAULT 0,
          max_retry       int NOT NULL DEFAULT 5,
          next_retry_time timestamp,
          error_message   varchar(200),
          create_time     timestamp NOT NULL DEFAULT now()
        )""", {"status": "'SUCCESS'", "retry_count": "1"},
        {"task_id": "{key}", "message_type": "{topic}", "message_content": "({payload})::text"},
        "task_id", "SUCCESS", "FAILED_PERMANENTLY", "error_message", "retry_count", {"event_id": "id"}),
    "debezium": Preset("""
        CREATE TABLE outbox (
          id            uuid NOT NULL PRIMARY KEY,
          aggregatetype varchar(255) NOT NULL,
          aggregateid   varchar(255) NOT NULL,
          type          varchar(255) NOT NULL,
          payload       jsonb
        )""", {}, {"id": "gen_random_uuid()", "aggregatetype": "{topic}", "aggregateid": "{key}", "type": "'OrderChanged'",
                   "payload": "{payload}"},
        "aggregateid", "SENT", "FAILED", "last_error", "attempts", {"id": "id"}, adopted=True, topic="outbox.event.{}"),
}


def relay_for(outbox, name, **more):
    """A relay with nothing but the preset's name in its configuration, and short times."""
    relay = outbox.relay({"preset": name, **more}, schema=False, **SMALL_LIMIT)
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
    database.execute(preset.ddl)
    preset.insert(database, HISTORY, f"n % {KEYS}", outbox.topic, **preset.before)
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
