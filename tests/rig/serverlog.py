"""What the server's log says of a relay: its statements, their plans, its sessions, the deadlocks it was in.

Each switch below holds for the sessions of one database that begin after it. Entries are read from `cluster.log_since(size)`.
"""
import collections
import json
import re

# The log_line_prefix of rig.postgres: time, [pid], application, database.
ENTRY = re.compile(r"^\d{4}-\d\d-\d\d \S+ \S+ \[(\d+)\] (\S*) \S* (?=[A-Z]+: )", re.M)
STATEMENT = re.compile(r"LOG:  (?:duration: \S+ ms  )?(?:execute [^:]*|statement): (.*)", re.S)
PLAN = re.compile(r"LOG:  duration: (\S+) ms  plan:\n(.*)", re.S)

Entry = collections.namedtuple("Entry", "pid application text")
Plan = collections.namedtuple("Plan", "pid milliseconds query root")


def switch(database, **settings):
    """Settings for the database's new sessions; _ in names stands where PostgreSQL has it, __ for a dot."""
    for name, value in settings.items():
        database.execute(f"ALTER DATABASE {database.name} SET {name.replace('__', '.')} = '{value}'")


def log_plans(database):
    """Every statement's plan goes to the log, as it was executed."""
    switch(database, session_preload_libraries="auto_explain", auto_explain__log_min_duration=0,
           auto_explain__log_analyze="on", auto_explain__log_buffers="on", auto_explain__log_timing="off",
           auto_explain__log_format="json")


def log_statements(database):
    switch(database, log_statement="all")


def entries(log, application="outboxd"):
    """The entries of sessions whose application begins so."""
    starts = list(ENTRY.finditer(log))
    for this, end in zip(starts, [each.start() for each in starts[1:]] + [len(log)]):
        if this[2].startswith(application):
            yield Entry(int(this[1]), this[2], log[this.end():end].rstrip("\n"))


def statements(log, application="outboxd"):
    """(pid, text) of each statement that was executed, BEGIN, SET and COMMIT among them."""
    for entry in entries(log, application):
        found = STATEMENT.match(entry.text)
        if found:
            yield entry.pid, found[1]


def plans(log, text, application="outboxd"):
    """The plans of statements that hold `text`."""
    for entry in entries(log, application):
        found = PLAN.match(entry.text)
        if found:
            plan = json.loads(found[2])
            if text in plan["Query Text"]:
                yield Plan(entry.pid, float(found[1]), plan["Query Text"], plan["Plan"])


def nodes(root):
    """All nodes of a plan."""
    yield root
    for child in root.get("Plans", []):
        yield from nodes(child)


def pages(root):
    """Pages the statement has touched, cached or not."""
    return root["Shared Hit Blocks"] + root["Shared Read Blocks"]


def work(root):
    """Rows that the plan's nodes have handled, those that they threw away among them."""
    return sum(node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Join Filter", 0))
               for node in nodes(root))


def scans(root, table):
    """The plan's scans of a table: (kind, index or None)."""
    return [(node["Node Type"], node.get("Index Name")) for node in nodes(root)
            if node.get("Relation Name") == table and node["Node Type"] != "ModifyTable"]


def most_sessions(log, application="outboxd"):
    """How many of an application's sessions were open at once at most; log_connections and log_disconnections are on."""
    sessions, most = set(), 0
    for line in log.splitlines():
        begun = re.search(rf"\[(\d+)\] .* LOG:  connection authorized: .* application_name={application}", line)
        ended = re.search(r"\[(\d+)\] .* LOG:  disconnection: ", line)
        if begun:
            sessions.add(begun[1])
            most = max(most, len(sessions))
        elif ended:
            sessions.discard(ended[1])
    return most


def deadlocks(log):
    """(victim, all) of each deadlock that the server broke: the session it ended by an error, and the sessions in it."""
    for entry in entries(log, ""):
        waiting = re.findall(r"Process (\d+) waits for", entry.text)
        if entry.text.startswith("DETAIL:") and waiting:
            yield entry.pid, set(map(int, waiting))
