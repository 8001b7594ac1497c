"""Errors that a broker answers with, on the mock broker: who is to blame, what waits, what is tried again."""
import json
import re
import time

import pytest

from rig.outbox import disorder, header
from rig.wait import stays, wait_until

FAST = {"poll": "200ms", "retry": {"initial": "300ms", "multiplier": 1, "max_attempts": 5}}
# UNKNOWN is an error that the library does not retry by itself and that nobody is to blame for.
# One record a request, so that an error answers one row.
ONE_A_REQUEST = {"kafka": {"properties": {"batch.num.messages": "1"}}}


def start(outbox, source=None, **more):
    """A relay that has delivered a first row: its producer is there, and the next request is the test's."""
    relay = outbox.relay({**FAST, **(source or {})}, **more).start()
    outbox.insert(1, "warm", payload='{"n": -1}', event_type=outbox.topic)
    outbox.wait_sent(1)
    return relay


def delivered(outbox, count):
    """The records behind the first one."""
    return [each for each in outbox.records(count + 1) if each.key != b"warm"]


def test_F025_F030_how_long_rows_wait(mock_outbox, mock):
    """Whatever their attempts; a thousand that fail at once do not come back at once. Attempts do not wrap: with the largest
    number there is they have run out."""
    many = [30, 31, 32, 62, 63, 64, 1000, 2147483645]
    source = {"retry": {"initial": "60s", "max": "5m", "max_attempts": 2147483647}}
    start(mock_outbox, source)
    mock_outbox.relay({**FAST, **source}).start()
    database = mock_outbox.database
    begin = database.value("SELECT clock_timestamp()")
    for _ in range(3):
        mock.fail("Produce", "UNKNOWN", 1000)
    mock_outbox.insert(len(many), key=lambda n: f"m{n}", attempts=lambda n: many[n])
    last, = mock_outbox.insert(1, "last", attempts=2147483646)
    mock_outbox.fill(1000, keys=1000)
    wait_until(lambda: database.value("SELECT count(*) FROM event_outbox WHERE last_error LIKE 'UNKNOWN: %'") == 1000 + len(many) + 1,
               40, mock_outbox.states)
    rows = database.all("SELECT attempts, extract(epoch FROM available_at - %s)::float, extract(epoch FROM available_at - clock_timestamp())::float"
                        " FROM event_outbox WHERE status = 'PENDING'", (begin,))
    assert sorted(attempts for attempts, _, _ in rows if attempts > 1) == [attempts + 1 for attempts in many]
    assert (mock_outbox.row(last)["status"], mock_outbox.row(last)["attempts"]) == ("FAILED", 2147483647)
    for attempts, since_begin, from_now in rows:
        wait = 60 if attempts == 1 else 300
        assert since_begin >= 0.8 * wait and from_now <= 1.2 * wait, (attempts, since_begin, from_now)
    waits = [since_begin for attempts, since_begin, _ in rows if attempts == 1]
    assert len(waits) == 1000 and max(waits) - min(waits) > 6


def test_F032_a_retried_row_is_not_overtaken(mock_outbox, mock):
    relay = start(mock_outbox)
    other = mock_outbox.relay(FAST).start()  # looks at the same rows all the while
    mock.fail("Produce", "UNKNOWN")
    mock_outbox.insert(2, "K")
    mock_outbox.wait_sent(3)
    assert [json.loads(each.value)["n"] for each in delivered(mock_outbox, 2)] == [0, 1]
    assert relay.metrics().sum("outboxd_retries_total") + other.metrics().sum("outboxd_retries_total") == 1


def test_F032_other_keys_go_on_meanwhile(mock_outbox, mock):
    start(mock_outbox, {"retry": {"initial": "3s"}}, **ONE_A_REQUEST)
    mock.fail("Produce", "UNKNOWN")
    first, second = mock_outbox.insert(2, "K")
    wait_until(lambda: mock_outbox.row(first)["attempts"] == 1 and mock_outbox.row(first)["status"] == "PENDING", 10)
    others = mock_outbox.insert(5, key=lambda n: f"o{n}")
    wait_until(lambda: all(mock_outbox.row(each)["status"] == "SENT" for each in others), 2, "the other keys")
    assert mock_outbox.row(second)["status"] == "PENDING" and mock_outbox.row(second)["attempts"] == 0
    mock_outbox.wait_sent(8, deadline=15)
    assert disorder(delivered(mock_outbox, 7)) == []


