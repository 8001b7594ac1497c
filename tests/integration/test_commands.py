"""`outboxd retry` and `outboxd skip` as people run them: exit codes, what they print, what they leave alone, and what becomes of
half the work when they are interrupted. Which rows the selectors take is test_sql_commands.c's."""
import json
import re
import signal
import subprocess

import pytest

from rig.process import free_port
from rig.outbox import disorder, number
from rig.proxy import Proxy
from rig.relay import binary, run_command
from rig.wait import wait_until

CHUNK = 500  # rows that one transaction changes
TEMPORARY, UNREACHABLE, DENIED, CONFIG = 75, 69, 77, 78
WORDS = {"retry": "retried", "skip": "skipped"}
both = pytest.mark.parametrize("command", WORDS)


class Table:
    """The standard table, with a configuration that names it."""

    def __init__(self, database, folder):
        self.database, self.file = database, folder / "outboxd.yaml"
        self.write([self.source()])
        for statement in self.run("schema").stdout, "CREATE TABLE other_outbox (LIKE event_outbox INCLUDING ALL)":
            database.execute(statement)

    def source(self, name="orders", dsn=None, **more):
        """A source; postgres: settings beside its dsn."""
        postgres = {"dsn": dsn or self.database.dsn(), **more.pop("postgres", {})}
        return {"name": name, "topic": "orders", "postgres": postgres, **more}

    def write(self, sources):
        self.file.write_text(json.dumps({"kafka": {"bootstrap_servers": "127.0.0.1:9"}, "sources": sources}))

    def fill(self, count, status="FAILED", error="too large", first=1):
        self.database.execute(
            "INSERT INTO event_outbox (aggregate_id, event_type, payload, status, attempts, available_at, last_error)"
            " SELECT 'k' || n, 'e', '1', %s, 5, '9999-12-31Z', %s FROM generate_series(%s, %s) n",
            (status, error, first, first + count - 1))

    def run(self, command, *options):
        return run_command(command, "-c", self.file, *options)

    def start(self, command, *options):
        return subprocess.Popen([binary(), command, "-c", self.file, *options], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def content(self, table="event_outbox"):
        return self.database.all(f"SELECT * FROM {table} ORDER BY id")

    def pending(self):
        return self.database.states().get("PENDING", 0)

    def skipped(self):
        return self.database.value("SELECT count(*) FROM event_outbox WHERE status = 'FAILED' AND settled_at IS NOT NULL"
                                   " AND last_error LIKE 'skipped: %%'")

    def done(self):
        """How many rows either command has changed."""
        return self.pending() + self.skipped()

    def waiting(self, count=1):
        """So many commands wait for somebody's lock."""
        return self.database.value("SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND wait_event_type = 'Lock'",
                                   (self.database.name,)) == count


@pytest.fixture
def table(database, tmp_path):
    return Table(database, tmp_path)


class Locked:
    """A row that somebody has locked until unlock()."""

    def __init__(self, database, number):
        self.session = database.connect(autocommit=False)
        self.session.cursor().execute("SELECT FROM event_outbox WHERE id = %s FOR UPDATE", (number,))

    def unlock(self):
        self.session.rollback()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.session.close()


# ---- exit codes, and what is printed


@both
def test_F027_rows_are_changed_and_counted(table, command):
    table.fill(3)
    table.fill(2, status="SENT", first=10)
    done = table.run(command, "--all")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"3 rows {WORDS[command]}\n", "")
    assert table.done() == 3 and table.database.states()["SENT"] == 2
    if command == "skip":
        assert table.database.all("SELECT DISTINCT last_error FROM event_outbox WHERE status = 'FAILED'") == [
            ("skipped: no reason given",)]


@both
def test_F027_nothing_matches(table, command):
    table.fill(1, error="timed in")
    table.fill(2, status="SENT", first=10)
    before = table.content()
    for selector in ["--key", "nobody"], ["--id", "99"], ["--id", "2"], ["--all", "--error", "timed out"], ["--key", "k10"]:
        for more in [], ["--dry-run"]:
            done = table.run(command, *selector, *more)
            assert done.returncode == 1
            assert done.stdout == f"0 rows {'would be ' if more else ''}{WORDS[command]}\n"
            assert done.stderr == f"outboxd {command}: nothing matches\n"
    assert table.content() == before
    assert table.run(command, "--all").returncode == 0
    assert table.run(command, "--all").returncode == 1


WRONG = [  # what, and what is told of it
    ([], "--id ID, --key KEY or --all"), (["--all", "--key", "k"], "exclude each other"), (["--id", "1", "--all"], "exclude each other"),
    (["--id", "1", "x"], "x"), (["--id", "99999999999999999999"], "99999999999999999999"), (["--all", "--source", "nobody"], "nobody"),
    (["--all", "extra"], "extra"), (["--all", "--nothing"], "--nothing"), (["--id"], "--id")]


