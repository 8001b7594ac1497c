"""F060: host names of PostgreSQL are looked up without stopping the loop. The relay asks the test's own name server, and finds
getaddrinfo(), which libpq would call, silent (rig/names.c)."""
import socket
import subprocess
import threading
import time

import pytest

from rig.dns import NameServer
from rig.process import free_port
from rig.wait import stays, wait_until

NAME = "db.test"


@pytest.fixture
def names(tmp_path):
    """A name server that knows db.test."""
    server = NameServer(tmp_path / "names", {NAME: ["127.0.0.1"]})
    yield server
    server.close()


@pytest.fixture
def start(mock_outbox, names):
    """start(dsn facts): a relay that looks names up there."""
    mock_outbox.relay(name="direct")  # makes the table

    def start(ready=True, env=(), **facts):
        dsn = mock_outbox.database.dsn(**{"host": NAME, **facts})
        return mock_outbox.relay({"poll": "200ms"}, name="named", env={**names.env, **dict(env)},
                                 postgres={"dsn": dsn, "connect_timeout": "2s"}).start(ready)

    return start


class Slowest:
    """The longest that /livez took, asked without pause inside the block."""

    def __init__(self, relay):
        self.relay, self.seconds, self.asked = relay, 0.0, 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        wait_until(lambda: self.relay.get("/livez")[0] == 200, 10, "the first page")
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._thread.join()

    def _run(self):
        while not self._end.is_set():
            begin = time.monotonic()
            status, _ = self.relay.get("/livez", deadline=30)
            self.seconds = max(self.seconds, time.monotonic() - begin) if status == 200 else 1e9
            self.asked += 1
            self._end.wait(0.02)


def deliver(outbox):
    """One row more is sent."""
    rows = sum(outbox.states().values()) + 1
    outbox.insert(1)
    outbox.wait_sent(rows, deadline=15)


def test_F060_a_silent_name_server_stops_nothing(mock_outbox, mock, names, start):
    """The sessions end with rows at Kafka: its reports are handled, pages are served, and no row is lost."""
    relay = start()
    deliver(mock_outbox)
    mock.slow("Produce", 1500, count=20)
    mock_outbox.insert(100, key=lambda n: f"k{n}")
    wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == 100, 10, lambda: relay.metrics().page)
    names.silent = True
    with Slowest(relay) as livez:
        mock_outbox.database.terminate()
        wait_until(lambda: not relay.ready(), 5, "the loss")
        asked = names.asked[NAME]
        wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == 0, 10, "the reports")
        relay.wait_event("postgres_down", 10, reason=f'the host name "{NAME}" cannot be looked up: no name server answers')
        assert names.asked[NAME] > asked and mock_outbox.database.sessions() == []
    assert livez.asked > 20 and livez.seconds < 1, livez.seconds
    names.silent = False
    mock_outbox.wait_sent(101, deadline=20)
    assert mock_outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


def test_F060_answers_that_come_late(mock_outbox, names, start):
    names.delay = 0.7
    relay = start(ready=False)
    with Slowest(relay) as livez:
        relay.wait_ready()
        deliver(mock_outbox)
    assert livez.seconds < 0.6, livez.seconds


def test_F060_a_name_that_appears_later(mock_outbox, names, start):
    names.addresses = {}
    relay = start(ready=False)
    assert f'"{NAME}" cannot be looked up: Domain name not found' in relay.wait_event("postgres_down")["reason"]
    stays(lambda: relay.get("/livez")[0] == 200, 1)
    names.addresses = {NAME: ["127.0.0.1"]}
    relay.wait_ready()
    deliver(mock_outbox)


def test_F060_stopped_while_a_name_is_looked_up(names, start):
    names.silent = True
    relay = start(ready=False)
    wait_until(lambda: names.asked[NAME], 10, "the question")
    assert relay.stop(deadline=5) == 0


