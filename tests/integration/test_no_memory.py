"""Each place that asks for memory is refused it once, in every unit test and in histories of the simulation: the process
says so and aborts, or a test sees an error; nothing crashes, hangs or ends with another word. OUTBOXD_LONG=1 goes through
all of them; else it is a part, and of the unit tests those places that each test meets first."""
import os
import pathlib

import pytest

from rig.relay import run_command
from rig.scale import scaled
from rig.starve import Starve, judge, run_until_fed

pytestmark = pytest.mark.unsanitized

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build"))
UNITS = sorted(path.stem for path in (ROOT / "tests/unit").glob("test_*.c"))
SHARE = (0, scaled(3, 1))


@pytest.mark.limit(scaled(120, 1200))
@pytest.mark.parametrize("unit", UNITS)
def test_unit(unit, tmp_path):
    # Check itself ends with 2 when it has no memory.
    starve = Starve(tmp_path / "sites", SHARE, forked=True)
    assert run_until_fed([BUILD / "tests/unit" / unit], starve, rounds=scaled(8, 10_000), deadline=scaled(60, 300), allowed=(0, 1, 2)) == []
    assert starve.sites() > 0


@pytest.mark.limit(scaled(120, 3600))
@pytest.mark.parametrize("seed", range(1, scaled(2, 5)))
def test_simulation(seed, tmp_path):
    starve = Starve(tmp_path / "sites", (seed % 20, scaled(20, 1)))
    wrong = run_until_fed([BUILD / "tests/simulation/simulation", "--seed", seed], starve, rounds=scaled(20, 10_000))
    assert wrong == []
    assert starve.sites() > 5


@pytest.mark.limit(scaled(120, 3600))
@pytest.mark.parametrize("words", [["check", "--offline"], ["config"], ["schema"], ["status"], ["status", "--json"]], ids=" ".join)
def test_command(words, mock_outbox, tmp_path):
    """Never 78: the configuration is not wrong, and a supervisor would not start the daemon again. And what was printed with
    exit code 0 is the whole."""
    file = mock_outbox.relay().file
    starve = Starve(tmp_path / "sites", (0, scaled(5, 1)))
    whole = run_command(*words, "-c", file)
    assert whole.returncode == 0, whole.stderr
    for _ in range(scaled(20, 10_000)):
        before = starve.sites()
        done = run_command(*words, "-c", file, env=starve.env)
        assert judge(done.returncode, done.stderr, allowed=(0, 69, 70, 74, 75)) is None, done.stderr
        assert done.returncode != 0 or done.stdout == whole.stdout, done.stderr
        if starve.sites() == before:
            break
    assert starve.sites() > 2
