"""The fake PostgreSQL of the simulation, held against the real one: recorded histories of several sessions, stopped between
snapshot and lock as the fake had it, must give the same results and the same table after each commit."""
import os
import pathlib
import re
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).parents[2] / "build")) / "tests/simulation"

# Histories with many rows that change between a statement's snapshot and its lock, with lost connections, people
# who edit, parked and swept keys, suspects, and statements that wait for each other's locks (196, 204).
SEEDS = [112, 166, 159, 196, 204]


@pytest.mark.limit(240)
def test_fake_database_does_what_postgresql_does(database, tmp_path):
    files = []
    for seed in SEEDS:
        files.append(tmp_path / str(seed))
        subprocess.run([BUILD / "simulation", "--seed", str(seed), "--record", files[-1]], check=True, stdout=subprocess.DEVNULL)
    replay = subprocess.run([BUILD / "replay-sql", *files], env=os.environ | {"OUTBOXD_TEST_DSN": database.dsn()}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert replay.returncode == 0, replay.stdout
    statements, stopped = re.search(r"(\d+) statements \((\d+) stopped", replay.stdout).groups()
    assert int(statements) > 1000 and int(stopped) > 500


@pytest.mark.limit(120)
@pytest.mark.parametrize("broken, seed", [("ctid", 648), ("recheck", 1), ("key-order", 1), ("share", 1), ("park-state", 44)])
def test_a_fake_that_differs_is_found_out(database, tmp_path, broken, seed):
    file = tmp_path / "record"
    subprocess.run([BUILD / "simulation", "--seed", str(seed), "--break", broken, "--record", file], stdout=subprocess.DEVNULL)
    replay = subprocess.run([BUILD / "replay-sql", file], env=os.environ | {"OUTBOXD_TEST_DSN": database.dsn()}, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert replay.returncode == 1 and "the server" in replay.stdout
