"""Wall clocks that are wrong and jump, the relay's and the database's: rows go on, leases hold, no duration is negative."""
import pytest

from rig import postgres
from rig.clock import Clock
from rig.flow import WINDOWS, Writer, check_order, check_relays, settle, wait_flow
from rig.outbox import Outbox
from rig.process import Folder
from rig.wait import stays, wait_until

HOUR = 3600
POLL = 1


@pytest.fixture
def clock():
    folder = Folder("clock", postgres.server_user())  # for a server, too
    yield Clock(folder / "clock")
    folder.remove()


def no_negative_duration(relay):
    for name, labels, value in relay.metrics().samples:
        assert value >= 0 or "seconds" not in name, (name, labels, value)


def test_F024_the_relays_clock_jumps(outbox, clock):
    """A row inserted after a jump is sent within the poll interval, and so is one that waits for its time, when that has come."""
    relay = outbox.relay({"poll": f"{POLL}s", "notify": None}, env=clock.env).start()
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    for count, wrong in enumerate((-HOUR, 0, HOUR, -HOUR), 1):
        clock.set(wrong)
        outbox.database.execute("INSERT INTO event_outbox (aggregate_id, event_type, payload, available_at)"
                                " VALUES ('now', 't', '{}', now()), ('later', 't', '{}', now() + interval '1 s')")
        outbox.wait_sent(1 + 2 * count, deadline=1 + POLL + 1.5)
        no_negative_duration(relay)
    assert relay.ready() and relay.metrics().value("outboxd_lease_expired_total") == 0
    assert relay.stop() == 0


def test_F020_host_clocks_disagree(outbox, broker, tmp_path):
    """A relay whose clock is ten minutes ahead, and one behind, take nothing from one that holds rows."""
    outbox.start({"lease": "60s"}, name="right")
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    broker.suspend()
    ids = outbox.insert(5, key=lambda n: f"k{n}")
    wait_until(lambda: outbox.states().get("SENDING") == 5, 10, outbox.states)
    before = [outbox.row(number) for number in ids]
    for minutes in (10, -10):
        clock = Clock(tmp_path / f"clock{minutes}", minutes * 60)
        outbox.relay({"poll": "100ms"}, env=clock.env).start(ready=False).wait_event("source_running")
    stays(lambda: [outbox.row(number) for number in ids] == before, 3)
    broker.resume()
    outbox.wait_sent(6)
    assert len(outbox.records(6)) == 6


@pytest.mark.parametrize("window", WINDOWS)
def test_F020_clocks_of_instances_disagree(outbox, tmp_path, window):
    """One an hour behind, one an hour ahead, and they jump: order and leases are the database's affair."""
    clocks = [Clock(tmp_path / f"clock{n}", wrong) for n, wrong in enumerate((-HOUR, HOUR))]
    relays = [outbox.relay({"poll": "200ms", "batch": 50, **WINDOWS[window]}, name=f"relay{n}", env=clock.env).start()
              for n, clock in enumerate(clocks)]
    with Writer(outbox, 20, rate=600) as writer:
        for wrong in (HOUR, -HOUR, 0):
            wait_flow(outbox, relays[0], 300)
            clocks[0].set(wrong)
            clocks[1].set(-wrong)
        rows = writer.stop()
    settle(outbox)
    repeats = check_order(outbox, rows)
    check_relays(relays, repeats)
    assert repeats == 0
    for relay in relays:
        assert relay.metrics().value("outboxd_lease_expired_total") == 0
        no_negative_duration(relay)


@pytest.fixture
def leaping(clock):
    """A server whose clock can be set."""
    cluster = postgres.Cluster(env=clock.env)
    try:
        yield cluster.start()
    finally:
        cluster.remove()


@pytest.mark.parametrize("window", WINDOWS)
def test_the_databases_clock_leaps(leaping, clock, broker, make_relay, window):
    """Forward, every lease in the table has ended, though not what the relays have in hand; backward, nothing is due for as long."""
    outbox = Outbox(leaping.create_database(), broker, broker.create_topic(), make_relay)
    relays = [outbox.relay({"poll": "200ms", "batch": 50, **WINDOWS[window]}, name=f"relay{n}").start() for n in range(2)]
    with Writer(outbox, 20, rate=600) as writer:
        for wrong in (HOUR, 2 * HOUR, 3 * HOUR):
            wait_flow(outbox, relays[0], 300)
            clock.set(wrong)
        wait_flow(outbox, relays[0], 300)
        rows = writer.stop()
    settle(outbox)
    clock.set(0)
    with Writer(outbox, 20, rate=600, rows=rows) as writer:
        wait_flow(outbox, relays[0], 300)
        rows = writer.stop()
    settle(outbox)
    repeats = check_order(outbox, rows)
    check_relays(relays, repeats)
    for relay in relays:
        no_negative_duration(relay)
    stays(lambda: all(relay.ready() for relay in relays), 1)
