"""What a machine runs out of: disk, connections, descriptors, and memory when all fails for long. Nothing is lost, nothing
spins, and the relay goes on by itself once there is room again."""
import resource
import signal
import socket
import time

import psycopg2
import pytest

from rig import outbox as outboxes, postgres
from rig.disk import SmallDisk
from rig.flow import check_order
from rig.scale import scaled
from rig.wait import stays, wait_until

MIB = 1 << 20


def busy(relay, seconds):
    """The share of a processor that it takes over some seconds."""
    before, begin = relay.process.cpu_seconds(), time.monotonic()
    stays(relay.alive, seconds)
    return (relay.process.cpu_seconds() - before) / (time.monotonic() - begin)


def resident(relay):
    status = open(f"/proc/{relay.pid}/status").read()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def wait_down(relay, reason):
    wait_until(lambda: any(reason in line["reason"] for line in relay.events("postgres_down")), 15, relay.log)


# ---- disk

def disk_of_the_table(database, user):
    """The table and its indexes are moved to a small disk."""
    disk = SmallDisk(32, user)
    database.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
    database.execute("ALTER TABLE event_outbox SET TABLESPACE small")
    for index, in database.all("SELECT indexname FROM pg_indexes WHERE tablename = 'event_outbox'"):
        database.execute(f'ALTER INDEX "{index}" SET TABLESPACE small')
    return disk


def test_disk_full_where_the_table_is(cluster, mock_outbox):
    """Rows can be claimed, for updates stay in their pages, and then not be settled: they were delivered, so they are kept
    in mind and settled when there is room."""
    rows, database = 5000, mock_outbox.database
    relay = mock_outbox.relay({"poll": "100ms", "lease": "60s"})
    disk = disk_of_the_table(database, cluster.user)
    try:
        mock_outbox.fill(rows, keys=500)
        disk.fill()
        relay.start(ready=False)
        relay.wait_event("statement_failed", error="53100")
        size = len(relay.events("statement_failed"))
        assert busy(relay, 5) < 0.1
        assert len(relay.events("statement_failed")) <= size + 4
        disk.free()
        mock_outbox.wait_sent(rows, 60)
        assert check_order(mock_outbox, rows) == 0  # no lease has run out, so nothing was sent again
        assert relay.stop() == 0
    finally:
        relay.remove()
        database.execute("DROP TABLE event_outbox")
        database.execute("DROP TABLESPACE small")
        disk.remove()


def use_up_wal(database):
    """Asks for one segment of the log after the other, until the server has no room for the next: it then goes down."""
    with pytest.raises(psycopg2.Error):
        for _ in range(100):
            database.execute("SELECT pg_create_restore_point('waste')")
            database.execute("SELECT pg_switch_wal()")


def test_disk_full_where_the_log_is(mock, make_relay):
    """The server panics, recovers or not, and comes back when there is room."""
    rows, disk = 3000, SmallDisk(160, postgres.server_user())
    small = {**postgres.FOR_TESTS, "max_wal_size": "32MB", "min_wal_size": "32MB", "wal_keep_size": "1GB"}
    cluster = postgres.Cluster(small, disk)
    try:
        database = cluster.start().create_database()
        outbox = outboxes.Outbox(database, mock, mock.create_topic(), make_relay)
        relay = outbox.relay({"poll": "100ms"}).start()
        outbox.fill(rows, keys=300)
        disk.fill()
        use_up_wal(database)
        relay.wait_event("postgres_down")
        assert busy(relay, 3) < 0.1
        disk.free()
        if not cluster.alive():
            cluster.start()
        outbox.wait_sent(rows, 60)
        repeats = check_order(outbox, rows)
        assert repeats <= relay.metrics().sum("outboxd_possible_duplicates_total")
        assert relay.stop() == 0
    finally:
        cluster.remove()


# ---- connections

def limit_connections(database, limit):
    """Of everybody but a superuser."""
    database.execute(f'ALTER DATABASE "{database.name}" CONNECTION LIMIT {limit}')


@pytest.fixture
def crowded_relay(mock_outbox):
    """crowded_relay(source, **more): a relay that is no superuser."""
    database = mock_outbox.database
    role = f"crowded_{database.name}"
    database.execute(f"CREATE ROLE {role} LOGIN")

    def make(source=None, **more):
        relay = mock_outbox.relay(source, postgres={"dsn": database.dsn(user=role)}, **more)
        database.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        return relay

    yield make
    limit_connections(database, -1)
    database.execute(f"DROP OWNED BY {role} CASCADE")
    database.execute(f"DROP ROLE {role}")


def test_too_many_connections(mock_outbox, crowded_relay):
    """53300, at first for the second connection and for the listener, then for all."""
    database = mock_outbox.database
    relay = crowded_relay({"poll": "100ms"})
    limit_connections(database, 2)  # one of them is ours
    relay.start(ready=False)
    assert "too many connections" in relay.wait_event("postgres_connect_failed", 20)["reason"]
    mock_outbox.insert(50, key=lambda n: f"k{n}")
    mock_outbox.wait_sent(50)  # by the one connection there is
    limit_connections(database, 0)
    assert database.terminate() >= 1
    wait_until(lambda: relay.get("/readyz")[0] == 503, 20, "nothing to be ready any more")
    wait_down(relay, "too many connections")
    mock_outbox.insert(50, key=lambda n: f"k{n}")
    assert busy(relay, 3) < 0.1
    limit_connections(database, -1)
    mock_outbox.wait_sent(100)
    wait_until(lambda: len(database.sessions()) == 3, 30, database.sessions)
    assert relay.stop() == 0


