"""What a row becomes: bytes, keys, headers, partitions, names."""
import hashlib
import json
import os
import re
import time

import confluent_kafka
import pytest

from rig.outbox import header
from rig.relay import run_command
from rig.wait import stays, wait_until


@pytest.fixture
def compacted(broker):
    return broker.create_topic(cleanup_policy="compact", segment_ms=100, min_cleanable_dirty_ratio="0.01",
                               delete_retention_ms=100, max_compaction_lag_ms=200)


def change_payload_type(outbox, to):
    outbox.database.execute(f"ALTER TABLE event_outbox ALTER COLUMN payload TYPE {to} USING NULL")


@pytest.mark.parametrize("column", ["bytea", "text"])
def test_F001_missing_payload_is_a_tombstone_and_an_empty_one_is_not(outbox, column):
    relay = outbox.relay()
    change_payload_type(outbox, column)
    outbox.database.execute("INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES ('a', 'e', NULL), ('b', 'e', '')")
    relay.start()
    outbox.wait_sent(2)
    assert {each.key: each.value for each in outbox.records(2)} == {b"a": None, b"b": b""}


def test_F001_json_null_is_four_bytes(outbox):
    outbox.relay()
    outbox.insert(1, "a", payload="null")
    outbox.start()
    outbox.wait_sent(1)
    assert outbox.values(1) == [b"null"]


def test_F001_tombstone_drops_the_key_of_a_compacted_topic(outbox, compacted):
    outbox.topic = compacted
    outbox.relay()
    outbox.insert(1, "gone")
    outbox.insert(1, "stays")
    outbox.database.execute("INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES ('gone', 'e', NULL)")
    outbox.start()
    outbox.wait_sent(3)

    def dropped():
        outbox.insert(1, "roll")  # the last segment is never compacted: each record may begin another
        return b"gone" not in {each.key for each in outbox.records()}

    wait_until(dropped, 60, "the key to go", every=1)
    assert b"stays" in {each.key for each in outbox.records()}


@pytest.mark.parametrize("column,stored,sent", [
    ("json", '{"a":1}', b'{"a":1}'),
    ("jsonb", '{"a":1}', b'{"a": 1}'),
    ("text", '{"a":1}', b'{"a":1}'),
    ("text", "žluťoučký 🐴", "žluťoučký 🐴".encode()),
])
def test_F002_text_arrives_as_stored(outbox, column, stored, sent):
    outbox.relay()
    change_payload_type(outbox, column)
    outbox.insert(1, payload=stored)
    outbox.start()
    outbox.wait_sent(1)
    assert outbox.values(1) == [sent]


def test_F002_binary_arrives_as_stored(outbox):
    outbox.relay()
    change_payload_type(outbox, "bytea")
    payloads = [bytes(range(256)), b"\0", os.urandom(900_000), b"\\x41"]
    outbox.insert(len(payloads), payload=lambda n: payloads[n])
    outbox.start()
    outbox.wait_sent(len(payloads))
    assert [hashlib.sha256(value).digest() for value in outbox.values(4)] == [hashlib.sha256(each).digest() for each in payloads]


def test_F005_ids_beyond_32_bits(outbox):
    relay = outbox.relay({"headers": {"row": "{id}"}})
    ids = [3000000000, 9223372036854775807]
    for number in ids:
        outbox.database.execute("INSERT INTO event_outbox (id, aggregate_id, event_type) OVERRIDING SYSTEM VALUE"
                                " VALUES (%s, 'k', 'e')", (number,))
    relay.start()
    outbox.wait_sent(2)
    assert [header(each, "row") for each in outbox.records(2)] == [str(number) for number in ids]


def test_F005_the_log_names_a_large_id_exactly(outbox):
    relay = outbox.relay(kafka={"properties": {"message.max.bytes": "1000"}})
    outbox.database.execute("INSERT INTO event_outbox (id, event_type, payload) OVERRIDING SYSTEM VALUE"
                            " VALUES (9223372036854775806, 'e', to_jsonb(repeat('x', 2000)))")
    relay.start()
    outbox.wait_states({"FAILED": 1})
    assert relay.wait_event("row_failed")["id"] == "9223372036854775806"


