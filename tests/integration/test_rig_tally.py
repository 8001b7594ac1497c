"""tests/rig/tally.c, by which the cost of a row is counted, counts right."""
import subprocess
import sys

import pytest

from rig.tally import Tally, allocations, system_calls

PROGRAM = """
import ctypes, os
libc, null = ctypes.CDLL(None), os.open("/dev/null", os.O_RDWR)
libc.malloc(1)  # what ctypes needs for its first call
os.read(null, 1)
for n in range(1000):
    libc.malloc(1)
for n in range(300):
    os.write(null, b"x")
os._exit(0)
"""


def counts(tmp_path, program):
    tally = Tally(tmp_path / "tally")
    subprocess.run([sys.executable, "-S", "-c", program], env=tally.env, check=True)
    return tally.read()


@pytest.mark.unsanitized
def test_each_call_is_counted_once(tmp_path):
    more, fewer = counts(tmp_path, PROGRAM), counts(tmp_path, PROGRAM.replace("1000", "200").replace("300", "50"))
    found = {call: sum(count for (_, name), count in (more - fewer).items() if name == call) for call in ("write", "read")}
    assert found == {"write": 250, "read": 0}
    # Python itself allocates too, a little.
    assert 800 <= sum(allocations(more).values()) - sum(allocations(fewer).values()) < 1000
    assert sum(system_calls(more).values()) - sum(system_calls(fewer).values()) == 250
