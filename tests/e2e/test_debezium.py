"""Preset `debezium` beside Debezium itself: both read the same rows, and the records must be the same, field by field."""
import pytest

from rig import debezium, postgres
from rig.outbox import Outbox, header, psql
from rig.relay import run_command
from rig.wait import wait_until

# As Debezium's documentation has the table; the payload may be of several types, the key of any.
DDL = """CREATE TABLE outbox_{name} (id uuid NOT NULL PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL,
  aggregateid {key}, type varchar(255) NOT NULL, payload {payload})"""
TABLES = {
    "jsonb": ("varchar(255) NOT NULL", "jsonb", [("order-1", '{"b": [1.50, null], "a": "žluť"}'), ("order-1", "null"), ("order-2", '"text"'), ("order-2", None)]),
    "json": ("bigint NOT NULL", "json", [(9223372036854775807, '{"b":1,  "a":2}'), (-1, None)]),
    "text": ("uuid", "text", [("0d3b5f0e-58a5-4dba-9a5b-000000000001", "plain"), ("0d3b5f0e-58a5-4dba-9a5b-000000000001", ""),
                              ("0d3b5f0e-58a5-4dba-9a5b-000000000002", "  "), (None, "no key"), (None, None)]),
    "bytea": ("text NOT NULL", "bytea", [("", bytes(range(256))), ("a key", b""), ("a key", None), ("a key", b"\0")]),
}


@pytest.fixture(scope="module")
def server():
    cluster = postgres.Cluster({**postgres.FOR_TESTS, "wal_level": "logical"})
    try:
        yield cluster.start()
    finally:
        cluster.remove()


@pytest.fixture
def tables(server, broker, make_relay):
    """An outbox with one relay for all tables, each with what `schema --adopt` adds."""
    database = server.create_database()
    outbox = Outbox(database, broker, None, make_relay)
    relay = outbox.relay(schema=False)
    relay.config["sources"] = [{"name": name, "table": f"outbox_{name}", "preset": "debezium", "lease": "10s"} for name in TABLES]
    relay.write_config()
    for name, (key, payload, _) in TABLES.items():
        database.execute(DDL.format(name=name, key=key, payload=payload))
        made = run_command("schema", "--adopt", "-c", relay.file, "--source", name)
        assert made.returncode == 0, made.stderr
        psql(database.dsn(), made.stdout)
    return database, relay


def test_records_are_those_of_debezium(tables, broker, tmp_path):
    (database, relay), count = tables, sum(len(rows) for *_, rows in TABLES.values())
    topics = [broker.create_topic(f"outbox.event.Made-{name}") for name in TABLES]
    router = debezium.EventRouter(database, count, tmp_path / "debezium.log")
    try:
        for name, (_, _, rows) in TABLES.items():
            for key, payload in rows:
                database.execute(f"INSERT INTO outbox_{name} (aggregatetype, aggregateid, type, payload) VALUES (%s, %s, 'Made', %s)",
                                 (f"Made-{name}", key, payload))
        relay.start()
        for name, (*_, rows) in TABLES.items():
            wait_until(lambda: database.states(f"outbox_{name}") == {"SENT": len(rows)}, 20, relay.log)
        routed = {header(record, "id"): record for record in router.records()}
        sent = {header(record, "id"): record for topic in topics for record in broker.read(topic, 1)}
    finally:
        router.remove()
    assert len(routed) == len(sent) == count
    for name in TABLES:
        assert {each[0] for each in database.all(f"SELECT id::text FROM outbox_{name}")} <= set(sent)
    for event, record in routed.items():
        for field in ("topic", "key", "value"):
            assert getattr(sent[event], field) == getattr(record, field), field
        # Besides its routers' headers each connector names itself; a relay does not.
        assert sent[event].headers == [each for each in record.headers if not each[0].startswith("__debezium.context.")]
        assert record.partition is None  # left to the key's hash, here as there
        assert abs(sent[event].timestamp - record.timestamp) < 120_000  # when it was published, not when the row was written
