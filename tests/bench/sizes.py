"""How much of everything. The code is the same for each size."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Sizes:
    name: str
    about: str
    rows: int             # of a drain
    limit: int            # seconds after which a drain is cut off: its rate is what it did until then
    rounds: int           # how often runs that are compared take turns
    load_seconds: int     # at each rate of the latency case
    load_turns: int       # into which these seconds are divided where the bare program takes turns with the relay
    idle_seconds: int
    history: tuple        # settled rows in the table
    backlog: int
    blocked: int          # rows behind one failed head
    held_seconds: int     # a transaction stays open
    rates: tuple = (100, 1000, 5000)
    sources: int = 50
    payload: int = 200    # bytes of a row's payload


SIZES = {each.name: each for each in (
    Sizes("full", "about half an hour", rows=300_000, limit=40, rounds=2, load_seconds=30, load_turns=3, idle_seconds=30,
          history=(1_000_000, 10_000_000), backlog=1_000_000, blocked=100_000, held_seconds=300),
    Sizes("short", "about 5 minutes", rows=100_000, limit=10, rounds=1, load_seconds=6, load_turns=2, idle_seconds=5,
          history=(100_000, 1_000_000), backlog=150_000, blocked=10_000, held_seconds=15),
    # Only to see that the driver runs: tests/integration/test_bench.py.
    Sizes("tiny", "seconds", rows=3_000, limit=8, rounds=1, load_seconds=1, load_turns=1, idle_seconds=1,
          history=(1_000, 2_000), backlog=4_000, blocked=100, held_seconds=1, rates=(100,), sources=2),
)}
