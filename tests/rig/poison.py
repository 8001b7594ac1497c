"""Rows that no broker takes, of every kind, among good ones: what becomes of them, and that nobody else notices.

The good rows go to the same topics as the poison, so that they are in the same requests; each key has its own topic."""
import collections
import json

from .flow import Writer, check_arrivals, check_relays
from .outbox import number
from .wait import wait_until

LIMIT = 6000  # bytes, of one topic; the producer's own is 1 000 000
ROUNDS = 5
SOURCE = {"topic": "{event_type}", "columns": {"partition": "part"}, "on_failed": "continue", "poll": "200ms"}
# A row that is put back comes again after 1 s; as much again for a busy machine.
LATE_SECONDS = 2
GOOD = ("plain", "small", "compact")


def make_topics(broker):
    """{name here: name there}. Records have the time of their arrival."""
    times = {"message_timestamp_type": "LogAppendTime"}
    topics = {"plain": broker.create_topic(**times),
              "small": broker.create_topic(max_message_bytes=LIMIT, **times),
              "compact": broker.create_topic(cleanup_policy="compact", **times),
              "denied": broker.create_topic()}
    broker.allow_only(topics["denied"], "Read")
    return {**topics, "missing": topics["plain"] + "-missing"}


def poison(topics):
    """(columns of a row, its state in the end, how its error begins)."""
    def text(length):
        return json.dumps({"n": -1, "text": "x" * length})

    return [
        ({"event_type": topics["plain"], "payload": text(1_000_000)}, "FAILED", "MSG_SIZE_TOO_LARGE: "),
        ({"event_type": topics["small"], "payload": text(LIMIT)}, "FAILED", "MSG_SIZE_TOO_LARGE: "),
        ({"event_type": topics["compact"], "aggregate_id": None}, "FAILED", "INVALID_RECORD: "),
        ({"event_type": "no name!"}, "FAILED", 'INVALID_RECORD: invalid topic name "no name!"'),
        ({"event_type": topics["plain"], "part": 99}, "FAILED", "_UNKNOWN_PARTITION: "),
        ({"event_type": topics["plain"], "headers": "[1]"}, "FAILED", "INVALID_RECORD: "),
        ({"event_type": topics["denied"]}, "PENDING", "TOPIC_AUTHORIZATION_FAILED: "),
        ({"event_type": topics["missing"]}, "PENDING", "UNKNOWN_TOPIC"),
    ]


def run(outbox, window, more=lambda: None):
    """Good rows without pause, and all the poison again and again; more() is called in the middle of it."""
    topics = make_topics(outbox.broker)
    kinds = poison(topics)
    relay = outbox.start({**SOURCE, **window}, kafka={"properties": {"batch.num.messages": "2"}})
    names = "[" + ", ".join(f"'{topics[name]}'" for name in GOOD) + "]"
    with Writer(outbox, rate=300, aggregate_id="'k' || n % 30", event_type=f"(ARRAY{names})[n % 3 + 1]") as writer:
        bad = []
        for turn in range(ROUNDS):
            writer.wait_rows(150 * (turn + 1))
            bad.append([insert(outbox, columns, f"p{turn}-{n}") for n, (columns, _, _) in enumerate(kinds)])
            if turn == ROUNDS // 2:
                more()
        writer.wait_rows(150 * (ROUNDS + 2))
        rows = writer.stop()
    wait_until(lambda: pending(outbox, topics) == 0, 30, outbox.states)
    check_poison(outbox, kinds, bad)
    check_good(outbox, topics, relay, rows)
    check_told(relay, topics)


def insert(outbox, columns, key):
    number, = outbox.insert(1, **{"key": columns.get("aggregate_id", key), "payload": '{"n": -1}',
                                  **{name: value for name, value in columns.items() if name != "aggregate_id"}})
    return number


def pending(outbox, topics):
    """Rows of the good topics on their way."""
    return outbox.database.value("SELECT count(*) FROM event_outbox WHERE event_type = ANY (%s) AND status IN ('PENDING', 'SENDING')",
                                 ([topics[name] for name in GOOD],))


def check_poison(outbox, kinds, bad):
    """Failed with the reason after one attempt; or waiting with none spent."""
    for numbers in bad:
        for row, (columns, state, error) in zip(numbers, kinds):
            wait_until(lambda: outbox.row(row)["status"] == state, 10, lambda: (columns.keys(), outbox.row(row)))
            found = outbox.row(row)
            assert found["attempts"] == (1 if state == "FAILED" else 0), found
            assert (found["last_error"] or "").lstrip("_").startswith(error.lstrip("_")), found


def check_good(outbox, topics, relay, rows):
    """All sent at the first attempt, in order, none twice, none late for the poison's sake."""
    good = outbox.database.all("SELECT event_type, aggregate_id, (payload ->> 'n')::int, attempts, status,"
                               " extract(epoch FROM created_at)::float FROM event_outbox WHERE payload ->> 'n' <> '-1' ORDER BY id")
    assert len(good) == rows
    assert {(status, attempts) for _, _, _, attempts, status, _ in good} == {("SENT", 1)}
    wanted = collections.defaultdict(lambda: collections.defaultdict(list))
    for event_type, key, n, _, _, _ in good:
        wanted[event_type][key.encode()].append(n)
    records = {topics[name]: outbox.broker.read(topics[name], at_least=1) for name in GOOD}
    for topic, found in records.items():
        assert check_arrivals(found, wanted[topic]) == 0
    check_relays([relay], 0)
    created = {n: seconds for _, _, n, _, _, seconds in good}
    late = sorted(each.timestamp / 1000 - created[number(each)] for found in records.values() for each in found)
    assert late[-1] < LATE_SECONDS, f"the latest {late[-10:]}, the median {late[len(late) // 2]}"


def check_told(relay, topics):
    """The topics with a fault, and no other one."""
    faults = {each["topic"]: each["error"].lstrip("_") for each in json.loads(relay.get("/status")[1])["daemon"]["topic_faults"]}
    assert faults.keys() == {topics["denied"], topics["missing"]}
    assert faults[topics["denied"]] == "TOPIC_AUTHORIZATION_FAILED" and faults[topics["missing"]].startswith("UNKNOWN_TOPIC")
    assert relay.metrics().value("outboxd_topic_faults") == 2
