"""Debezium's own PostgreSQL connector and outbox event router, without Kafka: what they would publish, to compare with."""
import base64
import json
import pathlib

from . import maven
from .kafka import SMALL_JVM, Record
from .process import Process
from .wait import wait_until

VERSION = "3.6.1.Final"
ARTIFACTS = [f"io.debezium:debezium-embedded:{VERSION}", f"io.debezium:debezium-connector-postgres:{VERSION}", maven.LOG]
PROGRAM = pathlib.Path(__file__).with_name("EventRouter.java")


def jars():
    return maven.jars(f"debezium-{VERSION}", f"Debezium {VERSION}", "38 MB", ARTIFACTS)


class EventRouter:
    """Reads what is inserted from now on into the database's tables outbox_*, until it has seen so many rows. The server's
    wal_level must be logical."""

    def __init__(self, database, rows, log):
        self.database = database
        self.process = Process(["java", *SMALL_JVM, "-cp", f"{jars()}/*", PROGRAM, database.cluster.port, database.name, rows], log)
        wait_until(lambda: self._reads() or not self.process.alive(), 60, self.process.tail, every=0.2)
        assert self.process.alive(), self.process.tail()

    def _reads(self):
        return self.database.value("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'") == 1

    def records(self):
        assert self.process.wait(60) == 0, self.process.tail()
        lines = self.process.log_path.read_text().splitlines()
        return [parse(line.removeprefix("record ")) for line in lines if line.startswith("record ")]

    def remove(self):
        self.process.kill()


def parse(line):
    facts = json.loads(line)
    return Record(facts["topic"], facts["partition"], None, decoded(facts["key"]), decoded(facts["value"]),
                  [(name, decoded(value)) for name, value in facts["headers"]], facts["timestamp"])


def decoded(text):
    return None if text is None else base64.b64decode(text)


if __name__ == "__main__":  # `python3 -m rig.debezium`: only fetch, where the progress can be seen
    jars()
