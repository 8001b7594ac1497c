"""Ceilings, drains against them, several instances."""
from .drain import ceiling, drain_backlog, in_turns, run_program
from .servers import Backlog
from .steps import Step

# What a table's keys may look like: name, title, what differs from a backlog's default.
KEYS = (
    ("all-different", "all keys different", {"keys": None}),
    ("1000", "1 000 keys", {"keys": 1000}),
    ("10", "10 keys", {"keys": 10}),
    ("1", "one key", {"keys": 1}),
    ("unordered", "ordering: none", {"ordering": "none"}),
)
MODES = ("mark", "delete")


def ceilings(servers, sizes):
    for mode in MODES:
        for connections, title in ((1, "one connection"), (2, "two connections")):
            backlog = Backlog(sizes.rows, on_delivered=mode)
            yield Step(f"ceilings.{mode}.{connections}", f"claim and {mode}, {title}",
                       lambda backlog=backlog, connections=connections: ceiling(servers, backlog, connections))
    yield Step("ceilings.librdkafka", "librdkafka alone", lambda: produce(servers, sizes))


def produce(servers, sizes):
    """The same number of records into a topic of the same kind."""
    bed = servers.new_bed()
    result = run_program("produce", "-c", bed.relay().file, "--topic", bed.topic, "--rows", sizes.rows, "--size", sizes.payload,
                         "--keys", 1000)
    bed.remove()
    return {**result, "cpu": result["cpu_seconds"] / result["rows"] * 1e6}


def drains(servers, sizes):
    for mode in MODES:
        for name, title, keys in KEYS:
            backlog = Backlog(sizes.rows, on_delivered=mode, **keys)
            yield Step(f"drain.{mode}.{name}", f"{mode}, {title}", lambda backlog=backlog: against_ceiling(servers, sizes, backlog))


def against_ceiling(servers, sizes, backlog):
    """The relay with Kafka beside it, as a share of what two connections reach without both."""
    best = in_turns(sizes.rounds, ceiling=lambda: ceiling(servers, backlog), library=lambda: produce(servers, sizes),
                    drain=lambda: drain_backlog(servers, backlog, sizes.limit))
    bare, library, relay = best["ceiling"], best["library"], best["drain"]
    return {
        **relay,
        "ceiling": bare,
        "library": library,
        "bare_cpu": bare["cpu"] + library["cpu"],
        "ceiling_rate": bare["rows_per_second"],
        "ratio": relay["rows_per_second"] / bare["rows_per_second"],
        "postgres_ratio": relay["postgres_cpu"] / bare["postgres_cpu"],
    }


def instances(servers, sizes):
    """All of them in one step for each number, against one instance in the same minute."""
    backlog = Backlog(sizes.rows)
    for count in (2, 4):
        yield Step(f"instances.{count}", f"{count} instances", lambda count=count: against_one(servers, sizes, backlog, count))


def against_one(servers, sizes, backlog, count):
    best = in_turns(sizes.rounds, one=lambda: drain_backlog(servers, backlog, sizes.limit),
                    many=lambda: drain_backlog(servers, backlog, sizes.limit, count))
    one, many = best["one"], best["many"]
    return {**many, "one": one, "one_rate": one["rows_per_second"], "ratio": many["rows_per_second"] / one["rows_per_second"]}
