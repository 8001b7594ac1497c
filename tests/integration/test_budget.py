"""What a row costs, counted instead of timed: statements, allocations, system calls, pages. A change that makes a row dearer
fails here, on a slow and busy machine too. How long it takes is measured by `make bench`."""
import collections

import pytest

from rig import postgres
from rig.tally import Tally, allocations, system_calls
from rig.wait import wait_until

pytestmark = pytest.mark.unsanitized

ROWS = 20_000
WARM_UP = 5_000  # more than are ever in memory: what grows with them has grown
HISTORY = 100_000

# (at least, at most) for rows with keys of their own, the dearest kind, in batches of 500. Whoever makes a row cheaper lowers
# the bound to 1.2 to 1.5 times what this test then measures.
BOUNDS = {
    "transactions a row": (0.002, 0.0055),  # a claim for each batch, and a settle, or one for several
    "statements a row": (0.002, 0.0055),  # and nothing around those: no BEGIN, no SET LOCAL, no COMMIT
    "pages a row, claim": (1, 10),
    "pages a row, settle": (1, 14),
    "allocations a row, program": (0, 2.3),  # a key and a message
    "allocations a row, libpq": (0.01, 0.55),  # a piece of 2 KB for a few rows of a claim's result
    "allocations a row, librdkafka": (1, 6.5),  # a message, a list of headers (two), three headers
    "allocations a row, libc": (0, 0.01),  # strdup of what libpq sends unprepared
    "system calls a row": (0.02, 0.16),
    "updates a row": (2, 2),
    "HOT share": (0.48, 1),  # the claim's update; not the settle's, for settled_at is in the indexes' condition
}
# With a history at most so many times as much as without. A settled row has entries in larger indexes.
HISTORY_RATIOS = {"pages a row, claim": 1.1, "pages a row, settle": 1.4}

# How often librdkafka's thread looks at its socket says how slow the broker is: it spins while five requests are unanswered.
SPINNING = ("librdkafka", "poll")

WHERE = {
    "transactions": "core/sched.c, relay/claim.c, relay/outcome.c: when, and how many rows at once",
    "statements": "io/db.c: what is sent around a statement",
    "pages": "core/sqlclaim.c, core/sqlsettle.c, and their plans, by auto_explain as in test_claim_cost.py",
    "allocations": "`heaptrack outboxd run -c FILE`, then `heaptrack_print -a 1 -n 20` names the places",
    "system": "`strace -f outboxd run -c FILE` shows what a batch does",
    "updates": "core/sqlclaim.c, core/sqlsettle.c: a row is claimed once and settled once",
    "HOT": "core/sqlschema.c: an index or its condition that names what a claim changes; fillfactor",
}


@pytest.fixture(scope="module")
def _cluster():
    """A server that counts statements, in place of the common one."""
    cluster = postgres.Cluster({**postgres.FOR_TESTS, "shared_preload_libraries": "pg_stat_statements"})
    try:
        yield cluster.start()
    finally:
        cluster.remove()


@pytest.fixture
def database(database):
    """With a role of the same name for the relay alone, so that the server can tell its statements from the test's."""
    database.execute("CREATE EXTENSION pg_stat_statements")
    database.execute(f"CREATE ROLE {database.name} SUPERUSER LOGIN")
    return database


Statement = collections.namedtuple("Statement", "text calls rows pages")


class Statements:
    """What the server has counted for the relay since its counts were reset."""

    def __init__(self, database):
        self.all = [Statement(*row) for row in database.all(
            "SELECT query, calls, rows::int, (shared_blks_hit + shared_blks_read)::int FROM pg_stat_statements"
            " WHERE userid = %s::regrole ORDER BY calls DESC", (database.name,))]
        self.claims = [each for each in self.all if "candidate AS" in each.text]
        self.settles = [each for each in self.all if "unnest(" in each.text and each not in self.claims]


def total(statements, field):
    return sum(getattr(each, field) for each in statements)


