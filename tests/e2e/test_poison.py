"""Rows, topics and rights that are wrong: they harm nobody else, spend no attempt that is not theirs, and are told by name."""
import json
import signal
import time

import pytest

from rig import poison
from rig.flow import WINDOWS, Writer
from rig.outbox import number
from rig.relay import build
from rig.scale import scaled
from rig.wait import stays, wait_until


@pytest.mark.parametrize("window", WINDOWS)
def test_F044_F045_every_poison_at_once(outbox, window):
    poison.run(outbox, WINDOWS[window])


def test_F029_a_row_that_kills_the_process(outbox):
    """Whoever produces it dies between claim and report, and is started again at once. No crash costs more than it must: a
    repeat of what was delivered before it, and attempts of those that were claimed with it."""
    env = {"LD_PRELOAD": str(build() / "tests/rig/killer.so"), "KILLER": "kills"}
    relay = outbox.relay({"lease": "6s", "poll": "200ms", "retry": {"max_attempts": 3}}, env=env,
                         kafka={"message_timeout": "1s"})
    ids = outbox.insert(10, key=lambda n: f"k{n}", payload=lambda n: json.dumps({"n": n, "text": "kills" if n == 4 else "is good"}))
    starts = 0

    def is_over():
        nonlocal starts
        if not relay.alive():
            assert starts == 0 or relay.process.exit_code == -signal.SIGABRT
            relay.start(ready=False)
            starts += 1
        return outbox.states() == {"SENT": 9, "FAILED": 1}

    wait_until(is_over, 60, lambda: (starts, outbox.states()))
    assert starts == 1 + 3  # the fourth one lives
    dead = outbox.row(ids[4])
    assert (dead["status"], dead["attempts"]) == ("FAILED", 3)
    assert relay.metrics().value("outboxd_failed_total", error="LEASE_EXPIRED") == 1
    attempts = {n: outbox.row(row)["attempts"] for n, row in enumerate(ids)}
    numbers = outbox.numbers(9)
    assert set(numbers) == set(range(10)) - {4}
    assert all(numbers.count(n) <= attempts[n] for n in set(numbers))
    outbox.insert(1, "later", payload='{"n": 11}')
    outbox.wait_states({"SENT": 10, "FAILED": 1})
    assert relay.alive()


def test_F051_no_right_to_write_idempotently(outbox, broker):
    """A producer that is started without it claims nothing, says so, ends when told to; and works once it is given."""
    relay = outbox.start({"poll": "200ms"})
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    assert relay.stop() == 0
    broker.deny_producer_ids()
    try:
        begin = time.monotonic()
        relay.start(ready=False)
        outbox.insert(10, key=lambda n: f"k{n}")
        wait_until(lambda: "CLUSTER_AUTHORIZATION_FAILED" in relay.get("/readyz")[1], 10, lambda: relay.get("/readyz"))
        wait_until(lambda: any("CLUSTER_AUTHORIZATION_FAILED" in str(line) and "IdempotentWrite" in str(line)
                               for line in relay.events(level="error")), 10, relay.log)
        assert time.monotonic() - begin < 10
        stays(lambda: set(outbox.states()) <= {"SENT", "PENDING", "SENDING"} and not relay.ready(), 2)
        begin = time.monotonic()
        assert relay.stop() == 0
        assert time.monotonic() - begin < 5
        assert outbox.states() == {"SENT": 1, "PENDING": 10}
        assert outbox.database.value("SELECT max(attempts) FROM event_outbox WHERE status = 'PENDING'") == 0
        relay.start(ready=False)
        wait_until(lambda: "CLUSTER_AUTHORIZATION_FAILED" in relay.get("/readyz")[1], 10, lambda: relay.get("/readyz"))
    finally:
        broker.allow_producer_ids()
    outbox.wait_sent(11, deadline=30)
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1
    relay.wait_ready()


def latencies(outbox, topic, since):
    """From a row's creation to its record's arrival, of rows from n on, sorted."""
    created = dict(outbox.database.all("SELECT (payload ->> 'n')::int, extract(epoch FROM created_at)::float FROM event_outbox"
                                       " WHERE event_type = %s", (topic,)))
    return sorted(each.timestamp / 1000 - created[number(each)] for each in outbox.broker.read(topic, at_least=len(created))
                  if number(each) >= since)


@pytest.mark.limit(scaled(120, 3600))
def test_F028_a_flood_for_a_denied_topic_slows_nobody(outbox, broker):
    """It is looked at once, and put off; a good topic beside it is as quick as before."""
    flood = scaled(20_000, 1_000_000)
    good, denied = (broker.create_topic(message_timestamp_type="LogAppendTime") for _ in range(2))
    broker.allow_only(denied, "Read")
    relay = outbox.start({"topic": "{event_type}", "batch": 500})
    with Writer(outbox, 10, rate=200, backlog=flood + 2000, event_type=f"'{good}'") as writer:
        writer.wait_rows(600)
        outbox.fill(flood, aggregate_id="'denied' || n", event_type=f"'{denied}'", first=10**6)
        waiting = "SELECT count(*) FROM event_outbox WHERE event_type = %s AND available_at <= now() AND status = 'PENDING'"
        wait_until(lambda: outbox.database.value(waiting, (denied,)) < 1000, scaled(30, 3000), relay.log)
        calm = writer.rows
        writer.wait_rows(calm + scaled(2000, 20_000), scaled(60, 300))
        rows = writer.stop()
    outbox.wait_states({"SENT": rows, "PENDING": flood})
    before, after = latencies(outbox, good, 0)[:600], latencies(outbox, good, calm)
    assert after[len(after) // 2] < 5 * before[len(before) // 2] + 0.05
    assert after[-1] < 2, after[-10:]
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox WHERE status = 'PENDING'") == 0
    assert relay.metrics().value("outboxd_topic_faults") == 1
