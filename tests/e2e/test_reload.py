"""Reloads while rows flow: order and every row are kept, whatever changes."""
import itertools
import random

import pytest

from rig.flow import WINDOWS, Writer, check_arrivals, check_relays, check_table, settle, wait_flow
from rig.outbox import number
from rig.scale import LONG
from rig.wait import wait_until

RELOADS = 200 if LONG else 20
SEED = 7


def changes(outbox, other):
    """One change after the other, each several times, in an order that is the same in each run."""
    dice = random.Random(SEED)
    values = {
        "batch": itertools.cycle([20, 300, 100]),
        "max_in_flight": itertools.cycle([300, 4000]),
        "max_in_flight_per_key": itertools.cycle([1, 1000]),
        "topic": itertools.cycle([other, outbox.topic]),
        "lease": itertools.cycle(["12s", "10s"]),
        "notify": itertools.cycle([None, "outboxd_orders"]),
        "kafka": itertools.cycle([{"properties": {"linger.ms": "3"}}, {}]),
        "postgres": itertools.cycle([{"connections": 3}, {"connections": 2}]),
        "paused": itertools.cycle([True, False]),
    }
    keys = [key for _ in range(RELOADS // len(values) + 1) for key in dice.sample(sorted(values), len(values))]
    return [(key, next(values[key])) for key in keys][:RELOADS]


def check_topics(outbox, topics, rows):
    """Every row is on one of the topics; on each of them a key's rows are in the order of their ids. Returns the repeats."""
    wanted, = check_table(outbox, rows).values()
    read = {topic: [] for topic in topics}

    def numbers():
        for topic in topics:
            read[topic] = outbox.broker.read(topic)
        return {number(each) for records in read.values() for each in records}

    wait_until(lambda: len(numbers()) == rows, 20, lambda: f"{len(numbers())} of {rows}")
    repeats = 0
    for records in read.values():
        here = {number(each) for each in records}
        parts = {key: [n for n in all if n in here] for key, all in wanted.items()}
        repeats += check_arrivals(records, {key: part for key, part in parts.items() if part})
    return repeats


@pytest.mark.limit(1200 if LONG else 120)
@pytest.mark.parametrize("window", WINDOWS)
def test_F071_reloads_under_load(outbox, broker, window):
    other = broker.create_topic()
    relay = outbox.relay({**WINDOWS[window], "poll": "200ms"}, drain_timeout="20s").start()
    with Writer(outbox, keys=10, backlog=1000) as writer:
        for key, value in changes(outbox, other):
            relay.reload_source(**{key: value})
            if not relay.config["sources"][0].get("paused"):
                wait_flow(outbox, relay, 50)
        relay.reload_source(paused=False, topic=outbox.topic)
        rows = writer.stop()
    settle(outbox)
    repeats = check_topics(outbox, [outbox.topic, other], rows)
    wait_until(lambda: len(relay.events("source_stopped")) == len(relay.events("source_draining")), 30)
    check_relays([relay], repeats)
    metrics = relay.metrics()
    assert metrics.sum("outboxd_settled_total", outcome="sent") == metrics.sum("outboxd_delivered_total") == rows
    assert repeats == 0
    assert relay.events("reload_rejected") == [] and relay.stop() == 0
