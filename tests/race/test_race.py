"""The race: all variants side by side, and a sample of the breaks, which must be noticed. RACE_SECONDS and RACE_SEED for more."""
import os
import pathlib
import subprocess

import pytest

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).parents[2] / "build"))
SECONDS = int(os.environ.get("RACE_SECONDS", "45"))
SEED = os.environ.get("RACE_SEED", "1")


def race(database, *options):
    return subprocess.run([BUILD / "tests/race/race", "--dsn", database.dsn(), "--seed", SEED, *options],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.limit(SECONDS + 120)
def test_nothing_goes_wrong(database):
    done = race(database, "--seconds", str(SECONDS))
    print(done.stdout)
    assert done.returncode == 0, done.stdout


# Three that show at once; `race --break all` has the rest, and takes some minutes.
@pytest.mark.parametrize("broken", ["foreign", "bytes", "memory-order"])
def test_a_break_is_noticed(database, broken):
    done = race(database, "--seconds", "6", "--break", broken)
    assert done.returncode == 1, done.stdout
    assert "FAILURE" in done.stdout
