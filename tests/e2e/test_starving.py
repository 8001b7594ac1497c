"""The relay itself finds no memory, under load, at one place after the other: it aborts or goes on, is started again, and
nothing is lost: what it held comes back when its leases end."""
import time

import pytest

from rig.flow import Writer, check_order, settle
from rig.scale import scaled
from rig.starve import Starve, judge
from rig.wait import wait_until

pytestmark = pytest.mark.unsanitized

ENDS = (0, 1, 75)  # 75: it cannot start


def run_once(relay, starve, deadline):
    """Starts it, waits until it was refused memory, and ends it, should it go on. Returns false when it never was."""
    before, size = starve.sites(), len(relay.log())
    relay.start(ready=False)
    try:
        wait_until(lambda: starve.sites() > before or not relay.alive(), deadline)
    except AssertionError:
        return False
    end = time.monotonic() + 1
    wait_until(lambda: not relay.alive() or time.monotonic() > end, 5)
    code = relay.stop(20) if relay.alive() else relay.process.exit_code
    fault = judge(code, relay.log()[size:], ENDS)
    assert fault is None, f"{fault}:\n{relay.log()[size:][-6000:]}"
    return True


@pytest.mark.limit(scaled(120, 6000))
@pytest.mark.parametrize("after", [0, 10_000], ids=["start", "work"])
def test_F029_no_memory_anywhere(outbox, tmp_path, after):
    """start: from the first allocation on; work: once the relay has rows in hand."""
    starve = Starve(tmp_path / "sites", (1, scaled(40, 1)) if after == 0 else (1, scaled(5, 1)), after)
    patient = {"max_attempts": 2_000_000_000}
    relay = outbox.relay({"lease": "10s", "poll": "100ms", "retry": patient}, env=starve.env)
    runs, end = 0, time.monotonic() + scaled(15, 5400)
    with Writer(outbox, keys=20, rate=500) as writer:
        while time.monotonic() < end and run_once(relay, starve, 10):
            runs += 1
        relay.remove()
        rows = writer.stop()
    assert runs >= 3
    well = outbox.relay({"lease": "10s", "poll": "100ms", "retry": patient}, name="well").start()
    settle(outbox, 60)
    repeats = check_order(outbox, rows)
    counted = well.metrics().sum("outboxd_possible_duplicates_total")
    print(f"{runs} runs, {rows} rows, {repeats} repeats, {counted} counted by the last")
    assert well.stop() == 0
