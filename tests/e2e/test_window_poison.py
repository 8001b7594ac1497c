"""Order by key with a record in the middle that Kafka refuses, while rows keep coming."""
import pytest

from rig.flow import WINDOWS, Writer, check_order, check_relays, settle
from rig.wait import stays, wait_until

LIMIT = 6000  # bytes, of the topic; the producer's own is 1 000 000
POISON, ROWS = 600, 1200
# What follows a refused request is with the broker already: librdkafka 2.0 sends one more for a partition only while less
# than five messages are in flight.
SMALL_REQUESTS = {"kafka": {"properties": {"batch.num.messages": "2"}}}


def large(*poison):
    """Payloads, some of which are too large."""
    return (f"CASE WHEN n = ANY ('{{{','.join(map(str, poison))}}}') THEN jsonb_build_object('n', n, 'text', repeat('x', 8000))"
            " ELSE jsonb_build_object('n', n) END")


both_windows = pytest.mark.parametrize("window", WINDOWS)
few_keys = pytest.mark.parametrize("keys", [1, 10])


def attempts(outbox):
    return dict(outbox.database.all("SELECT attempts, count(*)::int FROM event_outbox GROUP BY 1"))


def check(outbox, relay, rows, failed):
    """The poison failed, and nothing else is any different for it."""
    settle(outbox)
    assert check_order(outbox, rows, failed) == 0
    assert attempts(outbox) == {1: rows}
    check_relays([relay], 0)


@both_windows
@few_keys
def test_F033_F044_all_but_the_poison_go_on_in_order(outbox, window, keys):
    outbox.topic = outbox.broker.create_topic(max_message_bytes=LIMIT)
    relay = outbox.start({**WINDOWS[window], "on_failed": "continue"}, **SMALL_REQUESTS)
    with Writer(outbox, keys, payload=large(POISON)) as writer:
        writer.wait_rows(ROWS)
        rows = writer.stop()
    check(outbox, relay, rows, {POISON: "MSG_SIZE_TOO_LARGE"})


@both_windows
def test_F033_F045_a_record_without_key_on_a_compacted_topic(outbox, window):
    """The broker refuses the whole batch it comes in, with rows that have keys and nothing to do with it."""
    outbox.topic = outbox.broker.create_topic(cleanup_policy="compact")
    relay = outbox.start({**WINDOWS[window], "on_failed": "continue"}, **SMALL_REQUESTS)
    with Writer(outbox, aggregate_id=f"CASE WHEN n = {POISON} THEN NULL ELSE 'k' || n % 10 END") as writer:
        writer.wait_rows(ROWS)
        rows = writer.stop()
    check(outbox, relay, rows, {POISON: "INVALID_RECORD"})


@both_windows
def test_F033_F044_the_first_record_of_a_partition_is_refused(outbox, broker, window):
    """Before the first one a broker cannot know of a gap, and would take what follows: it stands still until it has both."""
    outbox.topic = outbox.broker.create_topic(partitions=2, max_message_bytes=LIMIT)
    relay = outbox.start({**WINDOWS[window], "on_failed": "continue", "columns": {"partition": "part"}}, **SMALL_REQUESTS)
    outbox.insert(1, "warm", payload='{"n": -1}', part=1)
    outbox.wait_sent(1)
    broker.suspend()
    with Writer(outbox, part="0", payload=large(0)) as writer:
        wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") > 0, 10, lambda: relay.metrics().page)
        stays(relay.alive, 1)
        broker.resume()
        writer.wait_rows(ROWS)
        rows = writer.stop()
    check(outbox, relay, rows + 1, {0: "MSG_SIZE_TOO_LARGE"})


def test_F045_a_neighbour_s_poison_fails_nobody_else(outbox, make_relay):
    """Two sources share a producer and a topic, so that a refused batch has rows of both, each the only one of its source."""
    outbox.topic = outbox.broker.create_topic(cleanup_policy="compact")
    config = outbox.config({"on_failed": "continue"}, kafka={"properties": {"linger.ms": "100"}})
    config["sources"].append({**config["sources"][0], "name": "others", "table": "public.other_outbox"})
    relay = make_relay(config)
    outbox.apply_schema(relay.file)
    relay.start()
    for rows in range(1, 6):
        outbox.database.execute("WITH poison AS (INSERT INTO event_outbox (event_type, payload) VALUES ('e', '{}'))"
                                " INSERT INTO other_outbox (aggregate_id, event_type, payload) VALUES ('k', 'e', '{}')")
        outbox.wait_states({"FAILED": rows})
        wait_until(lambda: outbox.database.states("other_outbox") == {"SENT": rows}, 30,
                   lambda: outbox.database.all("SELECT id, status, last_error FROM other_outbox"))
    assert len(outbox.records(5)) == 5


def blocked(outbox, poison):
    """The row has failed and everything else of its key behind it is pending."""
    number, key = outbox.database.one("SELECT id, aggregate_id FROM event_outbox WHERE (payload ->> 'n')::int = %s", (poison,))
    states = dict(outbox.database.all("SELECT status, count(*)::int FROM event_outbox WHERE aggregate_id = %s AND id > %s GROUP BY 1",
                                      (key, number)))
    return outbox.row(number)["status"] == "FAILED" and set(states) == {"PENDING"}


def decide(outbox, poison, change):
    """By hand, as README says."""
    outbox.database.execute(f"UPDATE event_outbox SET {change} WHERE (payload ->> 'n')::int = %s AND status = 'FAILED'", (poison,))


def wait_unparked(outbox, condition, deadline=40):
    """What is parked behind a row that was decided about comes back within minutes: this does not wait for that."""
    def pull():
        outbox.database.execute("UPDATE event_outbox SET available_at = now() WHERE status = 'PENDING' AND available_at > now()")
        return condition()

    wait_until(pull, deadline, outbox.states, every=1)


@both_windows
@few_keys
def test_F033_F044_what_is_behind_the_poison_waits_for_a_decision(outbox, window, keys):
    outbox.topic = outbox.broker.create_topic(max_message_bytes=LIMIT)
    relay = outbox.start(WINDOWS[window], **SMALL_REQUESTS)
    retried, skipped = 400, 801  # with ten keys: of two different ones
    with Writer(outbox, keys, payload=large(retried, skipped), backlog=3000) as writer:
        writer.wait_rows(ROWS)
        wait_until(lambda: blocked(outbox, retried), 30, outbox.states)
        stays(lambda: blocked(outbox, retried), 1)
        decide(outbox, retried, "payload = '{\"n\": %d}', status = 'PENDING', attempts = 0, available_at = now()" % retried)
        wait_unparked(outbox, lambda: blocked(outbox, skipped))
        rows = writer.stop()
    decide(outbox, skipped, "settled_at = now()")
    wait_unparked(outbox, lambda: set(outbox.states()) == {"SENT", "FAILED"})
    assert check_order(outbox, rows, {skipped: "MSG_SIZE_TOO_LARGE"}) == 0
    assert attempts(outbox) == {1: rows}
    check_relays([relay], 0)
