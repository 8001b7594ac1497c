"""Order by key with a record in the middle that Kafka refuses, while rows keep coming."""
import pytest

from rig.flow import WINDOWS, Writer, check_order, check_relays, settle
from rig.wait import stays, wait_until

POISON = (400, 801)  # with ten keys: of two different ones
LIMIT = 500_000  # of the topic; the producer's own is 1 000 000
LARGE = f"CASE WHEN n IN {POISON} THEN jsonb_build_object('n', n, 'text', repeat('x', 600000)) ELSE jsonb_build_object('n', n) END"
ROWS = 1200
# Many small requests, five of them in flight: what follows a refused one is with the broker already.
SMALL_REQUESTS = {"kafka": {"properties": {"batch.num.messages": "10"}}}

both_windows = pytest.mark.parametrize("window", WINDOWS)
few_keys = pytest.mark.parametrize("keys", [1, 10])


def attempts(outbox):
    return dict(outbox.database.all("SELECT attempts, count(*)::int FROM event_outbox GROUP BY 1"))


@both_windows
@few_keys
def test_F033_F044_all_but_the_poison_go_on_in_order(outbox, window, keys):
    outbox.topic = outbox.broker.create_topic(max_message_bytes=LIMIT)
    relay = outbox.start({**WINDOWS[window], "on_failed": "continue"}, **SMALL_REQUESTS)
    with Writer(outbox, keys, payload=LARGE) as writer:
        writer.wait_rows(ROWS)
        rows = writer.stop()
    settle(outbox)
    repeats = check_order(outbox, rows, {n: "MSG_SIZE_TOO_LARGE" for n in POISON})
    assert repeats == 0
    assert attempts(outbox) == {1: rows}
    check_relays([relay], repeats)


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
    retried, skipped = POISON
    with Writer(outbox, keys, payload=LARGE, backlog=3000) as writer:
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


@both_windows
def test_F033_F045_a_record_without_key_on_a_compacted_topic(outbox, window):
    """The broker refuses the whole batch it comes in, with rows that have keys and nothing to do with it."""
    outbox.topic = outbox.broker.create_topic(cleanup_policy="compact")
    relay = outbox.start({**WINDOWS[window], "on_failed": "continue"}, **SMALL_REQUESTS)
    keyless = f"CASE WHEN n IN {POISON} THEN NULL ELSE 'k' || n % 10 END"
    with Writer(outbox, aggregate_id=keyless) as writer:
        writer.wait_rows(ROWS)
        rows = writer.stop()
    settle(outbox)
    assert check_order(outbox, rows, {n: "INVALID_RECORD" for n in POISON}) == 0
    assert attempts(outbox) == {1: rows}
    check_relays([relay], 0)