def test_F033_a_failed_report_among_rows_of_one_key(mock_outbox, mock):
    """Rows 1 to 5 are claimed together, and the first one's request alone is answered with an error."""
    start(mock_outbox, {"on_failed": "continue"},
          kafka={"properties": {"batch.num.messages": "1", "linger.ms": "200"}})
    mock.fail("Produce", "UNKNOWN")
    mock_outbox.insert(5, "K", payload=lambda n: json.dumps({"n": n + 1}))
    mock_outbox.wait_sent(6)
    assert [json.loads(each.value)["n"] for each in delivered(mock_outbox, 5)] == [1, 2, 3, 4, 5]


def test_F033_a_rejected_row_fails_before_the_next_goes(mock_outbox, mock):
    start(mock_outbox, {"on_failed": "continue"}, kafka={"properties": {"message.max.bytes": "2000"}})
    mock_outbox.insert(3, "K", payload=lambda n: json.dumps({"n": n, "text": "x" * (3000 if n == 0 else 10)}))
    mock_outbox.wait_states({"SENT": 3, "FAILED": 1})
    assert [json.loads(each.value)["n"] for each in delivered(mock_outbox, 2)] == [1, 2]
    assert mock_outbox.database.value("SELECT last_error FROM event_outbox WHERE status = 'FAILED'").startswith("MSG_SIZE")


def test_F040_F042_what_times_out_in_the_librarys_queue(mock_outbox, mock):
    """The partition has no leader: surely nothing was written. The row waits with that reason, and arrives once."""
    relay = start(mock_outbox, {"lease": "7s"}, kafka={"message_timeout": "1s"})
    mock.ask("leader", mock_outbox.topic, 0, -1)
    number, = mock_outbox.insert(1, "K")
    assert relay.wait_event("row_released")["written"] == "no"
    wait_until(lambda: mock_outbox.row(number)["last_error"], 5, lambda: mock_outbox.row(number))
    row = mock_outbox.row(number)
    assert (row["status"], row["attempts"]) in [("PENDING", 0), ("SENDING", 1)] and row["settled_at"] is None
    assert row["last_error"].startswith("_MSG_TIMED_OUT: ")
    mock.ask("leader", mock_outbox.topic, 0, 1)
    mock_outbox.wait_sent(2)
    row = mock_outbox.row(number)
    assert row["attempts"] == 1 and row["last_error"] is None
    assert len(delivered(mock_outbox, 1)) == 1 and relay.metrics().sum("outboxd_possible_duplicates_total") == 0


def test_F041_an_authorisation_error_leaves_a_trace(mock_outbox, mock):
    relay = start(mock_outbox)
    mock.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    number, = mock_outbox.insert(1, "K")
    line = relay.wait_event("topic_refused")
    assert (line["id"], line["topic"], line["error"]) == (str(number), mock_outbox.topic, "TOPIC_AUTHORIZATION_FAILED")
    assert relay.metrics().value("outboxd_retries_total", error="TOPIC_AUTHORIZATION_FAILED") == 1
    wait_until(lambda: (mock_outbox.row(number)["last_error"] or "").startswith("TOPIC_AUTHORIZATION_FAILED")
               or mock_outbox.row(number)["status"] == "SENT", 5)
    mock_outbox.wait_sent(2, deadline=15)
    assert mock_outbox.row(number)["attempts"] == 1  # the topic's fault costs none
    assert len(relay.events("topic_refused")) == 1


def test_F042_a_late_answer_is_a_possible_repeat(mock_outbox, mock):
    """The broker answers after the delivery timeout: the row is sent again, under the same id, and that is counted."""
    relay = start(mock_outbox, {"lease": "8s"}, kafka={"message_timeout": "2s"})
    mock.slow("Produce", 5000)
    number, = mock_outbox.insert(1, "K")
    mock_outbox.wait_sent(2, deadline=30)
    records = delivered(mock_outbox, 2)
    assert 1 <= len(records) <= 2
    assert len({header(each, "event_id") for each in records}) == 1
    assert relay.metrics().sum("outboxd_possible_duplicates_total") >= 1
    assert mock_outbox.row(number)["status"] == "SENT"
    assert {line["written"] for line in relay.events("row_released")} == {"perhaps"}


def test_F043_a_dead_producer_is_replaced(mock_outbox, mock):
    relay = start(mock_outbox)
    mock.fail("Produce", "OUT_OF_ORDER_SEQUENCE_NUMBER")
    mock_outbox.insert(100, key=lambda n: f"k{n}")
    mock_outbox.wait_sent(101, deadline=60)
    assert {json.loads(each.value)["n"] for each in delivered(mock_outbox, 100)} == set(range(100))
    assert relay.metrics().value("outboxd_producer_replacements_total", reason="fatal") == 1
    assert relay.wait_event("producer_replaced")
    assert mock_outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


