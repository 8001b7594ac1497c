"""How cost grows with what a table has been through: each state of it against the table that holds nothing but its backlog,
drained in the same minute."""
import concurrent.futures
import threading
import time

from rig.wait import wait_until

from .drain import drain, drain_backlog, in_turns, run_program, stop
from .report import number
from .servers import Backlog
from .steps import Step

# Settled rows. Their event ids rise as UUIDv7 would: random ones make the fill of a large table take half an hour.
SENT = {"status": "'SENT'", "attempts": "1", "settled_at": "now()", "event_id": "lpad(to_hex(n), 32, '0')::uuid"}
# A row that was given up stands at the same far time as rows that are parked behind one.
FAR = "'9999-12-31Z'"
FAILED = {"aggregate_id": "'blocked'", "status": "'FAILED'", "attempts": "1", "last_error": "'refused'", "available_at": FAR}
BLOCKED = {"aggregate_id": "'blocked'"}


class History:
    """A table that only grows: rows that are settled already, and those that drains of it settle."""

    def __init__(self, servers):
        self._bed, self._rows, self._servers = None, 0, servers
        self._growing = threading.Lock()

    def bed(self, rows):
        """With at least so many settled rows."""
        with self._growing:
            if self._bed is None:
                self._bed = self._servers.new_bed()
            if self._rows < rows:
                self._bed.fill(rows - self._rows, first=self._rows + 1, **SENT)
                self._bed.tidy()
                self._rows = rows
            return self._bed


def growth(servers, sizes):
    yield from Growth(servers, sizes).steps()


class Growth:
    def __init__(self, servers, sizes):
        self.servers, self.sizes = servers, sizes
        self.plain = Backlog(sizes.rows)
        self.history = History(servers)

    def steps(self):
        some, many = self.sizes.history
        yield Step("growth.some-settled", f"{number(some)} settled rows", lambda: self.settled(some))
        yield Step("growth.open-transaction", f"a transaction open for {self.sizes.held_seconds} s", self.open_transaction)
        yield Step("growth.many-settled", f"{number(many)} settled rows", lambda: self.settled(many))
        yield Step("growth.backlog", f"a backlog of {number(self.sizes.backlog)}", self.backlog)
        yield Step("growth.blocked", f"{number(self.sizes.blocked)} rows behind a failed one", self.blocked)
        yield Step("growth.stale-statistics", "statistics of the empty table", self.stale_statistics)
        yield Step("growth.sources", f"{self.sizes.sources} sources in one process", self.many_sources)

    def against_plain(self, run):
        """run() drains the table in question."""
        best = in_turns(self.sizes.rounds, plain=lambda: drain_backlog(self.servers, self.plain, self.sizes.limit), case=run)
        plain, case = best["plain"], best["case"]
        return {**case, "plain": plain, "plain_rate": plain["rows_per_second"], "plain_claim_ms": plain["claim_ms"],
                "ratio": case["rows_per_second"] / plain["rows_per_second"],
                "claim_ratio": case["claim_ms"] / plain["claim_ms"]}

    def refill_and_drain(self, bed, tidy=True):
        """A backlog on top of what the table holds."""
        bed.fill(self.plain.rows, self.plain.keys, self.plain.payload)
        if tidy:
            bed.tidy()
        return drain(self.servers, bed, self.plain.rows, self.sizes.limit)

    def settled(self, rows):
        return self.against_plain(lambda: self.refill_and_drain(self.history.bed(rows)))

    def open_transaction(self):
        """What a transaction might still see, no vacuum may remove: the versions of all rows that have come and gone since it began.
        The large history is made in the meantime, in another database."""
        sizes = self.sizes
        bed = self.servers.new_bed()
        holder = bed.database.connect()
        holder.set_session(isolation_level="REPEATABLE READ", autocommit=False)
        holder.cursor().execute(f"SELECT count(*) FROM {bed.table}")
        relay = bed.relay().start()
        pool = concurrent.futures.ThreadPoolExecutor(1)
        try:
            growing = pool.submit(self.history.bed, sizes.history[-1])
            run_program("load", "--dsn", bed.database.dsn(), "--table", bed.table, "--rate", 1000, "--seconds", sizes.held_seconds,
                        "--keys", 1000, "--size", sizes.payload)
            growing.result()
            stop(relay)
            return self.against_plain(lambda: self.refill_and_drain(bed))
        finally:
            pool.shutdown(wait=False)  # who interrupts the run does not wait for that table
            holder.close()
            bed.remove()

    def backlog(self):
        large = Backlog(self.sizes.backlog)
        return self.against_plain(lambda: drain_backlog(self.servers, large, self.sizes.limit))

    def blocked(self):
        bed = self.servers.new_bed()
        bed.fill(1, **FAILED)
        bed.fill(self.sizes.blocked, **BLOCKED)
        bed.tidy()
        relay = bed.relay().start()
        begin = time.monotonic()
        wait_until(lambda: self.parked(bed) == self.sizes.blocked, 300, lambda: f"all to be parked: {self.parked(bed)} are")
        seconds = time.monotonic() - begin
        stop(relay)
        figures = self.against_plain(lambda: self.refill_and_drain(bed))
        bed.remove()
        return {**figures, "seconds_to_park": seconds}

    def parked(self, bed):
        return bed.database.value(f"SELECT count(*) FROM {bed.table} WHERE status = 'PENDING' AND available_at = {FAR}")

    def stale_statistics(self):
        """The planner believes that the table is empty: no autovacuum has come since it filled."""
        return self.against_plain(self.fill_unseen_and_drain)

    def fill_unseen_and_drain(self):
        bed = self.servers.new_bed()
        bed.database.execute(f"ALTER TABLE {bed.table} SET (autovacuum_enabled = off)")
        bed.database.execute(f"ANALYZE {bed.table}")
        figures = self.refill_and_drain(bed, tidy=False)
        bed.remove()
        return figures

    def many_sources(self):
        return self.against_plain(self.drain_many_sources)

    def drain_many_sources(self):
        """The same number of rows, spread over the sources' tables."""
        bed = many_tables(self.servers, self.sizes.sources)
        each = self.sizes.rows // self.sizes.sources
        for source in bed.sources:
            bed.table = source["table"]
            bed.fill(each, self.plain.keys, self.plain.payload)
            bed.tidy()
        figures = drain(self.servers, bed, each * len(bed.sources), self.sizes.limit)
        bed.remove()
        return figures


def many_tables(servers, sources):
    return servers.new_bed(*({"table": f"outbox_{n}"} for n in range(1, sources + 1)))
