"""Under load, with relays and servers dying: everything arrives, in order by key, and nothing is left in flight."""
import json
import threading
import time

import psycopg2
import pytest

from rig.outbox import disorder
from rig.wait import wait_until

KEYS = 1000


class Writers:
    """Threads that insert rows in small transactions. Each has keys of its own, so that the order of a key is its writer's."""

    def __init__(self, outbox, count, rows, pause=0.0):
        self.outbox, self.count, self.rows, self.pause = outbox, count, rows, pause
        self.failed = []
        self.threads = [threading.Thread(target=self._write, args=(writer,), daemon=True) for writer in range(count)]
        for thread in self.threads:
            thread.start()

    def _write(self, writer):
        share = self.rows // self.count
        connection, n = None, 0
        while n < share:
            try:
                if connection is None or connection.closed:
                    connection = self.outbox.database.connect()
                    # What was committed when the connection broke is asked for, not guessed.
                    n = self._committed(connection, writer)
                    continue
                self._insert(connection, writer, n, min(200, share - n))
                n += 200
                time.sleep(self.pause)
            except psycopg2.Error as error:
                if isinstance(error, psycopg2.OperationalError):
                    connection = None
                    time.sleep(0.1)
                    continue
                self.failed.append(error)
                return

    def _committed(self, connection, writer):
        with connection.cursor() as cursor:
            cursor.execute("SELECT coalesce(max((payload ->> 'n')::int) + 1, 0) FROM event_outbox WHERE event_type = %s", (f"w{writer}",))
            return cursor.fetchone()[0]

    def _insert(self, connection, writer, first, count):
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO event_outbox (aggregate_id, event_type, payload)"
                           " SELECT format('w%%s-%%s', %s, n %% %s), 'w' || %s, jsonb_build_object('n', n)"
                           " FROM generate_series(%s, %s) n",
                           (writer, KEYS // self.count, writer, first, first + count - 1))

    def done(self):
        assert not self.failed, self.failed
        return not any(thread.is_alive() for thread in self.threads)


def check_all_arrived(outbox, rows, writers=4):
    records = outbox.records(rows, deadline=60)
    arrived = {(each.key, json.loads(each.value)["n"]) for each in records}
    assert len(arrived) == rows
    assert disorder(records) == []
    return len(records) - rows


@pytest.mark.limit(420)
def test_200000_rows_four_writers_two_relays_one_killed_every_two_seconds(outbox, record_property):
    outbox.topic = outbox.broker.create_topic(partitions=8)
    source = {"batch": 500, "poll": "200ms"}
    steady, victim = outbox.relay(source, name="steady").start(), outbox.relay(source, name="victim").start()
    begin, rows, kills = time.monotonic(), 200_000, 0
    writers = Writers(outbox, 4, rows)

    def all_sent():
        return writers.done() and outbox.states() == {"SENT": rows}

    next_kill = begin + 2
    while not all_sent():
        assert time.monotonic() - begin < 360, f"{outbox.states()}\n{steady.log()[-3000:]}"
        if time.monotonic() >= next_kill:
            victim.kill()
            victim.start(ready=False)
            kills, next_kill = kills + 1, next_kill + 2
        time.sleep(0.1)
    took = time.monotonic() - begin
    repeats = check_all_arrived(outbox, rows)
    assert kills >= 2
    assert outbox.database.value("SELECT count(*) FROM event_outbox WHERE lease_until IS NOT NULL OR lease_owner IS NOT NULL") == 0
    record_property("measured", f"200000 rows in {took:.0f} s, {rows / took:.0f} rows/s, {kills} kills, {repeats} repeats,"
                    f" {steady.process.cpu_seconds() * 5:.1f} CPU s a million rows")


@pytest.mark.limit(240)
@pytest.mark.parametrize("who", ["postgres", "kafka"])
def test_a_server_restarts_under_load(outbox, cluster, broker, who):
    outbox.topic = outbox.broker.create_topic(partitions=8)
    relay = outbox.start({"batch": 500, "poll": "200ms"})
    pid, rows = relay.pid, 40_000
    writers = Writers(outbox, 4, rows, pause=0.1)
    server = cluster if who == "postgres" else broker
    for _ in range(2):
        time.sleep(1.5)  # some load before each restart: not a wait for anything
        server.restart()
    wait_until(writers.done, 60, "the writers")
    outbox.wait_sent(rows, deadline=90)
    repeats = check_all_arrived(outbox, rows)
    assert relay.alive() and relay.pid == pid
    assert repeats <= relay.metrics().sum("outboxd_possible_duplicates_total")
