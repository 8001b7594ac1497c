"""PostgreSQL or Kafka go away and come back: nothing is lost, no attempt is spent, nobody restarts the relay."""
import time

import pytest

from rig.outbox import header
from rig.proxy import Proxy
from rig.scale import scaled
from rig.wait import stays, wait_until

FAST = {"kafka": {"message_timeout": "2s", "properties": {"reconnect.backoff.max.ms": "1000"}}}


def busy(relay, seconds):
    """The share of a processor that the relay takes over some seconds."""
    before, begin = relay.process.cpu_seconds(), time.monotonic()
    stays(relay.alive, seconds)
    return (relay.process.cpu_seconds() - before) / (time.monotonic() - begin)


def attempts(outbox):
    return {value for value, in outbox.database.all("SELECT DISTINCT attempts FROM event_outbox")}


# ---- Kafka

def test_F026_F054_an_outage_uses_up_no_attempts(outbox, broker):
    """And is no flood in the log, where the library has its say, too."""
    relay = outbox.relay({"lease": "7s", "poll": "200ms", "retry": {"max_attempts": 5}}, **FAST).start()
    outbox.fill(300, keys=300)
    outbox.wait_sent(300)
    since, begin = relay.lines(), time.monotonic()
    broker.kill()
    outbox.fill(1000, keys=1000, first=1001)
    wait_until(lambda: not relay.ready(), 15, "the relay to notice")
    assert relay.wait_event("kafka_down")
    wait_until(lambda: outbox.states().get("PENDING") == 1000, 10, outbox.states)
    claimed = relay.metrics().sum("outboxd_claimed_total")
    stays(lambda: outbox.states() in ({"SENT": 300, "PENDING": 1000}, {"SENT": 300, "PENDING": 999, "SENDING": 1}), 15)
    assert relay.metrics().sum("outboxd_claimed_total") - claimed < 20  # probes
    assert outbox.database.value("SELECT max(attempts) FROM event_outbox WHERE status = 'PENDING'") == 0
    relay.check_told(since, begin)
    assert relay.events("kafka_library", facility="FAIL") and any("suppressed" in line for line in relay.events())
    broker.start()
    outbox.wait_sent(1300)
    assert attempts(outbox) == {1}
    assert relay.wait_event("kafka_up", count=2)
    assert relay.ready()


def test_F031_F049_recovery_is_not_late_because_the_backoff_has_grown(outbox, broker):
    """A topic that is missing at first: a pause of at most 30 s, no attempt spent, no other topic delayed."""
    relay = outbox.relay({"topic": "{event_type}", "retry": {"max_attempts": 5}}).start()
    good, late = outbox.topic, f"{outbox.topic}-late"
    outbox.insert(10, key=lambda n: f"l{n}", event_type=late)
    outbox.insert(10, key=lambda n: f"g{n}", event_type=good)
    outbox.wait_states({"SENT": 10, "PENDING": 10}, 10)
    # 1 s is asked for; as much again for a busy machine.
    assert outbox.database.value("SELECT max(settled_at - created_at) < '2 s' FROM event_outbox WHERE event_type = %s", (good,))
    line = relay.wait_event("topic_refused", topic=late)
    assert "UNKNOWN_TOPIC" in line["error"]

    def waits():
        return {(status, attempts) for status, attempts in outbox.database.all(
            "SELECT status, attempts FROM event_outbox WHERE event_type = %s", (late,))} <= {("PENDING", 0), ("SENDING", 1)}

    stays(waits, scaled(8, 40))
    assert outbox.database.value("SELECT count(*) FROM event_outbox WHERE last_error LIKE '%UNKNOWN_TOPIC%: %'") == 10
    metrics = relay.metrics()
    assert metrics.value("outboxd_topic_faults") == 1 and metrics.sum("outboxd_failed_total") == 0
    assert metrics.sum("outboxd_retries_total") > 1
    broker.create_topic(late)
    outbox.wait_sent(20, deadline=36)
    assert attempts(outbox) == {1}
    assert relay.alive()


