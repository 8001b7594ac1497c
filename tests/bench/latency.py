"""From commit to Kafka's report and to a consumer under a steady load; what an idle relay takes."""
import json
import subprocess
import time

from rig.relay import build
from rig.wait import wait_until

from . import measure
from .drain import drain_backlog, run_program, stop, take_turns
from .growth import many_tables
from .report import number
from .servers import Backlog
from .steps import Step

SINGLE = 5  # rows a second: each finds everything idle
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def latency(servers, sizes):
    for rate in (SINGLE, *sizes.rates):
        title = "single rows, NOTIFY" if rate == SINGLE else f"{number(rate)} rows/s, NOTIFY"
        yield Step(f"latency.{'single' if rate == SINGLE else rate}", title, lambda rate=rate: against_bare(servers, sizes, rate))
    for rate in sizes.rates:
        yield Step(f"latency.polling-{rate}", f"{number(rate)} rows/s, polling alone",
                   lambda rate=rate: under_load(servers, sizes, rate, sizes.load_seconds, {"notify": None}))


def against_bare(servers, sizes, rate):
    """In turns, the bare program first: it meets what is still cold. Of each that turn is kept in which the writer, which
    knows nothing of either, kept its times best."""
    seconds = sizes.load_seconds // sizes.load_turns
    found = take_turns(sizes.load_turns, floor=lambda: bare(servers, sizes, rate, seconds),
                       relay=lambda: under_load(servers, sizes, rate, seconds, {}))
    relay, floor = (min(found[name], key=lambda turn: turn["late"]) for name in ("relay", "floor"))
    return {**relay, "bare": floor, "all_p50": {name: [turn["report"]["p50"] for turn in turns] for name, turns in found.items()}, "cpu_ratio": relay["cpu_seconds"] / floor["cpu_seconds"],
            **{f"{name}_ratio": relay["report"][name] / floor["report"][name] for name in QUANTILES}}


def under_load(servers, sizes, rate, seconds, source):
    """The relay, while rows are committed at a steady rate and consumed."""
    bed = servers.new_bed(source)
    relay = bed.relay().start()
    if "notify" not in source:
        wait_until(lambda: relay.metrics().value("outboxd_notify_active") == 1, 30, "NOTIFY")
    bed.fill(1)  # the first row waits for a broker to be there, as the bare program does before it says that it is ready
    wait_until(lambda: relay.metrics().sum("outboxd_settled_total", outcome="sent") == 1, 30, "the first row")
    before = reports(relay)
    figures = load(bed, sizes, rate, seconds, relay.pid)
    report = reports(relay) - before
    assert report.count == figures["rows"], f"{report.counts}: {figures}"
    stop(relay)
    bed.remove()
    return {**figures, "report": {name: report.quantile(share) * 1000 for name, share in QUANTILES.items()}}


def reports(relay):
    return measure.Histogram.of(relay.metrics(), "outboxd_commit_to_ack_seconds")


def bare(servers, sizes, rate, seconds):
    """The bare program in its place."""
    bed = servers.new_bed()
    with subprocess.Popen([build() / "tests/bench/floor", "-c", bed.relay().file], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as floor:
        try:
            ready = floor.stderr.readline()
            assert ready == "ready\n", ready + floor.stderr.read()
            figures = load(bed, sizes, rate, seconds, floor.pid)
            floor.terminate()
            out, errors = floor.communicate(timeout=60)
        finally:
            floor.kill()
    assert floor.returncode == 0, errors
    result = json.loads(out)
    assert result["rows"] == figures["rows"], f"{result}: {figures}"
    bed.remove()
    return {**figures, "report": milliseconds(result["report"])}


def load(bed, sizes, rate, seconds, pid):
    """The load, until all its rows are settled; what the process with that id takes for them."""
    bed.database.execute("CHECKPOINT")  # what earlier steps have written is not flushed meanwhile
    cpu, begin = measure.cpu_seconds(pid), time.monotonic()
    result = run_program("load", "--dsn", bed.database.dsn(), "--table", bed.table, "--rate", rate, "--seconds", seconds,
                         "--keys", 1000, "--size", sizes.payload, "--consume", bed.broker.bootstrap, bed.topic)
    wait_until(lambda: bed.database.value(f"SELECT count(*) FROM {bed.table} WHERE settled_at IS NULL") == 0, 60, "all rows settled")
    cpu, took = measure.cpu_seconds(pid) - cpu, time.monotonic() - begin
    return {"rows": result["rows"], "late": result["late"], "consumer": milliseconds(result["commit_to_consumer"]),
            "cpu_seconds": cpu, "cpu_percent": cpu / took * 100}


def milliseconds(times):
    return {name: times[f"{name}_us"] / 1000 for name in QUANTILES}


# ---- footprint

def footprint(servers, sizes):
    yield Step("footprint.idle", f"idle for {sizes.idle_seconds} s", lambda: idle(servers, sizes, servers.new_bed()))
    yield Step("footprint.sources", f"the same, {sizes.sources} sources", lambda: idle(servers, sizes, many_tables(servers, sizes.sources)))
    yield Step("footprint.draining", f"draining {number(sizes.rows)} rows", lambda: draining(servers, sizes))


def idle(servers, sizes, bed):
    relay = bed.relay().start()
    wait_until(lambda: all(relay.metrics().all("outboxd_notify_active")), 30, "NOTIFY")
    with measure.Meter(servers) as used:
        cpu = measure.cpu_seconds(relay.pid)
        time.sleep(sizes.idle_seconds)
        cpu = measure.cpu_seconds(relay.pid) - cpu
    figures = {
        **measure.footprint(bed.database, [relay]),
        "cpu_percent": cpu / used.seconds * 100,
        "postgres_percent": used.postgres_cpu / used.seconds * 100,
    }
    stop(relay)
    bed.remove()
    return figures


def draining(servers, sizes):
    found = drain_backlog(servers, Backlog(sizes.rows), sizes.limit)
    scale = found["rows_per_second"] / 1e6 * 100
    return {**found, "cpu_percent": found["cpu"] * scale, "postgres_percent": found["postgres_cpu"] * scale}
