"""The C programs beside this file that need librdkafka: io/kafka on its mock cluster, settings, and every code's verdict."""
import os
import pathlib

import pytest

from rig.process import Process

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).parents[2] / "build"))

# Program and test case of its own (as Check's CK_RUN_CASE), side by side since they mostly wait.
PROGRAMS = [("test_kafka", case) for case in ("bytes", "answers", "outages", "producer", "gaps", "topics")]
PROGRAMS += [("test_kafkalimits", "kafkalimits"), ("test_kafkaconf", "kafkaconf"), ("test_verdict_codes", "verdict_codes")]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    processes = {}
    try:
        for program, case in PROGRAMS:
            processes[case] = Process([BUILD / "tests/integration" / program], tmp_path_factory.mktemp(case) / "log",
                                      env={"CK_RUN_CASE": case})
        yield processes
    finally:
        for process in processes.values():
            process.kill()


@pytest.mark.limit(300)
@pytest.mark.parametrize("case", [case for _, case in PROGRAMS])
def test_program(running, case):
    assert running[case].wait(300) == 0, running[case].log()
    assert "100%: Checks:" in running[case].log()
