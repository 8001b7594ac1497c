"""What happens at the edges: refused settles, retries behind a long poll, a breaker that nothing closes."""
import time

from rig.outbox import number
from rig.wait import stays, wait_until

ONE_A_REQUEST = {"kafka": {"properties": {"batch.num.messages": "1"}}}


def start(outbox, source=None, **more):
    """A relay that has delivered a first row."""
    relay = outbox.relay({"poll": "200ms", **(source or {})}, **more).start()
    outbox.insert(1, "warm", event_type="warm")
    outbox.wait_sent(1)
    return relay


def test_a_row_that_had_to_be_forgotten_still_blocks_its_key(mock_outbox, mock):
    """Nothing can be written about it, so only its lease ends it; until then it must hinder its own process too."""
    relay = start(mock_outbox)
    mock_outbox.database.execute("ALTER TABLE event_outbox ADD CHECK (event_type <> 'stuck' OR status IN ('PENDING', 'SENDING'))")
    mock.fail("Produce", "INVALID_RECORD")
    mock_outbox.insert(1, "K", event_type="stuck")
    relay.wait_event("settle_refused", count=3)
    behind, = mock_outbox.insert(1, "K")
    other, = mock_outbox.insert(1, "other")
    wait_until(lambda: mock_outbox.row(other)["status"] == "SENT", 5)
    stays(lambda: mock_outbox.row(behind)["status"] == "PENDING", 3)


def test_F037_uuids_have_an_order_of_their_own(mock_outbox):
    """Of random ones that is not the order in which they were written: the relay says so, and keeps to it."""
    mock_outbox.relay()
    mock_outbox.database.execute("ALTER TABLE event_outbox ALTER id DROP IDENTITY; ALTER TABLE event_outbox"
                                 " ALTER id TYPE uuid USING gen_random_uuid(), ALTER id SET DEFAULT gen_random_uuid()")
    mock_outbox.insert(100)
    relay = mock_outbox.start()
    assert "columns.order" in relay.wait_event("order_by_uuid")["text"]
    mock_outbox.wait_sent(100)
    ordered = [n for n, in mock_outbox.database.all("SELECT (payload ->> 'n')::int FROM event_outbox ORDER BY id")]
    assert mock_outbox.numbers(100) == ordered != sorted(ordered)


def test_retries_do_not_wait_for_a_long_poll(mock_outbox, mock):
    """They are due at different times: a claim at the first one's must not leave the others to the poll."""
    start(mock_outbox, {"poll": "60s", "retry": {"initial": "1s", "multiplier": 1, "jitter": 0.5, "max_attempts": 3}},
          **ONE_A_REQUEST)
    mock.fail("Produce", "INVALID_REQUEST", 20)
    mock_outbox.insert(20, key=lambda n: f"k{n}")
    mock_outbox.wait_sent(21, deadline=20)


def test_readiness_comes_back_when_there_is_nothing_to_try(mock_outbox, mock):
    """A message timed out, and its row is gone (or another instance took it): no row is left that could show that all is well."""
    relay = start(mock_outbox, {"lease": "8s"}, kafka={"message_timeout": "2s"})
    mock.slow("Produce", 5000)
    number, = mock_outbox.insert(1, "K")
    wait_until(lambda: mock_outbox.row(number)["status"] == "SENDING", 5)
    mock_outbox.database.execute("DELETE FROM event_outbox WHERE id = %s", (number,))
    wait_until(lambda: not relay.ready(), 10, "unready while messages time out")
    wait_until(relay.ready, 20, lambda: relay.get("/readyz"))


def test_F063_waiting_for_a_server_that_is_away_costs_nothing(mock_outbox, cluster):
    relay = mock_outbox.relay()
    cluster.stop()
    relay.start(ready=False)
    relay.wait_event("started")

    def switches():
        status = open(f"/proc/{relay.pid}/status").read().splitlines()
        return sum(int(line.split()[1]) for line in status if line.startswith("voluntary_ctxt_switches"))

    time.sleep(1)
    before = switches()
    time.sleep(3)
    assert switches() - before < 90
    cluster.start()
    relay.wait_ready()


def test_little_memory_does_not_wait_for_a_long_poll(mock_outbox, mock):
    """Claims meet rows of keys that are in memory, and settles free them: neither may miss the other."""
    mock_outbox.relay({"poll": "30s", "batch": 1, "max_in_flight": 2, "on_failed": "continue"}).start()
    mock_outbox.fill(300, keys=7)
    for code in ("INVALID_RECORD", "INVALID_REQUEST", "TOPIC_AUTHORIZATION_FAILED", "INVALID_REQUEST"):
        mock.fail("Produce", code, 2)
        time.sleep(.15)
    wait_until(lambda: mock_outbox.states().get("SENT", 0) >= 298, 29, mock_outbox.states)


def test_what_is_reported_without_an_offset_is_sent_again(mock_outbox, mock):
    """After some refusals librdkafka takes messages for delivered because a later one was; they may never have been written.
    It does so if the later one is under way by then: the refusal comes late, on a new partition each time, until it did."""
    topics = [mock.create_topic() for _ in range(10)]
    relay = mock_outbox.relay({"batch": 2, "max_in_flight": 20, "ordering": "none", "poll": "200ms", "topic": "{event_type}"}).start()
    for done, topic in enumerate(topics, 1):
        mock.slow("Produce", 500, "NOT_ENOUGH_REPLICAS")
        mock_outbox.fill(20, event_type=f"'{topic}'")
        mock_outbox.wait_sent(20 * done)
        assert {number(each) for each in mock.read(topic, 20)} == set(range(1, 21))
        if relay.metrics().value("outboxd_possible_duplicates_total", window="timed_out") >= 1:
            break
    else:
        raise AssertionError("the library did not do it once")
    assert mock_outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1
