"""`outboxd check` on servers in all states: each finding on what it is about, and that its cure, where it is a statement, cures."""
import json

import psycopg2
import pytest

from rig.clock import Clock
from rig.outbox import psql
from rig.postgres import Standby
from rig.process import free_port
from rig.relay import ROOT, run_command
from rig.wait import wait_until

ROLE = "check_role"
SETTINGS = "fillfactor = 40, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_cost_delay = 0"
SECRET = "hunter2"


class Checked:
    """The findings of one run, by source."""

    def __init__(self, file, *more, **env):
        self.run = run_command("check", "-c", file, "--json", *more, **env)
        assert SECRET not in self.run.stdout + self.run.stderr
        self.findings = json.loads(self.run.stdout)

    def of(self, source="orders"):
        return [each for each in self.findings if each["source"] == source]

    def names(self, source="orders", level=None):
        return {each["finding"] for each in self.of(source) if level in (None, each["level"])}

    def find(self, name, source="orders"):
        found = [each for each in self.of(source) if each["finding"] == name]
        assert len(found) == 1, f"{source}: {name}: {json.dumps(self.of(source), indent=1)}"
        return found[0]

    def problems(self, source="orders"):
        return self.names(source, "error") | self.names(source, "warn")


class Case:
    """A table that differs from the standard one, {t}: sql; its source's keys; what is found; whether the cure is SQL."""

    def __init__(self, finding, sql="", text="", cured=True, role=None, **source):
        self.finding, self.sql, self.text, self.cured, self.role, self.source = finding, sql, text, cured, role, source


