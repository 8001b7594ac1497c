"""The relay with crash points (src/base/crash.h): which there are, how often each was passed, and one case of the crash
matrix: a relay that dies at a point, another one that goes on, and what must be true of table and topic afterwards."""
import collections
import re
import signal
import struct

from .flow import check_arrivals, check_table, settle
from .outbox import header, number
from .relay import ROOT, Relay, build
from .wait import wait_until

HEADER = ROOT / "src/base/crash.h"
COUNTED = "COUNTED_"  # points that are passed when a possible duplicate is counted


def points():
    """{name: its moment}, in the order of the table."""
    return dict(re.findall(r'X\((\w+),\s*"([^"]*)"\)', HEADER.read_text()))


class Passages:
    """How often each point was passed, by a process that may be dead by now."""

    def __init__(self, path):
        self.path = path

    def all(self):
        numbers = self.path.read_bytes() if self.path.exists() else b""
        return dict(zip(points(), struct.unpack(f"{len(numbers) // 8}Q", numbers)))

    def __getitem__(self, point):
        return self.all().get(point, 0)

    def windows(self):
        """What it has counted as possible duplicates, by window: also what was on no page of /metrics any more."""
        return {name[len(COUNTED):].lower(): count for name, count in self.all().items() if name.startswith(COUNTED)}


def relay(config, folder, name, death=None):
    """A relay, not yet started, with `passages`. death: (point, at which passage)."""
    passages = Passages(folder / f"{name}.passages")
    env = {"OUTBOXD_PASSAGES": str(passages.path)}
    if death is not None:
        env["OUTBOXD_CRASH"] = "%s:%d" % death
    made = Relay(config, folder, name, env, program=build() / "crash/outboxd")
    made.passages = passages
    return made


class Case:
    """One death: a table and a topic of its own, the victim, and the survivor that finds what it has left.

    outbox: of a scenario whose configuration it makes; topics: {event type: topic}; failed: {n: text of its error} of the
    rows that cannot end sent."""

    def __init__(self, outbox, config, folder, death):
        self.outbox, self.config, self.folder, self.death = outbox, config, folder, death
        self.name = "%s-%d" % death if death else "nobody"
        self.victim = relay(config, folder, self.name, death)
        self.survivor = relay(config, folder, f"{self.name}-after")
        self.dead = []  # those before the victim
        self.topics, self.failed = {"e": outbox.topic}, {}
        self.letters = None  # the topic of dead letters
        self.rows = 0
        self.left = collections.Counter()  # rows under the lease of somebody who died: {n: how often}
        self.to_recover = set()
        self.expiring = set()  # of these, those that nobody takes over, for they have no attempts left

    # ---- what scenarios do

    def fill(self, count, keys=10, **columns):
        self.outbox.fill(count, keys, first=self.rows, **columns)
        self.rows += count

    def set_letters(self, topic):
        self.letters = topic
        for each in (self.victim, self.survivor):
            each.config["sources"][0]["dead_letter_topic"] = topic
            each.write_config()

    def over(self):
        return not self.victim.alive()

    def in_flight(self):
        return self.victim.passages["PUBLISHED"] - self.victim.passages["REPORT_RECORDED"]

    def predecessor(self, point, passage):
        """One that dies before the victim is started, at a point that it passes for certain."""
        self.dead.append(relay(self.config, self.folder, f"{self.name}-before", (point, passage)))
        self.dead[-1].start(ready=False)

    def take_stock(self):
        """A relay has died, or is stopped: what stands under its lease, once the server has ended its sessions."""
        self.to_recover = {n for n, in self.outbox.database.all(
            f"SELECT (payload ->> 'n')::int FROM {self.outbox.table} WHERE status = 'SENDING'")}
        self.left.update(self.to_recover)

    def bury(self):
        """Nobody is left who works for a dead relay: not even the server, with its last statement."""
        wait_until(lambda: not self.outbox.database.sessions(), 20, lambda: f"{self.name}: {self.outbox.database.sessions()}")
        self.take_stock()

    # ---- what must be true

    def check_death(self):
        point, passage = self.death
        assert self.over(), (f"{point} was passed {self.victim.passages[point]} times, and not {passage}:\n"
                             + self.victim.log()[-4000:])
        assert self.victim.process.exit_code == -signal.SIGKILL, self.victim.log()[-4000:]
        assert self.victim.passages[point] == passage

    def recover(self):
        """The survivor takes over, and all rows come to their end."""
        if not self.survivor.alive():
            self.bury()
            self.survivor.start(ready=False)
        settle(self.outbox, 60)

    def repeats(self):
        """{n: how often too many}; every key's first arrivals are whole and in order."""
        seen = collections.Counter()
        wanted = check_table(self.outbox, self.rows, self.failed)
        for event_type, keys in wanted.items():
            records = self.outbox.broker.read(self.topics[event_type], sum(map(len, keys.values())))
            # One whose last attempt ended so may have arrived.
            records = [each for each in records if number(each) not in self.expiring]
            check_arrivals(records, keys)
            seen.update(map(number, records))
        return seen - collections.Counter(set(seen))

    def check_letters(self):
        """Each failed row has its dead letter, and no other one has."""
        told = {header(each, "outboxd-id") for each in self.outbox.broker.read(self.letters, len(self.failed))}
        assert told == {str(row) for row, in self.outbox.database.all(
            f"SELECT id FROM {self.outbox.table} WHERE status = 'FAILED'")}

    def check(self):
        """Returns the figures for the report."""
        if self.letters:
            self.check_letters()
        repeats = self.repeats()
        after, counted = self.survivor.passages.windows(), collections.Counter()
        for each in [*self.dead, self.victim, self.survivor]:
            assert each.events("order_broken") == []
            counted.update(each.passages.windows())
        metrics = self.survivor.metrics()
        for window, count in after.items():
            assert metrics.value("outboxd_possible_duplicates_total", window=window) == count, window
        assert after["crash_recovered"] == len(self.to_recover - self.expiring), (
            f"{after} counted, {len(self.to_recover)} left behind by the dead")
        # A death allows one more copy of what it left behind; all else must have been counted for another reason.
        others = counted.total() - counted["crash_recovered"]
        assert (repeats - self.left).total() <= others, f"{repeats - self.left} beyond {dict(counted)}"
        assert repeats.total() <= counted.total(), f"{repeats.total()} repeats, counted {dict(counted)}"
        return (f"{self.name}: {self.rows} rows, {self.left.total()} left behind, {repeats.total()} repeats, counted "
                + (", ".join(f"{count} {window}" for window, count in counted.items() if count) or "none"))
