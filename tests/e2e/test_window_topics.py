"""Order by key while one topic is out of order and another one, served by the same source, is fine."""
import collections

import pytest

from rig.flow import WINDOWS, Writer, check_arrivals, check_relays, check_table, settle
from rig.outbox import number
from rig.wait import wait_until

pytestmark = [pytest.mark.parametrize("window", WINDOWS)]

# Rows of keys g0 to g9 go to the good topic, those of b0 to b9 to the other, those of m to both by turns.
KEYS = "CASE n % 4 WHEN 0 THEN 'b' || n / 4 % 10 WHEN 1 THEN 'm' ELSE 'g' || n / 4 % 10 END"
SOURCE = {"topic": "{event_type}", "poll": "200ms"}
QUICK = {"kafka": {"properties": {"batch.num.messages": "2"}}}
REPLACEMENTS = 1  # of the producer, at most: a topic's fault comes back again and again, and must not cost one each time


@pytest.fixture
def topics(broker):
    """(good, bad), whose records have the time of their arrival."""
    return [broker.create_topic(message_timestamp_type="LogAppendTime") for _ in range(2)]


def write(outbox, topics):
    good, bad = topics
    return Writer(outbox, rate=400, aggregate_id=KEYS,
                  event_type=f"CASE WHEN n % 4 = 0 OR n % 8 = 5 THEN '{bad}' ELSE '{good}' END")


def sent(outbox, topic, keys="%"):
    return outbox.database.value("SELECT count(*) FROM event_outbox WHERE status = 'SENT' AND event_type = %s"
                                 " AND aggregate_id LIKE %s", (topic, keys))


def wait_sent(outbox, topic, keys="%", more=200, deadline=30):
    before = sent(outbox, topic, keys)
    wait_until(lambda: sent(outbox, topic, keys) >= before + more, deadline,
               lambda: f"{more} rows {keys} of {topic} more than {before}; {sent(outbox, topic, keys)}, {outbox.states()}")


def check(outbox, broker, topics, relay, rows, suffix=False):
    """suffix: the bad topic was made anew, and has only what came later."""
    wanted = check_table(outbox, rows)
    records = [broker.read(topic, at_least=0 if suffix else 1) for topic in topics]
    repeats = [check_arrivals(found, wanted[topic], suffix=suffix and topic == topics[1])
               for topic, found in zip(topics, records)]
    check_between_topics([each for found in records for each in found if each.key == b"m"])
    check_relays([relay], sum(repeats))
    assert relay.metrics().sum("outboxd_producer_replacements_total") <= REPLACEMENTS


def check_between_topics(records):
    """No row of a key was on its topic before an older one was on another."""
    first = collections.defaultdict(lambda: float("inf"))
    for each in records:
        first[number(each)] = min(first[number(each)], each.timestamp)
    numbers = sorted(first)
    wrong = [(a, b) for a, b in zip(numbers, numbers[1:]) if first[a] > first[b]]
    assert wrong == []


def run(outbox, topics, window, harm, heal):
    """Rows for both topics, one of which is harmed for a while. Returns the relay and how many rows there are."""
    good, bad = topics
    relay = outbox.start({**SOURCE, **WINDOWS[window]}, **QUICK)
    with write(outbox, topics) as writer:
        wait_sent(outbox, good)
        harm()
        relay.wait_event("topic_refused", 30, topic=bad)
        wait_sent(outbox, good, "g%", 400)
        heal()
        wait_sent(outbox, bad, more=50, deadline=40)
        wait_sent(outbox, good)
        rows = writer.stop()
    settle(outbox)
    return relay, rows


def test_a_topic_is_deleted_and_made_again(outbox, broker, topics, window):
    bad = topics[1]
    relay, rows = run(outbox, topics, window, lambda: broker.delete_topic(bad),
                      lambda: broker.create_topic(bad, message_timestamp_type="LogAppendTime"))
    check(outbox, broker, topics, relay, rows, suffix=True)


def test_a_topic_that_may_not_be_written_for_a_while(outbox, broker, topics, window):
    bad = topics[1]
    relay, rows = run(outbox, topics, window, lambda: broker.allow_only(bad, "Read"), lambda: broker.allow_all(bad))
    check(outbox, broker, topics, relay, rows)
