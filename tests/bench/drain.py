"""One drain of a backlog by relays, and the same by a bare program; runs that are compared take turns."""
import json
import subprocess
import time

from rig.relay import build

from . import measure

POLL = 0.05  # seconds between two looks at the relays' counters


def run_program(name, *args):
    """A bare program of tests/bench (C), to its end; what it prints is JSON."""
    done = subprocess.run([build() / "tests/bench" / name, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=900)
    assert done.returncode == 0, f"{name} {args}: {done.stderr}"
    return json.loads(done.stdout)


def shared_figures(bed, used, rows):
    """What a drain and its ceiling have in common."""
    updates, hot = bed.updates()
    return {
        "postgres_cpu": used.postgres_cpu / rows * 1e6,
        "wal_bytes": used.wal_bytes / rows,
        "hot_share": hot / updates if updates else None,
    }


def ceiling(servers, backlog, connections=2):
    """The same statements on the same table by the bare program: figures of a row, or of a million."""
    bed = servers.bed(backlog)
    with measure.Meter(servers) as used:
        result = run_program("ceiling", "-c", bed.relay().file, "--connections", connections)
    assert result["rows"] == backlog.rows, f"{result} of {backlog}"
    figures = {**shared_figures(bed, used, backlog.rows), **result,
               "cpu": result["cpu_seconds"] / backlog.rows * 1e6,
               "claim_ms": result["claim_seconds"] / max(result["claims"], 1) * 1000}
    bed.remove()
    return figures


def drain(servers, bed, rows, limit, instances=1):
    """Relays started on a table with that many waiting rows; the time is from the start of the processes until all rows are
    settled as sent, or `limit` seconds have passed. Leaves the bed."""
    relays = [bed.relay() for _ in range(instances)]
    with measure.Meter(servers) as used:
        for relay in relays:
            relay.start(ready=False)
        sent, first_seconds = watch_until_sent(relays, rows, limit)
    figures = relay_figures(bed, relays, sent)
    for relay in relays:
        stop(relay)
    arrived = bed.broker.count(bed.topic)
    assert arrived >= sent, f"{sent} rows were settled as sent, {arrived} records have arrived"
    return {"rows": sent, "seconds": used.seconds, "first_seconds": first_seconds, "rows_per_second": sent / used.seconds, **figures,
            **shared_figures(bed, used, sent), "kafka_cpu": used.kafka_cpu / sent * 1e6}


def stop(relay):
    code = relay.stop()
    assert code == 0, f"the relay ended with {code}:\n{relay.log()[-4000:]}"


def watch_until_sent(relays, rows, limit):
    """Returns how many were sent in the end, and after how many seconds the first of them was seen."""
    watches = [measure.Watch(relay.port) for relay in relays]
    begin, sent, first = time.monotonic(), 0, None
    while sent < rows and time.monotonic() < begin + limit:
        time.sleep(POLL)
        sent = sum(watch.sent() for watch in watches)
        if first is None and sent > 0:
            first = time.monotonic() - begin
        for relay in relays:
            assert relay.alive(), f"the relay has ended:\n{relay.log()[-4000:]}"
    for watch in watches:
        watch.close()
    assert sent > 0, f"nothing was sent in {limit} s:\n{relays[0].log()[-4000:]}"
    return sent, first


def relay_figures(bed, relays, sent):
    """Of relays that still run."""
    cpu = sum(measure.cpu_seconds(relay.pid) for relay in relays)
    transactions = measure.transactions([relay.metrics() for relay in relays])
    return {
        "cpu": cpu / sent * 1e6,
        **measure.footprint(bed.database, relays),
        "statements": transactions["statements"] / sent,
        "claim_ms": transactions["claim_ms"],
    }


def drain_backlog(servers, backlog, limit, instances=1):
    """The same on a fresh copy of the backlog's table."""
    bed = servers.bed(backlog)
    figures = drain(servers, bed, backlog.rows, limit, instances)
    bed.remove()
    return figures


def take_turns(rounds, **runs):
    """Each of the runs once, in their order, `rounds` times over: a disturbance of the machine meets all of them alike.
    Returns {name: [results]}."""
    found = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            found[name].append(run())
    return found


def in_turns(rounds, **runs):
    """Takes turns; of each run the fastest is kept, with the rates of all in "all_rates"."""
    return {name: {**max(results, key=lambda each: each["rows_per_second"]),
                   "all_rates": [round(each["rows_per_second"]) for each in results]}
            for name, results in take_turns(rounds, **runs).items()}
