"""Tables of any shape, many in one relay: types of ids, states, payloads and times, names, views, partitions."""
import json

from rig.outbox import disorder, header, number
from rig.relay import run_command
from rig.tables import sources, statement
from rig.wait import wait_until

SMALL_LIMIT = {"kafka": {"properties": {"message.max.bytes": "1000"}}}
LABELS = ["PENDING", "SENDING", "SENT", "FAILED"]
ROWS, KEYS = 12, 3

IDS = ["smallint DEFAULT nextval('ids')", "int DEFAULT nextval('ids')", "bigint DEFAULT nextval('ids') + 9223372036854000000",
       "uuid DEFAULT gen_random_uuid()", "text DEFAULT gen_random_uuid()"]
STATES = ["text DEFAULT 'PENDING'", "varchar(10) DEFAULT 'PENDING'", "\"the State\" DEFAULT 'PENDING'", "smallint DEFAULT 0"]
PAYLOADS = {"json": "json_build_object('n', n, 'x', x)", "jsonb": "jsonb_build_object('n', n, 'x', x)",
            "text": "json_build_object('n', n, 'x', x)::text",
            "bytea": "convert_to(json_build_object('n', n, 'x', x)::text, 'UTF8')"}
PLAIN = {"id": "id", "order": "seq", "key": "aggregate_id", "type": "event_type", "payload": "payload", "status": "status",
         "attempts": "attempts", "available_at": "available_at", "lease_until": "lease_until", "last_error": "last_error",
         "created_at": "created_at", "settled_at": "settled_at"}
