"""Hostile networks between the relay and its servers, while rows keep coming: each fault of the proxy on each link, and on both at
once. Everything arrives, in order, and nothing stays half open."""
import contextlib
import time

import pytest

from rig.dns import NameServer
from rig.flow import Writer, check_order, check_relays, settle, wait_flow
from rig.proxy import Proxy
from rig.scale import LONG
from rig.wait import stays, wait_until

# Short, so that each limit is reached within seconds.
CONNECT, STATEMENT, MESSAGE = 1, 1, 2
ANSWER = STATEMENT + 5  # io/db's own limit
SETTINGS = {
    "postgres": {"connect_timeout": f"{CONNECT}s", "statement_timeout": f"{STATEMENT}s"},
    "kafka": {"message_timeout": f"{MESSAGE}s", "properties": {"reconnect.backoff.max.ms": "1000"}},
}
SOURCE = {"lease": "7s", "poll": "200ms"}

SESSIONS = 3  # of a relay: two connections and the listener's


class Network:
    """A relay's way to PostgreSQL, to the broker's bootstrap port, and to the port that the broker advertises."""

    def __init__(self, cluster, broker):
        self.proxies = {"postgres": Proxy(cluster.port), "bootstrap": Proxy(broker.proxied_port),
                        "broker": Proxy(broker.proxied_port, broker.advertised_port)}

    def settings(self, database):
        return {"postgres": {**SETTINGS["postgres"], "dsn": database.dsn(port=self.proxies["postgres"].port)},
                "kafka": {**SETTINGS["kafka"], "bootstrap_servers": f"127.0.0.1:{self.proxies['bootstrap'].port}"}}

    def each(self, links):
        return [self.proxies[link] for link in links]

    def close(self):
        for proxy in self.proxies.values():
            proxy.close()


@pytest.fixture
def network(cluster, broker):
    network = Network(cluster, broker)
    yield network
    network.close()


def lasting(**switches):
    """A fault that stays until the proxy is healed."""
    def begin(proxy):
        for name, value in switches.items():
            setattr(proxy, name, value)

    return begin


# What happens, and whether a connection is silent then, so that only a time limit finds out.
FAULTS = {
    "latency": (lasting(delay=0.1), False),
    "byte by byte": (lasting(crumble=True), False),
    "cut": (lambda proxy: proxy.cut(), False),
    "reset": (lambda proxy: proxy.cut(reset=True), False),
    "server half closed": (lambda proxy: proxy.half_close("client"), False),
    "client half closed": (lambda proxy: proxy.half_close("server"), False),
    "refused": (lambda proxy: (lasting(refuse=True)(proxy), proxy.cut()), False),
    "nothing arrives": (lasting(swallow_questions=True), True),
    "nothing comes back": (lasting(swallow_answers=True), True),
    "black hole": (lasting(blackhole=True), True),
}

LINKS = {
    "postgres": ["postgres"],
    "kafka": ["bootstrap", "broker"],
    "both": ["postgres", "bootstrap", "broker"],
}
# What the links have in common shows on one of them; all of it by hand.
CASES = [(links, fault) for links in LINKS for fault in FAULTS
         if LONG or links != "both" or fault in ("reset", "black hole", "byte by byte")]


def noticed(relay, links):
    """The silence of these links has been told."""
    lost = relay.events("postgres_down") + relay.events("postgres_connection_lost")
    return all({"postgres": any("no answer within" in each["reason"] for each in lost),
                "kafka": relay.metrics().sum("outboxd_kafka_up") == 0}["postgres" if link == "postgres" else "kafka"]
               for link in links)


@pytest.mark.parametrize("links,fault", CASES)
def test_F057_faults_of_the_network(outbox, network, links, fault):
    begin, silent = FAULTS[fault]
    relay = outbox.start(SOURCE, **network.settings(outbox.database))
    with Writer(outbox, keys=10, rate=300) as writer:
        wait_flow(outbox, relay, 200)
        for proxy in network.each(LINKS[links]):
            begin(proxy)
        if silent:  # of Kafka while there are rows for it
            wait_until(lambda: noticed(relay, LINKS[links][:1]), ANSWER + 2, lambda: relay.get("/readyz"))
        stays(lambda: relay.get("/livez", deadline=1)[0] == 200, 2)
        for proxy in network.each(LINKS[links]):
            proxy.heal()
        wait_flow(outbox, relay, 300, deadline=25)
        rows = writer.stop()
    settle(outbox)
    check_relays([relay], check_order(outbox, rows))
    check_attempts(outbox, "postgres" in LINKS[links])
    wait_until(lambda: len(network.proxies["postgres"].open()) == SESSIONS, 15, network.proxies["postgres"].open)


