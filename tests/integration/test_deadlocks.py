"""Deadlocks: never among relays; one with somebody else's statements costs a repetition and nothing more."""
import psycopg2
import pytest

from rig.scale import scaled
from rig.serverlog import deadlocks, switch
from rig.wait import stays, wait_until

MANY = {"poll": "100ms", "batch": 50, "retry": {"max_attempts": 100}}


class Writer:
    """An application that changes rows in flight in descending id order, one statement a row, in one transaction."""

    def __init__(self, outbox, deadlock_timeout):
        self.outbox, self.connection = outbox, outbox.database.connect(autocommit=False)
        self.cursor = self.connection.cursor()
        self.cursor.execute(f"SET deadlock_timeout = '{deadlock_timeout}'")
        self.connection.commit()
        self.pid = self.connection.get_backend_pid()

    def change(self, number):
        self.cursor.execute("UPDATE event_outbox SET headers = '{}' WHERE id = %s", (number,))

    def provoke(self, ids):
        """Takes the last row before its settle, and the others once that waits for it."""
        try:
            self.change(ids[-1])
            wait_until(lambda: self.outbox.database.value("SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))",
                                                          (self.pid,)), 10, "a settle that waits for the writer", every=0.005)
            for number in reversed(ids[:-1]):
                self.change(number)
            self.connection.commit()
        except psycopg2.errors.DeadlockDetected:
            self.connection.rollback()


# Whoever has waited for so long looks for a deadlock, and ends it by its own error.
@pytest.mark.parametrize("victim,relay_waits,writer_waits", [("relay", "100ms", "5s"), ("writer", "5s", "100ms")])
def test_F023_a_writer_in_descending_order(cluster, mock_outbox, mock, victim, relay_waits, writer_waits):
    """Two relays, until four settles have met a deadlock, in place of 5 min."""
    database, rounds = mock_outbox.database, scaled(4, 300)
    switch(database, deadlock_timeout=relay_waits)
    relays = [mock_outbox.relay(MANY, postgres={"lock_timeout": "4s"}).start() for _ in range(2)]
    writer, begin, rows, met = Writer(mock_outbox, writer_waits), cluster.log_size(), 0, []
    mock.ask("rtt", 1, 200)  # time enough between claim and settle
    while len(met) < rounds:
        assert rows < 100 * rounds, "hardly any deadlock came"
        ids = mock_outbox.insert(10, key=lambda n: f"k{n}")
        rows += len(ids)
        wait_until(lambda: all(mock_outbox.row(each)["status"] == "SENDING" for each in ids), 10, mock_outbox.states, every=0)
        writer.provoke(ids)
        mock_outbox.wait_sent(rows)
        met = list(deadlocks(cluster.log_since(begin)))
    assert all(writer.pid in pids for _, pids in met)
    assert {pid == writer.pid for pid, _ in met} == {victim == "writer"}
    mock_outbox.wait_sent(rows)
    assert len(mock_outbox.records(rows)) == rows  # no mark was lost, else the row would have come twice
    assert database.value("SELECT max(attempts) FROM event_outbox") == 1
    repeated = sum(len(relay.events("statement_failed", statement="settle", error="40P01")) for relay in relays)
    assert (repeated > 0) == (victim == "relay")
    for name in ("outboxd_settle_fenced_total", "outboxd_possible_duplicates_total", "outboxd_lease_expired_total"):
        assert sum(relay.metrics().sum(name) for relay in relays) == 0


@pytest.mark.limit(scaled(120, 900))
def test_F023_relays_among_themselves(cluster, mock_outbox, mock):
    """5 s in place of 5 min, with three relays that take rows from each other all the time: leases are ended by hand, without
    waiting for anybody. Due order is not id order, so a claim that waited would meet settles the other way round."""
    database = mock_outbox.database
    switch(database, deadlock_timeout="100ms")
    relays = [mock_outbox.relay(MANY, name=f"relay{n}").start() for n in range(3)]
    mock.ask("rtt", 1, 20)
    begin = cluster.log_size()

    def end_leases():
        mock_outbox.fill(500, keys=100_000, available_at="now() - random() * interval '1 h'")
        database.execute("UPDATE event_outbox SET lease_until = now() - interval '1 s', attempts = 0 WHERE id IN"
                         " (SELECT id FROM event_outbox WHERE status = 'SENDING' FOR UPDATE SKIP LOCKED)")
        return all(relay.alive() for relay in relays)

    stays(end_leases, scaled(5, 300))
    assert list(deadlocks(cluster.log_since(begin))) == []
    taken, fenced = (sum(relay.metrics().sum(f"outboxd_{name}_total") for relay in relays)
                     for name in ("lease_expired", "settle_fenced"))
    assert taken > 100 and fenced > 100
    assert not [line for relay in relays for line in relay.events("statement_failed")]