@both
def test_F072_usage(table, command):
    table.fill(1)
    for options, told in WRONG:
        done = table.run(command, *options)
        assert (done.returncode, done.stdout) == (64, ""), options
        assert told in done.stderr.partition("usage: ")[0], done.stderr
    assert table.done() == 0


def test_only_a_skip_has_a_reason(table):
    table.fill(2)
    assert table.run("retry", "--all", "--reason", "why").returncode == 64
    assert table.run("skip", "--id", "1", "--reason", "cancelled " + "x" * 5000).returncode == 0
    (reason,), = table.database.all("SELECT last_error FROM event_outbox WHERE id = 1")
    assert reason.startswith("skipped: cancelled x") and 2000 <= len(reason) < 2100
    assert table.database.states() == {"FAILED": 2}


@both
def test_a_dry_run_tells_and_changes_nothing(table, command):
    table.fill(1, error="no\x1b[31m topic\n")
    table.fill(1, first=2)
    table.database.execute("UPDATE event_outbox SET aggregate_id = NULL WHERE id = 2")
    table.fill(1, error="timed out", first=3)
    before = table.content()
    done = table.run(command, "--all", "--error", "topic", "--dry-run")
    assert (done.returncode, done.stdout) == (0, f"1  attempts=5  key=k1  no?[31m topic?\n1 row would be {WORDS[command]}\n")
    done = table.run(command, "--id", "2", "--dry-run")
    assert done.stdout == f"2  attempts=5  too large\n1 row would be {WORDS[command]}\n"
    assert table.content() == before


def test_by_id(table):
    """What the ids name that cannot be changed is told; one that comes twice is one."""
    table.fill(2)
    table.fill(1, status="SENT", first=3)
    table.fill(1, status="PENDING", first=4)
    done = table.run("retry", "--id", "1", "1", "--id", "3", "4", "99")
    assert (done.returncode, done.stdout) == (0, "1 row retried\n")
    assert done.stderr == "outboxd retry: 3 of 4 ids name no row that can be retried\n"
    done = table.run("skip", "--id", "4", "1", "2", "--reason", "test data")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3 rows skipped\n", "")
    assert table.run("retry", "--key", "k2").returncode == 1 and table.run("retry", "--all").returncode == 1
    assert table.run("retry", "--id", "2").stdout == "1 row retried\n"
    assert table.database.all("SELECT id, status, attempts, last_error, settled_at IS NULL FROM event_outbox ORDER BY id") == [
        (1, "FAILED", 0, "skipped: test data", False), (2, "PENDING", 0, None, True), (3, "SENT", 5, "too large", True),
        (4, "FAILED", 5, "skipped: test data", False)]


def test_one_of_two_sources(table):
    table.write([table.source(), table.source("stock", table="other_outbox")])
    table.fill(3)
    table.database.execute("INSERT INTO other_outbox OVERRIDING SYSTEM VALUE SELECT * FROM event_outbox")
    before = table.content()
    done = table.run("retry", "--all")
    assert done.returncode == 64 and "--source" in done.stderr
    assert table.run("skip", "--source", "stock", "--all").stdout == "3 rows skipped\n"
    assert table.content() == before and table.content("other_outbox") != before


# ---- what stands in the way


@both
def test_F088_unreachable(table, command):
    """Nobody listens; somebody does, and never answers."""
    proxy = Proxy(table.database.cluster.port)
    proxy.blackhole = True
    try:
        for port, said in (free_port(), "refused"), (proxy.port, "within 300 ms"):
            table.write([table.source(dsn=table.database.dsn(port, password="S3cr3t"), postgres={"connect_timeout": "300ms"})])
            done = table.run(command, "--all")
            assert (done.returncode, done.stdout) == (UNREACHABLE, "")
            assert said in done.stderr and "S3cr3t" not in done.stderr
    finally:
        proxy.close()


@both
def test_a_privilege_is_missing(table, command):
    """For a look at the table, for a change of it, and to come in at all."""
    table.fill(1)
    role = f"clerk_{table.database.name}_{command}"
    table.database.execute(f"CREATE ROLE {role} LOGIN")
    table.write([table.source(dsn=table.database.dsn(user=role))])
    try:
        for grant in "USAGE ON SCHEMA public", "SELECT ON event_outbox":
            table.database.execute(f"GRANT {grant} TO {role}")
            done = table.run(command, "--all")
            assert done.returncode == DENIED, done.stderr
            assert "permission denied for table event_outbox" in done.stderr and "outboxd schema --source orders" in done.stderr
        assert done.stdout == f"0 rows {WORDS[command]}\n" and table.done() == 0
        table.database.execute(f"GRANT UPDATE ON event_outbox TO {role}")
        assert table.run(command, "--all").returncode == 0
    finally:
        table.database.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    done = table.run(command, "--all")
    assert (done.returncode, done.stdout) == (DENIED, "") and role in done.stderr


