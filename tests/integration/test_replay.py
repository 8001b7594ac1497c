"""The fake PostgreSQL of the simulation, held against the real one: recorded histories of several sessions, stopped between
snapshot and lock as the fake had it, must give the same results and the same table after each commit."""
import itertools
import os
import pathlib
import re
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).parents[2] / "build")) / "tests/simulation"

# Histories with many rows that change between a statement's snapshot and its lock, with lost connections, people
# who edit, parked and swept keys, suspects; two of them with dead letters; the last is of tasks, whose consumers write results.
SEEDS = [156, 111, 33, 69]


def record(folder, seed, *options):
    file = folder / str(seed)
    subprocess.run([BUILD / "simulation", "--seed", str(seed), "--record", file, *options], stdout=subprocess.DEVNULL)
    return file


def replay(database, *files):
    return subprocess.run([BUILD / "replay-sql", *files], env=os.environ | {"OUTBOXD_TEST_DSN": database.dsn()}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def with_a_wait(folder):
    """A history in which a statement waits for another's lock; one in about thirty has that."""
    return next(file for file in (record(folder, seed) for seed in range(1, 500)) if "\nW " in file.read_text())


@pytest.mark.limit(240)
def test_fake_database_does_what_postgresql_does(database, tmp_path):
    done = replay(database, *(record(tmp_path, seed) for seed in SEEDS), with_a_wait(tmp_path))
    assert done.returncode == 0, done.stdout
    statements, stopped, waited = re.search(r"(\d+) statements \((\d+) stopped between snapshot and lock, (\d+) waited",
                                            done.stdout).groups()
    assert int(statements) > 1000 and int(stopped) > 500 and int(waited) > 0


def seeds_that_fail(broken, first=1):
    while True:
        found = subprocess.run([BUILD / "simulation", "--from", str(first), "--seeds", "6000", "--stop", "--break", broken],
                               text=True, stdout=subprocess.PIPE).stdout
        seed = int(re.search(r"FAILED seed (\d+)", found).group(1))
        yield seed
        first = seed + 1


@pytest.mark.limit(240)
@pytest.mark.parametrize("broken", ["ctid", "recheck", "key-order", "share", "park-state", "fence-delete", "fence-result"])
def test_a_fake_that_differs_is_found_out(database, tmp_path, broken):
    # A history is recorded up to the first claim in which the server had a choice: one may end before they differ.
    found = (replay(database, record(tmp_path, seed, "--break", broken)) for seed in itertools.islice(seeds_that_fail(broken), 10))
    assert any(done.returncode == 1 and "the server" in done.stdout for done in found)
