"""A consumer of tasks that writes results with the statements of docs/tables.md, or does not: each task says in its payload."""
import collections
import json
import threading

import confluent_kafka
import psycopg2

from .outbox import header
from .kafka import record
from .tables import statement

TABLE = statement("CREATE TABLE task_execution")
SUCCESS = statement("UPDATE task_execution SET state = 'SUCCESS'")
FAILED = statement("UPDATE task_execution SET state = 'FAILED'")
AGAIN = statement("UPDATE task_execution SET state = 'RUNABLE'").replace("1 min", "0 min")

# What a payload's "do" asks for.
#   done   a success           fail   a failure           never  no result at all
#   again  RUNABLE at the first attempt, a success at the next
#   once   no result at the first attempt, a success at the next
#   late   at the second attempt first the failure of the first one, which must change nothing, then a success


class Worker:
    """A thread that consumes a topic of one partition from its beginning; die() ends it in the middle of what it does."""

    def __init__(self, database, broker, topic):
        self.database, self.topic = database, topic
        self.seen = collections.defaultdict(list)  # attempts of each id
        self.late = []  # how many rows each late result has changed
        self.error = None
        self._end = threading.Event()
        self._consumer = confluent_kafka.Consumer({
            "bootstrap.servers": broker.bootstrap, "group.id": "workers", "enable.auto.commit": False, "log_level": 0, "fetch.wait.max.ms": 20})
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._consumer.assign([confluent_kafka.TopicPartition(self.topic, 0, confluent_kafka.OFFSET_BEGINNING)])
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self.die()

    def die(self):
        self._end.set()
        self._thread.join(30)
        assert self.error is None, self.error

    def _run(self):
        connection = self.database.connect()
        try:
            while not self._end.is_set():
                for message in self._consumer.consume(100, timeout=0.05):
                    if message.error() is None and not self._end.is_set():
                        self._execute(connection, record(message))
        except psycopg2.Error as error:
            self.error = error
        finally:
            self._consumer.close()
            connection.close()

    def _execute(self, connection, task):
        facts = {"id": int(header(task, "event_id")), "attempt": int(header(task, "attempt")), "error": "cannot be done"}
        assert task.key == str(facts["id"]).encode()
        self.seen[facts["id"]].append(facts["attempt"])
        do = json.loads(task.value)["do"]
        first = facts["attempt"] == 1
        with connection.cursor() as cursor:
            if do == "late" and not first:
                cursor.execute(FAILED, {**facts, "attempt": 1})
                self.late.append(cursor.rowcount)
            if do == "fail":
                cursor.execute(FAILED, facts)
            elif do == "again" and first:
                cursor.execute(AGAIN, facts)
            elif do != "never" and not (do in ("once", "late") and first):
                cursor.execute(SUCCESS, facts)
