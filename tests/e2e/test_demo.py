"""The demo is the first thing that a newcomer runs: it must work, and leave nothing behind."""
import os
import pathlib
import re
import subprocess
import sys
import urllib.request

import pytest

# One after the other, for they look for what the other might leave.
pytestmark = pytest.mark.xdist_group("demo")

TESTS = pathlib.Path(__file__).parents[1]


def run(**env):
    return subprocess.run([sys.executable, "-B", "-m", "demo"], cwd=TESTS, env={**os.environ, **env}, text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=110)


def folders():
    return {path.name for path in pathlib.Path("/tmp").glob("outboxd-demo-*")}


def test_the_demo_runs_and_cleans_up():
    before = folders()
    done = run(KEEP="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All 24 committed orders are on the topic" in done.stdout
    assert "mallory" not in done.stdout.split("What arrived in Kafka")[1]
    assert folders() <= before


def test_the_demo_that_is_kept_can_be_reached_and_stopped():
    before = folders()
    done = run(KEEP="1")
    assert done.returncode == 0, done.stdout + done.stderr
    try:
        page, = re.findall(r"curl (\S+/metrics)", done.stdout)
        with urllib.request.urlopen(page, timeout=5) as answer:
            assert b"outboxd_build_info" in answer.read()
    finally:
        script, = re.findall(r"To stop it and remove its folders: (\S+)", done.stdout)
        stopped = subprocess.run([script], capture_output=True, text=True, timeout=60)
    assert stopped.returncode == 0 and stopped.stderr == "", stopped
    assert folders() <= before
