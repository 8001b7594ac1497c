"""The C programs beside this file: io/db, io/listener, cli/pgblocking and core/sql on a real PostgreSQL."""
import os
import pathlib

import pytest

from rig import postgres
from rig.process import Process

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).parents[2] / "build"))

# Program, its test case (Check's CK_RUN_CASE), and whether it crashes its server. Side by side, for they mostly wait.
PROGRAMS = [
    ("test_dbloss", "dbloss", True),
    ("test_db", "db", False),
    ("test_dbleaks", "dbleaks", False),
    ("test_pgblocking", "pgblocking", False),
    ("test_listener", "listener", False),
    ("test_listener", "patience", False),
    ("test_sql_server", "sql_server", False),
    ("test_sql_plans", "sql_plans", False),
    ("test_sql_delete", "sql_delete", False),
    ("test_sql_await", "sql_await", False),
    ("test_sql_commands", "sql_commands", False),
]


@pytest.fixture(scope="module")
def running(request, _cluster, tmp_path_factory):
    wanted = {item.callspec.params["case"] for item in request.session.items if item.module is request.module}
    own = postgres.Cluster()
    databases, processes = [], {}
    try:
        own.start()
        for program, case, crashes in PROGRAMS:
            if case not in wanted:
                continue
            databases.append((own if crashes else _cluster).create_database())
            processes[case] = Process([BUILD / "tests/integration" / program], tmp_path_factory.mktemp(case) / "log",
                                      env={"OUTBOXD_TEST_DSN": databases[-1].dsn(), "CK_RUN_CASE": case})
        yield processes
    finally:
        for process in processes.values():
            process.kill()
        for database in databases:
            database.drop()
        own.remove()


@pytest.mark.limit(300)
@pytest.mark.parametrize("case", [case for _, case, _ in PROGRAMS])
def test_program(running, case):
    assert running[case].wait(300) == 0, running[case].log()
    assert "100%: Checks:" in running[case].log()
