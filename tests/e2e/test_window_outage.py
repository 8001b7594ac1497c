"""Order by key while rows keep coming and the broker stands still, or the relay is killed."""
import pytest

from rig.flow import WINDOWS, Writer, check_order, check_relays, duplicates, settle, wait_flow
from rig.scale import LONG
from rig.wait import stays, wait_until

MESSAGE_TIMEOUT = 2
QUICK = {"kafka": {"message_timeout": f"{MESSAGE_TIMEOUT}s", "properties": {"batch.num.messages": "2"}}}
LEASE = {"lease": "7s", "poll": "200ms"}
# Around the time-out, where some messages are too old and others are not; and long after it.
STOPS = [MESSAGE_TIMEOUT + tenth / 10 for tenth in range(-2, 20)] if LONG else [2, 2.3, 2.7, 5]
KILLS = 10 if LONG else 2

# Rows one after the other are what test_outage.py, test_order.py and test_load.py are about, too.
windows_and_keys = pytest.mark.parametrize("window,keys", [("wide", 1), ("wide", 10), ("one", 10)])


@pytest.mark.limit(600 if LONG else 120)
@windows_and_keys
def test_F015_F042_the_broker_stands_still_for_longer_than_the_timeout(outbox, broker, window, keys):
    """Rows are written, and handed over, all the time: when the broker goes on, some have timed out and others have not."""
    relay = outbox.start({**WINDOWS[window], **LEASE}, **QUICK)
    counted = 0
    with Writer(outbox, keys, rate=300) as writer:
        for seconds in STOPS:
            wait_flow(outbox, relay)
            broker.suspend()
            stays(relay.alive, seconds)
            broker.resume()
            wait_flow(outbox, relay)
            counted += duplicates(relay)
            # A new one has no reason yet to be careful with the topic.
            assert relay.stop() == 0
            relay.start()
        rows = writer.stop()
    settle(outbox)
    check_relays([relay], check_order(outbox, rows) - counted)
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


@pytest.mark.limit(600 if LONG else 120)
@windows_and_keys
def test_F018_relays_killed_in_full_flow(outbox, window, keys):
    """First the only one, again and again; then one of two."""
    victim, other = (outbox.relay({**WINDOWS[window], **LEASE}, **QUICK) for _ in range(2))
    with Writer(outbox, keys) as writer:
        for relay in [victim] * KILLS + [other] * KILLS:
            for each in {victim, relay}:
                if not each.alive():
                    each.start(ready=False)
            wait_flow(outbox, relay)
            wait_until(lambda: outbox.states().get("SENDING"), 10, "rows in flight")
            relay.kill()
        other.start()
        wait_flow(outbox, other)
        rows = writer.stop()
    settle(outbox)
    repeats = check_order(outbox, rows)
    check_relays([victim, other], 0)
    # What a relay that is no more has counted is lost; but each row that was claimed again has an attempt more.
    assert repeats <= outbox.database.value("SELECT sum(attempts - 1) FROM event_outbox")