@both
def test_a_configuration_or_a_table_that_does_not_fit(table, command):
    table.fill(1)
    columns = {"key": None, "last_error": None}
    for more, options, told in [
            ({"table": "nowhere"}, ["--all"], "outboxd schema --source orders"),
            ({"columns": {"attempts": "tries"}}, ["--all"], "tries"),
            ({"columns": columns, "ordering": "none"}, ["--key", "k"], "--key needs columns.key"),
            ({"columns": columns, "ordering": "none"}, ["--all", "--error", "x"], "--error needs columns.last_error"),
            ({"dsn": table.database.dsn(dbname="nowhere")}, ["--all"], "nowhere"),
            ({"batch": 0}, ["--all"], "batch")]:
        table.write([table.source(**more)])
        done = table.run(command, *options)
        assert (done.returncode, done.stdout) == (CONFIG, ""), done.stderr
        assert told in done.stderr
    table.file.unlink()
    assert table.run(command, "--all").returncode == CONFIG
    assert table.database.states() == {"FAILED": 1} and table.done() == 0


def test_a_skip_that_nothing_would_show(table):
    table.fill(1)
    table.write([table.source(columns={"last_error": None, "settled_at": None}, on_failed="continue")])
    done = table.run("skip", "--all")
    assert done.returncode == CONFIG and "map columns.settled_at or columns.last_error" in done.stderr
    assert table.run("retry", "--all").stdout == "1 row retried\n"


@both
def test_somebody_holds_a_lock(table, command):
    """For longer than three attempts: nothing is changed; for less: nothing is told of it."""
    table.fill(2)
    table.write([table.source(postgres={"lock_timeout": "200ms"})])
    with Locked(table.database, 2):
        done = table.run(command, "--all")
    assert (done.returncode, done.stdout) == (TEMPORARY, f"0 rows {WORDS[command]}\n")
    assert "lock timeout" in done.stderr and "0 of 2 rows" in done.stderr
    assert table.done() == 0
    table.write([table.source(postgres={"lock_timeout": "2s"})])
    with Locked(table.database, 2) as locked:
        running = table.start(command, "--all")
        wait_until(table.waiting, 10)
        locked.unlock()
        assert (running.communicate(timeout=30), running.returncode) == ((f"2 rows {WORDS[command]}\n", ""), 0)
    assert table.done() == 2


# ---- many rows


def start_until_second_chunk(table, command, lock_timeout="20s"):
    """1 200 failed rows, of which the first transaction is done; the second waits for a row that is locked."""
    table.fill(1200)
    table.write([table.source(postgres={"lock_timeout": lock_timeout})])
    lock = Locked(table.database, CHUNK + 200)
    running = table.start(command, "--all")
    wait_until(lambda: table.done() == CHUNK and table.waiting(), 20, table.database.states)
    return running, lock


def check_stopped(table, running, command, exit_code, rows):
    """It has ended with this code, and told of as many rows as are changed."""
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (exit_code, f"{rows} rows {WORDS[command]}\n"), err
    assert table.done() == rows
    progress, *rest = err.splitlines()
    assert progress == f"outboxd {command}: {CHUNK} of 1200 rows done"
    assert f"outboxd {command}: it ended early: {rows} of 1200 rows were looked at" in rest[-1]
    return rest


@both
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_between_two_transactions(table, command, number):
    running, lock = start_until_second_chunk(table, command)
    with lock:
        running.send_signal(number)
        lock.unlock()
        rest = check_stopped(table, running, command, TEMPORARY, 2 * CHUNK)
    assert len(rest) == 1
    assert table.run(command, "--all").stdout == f"200 rows {WORDS[command]}\n"


def test_interrupted_while_it_waits_for_a_lock(table):
    """The transaction under way changes nothing, nor is it tried again."""
    running, lock = start_until_second_chunk(table, "retry", lock_timeout="1s")
    with lock:
        running.send_signal(signal.SIGINT)
        rest = check_stopped(table, running, "retry", TEMPORARY, CHUNK)
    assert "lock timeout" in rest[0]


def test_the_connection_ends_half_way(table):
    running, lock = start_until_second_chunk(table, "skip")
    with lock:
        assert table.database.terminate(query="%unnest%") == 1
        rest = check_stopped(table, running, "skip", UNREACHABLE, CHUNK)
    assert rest[0] == "outboxd skip: the connection was lost"