NO_CHECK = "ALTER TABLE {t} DROP CONSTRAINT event_outbox_status_check;"
PLAIN_STATUS = "ALTER TABLE {t} DROP COLUMN status; ALTER TABLE {t} ADD COLUMN status {type} NOT NULL DEFAULT 'PENDING';"
CASES = {
    "column": Case("table_unfit", "ALTER TABLE {t} DROP COLUMN attempts", "columns.attempts (\"attempts\")", cured=False),
    "type": Case("table_unfit", "ALTER TABLE {t} DROP COLUMN available_at; ALTER TABLE {t} ADD COLUMN available_at text", "is text",
                 cured=False),
    "enum": Case("table_unfit", "CREATE TYPE mood AS ENUM ('PENDING', 'SENDING', 'SENT');" + PLAIN_STATUS.replace("{type}", "mood"),
                 '"FAILED" is no label'),
    "constraint": Case("state_refused", NO_CHECK + "ALTER TABLE {t} ADD CONSTRAINT few CHECK (status IN ('PENDING', 'SENT', 'FAILED'))",
                       'the constraint "few" refuses the state "SENDING"'),
    "unknown": Case("state_unknown", NO_CHECK + "INSERT INTO {t} (event_type, status) VALUES ('e', 'LOST')", '"LOST"', cured=False),
    "denied": Case("privilege_missing", f"REVOKE UPDATE ON {{t}} FROM {ROLE}", f"role {ROLE} lacks privileges", role=ROLE),
    "hidden": Case("rows_hidden", "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "row-level security", role=ROLE),
    "policed": Case("rows_policed", "ALTER TABLE {t} ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON {t} USING (id > 5)", ROLE,
                    cured=False, role=ROLE),
    "identity": Case("id_not_unique", "ALTER TABLE {t} DROP CONSTRAINT {t}_pkey", 'columns.id: "id"'),
    "uuids": Case("order_random", "ALTER TABLE {t} DROP COLUMN id; ALTER TABLE {t} ADD COLUMN id uuid DEFAULT gen_random_uuid() PRIMARY KEY", "UUIDv7", cured=False),
    "zone": Case("time_zone_missing", "ALTER TABLE {t} ALTER created_at TYPE timestamp", '"created_at"'),
    "less": Case("column_left_out", "ALTER TABLE {t} DROP COLUMN headers, DROP COLUMN lease_owner", "columns.lease_owner", cured=False),
    "due": Case("due_index_missing", "DROP INDEX {t}_available_at_id_idx", "reads the whole table"),
    "key": Case("key_index_missing", "DROP INDEX {t}_aggregate_id_id_idx", 'begins with "aggregate_id"'),
    "invalid": Case("index_invalid", "CREATE INDEX {t}_broken ON {t} (event_type);"
                    " UPDATE pg_index SET indisvalid = false WHERE indexrelid = '{t}_broken'::regclass", "interrupted"),
    "layout": Case("settled_at_missing", "ALTER TABLE {t} DROP COLUMN settled_at", "32000 to 41000", cured=False),
    "vacuum": Case("autovacuum_off", "ALTER TABLE {t} SET (autovacuum_enabled = off)", "for the table"),
    "settings": Case("table_settings", "ALTER TABLE {t} RESET (fillfactor)", "HOT"),
    "bloat": Case("bloat", "ALTER TABLE {t} SET (autovacuum_enabled = off); INSERT INTO {t} (event_type) SELECT 'e' FROM generate_series(1, 12000);"
                  " DELETE FROM {t}", "dead rows"),
    "trigger": Case("trigger_missing", "", "notifies \"wake_me\"", cured=False, notify="wake_me"),
    "lease": Case("lease_short", "", "statement_timeout", cured=False, lease="10s"),
    "large": Case("message_too_large", "INSERT INTO {t} (event_type, payload) VALUES ('e', to_jsonb(repeat('x', 2000000)))", "2000002",
                  cured=False),
    "topic": Case("topic_missing", "", "there is no topic nowhere", cured=False, topic="nowhere"),
    "view": Case("table", "CREATE VIEW v_plain AS SELECT * FROM {t}", "v_plain", cured=False, table="v_plain"),
    "distinct": Case("table_unfit", "CREATE VIEW v_distinct AS SELECT DISTINCT * FROM {t}", "no table or view", cured=False,
                     table="v_distinct"),
    "condition": Case("table_unfit", "", "colour", cured=False, where="colour = 'red'"),
}


def make_case(database, name, case):
    table = f"t_{name}"
    database.execute(f"CREATE TABLE {table} (LIKE event_outbox INCLUDING ALL); ALTER TABLE {table} SET ({SETTINGS});"
                     f" GRANT SELECT, UPDATE ON {table} TO {ROLE}")
    database.execute(case.sql.replace("{t}", table) or "SELECT")
    more = {"postgres": {"dsn": database.dsn(user=case.role)}} if case.role else {}
    return {"name": name, "table": table, "notify": None, "lease": "60s", **more, **case.source}


@pytest.fixture
def role(database):
    database.execute(f"DROP ROLE IF EXISTS {ROLE}; CREATE ROLE {ROLE} LOGIN")
    yield ROLE
    database.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")


def dead_rows(database):
    return database.value("SELECT pg_stat_get_dead_tuples('t_bloat'::regclass)")


def test_F004_F007_F008_F009_F037_each_finding_and_its_cure(mock_outbox, role):
    """All tables in one run; what a cure says is done, and in the next run the finding has gone."""
    database = mock_outbox.database
    relay = mock_outbox.relay({"lease": "60s"})
    (good,) = relay.config["sources"]
    relay.config["sources"] += [{**good, **make_case(database, name, case)} for name, case in CASES.items()]
    relay.write_config()
    wait_until(lambda: dead_rows(database) > 10000, 20, lambda: dead_rows(database))
    checked = Checked(relay.file)
    assert checked.run.returncode == 77
    assert checked.problems() == {"history_kept", "topic_unread"}
    assert checked.names(level="ok") == {"database", "jit", "table", "event_id_random", "notify", "lease", "broker", "topic"}
    for name, case in CASES.items():
        assert case.text in checked.find(case.finding, name)["message"]
        assert checked.find(case.finding, name)["level"] != "ok" or case.finding in ("table", "column_left_out")
    for name, case in CASES.items():
        if case.cured:
            for statement in checked.find(case.finding, name)["cure"].split("; "):
                database.execute(statement)
    wait_until(lambda: dead_rows(database) == 0, 20, lambda: dead_rows(database))
    again = Checked(relay.file)
    assert again.run.returncode == 78
    for name, case in CASES.items():
        assert (case.finding in again.names(name)) != case.cured, f"{name}: {again.of(name)}"


def test_F064_a_good_table_as_people_read_it(mock_outbox):
    """A line a finding; the documentation has all of them. The trigger notifies exactly the channel that is listened on."""
    relay = mock_outbox.relay({"lease": "60s", "notify": "a b"})
    done = run_command("check", "-c", relay.file)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"ok     file: {relay.file}: 1 source"
    assert any(line.startswith("ok     orders: database: PostgreSQL ") for line in lines)
    assert any(line.startswith("warn   orders: history_kept: ") and " => " in line for line in lines)
    assert not any("trigger_missing" in line for line in lines)
    reference = run_command("check", "--reference").stdout
    assert reference in (ROOT / "docs/check.md").read_text()
    for finding in json.loads(run_command("check", "-c", relay.file, "--json").stdout):
        assert f"\n{finding['finding']} " in reference


def test_F064_mistakes_of_the_file_are_findings(tmp_path):
    file = tmp_path / "wrong.yaml"
    file.write_text("sources: [{name: orders, pol: 1s, notify: %s}]\n" % ("c" * 64))
    checked = Checked(file)
    assert checked.run.returncode == 78 and checked.run.stderr == ""
    assert {each["finding"] for each in checked.findings} == {"file_wrong"}
    assert any("did you mean poll?" in each["message"] for each in checked.findings)
    assert any("notify" in each["message"] and "at most 63" in each["message"] for each in checked.findings)
    people = run_command("check", "-c", file)
    assert people.returncode == 78 and people.stdout == "" and "did you mean poll?" in people.stderr


@pytest.mark.parametrize("dsn, finding, exit_code", [
    ({"port": "free"}, "database_unreachable", 69),
    ({"user": "nobody_knows"}, "database_refused", 77),
    ({"dbname": "nowhere"}, "database_wrong", 78),
])
def test_F088_a_database_that_cannot_be_used(mock_outbox, dsn, finding, exit_code):
    relay = mock_outbox.relay()
    dsn = {**dsn, "password": SECRET, **({"port": free_port()} if "port" in dsn else {})}
    relay.config["postgres"]["dsn"] = mock_outbox.database.dsn(**dsn)
    relay.config["sources"].append({**relay.config["sources"][0], "name": "second"})
    relay.write_config()
    checked = Checked(relay.file)
    assert checked.run.returncode == exit_code
    assert checked.find(finding)["cure"] or exit_code != 69
    assert checked.find(finding, "second")["message"] == checked.find(finding)["message"]
    assert "broker" in checked.names()


def test_F056_standby_and_read_only(mock_outbox, cluster, role):
    database = mock_outbox.database
    relay = mock_outbox.relay()
    database.execute(f"ALTER ROLE {ROLE} SET default_transaction_read_only = on; GRANT SELECT, UPDATE ON event_outbox TO {ROLE}")
    standby = Standby(cluster).start()
    try:
        (one,) = relay.config["sources"]
        relay.config["sources"] = [{**one, "name": "standby", "postgres": {"dsn": database.dsn(port=standby.port)}},
                                   {**one, "name": "reader", "postgres": {"dsn": database.dsn(user=ROLE)}}]
        relay.write_config()
        checked = Checked(relay.file)
    finally:
        standby.remove()
    assert checked.run.returncode == 69
    assert "target_session_attrs=read-write" in checked.find("standby", "standby")["cure"]
    assert "default_transaction_read_only" in checked.find("read_only", "reader")["cure"]
    assert "table" in checked.names("standby") and "table" in checked.names("reader")


def test_F059_F067_behind_a_transaction_pooler(mock_outbox, pooler):
    relay = mock_outbox.relay()
    relay.config["postgres"]["dsn"] = mock_outbox.database.dsn(port=pooler)
    relay.write_config()
    checked = Checked(relay.file)
    assert "pool_mode = session" in checked.find("notify_unheard")["cure"]
    assert "table" in checked.names() and checked.run.returncode == 0


def test_F020_a_clock_that_is_wrong(mock_outbox, tmp_path):
    relay = mock_outbox.relay()
    clock = Clock(tmp_path / "clock", 3600)
    assert "behind this host's" in Checked(relay.file, env=clock.env).find("clock_differs")["message"]
    clock.set(-3600)
    assert "ahead of this host's" in Checked(relay.file, env=clock.env).find("clock_differs")["message"]
    clock.set(0)
    assert "clock_differs" not in Checked(relay.file, env=clock.env).names()


def test_F084_an_old_snapshot_is_told_with_who_holds_it(mock_outbox):
    database = mock_outbox.database
    relay = mock_outbox.relay()
    holder = database.connect(autocommit=False)
    with holder.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; SELECT 1")
    database.execute("CREATE TABLE used (n int)")
    database.execute("DO 'BEGIN FOR i IN 1..20100 LOOP INSERT INTO used VALUES (i); COMMIT; END LOOP; END'")
    found = Checked(relay.file).find("snapshot_old")
    assert "session" in found["message"] and "(test)" in found["message"]
    database.execute(found["cure"])
    wait_until(lambda: "snapshot_old" not in Checked(relay.file).names(), 10, every=0.2)
    with pytest.raises(psycopg2.OperationalError):
        holder.cursor().execute("SELECT 1")


def test_two_relays_with_different_settings(mock_outbox, mock):
    """A relay is told from another by what stands in lease_owner of the rows it holds."""
    relay = mock_outbox.relay({"on_failed": "continue"})
    other = mock_outbox.relay()
    alike = mock_outbox.relay({"on_failed": "continue", "batch": 7, "lease": "20s"})
    mock.slow("Produce", 4000)
    relay.start()
    mock_outbox.insert(3)
    wait_until(lambda: mock_outbox.states() == {"SENDING": 3}, 10, mock_outbox.states)
    found = Checked(other.file).find("relays_differ")
    assert f"-{relay.pid}-" in found["message"] or f":{relay.pid}-" in found["message"]
    assert "relays_differ" not in Checked(alike.file).names()
    mock_outbox.wait_sent(3)
    assert "relays_differ" not in Checked(other.file).names()


def test_no_broker(mock_outbox):
    relay = mock_outbox.relay()
    relay.config["kafka"]["bootstrap_servers"] = f"127.0.0.1:{free_port()}"
    relay.write_config()
    checked = Checked(relay.file)
    assert checked.run.returncode == 69
    assert "refused" in checked.find("broker_unreachable")["message"]


def test_autovacuum_off_in_the_server(mock_outbox, cluster):
    relay = mock_outbox.relay()
    with cluster.configured(autovacuum="off"):
        assert "in the server" in Checked(relay.file).find("autovacuum_off")["message"]
    assert "autovacuum_off" not in Checked(relay.file).names()


def test_partitioned_table(mock_outbox):
    """Settings are those of the partitions, and a unique index has the partition's key as well."""
    database = mock_outbox.database
    mock_outbox.relay()  # makes the standard table
    relay = mock_outbox.relay({"table": "parts", "notify": None, "lease": "60s"})
    psql(database.dsn(), """
        CREATE TABLE parts (LIKE event_outbox INCLUDING DEFAULTS, PRIMARY KEY (id, created_at)) PARTITION BY RANGE (created_at);
        CREATE INDEX ON parts (available_at, id) WHERE settled_at IS NULL;
        CREATE INDEX ON parts (aggregate_id, id) WHERE settled_at IS NULL;
        CREATE TABLE parts_old PARTITION OF parts FOR VALUES FROM ('2000-01-01') TO ('2020-01-01');
        CREATE TABLE parts_new PARTITION OF parts FOR VALUES FROM ('2020-01-01') TO ('2100-01-01');""")
    found = Checked(relay.file)
    assert found.problems() == {"table_settings", "history_kept", "topic_unread"}
    for statement in found.find("table_settings")["cure"].split("; "):
        database.execute(statement)
    assert Checked(relay.file).problems() == {"history_kept", "topic_unread"}