class Drain:
    """A backlog of so many rows, drained, and what was counted meanwhile."""

    def __init__(self, outbox, relay, tally, rows):
        before = sum(outbox.states().values())
        database, self.rows = outbox.database, rows
        database.execute("SELECT pg_stat_statements_reset()")
        told, calls = self._told(relay), tally.read()
        outbox.fill(rows, keys=before + rows + 1, first=before + 1, payload="jsonb_build_object('text', repeat('x', 200))")
        # The table is left alone until the end: who reads it cleans it up.
        wait_until(lambda: total(Statements(database).settles, "rows") >= rows, 60, lambda: Statements(database).all)
        outbox.wait_sent(before + rows)
        self.calls, self.statements = tally.read() - calls, Statements(database)
        self.told = self._told(relay) - told

    @staticmethod
    def _told(relay):
        """How many claims and settles there were, as the relay says."""
        metrics = relay.metrics()
        return sum(metrics.value("outboxd_transaction_seconds_count", statement=kind) for kind in ("claim", "settle"))

    def transactions(self):
        return total(self.statements.claims + self.statements.settles, "calls")

    def prices(self):
        allocated = allocations(self.calls)
        system = system_calls({name: count for name, count in self.calls.items() if name != SPINNING})
        counts = {"transactions a row": self.transactions(), "statements a row": total(self.statements.all, "calls"),
                  "pages a row, claim": total(self.statements.claims, "pages"),
                  "pages a row, settle": total(self.statements.settles, "pages")}
        # The others' depend on the clock: jansson reads librdkafka's statistics once a second.
        for caller in "program", "libpq", "librdkafka", "libc":
            counts[f"allocations a row, {caller}"] = allocated[caller]
        counts["system calls a row"] = sum(system.values())
        return {name: count / self.rows for name, count in counts.items()}

    def __str__(self):
        statements = [f"{each.calls:8} {' '.join(each.text.split())[:100]}" for each in self.statements.all]
        calls = [f"{count:8} {call} by {caller}" for (caller, call), count in self.calls.most_common() if count > 9]
        return "\n".join([f"{self.rows} rows took these statements:", *statements, "and these calls:", *calls])


def updates(database, rows):
    """Of the whole table's life; the server knows of all when the relay's sessions have ended."""
    wait_until(lambda: not database.sessions(), 30, database.sessions)
    updated, hot = database.one("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'event_outbox'")
    return {"updates a row": updated / rows, "HOT share": hot / updated}


def beyond(prices, bounds):
    """A sentence for each price that is too high, or so low that the counting must have failed."""
    return "".join(f"\n{name}: {price:.4f}, not within {bounds[name]}. See {WHERE[name.split()[0]]}."
                   for name, price in prices.items() if not bounds[name][0] <= price <= bounds[name][1])


def listed(prices):
    return ", ".join(f"{name} {price:.4f}" for name, price in prices.items())


def test_F087_what_a_row_costs_with_and_without_a_history(mock_outbox, tmp_path, record_property):
    database, tally = mock_outbox.database, Tally(tmp_path / "tally")
    relay = mock_outbox.relay({"batch": 500, "lease": "60s"}, env=tally.env, postgres={"dsn": database.dsn(user=database.name)})
    # When it runs depends on the clock.
    database.execute("ALTER TABLE event_outbox SET (autovacuum_enabled = off)")
    relay.start()
    Drain(mock_outbox, relay, tally, WARM_UP)
    bare = Drain(mock_outbox, relay, tally, ROWS)
    mock_outbox.fill(HISTORY, status="'SENT'", settled_at="now()")
    database.execute("VACUUM ANALYZE event_outbox")  # by its statistics no row is ever open
    beside = Drain(mock_outbox, relay, tally, ROWS)
    assert relay.stop() == 0

    prices, later = {**bare.prices(), **updates(database, WARM_UP + 2 * ROWS)}, beside.prices()
    with_history = {**BOUNDS, **{name: (0, ratio * prices[name]) for name, ratio in HISTORY_RATIOS.items()}}
    record_property("measured", f"{listed(prices)}; with a history: {listed(later)}")
    print(bare, beside, sep="\n\nWith a history:\n")
    for drain in bare, beside:
        assert abs(drain.told - drain.transactions()) <= 3, f"the relay tells of {drain.told} claims and settles"
    dear, dear_with_history = beyond(prices, BOUNDS), beyond(later, with_history)
    assert not dear + dear_with_history, f"{dear}\nwith a history:{dear_with_history}"
