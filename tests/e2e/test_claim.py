"""Claims, leases, and the fence: who may take a row, and who may still change it."""
import subprocess

import pytest

from rig import postgres
from rig.outbox import Outbox
from rig.postgres import programs
from rig.proxy import Proxy
from rig.relay import run_command
from rig.wait import stays, wait_until


@pytest.fixture
def proxy(cluster):
    proxy = Proxy(cluster.port)
    yield proxy
    proxy.close()


def test_F012_a_late_commit_goes_out_at_once(outbox):
    relay = outbox.relay({"poll": "500ms"})
    late = outbox.database.connect(autocommit=False)
    late.cursor().execute("INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES ('a', 'e', '{\"n\": 1}')")
    outbox.insert(1, "b", payload='{"n": 2}')
    relay.start()
    outbox.wait_sent(1)
    late.commit()
    outbox.wait_sent(2, deadline=3)
    assert outbox.numbers(2) == [2, 1]


@pytest.mark.limit(180)
def test_F012_nothing_outside_the_rows_remembers_progress(outbox, broker, make_relay, tmp_path):
    """Dumped and restored into a brand-new cluster, with small transaction ids and another log position."""
    relay = outbox.start()
    outbox.insert(20, key=lambda n: f"k{n}")
    outbox.wait_sent(20)
    assert relay.stop() == 0
    dump = subprocess.run([f"{programs()}/pg_dump", outbox.database.dsn()], capture_output=True, text=True, check=True).stdout
    cluster = postgres.Cluster()
    try:
        copy = Outbox(cluster.start().create_database(), broker, outbox.topic, make_relay)
        subprocess.run(["psql", "-X", "-q", "-d", copy.database.dsn()], input=dump, text=True, check=True, stdout=subprocess.DEVNULL)
        copy.relay(schema=False).start()
        copy.insert(10, key=lambda n: f"k{n}", payload=lambda n: f'{{"n": {100 + n}}}')
        copy.wait_sent(30)
        assert sorted(copy.numbers(30)) == [*range(20), *range(100, 110)]
    finally:
        cluster.remove()


def lose_answer(proxy, text):
    """The first piece from the relay that holds `text` reaches the server; its answer and the connection are lost."""
    lost = []

    def look(data):
        if text in data and not lost:
            lost.append(data)
            proxy.swallow_answers = True

    def heal(data):
        if lost and proxy.swallow_answers:
            proxy.swallow_answers = False
            raise ConnectionError("lost on purpose")

    proxy.on_client_data, proxy.on_server_data = look, heal
    return lost


def test_F013_the_claims_answer_is_lost(outbox, proxy):
    relay = outbox.relay(postgres={"dsn": outbox.database.dsn(port=proxy.port)})
    outbox.insert(50, key=lambda n: f"k{n % 5}")
    lost = lose_answer(proxy, b"candidate AS MATERIALIZED")
    relay.start(ready=False)
    wait_until(lambda: lost, 20, "a claim")
    outbox.wait_sent(50, deadline=40)
    assert sorted(outbox.numbers(50)) == list(range(50))


BOTH = pytest.mark.parametrize("on_delivered", ["mark", "delete"])


@BOTH
def test_F013_the_settles_answer_is_lost(outbox, proxy, on_delivered):
    """It is sent again, and finds nothing more to do: that is not a fence."""
    relay = outbox.relay({"on_delivered": on_delivered}, postgres={"dsn": outbox.database.dsn(port=proxy.port)}).start()
    lost = lose_answer(proxy, {"mark": b"= 'SENT'", "delete": b"DELETE FROM"}[on_delivered])
    outbox.insert(50, key=lambda n: f"k{n % 5}")
    wait_until(lambda: lost, 20, "a settle")
    outbox.wait_delivered(50, on_delivered, deadline=8)  # before any lease has ended
    wait_until(lambda: relay.metrics().sum("outboxd_unsettled_messages") == 0, 8, lambda: relay.metrics().page)
    assert sorted(outbox.numbers(50)) == list(range(50))
    assert relay.metrics().sum("outboxd_lease_expired_total") == 0
    assert relay.metrics().sum("outboxd_settle_fenced_total") == 0


# Where a row comes from: fresh, due for its retry, or left behind by a relay that is no more.
PATHS = {
    "fresh": {},
    "retry": {"attempts": 3, "last_error": "'x'", "available_at": "now() - interval '1 s'"},
    "expired": {"status": "'SENDING'", "attempts": 1, "lease_until": "now() - interval '1 s'", "lease_owner": "'gone'"},
}


@pytest.mark.parametrize("counts", [{"fresh": 380, "retry": 100, "expired": 20}, {"fresh": 300}, {"retry": 300}, {"expired": 300}],
                         ids=lambda counts: "-".join(counts))
def test_F014_three_relays_take_each_row_once(outbox, counts):
    relays = [outbox.relay({"poll": "100ms", "batch": 20}) for _ in range(3)]
    first = 0
    for path, count in counts.items():
        outbox.fill(count, keys=count, first=first, **{name: str(value) for name, value in PATHS[path].items()})
        first += count
    for relay in relays:
        relay.start(ready=False)
    outbox.wait_sent(first)
    assert sorted(outbox.numbers(first)) == list(range(first))
    assert sum(relay.metrics().sum("outboxd_lease_expired_total") for relay in relays) == counts.get("expired", 0)