@pytest.mark.limit(180)
def test_F040_nothing_is_sent_before_a_good_report(outbox, broker, tmp_path):
    """No broker at start: nothing is marked, however the relay ends; later every row arrives once."""
    broker.stop()
    relay = outbox.relay(**FAST, source={"lease": "7s"}).start(ready=False)
    outbox.insert(10, key=lambda n: f"k{n}")
    stays(lambda: set(outbox.states()) <= {"PENDING", "SENDING"}, 10)
    assert outbox.database.value("SELECT count(*) FROM event_outbox WHERE settled_at IS NOT NULL") == 0
    relay.stop()
    assert set(outbox.states()) == {"PENDING"}
    relay.start(ready=False)
    for n in range(10, 20):
        outbox.insert(1, f"k{n}", payload=f'{{"n": {n}}}')
    broker.start()
    outbox.wait_sent(20, deadline=60)
    assert sorted(outbox.numbers(20)) == list(range(20))


def test_F042_a_broker_killed_with_rows_in_flight(outbox, broker):
    """Each row arrives at least once, each copy with the same id, and what may be a repeat is counted."""
    relay = outbox.start({"poll": "100ms"})
    outbox.insert(1, "warm", payload='{"n": -1}')
    outbox.wait_sent(1)
    outbox.fill(20_000, keys=20_000, first=0)
    wait_until(lambda: outbox.states().get("SENT", 0) > 2000, 20, outbox.states)
    broker.kill()
    broker.start()
    outbox.wait_sent(20_001, deadline=60)
    records = outbox.records(20_001)
    ids = {}
    for each in records:
        ids.setdefault(each.value, set()).add(header(each, "event_id"))
    assert len(ids) == 20_001 and all(len(found) == 1 for found in ids.values())
    repeats = len(records) - 20_001
    assert repeats <= relay.metrics().sum("outboxd_possible_duplicates_total")


# ---- PostgreSQL

def test_F058_started_before_the_server(outbox, cluster):
    relay = outbox.relay()
    cluster.stop()
    relay.start(ready=False)
    wait_until(lambda: relay.get("/livez")[0] == 200, 10, "liveness")
    stays(lambda: relay.get("/livez")[0] == 200 and relay.get("/readyz")[0] == 503, 5)
    assert relay.wait_event("postgres_down")
    cluster.start()
    relay.wait_ready(15)
    outbox.insert(10)
    outbox.wait_sent(10)


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_F058_server_away_with_work_in_hand(outbox, cluster, how):
    relay = outbox.start()
    outbox.fill(20_000, keys=500, first=0)
    wait_until(lambda: outbox.states().get("SENT", 0) > 1000, 20, outbox.states)
    if how == "kill":
        cluster.kill()
    else:
        cluster.stop(how)
    stays(lambda: relay.get("/livez")[0] == 200, 4)
    assert relay.get("/readyz")[0] == 503
    cluster.start()
    outbox.wait_sent(20_000, deadline=60)
    assert relay.alive() and attempts(outbox) <= {1, 2}
    numbers = outbox.numbers(20_000)
    assert set(numbers) == set(range(20_000))
    assert len(numbers) - 20_000 <= relay.metrics().sum("outboxd_possible_duplicates_total")


def test_F058_a_wrong_password_is_told_without_the_password(outbox, cluster, tmp_path):
    outbox.database.execute("CREATE ROLE relay LOGIN PASSWORD 'right'")
    rules = cluster.data / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text("host all relay 127.0.0.1/32 scram-sha-256\n" + before)
    try:
        outbox.database.execute("SELECT pg_reload_conf()")
        dsn = f"host=127.0.0.1 port={cluster.port} dbname={outbox.database.name} user=relay password=S3cr3t-wrong"
        relay = outbox.relay(schema=False, postgres={"dsn": dsn}).start(ready=False)
        assert "authentication" in relay.wait_event("postgres_down", 20)["reason"]
        stays(relay.alive, 2)
        assert "S3cr3t" not in relay.log() and relay.get("/readyz")[0] == 503
    finally:
        rules.write_text(before)
        outbox.database.execute("SELECT pg_reload_conf()")
        outbox.database.execute("DROP ROLE relay")


def wait_listening(outbox, relay):
    wait_until(lambda: relay.metrics().sum("outboxd_notify_active") == 1, 30, lambda: relay.metrics().page)