MIXED = {
    "table": '"Billing"."Out Box"',
    "columns": {"id": "RowId", "event_id": None, "key": "Key.Of", "type": "Kind", "payload": "Pay Load", "headers": None,
                "status": "State", "attempts": "Attempts", "available_at": "Due", "lease_until": "Lease Until",
                "lease_owner": "LeaseOwner", "last_error": "Last\"Error", "created_at": "Created", "settled_at": "Settled"},
    "headers": {"row": "{RowId}"},
}


def test_F006_mixed_case_spaces_and_schemas(outbox):
    outbox.database.execute('CREATE SCHEMA "Billing"')
    relay = outbox.relay(MIXED)  # makes the table through `schema`, with these names
    assert outbox.database.value("SELECT count(*) FROM information_schema.columns WHERE table_schema = 'Billing'"
                                 " AND table_name = 'Out Box' AND column_name = 'Key.Of'") == 1
    for n in range(3):
        outbox.database.execute('INSERT INTO "Billing"."Out Box" ("Key.Of", "Kind", "Pay Load") VALUES (%s, %s, %s)',
                                ("k", "e", json.dumps({"n": n})))
    relay.start()
    wait_until(lambda: outbox.database.states('"Billing"."Out Box"', '"State"') == {"SENT": 3}, 20, relay.log)
    assert outbox.numbers(3) == [0, 1, 2]
    assert [header(each, "row") for each in outbox.records(3)] == ["1", "2", "3"]
    status = run_command("status", "-c", relay.file)
    assert status.returncode == 0, status.stderr


def test_F006_a_dot_inside_quotes_is_a_character(outbox):
    relay = outbox.relay({"table": '"a.b"'})
    outbox.database.execute("INSERT INTO \"a.b\" (event_type, payload) VALUES ('e', '{}')")
    relay.start()
    wait_until(lambda: outbox.database.states('"a.b"') == {"SENT": 1}, 20, relay.log)


def test_F010_null_and_infinite_values_in_control_columns(outbox):
    relay = outbox.relay()
    for column in ("available_at", "attempts", "created_at"):
        outbox.database.execute(f"ALTER TABLE event_outbox ALTER {column} DROP NOT NULL")
    for (constraint,) in outbox.database.all("SELECT conname FROM pg_constraint WHERE conrelid = 'event_outbox'::regclass"
                                             " AND contype = 'c'"):
        outbox.database.execute(f'ALTER TABLE event_outbox DROP CONSTRAINT "{constraint}"')
    outbox.insert(1, "null due", available_at=None)
    outbox.insert(1, "past", available_at="-infinity")
    outbox.insert(1, "null attempts", attempts=None)
    outbox.insert(1, "null created", created_at=None)
    parked, small, spaced = (outbox.insert(1, key, **more)[0] for key, more in [
        ("parked", {"available_at": "infinity"}), ("small", {"status": "pending"}), ("spaced", {"status": " PENDING"})])
    before = [outbox.row(number) for number in (parked, small, spaced)]
    relay.start()
    outbox.wait_states({"SENT": 4, "PENDING": 1, "pending": 1, " PENDING": 1})
    assert {each.key for each in outbox.records(4)} == {b"null due", b"past", b"null attempts", b"null created"}
    wait_until(lambda: relay.metrics().value("outboxd_rows", state="unknown") == 2, 40, lambda: relay.metrics().page)
    page = relay.metrics()
    assert page.value("outboxd_rows", state="parked") == 1
    assert page.value("outboxd_oldest_pending_age_seconds") < 1e9
    assert [outbox.row(number) for number in (parked, small, spaced)] == before


@pytest.mark.parametrize("partitions,expected", [(15, 10), (32, 26)])
def test_F039_same_partition_as_the_java_client(outbox, partitions, expected):
    """TT0124 of 15 partitions is 10, and the uuid of 32 is 26, in the Java client."""
    outbox.topic = outbox.broker.create_topic(partitions=partitions)
    key = {15: "TT0124", 32: "fd7af248-ce5c-46a5-93d7-1c0c9005b99d"}[partitions]
    outbox.relay()
    outbox.insert(1, key)
    outbox.start()
    outbox.wait_sent(1)
    assert [each.partition for each in outbox.records(1)] == [expected]


