"""`python3 -m rig.soak SECONDS SEED`: relays and writers at work while everything around them is killed, suspended and
restarted by a dice; at the end nothing may be lost, out of order, stuck, or repeated without having been counted."""
import collections
import contextlib
import pathlib
import random
import signal
import sys
import tempfile
import time

from . import crash, kafka, postgres, relay as relays
from .flow import Writer, check_idle, check_order, settle
from .outbox import Outbox
from .wait import wait_until

RELAYS, WRITERS, KEYS = 3, 4, 8
MESSAGE_TIMEOUT, LEASE = 2, 7  # seconds
MOST_ROWS = 400_000  # the checker holds them all in memory
ROWS_A_SECOND = 400
CONFIG = {"kafka": {"message_timeout": f"{MESSAGE_TIMEOUT}s"}, "drain_timeout": "3s"}


class Soak:
    """outbox: an Outbox whose table is there. say: called with each line about what is done."""

    def __init__(self, outbox, folder, seconds, seed, say=print):
        self.outbox, self.seconds, self.say = outbox, seconds, say
        self.dice = random.Random(seed)
        source = {"lease": f"{LEASE}s", "poll": "500ms", "batch": 50, "max_in_flight": 200,
                  "max_in_flight_per_key": self.dice.choice([1, 1000]), "retry": {"max_attempts": 100}}
        self.relays = [crash.relay(outbox.config(source, **CONFIG), folder, f"relay{n}") for n in range(RELAYS)]
        self.later = []  # (when, what) of what has to be undone
        self.done = collections.Counter()
        self.begin = None

    # ---- what may happen; each returns what to say

    def kill_relay(self):
        """SIGKILL of a relay, which is started again a little later."""
        name, each = self._some_relay()
        if each is None:
            return None
        each.kill()
        self._undo(self.dice.uniform(0, 3), lambda: each.start(ready=False))
        return name

    def suspend_relay(self):
        """SIGSTOP past the lease."""
        name, each = self._some_relay()
        if each is None:
            return None
        each.suspend()
        self._undo(LEASE + self.dice.uniform(0.5, 3), each.resume)
        return name

    def drain_relay(self):
        """SIGTERM, and a new start at once."""
        name, each = self._some_relay()
        if each is None:
            return None
        code = each.stop()
        assert code in (0, 1), f"{name} ended with {code}"
        each.start(ready=False)
        return f"{name}, which ended with {code}"

    def terminate_backends(self):
        """All sessions of the relays end."""
        return f"{self.outbox.database.terminate()} sessions"

    def restart_postgres(self):
        """An immediate stop, as after a crash."""
        self.outbox.database.cluster.restart("immediate")
        return ""

    def kill_kafka(self):
        """kill -9, and a start a little later."""
        self.outbox.broker.kill()
        self._wait(self.dice.uniform(0, 4))
        self.outbox.broker.start()
        return ""

    def suspend_kafka(self):
        """It stands still, for about the message time-out."""
        self.outbox.broker.suspend()
        self._wait(self.dice.uniform(1, 2 * MESSAGE_TIMEOUT))
        self.outbox.broker.resume()
        return ""

    ACTIONS = {kill_relay: 5, suspend_relay: 2, drain_relay: 2, terminate_backends: 2, restart_postgres: 2, kill_kafka: 1,
               suspend_kafka: 2}

    def _some_relay(self):
        """One that is at work and not about to be brought back from something."""
        busy = {each for _, each, _ in self.later}
        free = [n for n, each in enumerate(self.relays) if each not in busy]
        if not free:
            return None, None
        n = self.dice.choice(free)
        assert self.relays[n].alive(), f"relay {n} ended by itself with {self.relays[n].process.exit_code}"
        self._chosen = self.relays[n]
        return f"relay {n}", self.relays[n]

    def _undo(self, seconds, what):
        self.later.append((time.monotonic() + seconds, self._chosen, what))

    # ---- the run

    def _wait(self, seconds):
        """Lets time pass; what is to be undone meanwhile is."""
        end = time.monotonic() + seconds

        def over():
            for each in [each for each in self.later if each[0] <= time.monotonic()]:
                self.later.remove(each)
                each[2]()
            return time.monotonic() >= end

        wait_until(over, seconds + 60, every=0.05)

    def _act(self):
        action = self.dice.choices(list(self.ACTIONS), list(self.ACTIONS.values()))[0]
        at = time.monotonic() - self.begin
        told = action(self)
        if told is not None:
            self.done[action.__name__] += 1
            self.say(f"{at:7.1f} s  {action.__name__}: {told or action.__doc__}")

    def _writers(self, stack):
        rate = min(ROWS_A_SECOND, MOST_ROWS / self.seconds) / WRITERS
        return [stack.enter_context(Writer(self.outbox, rate=rate, backlog=3000, mine=f"aggregate_id LIKE 'w{n}-%'",
                                           aggregate_id=f"'w{n}-' || n % {KEYS}")) for n in range(WRITERS)]

    def run(self):
        """Returns how many rows were written."""
        self.begin = time.monotonic()
        for each in self.relays:
            each.start(ready=False)
        with contextlib.ExitStack() as stack:
            writers = self._writers(stack)
            while time.monotonic() - self.begin < self.seconds:
                self._wait(self.dice.uniform(0.5, 4))
                self._act()
            while self.later:
                self._wait(0.2)
            return sum(writer.stop() for writer in writers)

    def counted(self):
        """Possible duplicates by window, as all relays that there were have counted them."""
        counted = collections.Counter()
        for each in self.relays:
            counted.update(each.passages.windows())
        return counted

    def check(self, rows):
        """What must be true at the end; returns the figures."""
        settle(self.outbox, 120)
        repeats, counted = check_order(self.outbox, rows), self.counted()
        check_idle(self.relays)
        assert repeats <= counted.total(), f"{repeats} repeats, counted {dict(counted)}"
        return (f"{rows} rows, {repeats} repeats, counted as possible {dict(counted)}, after "
                + ", ".join(f"{count} {name}" for name, count in sorted(self.done.items())))

    def remove(self):
        for each in self.relays:
            each.remove()


def main(seconds, seed):
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))  # so that the servers end, too
    kafka.jars()
    cluster, broker = postgres.Cluster(), kafka.Kafka()
    with tempfile.TemporaryDirectory(prefix="outboxd-soak-") as folder, contextlib.ExitStack() as stack:
        stack.callback(cluster.remove)
        stack.callback(broker.remove)
        for each in (cluster, broker):
            each.start()
        folder = pathlib.Path(folder)
        outbox = Outbox(cluster.create_database(), broker, broker.create_topic(partitions=3),
                        lambda config, name, env: relays.Relay(config, folder, "schema", env))
        outbox.relay()
        soak = Soak(outbox, folder, seconds, seed, lambda line: print(line, flush=True))
        stack.callback(soak.remove)
        print(f"{seconds} s with seed {seed}: {RELAYS} relays, {WRITERS} writers", flush=True)
        try:
            print(f"soak: {soak.check(soak.run())}", flush=True)
        except AssertionError:
            for each in soak.relays:
                print(f"---- log of {each.name}\n{each.log()[-5000:]}", flush=True)
            raise


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
