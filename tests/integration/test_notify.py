"""NOTIFY: who sends it, how often, and that the session which listens holds nothing up."""
import collections
import select
import threading
import time

import pytest

from rig.scale import scaled
from rig.serverlog import log_statements, statements
from rig.wait import stays, wait_until

CHANNEL = "outboxd_orders"


class Ears:
    """A session of its own that listens on a channel."""

    def __init__(self, database, channel=CHANNEL):
        self.connection = database.connect()
        self.connection.cursor().execute(f'LISTEN "{channel}"')

    def heard(self, seconds=0.0):
        """How many notifications have come; waits at most so long for the first."""
        select.select([self.connection], [], [], seconds)
        self.connection.poll()
        count = len(self.connection.notifies)
        self.connection.notifies.clear()
        return count


def test_F065_a_statement_notifies_once_and_the_relay_never(cluster, mock_outbox):
    database = mock_outbox.database
    log_statements(database)
    relay = mock_outbox.relay({"retry": {"initial": "100ms", "multiplier": 1}})
    assert database.value("SELECT tgtype & 1 FROM pg_trigger WHERE tgrelid = 'event_outbox'::regclass AND NOT tgisinternal") == 0
    ears, size = Ears(database), cluster.log_size()
    mock_outbox.fill(1000, keys=10)
    assert ears.heard(5) == 1
    mock_outbox.insert(100)  # so many statements, one transaction
    assert ears.heard(5) == 1
    mock_outbox.broker.fail("Produce", "INVALID_REQUEST", 3)
    relay.start()
    mock_outbox.wait_sent(1100)
    assert relay.metrics().value("outboxd_settled_total", outcome="retry") > 0
    wait_until(lambda: relay.metrics().sum("outboxd_notify_active") == 1, 10)
    assert relay.stop() == 0
    assert ears.heard() == 0
    sent = [text for _, text in statements(cluster.log_since(size)) if "notify" in text.lower()]
    assert len(sent) == 1 and sent[0].startswith('NOTIFY "outboxd_proof_'), sent  # the proof at its start


def test_F065_polling_alone_works(mock_outbox):
    """Without the trigger, which `schema` leaves out when it is not wanted, nothing is sent and nobody listens."""
    database = mock_outbox.database
    relay = mock_outbox.relay({"notify": None, "poll": "200ms"})
    assert database.value("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'event_outbox'::regclass AND NOT tgisinternal") == 0
    relay.start()
    ears = Ears(database)
    for n in range(1, 11):
        mock_outbox.insert(1, f"k{n}")
        mock_outbox.wait_sent(n, deadline=2)
    assert ears.heard() == 0
    assert len(database.sessions()) == 2  # those for requests alone
    assert "event=notify" not in relay.log()


class Traffic:
    """Threads that insert rows one by one, each commit with a notification, and one that fills the notification queue with
    long messages on a channel that nobody listens on."""

    def __init__(self, database, writers=3):
        self.database, self.stopped = database, threading.Event()
        self.sent = collections.Counter()
        jobs = {f"w{n}": "INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES ('{who}', 'e', '{{}}')"
                for n in range(writers)}
        jobs["queue"] = f"NOTIFY elsewhere, '{'x' * 7900}'"
        self.threads = [threading.Thread(target=self._run, args=job, daemon=True) for job in jobs.items()]
        for thread in self.threads:
            thread.start()

    def _run(self, who, sql):
        connection = self.database.connect()
        with connection.cursor() as cursor:
            while not self.stopped.is_set():
                cursor.execute(sql.format(who=who))
                self.sent[who] += 1
        connection.close()

    def stop(self):
        """Returns how many rows there are now."""
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        return sum(self.sent.values()) - self.sent["queue"]


@pytest.mark.limit(scaled(120, 900))
def test_F066_listening_holds_no_transaction(mock_outbox):
    """5 s of traffic in place of 10 min. Each long message takes a page of the queue; a listener that has a transaction open
    keeps all of them."""
    database = mock_outbox.database
    mock_outbox.start()
    (listener,), = wait_until(lambda: database.all("SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                                                   " AND application_name = 'outboxd' AND query LIKE '%LISTEN%'"), 10)
    look = "SELECT state, query, xact_start, pg_notification_queue_usage() FROM pg_stat_activity WHERE pid = %s"
    traffic, low = Traffic(database), time.monotonic()

    def at_rest():
        # It asks whether the server can be written to, as a sign of life. While it takes a notification in, xact_start is set
        # although it is idle. On a busy machine it may be behind for a moment; one that keeps a transaction open never catches up.
        nonlocal low
        state, query, _, usage = seen = database.one(look, (listener,))
        if usage < 1e-4:
            low = time.monotonic()
        assert time.monotonic() < low + 2 and (state == "idle" or query.startswith("SHOW")), seen
        return True

    stays(at_rest, scaled(5, 600))
    rows = traffic.stop()
    assert traffic.sent["queue"] > 500 and rows > 500  # in pages: five times what is allowed
    mock_outbox.wait_sent(rows)
    wait_until(lambda: database.one(look, (listener,))[2] is None, 5, "no transaction at rest")
