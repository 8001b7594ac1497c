"""What a PostgreSQL server sees of relays: sessions, statements, transactions, updates of rows."""
import collections
import subprocess
import threading
import time

import pytest

from rig.postgres import programs
from rig.proxy import Proxy
from rig.scale import scaled
from rig.serverlog import entries, log_statements, most_sessions, statements, switch
from rig.wait import stays, wait_until

CONNECTIONS = 2  # postgres.connections


# ---- sessions

def listening(relay):
    return relay.metrics().sum("outboxd_notify_active") == 1


@pytest.fixture
def sessions_logged(cluster):
    with cluster.configured(log_connections="on", log_disconnections="on"):
        yield


@pytest.mark.limit(scaled(120, 1800))
def test_F061_neither_sessions_nor_descriptors_leak(cluster, mock_outbox, sessions_logged):
    """60 killed backends, 1000 health requests and some 20 failed connects, for 1000 each (see also test_dbleaks.c)."""
    proxy = Proxy(cluster.port)
    begin, database = cluster.log_size(), mock_outbox.database
    relay = mock_outbox.relay(postgres={"dsn": database.dsn(port=proxy.port), "connections": CONNECTIONS}).start()

    def wait_anew(old):
        """Waits until all sessions are there, none of them an old one, and at work."""
        wait_until(lambda: len(pids() - old) == len(pids()) == CONNECTIONS + 1 and relay.ready() and listening(relay), 20,
                   database.sessions)

    def pids():
        return {pid for pid, *_ in database.sessions()}

    wait_anew(set())
    descriptors = relay.process.open_files()
    killed = 0
    while killed < scaled(60, 1000):
        old = pids()
        killed += database.terminate()
        wait_anew(old)
    for n in range(1000):
        status, body = relay.get(("/livez", "/readyz", "/metrics")[n % 3])
        assert status == 200, body
    for _ in range(scaled(2, 50)):
        old, refused, proxy.refuse = pids(), proxy.accepted, True
        proxy.cut()
        wait_until(lambda: proxy.accepted >= refused + 9, 30, lambda: proxy.accepted)
        proxy.refuse = False
        wait_anew(old)
    # Fewer, if the last request before had not been hung up when they were counted.
    wait_until(lambda: relay.process.open_files() <= descriptors, 10, relay.process.open_files)
    # One more for a moment, which proves that notifications arrive.
    assert most_sessions(cluster.log_since(begin)) <= CONNECTIONS + 2
    proxy.close()


# ---- transactions

class Writers:
    """Threads that insert rows, each in a transaction of its own, until they are stopped."""

    def __init__(self, outbox, count=2):
        self.outbox, self.rows, self.stopped = outbox, [0] * count, threading.Event()
        self.threads = [threading.Thread(target=self._run, args=(writer,), daemon=True) for writer in range(count)]
        for thread in self.threads:
            thread.start()

    def _run(self, writer):
        connection = self.outbox.database.connect()
        with connection.cursor() as cursor:
            while not self.stopped.is_set():
                cursor.execute("INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES (%s, 'e', '{}')", (f"w{writer}",))
                self.rows[writer] += 1
        connection.close()

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()


@pytest.mark.limit(scaled(120, 900))
def test_F084_a_foreign_snapshot_is_told(cluster, mock_outbox):
    """A snapshot held for thousands of transactions, in place of 10 min at 500 a second; rows are removed after sending. Claims
    read over what is kept for it, so a gauge must tell; and the relay's own sessions hold nothing, by the server's account."""
    database, relay, begin = mock_outbox.database, mock_outbox.relay({"poll": "200ms"}), cluster.log_size()
    # Of the sessions from here on, the relay's among them: whoever idles in a transaction for longer is thrown out.
    switch(database, idle_in_transaction_session_timeout="100ms")
    relay.start()

    def age():
        return relay.metrics().sum("outboxd_oldest_snapshot_age_transactions")

    holder = database.connect().cursor()
    holder.execute("SET idle_in_transaction_session_timeout = 0")
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM event_outbox")
    writers = Writers(mock_outbox)
    try:
        end = time.monotonic() + scaled(4, 600)
        while time.monotonic() < end:
            database.execute("DELETE FROM event_outbox WHERE settled_at IS NOT NULL")
            time.sleep(0.1)
    finally:
        writers.stop()
    assert sum(writers.rows) > 1000
    wait_until(lambda: age() >= sum(writers.rows), 10, age)
    holder.execute("ROLLBACK")
    wait_until(lambda: age() == 0, 20, age)
    assert [entry for entry in entries(cluster.log_since(begin)) if "idle-in-transaction" in entry.text] == []
    assert relay.events("statement_failed") == relay.events("postgres_connection_lost") == []


