"""SIGHUP: the file is read again, taken whole or not at all, and nobody is disturbed who did not change."""
import collections
import contextlib
import pathlib
import signal
import socket
import time

import pytest

from rig.process import free_port
from rig.proxy import Proxy
from rig.scale import scaled
from rig.wait import stays, wait_until

FAST = {"poll": "200ms"}
# Draining sources finish long before this; what cannot finish leaves then.
SHORT = {"lease": "6s", "batch": 20}
QUICK = {"message_timeout": "1s"}


class TwoTables:
    """Two sources, orders on event_outbox and stock on a table of its own, that share everything."""

    def __init__(self, outbox):
        self.outbox, self.rows = outbox, collections.Counter()
        self.relay = outbox.relay(FAST, schema=False)
        self.orders, = self.relay.config["sources"]
        self.stock = {**self.orders, "name": "stock", "table": "stock_outbox"}
        self.relay.config["sources"].append(self.stock)
        self.relay.write_config()
        outbox.apply_schema(self.relay.file)

    def insert(self, table="event_outbox", count=50):
        self.rows[table] += count
        self.outbox.table, kept = table, self.outbox.table
        self.outbox.fill(count, keys=count, first=self.rows[table])
        self.outbox.table = kept

    def wait_sent(self):
        for table, rows in self.rows.items():
            wait_until(lambda: self.outbox.database.states(table) == {"SENT": rows}, 20,
                       lambda: f"{table}: {self.outbox.database.states(table)} of {rows}")

    def flow(self):
        """Rows of both still arrive."""
        self.insert()
        self.insert("stock_outbox")
        self.wait_sent()


@pytest.fixture
def two(mock_outbox):
    two = TwoTables(mock_outbox)
    two.relay.start()
    two.flow()
    wait_notified(two.relay)
    return two


def wait_notified(relay):
    """The listener has proved itself: its second connection is gone."""
    wait_until(lambda: set(relay.metrics().all("outboxd_notify_active")) == {1}, 15, relay.log)


def server_processes(outbox, application="outboxd"):
    return {pid for pid, *_ in outbox.database.sessions(application)}


def listened(outbox):
    """When a session was told to LISTEN; none once its last statement is another one, a ping."""
    return set(outbox.database.all("SELECT query_start FROM pg_stat_activity WHERE datname = %s AND query LIKE 'UNLISTEN%%'",
                                   (outbox.database.name,)))


