"""Rows written without pause while things break, and what must be true of table and topic afterwards."""
import collections
import copy
import threading
import time

import psycopg2

from .outbox import number
from .postgres import Database
from .wait import wait_until

# What tests of order run with: keys of the source.
WINDOWS = {"one": {"max_in_flight_per_key": 1}, "wide": {"max_in_flight_per_key": 1000}}

AWAY = (psycopg2.OperationalError, psycopg2.InterfaceError)  # the server is, or was a moment ago


class Writer:
    """A thread that writes rows with n = 0, 1, 2 ... in the order of their ids, in small transactions, until stop().

    backlog: it waits while so many rows are unsettled, so that there is work at any speed; rate: rows a second at most.
    mine: the condition for its rows, of one that goes on after each outage of the server; rows: so many are there already.
    columns: as of Outbox.fill. A context manager: the thread ends with the block, whatever happens."""

    def __init__(self, outbox, keys=1, rate=None, backlog=2000, mine=None, rows=0, **columns):
        self.outbox = copy.copy(outbox)
        # A session of its own.
        self.outbox.database = Database(outbox.database.cluster, outbox.database.name, one_try=mine is not None)
        self.keys, self.rate, self.backlog, self.mine, self.columns = keys, rate, backlog, mine, columns
        self.rows, self.error = rows, None
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._end.set()
        self._thread.join(30)
        self.outbox.database.close()

    def stop(self):
        """Ends it; returns how many rows there are."""
        self.__exit__()
        assert self.error is None, self.error
        return self.rows

    def wait_rows(self, count, deadline=60):
        wait_until(lambda: self.rows >= count or self.error, deadline, lambda: f"{count} rows written; {self.rows} are")
        assert self.error is None, self.error

    def _run(self):
        begin, first = time.monotonic(), self.rows
        try:
            while not self._end.is_set():
                try:
                    self._write(begin, first)
                except AWAY:
                    if not self.mine:
                        raise
                    self._recount()
        except Exception as error:  # told by stop()
            self.error = error

    def _write(self, begin, first):
        room = self.backlog - self._unsettled()
        if self.rate:
            room = min(room, first + int((time.monotonic() - begin) * self.rate) - self.rows)
        if room <= 0:
            self._end.wait(0.02)
            return
        count = min(room, 100)
        self.outbox.fill(count, self.keys, first=self.rows, **self.columns)
        self.rows += count

    def _recount(self):
        """The server went away: were the last rows committed? Whatever was under way ended with it."""
        def count():
            try:
                return self.outbox.database.one(f"SELECT count(*) FROM {self.outbox.table} WHERE {self.mine}")
            except AWAY:
                return None

        self.rows, = wait_until(count, 60, "the server to come back", every=0.1)

    def _unsettled(self):
        return self.outbox.database.value(f"SELECT count(*) FROM {self.outbox.table} WHERE settled_at IS NULL")


def wait_flow(outbox, relay, rows=300, deadline=30):
    """Waits until so many more rows are sent."""
    def sent():
        return outbox.states().get("SENT", 0)

    before = sent()
    wait_until(lambda: sent() >= before + rows, deadline,
               lambda: f"{outbox.states()}, {before} sent before\n{relay.log()[-4000:]}")


def settle(outbox, deadline=40):
    """Waits until no row is on its way any more: each is sent or failed."""
    wait_until(lambda: set(outbox.states()) <= {"SENT", "FAILED"}, deadline, lambda: f"the rest: {outbox.states()}")


def arrivals(records):
    """{key: n of its records in the order of their first arrival}. A key's records are in one partition."""
    first, partition = collections.defaultdict(dict), {}
    for each in records:
        assert partition.setdefault(each.key, each.partition) == each.partition, f"{each.key} is in two partitions"
        first[each.key].setdefault(number(each), None)
    return {key: list(numbers) for key, numbers in first.items()}


def difference(got, wanted):
    """What is wrong with a key's arrivals, for people."""
    place = next((n for n, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
    missing, strange = set(wanted) - set(got), set(got) - set(wanted)
    return (f"{len(got)} arrived of {len(wanted)}; at place {place} came {got[max(place - 2, 0):place + 4]} for"
            f" {wanted[max(place - 2, 0):place + 4]}; {len(missing)} missing {sorted(missing)[:5]},"
            f" {len(strange)} that should not be there {sorted(strange)[:5]}")


def check_table(outbox, rows, failed=()):
    """There are so many rows, none on its way; sent are all but those in `failed` ({n: text of its error}).
    Returns {key: n of its sent rows in the order of ids} by event type: {type: {key: [n]}}."""
    table = outbox.database.all(f"SELECT event_type, aggregate_id, (payload ->> 'n')::int, status, last_error,"
                                f" lease_until IS NOT NULL OR lease_owner IS NOT NULL FROM {outbox.table} ORDER BY id")
    assert len(table) == rows
    failed = dict(failed)
    sent = collections.defaultdict(lambda: collections.defaultdict(list))
    for event_type, key, n, status, error, leased in table:
        assert status == ("FAILED" if n in failed else "SENT"), f"row {n} of {key} is {status}: {error}"
        assert not leased, f"row {n} of {key} is {status} and has a lease"
        if n in failed:
            assert failed[n] in error, error
        else:
            sent[event_type][key.encode() if key is not None else None].append(n)
    return sent


def check_arrivals(records, wanted, suffix=False):
    """The first arrivals of each key are exactly the wanted ones, in their order. suffix: or the last of them, for a topic
    that was made anew. Returns how many records are repeats."""
    got = arrivals(records)
    if suffix:
        wanted = {key: numbers[-len(got[key]):] for key, numbers in wanted.items() if key in got}
    wrong = {key: difference(got.get(key, []), wanted.get(key, [])) for key in {*got, *wanted}
             if got.get(key) != wanted.get(key)}
    assert wrong == {}, dict(list(wrong.items())[:3])
    return len(records) - sum(map(len, wanted.values()))


def check_order(outbox, rows, failed=()):
    """The whole table against the whole topic; returns how many records are repeats."""
    wanted = check_table(outbox, rows, failed)
    assert len(wanted) <= 1, "rows of several types: there may be several topics"
    wanted = next(iter(wanted.values()), {})
    return check_arrivals(outbox.records(sum(map(len, wanted.values()))), wanted)


def duplicates(relay):
    """What it has counted as possible repeats."""
    return relay.metrics().sum("outboxd_possible_duplicates_total")


def check_idle(relays):
    """Nothing is left with Kafka, and no relay has seen disorder itself."""
    for relay in relays:
        assert relay.events("order_broken") == []
        wait_until(lambda: relay.metrics().sum("outboxd_in_flight_messages") == 0, 10, lambda: relay.metrics().page)


def check_relays(relays, repeats):
    """They are idle, and the repeats were counted."""
    check_idle(relays)
    counted = sum(map(duplicates, relays))
    assert repeats <= counted, f"{repeats} repeats, {counted} counted"