# ---- doing nothing

FRAME = ("BEGIN", "SET LOCAL", "COMMIT")  # around each statement
POSITION = "SELECT pg_current_wal_insert_lsn()::text, pg_snapshot_xmax(pg_current_snapshot())::text"


def written_by(cluster, start, end):
    """What wrote the log between two positions: the names of PostgreSQL's resource managers."""
    if start == end:
        return set()
    done = subprocess.run([f"{programs()}/pg_waldump", "-p", cluster.data / "pg_wal", "-s", start, "-e", end], capture_output=True,
                          text=True, check=True)
    return {line.split()[1] for line in done.stdout.splitlines()}


@pytest.mark.limit(scaled(120, 900))
def test_F086_idling_costs_next_to_nothing(cluster, mock_outbox):
    """8 s in place of 10 min. A count of rows comes each 5 s, a sweep each minute."""
    database, seconds = mock_outbox.database, scaled(8, 600)
    log_statements(database)
    relays = [mock_outbox.relay({"poll": "1s"}, postgres={"dsn": database.dsn(application_name=f"outboxd{n}.")}) for n in range(10)]
    with cluster.configured(autovacuum="off"):  # that of the catalog, after the table was made
        for relay in relays:
            relay.start(ready=False)
        for relay in relays:
            relay.wait_ready()
        wait_until(lambda: all(map(listening, relays)), 10)
        size, before = cluster.log_size(), [relay.process.cpu_seconds() for relay in relays]
        (start, transaction), begin = database.one(POSITION), time.monotonic()
        stays(lambda: all(relay.alive() for relay in relays), seconds)
        took, (end, transaction_then) = time.monotonic() - begin, database.one(POSITION)
        log = cluster.log_since(size)
        shares = [(relay.process.cpu_seconds() - used) / took for relay, used in zip(relays, before)]
    assert transaction_then == transaction
    assert written_by(cluster, start, end) <= {"Standby", "XLOG"}  # the server's own
    assert max(shares) < 0.01, shares
    for n in range(10):
        kinds = collections.Counter(
            "count" if "FILTER" in text else "sweep" if "freed AS" in text else "claim" if "scanned AS" in text else text
            for _, text in statements(log, f"outboxd{n}.") if text and not text.startswith(FRAME))
        assert set(kinds) <= {"claim", "count", "sweep"}
        assert 1 <= kinds["claim"] <= took + 1 and kinds["count"] <= took / 5 + 1 and kinds["sweep"] <= took / 60 + 1


# ---- updates of rows

def sizes(database):
    """Bytes of the table's indexes by name."""
    return dict(database.all("SELECT relname, pg_relation_size(oid) FROM pg_class WHERE relname LIKE 'event_outbox%%' AND relkind = 'i'"))


def test_F087_two_updates_a_row_and_indexes_that_level_off(mock_outbox):
    """60,000 rows in place of a million, in rounds that end as retention and vacuum would end them."""
    database, rounds, rows = mock_outbox.database, 12, scaled(5_000, 85_000)
    mock_outbox.start({"batch": 500})
    grown = []
    for done in range(rounds):
        mock_outbox.fill(rows, keys=100, first=done * rows)
        mock_outbox.wait_sent(rows)
        database.execute("DELETE FROM event_outbox")
        database.execute("VACUUM event_outbox")
        grown.append(sizes(database))
    counters = "SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'event_outbox'"
    wait_until(lambda: database.one(counters)[0] == rounds * rows and database.one(counters)[1] >= 2 * rounds * rows, 10,
               lambda: database.one(counters))
    inserted, updated, hot = database.one(counters)
    assert updated == 2 * inserted  # claim and mark
    assert hot >= 0.49 * updated  # every claim; a mark leaves the indexes of what is open
    # Without vacuum they would be twice as large as half way. Pages that it frees are used again only when no transaction is
    # left that began before, so that others on the server make some difference.
    for name, size in grown[-1].items():
        assert size <= 1.6 * max(each[name] for each in grown[:rounds // 2]), grown
