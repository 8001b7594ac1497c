"""docs/examples: writers and consumers as they stand there, against duplicates that a relay and a consumer make by dying."""
import collections
import json
import re
import signal

import confluent_kafka
import pytest

from rig import crash, kafka
from rig.outbox import header, psql
from rig.process import Process
from rig.relay import ROOT, run_command
from rig.wait import wait_until

EXAMPLES = ROOT / "docs/examples"
ORDERS = 40
TABLES = """
CREATE TABLE customer (name text PRIMARY KEY, orders int NOT NULL DEFAULT 0);
INSERT INTO customer (name) SELECT 'customer-' || n FROM generate_series(0, 2) n;
"""


def tables_of_the_page():
    """The tables of effects that docs/consumers.md shows."""
    page = (ROOT / "docs/consumers.md").read_text()
    return re.search(r"CREATE TABLE revenue .*?;", page, re.DOTALL)[0]


def python(name, *args):
    return ["/usr/bin/python3", EXAMPLES / name, *map(str, args)]


def java(name, *args):
    return ["java", *kafka.SMALL_JVM, "-cp", f"{kafka.jars()}/*:{kafka.jdbc()}/*", EXAMPLES / name, *map(str, args)]


def jdbc_url(database):
    return f"jdbc:postgresql://127.0.0.1:{database.cluster.port}/{database.name}?user=postgres"


@pytest.fixture
def run(tmp_path):
    """run(argv): a process of its own, ended with the test."""
    made = []

    def start(argv):
        made.append(Process(argv, tmp_path / f"example{len(made)}.log"))
        return made[-1]

    yield start
    for each in made:
        if each.alive():
            each.end(signal.SIGKILL)
        print((tmp_path / f"example{made.index(each)}.log").read_text()[-3000:])


def expected(database):
    """What the orders of each customer come to."""
    sums = collections.Counter()
    for payload, in database.all("SELECT payload::text FROM event_outbox"):
        order = json.loads(payload)
        sums[order["customer"]] += order["amount"]
    return sums


def effects(database, consumer):
    return dict(database.all("SELECT customer, amount::int FROM revenue WHERE consumer = %s", (consumer,)))


def committed(outbox, group):
    """How far a consumer has come."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": outbox.broker.bootstrap, "group.id": group})
    try:
        return consumer.committed([confluent_kafka.TopicPartition(outbox.topic, 0)], timeout=10)[0].offset
    finally:
        consumer.close()


@pytest.mark.limit(180)
def test_effects_happen_once_whoever_dies(outbox, tmp_path, run):
    database = outbox.database
    outbox.relay()
    psql(database.dsn(), run_command("schema", "--inbox").stdout + TABLES + tables_of_the_page())
    consumers = {
        "python": python("consumer.py", outbox.broker.bootstrap, outbox.topic, "python", database.dsn()),
        "java": java("Consumer.java", outbox.broker.bootstrap, outbox.topic, "java", jdbc_url(database)),
    }
    running = {name: run(argv) for name, argv in consumers.items()}
    writers = [run(python("writer.py", database.dsn(), ORDERS)), run(java("Writer.java", jdbc_url(database), ORDERS))]
    assert [each.wait(60) for each in writers] == [0, 0]
    assert database.all("SELECT sum(orders) FROM customer") == [(2 * ORDERS,)]

    # It dies when Kafka has confirmed rows and none is marked; another one sends them again.
    victim = crash.relay(outbox.config(), tmp_path, "victim", ("SETTLE_DUE", 1)).start(ready=False)
    assert victim.process.wait(30) == -signal.SIGKILL
    wait_until(lambda: effects(database, "python"), 60, "effects of the first copies")
    running["python"].kill()  # wherever it is: between its transaction and its offset, perhaps
    running["python"] = run(consumers["python"])
    outbox.start()
    outbox.wait_sent(2 * ORDERS, 60)

    records = outbox.records()
    ids = [header(each, "event_id") for each in records]
    assert len(set(ids)) == 2 * ORDERS < len(ids), "there were no duplicates to withstand"
    for name in consumers:  # the repeats too
        wait_until(lambda name=name: committed(outbox, name) == len(ids), 60, lambda name=name: f"{name}: {committed(outbox, name)}")
    for each in running.values():
        each.send(signal.SIGTERM)
    assert [each.wait(30) for each in running.values()] == [0, 128 + signal.SIGTERM]
    for name in consumers:
        assert effects(database, name) == expected(database), name
