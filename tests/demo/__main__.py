"""outboxd at work, in two minutes: `make demo`. KEEP=1 leaves everything running, and says how to stop it."""
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

from rig import kafka, maven, postgres, process, relay
from rig.wait import wait_until

KEEP = os.environ.get("KEEP", "") not in ("", "0")
BOLD, PLAIN = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")

CONFIG = """\
postgres:
  dsn: "host=127.0.0.1 port={postgres} dbname=shop user=postgres"
kafka:
  bootstrap_servers: "127.0.0.1:{kafka}"
sources:
  - name: orders
    topic: orders
http:
  listen: 127.0.0.1:{http}
"""

TABLE = """\
CREATE TABLE orders (id int PRIMARY KEY, customer text NOT NULL, total numeric NOT NULL);
"""

# One transaction writes the order and what the world should hear of it: both happen, or neither does.
ORDER = """\
BEGIN;
INSERT INTO orders VALUES ({id}, '{customer}', {total});
INSERT INTO event_outbox (aggregate_id, event_type, payload)
VALUES ('{customer}', 'order_placed', '{{"order": {id}, "total": {total}}}');
{end};
"""


def step(title):
    print(f"\n{BOLD}{title}{PLAIN}", flush=True)


def say(text):
    print(textwrap.indent(text.strip("\n"), "  "), flush=True)