def check_attempts(outbox, postgres):
    """Faults of Kafka's link cost none. A claim whose answer was lost has counted one, and the next claim counts again."""
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") <= (2 if postgres else 1)


def test_F057_a_silent_bootstrap_address_is_not_missed(outbox, network):
    """Once a broker has said where it is."""
    relay = outbox.start(SOURCE, **network.settings(outbox.database))
    with Writer(outbox, keys=10, rate=300) as writer:
        wait_flow(outbox, relay, 200)
        network.proxies["bootstrap"].blackhole = True
        wait_flow(outbox, relay, 600, deadline=10)
        rows = writer.stop()
    settle(outbox)
    check_relays([relay], check_order(outbox, rows))
    check_attempts(outbox, False)


@pytest.mark.parametrize("fault", [fault for fault, (_, silent) in FAULTS.items() if silent and (LONG or fault == "black hole")])
def test_F057_every_connection_notices_silence(outbox, network, fault):
    """At rest, with default limits: neither session of the three outlives them. Afterwards rows go out at once."""
    proxy, settings = network.proxies["postgres"], network.settings(outbox.database)
    relay = outbox.start(postgres={"dsn": settings["postgres"]["dsn"]})
    wait_until(lambda: relay.metrics().sum("outboxd_notify_active") == 1, 15, "the proof")
    old = proxy.open()
    FAULTS[fault][0](proxy)
    wait_until(lambda: not old & proxy.open(), 30, lambda: old & proxy.open())
    proxy.heal()
    wait_until(lambda: relay.ready() and relay.metrics().sum("outboxd_notify_active") == 1, 20, lambda: relay.get("/readyz"))
    outbox.insert(1)
    outbox.wait_sent(1, deadline=1)


# ---- one connection alone

CLAIM, SETTLE, LISTEN = b"candidate AS MATERIALIZED", b"= 'SENT'", b"LISTEN"


def swallow_from(proxy, text):
    """From the first piece on that holds `text` nothing passes on any connection; returns where the time is put."""
    since = []

    def look(data):
        if text in data and not since:
            since.append(time.monotonic())
            proxy.blackhole = True

    proxy.on_client_data = look
    return since


@pytest.mark.parametrize("statement", [CLAIM, SETTLE], ids=["claiming", "marking"])
def test_F057ab_half_open_while_a_statement_is_out(outbox, network, statement):
    proxy = network.proxies["postgres"]
    relay = outbox.relay(SOURCE, **network.settings(outbox.database))
    outbox.insert(20, key=lambda n: f"k{n % 5}")
    since = swallow_from(proxy, statement)
    relay.start(ready=False)
    wait_until(lambda: since, 20, "the statement")
    lost = wait_until(lambda: [each for event in ("postgres_down", "postgres_connection_lost")
                               for each in relay.events(event) if "no answer within" in each["reason"]], ANSWER + 2, relay.log)
    assert lost and ANSWER - 1 < time.monotonic() - since[0] < ANSWER + 2
    stays(lambda: relay.get("/livez", deadline=1)[0] == 200, 1)
    proxy.heal()
    outbox.wait_sent(20, deadline=20)
    assert sorted(set(outbox.numbers(20))) == list(range(20))
    check_attempts(outbox, True)
    wait_until(lambda: len(proxy.open()) == SESSIONS, 15, proxy.open)


def test_F057c_the_listener_is_half_open(outbox, network):
    """Rows go out by polling meanwhile; afterwards notifications wake within a second again."""
    proxy = network.proxies["postgres"]
    relay = outbox.start({**SOURCE, "poll": "3s"}, **network.settings(outbox.database))

    def active():
        return relay.metrics().sum("outboxd_notify_active") == 1

    wait_until(active, 15, "the proof")
    proxy.only = lambda link: LISTEN in link.head
    proxy.blackhole = True
    outbox.insert(1)
    outbox.wait_sent(1, deadline=5)
    wait_until(lambda: not active(), 10 + 5 + 2, "the silence to be noticed")  # its ping, and its patience
    outbox.insert(1)
    outbox.wait_sent(2, deadline=5)
    proxy.heal()
    wait_until(active, 20, "the listener")
    for n in range(3, 9):
        outbox.insert(1)
        outbox.wait_sent(n, deadline=1)
    assert len(proxy.open()) == SESSIONS


