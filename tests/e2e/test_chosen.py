"""Which rows an instance takes, and how fast: where, rate_limit, txid."""
import json
import time

from rig.outbox import header
from rig.wait import wait_until

EU = "region = 'eu' -- the first half"
US = "region IS DISTINCT FROM 'eu'"


def relays_by_region(outbox, **eu):
    """Two relays, not yet started, that divide the table by its column region."""
    source = {"headers": {"region": "{region}"}, "poll": "200ms"}
    first = outbox.relay({**source, "where": EU, **eu}, schema=False)
    second = outbox.relay({**source, "where": US})
    return first, second


def reason(relay):
    status, body = relay.get("/readyz")
    return status, [each["reason"] for each in json.loads(body)["reasons"]] if status else []


def test_where_divides_a_table_and_keeps_the_order_of_its_keys(outbox):
    eu, us = relays_by_region(outbox)
    # Row n of a key is of one region, row n + 1 of the other.
    outbox.insert(40, key=lambda n: f"k{n % 4}", region=lambda n: "eu" if n // 4 % 2 else "us")
    held = outbox.insert(1, key="k0", region="us")
    eu.start()
    wait_until(lambda: eu.metrics().sum("outboxd_transaction_seconds_count", statement="claim") > 3, 10, "some claims")
    assert outbox.states() == {"PENDING": 41}, "each key begins with a row of the other relay"
    us.start()
    outbox.wait_sent(41)
    taken = [relay.metrics().value("outboxd_claimed_total") for relay in (eu, us)]
    assert taken == [20, 21]
    records = outbox.records(41)
    for key in range(4):
        numbers = [json.loads(each.value)["n"] for each in records if each.key == b"k%d" % key]
        assert numbers == [*range(key, 40, 4), *([0] if key == 0 else [])]
    assert outbox.row(held[0])["status"] == "SENT"
    assert {header(each, "region") for each in records} == {"eu", "us"}


def test_where_is_wrong_until_somebody_mends_it(outbox):
    relay = outbox.relay({"where": "regoin = 'eu'"})
    outbox.database.execute("ALTER TABLE event_outbox ADD region text")
    outbox.insert(2, key=lambda n: f"k{n}", region=lambda n: "eu" if n else "us")
    relay.start(ready=False)
    relay.wait_event("source_broken")
    assert reason(relay)[1] == ['where refused: column "regoin" does not exist (42703)']
    assert relay.metrics().value("outboxd_claimed_total") == 0
    # A condition that one row's data makes fail, claimed or not.
    relay.reload_source(where="(payload->>'n')::int = 1 AND region = 'eu'")
    outbox.wait_states({"PENDING": 1, "SENT": 1})
    relay.wait_ready()
    broken = outbox.insert(1, "x", payload='{"n": "one"}', region="eu")
    wait_until(lambda: reason(relay)[0] == 503, 10, "not ready")
    assert "perhaps for a row of which where makes an error: invalid input syntax for type integer" in reason(relay)[1][0]
    outbox.database.execute("DELETE FROM event_outbox WHERE id = %s", broken)
    relay.wait_ready(20)  # it is tried again every 10 s


def test_rate_limit_holds_and_a_reload_changes_it(outbox):
    relay = outbox.relay({"rate_limit": 40, "batch": 500, "notify": None, "poll": "100ms"})
    outbox.fill(1000, keys=100)
    begin = time.monotonic()
    relay.start()
    claimed = []
    while time.monotonic() < begin + 4:
        before = time.monotonic()
        claimed.append((relay.metrics().value("outboxd_claimed_total"), time.monotonic() - begin, before - begin))
        assert outbox.states().get("SENDING", 0) <= 40
    for rows, latest, _ in claimed:
        assert rows <= 40 * latest, claimed
    rows, _, earliest = claimed[-1]
    assert rows >= 40 * (earliest - 2), claimed  # 2 s: the start, on a slow machine
    assert relay.metrics().value("outboxd_backpressure_total", reason="rate_limit") > 0
    relay.reload_source(rate_limit=5000)
    outbox.wait_sent(1000)


def test_txid_no_row_overtakes_one_of_an_older_transaction(outbox):
    relay = outbox.relay({"columns": {"txid": "xid"}, "poll": "100ms"})
    relay.start()
    older, younger = outbox.database.connect(autocommit=False), outbox.database.connect(autocommit=False)
    insert = "INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES ('k', 'e', %s)"
    with older.cursor() as one, younger.cursor() as other:
        one.execute(insert, ('{"n": 1}',))
        other.execute(insert, ('{"n": 2}',))
    younger.commit()
    claims = relay.metrics().sum("outboxd_transaction_seconds_count", statement="claim")
    wait_until(lambda: relay.metrics().sum("outboxd_transaction_seconds_count", statement="claim") > claims + 3, 10, "some claims")
    assert outbox.states() == {"PENDING": 1}
    older.commit()
    outbox.wait_sent(2)
    assert outbox.numbers(2) == [1, 2]
    older.close()
    younger.close()
    # As in a database restored from a dump, and as from before there was the column.
    outbox.insert(1, payload='{"n": 3}', xid=str(2 ** 40))
    outbox.insert(1, payload='{"n": 4}', xid=None)
    outbox.wait_sent(4)
    assert outbox.numbers(4) == [1, 2, 3, 4]


def test_txid_of_another_type_is_refused(outbox):
    relay = outbox.relay({"columns": {"txid": "xid"}})
    outbox.database.execute("ALTER TABLE event_outbox ALTER xid DROP DEFAULT, ALTER xid TYPE bigint USING NULL")
    relay.start(ready=False)
    relay.wait_event("source_broken")
    assert reason(relay)[1] == ['columns.txid: "xid" is bigint; it must be xid8 with the default pg_current_xact_id()']