@pytest.mark.parametrize("codes", [["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"], ["NOT_LEADER_FOR_PARTITION"],
                                   ["REQUEST_TIMED_OUT"]], ids=lambda codes: codes[0])
def test_F050_passing_errors_cost_no_attempt(mock_outbox, mock, codes):
    start(mock_outbox)
    for code in codes:
        mock.fail("Produce", code, 5)
    mock_outbox.insert(5, "K")
    mock_outbox.wait_sent(6, deadline=40)
    assert mock_outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1
    assert disorder(delivered(mock_outbox, 5)) == []


def test_F050_F054_too_few_replicas_for_too_long(mock_outbox, mock):
    """An outage, and not the rows' fault; and what was appended may have been written. All this is told once."""
    relay, database = start(mock_outbox, {"lease": "7s"}, kafka={"message_timeout": "1s"}), mock_outbox.database
    since, begin = relay.lines(), time.monotonic()
    mock.fail("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", 1000)
    mock_outbox.fill(100, keys=100)
    assert relay.wait_event("row_released")["written"] == "perhaps"
    wait_until(lambda: "kafka" in relay.get("/readyz")[1], 5, lambda: relay.get("/readyz"))

    def wait():
        rows = database.all("SELECT status, attempts FROM event_outbox WHERE aggregate_id <> 'warm'")
        assert set(rows) <= {("PENDING", 0), ("SENDING", 1)}, rows
        return True

    stays(wait, 4)
    relay.check_told(since, begin)
    assert database.value("SELECT DISTINCT last_error FROM event_outbox WHERE last_error IS NOT NULL AND last_error NOT LIKE '_PURGE%'"
                          ) == "_MSG_TIMED_OUT: Local: Message timed out"
    assert relay.metrics().value("outboxd_possible_duplicates_total", window="timed_out") >= 1
    mock.clear("Produce")
    mock_outbox.wait_sent(101, deadline=20)
    assert database.one("SELECT max(attempts), count(last_error) FROM event_outbox") == (1, 0)


def test_F049_an_unknown_topic_at_first_fails_nothing(mock_outbox, mock):
    start(mock_outbox)
    mock.fail("Produce", "UNKNOWN_TOPIC_OR_PART", 3)
    mock_outbox.insert(3, "K")
    mock_outbox.wait_sent(4, deadline=40)
    assert mock_outbox.database.value("SELECT max(attempts) FROM event_outbox") == 1


def test_attempts_run_out(mock_outbox, mock):
    """An error of this one message, again and again: failed after the last attempt, with its reason; the key is blocked."""
    relay = start(mock_outbox, {"retry": {"initial": "100ms", "multiplier": 1, "max_attempts": 3}}, **ONE_A_REQUEST)
    mock.fail("Produce", "UNKNOWN", 3)
    first, second = mock_outbox.insert(2, "K")
    wait_until(lambda: mock_outbox.row(first)["status"] == "FAILED", 20, lambda: mock_outbox.row(first))
    row = mock_outbox.row(first)
    assert row["attempts"] == 3 and row["last_error"].startswith("UNKNOWN")
    stays(lambda: mock_outbox.row(second)["status"] == "PENDING", 1)
    assert relay.metrics().value("outboxd_failed_total", error="UNKNOWN") == 1
    assert relay.metrics().value("outboxd_settled_total", outcome="retry") == 2


def test_a_topic_that_refuses_stops_nobody_else(mock_outbox, mock):
    relay = start(mock_outbox, {"topic": "{event_type}"})
    good = mock_outbox.topic
    bad = mock.create_topic()
    mock_outbox.insert(1, "first", event_type=good)
    mock_outbox.wait_states({"SENT": 2})
    mock.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", 1)
    held, = mock_outbox.insert(1, "b", event_type=bad)
    relay.wait_event("topic_refused")
    numbers = mock_outbox.insert(20, key=lambda n: f"g{n}", event_type=good)
    wait_until(lambda: all(mock_outbox.row(each)["status"] == "SENT" for each in numbers), 2, "rows of the good topic")
    wait_until(lambda: mock_outbox.row(held)["status"] == "SENT", 15, lambda: mock_outbox.row(held))


def test_the_log_holds_no_payload(mock_outbox, mock):
    relay = start(mock_outbox, log={"level": "debug"})
    mock.fail("Produce", "INVALID_RECORD", count=5)  # also when it is tried alone
    mock_outbox.insert(1, "K", payload=json.dumps({"secret": "p4yl0ad"}))
    mock_outbox.wait_states({"SENT": 1, "FAILED": 1})
    assert not re.search("p4yl0ad", relay.log())
