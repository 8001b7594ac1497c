"""What the relay's statements cost on large tables, by the server's own account (auto_explain)."""
import json

import pytest

from rig.relay import run_command
from rig.serverlog import log_plans, nodes, pages, plans, scans, work
from rig.wait import wait_until

ROWS = 300_000
KEYS = 10 * ROWS  # each row has a key of its own

# What fills the table, as columns of a row n.
MOSTLY_SENT = {
    "status": "CASE WHEN n % 3 = 0 THEN 'PENDING' ELSE 'SENT' END",
    "available_at": "CASE WHEN n % 3 = 0 THEN now() + interval '1 day' ELSE now() END",
    "settled_at": "CASE WHEN n % 3 = 0 THEN NULL ELSE now() END",
}
WAITING = {"available_at": "now() + interval '1 day'"}
EXPIRED = {"status": "'SENDING'", "attempts": 1, "lease_until": "now() - interval '1 s'", "lease_owner": "'gone'"}


@pytest.mark.parametrize("fill,due,expired,analyzed", [
    pytest.param(MOSTLY_SENT, 100, 10, False, id="mostly sent, statistics of the empty table"),
    pytest.param(MOSTLY_SENT, 100, 10, True, id="mostly sent"),
    pytest.param(WAITING, 10, 0, False, id="waiting, statistics of the empty table"),
])
@pytest.mark.parametrize("settled", [True, False], ids=["settled_at", "without settled_at"])
def test_F022_the_claim_pays_only_for_what_it_takes(cluster, mock_outbox, fill, due, expired, analyzed, settled):
    source = {"headers": {}} if settled else {"headers": {}, "columns": {"settled_at": None}}
    relay = mock_outbox.relay(source)
    database = mock_outbox.database
    database.execute("ALTER TABLE event_outbox SET (autovacuum_enabled = off)")
    database.execute("ANALYZE event_outbox")
    mock_outbox.fill(ROWS, KEYS, **{name: value for name, value in fill.items() if settled or name != "settled_at"})
    mock_outbox.fill(due, KEYS, first=ROWS + 1)
    mock_outbox.fill(expired, KEYS, first=2 * ROWS, **{name: str(value) for name, value in EXPIRED.items()})
    if analyzed:
        database.execute("ANALYZE event_outbox")
    left = mock_outbox.states()
    log_plans(database)
    begin = cluster.log_size()
    relay.start()
    wait_until(lambda: mock_outbox.states().get("SENT", 0) == left.get("SENT", 0) + due + expired, 20, mock_outbox.states)
    assert relay.stop() == 0
    found = list(plans(cluster.log_since(begin), "candidate AS MATERIALIZED"))
    assert found
    for plan in found:
        assert "Seq Scan" not in dict(scans(plan.root, "event_outbox")), json.dumps(plan.root)
        for node in nodes(plan.root):
            assert node["Node Type"] != "Sort" or node["Actual Rows"] <= 1000, json.dumps(plan.root)
    # For each row its page, some index pages, and what is written; whatever else the table holds.
    read = [pages(plan.root) for plan in found]
    assert max(read) < 40 * (due + expired) + 500, read