def test_an_answer_that_never_comes(table):
    """The connection is cut when the second transaction has been told to commit: it says that it does not know."""
    proxy = Proxy(table.database.cluster.port)
    commits = []

    def count(data):
        if b"COMMIT\0" in data:
            commits.append(data)
        if len(commits) == 4:  # the look at the table and the picking have theirs
            proxy.swallow_answers = True

    proxy.on_client_data = count
    try:
        table.fill(1200)
        table.write([table.source(dsn=table.database.dsn(proxy.port))])
        running = table.start("retry", "--all")
        wait_until(lambda: table.pending() == 2 * CHUNK, 20, table.database.states)
        proxy.cut()
        out, err = running.communicate(timeout=30)
    finally:
        proxy.close()
    assert (running.returncode, out) == (UNREACHABLE, f"{CHUNK} rows retried\n")
    assert err.splitlines()[-1].endswith("; of the last ones, nobody knows")


def test_two_people_at_once(table):
    """One retries all, one skips all, and both have found the same rows: each row is changed by one of them, and counted once."""
    table.fill(1200)
    table.write([table.source(postgres={"lock_timeout": "20s"})])
    with Locked(table.database, 1) as lock:
        running = {command: table.start(command, "--all") for command in WORDS}
        wait_until(lambda: table.waiting(2), 20)
        lock.unlock()
        rows = {}
        for command, process in running.items():
            out, err = process.communicate(timeout=60)
            rows[command] = int(re.fullmatch(rf"(\d+) rows {WORDS[command]}\n", out)[1])
            assert process.returncode == (0 if rows[command] else 1), err
    assert rows == {"retry": table.pending(), "skip": table.skipped()} and sum(rows.values()) == 1200


# ---- beside a relay


def gauges(relay):
    metrics = relay.metrics()
    return metrics.sum("outboxd_rows", state="failed"), metrics.sum("outboxd_blocked_keys")


def wait_gauges(relay, failed, blocked_keys):
    wait_until(lambda: gauges(relay) == (failed, blocked_keys), 20, lambda: gauges(relay))


def test_F027_F034_with_a_relay(mock_outbox):
    """Three keys whose first row is too large: they stay visible over a restart, and block; one is given up, one mended and
    sent again, one sent again in vain. All behind them follow, in order. With on_failed: continue nothing waits."""
    relay = mock_outbox.start({"poll": "200ms"}, kafka={"properties": {"message.max.bytes": "2000"}})

    def run(command, *options):
        done = run_command(command, "-c", relay.file, *options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def fails(key):
        mock_outbox.insert(3, key, payload=lambda n: json.dumps({"n": n, "more": "x" * 3000 if n == 0 else ""}))

    def mend(key):
        mock_outbox.database.execute("UPDATE event_outbox SET payload = payload - 'more' WHERE aggregate_id = %s", (key,))

    for key in "abc":
        fails(key)
    mock_outbox.wait_states({"FAILED": 3, "PENDING": 6})
    wait_gauges(relay, 3, 3)
    assert relay.stop() == 0
    relay.start()
    wait_gauges(relay, 3, 3)
    assert mock_outbox.states() == {"FAILED": 3, "PENDING": 6} and mock_outbox.records() == []
    assert run("skip", "--key", "c", "--reason", "cancelled") == "1 row skipped\n"
    mend("a")
    assert run("retry", "--key", "a") == "1 row retried\n"
    mock_outbox.wait_states({"SENT": 5, "FAILED": 2, "PENDING": 2})
    wait_gauges(relay, 1, 1)
    assert run("retry", "--all", "--error", "MSG_SIZE_TOO_LARGE") == "1 row retried\n"
    relay.wait_event("row_failed", count=2)
    mock_outbox.wait_states({"SENT": 5, "FAILED": 2, "PENDING": 2})
    mend("b")
    assert run("retry", "--all") == "1 row retried\n"
    mock_outbox.wait_states({"SENT": 8, "FAILED": 1})
    records = mock_outbox.records(8)
    assert disorder(records, repeats=False) == []
    assert sorted((each.key, number(each)) for each in records) == [
        (key, n) for key in (b"a", b"b", b"c") for n in range(3) if (key, n) != (b"c", 0)]
    relay.reload_source(on_failed="continue")
    fails("d")
    mock_outbox.wait_states({"SENT": 10, "FAILED": 2})
    wait_gauges(relay, 1, 0)
    mend("c")
    mend("d")
    assert run("retry", "--id", "7", "10") == "2 rows retried\n"
    mock_outbox.wait_sent(12)
    wait_gauges(relay, 0, 0)