# ---- descriptors

def limit_descriptors(relay, most):
    """Open ones stay; new ones get a number below."""
    resource.prlimit(relay.pid, resource.RLIMIT_NOFILE, (most, resource.prlimit(relay.pid, resource.RLIMIT_NOFILE)[1]))


def test_descriptors_run_out(mock, mock_outbox):
    """None is left for whatever was lost, on any side: database, brokers, HTTP. Each says so, none spins."""
    relay = mock_outbox.relay({"poll": "100ms"}).start()
    mock_outbox.insert(1)
    mock_outbox.wait_sent(1)
    limit_descriptors(relay, 3)
    assert mock_outbox.database.terminate() >= 2
    wait_down(relay, "Too many open files")
    mock.down()
    mock.up()
    waiting = [socket.create_connection(("127.0.0.1", relay.port)) for _ in range(5)]
    assert busy(relay, 5) < 0.1
    mock_outbox.insert(20, key=lambda n: f"k{n}")
    limit_descriptors(relay, 1024)
    mock_outbox.wait_sent(21)
    for each in waiting:
        each.close()
    relay.wait_ready(20)
    assert relay.stop() == 0


def test_descriptors_are_few_at_the_start(mock_outbox):
    """It says that it cannot start for want of them, until there are enough for itself, if none for connections."""
    relay = mock_outbox.relay({"poll": "100ms"})
    for few in range(6, 40):
        size = len(relay.log())
        relay.start(ready=False, wrap=("prlimit", f"--nofile={few}:1024"))
        wait_until(lambda: relay.events("started") or not relay.alive(), 10, relay.log)
        if relay.alive():
            break
        assert relay.process.exit_code in (75, -signal.SIGABRT)
        assert "Too many open files" in relay.log()[size:]
    assert few > 6
    relay.wait_event("postgres_down", 20)
    assert busy(relay, 3) < 0.1
    limit_descriptors(relay, 1024)
    mock_outbox.insert(10, key=lambda n: f"k{n}")
    mock_outbox.wait_sent(10)
    relay.wait_ready(20)
    assert relay.stop() == 0


def test_a_flood_of_http_leaves_the_rows_alone(mock_outbox):
    """More clients than there are descriptors for."""
    relay = mock_outbox.relay({"poll": "100ms"}).start()
    limit_descriptors(relay, relay.process.open_files() + 20)
    crowd = []
    try:
        for _ in range(200):
            crowd.append(socket.create_connection(("127.0.0.1", relay.port), 5))
            crowd[-1].sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert busy(relay, 3) < 0.1
        mock_outbox.insert(100, key=lambda n: f"k{n}")
        mock_outbox.wait_sent(100, 10)
    finally:
        for each in crowd:
            each.close()
    relay.wait_ready(20)
    assert relay.stop() == 0


# ---- memory

@pytest.mark.unsanitized
@pytest.mark.limit(scaled(120, 4000))
def test_memory_while_rows_are_tried_again_and_again(mock, mock_outbox):
    """30,000 retries in place of a million: each a claim, a record, an error and a settle."""
    rows, retries = 500, scaled(30_000, 1_000_000)
    retry = {"initial": "100ms", "multiplier": 1, "max": "100ms", "max_attempts": 2_000_000_000}
    relay = mock_outbox.relay({"poll": "100ms", "batch": 500, "ordering": "none", "retry": retry}).start()

    def tried():
        if mock.pending("Produce") < 500:
            mock.fail("Produce", "UNKNOWN", 500)
        return relay.metrics().sum("outboxd_settled_total", outcome="retry")

    mock.fail("Produce", "UNKNOWN", 1000)
    mock_outbox.fill(rows, keys=rows)
    wait_until(lambda: tried() > retries / 3, scaled(60, 1500), tried, every=0.2)
    warm = resident(relay)
    wait_until(lambda: tried() > retries, scaled(60, 2500), tried, every=0.2)
    assert resident(relay) < warm + 2 * MIB
    mock.clear("Produce")
    mock_outbox.wait_sent(rows, 60)
    assert relay.stop() == 0


@pytest.mark.unsanitized
@pytest.mark.limit(scaled(120, 4000))
def test_memory_while_everything_is_away(mock, mock_outbox, crowded_relay):
    """Database and brokers refuse each attempt to connect, for 20 s in place of an hour."""
    relay = crowded_relay(kafka={"properties": {"reconnect.backoff.max.ms": "100"}}).start()
    mock_outbox.insert(1)
    mock_outbox.wait_sent(1)
    limit_connections(mock_outbox.database, 0)
    mock_outbox.database.terminate()
    mock.down()
    relay.wait_event("postgres_down")
    stays(relay.alive, scaled(5, 120))
    warm = resident(relay)
    stays(lambda: resident(relay) < warm + 2 * MIB, scaled(15, 3480), every=0.5)
    mock.up()
    limit_connections(mock_outbox.database, -1)
    mock_outbox.insert(1)
    mock_outbox.wait_sent(2, 60)
    assert relay.stop() == 0
