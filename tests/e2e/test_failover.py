"""F056: PostgreSQL fails over to a standby while rows keep coming; the connection string lists both servers."""
import signal

import pytest

from rig import postgres
from rig.flow import Writer, check_order, check_relays, settle, wait_flow
from rig.outbox import Outbox
from rig.postgres import Database
from rig.wait import wait_until

SETTINGS = {"connect_timeout": "1s", "statement_timeout": "1s"}
SOURCE = {"lease": "7s", "poll": "200ms"}


@pytest.fixture
def pair():
    """[primary, standby]; servers that a test adds are removed as well."""
    pair = []
    try:
        pair.append(postgres.Cluster())
        pair[0].start()
        pair.append(postgres.Standby(pair[0]))
        pair[1].start()
        yield pair
    finally:
        for each in pair:
            each.remove()


@pytest.fixture
def outbox(pair, broker, topic, make_relay):
    return Outbox(pair[0].create_database(), broker, topic, make_relay)


def start(outbox, *servers):
    hosts, ports = ",".join("127.0.0.1" for _ in servers), ",".join(str(each.port) for each in servers)
    return outbox.start(SOURCE, kafka={"message_timeout": "2s"},
                        postgres={**SETTINGS, "dsn": outbox.database.dsn(host=hosts, port=ports)})


def load(outbox):
    """A writer that goes on where the table ends."""
    rows = outbox.database.value("SELECT coalesce(max((payload ->> 'n')::int) + 1, 0) FROM event_outbox")
    return Writer(outbox, keys=10, rate=300, rows=rows)


def promote(outbox, standby):
    """From now on the table is there."""
    standby.promote()
    outbox.database.close()
    outbox.database = Database(standby, outbox.database.name)


def flow(outbox, relay):
    """Rows are written and go out; returns how many there are."""
    with load(outbox) as writer:
        wait_flow(outbox, relay)
        return writer.stop()


def check(outbox, relay, rows, attempts):
    settle(outbox)
    check_relays([relay], check_order(outbox, rows))
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") <= attempts


def sessions(server, outbox):
    return Database(server, outbox.database.name).sessions()


def go_down(server, how):
    server.kill() if how == "kill" else server.stop(how)


@pytest.mark.parametrize("how", ["kill", "fast", "immediate"])
def test_F056_a_standby_is_promoted_under_load(outbox, pair, how):
    """57P01 or 57P02, or not a word. The old primary comes back read-only, first in the list: nobody stays with it. A claim
    whose answer was lost counts one more attempt."""
    primary, standby = pair
    relay = start(outbox, primary, standby)
    with load(outbox):
        wait_flow(outbox, relay)
        go_down(primary, how)
        promote(outbox, standby)
    flow(outbox, relay)
    primary.settings["default_transaction_read_only"] = "on"
    primary.start()
    outbox.database.terminate()
    rows = flow(outbox, relay)
    check(outbox, relay, rows, attempts=2)
    wait_until(lambda: sessions(primary, outbox) == [], 10, "no session at the old primary")
    assert len(sessions(standby, outbox)) == 3


def test_F056_there_and_back(outbox, pair):
    """The old primary comes back as the standby of the new one, and takes over again."""
    primary, standby = pair
    relay = start(outbox, primary, standby)
    with load(outbox):
        wait_flow(outbox, relay)
        primary.stop()
        promote(outbox, standby)
    flow(outbox, relay)
    pair.append(postgres.Standby(standby, port=primary.port).start())
    with load(outbox):
        outbox.database.terminate()
        wait_flow(outbox, relay)
        standby.kill()
        promote(outbox, pair[2])
    check(outbox, relay, flow(outbox, relay), attempts=3)


def test_F056_the_primary_turns_read_only(outbox, pair):
    """25006: the sessions that stand are given up for a server that can be written to; no attempt is spent. The listener asks
    every ten seconds."""
    primary, standby = pair
    relay = start(outbox, primary, standby)
    flow(outbox, relay)
    settle(outbox)
    with primary.configured(default_transaction_read_only="on"):
        promote(outbox, standby)
        rows = flow(outbox, relay)
        wait_until(lambda: sessions(primary, outbox) == [], 15, "no session at the old primary")
    wait_until(lambda: relay.metrics().value("outboxd_notify_active") == 1, 15, "NOTIFY from the new primary")
    check(outbox, relay, rows, attempts=1)


def test_F056_the_primary_takes_no_more_sessions(outbox, pair):
    """57P03, and 57P01 for the sessions that stand."""
    primary, standby = pair
    relay = start(outbox, primary, standby)
    flow(outbox, relay)
    settle(outbox)
    old = outbox.database
    old.value("SELECT 1")  # while this session stands, the server does, but for new ones
    primary.process.send(signal.SIGTERM)
    outbox.database = Database(standby, old.name)
    standby.promote()
    assert old.terminate() == 3
    rows = flow(outbox, relay)
    check(outbox, relay, rows, attempts=1)
    assert primary.alive() and len(sessions(standby, outbox)) == 3
    old.close()
