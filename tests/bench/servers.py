"""The servers of a run, and beds in them for its measurements: a database with its tables, a topic, relays."""
import dataclasses

from rig import kafka, outbox, postgres
from rig.process import Folder
from rig.relay import Relay
from rig.wait import wait_until

from . import measure

PARTITIONS = 3


@dataclasses.dataclass(frozen=True)
class Backlog:
    """Rows that wait, and the source that is to drain them. keys: how many different ones, None: each row has its own."""
    rows: int
    keys: int | None = 1000
    ordering: str = "key"
    on_delivered: str = "mark"
    payload: int = 200

    def source(self):
        """What differs from the default settings."""
        chosen = {"ordering": self.ordering, "on_delivered": self.on_delivered}
        return {key: value for key, value in chosen.items() if value not in ("key", "mark")}


class Bed(outbox.Outbox):
    """Where one measurement takes place. All settings are the defaults but for what `sources` (one dict each) says."""

    def __init__(self, servers, database, sources, has_table=False):
        super().__init__(database, servers.broker, servers.broker.create_topic(partitions=PARTITIONS), servers.make_relay)
        self.sources = sources
        self._has_table = has_table

    def config(self, source=None, **more):
        base = {"postgres": {"dsn": self.database.dsn()}, "kafka": {"bootstrap_servers": self.broker.bootstrap}}
        sources = [{"name": f"source{number}", "topic": self.topic, **each, **(source or {})}
                   for number, each in enumerate(self.sources, 1)]
        return {**outbox.merged(base, more), "sources": sources}

    def fill(self, count, keys=1000, size=200, **columns):
        """Rows with a jsonb payload of about `size` bytes."""
        pad = max(size - len('{"n": 123456, "pad": ""}'), 0)
        super().fill(count, keys or 10**12, f"jsonb_build_object('n', n, 'pad', repeat('x', {pad}))", **columns)

    def tidy(self):
        """As autovacuum would leave the table after a while."""
        self.database.execute(f"VACUUM (ANALYZE) {self.table}")

    def updates(self):
        """Row versions written by UPDATE so far, and how many of them HOT. For when the sessions that wrote them are over:
        until then some are not reported."""
        wait_until(lambda: not self.database.sessions(), 30, "the relay's sessions to end")
        return [int(each) for each in self.database.one(
            "SELECT coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_hot_upd), 0) FROM pg_stat_user_tables")]

    def remove(self):
        self.database.drop()
        self.broker.delete_topic(self.topic)


class Servers:
    """One PostgreSQL and one Kafka for the whole run. Those of somebody else are used and left."""

    def __init__(self, cluster=None, broker=None):
        self.folder = Folder("bench")
        self._own, self._relays, self._templates, self._relay_number = [], [], {}, 0
        try:
            self.broker = broker or self._keep(kafka.Kafka({}, kafka.STOCK_JVM)).start(wait=False)
            self.cluster = cluster or self._keep(postgres.Cluster({})).start()
            if broker is None:
                self.broker.wait_ready()
        except BaseException:
            self.remove()
            raise
        self.admin = postgres.Database(self.cluster, "postgres")

    def _keep(self, server):
        self._own.append(server)
        return server

    def stop_relays(self):
        """Those that a step which failed has left."""
        for relay in self._relays:
            relay.remove()
        self._relays.clear()

    def remove(self):
        self.stop_relays()
        for each in self._own:
            each.remove()
        self.folder.remove()

    def kafka_cpu_seconds(self):
        process = getattr(self.broker, "process", None)  # a mock broker is not worth measuring
        return measure.cpu_seconds(process.pid) if process else 0.0

    # ---- places

    def make_relay(self, config, name=None, env=None):
        self._relay_number += 1
        self._relays.append(Relay(config, self.folder.path, name or f"relay{self._relay_number}", env))
        return self._relays[-1]

    def new_bed(self, *sources):
        """A new database with the sources' empty tables."""
        bed = Bed(self, self.cluster.create_database(), sources or ({},))
        bed.relay()
        return bed

    def bed(self, backlog):
        """With a table that holds the backlog, vacuumed and analyzed: a copy, file by file, of one that was filled once,
        so that all runs on it begin alike."""
        if backlog not in self._templates:
            bed = self.new_bed(backlog.source())
            bed.fill(backlog.rows, backlog.keys, backlog.payload)
            bed.tidy()
            bed.database.session().close()
            self._templates[backlog] = bed.database
        copy = self.cluster.create_database(self._templates[backlog])
        return Bed(self, copy, (backlog.source(),), has_table=True)