@contextlib.contextmanager
def silence_at(port):
    """Somebody accepts there and says nothing."""
    proxy = Proxy(port)
    proxy.blackhole = True
    yield proxy
    proxy.close()


def test_F057d_a_silent_host_is_left_for_the_next(outbox, cluster):
    """First of two hosts in the list, from the start on, and for every connection: requests, the listener, its proof."""
    with silence_at(cluster.port) as silent:
        dsn = outbox.database.dsn(host="127.0.0.1,127.0.0.1", port=f"{silent.port},{cluster.port}")
        begin = time.monotonic()
        relay = outbox.start({"poll": "60s"}, postgres={**SETTINGS["postgres"], "dsn": dsn})
        assert time.monotonic() - begin < CONNECT + 8
        wait_until(lambda: relay.metrics().sum("outboxd_notify_active") == 1, 20, "the proof")
        assert silent.accepted >= 3
        outbox.insert(1)
        outbox.wait_sent(1, deadline=1)


# ---- names of brokers, which librdkafka looks up in threads of its own, blocking

@pytest.fixture
def names(tmp_path):
    names = NameServer(tmp_path / "names")
    names.blocking(localhost="127.0.0.1")
    yield names
    names.close()


@pytest.fixture
def by_name(outbox, broker, names):
    """A relay, not yet started, that knows the broker by name alone, and a proxy at its address."""
    proxy = Proxy(broker.proxied_port, broker.advertised_port)
    relay = outbox.relay(SOURCE, env=names.env, kafka={**SETTINGS["kafka"],
                                                       "bootstrap_servers": f"localhost:{broker.advertised_port}"})
    yield relay, proxy
    proxy.close()


def deliver(outbox, deadline=20):
    rows = sum(outbox.states().values()) + 1
    outbox.insert(1)
    outbox.wait_sent(rows, deadline)


def test_F052_the_brokers_address_changes(outbox, broker, names, by_name):
    relay, first = by_name
    relay.start()
    deliver(outbox)
    second = Proxy(broker.proxied_port, broker.advertised_port, "127.0.0.2")
    names.blocking(localhost="127.0.0.2")
    first.close()
    try:
        deliver(outbox, deadline=60)
        assert second.accepted > 0 and outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1
    finally:
        second.close()


def test_F052_the_name_of_the_broker_appears_later(outbox, names, by_name):
    relay, _ = by_name
    names.blocking()
    relay.start(ready=False)
    outbox.insert(1)
    wait_until(lambda: relay.get("/livez")[0] == 200, 10, "the first page")
    stays(lambda: relay.get("/livez", deadline=1)[0] == 200 and not relay.ready(), 5)
    names.blocking(localhost="127.0.0.1")
    relay.wait_ready()
    outbox.wait_sent(1)
    assert outbox.row(1)["attempts"] == 1


def test_F060_brokers_whose_names_are_not_found_stop_nothing(outbox, names, by_name):
    """The whole network is gone, name servers too, with rows in flight: the producer is replaced, pages are served."""
    relay, proxy = by_name
    relay.start()
    deliver(outbox)
    proxy.blackhole = True
    outbox.insert(50, key=lambda n: f"k{n}", payload=lambda n: f'{{"n": {n + 10}}}')
    wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == 50, 10, lambda: relay.metrics().page)
    names.blocking()
    proxy.refuse, proxy.blackhole = True, False
    proxy.cut()
    stays(lambda: relay.get("/livez", deadline=1)[0] == 200, 12)
    names.blocking(localhost="127.0.0.1")
    proxy.heal()
    outbox.wait_sent(51, deadline=40)
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


def test_F060_a_relay_stops_while_the_broker_is_looked_up(names, by_name):
    relay, _ = by_name
    names.blocking()
    relay.start(ready=False)
    relay.wait_event("source_running")
    begin = time.monotonic()
    assert relay.stop() == 0
    assert time.monotonic() - begin < 8
