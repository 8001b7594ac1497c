"""on_delivered: await, with the preset task on the table that docs/tables.md shows: consumers write results, or not."""
import pytest

from rig import tasks
from rig.outbox import header, psql
from rig.relay import run_command
from rig.wait import wait_until

TABLE = "task_execution"
# Small enough to be reached, and short enough to be waited for.
BOUND = 40
SOURCE = {"preset": "task", "table": TABLE, "batch": 20, "max_in_flight": BOUND, "lease": "7s", "poll": "200ms",
          "result_timeout": "3s", "retry": {"initial": "200ms", "max_attempts": 3}}
KAFKA = {"kafka": {"message_timeout": "1s", "properties": {"message.max.bytes": "1000"}}}
HISTORY = 100_000


def insert(database, do, count, topic, extra=""):
    database.execute(f"INSERT INTO {TABLE} (task_type, payload) SELECT %s, jsonb_build_object('do', %s, 'more', %s)"
                     " FROM generate_series(1, %s)", (topic, do, extra, count))


def rows(database, do):
    """(state, attempts, last_error) of the tasks that are to be done so, and how many there are of each."""
    return dict((row[:3], row[3]) for row in database.all(
        f"SELECT state, attempts, last_error, count(*)::int FROM {TABLE} WHERE payload ->> 'do' = %s GROUP BY 1, 2, 3", (do,)))


@pytest.fixture
def table(outbox):
    """The plain table, with a history."""
    outbox.table = TABLE
    psql(outbox.database.dsn(), tasks.TABLE + f"""
        INSERT INTO {TABLE} (task_type, state, attempts, next_run_at, created_at, updated_at, payload)
          SELECT 'old', CASE WHEN n % 100 = 0 THEN 'FAILED' ELSE 'SUCCESS' END, 1, t, t, t, '{{"do": "old"}}'
            FROM generate_series(1, {HISTORY}) n, LATERAL (SELECT now() - n * interval '1 min') u (t);
        ANALYZE {TABLE}""")
    return outbox


def start(outbox, count=2, **source):
    source = {**SOURCE, "topic": "{task_type}", **source}
    return [outbox.relay(source, schema=False, **KAFKA).start() for _ in range(count)]


def total(relays, name, **labels):
    return sum(relay.metrics().sum(name, **labels) for relay in relays)


def wait_finished(outbox, deadline=40, watch=lambda: None):
    def finished():
        watch()
        return set(outbox.database.states(TABLE, "state")) == {"SUCCESS", "FAILED"}

    wait_until(finished, deadline, lambda: outbox.database.all(
        f"SELECT payload ->> 'do', state, attempts, last_error, count(*) FROM {TABLE} WHERE task_type <> 'old' GROUP BY 1, 2, 3, 4"))


def test_preset_task(table, record_property):
    """Two relays on the plain table with its history; consumers that are done, fail, die, are late or silent."""
    database, topic, most = table.database, table.topic, []
    for do, count in (("done", 200), ("fail", 20), ("again", 20), ("once", 20), ("late", 20), ("never", 10)):
        insert(database, do, count, topic)
    insert(database, "big", 5, topic, extra="x" * 2000)

    def watch():
        most.append(database.value(f"SELECT count(*) FROM {TABLE} WHERE state = 'RUNNING'"))

    # It has taken some, and dies with them; the next begins with all there are.
    with tasks.Worker(database, table.broker, topic) as first:
        relays = start(table)
        wait_until(lambda: len(first.seen) >= 30, 20, lambda: relays[0].log()[-3000:])
    with tasks.Worker(database, table.broker, topic) as worker:
        wait_finished(table, watch=watch)
    assert max(most) <= BOUND
    assert set(rows(database, "done")) <= {("SUCCESS", n, None) for n in (1, 2, 3)}
    assert set(rows(database, "fail")) <= {("FAILED", n, "cannot be done") for n in (1, 2, 3)}
    assert all(state == "SUCCESS" and attempts > 1 for do in ("again", "once", "late") for state, attempts, _ in rows(database, do))
    assert rows(database, "never") == {("FAILED", 3, "no result within 3s, attempt 3 of 3"): 10}
    assert all(state == "FAILED" and "MSG_SIZE" in error for state, _, error in rows(database, "big"))
    assert first.late + worker.late and set(first.late + worker.late) == {0}
    assert rows(database, "old") == {("SUCCESS", 1, None): HISTORY - HISTORY // 100, ("FAILED", 1, None): HISTORY // 100}
    assert database.value(f"SELECT count(*) FROM {TABLE} WHERE task_type <> 'old' AND updated_at <= created_at") == 0
    # 3 of each that is silent for ever, 1 at least of each that is silent once.
    assert total(relays, "outboxd_result_timeouts_total") >= 3 * 10 + 40
    assert total(relays, "outboxd_failed_total", error="RESULT_TIMEOUT") == 10
    assert total(relays, "outboxd_settle_fenced_total") == total(relays, "outboxd_lease_expired_total") == 0
    records = table.records()
    assert len(records) == total(relays, "outboxd_settled_total", outcome="awaiting") == database.value(
        f"SELECT sum(attempts) FROM {TABLE} WHERE task_type <> 'old' AND payload ->> 'do' <> 'big'")
    assert all(header(each, "event_id").encode() == each.key for each in records)
    claims = total(relays, "outboxd_transaction_seconds_count", statement="claim")
    record_property("measured", f"{claims:.0f} claims of {1000 * total(relays, 'outboxd_transaction_seconds_sum', statement='claim') / claims:.0f} ms"
                                f" on a table without an index and {HISTORY} finished rows")
    for relay in relays:
        assert relay.stop() == 0


def test_a_relay_dies_with_tasks_in_its_hands(table):
    """Whatever it had: what Kafka has not, is sent by the other one when the lease is over; what is awaited stays awaited."""
    database, topic = table.database, table.topic
    relays = start(table, result_timeout="60s", max_in_flight=1000)
    with tasks.Worker(database, table.broker, topic) as worker:
        insert(database, "done", 500, topic)
        wait_until(lambda: len(worker.seen) >= 50, 20)
        relays[0].kill()
        insert(database, "done", 100, topic)
        wait_finished(table)
    assert sum(rows(database, "done").values()) == 600 and set(worker.seen) == {row[0] for row in database.all(
        f"SELECT id FROM {TABLE} WHERE task_type <> 'old'")}
    assert relays[1].metrics().sum("outboxd_result_timeouts_total") == 0


def test_schema_of_the_preset(outbox):
    """The table that `schema` prints serves as well, and its indexes are used."""
    outbox.table = TABLE
    relay = outbox.relay({**SOURCE, "topic": "{task_type}"}, **KAFKA)
    for index in ("task_execution_due", "task_execution_in_flight"):
        assert outbox.database.value("SELECT count(*) FROM pg_indexes WHERE indexname = %s", (index,)) == 1
    made = run_command("schema", "--adopt", "-c", relay.file)
    assert made.returncode == 0, made.stderr
    psql(outbox.database.dsn(), made.stdout)
    relay.start()
    with tasks.Worker(outbox.database, outbox.broker, outbox.topic):
        insert(outbox.database, "done", 100, outbox.topic)
        wait_until(lambda: outbox.database.states(TABLE, "state") == {"SUCCESS": 100}, 20,
                   lambda: outbox.database.states(TABLE, "state"))
    assert relay.metrics().value("outboxd_settled_total", outcome="awaiting") == 100
