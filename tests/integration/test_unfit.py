"""Tables that a source cannot relay from: it says why at its start, waits, and goes on when what it asks for was done."""
import json

from rig.wait import wait_until

TABLE = "CREATE TABLE {} (LIKE event_outbox INCLUDING ALL)"
ROLE = "relay_few"


def reason(relay, source):
    """Why the source is not ready, by /readyz."""
    page = relay.get("/readyz")[1] or '{"reasons": []}'
    return next((each["reason"] for each in json.loads(page)["reasons"] if each["source"] == source), "")


def make_tables(database):
    database.execute(f"DROP ROLE IF EXISTS {ROLE}; CREATE ROLE {ROLE} LOGIN")
    for name in ["hidden", "mood", "denied"]:
        database.execute(TABLE.format(name))
        database.execute(f"GRANT SELECT, UPDATE ON {name} TO {ROLE}")
    database.execute("ALTER TABLE hidden ENABLE ROW LEVEL SECURITY")
    database.execute("CREATE TYPE state AS ENUM ('PENDING', 'SENDING', 'SENT')")
    database.execute("ALTER TABLE mood DROP COLUMN status; ALTER TABLE mood ADD COLUMN status state NOT NULL DEFAULT 'PENDING'")
    database.execute(f"REVOKE UPDATE ON denied FROM {ROLE}; GRANT UPDATE (status, attempts, available_at, lease_until,"
                     f" last_error, settled_at) ON denied TO {ROLE}")
    database.execute(f"CREATE VIEW seldom AS SELECT DISTINCT * FROM event_outbox; GRANT SELECT, UPDATE ON seldom TO {ROLE}")
    database.execute("CREATE TABLE topics (type text PRIMARY KEY)")
    database.execute(f"CREATE VIEW joined AS SELECT o.* FROM event_outbox o JOIN topics ON type = event_type; GRANT SELECT, UPDATE ON joined TO {ROLE}")
    for name in ["hidden", "mood", "denied"]:
        database.execute(f"INSERT INTO {name} (event_type, payload) VALUES ('e', '1')")


UNFIT = {
    "hidden": "row-level security hides the rows of hidden from role relay_few: ",
    "mood": '"FAILED" is no label of "status", which is the enum state: ',
    "denied": "role relay_few lacks privileges on denied: ",
    "seldom": "seldom is no table or view that rows can be changed in: ",
    "joined": "joined is no table or view that rows can be changed in: ",
}


def test_F004_F007_F008_F009_what_a_source_cannot_relay_from(mock_outbox):
    """What the reason ends with mends it. A source that stays as it is does not repeat itself."""
    database = mock_outbox.database
    relay = mock_outbox.relay()
    make_tables(database)
    (one,) = relay.config["sources"]
    relay.config["sources"] = [{**one, "name": name, "table": name, "postgres": {"dsn": database.dsn(user=ROLE)}} for name in UNFIT]
    relay.write_config()
    relay.start(ready=False)
    for name, text in UNFIT.items():
        wait_until(lambda: text in reason(relay, name), 10, lambda: f"{name}: {relay.get('/readyz')}")
    try:
        for name in ["hidden", "mood", "denied"]:
            database.execute(reason(relay, name).split(UNFIT[name])[1])
        for name in ["hidden", "mood", "denied"]:
            wait_until(lambda: database.states(name) == {"SENT": 1}, 20, lambda: f"{name}: {database.states(name)}\n{relay.log()}")
        wait_until(lambda: relay.metrics().value("outboxd_transaction_seconds_count", source="seldom", statement="inspect") >= 2, 20)
        assert len([line for line in relay.events(source="seldom") if "no table or view" in str(line)]) == 1, relay.log()
        assert UNFIT["seldom"] in reason(relay, "seldom")
    finally:
        relay.kill()
        database.execute(f"DROP OWNED BY {ROLE}; DROP ROLE {ROLE}")