def test_F062_the_listener_comes_back(outbox):
    relay = outbox.start({"poll": "60s"})
    wait_listening(outbox, relay)
    assert outbox.database.terminate(query="%LISTEN%") == 1
    wait_until(lambda: relay.metrics().sum("outboxd_notify_active") == 0, 10, "the loss to show")
    wait_listening(outbox, relay)
    stays(relay.alive, 1)
    begin = time.monotonic()
    outbox.insert(1)
    outbox.wait_sent(1, deadline=1.5)
    assert time.monotonic() - begin < 1.5
    assert len(outbox.database.sessions()) == 3  # one of them listens
    assert busy(relay, 3) < 0.05


def test_F062_listening_was_impossible_at_first(outbox, cluster):
    """The server is away at start and comes later: a failure once is not a decision for the whole life."""
    relay = outbox.relay({"poll": "60s"})
    cluster.stop()
    relay.start(ready=False)
    stays(relay.alive, 3)
    cluster.start()
    wait_listening(outbox, relay)
    relay.wait_event("ready")
    outbox.insert(1)
    outbox.wait_sent(1, deadline=1.5)


def test_F063_a_closed_socket_is_not_read_for_ever(outbox, cluster):
    relay = outbox.start()
    outbox.insert(1)
    outbox.wait_sent(1)
    since, begin = relay.lines(), time.monotonic()
    cluster.stop("immediate")
    assert busy(relay, 8) < 0.05
    reasons = [line["reason"] for line in relay.events("postgres_down") if "suppressed" not in line]
    assert 1 <= len(reasons) == len(set(reasons)), reasons
    relay.check_told(since, begin)
    cluster.start()
    relay.wait_ready(15)


def test_the_table_is_missing_at_first(outbox):
    """No reason to end: the source is looked at again, and goes on when the table is there."""
    relay = outbox.relay(schema=False).start(ready=False)
    wait_until(lambda: relay.get("/readyz")[0] == 503 and "orders" in relay.get("/readyz")[1], 10, lambda: relay.get("/readyz"))
    outbox.apply_schema(relay.file)
    outbox.insert(3)
    outbox.wait_sent(3, deadline=15)
    assert relay.ready()


def test_no_transaction_is_open_while_kafka_is_waited_for(outbox, broker):
    """Promise 5."""
    relay = outbox.start()
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    broker.suspend()
    outbox.insert(100, key=lambda n: f"k{n}")
    wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") > 0, 10, "rows in flight")
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'outboxd%' AND state LIKE 'idle in%'"
    stays(lambda: outbox.database.value(open_ones) == 0, 2)
    # and no row is locked
    assert outbox.database.value("SELECT count(*) FROM (SELECT 1 FROM event_outbox FOR UPDATE SKIP LOCKED) t") == 101
    broker.resume()
    outbox.wait_sent(101)


def test_F040_F054_rows_that_come_while_no_broker_is_there(outbox, broker):
    """Whoever connects is hung up on, for longer than the time-out: each row arrives once, later, and the errors, which
    come all the time, are summed up."""
    proxy = Proxy(broker.port)
    proxy.refuse = True
    try:
        relay = outbox.relay({"lease": "6s", "poll": "200ms"}, kafka={
            "bootstrap_servers": f"127.0.0.1:{proxy.port}", "message_timeout": "1s",
            "properties": {"reconnect.backoff.max.ms": "1000"}}).start(ready=False)
        assert relay.wait_event("kafka_down")
        wait_until(lambda: "_TRANSPORT: " in relay.get("/readyz")[1], 5, lambda: relay.get("/readyz"))
        since, begin, refused = relay.lines(), time.monotonic(), proxy.accepted
        for n in range(50):
            outbox.insert(1, f"k{n}", payload=f'{{"n": {n}}}')
            stays(lambda: set(outbox.states()) <= {"PENDING", "SENDING"}, 0.05)
        wait_until(lambda: proxy.accepted > refused + 5, 15, lambda: proxy.accepted)
        relay.check_told(since, begin)
        assert outbox.database.value("SELECT count(settled_at) FROM event_outbox") == 0
        assert attempts(outbox) <= {0, 1}
        proxy.refuse = False
        outbox.wait_sent(50)
        assert sorted(outbox.numbers(50)) == list(range(50)) and attempts(outbox) == {1}
    finally:
        proxy.close()
