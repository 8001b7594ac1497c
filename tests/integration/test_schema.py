"""`outboxd schema`: what it prints, run on a real PostgreSQL."""
import json
import re

import pytest

from rig.outbox import psql
from rig.relay import ROOT, run_command


def write_config(folder, **source):
    file = folder / "outboxd.yaml"
    file.write_text(json.dumps({"kafka": {"bootstrap_servers": "127.0.0.1:9"}, "postgres": {"dsn": "dbname=nowhere"},
                                "sources": [{"name": "orders", **source}]}))
    return file


def schema(file, *options):
    done = run_command("schema", "-c", file, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(params=[{}, {"preset": "message"}, {"preset": "debezium"}, {"table": '"Sp ace"."Out.Box"', "ordering": "none", "columns": {"key": "K"}},
                        {"columns": {"order": "seq", "updated_at": "changed", "topic": "topic", "max_attempts": "limit"},
                         "topic": "{event_type}.{region}"}])
def file(request, database, tmp_path):
    if "Sp ace" in request.param.get("table", ""):
        database.execute('CREATE SCHEMA "Sp ace"')
    return write_config(tmp_path, **request.param)


def adopted(database):
    """How many indexes, constraints and triggers there are."""
    return [database.value(sql) for sql in (
        "SELECT count(*) FROM pg_indexes WHERE schemaname NOT IN ('pg_catalog', 'pg_toast')",
        "SELECT count(*) FROM pg_constraint", "SELECT count(*) FROM pg_trigger")]


def test_a_new_table_can_be_made_and_lacks_nothing(database, file):
    psql(database.dsn(), schema(file))
    indexes, *before = adopted(database)
    for _ in range(2):
        psql(database.dsn(), schema(file, "--adopt"))
    more, *after = adopted(database)
    # An order beside the id has a unique constraint in a new table, which --adopt cannot see offline.
    assert after == before and more - indexes == (1 if "IDENTITY UNIQUE" in schema(file) else 0)


def test_the_trigger_notifies_once_and_can_be_dropped(database, tmp_path):
    file = write_config(tmp_path, notify="it's a channel")
    psql(database.dsn(), schema(file))
    session = database.connect()
    session.cursor().execute('LISTEN "it\'s a channel"')
    database.execute("INSERT INTO event_outbox (event_type) SELECT 't' FROM generate_series(1, 100)")
    session.cursor().execute("SELECT 1")
    session.poll()
    assert [(each.channel, each.payload) for each in session.notifies] == [("it's a channel", "")]
    psql(database.dsn(), schema(file, "--drop-trigger"))
    assert database.value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '%notify'") == 0
    assert database.value("SELECT count(*) FROM pg_proc WHERE proname LIKE 'event_outbox_notify'") == 0
    session.close()


ADOPTED = [({"columns": {"order": "seq"}}, "CREATE TABLE event_outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregate_id text,"
            " event_type text, payload json)", "event_type", "seq"),
           ({"preset": "debezium"}, "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype varchar(255) NOT NULL"
            " DEFAULT 'order', aggregateid varchar(255), type varchar(255) NOT NULL, payload jsonb)", "type", "outboxd_seq")]


@pytest.mark.parametrize("source,ddl,column,order", ADOPTED, ids=["outboxd", "debezium"])
def test_adopting_a_table_with_history_sends_nothing_of_it(database, tmp_path, source, ddl, column, order):
    """25 000 rows from before, so that the filling takes several pieces; what is inserted afterwards is pending."""
    file, table = write_config(tmp_path, **source), ddl.split()[2]
    database.execute(ddl)
    database.execute(f"INSERT INTO {table} ({column}) SELECT 't' FROM generate_series(1, 25000)")
    for _ in range(2):
        psql(database.dsn(), schema(file, "--adopt"))
    assert database.one(f"SELECT count(*), count(settled_at), count(DISTINCT settled_at) FROM {table} WHERE status = 'SENT'") == (25000, 25000, 3)
    database.execute(f"INSERT INTO {table} ({column}) VALUES ('t')")
    assert database.states(table) == {"SENT": 25000, "PENDING": 1}
    assert database.value(f"SELECT count(*) FROM {table} WHERE settled_at IS NULL") == 1
    assert database.value(f"SELECT max({order}) FROM {table}") == 25001
    assert database.value("SELECT count(*) FROM pg_indexes WHERE indexname IN (%s, %s, %s)", [f"{table}_{end}" for end in ("due", "key", "order")]) == 3


@pytest.mark.parametrize("on_delivered,table", [("mark", ["SELECT"]), ("delete", ["DELETE", "SELECT"])])
def test_F009_the_printed_grants_are_exact(database, tmp_path, on_delivered, table):
    file = write_config(tmp_path, table="public.event_outbox", on_delivered=on_delivered)
    text = schema(file)
    psql(database.dsn(), text)
    grants = re.findall(r"^-- (GRANT .*;)$", text, re.M)
    assert len(grants) == 3
    database.execute("DROP ROLE IF EXISTS schema_test; CREATE ROLE schema_test LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    for grant in grants:
        database.execute(grant.replace("outboxd;", "schema_test;"))
    granted = database.all("SELECT column_name FROM information_schema.column_privileges WHERE grantee = 'schema_test' AND privilege_type = 'UPDATE'")
    assert {each[0] for each in granted} == {"status", "attempts", "available_at", "lease_until", "lease_owner", "last_error", "settled_at"}
    other = database.all("SELECT DISTINCT privilege_type FROM information_schema.table_privileges WHERE grantee = 'schema_test' ORDER BY 1")
    assert [each[0] for each in other] == table
    database.execute("DROP OWNED BY schema_test; DROP ROLE schema_test")


def test_options(tmp_path):
    file = write_config(tmp_path)
    assert run_command("schema", "-c", file, "--source", "nobody").returncode == 64
    assert run_command("schema", "-c", file, "--adopt", "--drop-trigger").returncode == 64
    assert schema(file, "--source", "orders") == schema(file)


def test_F065_F087_the_documentation_has_settings_and_prices(tmp_path):
    file = write_config(tmp_path)
    (settings,) = re.findall(r"WITH \((.*)\)", schema(file))
    (also,) = re.findall(r"SET \((.*?)\)", schema(file, "--adopt"), re.S)
    page = (ROOT / "docs/configuration.md").read_text()
    for setting in settings.split(", "):
        assert f"`{setting}`" in page and setting in " ".join(also.split())
    assert "heap-only" in page and "outboxd_oldest_snapshot_age_transactions" in page
    assert re.search(r"^\| 64 \| [\d ]+ \| [\d ]+ \|", (ROOT / "docs/performance.md").read_text(), re.M)  # clients, with, without