@pytest.mark.parametrize("more", [
    {"message_timeout": "120s"},
    {"properties": {"message.timeout.ms": "120000"}},
    {"properties": {"delivery.timeout.ms": "120000"}},
], ids=["setting", "property", "alias"])
def test_F015_a_lease_shorter_than_the_delivery_timeout_is_refused(outbox, more):
    relay = outbox.relay({"lease": "30s"}, schema=False)
    relay.config["kafka"] = {"bootstrap_servers": outbox.broker.bootstrap, **more}
    relay.write_config()
    checked = run_command("check", "--offline", "-c", relay.file)
    assert checked.returncode == 78, checked
    assert all(text in checked.stderr for text in ("lease", "30s", "125s")), checked.stderr
    assert run_command("run", "-c", relay.file).returncode == 78


def test_F015_a_broker_away_longer_than_the_lease_makes_no_repeats(outbox, broker):
    relays = [outbox.relay().start() for _ in range(2)]
    broker.suspend()
    outbox.insert(10, key=lambda n: f"k{n}")
    wait_until(lambda: not any(relay.ready() for relay in relays), 30, "both relays to notice")
    stays(lambda: outbox.states().get("SENT", 0) == 0, 11)  # longer than a lease
    broker.resume()
    outbox.wait_sent(10)
    numbers = outbox.numbers(10)
    assert set(numbers) == set(range(10))
    repeats = sum(relay.metrics().sum("outboxd_possible_duplicates_total") for relay in relays)
    assert len(numbers) - 10 <= repeats


@pytest.mark.limit(180)
@BOTH
def test_F016_a_stale_owner_changes_nothing(outbox, broker, on_delivered):
    """The first relay is stopped with rows in flight for longer than its lease; the second takes them; the first goes on."""
    source = {"poll": "200ms", "on_delivered": on_delivered}
    first = outbox.start(source)
    outbox.insert(1, "warm")
    outbox.wait_delivered(1, on_delivered)
    broker.suspend()
    ids = outbox.insert(5, key=lambda n: f"k{n}")
    wait_until(lambda: first.metrics().sum("outboxd_in_flight_messages") == 5, 10, lambda: first.metrics().page)
    first.suspend()
    broker.resume()
    second = outbox.relay(source).start()
    outbox.wait_delivered(6, on_delivered, deadline=40)
    rows = [outbox.row(number) for number in ids]
    assert on_delivered == "delete" or [row["attempts"] for row in rows] == [2] * 5
    first.resume()
    assert first.wait_event("settle_fenced")
    wait_until(lambda: first.metrics().sum("outboxd_settle_fenced_total") == 5, 10, lambda: first.metrics().page)
    assert [outbox.row(number) for number in ids] == rows
    assert second.metrics().sum("outboxd_settle_fenced_total") == 0


@pytest.mark.limit(180)
def test_F017_expiry_is_read_from_the_row(outbox, broker):
    """A long lease of one relay is respected by another whose own leases are short."""
    outbox.start({"lease": "300s"}, kafka={"message_timeout": "200s"}, name="long")
    outbox.insert(1, "warm")
    outbox.wait_sent(1)
    broker.suspend()
    number, = outbox.insert(1, "held")
    wait_until(lambda: outbox.row(number)["status"] == "SENDING", 10, "the claim")
    before = outbox.row(number)
    other = outbox.relay({"poll": "100ms"}).start(ready=False)
    stays(lambda: outbox.row(number) == before, 11)
    broker.resume()
    outbox.wait_sent(2)
    assert outbox.row(number)["attempts"] == 1
    assert other.metrics().sum("outboxd_lease_expired_total") == 0


@pytest.mark.parametrize("again,on_delivered", [("another", "mark"), ("another", "delete"), ("the same", "mark")])
def test_F018_rows_of_a_killed_relay(outbox, broker, again, on_delivered):
    source = {"on_delivered": on_delivered}
    relay = outbox.start(source)
    outbox.insert(1, "warm")
    outbox.wait_delivered(1, on_delivered)
    broker.suspend()
    outbox.insert(100, key=lambda n: f"k{n}")
    wait_until(lambda: outbox.states().get("SENDING") == 100, 10, outbox.states)
    relay.kill()
    broker.resume()
    survivor = relay if again == "the same" else outbox.relay(source)
    survivor.start(ready=False)
    outbox.wait_delivered(101, on_delivered, deadline=13)  # the lease of 10 s, one poll, and some time to work
    assert survivor.metrics().sum("outboxd_lease_expired_total") == 100
    assert set(outbox.numbers(101)) == set(range(100))
    assert survivor.metrics().sum("outboxd_possible_duplicates_total", window="crash_recovered") == 100


@pytest.mark.limit(180)
def test_F019_work_does_not_outlive_the_lease(outbox, proxy):
    """Half a second to the database and back, large rows, two relays: rows without time left are given back."""
    proxy.delay = 0.25
    relays = [outbox.relay({"batch": 500, "poll": "200ms"}, postgres={"dsn": outbox.database.dsn(port=proxy.port)})
              for _ in range(2)]
    outbox.fill(600, keys=600, payload="jsonb_build_object('n', n, 'text', repeat('x', 100000))")
    for relay in relays:
        relay.start(ready=False)
    outbox.wait_sent(600, deadline=120)
    numbers = outbox.numbers(600)
    assert sorted(numbers) == list(range(1, 601))