STRANGE = {role: f"{name.title()} of \"it\"" for role, name in PLAIN.items()}


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class Table:
    """Number n of twenty. Together they have each type of id with each type of state, and all else in many combinations."""

    def __init__(self, n):
        self.n, self.source = n, f"t{n}"
        self.columns = dict(STRANGE if n % 3 == 0 else PLAIN)
        self.name = f'"Out Box.{n}"' if n % 3 == 0 else f"box{n}"
        self.id, self.state, self.payload = IDS[n % 5], STATES[n % 4], list(PAYLOADS)[n // 5]
        self.time = "timestamp" if n // 2 % 2 else "timestamptz"
        self.ordered = n % 5 < 3 or n % 2 == 0  # an id that has no order gets a column that has, or the rows none
        for role, there in {"order": self.ordered and n % 5 >= 3, "lease_until": n // 4 % 2, "settled_at": n // 3 % 2}.items():
            if not there:
                self.columns[role] = None
        if n // 4 % 4 == 2:
            self.columns["lease_until"] = self.columns["available_at"]
        self.is_view, self.is_partitioned = n % 4 == 1, n % 7 == 2
        self.relation = f'"View.{n}"' if self.is_view else self.name
        self.labels = list("0123") if "smallint" in self.state else LABELS

    def column(self, role):
        return quoted(self.columns[role])

    def ddl(self):
        types = {"id": f"{self.id} NOT NULL", "order": "bigint NOT NULL DEFAULT nextval('ids')", "key": "text", "type": "text",
                 "payload": self.payload, "status": self.state, "attempts": "smallint" if self.n % 2 else "int",
                 "available_at": f"{self.time} {'' if self.n % 2 else 'NOT NULL'} DEFAULT now()", "lease_until": self.time,
                 "last_error": "varchar(80)", "created_at": f"{self.time} DEFAULT now()", "settled_at": "timestamptz"}
        columns = {name: types[role] for role, name in reversed(self.columns.items()) if name}
        yield (f"CREATE TABLE {self.name} ({', '.join(f'{quoted(name)} {kind}' for name, kind in columns.items())})"
               + (f" PARTITION BY HASH ({self.column('key')})" if self.is_partitioned else ""))
        for part in range(2 if self.is_partitioned else 0):
            yield f"CREATE TABLE part{self.n}_{part} PARTITION OF {self.name} FOR VALUES WITH (MODULUS 2, REMAINDER {part})"
        if self.is_view:
            yield f"CREATE VIEW {self.relation} AS SELECT * FROM {self.name}"

    def fill(self):
        """Rows of three keys; and of a fourth one that is too large, and one behind it."""
        values = {"key": "k", "type": "'e'", "payload": PAYLOADS[self.payload]}
        return (f"INSERT INTO {self.name} ({', '.join(self.column(role) for role in values)}) SELECT {', '.join(values.values())} FROM ("
                f"  SELECT n, 'k' || n % {KEYS} AS k, 'y' AS x FROM generate_series(1, {ROWS}) n"
                f"  UNION ALL SELECT {ROWS} + 1, 'bad', repeat('x', 2000) UNION ALL SELECT {ROWS} + 2, 'bad', 'y') made ORDER BY n")

    def config(self, topic):
        columns = {"event_id": None, "headers": None, "lease_owner": None, **self.columns}
        return {"name": self.source, "table": self.relation, "topic": topic, "headers": {"table": self.source}, "columns": columns,
                "states": dict(zip(["pending", "in_flight", "sent", "failed"], self.labels)), "lease": "10s",
                "ordering": "key" if self.ordered else "none"}

    def states(self, database):
        return database.states(self.name, self.column("status"))

    def expected(self, pending):
        counts = {self.labels[2]: ROWS + 1 - pending, self.labels[3]: 1, self.labels[0]: pending}
        return {label: count for label, count in counts.items() if count}


def command(*args):
    done = run_command(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def wait_all(tables, database, pending):
    def wrong():
        found = {table.source: (table.states(database), table.expected(pending if table.ordered else 0)) for table in tables}
        return {source: pair for source, pair in found.items() if pair[0] != pair[1]}

    wait_until(lambda: not wrong(), 40, wrong, every=0.1)


def test_F004_F006_tables_of_any_shape(outbox, cluster):
    database, begin, tables = outbox.database, cluster.log_size(), [Table(n) for n in range(20)]
    database.execute("CREATE TYPE \"the State\" AS ENUM ('FAILED', 'SENT', 'SENDING', 'PENDING'); CREATE SEQUENCE ids")
    for table in tables:
        for statement in table.ddl():
            database.execute(statement)
        database.execute(table.fill())
    relay = outbox.relay(schema=False, **SMALL_LIMIT)
    relay.config["sources"] = [table.config(outbox.topic) for table in tables]
    relay.write_config()
    relay.start()
    wait_all(tables, database, pending=1)
    for table in tables:
        error = table.column("last_error")
        failed = f"SELECT {error}, {table.column('attempts')} FROM {table.name} WHERE {table.column('status')}::text = '{table.labels[3]}'"
        text, attempts = database.one(failed)
        assert text.startswith("MSG_SIZE_TOO_LARGE") and len(text) == 80 and attempts == 1
        command("skip", "-c", relay.file, "--source", table.source, "--all", "--reason", "why not")
        assert database.one(failed)[0] == "skipped: why not"
    wait_all(tables, database, pending=0)
    for table in tables:
        status, attempts = table.column("status"), table.column("attempts")
        assert database.value(f"SELECT bool_and({attempts} = 1) FROM {table.name}") is True
        if table.columns["settled_at"]:
            assert database.value(f"SELECT count(*) FROM {table.name} WHERE {table.column('settled_at')} IS NULL") == 0
        assert json.loads(command("status", "--json", "-c", relay.file, "--source", table.source))["sources"][0]["rows"]["pending"] == 0, status

    records = outbox.records(20 * (ROWS + 1))
    for table in tables:
        own = [record for record in records if header(record, "table") == table.source]
        assert sorted(map(number, own)) == [*range(1, ROWS + 1), ROWS + 2], table.source
        assert not table.ordered or disorder(own, repeats=False) == []
    # Neither an operator nor an expression of a wrong type; claims by id, which a view needs, may race.
    errors = [line for line in cluster.log_since(begin).splitlines() if f" {database.name} ERROR:" in line and "claim raced" not in line]
    assert errors == []
    assert relay.stop() == 0


def test_a_table_of_ones_own_as_documented(outbox, broker):
    """Table and configuration are those of docs/tables.md."""
    table, topic = '"Billing"."Out Box"', broker.create_topic("invoices")
    outbox.database.execute(f'CREATE SCHEMA "Billing"; {statement("CREATE TABLE " + table)}')
    relay = outbox.relay(schema=False)
    rest = "".join(f"{section}: {json.dumps(values)}\n" for section, values in relay.config.items() if section != "sources")
    relay.file.write_text(rest + sources("invoices"))
    outbox.database.execute(f"INSERT INTO {table} (\"Invoice\", \"Body\") SELECT n % 2, decode('00ff', 'hex') FROM generate_series(1, 4) n")
    relay.start()
    wait_until(lambda: outbox.database.states(table, '"State"') == {"2": 4}, 20, relay.log)
    assert sorted((record.key, record.value) for record in broker.read(topic, 4)) == [(b"0", b"\0\xff")] * 2 + [(b"1", b"\0\xff")] * 2
    assert {header(record, "id") for record in broker.read(topic, 4)} == {row[0] for row in outbox.database.all(f'SELECT "Id"::text FROM {table}')}
    broker.delete_topic(topic)
