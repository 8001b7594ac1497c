"""Everything fails: the loop must not spin, the log must not flood, and afterwards the rows must flow soon."""
import collections
import time

import pytest

from rig.scale import scaled
from rig.serverlog import entries, log_statements
from rig.wait import stays, wait_until

SECONDS = scaled(8, 30)  # the case says 30, and 100 claims; the first seconds of a backoff have more of them
MOST_CLAIMS = 40 + 2 * SECONDS
POLL, TOPIC_PAUSE, TABLE_PAUSE = 1, 30, 10  # seconds; the latter two are the longest that a fault is waited out
FRAME = ("BEGIN", "SET LOCAL", "COMMIT", "ROLLBACK")


class Watch:
    """What a relay does from now on: statements at the server (refused ones too), processor time, lines in its log."""

    def __init__(self, cluster, relay):
        self.cluster, self.relay = cluster, relay
        self.size, self.lines, self.cpu, self.begin = cluster.log_size(), relay.lines(), relay.process.cpu_seconds(), time.monotonic()

    def statements(self):
        texts = [entry.text.partition(": ")[2].strip() for entry in entries(self.cluster.log_since(self.size))
                 if entry.text.startswith(("LOG:  execute", "STATEMENT:"))]
        texts = [text.removeprefix("execute <unnamed>: ") for text in texts]
        return [text for text in texts if not text.startswith(FRAME)]

    def share(self):
        return (self.relay.process.cpu_seconds() - self.cpu) / (time.monotonic() - self.begin)

    def check(self):
        kinds = collections.Counter("claim" if "scanned AS" in text else text[:60] for text in self.statements())
        assert all(count < MOST_CLAIMS for count in kinds.values()), kinds
        assert self.share() < 0.05
        # A line each ten seconds at most for what repeats, and some when it begins.
        told = self.relay.told(self.lines)
        assert max(told.values()) <= 2 + SECONDS / 10 and sum(told.values()) <= 6 + SECONDS / 2, told


def start(outbox):
    log_statements(outbox.database)
    relay = outbox.relay({"poll": f"{POLL}s"}).start()
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    return relay


def test_F028_a_topic_that_refuses(cluster, mock_outbox, mock):
    relay = start(mock_outbox)
    mock.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", 1000)
    watch = Watch(cluster, relay)
    mock_outbox.insert(100, key=lambda n: f"k{n}")
    stays(relay.alive, SECONDS)
    assert mock_outbox.states()["SENT"] == 1
    watch.check()
    mock.clear("Produce")
    mock_outbox.wait_sent(101, deadline=TOPIC_PAUSE + POLL)
    assert mock_outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


@pytest.mark.parametrize("broken,repaired", [
    ("ALTER TABLE event_outbox RENAME TO elsewhere", "ALTER TABLE elsewhere RENAME TO event_outbox"),
    ("ALTER TABLE event_outbox RENAME available_at TO elsewhere", "ALTER TABLE event_outbox RENAME elsewhere TO available_at"),
], ids=["table", "column"])
def test_F028_a_claim_that_errors(cluster, mock_outbox, broken, repaired):
    relay = start(mock_outbox)
    watch = Watch(cluster, relay)
    mock_outbox.database.execute(broken)
    relay.wait_event("source_broken")
    stays(lambda: not relay.ready(), SECONDS)
    watch.check()
    mock_outbox.database.execute(repaired)
    mock_outbox.insert(100, key=lambda n: f"k{n}")
    wait_until(lambda: mock_outbox.states() == {"SENT": 101}, TABLE_PAUSE + POLL, mock_outbox.states)
