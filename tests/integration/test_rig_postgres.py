"""The rig itself: the throwaway PostgreSQL, the proxy, waiting."""
import os
import pathlib
import signal

import psycopg2
import pytest

from rig.process import Process, port_answers
from rig.proxy import Proxy
from rig.relay import Metrics, parse_event
from rig.wait import stays, wait_until


@pytest.fixture
def proxy(cluster):
    proxy = Proxy(cluster.port)
    yield proxy
    proxy.close()


def test_a_database_is_empty_and_gone_afterwards(cluster):
    database = cluster.create_database()
    database.execute("CREATE TABLE t (a int)")
    database.execute("INSERT INTO t VALUES (%s), (%s)", (1, 2))
    assert database.all("SELECT a FROM t ORDER BY a") == [(1,), (2,)]
    database.drop()
    with pytest.raises(psycopg2.OperationalError):
        database.connect()


def test_the_server_does_not_run_as_root(cluster):
    status = pathlib.Path(f"/proc/{cluster.process.pid}/status").read_text()
    assert "Uid:\t0\t" not in status
    assert cluster.log_path.exists()


@pytest.mark.parametrize("how", ["fast", "immediate", "kill"])
def test_committed_rows_outlive_any_end_of_the_server(cluster, database, how):
    database.execute("CREATE TABLE t (a int)")
    database.execute("INSERT INTO t SELECT generate_series(1, 1000)")
    port = cluster.port
    if how == "kill":
        cluster.kill()
    else:
        cluster.stop(how)
    assert not port_answers(port)
    cluster.start()
    assert cluster.port == port
    assert database.value("SELECT count(*) FROM t") == 1000


def test_the_proxy_passes_delays_and_cuts(database, proxy):
    with_proxy = psycopg2.connect(database.dsn(port=proxy.port))
    cursor = with_proxy.cursor()
    cursor.execute("SELECT 1")
    proxy.delay = 0.1
    cursor.execute("SELECT extract(epoch FROM clock_timestamp() - statement_timestamp()), 2")
    assert cursor.fetchone()[1] == 2
    proxy.heal()
    proxy.cut()
    with pytest.raises(psycopg2.OperationalError):
        cursor.execute("SELECT 1")
    assert proxy.accepted == 1


def test_the_proxy_swallows_an_answer_but_not_the_question(database, proxy):
    database.execute("CREATE TABLE t (a int)")
    connection = psycopg2.connect(database.dsn(port=proxy.port, options="-c statement_timeout=0"))
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("SELECT 1")

    def cut_at_insert(data):
        if b"INSERT" in data:
            proxy.swallow_answers = True

    proxy.on_client_data = cut_at_insert
    # The client would wait for ever: it is cut as soon as the row is there.
    pid = os.fork()
    if pid == 0:
        try:
            cursor.execute("INSERT INTO t VALUES (1)")
        finally:
            os._exit(7)
    wait_until(lambda: database.value("SELECT count(*) FROM t") == 1, 5)
    proxy.cut()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_the_proxy_is_a_black_hole(database, proxy):
    proxy.blackhole = True
    with pytest.raises(psycopg2.OperationalError, match="timeout"):
        psycopg2.connect(database.dsn(port=proxy.port, connect_timeout=2))
    proxy.heal()
    psycopg2.connect(database.dsn(port=proxy.port, connect_timeout=2)).close()


@pytest.mark.parametrize("fault,told", [
    (lambda proxy: proxy.cut(reset=True), "reset by peer|closed the connection unexpectedly"),  # it may have been read already
    (lambda proxy: proxy.half_close("client"), "closed the connection unexpectedly"),
    (lambda proxy: proxy.half_close("server"), "closed the connection unexpectedly"),
], ids=["reset", "from the server", "from the client"])
def test_the_proxy_ends_connections_in_every_way(database, proxy, fault, told):
    cursor = psycopg2.connect(database.dsn(port=proxy.port)).cursor()
    cursor.execute("SELECT 1")
    fault(proxy)
    with pytest.raises(psycopg2.OperationalError, match=told):
        cursor.execute("SELECT 1")
    wait_until(lambda: not proxy.open(), 5, proxy.open)


def test_the_proxy_swallows_the_question_of_one_connection(database, proxy):
    database.execute("CREATE TABLE t (a int)")
    proxy.crumble = True
    one, other = (psycopg2.connect(database.dsn(port=proxy.port, application_name=name)) for name in ("one", "other"))
    for each in (one, other):
        each.autocommit = True
        each.cursor().execute("SET statement_timeout = 0")
    proxy.only = lambda link: b"one" in link.head
    proxy.swallow_questions = True
    pid = os.fork()
    if pid == 0:
        try:
            one.cursor().execute("INSERT INTO t VALUES (1)")
        finally:
            os._exit(7)
    other.cursor().execute("INSERT INTO t VALUES (2)")
    stays(lambda: database.all("SELECT a FROM t") == [(2,)], 0.5)
    proxy.heal()  # the connection's bytes are gone: it is cut
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert len(proxy.open()) == 1


def test_waiting_says_what_it_saw_last():
    with pytest.raises(AssertionError, match="seven.*last seen: 0"):
        wait_until(lambda: 0, 0.05, "seven")
    with pytest.raises(AssertionError, match="ended before"):
        stays(iter([True, False]).__next__, 1)


def test_a_process_that_does_not_want_to_end_is_killed(tmp_path):
    process = Process(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1; done"], tmp_path / "log")
    process.wait_log("deaf")
    assert process.end(signal.SIGTERM, 0.2) == -signal.SIGKILL
    assert not process.alive()


def test_a_process_that_ends_early_is_told_at_once(tmp_path):
    process = Process(["sh", "-c", "echo sorry; exit 3"], tmp_path / "log")
    with pytest.raises(AssertionError, match="(?s)ended with 3.*sorry"):
        process.wait_log("never", 30)


def test_logfmt_and_metrics_are_read():
    line = 'time=2026-01-01T00:00:00Z level=info event=row_failed source=orders id=7 error="a \\"b\\" c=d\\n"'
    assert parse_event(line)["error"] == 'a "b" c=d\n'
    assert parse_event(line)["id"] == "7"
    assert parse_event("no such thing") == {}
    page = Metrics('# HELP a b\n# TYPE a counter\na{source="x",error="q\\"r"} 3\na{source="y"} 4e0\nb 1.5\n')
    assert page.sum("a") == 7 and page.value("a", error='q"r') == 3 and page.value("b") == 1.5
    assert page.sum("c") == 0