def threads(relay, name):
    names = []
    for task in pathlib.Path(f"/proc/{relay.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            names.append((task / "comm").read_text())
    return sum(each.startswith(name) for each in names)


def producers(relay):
    """Each has one main thread."""
    return threads(relay, "rdk:main")


def wait_retired(relay, count=1, name="orders"):
    """Waits until so many sources of that name have stopped."""
    relay.wait_event("source_stopped", count=count, source=name)


def last_reload(relay):
    metrics = relay.metrics()
    return (metrics.value("outboxd_config_last_reload_success"), metrics.value("outboxd_config_last_reload_timestamp_seconds"))


def test_F071_one_source_is_changed_and_the_other_not_disturbed(two):
    relay, outbox = two.relay, two.outbox
    before, counted, told_to_listen = server_processes(outbox), relay.metrics(), listened(outbox)
    assert len(told_to_listen) == 1
    two.orders["batch"] = 50
    told = relay.reload(log={"format": "logfmt", "level": "debug"})
    assert told["changed"] == "log.level, sources.orders.batch"
    assert "added" not in told and "removed" not in told
    wait_retired(relay)
    two.flow()
    assert relay.events("source_draining", source="stock") == []
    assert len(relay.events("reloaded")) == 1
    assert server_processes(outbox) == before and listened(outbox) <= told_to_listen
    metrics = relay.metrics()
    for name in ("orders", "stock"):
        assert metrics.value("outboxd_settled_total", source=name, outcome="sent") == 100
        assert metrics.value("outboxd_claimed_total", source=name) == counted.value("outboxd_claimed_total", source=name) + 50
        assert metrics.value("outboxd_commit_to_ack_seconds_count", source=name) == 100
        assert metrics.value("outboxd_notify_active", source=name) == 1
    assert producers(relay) == 1


def test_F071_the_log_follows(two):
    relay = two.relay
    assert relay.reload(log={"format": "logfmt", "level": "error"})["changed"] == "log.level"
    relay.send(signal.SIGUSR1)
    assert relay.metrics()  # answered in a later turn of the loop
    two.orders["batch"], began = 50, last_reload(relay)[1]
    relay.write_config()
    relay.send(signal.SIGHUP)
    wait_until(lambda: last_reload(relay)[1] > began, 10)
    assert relay.reload(log={"format": "logfmt", "level": "info"})["changed"] == "log.level"
    relay.send(signal.SIGUSR1)
    relay.wait_event("status", count=2)
    assert relay.reload(log={"format": "json", "level": "info"})["changed"] == "log.format"
    relay.send(signal.SIGUSR1)
    wait_until(lambda: relay.log().count('"event":"status"') == 2, 10, relay.log)
    assert len(relay.events("status")) == 2


@pytest.mark.parametrize("how", ["broken", "two mistakes", "gone", "empty"])
def test_F071_a_bad_file_changes_nothing(two, how):
    relay = two.relay
    good = relay.file.read_text()
    assert last_reload(relay)[0] == 1
    began = last_reload(relay)[1]
    assert abs(began - time.time()) < 60
    bad = {"broken": good + "x: [", "two mistakes": good.replace('"batch": 100', '"batch": 0'), "empty": ""}
    if how == "gone":
        relay.file.unlink()
    else:
        relay.file.write_text(bad[how])
    relay.send(signal.SIGHUP)
    count = {"two mistakes": 2, "empty": 3}.get(how, 1)
    relay.wait_event("reload_rejected", count=count)
    reasons = [each["reason"] for each in relay.events("reload_rejected")]
    assert len(reasons) == count
    for reason in reasons:
        place, _, message = reason.removeprefix(f"{relay.file}:").partition(" ")
        assert message
        assert how == "gone" or all(number.isdigit() for number in place.rstrip(":").split(":")), reason
    assert last_reload(relay) == (0, began)
    two.flow()
    assert relay.events("source_draining") == [] and relay.ready()
    relay.reload()
    assert last_reload(relay)[0] == 1 and last_reload(relay)[1] > began
    assert relay.events("reloaded")[-1]["changed"] == "nothing"
    assert relay.events("source_draining") == []


def test_F071_a_setting_that_waits_for_a_restart(two):
    """And the rest of its file with it: what runs is always one whole file."""
    relay, port = two.relay, free_port()
    two.orders["batch"] = 50
    told = relay.reload("reload_rejected", http={"listen": f"127.0.0.1:{port}"}, drain_timeout="3s")
    assert told["settings"] == "http.listen" and len(relay.events("reload_rejected")) == 1
    assert last_reload(relay)[0] == 0  # on the old port
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1)
    two.flow()
    assert relay.events("source_draining") == []
    told = relay.reload(http={"listen": f"127.0.0.1:{relay.port}"})
    assert told["changed"] == "drain_timeout, sources.orders.batch" and last_reload(relay)[0] == 1


def test_F071_a_hundred_signals_in_a_second(two):
    relay, outbox = two.relay, two.outbox
    wait_until(lambda: len(server_processes(outbox)) == 3, 10)
    before = relay.process.open_files(), threads(relay, "")
    for n in range(100):
        two.orders["batch"] = 50 + n % 50
        relay.write_config()
        relay.send(signal.SIGHUP)
        two.insert(count=20)
        two.insert("stock_outbox", count=2)
    two.wait_sent()
    assert relay.metrics()  # the last signal has been handled
    wait_until(lambda: len(relay.events("source_stopped")) == len(relay.events("source_draining")), 20)
    assert len(relay.events("reloaded")) > 5 and relay.events("reload_rejected") == []
    assert relay.events("source_draining", source="stock") == []
    metrics = relay.metrics()
    assert metrics.value("outboxd_settled_total", source="orders", outcome="sent") == two.rows["event_outbox"]
    assert metrics.sum("outboxd_possible_duplicates_total") == 0
    wait_until(lambda: (relay.process.open_files(), threads(relay, "")) == before, 10,
               lambda: f"{relay.process.open_files()} files and {threads(relay, '')} threads, before {before}")
    assert relay.stop() == 0