def test_F084_claims_of_a_backlog_do_not_read_over_what_was_settled(cluster, mock_outbox):
    """No vacuum comes by: the due index keeps an entry of each settled row, in front of what is still open."""
    rows = 80_000
    relay = mock_outbox.relay({"headers": {}})
    mock_outbox.database.execute("ALTER TABLE event_outbox SET (autovacuum_enabled = off)")
    mock_outbox.fill(rows, KEYS)
    mock_outbox.database.execute("ANALYZE event_outbox")
    log_plans(mock_outbox.database)
    begin = cluster.log_size()
    relay.start()
    wait_until(lambda: mock_outbox.states() == {"SENT": rows}, 60, mock_outbox.states)
    assert relay.stop() == 0
    read = [pages(node) for plan in plans(cluster.log_since(begin), "scanned AS MATERIALIZED") for node in nodes(plan.root)
            if node.get("Index Name") == "event_outbox_due"]
    # The rows in flight take some 100 pages of the heap to read over; what was settled would come to 400 in all.
    late = sorted(read[len(read) // 2:])
    assert late[len(late) // 2] < 220, read


# ---- settled rows, and connections that live long

HISTORY_KEYS = 20
SENT = {"status": "'SENT'", "settled_at": "now()"}
OPEN = "SELECT FROM event_outbox WHERE settled_at IS NULL"


def history(outbox, settled=True, **more):
    """A relay, not yet started, on a table of settled rows whose keys go on, with the statistics of an empty table. Plans
    are logged."""
    lacks = ["event_id"] if settled else ["event_id", "settled_at"]
    relay = outbox.relay({"headers": {}, "columns": dict.fromkeys(lacks)}, **more)
    outbox.database.execute("ALTER TABLE event_outbox SET (autovacuum_enabled = off)")
    outbox.database.execute("ANALYZE event_outbox")
    outbox.fill(ROWS, HISTORY_KEYS, **{name: value for name, value in SENT.items() if name not in lacks})
    log_plans(outbox.database)
    return relay


def test_F021_the_plan_on_a_long_lived_connection(cluster, mock_outbox):
    """300,000 settled rows in place of 5 million, first with the statistics of an empty table, then with true ones. Each
    execution is looked at: from the sixth on a prepared statement may get another plan."""
    relay = history(mock_outbox, postgres={"connections": 1})
    begin, rounds, first = cluster.log_size(), 12, ROWS + 1
    relay.start()
    for analyze in (False, True):
        if analyze:
            mock_outbox.database.execute("ANALYZE event_outbox")
        for _ in range(rounds):
            mock_outbox.fill(HISTORY_KEYS, HISTORY_KEYS, first=first)
            first += HISTORY_KEYS
            wait_until(lambda: mock_outbox.database.value(f"SELECT NOT EXISTS ({OPEN})"), 10, mock_outbox.states)
    assert relay.stop() == 0
    log = cluster.log_since(begin)
    claims, settles = list(plans(log, "scanned AS MATERIALIZED")), list(plans(log, "AS x ("))
    assert len(claims) >= 2 * rounds and len(settles) >= 2 * rounds
    assert len({plan.pid for plan in claims + settles}) == 1  # one connection executed them all
    for plan in claims:
        used = scans(plan.root, "event_outbox")
        assert ("Index Scan", "event_outbox_due") in used, json.dumps(plan.root)
        assert set(used) <= {("Index Scan", "event_outbox_due"), ("Index Scan", "event_outbox_key"), ("Tid Scan", None)}, \
            json.dumps(plan.root)
        assert pages(plan.root) < 1000, json.dumps(plan.root)
    for plan in settles:
        assert scans(plan.root, "event_outbox") == [("Index Scan", "event_outbox_pkey")], json.dumps(plan.root)
        assert pages(plan.root) < 1000, json.dumps(plan.root)


def test_F021_plans_made_while_the_table_was_empty(cluster, mock_outbox):
    """As it is for most of an outbox's life. Then a backlog comes, and nobody has looked at the table since. Every second row
    is too large for Kafka, so that all kinds of outcomes are written."""
    relay = mock_outbox.relay({"batch": 500}, kafka={"properties": {"message.max.bytes": "1000"}})
    database, rows, both = mock_outbox.database, 10_000, "to_jsonb(repeat('x', CASE n % 2 WHEN 0 THEN 10 ELSE 2000 END))"
    database.execute("ALTER TABLE event_outbox SET (autovacuum_enabled = off)")
    database.execute("VACUUM ANALYZE event_outbox")
    log_plans(database)
    relay.start()
    for done in range(1, 9):  # often enough for every prepared statement to have its plan
        mock_outbox.fill(2, KEYS, both, first=2 * done)
        mock_outbox.wait_states({"SENT": done, "FAILED": done})
    begin = cluster.log_size()
    mock_outbox.fill(rows, KEYS, both, first=100)
    mock_outbox.wait_states({"SENT": 8 + rows // 2, "FAILED": 8 + rows // 2}, 60)
    assert relay.stop() == 0
    log = cluster.log_since(begin)
    # A claim compares keys with keys; a settle looks its rows up, and reads no others.
    for kind, most in {"scanned AS MATERIALIZED": 1_000_000, "AS x (lease, first": 10_000, "AS x (id, lease": 10_000}.items():
        found = list(plans(log, kind))
        assert len(found) >= rows / 2 / 4000, kind  # of rows in flight
        for plan in found:
            assert "Seq Scan" not in dict(scans(plan.root, "event_outbox")), json.dumps(plan.root)
            assert work(plan.root) < most, json.dumps(plan.root)


@pytest.mark.parametrize("settled", [True, False], ids=["settled_at", "without settled_at"])
def test_F078_counting_reads_no_settled_row(cluster, mock_outbox, settled):
    """300,000 settled rows in place of 10 million, and 50 pending; the count of the relay and that of `status`, with the
    statistics of an empty table and with true ones."""
    relay, begin = history(mock_outbox, settled), cluster.log_size()
    mock_outbox.fill(50, 50, first=2 * ROWS, available_at="now() + interval '1 day'")
    for analyze in (False, True):
        if analyze:
            mock_outbox.database.execute("ANALYZE event_outbox")
        relay.start()
        wait_until(lambda: relay.metrics().sum("outboxd_rows", state="pending") == 50, 10, lambda: relay.metrics().page)
        assert relay.stop() == 0
        assert run_command("status", "-c", relay.file).returncode == 0
    log = cluster.log_since(begin)
    counts = list(plans(log, "FILTER"))
    assert len(counts) >= 4
    for plan in counts:
        assert {index for _, index in scans(plan.root, "event_outbox")} <= {"event_outbox_due", "event_outbox_key"}, json.dumps(plan.root)
        assert pages(plan.root) < 300 and plan.milliseconds < 50, json.dumps(plan)
    # Nor does anything else that it asks read settled rows.
    for plan in plans(log, "event_outbox"):
        assert "Seq Scan" not in dict(scans(plan.root, "event_outbox")), json.dumps(plan.root)
        assert pages(plan.root) < 1000, json.dumps(plan.root)
