"""Tables of every layout: each preset on the table its name stands for, and the standard one with columns taken away."""
import json

import pytest

from rig.outbox import disorder, header, number, psql
from rig.relay import run_command
from rig.wait import stays, wait_until

SMALL_LIMIT = {"kafka": {"properties": {"message.max.bytes": "1000"}}}

MESSAGE = """
CREATE TABLE agent_message (id bigserial PRIMARY KEY, task_id text NOT NULL, message_type text NOT NULL, message_content text,
  status varchar(20) NOT NULL DEFAULT 'PENDING', retry_count int NOT NULL DEFAULT 0, max_retry int NOT NULL DEFAULT 5,
  next_retry_time timestamptz, error_message varchar(100), create_time timestamptz NOT NULL DEFAULT now());
"""


@pytest.fixture
def start(outbox, make_relay):
    """start(source, ddl=..., **more): a running relay whose table was made by `schema`, or by `ddl` and `schema --adopt`."""
    def start(source, ddl=None, **more):
        relay = outbox.relay(source, schema=False, **more)
        if ddl:
            psql(outbox.database.dsn(), ddl)
            made = run_command("schema", "--adopt", "-c", relay.file)
            assert made.returncode == 0, made.stderr
            psql(outbox.database.dsn(), made.stdout)
        if not ddl:
            outbox.apply_schema(relay.file)
        return relay.start()
    return start


def wait(outbox, table, states, column="status", deadline=20):
    wait_until(lambda: outbox.database.states(table, column) == states, deadline,
               lambda: f"{states}: {outbox.database.states(table, column)}")


def settle_counts(relay):
    """The relay has counted its rows at least once, whatever the table lacks, and lives."""
    wait_until(lambda: relay.metrics().all("outboxd_rows", state="pending"), 15, lambda: relay.metrics().page)
    assert relay.alive()


def test_preset_message_adopted(outbox, start):
    """As it is: test_presets.py."""
    relay = start({"preset": "message", "topic": outbox.topic}, MESSAGE, **SMALL_LIMIT)
    for n in range(20):
        outbox.database.execute("INSERT INTO agent_message (task_id, message_type, message_content) VALUES (%s, 'm', %s)",
                                (f"t{n % 3}", json.dumps({"n": n})))
    outbox.database.execute("INSERT INTO agent_message (task_id, message_type, message_content) VALUES ('big', 'm', %s)",
                            ("x" * 2000,))
    wait(outbox, "agent_message", {"SUCCESS": 20, "FAILED_PERMANENTLY": 1})
    records = outbox.records(20)
    assert disorder(records) == [] and sorted(map(number, records)) == list(range(20))
    assert [header(each, "event_id") for each in records if each.key == b"t0"] == [str(1 + n) for n in range(0, 20, 3)]
    assert outbox.database.value("SELECT max(retry_count) FROM agent_message") == 1
    assert len(outbox.database.value("SELECT error_message FROM agent_message WHERE status = 'FAILED_PERMANENTLY'")) <= 100
    settle_counts(relay)


LESS = ["settled_at", "lease_owner", "lease_until", "event_id", "last_error"]


@pytest.mark.parametrize("lacks,ordering", [(name, "key") for name in LESS] + [(name, "none") for name in ("key", "settled_at")])
def test_standard_table_without_a_column(outbox, start, lacks, ordering):
    source = {"ordering": ordering, "on_failed": "continue", "columns": {lacks: None}}
    if lacks in ("key", "event_id"):
        source["headers"] = {"n": "{id}"}
    relay = start(source, **SMALL_LIMIT)
    names = {"event_type": "'e'", "payload": "jsonb_build_object('n', n)"}
    if lacks != "key":
        names["aggregate_id"] = "'k' || n % 5"
    outbox.database.execute(f"INSERT INTO event_outbox ({', '.join(names)}) SELECT {', '.join(names.values())}"
                            " FROM generate_series(1, 500) n")
    outbox.database.execute("INSERT INTO event_outbox (event_type, payload) VALUES ('e', to_jsonb(repeat('x', 2000)))")
    wait(outbox, "event_outbox", {"SENT": 500, "FAILED": 1})
    records = outbox.records(500)
    assert sorted(map(number, records)) == list(range(1, 501))
    if ordering == "key":
        assert disorder(records) == []
    settle_counts(relay)
    assert relay.stop() == 0


@pytest.mark.parametrize("on_delivered", ["mark", "delete"])
def test_partitioned_table(outbox, start, on_delivered):
    relay = outbox.relay({"on_delivered": on_delivered}, schema=False)
    made = run_command("schema", "-c", relay.file)
    assert made.returncode == 0, made.stderr
    # The same columns, in a table that is partitioned by hash of the key.
    psql(outbox.database.dsn(), made.stdout)
    psql(outbox.database.dsn(), """
        ALTER TABLE event_outbox RENAME TO model;
        CREATE TABLE event_outbox (LIKE model INCLUDING DEFAULTS INCLUDING CONSTRAINTS) PARTITION BY HASH (aggregate_id);
        CREATE TABLE part0 PARTITION OF event_outbox FOR VALUES WITH (MODULUS 2, REMAINDER 0);
        CREATE TABLE part1 PARTITION OF event_outbox FOR VALUES WITH (MODULUS 2, REMAINDER 1);
        CREATE SEQUENCE ids;
        ALTER TABLE event_outbox ALTER id SET DEFAULT nextval('ids');
        ALTER TABLE event_outbox ADD UNIQUE (id, aggregate_id);
        CREATE INDEX ON event_outbox (available_at, id) WHERE settled_at IS NULL;
        CREATE INDEX ON event_outbox (aggregate_id, id) WHERE settled_at IS NULL;
        DROP TABLE model;
    """)
    relay.start()
    outbox.fill(2000, keys=20)
    outbox.wait_delivered(2000, on_delivered)
    records = outbox.records(2000)
    assert disorder(records) == [] and sorted(map(number, records)) == list(range(1, 2001))
    settle_counts(relay)


def test_several_sources_in_one_process(outbox, broker):
    """Two tables, two topics, one with a fault: the other does not notice."""
    second = broker.create_topic()
    relay = outbox.relay(schema=False)
    relay.config["sources"].append({**relay.config["sources"][0], "name": "second", "table": "second_outbox", "topic": second})
    relay.write_config()
    for name in ("orders", "second"):
        made = run_command("schema", "-c", relay.file, "--source", name)
        assert made.returncode == 0, made.stderr
        psql(outbox.database.dsn(), made.stdout)
    relay.start()
    outbox.fill(100, keys=10)
    outbox.database.execute("INSERT INTO second_outbox (event_type, payload) SELECT 'e', '{}' FROM generate_series(1, 50)")
    outbox.wait_sent(100)
    wait(outbox, "second_outbox", {"SENT": 50})
    assert (broker.count(outbox.topic), broker.count(second)) == (100, 50)
    outbox.database.execute("ALTER TABLE second_outbox RENAME TO elsewhere")
    wait_until(lambda: "second" in relay.get("/readyz")[1], 20, lambda: relay.get("/readyz"))
    outbox.fill(100, keys=10, first=101)
    outbox.wait_sent(200, deadline=5)
    outbox.database.execute("ALTER TABLE elsewhere RENAME TO second_outbox")
    outbox.database.execute("INSERT INTO second_outbox (event_type, payload) VALUES ('e', '{}')")
    wait(outbox, "second_outbox", {"SENT": 51}, deadline=25)
    stays(relay.ready, 1)