def test_F068_a_changed_connection_string_makes_one_pool_and_one_listener(two):
    relay, outbox = two.relay, two.outbox
    proxy = Proxy(outbox.database.cluster.port)
    try:
        told = relay.reload(postgres={"dsn": outbox.database.dsn(proxy.port, application_name="second")})
        assert told["changed"] == "postgres.dsn"
        wait_until(lambda: not server_processes(outbox), 15, lambda: outbox.database.sessions())
        wait_notified(relay)
        # Two for requests, one that listens, and one that proved it and is gone.
        stays(lambda: proxy.accepted == 4, scaled(5, 60))
        assert len(server_processes(outbox, "second")) == 3
        two.flow()
        assert relay.stop() == 0
    finally:
        proxy.close()


def test_F068_a_listener_that_was_killed_connects_once(two):
    relay, outbox = two.relay, two.outbox
    proxy = Proxy(outbox.database.cluster.port)
    try:
        relay.reload(postgres={"dsn": outbox.database.dsn(proxy.port)})
        wait_until(lambda: len(relay.events("source_stopped")) == 2 and len(server_processes(outbox)) == 3, 15)
        wait_notified(relay)
        accepted = proxy.accepted
        assert outbox.database.terminate(query="%LISTEN%") == 1, outbox.database.sessions()
        wait_until(lambda: proxy.accepted == accepted + 2, 15)  # itself and its proof
        stays(lambda: proxy.accepted == accepted + 2, scaled(5, 60))
        two.flow()
    finally:
        proxy.close()


def test_a_changed_producer_takes_over_and_the_old_one_ends(two):
    relay = two.relay
    two.insert(count=500)
    relay.reload(kafka={**relay.config["kafka"], "properties": {"linger.ms": "1"}})
    wait_retired(relay)
    wait_retired(relay, name="stock")
    wait_until(lambda: producers(relay) == 1, 10, lambda: producers(relay))
    two.flow()
    two.orders["kafka"] = {"properties": {"linger.ms": "2"}}  # for one of them: then there are two
    assert relay.reload()["changed"] == "sources.orders.kafka.properties"
    wait_retired(relay, 2)
    assert producers(relay) == 2
    two.flow()
    assert relay.stop() == 0


def test_sources_come_and_go(two):
    relay, outbox = two.relay, two.outbox
    del relay.config["sources"][1]
    told = relay.reload()
    assert told["removed"] == "stock" and "changed" not in told and told["sources"] == "1"
    wait_retired(relay, name="stock")
    two.insert("stock_outbox", 7)
    two.insert()
    wait_until(lambda: outbox.states() == {"SENT": 100}, 20, outbox.states)
    metrics = relay.metrics()
    assert outbox.database.states("stock_outbox") == {"SENT": 50, "PENDING": 7}
    assert metrics.all("outboxd_rows", source="stock") == metrics.all("outboxd_postgres_up", source="stock") == []
    assert metrics.value("outboxd_claimed_total", source="stock") == 50
    relay.config["sources"].append(two.stock)
    assert relay.reload()["added"] == "stock"
    two.wait_sent()
    assert relay.metrics().value("outboxd_claimed_total", source="stock") == 57


def test_a_paused_source_claims_nothing_and_is_counted(two):
    relay, outbox = two.relay, two.outbox
    two.orders["paused"] = True
    assert relay.reload()["changed"] == "sources.orders.paused"
    relay.wait_event("source_paused", source="orders")
    two.insert(count=9)
    two.insert("stock_outbox")
    wait_until(lambda: outbox.database.states("stock_outbox") == {"SENT": 100}, 20)
    wait_until(lambda: relay.metrics().sum("outboxd_rows", source="orders", state="pending") == 9, 15)
    assert outbox.states() == {"SENT": 50, "PENDING": 9} and relay.ready()
    two.orders["paused"] = False
    relay.reload()
    two.wait_sent()


