"""What the relay's statements cost on large tables, by the server's own account (auto_explain)."""
import json
import re

import pytest

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


def explain(database):
    """Every statement's plan goes to the server's log from now on, for new sessions."""
    for name, value in {"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
                        "auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on",
                        "auto_explain.log_timing": "off",
                        "auto_explain.log_format": "json"}.items():
        database.execute(f"ALTER DATABASE {database.name} SET {name} = '{value}'")


def plans(log, text):
    """The plans of statements that hold `text`."""
    for entry in re.findall(r"plan:\n((?:\t.*\n)+)", log):
        plan = json.loads(entry.replace("\n\t", "\n"))
        if text in plan["Query Text"]:
            yield plan["Plan"]


def nodes(plan):
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def read(plan):
    """Pages, cached or not."""
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


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
    explain(database)
    begin = cluster.log_size()
    relay.start()
    wait_until(lambda: mock_outbox.states().get("SENT", 0) == left.get("SENT", 0) + due + expired, 20, mock_outbox.states)
    assert relay.stop() == 0
    found = list(plans(cluster.log_since(begin), "candidate AS MATERIALIZED"))
    assert found
    for plan in found:
        for node in nodes(plan):
            assert not (node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "event_outbox"), json.dumps(plan)
            assert node["Node Type"] != "Sort" or node["Actual Rows"] <= 1000, json.dumps(plan)
    # For each row its page, some index pages, and what is written; whatever else the table holds.
    assert max(map(read, found)) < 40 * (due + expired) + 500, [read(plan) for plan in found]


def test_F084_claims_of_a_backlog_do_not_read_over_what_was_settled(cluster, mock_outbox):
    """No vacuum comes by: the due index keeps an entry of each settled row, in front of what is still open."""
    rows = 80_000
    relay = mock_outbox.relay({"headers": {}})
    mock_outbox.database.execute("ALTER TABLE event_outbox SET (autovacuum_enabled = off)")
    mock_outbox.fill(rows, KEYS)
    mock_outbox.database.execute("ANALYZE event_outbox")
    explain(mock_outbox.database)
    begin = cluster.log_size()
    relay.start()
    wait_until(lambda: mock_outbox.states() == {"SENT": rows}, 60, mock_outbox.states)
    assert relay.stop() == 0
    scans = [read(node) for plan in plans(cluster.log_since(begin), "scanned AS MATERIALIZED") for node in nodes(plan)
             if node.get("Index Name") == "event_outbox_due"]
    # The rows in flight take some 100 pages of the heap to read over; what was settled would come to 400 in all.
    late = sorted(scans[len(scans) // 2:])
    assert late[len(late) // 2] < 220, scans