class Demo:
    def __init__(self):
        self.begin = time.monotonic()
        process.outlive = KEEP
        self.folder = process.Folder("demo")
        self.cluster = self.broker = self.relay = None
        self.orders = 0

    # ---- the servers

    def start_servers(self):
        step("Starting a PostgreSQL and an Apache Kafka of our own, in temporary folders and on free ports")
        kafka.jars()
        self.cluster = postgres.Cluster()
        self.broker = kafka.Kafka()
        self.broker.start(wait=False)
        self.cluster.start()
        self.cluster.admin("CREATE DATABASE shop")
        self.database = postgres.Database(self.cluster, "shop")
        say(f"PostgreSQL listens on 127.0.0.1:{self.cluster.port}")
        self.broker.wait_ready()
        self.broker.create_topic("orders", partitions=3)
        say(f"Kafka listens on 127.0.0.1:{self.broker.port}, and has a topic 'orders' with three partitions")

    def psql(self, sql):
        subprocess.run(["psql", "-q", "-v", "ON_ERROR_STOP=1", "-d", self.database.dsn()], input=sql, text=True, check=True,
                       stdout=subprocess.DEVNULL)

    def start_relay(self):
        step("The relay's whole configuration")
        self.file = self.folder / "outboxd.yaml"
        self.http = process.free_port()
        self.file.write_text(CONFIG.format(postgres=self.cluster.port, kafka=self.broker.port, http=self.http))
        say(self.file.read_text())
        step("Making the outbox table (outboxd schema | psql), beside a table of the application's own")
        schema = relay.run_command("schema", "-c", self.file)
        if schema.returncode != 0:
            raise SystemExit(f"outboxd schema: {schema.stderr}")
        self.psql(schema.stdout)
        self.psql(TABLE)
        say(TABLE)
        step("Starting the relay (outboxd run)")
        self.relay = relay.Relay.of_file(self.file, self.http, self.folder.path, "outboxd").start()
        say(f"It is ready, and answers on http://127.0.0.1:{self.http}/readyz and /metrics")

    # ---- the application

    def order(self, customer, total, end="COMMIT"):
        self.orders += 1
        sql = ORDER.format(id=self.orders, customer=customer, total=total, end=end)
        self.psql(sql)
        return sql

    def delivered(self, count, deadline=60):
        """Waits for that many records on the topic, and for all rows to be marked; returns the records."""
        wait_until(lambda: self.broker.count("orders") >= count, deadline, f"{count} records on the topic")
        wait_until(lambda: set(self.rows()) == {"SENT"}, deadline, lambda: f"all rows sent: {self.rows()}")
        return self.broker.read("orders", at_least=count)

    def rows(self):
        return self.database.states()

    def show_rows(self, last=8):
        rows = self.database.all("SELECT id, aggregate_id, status, attempts, settled_at IS NOT NULL FROM event_outbox ORDER BY id")
        say(f"{'id':>4}  {'key':10} {'status':8} {'attempts':>8}  settled")
        if len(rows) > last:
            say(f"   … {len(rows) - last} rows before these")
        for number, key, status, attempts, settled in rows[-last:]:
            say(f"{number:4}  {key:10} {status:8} {attempts:8}  {'yes' if settled else 'no'}")

    # ---- the acts

    def first_orders(self):
        step("The application takes orders. Each is an ordinary SQL transaction:")
        say(self.order("alice", "20.50"))
        for customer, total in (("bob", "7.99"), ("alice", "12.00"), ("carol", "99.00")):
            self.order(customer, total)
        say("\n... three more, and then one that is rolled back:")
        say(self.order("mallory", "1000000.00", "ROLLBACK"))
        records = self.delivered(4)
        step("What arrived in Kafka")
        for each in records:
            say(f"partition {each.partition} offset {each.offset}  key {each.key.decode():6} value {each.value.decode()}")
            say("    headers " + ", ".join(f"{name}={value.decode()}" for name, value in each.headers))
        if any(each.key == b"mallory" for each in records) or len(records) != 4:
            raise SystemExit(f"four records were expected, none of mallory: {records}")
        say("Four records. The transaction that was rolled back never arrived, for its row was never there.")
        step("What stands in the table now")
        self.show_rows()

    def outage(self):
        step("Now Kafka is killed (SIGKILL), and the application goes on taking orders")
        self.broker.kill()
        for number in range(20):
            self.order(("alice", "bob", "carol")[number % 3], 10 + number)
        wait_until(lambda: not self.relay.ready(), 30, "the relay to notice")
        say("20 more orders are committed: the outbox holds them. The relay says what it waits for:")
        say("GET /readyz -> " + " ".join(map(str, self.relay.get("/readyz"))))
        self.show_rows(4)
        step("Kafka comes back")
        self.broker.start()
        records = self.delivered(24)
        seen = collections.Counter(json.loads(each.value)["order"] for each in records)
        committed = {number for number, in self.database.all("SELECT id FROM orders")}
        in_order = all(values == sorted(values) for values in self.by_key(records).values())
        if set(seen) != committed or not in_order:
            raise SystemExit(f"rows are missing or out of order: {sorted(committed - set(seen))} {self.by_key(records)}")
        say(f"All {len(committed)} committed orders are on the topic, those of each customer in the order of their commits;")
        repeats = sum(seen.values()) - len(seen)
        say(f"{repeats or 'none'} of them twice. No row was lost, and no attempt was spent on the outage:")
        self.show_rows()

    @staticmethod
    def by_key(records):
        found = collections.defaultdict(list)
        for each in records:
            number = json.loads(each.value)["order"]
            if number not in found[each.key]:
                found[each.key].append(number)
        return found

    def try_next(self):
        binary = os.path.relpath(relay.binary(), relay.ROOT)
        step("Try next" if KEEP else "Try next (after `make demo KEEP=1`, which leaves all this running)")
        say(f"""
psql "{self.database.dsn()}"
kcat -b {self.broker.bootstrap} -C -t orders -f '%k  %s  (%h)\\n' -e
curl http://127.0.0.1:{self.http}/metrics
{binary} status -c {self.file}
{binary} states
{binary} config --reference
{binary} run --help
""")

    def leave(self):
        """Everything stays; a small script ends it."""
        script = self.folder / "stop"
        pids = [str(each.process.pid) for each in (self.relay, self.broker, self.cluster)]
        script.write_text(f"#!/bin/sh\nkill -TERM {pids[0]} {pids[1]}\nkill -INT {pids[2]}\n"
                          f"for pid in {' '.join(pids)}; do while kill -0 $pid 2>/dev/null; do sleep 0.1; done; done\n"
                          f"rm -rf {self.folder.path} {self.broker.folder.path} {self.cluster.folder.path}\n")
        script.chmod(0o755)
        step("It stays as it is, as you asked")
        say(f"The relay's log: {self.relay.log_path}\nTo stop it and remove its folders: {script}")

    def clean(self):
        for each in (self.relay, self.broker, self.cluster):
            if each is not None:
                each.remove()
        self.folder.remove()

    def run(self):
        self.start_servers()
        self.start_relay()
        self.first_orders()
        self.outage()
        self.try_next()
        if KEEP:
            self.leave()
        else:
            step("Stopping the relay (SIGTERM)")
            code = self.relay.stop()
            say(f"It ended with {code}, after it had settled all it held.")
            if code != 0:
                raise SystemExit(f"the relay ended with {code}")


def main():
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    if not shutil.which("psql"):
        raise SystemExit("psql is missing: `make deps` installs it")
    print(f"{BOLD}outboxd: rows of a PostgreSQL table become records in Kafka, in order, at least once{PLAIN}")
    demo, done = Demo(), False
    try:
        demo.run()
        done = True
    finally:
        if not done and demo.relay is not None:
            print(f"The relay's log:\n{demo.relay.log()[-6000:]}", file=sys.stderr)
        if not (KEEP and done):
            demo.clean()
    where = "" if KEEP else f" Nothing of it runs any more; Kafka's jars stay in {maven.cache()}, and Maven's copies in ~/.m2."
    print(f"\nDone in {time.monotonic() - demo.begin:.0f} s.{where}")


if __name__ == "__main__":
    main()
