"""Stopping: what is in hand is settled or given back, in time."""
import signal
import time

import pytest

from rig.outbox import Outbox
from rig.wait import wait_until


def in_table(outbox: Outbox):
    """(state, attempts, has a lease, has an owner) of the rows, each with its number."""
    return {tuple(row[:-1]): row[-1] for row in outbox.database.all(
        "SELECT status, attempts, lease_until IS NOT NULL, lease_owner IS NOT NULL, count(*)::int FROM event_outbox GROUP BY 1, 2, 3, 4")}


def test_F069_stop_with_messages_in_the_library(outbox):
    relay = outbox.relay({"batch": 500}, kafka={"properties": {"linger.ms": "2000"}}).start()
    outbox.fill(500, keys=500, first=0)
    wait_until(lambda: outbox.states().get("SENDING", 0) > 0, 10, outbox.states)
    begin = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - begin < 25
    left = in_table(outbox)
    assert set(left) <= {("SENT", 1, False, False), ("PENDING", 0, False, False)}, left
    sent = {n for n, in outbox.database.all("SELECT (payload ->> 'n')::int FROM event_outbox WHERE status = 'SENT'")}
    assert sent <= set(outbox.numbers(len(sent)))
    last = relay.events()[-1]
    assert last["event"] == "stopped" and last["left_to_leases"] == "0"
    assert int(last["sent"]) == len(sent) and int(last["sent"]) + int(last["released"]) == 500


def test_F069_stop_under_load_and_start_again(outbox):
    relay = outbox.start()
    outbox.fill(20_000, keys=1000, first=0)
    for _ in range(3):
        wait_until(lambda: outbox.states().get("SENDING", 0) > 0 or "PENDING" not in outbox.states(), 10, outbox.states)
        assert relay.stop() == 0
        assert "SENDING" not in outbox.states()
        relay.start()
    outbox.wait_sent(20_000, deadline=60)
    assert sorted(outbox.numbers(20_000)) == list(range(20_000))  # a drain makes no repeats


@pytest.mark.parametrize("second", [False, True], ids=["deadline", "second signal"])
def test_F070_stop_with_the_broker_away(outbox, broker, second):
    relay = outbox.relay({"lease": "400s"}, kafka={"message_timeout": "300s"}, drain_timeout="4s").start()
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    broker.suspend()
    outbox.fill(100, keys=100)
    # The rows are not only claimed but on their way: what is still queued would be given back.
    wait_until(lambda: broker.unread() > 5000, 10, lambda: f"{broker.unread()} bytes at the broker's door; {outbox.states()}")
    begin = time.monotonic()
    relay.send(signal.SIGTERM)
    assert relay.wait_event("draining")
    if second:
        relay.send(signal.SIGTERM)
    code = relay.process.wait(10)
    took = time.monotonic() - begin
    assert code == 1
    assert took < (2 if second else 5)
    broker.resume()
    if not second:
        left = in_table(outbox)
        assert set(left) <= {("SENT", 1, False, False), ("PENDING", 0, False, False), ("SENDING", 1, True, True)}, left
        # What Kafka may have is told: it is sent again when its lease is over.
        assert int(relay.events("stopped")[-1]["left_to_leases"]) == left.get(("SENDING", 1, True, True), 0)


def test_F070_rows_that_were_surely_not_written_are_given_back(mock_outbox, mock):
    """A silent broker is sent some requests, and the rest waits in the library's queue."""
    relay = mock_outbox.relay({"lease": "400s"}, kafka={"message_timeout": "300s", "properties": {"batch.num.messages": "1"}},
                              drain_timeout="2s").start()
    mock_outbox.insert(1, "warm")
    mock_outbox.wait_sent(1)
    mock.ask("rtt", 1, 60_000)
    mock_outbox.fill(100, keys=100)
    wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == 100, 10, lambda: relay.metrics().page)
    begin = time.monotonic()
    assert relay.stop() == 1
    assert time.monotonic() - begin < 3
    left = in_table(mock_outbox)
    sent = left.pop(("SENDING", 1, True, True))
    assert left == {("SENT", 1, False, False): 1, ("PENDING", 0, False, False): 100 - sent} and 1 <= sent <= 5
    assert relay.events("stopped")[-1]["left_to_leases"] == str(sent)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_an_idle_relay_stops_at_once(outbox, number):
    relay = outbox.start()
    begin = time.monotonic()
    relay.send(number)
    assert relay.process.wait(5) == 0
    assert time.monotonic() - begin < 2
