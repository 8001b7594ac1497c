"""What a run costs: processor time, memory, WAL, time by the relay's own histograms."""
import http.client
import math
import os
import pathlib
import re
import time

TICKS = os.sysconf("SC_CLK_TCK")


def proc(pid, name):
    return pathlib.Path(f"/proc/{pid}/{name}").read_text()


# ---- one process

def cpu_seconds(pid):
    """All threads, those that have ended included: what utime + stime of /proc/PID/stat say, in nanoseconds in place of ticks.
    The number is the kernel's name of that process's clock, as clock_getcpuclockid(3) makes it."""
    return time.clock_gettime(~pid << 3 | 2)


def memory(pid, field):
    """A line of /proc/PID/status in MiB: VmRSS, or VmHWM, the peak."""
    return int(re.search(rf"^{field}:\s+(\d+) kB", proc(pid, "status"), re.M)[1]) / 1024


def footprint(database, relays):
    """Of relays that run on a database: of several, the largest figures."""
    return {
        "rss": max(memory(relay.pid, "VmRSS") for relay in relays),
        "peak_rss": max(memory(relay.pid, "VmHWM") for relay in relays),
        "threads": max(len(os.listdir(f"/proc/{relay.pid}/task")) for relay in relays),
        "files": max(len(os.listdir(f"/proc/{relay.pid}/fd")) for relay in relays),
        "connections": len(database.sessions()) / len(relays),
    }


# ---- a server of many processes

def children(pid):
    return sorted(map(int, proc(pid, f"task/{pid}/children").split()))


def tree_cpu_seconds(pid):
    """A process, its children, and what children that have ended had used. Read again when one came or went meanwhile."""
    while True:
        before = children(pid)
        try:
            living = sum(map(cpu_seconds, before))
        except OSError:
            continue
        fields = proc(pid, "stat").rsplit(")", 1)[1].split()
        ended = (int(fields[13]) + int(fields[14])) / TICKS
        if children(pid) == before:
            return cpu_seconds(pid) + living + ended


class Meter:
    """with Meter(servers) as used: seconds, processor time of PostgreSQL and Kafka, and WAL between begin and end."""

    def __init__(self, servers):
        self._servers = servers

    def _read(self):
        servers = self._servers
        return {
            "wal_bytes": int(servers.admin.value("SELECT pg_current_wal_insert_lsn() - '0/0'")),
            "kafka_cpu": servers.kafka_cpu_seconds(),
            "postgres_cpu": tree_cpu_seconds(servers.cluster.process.pid),
            "seconds": time.monotonic(),
        }

    def __enter__(self):
        # Whoever is measured first after a fill would write its pages out.
        self._servers.admin.execute("CHECKPOINT")
        self._before = self._read()
        return self

    def __exit__(self, kind, error, trace):
        for name, value in self._read().items():
            setattr(self, name, value - self._before[name])


# ---- the relay's own counters

class Watch:
    """Looks often at how many rows a relay has sent: one connection kept, one number picked from the page."""
    SENT = re.compile(rb'^outboxd_settled_total\{[^}]*outcome="sent"[^}]*\} (\S+)$', re.M)

    def __init__(self, port):
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)

    def sent(self):
        """0 while the relay does not answer yet."""
        try:
            self._connection.request("GET", "/metrics")
            page = self._connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return 0
        return int(sum(map(float, self.SENT.findall(page))))

    def close(self):
        self._connection.close()


class Histogram:
    """A Prometheus histogram of a page (rig.relay.Metrics), its series with these labels added up. Differences of two give
    what came between."""

    def __init__(self, counts):
        self.counts = counts  # {upper bound: how many at or below it}

    @classmethod
    def of(cls, metrics, name, **labels):
        counts = {}
        for sample, has, value in metrics.samples:
            if sample == f"{name}_bucket" and all(has.get(key) == wanted for key, wanted in labels.items()):
                bound = float(has["le"])
                counts[bound] = counts.get(bound, 0) + value
        return cls(counts)

    def __sub__(self, before):
        return Histogram({bound: count - before.counts.get(bound, 0) for bound, count in self.counts.items()})

    @property
    def count(self):
        return self.counts.get(math.inf, 0)

    def quantile(self, share):
        """Interpolated inside the bucket; the last finite bound when it lies beyond that; None when there is nothing."""
        wanted, below, low = share * self.count, 0, 0.0
        if not self.count:
            return None
        for bound, count in sorted(self.counts.items()):
            if count >= wanted and count > below:
                return low if math.isinf(bound) else low + (bound - low) * (wanted - below) / (count - below)
            below, low = count, bound
        return low


def transactions(pages):
    """How many statements the relays with these pages have sent, and how long their claims took on average, in milliseconds."""
    name = "outboxd_transaction_seconds"
    claims = sum(page.sum(f"{name}_count", statement="claim") for page in pages)
    seconds = sum(page.sum(f"{name}_sum", statement="claim") for page in pages)
    return {"statements": sum(page.sum(f"{name}_count") for page in pages), "claim_ms": seconds / max(claims, 1) * 1000}
