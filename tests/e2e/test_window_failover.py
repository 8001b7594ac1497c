"""Order by key on three brokers, while rows keep coming and leaders die, stand still, are restarted and moved."""
import contextlib

import pytest

from rig.flow import WINDOWS, Writer, check_order, check_relays, settle, wait_flow
from rig.kafkacluster import KafkaCluster
from rig.scale import LONG
from rig.wait import stays

# One worker for all, so that there is one cluster.
pytestmark = [pytest.mark.xdist_group("three brokers"), pytest.mark.limit(1200 if LONG else 180)]

both_windows = pytest.mark.parametrize("window", WINDOWS)
# Nodes take their time to start, and with rows one after the other nothing else would show.
mostly_wide = pytest.mark.parametrize("window", WINDOWS if LONG else ["wide"])

MESSAGE_TIMEOUT = 2
QUICK = {"kafka": {"message_timeout": f"{MESSAGE_TIMEOUT}s", "properties": {"batch.num.messages": "2"}}}
LEASE = {"lease": "7s", "poll": "200ms"}
TIMES = 10 if LONG else 1

# As much as goes through one row after the other; and so much that there are always several in flight.
LOAD = {"one": {"rate": 200, "backlog": 400}, "wide": {"rate": 600, "backlog": 1000}}
# Half of the rows have one key, the others ten: on two partitions, which have different leaders.
KEYS = "CASE WHEN n % 2 = 0 THEN 'one' ELSE 'k' || n % 20 END"


@pytest.fixture(scope="module")
def brokers():
    brokers = KafkaCluster()
    try:
        yield brokers.start()
    finally:
        brokers.remove()


@pytest.fixture
def broker(brokers):
    """In place of the one broker of other tests."""
    yield brokers
    brokers.start()


@contextlib.contextmanager
def flow(outbox, window):
    """A relay and a writer, and flow() that waits until rows go out; at the end everything has to have arrived in order, no
    attempt spent."""
    outbox.topic = outbox.broker.create_topic(partitions=2)
    relay = outbox.start({**WINDOWS[window], **LEASE}, **QUICK)
    with Writer(outbox, **LOAD[window], aggregate_id=KEYS) as writer:
        wait_flow(outbox, relay, LOAD[window]["rate"] // 2)
        yield lambda: wait_flow(outbox, relay, LOAD[window]["rate"] // 2)
        wait_flow(outbox, relay, LOAD[window]["rate"] // 2)
        rows = writer.stop()
    settle(outbox)
    check_relays([relay], check_order(outbox, rows))
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


def whole(outbox, broker):
    broker.start()
    broker.wait_in_sync(outbox.topic)


@both_windows
def test_F053_the_leader_dies(outbox, broker, window):
    with flow(outbox, window) as wait_rows:
        for _ in range(TIMES):
            leader = broker.leader(outbox.topic)
            broker.nodes[leader].kill()
            broker.leader(outbox.topic, lambda number: number != leader)
            wait_rows()
            whole(outbox, broker)


@both_windows
def test_F053_the_leader_stands_still_for_longer_than_the_timeout(outbox, broker, window):
    """It goes on when another one leads, with what the relay has sent it still in its hands."""
    with flow(outbox, window) as wait_rows:
        for _ in range(TIMES):
            leader = broker.leader(outbox.topic)
            broker.nodes[leader].suspend()
            broker.leader(outbox.topic, lambda number: number != leader)
            wait_rows()
            stays(broker.nodes[leader].alive, MESSAGE_TIMEOUT)
            whole(outbox, broker)


@mostly_wide
def test_F053_a_rolling_restart(outbox, broker, window):
    """Each is stopped in good order, as for an upgrade, and back before the next one goes; at last the leaders that were lead
    again."""
    with flow(outbox, window) as wait_rows:
        for _ in range(TIMES):
            leader = broker.leader(outbox.topic)
            for number in (2, 3, 1):
                broker.nodes[number].stop()
                wait_rows()
                whole(outbox, broker)
            broker.elect_preferred(outbox.topic)
            broker.leader(outbox.topic, lambda number: number == leader)


@mostly_wide
def test_F053_partitions_are_reassigned(outbox, broker, window):
    """Their leaders lose their copies, and get new ones as followers."""
    with flow(outbox, window) as wait_rows:
        for _ in range(TIMES):
            replicas = broker.replicas(outbox.topic)
            broker.reassign(outbox.topic, [others for _, *others in replicas])
            wait_rows()
            broker.reassign(outbox.topic, [[*others, first] for first, *others in replicas])


@both_windows
def test_F053_too_few_replicas(outbox, broker, window):
    """Two of three die: the third takes nothing, and the rows wait."""
    with flow(outbox, window) as wait_rows:
        for _ in range(TIMES):
            for number in (3, 2):
                broker.nodes[number].kill()
            broker.wait_in_sync(outbox.topic, copies=1)
            before = outbox.states()["SENT"]
            stays(lambda: outbox.states()["SENT"] == before, 2 * MESSAGE_TIMEOUT)
            whole(outbox, broker)
            wait_rows()