def test_F060_several_addresses(mock_outbox, cluster, names, start):
    """Some refuse: the next is taken at once. Then one is silent: it is left after the time limit."""
    names.addresses = {NAME: ["::1", "127.0.0.2", "127.0.0.1"]}
    relay = start()
    with socket.create_server(("127.0.0.2", cluster.port)):  # the kernel accepts, and nobody says a word
        mock_outbox.database.terminate()
        wait_until(lambda: len(relay.events("postgres_up")) == 2, 20, relay.log)
        deliver(mock_outbox)


# host, port ({port}: the server's, {other}: where nobody listens), the names that exist, and those that are asked for
LISTS = {
    "a name that does not exist before one that does": ("gone.test,db.test", "{port}", ["gone.test", NAME]),
    "a name before an address": ("gone.test,127.0.0.1", "{port}", ["gone.test"]),
    "a port for each": ("db.test,db.test", "{other},{port}", [NAME]),
    "a socket before a name": ("/nonexistent,db.test", "{port}", [NAME]),
    "a name of /etc/hosts": ("pg.hosts", "{port}", []),
    "localhost": ("localhost", "{port}", []),
    "an address": ("127.0.0.1", "{port}", []),
    "a short address": ("127.1", "{port}", []),
}


@pytest.mark.parametrize("case", LISTS)
def test_F060_lists_of_hosts(mock_outbox, cluster, names, start, case):
    hosts, port, asked = LISTS[case]
    (names.folder / "hosts").write_text("127.0.0.1 localhost pg.hosts\n")
    start(host=hosts, port=port.format(port=cluster.port, other=free_port()))
    deliver(mock_outbox)
    assert sorted(names.asked) == sorted(asked)


def test_F060_an_address_beside_the_name(mock_outbox, names, start):
    start(host="gone.test", hostaddr="127.0.0.1")
    deliver(mock_outbox)
    assert not names.asked


def test_F060_lists_that_do_not_fit_each_other(names, start):
    relay = start(ready=False, host="one.test,two.test", port="1,2,3")
    relay.wait_event("postgres_down", reason="3 ports and 2 hosts were given")
    assert not names.asked


@pytest.mark.parametrize("way", ["environment", "service"])
def test_F060_names_from_elsewhere(mock_outbox, cluster, names, start, tmp_path, way):
    """What libpq adds to the connection string by itself is looked up in the same way."""
    file = tmp_path / "services"
    file.write_text(f"[outbox]\nhost={NAME}\nport={cluster.port}\n")
    database = mock_outbox.database
    plain = f"dbname={database.name} user=postgres"
    facts, env = {"environment": (plain, {"PGHOST": NAME, "PGPORT": str(cluster.port)}),
                  "service": (f"service=outbox {plain}", {"PGSERVICEFILE": str(file)})}[way]
    relay = mock_outbox.relay({"poll": "200ms"}, name="named", env={**names.env, **env}, postgres={"dsn": facts})
    relay.start()
    deliver(mock_outbox)
    assert names.asked[NAME] > 0


def test_F060_the_name_is_what_certificates_are_checked_for(mock_outbox, cluster, names, start, tmp_path):
    """verify-full: the right name is accepted, another one of the same address is not."""
    names.addresses["other.test"] = ["127.0.0.1"]
    key, certificate = cluster.folder / "key", cluster.folder / "certificate"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={NAME}", "-addext",
                    f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", certificate], check=True, capture_output=True)
    cluster.own(key)
    root = tmp_path / "root.crt"
    root.write_text(certificate.read_text())
    with cluster.configured(ssl_cert_file=certificate, ssl_key_file=key, ssl="on"):
        relay = start(sslmode="verify-full", sslrootcert=root)
        deliver(mock_outbox)
        assert relay.stop() == 0
        other = start(ready=False, host="other.test", sslmode="verify-full", sslrootcert=root)
        assert 'does not match host name "other.test"' in other.wait_event("postgres_down")["reason"]
