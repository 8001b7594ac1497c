"""An outbox of its own for a test: the standard table in a fresh database, a fresh topic, and relays that serve it."""
import collections
import json
import subprocess

from .relay import run_command
from .wait import wait_until

# Short, so that a test need not wait for a minute; the lease is longer than the time-out by the 5 s it must be.
MESSAGE_TIMEOUT, LEASE = "4s", "10s"


def merged(base, more):
    """more over base, map by map."""
    return {**base, **{key: merged(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
                       for key, value in more.items()}}


class Outbox:
    table = "event_outbox"

    def __init__(self, database, broker, topic, make_relay):
        self.database, self.broker, self.topic, self._make_relay = database, broker, topic, make_relay
        self._has_table = False

    # ---- relays

    def config(self, source=None, **more):
        """A whole configuration. source: keys of the source; more: top-level sections laid over the defaults."""
        base = {
            "postgres": {"dsn": self.database.dsn()},
            "kafka": {"bootstrap_servers": self.broker.bootstrap, "message_timeout": MESSAGE_TIMEOUT},
        }
        one = {"name": "orders", "topic": self.topic, "batch": 100, "lease": LEASE, **(source or {})}
        return {**merged(base, more), "sources": [one]}

    def relay(self, source=None, name=None, env=None, schema=True, **more):
        """A relay, not yet started. The first one makes the table, as its own configuration says."""
        relay = self._make_relay(self.config(source, **more), name, env)
        if schema and not self._has_table:
            self.apply_schema(relay.file)
        return relay

    def start(self, source=None, **more):
        return self.relay(source, **more).start()

    def apply_schema(self, file):
        for source in json.loads(file.read_text())["sources"]:
            made = run_command("schema", "-c", file, "--source", source["name"])
            assert made.returncode == 0, made.stderr
            psql(self.database.dsn(), made.stdout)
        self._has_table = True

    # ---- rows

    def insert(self, count=1, key="k", payload=None, **columns):
        """Inserts rows in one transaction; key, payload and further columns are values, or functions of 0, 1, 2 ...
        Without a payload: {"n": 0}, {"n": 1} ... Returns the ids."""
        columns = {"aggregate_id": key, "event_type": "e", "payload": payload or (lambda n: json.dumps({"n": n})), **columns}
        names = ", ".join(columns)
        sql = f"INSERT INTO {self.table} ({names}) VALUES ({', '.join(['%s'] * len(columns))}) RETURNING id"
        connection = self.database.connect(autocommit=False)
        try:
            with connection, connection.cursor() as cursor:
                ids = []
                for n in range(count):
                    cursor.execute(sql, [value(n) if callable(value) else value for value in columns.values()])
                    ids.append(cursor.fetchone()[0])
                return ids
        finally:
            connection.close()

    def fill(self, count, keys=1, payload="jsonb_build_object('n', n)", first=1, **columns):
        """The same inside the server, for many rows; keys: how many different ones; columns: SQL expressions of n."""
        columns = {"aggregate_id": f"'k' || n % {keys}", "event_type": "'e'", "payload": payload, **columns}
        self.database.execute(f"INSERT INTO {self.table} ({', '.join(columns)}) SELECT {', '.join(columns.values())}"
                              f" FROM generate_series({first}, {first + count - 1}) n")

    def row(self, number):
        """One row as a dict."""
        found = self.database.all(f"SELECT to_jsonb(t) - 'payload' FROM {self.table} t WHERE id = %s", (number,))
        return found[0][0] if found else None

    def states(self):
        return self.database.states(self.table)

    def wait_states(self, expected, deadline=30):
        """Waits until the rows' states are exactly these, e.g. {"SENT": 10}."""
        wait_until(lambda: self.states() == expected, deadline, lambda: f"{expected}; there is {self.states()};"
                   f" errors: {self.database.all(f'SELECT DISTINCT last_error FROM {self.table} LIMIT 5')}")

    def wait_sent(self, count, deadline=30):
        self.wait_states({"SENT": count}, deadline)

    def wait_delivered(self, count, on_delivered, deadline=30):
        """Waits until all rows there are have been delivered: count of them are sent, or none is left."""
        self.wait_states({"SENT": count} if on_delivered == "mark" else {}, deadline)

    # ---- records

    def records(self, at_least=0, deadline=30):
        return self.broker.read(self.topic, at_least, deadline)

    def values(self, at_least=0):
        return [each.value for each in self.records(at_least)]

    def numbers(self, at_least=0):
        """n of every record's {"n": n}."""
        return [number(each) for each in self.records(at_least)]


def number(record):
    return json.loads(record.value)["n"]


def header(record, name):
    """A header's value as text; None when there is none of that name."""
    found = [value for key, value in record.headers if key == name]
    assert len(found) <= 1, f"header {name} came {len(found)} times"
    return found[0].decode() if found else None


def psql(dsn, sql):
    done = subprocess.run(["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", dsn], input=sql, text=True, capture_output=True)
    assert done.returncode == 0, f"{done.stderr}\n{sql}"
    return done.stdout


def disorder(records, value=number, repeats=True):
    """The places where a key's numbers do not rise, as (key, before, after). repeats: what has been there before is
    not counted, for at least once allows it; the first arrivals must be in order."""
    last, seen, found = {}, collections.defaultdict(set), []
    for each in records:
        this = value(each)
        if repeats and this in seen[each.key]:
            continue
        seen[each.key].add(this)
        if each.key in last and this <= last[each.key]:
            found.append((each.key, last[each.key], this))
        last[each.key] = this
    return found