def test_a_source_whose_database_is_gone_leaves_with_its_leases(mock_outbox, mock):
    """Its last outcomes cannot be written any more; the new source delivers those rows once more, and says so."""
    proxy = Proxy(mock_outbox.database.cluster.port)
    try:
        relay = mock_outbox.relay({**FAST, **SHORT, "notify": None}, kafka=QUICK)
        direct, short = mock_outbox.database.dsn(), {"statement_timeout": "1s"}
        relay.config["postgres"] = {"dsn": mock_outbox.database.dsn(proxy.port), **short}
        relay.write_config()
        relay.start()
        mock_outbox.insert(1)
        mock_outbox.wait_sent(1)
        files = relay.process.open_files()
        mock.slow("Produce", 800)
        mock_outbox.fill(20, keys=20)
        wait_until(lambda: relay.metrics().sum("outboxd_claimed_total") == 21, 10, mock_outbox.states)
        assert mock_outbox.states().get("SENDING") == 20
        proxy.blackhole = True
        relay.reload(postgres={"dsn": direct, **short})
        left = relay.wait_event("source_stopped", deadline=20)
        assert left["why"] == "what could not be written is left to its lease"
        mock_outbox.wait_sent(21, deadline=20)
        assert relay.metrics().value("outboxd_possible_duplicates_total", window="crash_recovered") == 20
        wait_until(lambda: relay.process.open_files() == files, 10, lambda: f"{relay.process.open_files()} files, before {files}")
        assert relay.stop() == 0
        assert relay.events("stopped")[-1]["left_to_leases"] == "20"
    finally:
        proxy.close()


def test_the_end_waits_for_sources_that_reloads_have_retired(mock_outbox, mock):
    """Two reloads while the broker is slow, then SIGTERM: the source that runs has nothing, those before it have rows in
    flight, and all is settled."""
    relay = mock_outbox.relay({**FAST, "batch": 10, "max_in_flight": 10}).start()
    mock_outbox.insert(1)
    mock_outbox.wait_sent(1)
    mock.ask("rtt", 1, 1500)
    for batch in (9, 8):
        mock_outbox.fill(batch, keys=10_000, first=100 * batch)
        wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == batch, 10, mock_outbox.states)
        relay.reload_source(batch=batch)
    assert len(relay.events("source_draining")) == 2 and relay.events("source_stopped") == []
    relay.wait_event("source_running", count=3)
    relay.send(signal.SIGUSR1)
    relay.wait_event("status", count=3)
    assert sorted((each["state"], each["held"]) for each in relay.events("status")) == [
        ("draining", "8"), ("draining", "9"), ("running", "0")]
    assert relay.metrics().sum("outboxd_producer_replacements_total") == 0
    assert relay.stop() == 0
    assert len(relay.events("source_stopped", why="nothing is held any more")) == 3
    assert mock_outbox.states() == {"SENT": 18}
    assert relay.events("stopped")[-1]["left_to_leases"] == "0"


def test_the_end_does_not_wait_longer_for_retired_sources(mock_outbox, mock):
    """The broker is too slow for the drain's time. A signal to reload while the process ends is refused."""
    relay = mock_outbox.start({**FAST, "lease": "30s"}, kafka={"message_timeout": "20s"}, drain_timeout="1s")
    mock_outbox.insert(1)
    mock_outbox.wait_sent(1)
    mock.ask("rtt", 1, 15000)
    mock_outbox.fill(10, keys=10)
    wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == 10, 10, mock_outbox.states)
    relay.reload_source(batch=50)
    relay.send(signal.SIGTERM)
    relay.wait_event("draining")
    relay.send(signal.SIGHUP)
    assert relay.wait_event("reload_rejected")["reason"].startswith("draining")
    assert relay.process.wait(20) == 1
    assert relay.events("source_stopped", to="stopped") != [] and mock_outbox.states() == {"SENT": 1, "SENDING": 10}
    assert relay.events("stopped")[-1]["left_to_leases"] == "10"


@pytest.mark.parametrize("of_stock, of_orders", [(1, 100), (100, 1)])
def test_a_window_takes_a_producer_of_its_own(two, of_stock, of_orders):
    """Several rows of a key at once need one that leaves no gaps; the other source keeps the one it has."""
    relay = two.relay
    two.orders["max_in_flight_per_key"] = two.stock["max_in_flight_per_key"] = of_stock
    relay.reload()
    two.flow()
    seen, before = len(relay.events("source_draining", source="stock")), producers(relay)
    two.orders["max_in_flight_per_key"] = of_orders
    assert relay.reload()["changed"] == "sources.orders.max_in_flight_per_key"
    two.flow()
    assert producers(relay) == before + 1 and len(relay.events("source_draining", source="stock")) == seen
    two.orders["max_in_flight_per_key"] = of_stock
    relay.reload()
    wait_until(lambda: producers(relay) == before, 10, lambda: producers(relay))
    two.flow()
