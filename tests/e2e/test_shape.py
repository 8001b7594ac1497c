"""What a row says of its record: topic, partition, timestamp, headers; and the record as a CloudEvent."""
import datetime
import json
import time

from rig.outbox import header

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_columns_of_the_record(outbox, broker):
    """NULL falls back; what Kafka cannot have is the row's fault."""
    other = broker.create_topic(partitions=3)
    relay = outbox.relay({"poll": "200ms", "on_failed": "continue", "headers": {"row": "{id}", "kind": "<{event_type}>", "gone": "{note}"},
                          "columns": {"topic": "own_topic", "partition": "part", "timestamp": "at"}})
    long_ago = datetime.datetime(2001, 2, 3, 4, 5, 6, 789000, tzinfo=datetime.timezone.utc)
    good = [
        ({}, {"topic": outbox.topic}),
        ({"own_topic": other, "part": 2}, {"topic": other, "partition": 2}),
        ({"at": long_ago}, {"timestamp": int(long_ago.timestamp() * 1000)}),
        ({"at": "infinity"}, {}),
        ({"note": "here", "headers": json.dumps({"text": "as it is", "number": 1.50, "list": [1, {"a": None}], "no": None,
                                                 "kind": "mine", "row": None})},
         {"headers": {"gone": "here", "text": "as it is", "number": "1.5", "list": '[1, {"a": null}]', "kind": "mine"}}),
        ({"headers": json.dumps({"traceparent": TRACE, "tracestate": "a=1"})},
         {"headers": {"traceparent": TRACE, "tracestate": "a=1", "kind": "<e>"}}),
        ({"headers": json.dumps({"traceparent": TRACE.upper(), "tracestate": "a=1"})}, {"headers": {"kind": "<e>"}}),
        ({"headers": json.dumps({"traceparent": TRACE, "tracestate": "a"})}, {"headers": {"traceparent": TRACE, "kind": "<e>"}}),
    ]
    bad = [({"own_topic": "a/b"}, "INVALID_RECORD: invalid topic name"), ({"own_topic": ""}, "INVALID_RECORD: invalid topic name"),
           ({"own_topic": other, "part": 3}, "_UNKNOWN_PARTITION"), ({"part": -1}, "INVALID_RECORD: the partition"),
           ({"at": "1969-12-31"}, "INVALID_RECORD: the timestamp"), ({"headers": "[]"}, "INVALID_RECORD: the headers are no JSON object"),
           ({"headers": "1"}, "INVALID_RECORD: the headers are no JSON object")]
    begin = int(time.time() * 1000)
    ids = [outbox.insert(1, f"good{n}", json.dumps({"n": n}), **columns)[0] for n, (columns, _) in enumerate(good)]
    failed = [outbox.insert(1, f"bad{n}", **columns)[0] for n, (columns, _) in enumerate(bad)]
    relay.start()
    outbox.wait_states({"SENT": len(good), "FAILED": len(bad)})
    for number, (_, error) in zip(failed, bad):
        row = outbox.row(number)
        assert row["last_error"].startswith(error) and row["attempts"] == 1, row
    records = {each.key: each for each in [*outbox.records(len(good) - 1), *broker.read(other, 1)]}
    for n, (_, expected) in enumerate(good):
        record = records[f"good{n}".encode()]
        headers = dict(record.headers)
        assert len(headers) == len(record.headers)
        assert record.topic == expected.get("topic", outbox.topic) and record.partition == expected.get("partition", 0)
        if "timestamp" in expected:
            assert record.timestamp == expected["timestamp"]
        else:
            assert begin <= record.timestamp <= time.time() * 1000
        wanted = expected.get("headers", {"kind": "<e>"})
        if "row" not in (good[n][0].get("headers") or ""):
            wanted = {"row": str(ids[n]), **wanted}
        assert {name: value.decode() for name, value in headers.items()} == wanted
    dropped = {name: relay.metrics().value("outboxd_headers_dropped_total", header=name) for name in ("traceparent", "tracestate")}
    assert dropped == {"traceparent": 1, "tracestate": 2}
    assert "outboxd_headers_dropped_total" in relay.get("/metrics")[1]


def test_a_name_twice_in_json_headers(outbox):
    """jsonb keeps the last of them; in json both are there, and it is the row's fault."""
    relay = outbox.relay({"on_failed": "continue"})
    outbox.database.execute("ALTER TABLE event_outbox ALTER headers TYPE json")
    bad, = outbox.insert(1, "a", headers='{"x": 1, "x": 2}')
    outbox.insert(1, "b", headers='{"x": 1, "y": 2}')
    relay.start()
    outbox.wait_states({"SENT": 1, "FAILED": 1})
    assert outbox.row(bad)["last_error"].startswith("INVALID_RECORD: the headers have a name twice")


def test_F003_old_rows_are_not_born_expired(outbox, broker):
    """The record has the time of publishing, so a topic that keeps records for a while keeps this one; the row's time is a header."""
    outbox.topic = broker.create_topic(retention_ms=7 * 86400 * 1000, segment_ms=100)
    outbox.relay()
    old, = outbox.insert(1, created_at="2001-02-03 04:05:06Z")
    begin = time.time() * 1000
    outbox.start()
    outbox.wait_sent(1)
    outbox.insert(2, "later")  # the segment before them may go by now
    outbox.wait_sent(3)
    record = outbox.records(3)[0]
    assert begin - 1 <= record.timestamp <= time.time() * 1000
    assert header(record, "created_at") == "2001-02-03 04:05:06+00" and outbox.row(old)["status"] == "SENT"


def test_cloudevents(outbox):
    """Every required attribute, in the names and forms of the Kafka protocol binding in binary mode."""
    relay = outbox.relay({"format": "cloudevents", "headers": {}, "on_failed": "continue", "poll": "200ms"})
    types = {"jsonb": "application/json", "json": "application/json", "text": "text/plain; charset=utf-8", "bytea": "application/octet-stream"}
    event_id = "6f1e9d2c-8b7a-4c3d-9e5f-0a1b2c3d4e5f"
    for n, (payload_type, media_type) in enumerate(types.items()):
        outbox.database.execute(f"ALTER TABLE event_outbox ALTER payload TYPE {payload_type} USING NULL")
        outbox.database.execute("DELETE FROM event_outbox")
        outbox.insert(1, "grüß-7", '{"n": 1}', event_type=f"order.{n}", event_id=event_id, created_at="2026-01-02 03:04:05.678901+02")
        outbox.database.execute("INSERT INTO event_outbox (event_type, payload, created_at) VALUES ('bare', NULL, 'infinity')")
        bad, = outbox.insert(1, "bad", event_type="")
        relay.start()
        outbox.wait_states({"SENT": 2, "FAILED": 1})
        assert outbox.row(bad)["last_error"].startswith("INVALID_RECORD: no CloudEvent: ce_type")
        whole, bare = outbox.records(2 * (n + 1))[-2:]
        assert {name: value.decode() for name, value in whole.headers} == {
            "ce_specversion": "1.0", "ce_id": event_id, "ce_source": "//outboxd/orders", "ce_type": f"order.{n}",
            "ce_subject": "grüß-7", "ce_time": "2026-01-02T01:04:05.678901Z", "content-type": media_type}
        assert json.loads(whole.value) == {"n": 1} and whole.key == "grüß-7".encode()
        assert set(dict(bare.headers)) == {"ce_specversion", "ce_id", "ce_source", "ce_type"} and bare.value is None
        assert relay.stop() == 0
    for at in ("ce_specversion", "ce_id", "ce_source", "ce_type"):
        assert header(bare, at)