def filled(n, size):
    """A JSON string of so many bytes."""
    return json.dumps(str(n).ljust(size - 2, "."))


def test_F044_rows_around_the_size_limit(outbox):
    """Each is sent, or failed at its first attempt with both numbers; and the limit is exactly where the numbers say. Without the usual
    headers: the text of a time is now and then shorter."""
    relay = outbox.start({"ordering": "none", "headers": {}})
    sizes = [999_000, 999_990, 1_000_000, 600_000]
    ids = outbox.insert(4, payload=lambda n: filled(n, sizes[n]),
                        headers=lambda n: json.dumps({"h": "h" * 500_000} if n == 3 else {}))
    outbox.wait_states({"SENT": 1, "FAILED": 3})
    assert outbox.row(ids[0])["status"] == "SENT"
    told = [re.search(r"the record has (\d+) bytes, message.max.bytes is 1000000", outbox.row(each)["last_error"]) for each in ids[1:]]
    bytes_of = [int(found[1]) for found in told]
    framing = bytes_of[0] - sizes[1]
    assert bytes_of[1] == sizes[2] + framing and bytes_of[2] > 1_100_000
    ids += outbox.insert(2, payload=lambda n: filled(n, 1_000_000 - framing + n), headers="{}")
    outbox.wait_states({"SENT": 2, "FAILED": 4})
    assert [outbox.row(each)["status"] for each in ids[4:]] == ["SENT", "FAILED"]
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1
    assert sorted(map(len, outbox.values(2))) == [999_000, 1_000_000 - framing]
    assert relay.metrics().value("outboxd_failed_total", error="MSG_SIZE_TOO_LARGE") == 4


def test_headers_and_time_of_a_record(outbox):
    relay = outbox.relay()
    outbox.insert(1, headers=json.dumps({"trace": "abc", "number": 7, "none": None, "event_type": "wins"}),
                  created_at="2020-01-01 00:00:00+00")
    relay.start()
    outbox.wait_sent(1)
    (record,) = outbox.records(1)
    assert header(record, "event_id") == outbox.database.value("SELECT event_id::text FROM event_outbox")
    assert header(record, "event_type") == "wins" and header(record, "trace") == "abc" and header(record, "number") == "7"
    assert header(record, "none") is None and header(record, "created_at").startswith("2020-01-01")
    age = outbox.database.value("SELECT extract(epoch FROM now()) * 1000")
    assert abs(float(age) - record.timestamp) < 60_000


def test_F003_an_old_row_is_not_born_expired(outbox, broker):
    """A record as old as the row is gone as soon as the broker looks; the relay's, which came before it, is not."""
    week = {"retention_ms": 7 * 86_400_000}
    outbox.topic, expired = broker.create_topic(**week), broker.create_topic(**week)
    outbox.relay()
    outbox.insert(1, created_at="2020-01-01 00:00:00+00")
    outbox.start()
    outbox.wait_sent(1)
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce(expired, b"old", timestamp=int((time.time() - 30 * 86400) * 1000))
    assert producer.flush(20) == 0
    wait_until(lambda: broker.count(expired) == 0, 30, "the broker's retention check", every=0.2)
    (record,) = outbox.records(1)
    assert header(record, "created_at").startswith("2020-01-01")


def test_a_rolled_back_row_never_arrives(outbox):
    relay = outbox.relay()
    connection = outbox.database.connect(autocommit=False)
    connection.cursor().execute("INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES ('k', 'e', '{\"n\": 1}')")
    relay.start()
    stays(lambda: outbox.broker.count(outbox.topic) == 0, 1.5)
    connection.rollback()
    outbox.insert(1, payload='{"n": 2}')
    outbox.wait_sent(1)
    assert outbox.numbers(1) == [2]
