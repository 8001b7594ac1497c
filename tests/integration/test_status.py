"""`outboxd status`: rows counted in the database, with the daemon up, down, or something else in its place."""
import json
import re
import socket
import threading

import pytest

from rig.process import free_port
from rig.relay import run_command


def write_config(folder, sources, listen="~"):
    file = folder / "outboxd.yaml"
    file.write_text(json.dumps({"kafka": {"bootstrap_servers": "127.0.0.1:9"}, "http": {"listen": listen},
                                "sources": sources}).replace('"~"', "~"))
    return file


def source(database, name="orders", **more):
    return {"name": name, "postgres": {"dsn": database.dsn()}, "topic": "orders", **more}


@pytest.fixture
def orders(database, tmp_path):
    """A configuration file with one source, whose table is there."""
    file = write_config(tmp_path, [source(database)])
    schema = run_command("schema", "-c", file)
    assert schema.returncode == 0, schema.stderr
    database.execute(schema.stdout)
    return file


def fill(database):
    """3 due, 2 parked behind a failed one, 1 in flight, 2 sent, 1 in a state of its own, and an old one."""
    database.execute("""
        ALTER TABLE event_outbox DROP CONSTRAINT IF EXISTS event_outbox_status_check;
        INSERT INTO event_outbox (aggregate_id, event_type, payload, status, available_at, lease_until, settled_at, created_at)
        VALUES ('a', 't', '1', 'PENDING', now(), NULL, NULL, now()), ('b', 't', '1', 'PENDING', now(), NULL, NULL, now()),
               ('c', 't', '1', 'PENDING', now() + '1 h', NULL, NULL, now() - interval '2 h 5 min'),
               ('k', 't', '1', 'FAILED', '9999-12-31Z', NULL, NULL, now()),
               ('k', 't', '1', 'PENDING', '9999-12-31Z', NULL, NULL, now()),
               ('k', 't', '1', 'PENDING', '9999-12-31Z', NULL, NULL, now()),
               ('d', 't', '1', 'SENDING', now(), now() + '1 min', NULL, now()),
               ('e', 't', '1', 'SENT', now(), NULL, now(), now()), ('f', 't', '1', 'SENT', now(), NULL, now(), now()),
               ('g', 't', '1', 'pending', now(), NULL, NULL, now())""")


def status_json(file, *more, exit_code=0):
    result = run_command("status", "-c", file, "--json", *more)
    assert result.returncode == exit_code, result.stderr
    return json.loads(result.stdout)


def test_F010_rows_by_state_with_the_daemon_down(database, orders):
    fill(database)
    answer = status_json(orders)
    assert re.fullmatch(r"\d+\.\d+\.\d+", answer["version"])
    assert answer["daemon"] is None
    (orders,) = answer["sources"]
    assert (orders["name"], orders["table"]) == ("orders", "event_outbox")
    assert orders["rows"] == {"pending": 3, "parked": 2, "in_flight": 1, "failed": 1, "unknown": 1}
    assert orders["blocked_keys"] == 1
    assert 7500 <= orders["oldest_pending_age_seconds"] < 7600
    assert orders["bounded"] is False


def test_empty_table(orders):
    (source,) = status_json(orders)["sources"]
    assert source["rows"] == {"pending": 0, "parked": 0, "in_flight": 0, "failed": 0, "unknown": 0}
    assert source["oldest_pending_age_seconds"] is None and source["blocked_keys"] == 0


def test_text(database, orders):
    fill(database)
    result = run_command("status", "-c", orders)
    assert result.returncode == 0, result.stderr
    daemon, empty, titles, row = result.stdout.splitlines()
    assert daemon.startswith("daemon: unknown") and empty == ""
    assert titles.split() == ["SOURCE", "TABLE", "PENDING", "PARKED", "IN_FLIGHT", "FAILED", "UNKNOWN", "OLDEST", "BLOCKED_KEYS"]
    assert row.split() == ["orders", "event_outbox", "3", "2", "1", "1", "1", "2h", "5m", "1"]
    assert row.index("3") == titles.index("PENDING") + len("PENDING") - 1  # right below its title's end
    assert result.stderr == ""


def test_bounded_counts_say_so(database, orders):
    database.execute("INSERT INTO event_outbox (event_type) SELECT 't' FROM generate_series(1, 100001)")
    (source,) = status_json(orders)["sources"]
    assert source["bounded"] is True and source["rows"]["pending"] == 100000
    text = run_command("status", "-c", orders).stdout
    assert " 100000+ " in text and "counting stopped at 100000 rows" in text


def test_several_sources_and_one_of_them(database, orders, tmp_path):
    database.execute('CREATE TABLE "Mail" (LIKE event_outbox INCLUDING ALL)')
    file = write_config(tmp_path, [source(database), source(database, "mail", table='"Mail"')])
    assert [each["name"] for each in status_json(file)["sources"]] == ["orders", "mail"]
    assert [each["name"] for each in status_json(file, "--source", "mail")["sources"]] == ["mail"]
    unknown = run_command("status", "-c", file, "--source", "letters")
    assert unknown.returncode == 64 and "there is no source letters" in unknown.stderr


def test_missing_table_and_column(database, orders, tmp_path):
    file = write_config(tmp_path, [source(database, table="nowhere"), source(database, "good")])
    answer = status_json(file, exit_code=78)
    assert answer["sources"][0]["rows"] is None and "there is no table nowhere" in answer["sources"][0]["error"]
    assert answer["sources"][1]["rows"]["pending"] == 0
    database.execute("ALTER TABLE event_outbox DROP COLUMN attempts")
    assert "attempts" in status_json(file, exit_code=78)["sources"][1]["error"]


def test_F088_unreachable_database(database, orders, tmp_path):
    dsn = f"host=127.0.0.1 port={free_port()} dbname=shop password=hunter2"
    file = write_config(tmp_path, [source(database), {"name": "away", "postgres": {"dsn": dsn}, "topic": "t"}])
    result = run_command("status", "-c", file)
    assert result.returncode == 69
    assert "source away: " in result.stderr and "refused" in result.stderr
    assert re.search(r"^away +event_outbox +- +- +- +- +- +- +-$", result.stdout, re.MULTILINE)
    assert re.search(r"^orders +event_outbox +0", result.stdout, re.MULTILINE)
    assert "hunter2" not in result.stdout + result.stderr + run_command("status", "-c", file, "--json").stdout


def test_missing_privilege(database, orders, tmp_path):
    database.execute("DROP ROLE IF EXISTS status_nobody; CREATE ROLE status_nobody LOGIN")
    file = write_config(tmp_path, [{**source(database), "postgres": {"dsn": database.dsn(user="status_nobody")}}])
    result = run_command("status", "-c", file)
    database.execute("DROP ROLE status_nobody")
    assert result.returncode == 77 and "permission denied" in result.stderr and "GRANT" in result.stderr


class FakeDaemon:
    """Answers every connection with these bytes, or with silence."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.requests = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            self.requests.append(connection.recv(10000))
            if self.answer is not None:
                connection.sendall(self.answer)
                connection.close()


def page(**daemon):
    body = json.dumps({"version": "0.1.0", "daemon": daemon})
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}\n".encode()


READY = page(ready=True, reasons=[])
NOT_READY = page(ready=False, reasons=[{"source": "orders", "dependency": "kafka", "reason": "all brokers down"}])
DRAINING = page(ready=False, reasons=[{"source": None, "dependency": "relay", "reason": "draining"}])
FAULT = {"source": "orders", "topic": "mail", "state": "open", "error": "POLICY_VIOLATION", "reason": "POLICY_VIOLATION: no",
         "for_seconds": 125.25, "next_try_seconds": 9.75, "rows_put_off": 7}


def test_daemon_is_asked(database, orders, tmp_path):
    daemon = FakeDaemon(READY)
    file = write_config(tmp_path, [source(database)], daemon.address)
    assert status_json(file)["daemon"] == {"ready": True, "reasons": []}
    assert daemon.requests[0].startswith(b"GET /status HTTP/1.0\r\n")
    assert run_command("status", "-c", file).stdout.startswith("daemon: ready\n")
    daemon.answer = NOT_READY
    assert status_json(file)["daemon"]["reasons"][0]["dependency"] == "kafka"
    assert run_command("status", "-c", file).stdout.startswith("daemon: not ready\n  orders: kafka: all brokers down\n")
    daemon.answer = DRAINING
    assert run_command("status", "-c", file).stdout.startswith("daemon: not ready\n  relay: draining\n")


@pytest.mark.parametrize("changed, told", [
    ({}, "for 2m 5s, 7 put off, next try in 10s: POLICY_VIOLATION: no"),
    ({"state": "trying", "next_try_seconds": 0}, "for 2m 5s, 7 put off, trying now: POLICY_VIOLATION: no"),
    ({"next_try_seconds": 0, "rows_put_off": 0}, "for 2m 5s, 0 put off, next try with the next row: POLICY_VIOLATION: no"),
])
def test_topics_with_a_fault_are_told(database, orders, tmp_path, changed, told):
    fault = {**FAULT, **changed}
    daemon = FakeDaemon(page(ready=True, reasons=[], topic_faults=[fault]))
    file = write_config(tmp_path, [source(database)], daemon.address)
    assert status_json(file)["daemon"]["topic_faults"] == [fault]
    assert run_command("status", "-c", file).stdout.splitlines()[1] == f"  orders: topic mail: refuses its rows {told}"


STRANGE = {"silence": None, "nothing": b"", "ssh": b"SSH-2.0-OpenSSH_9.2\r\n", "404": b"HTTP/1.1 404 Not Found\r\n\r\nno page\n",
           "no boolean": b'HTTP/1.1 200 OK\r\n\r\n{"daemon": {"ready": "yes"}}', "no object": b"HTTP/1.1 200 OK\r\n\r\n[1]",
           "deep": b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100000, "endless": b"\0" * 2000000}


@pytest.mark.parametrize("what", STRANGE)
def test_strange_answers_in_the_daemons_place(database, orders, tmp_path, what):
    file = write_config(tmp_path, [source(database)], FakeDaemon(STRANGE[what]).address)
    assert status_json(file)["daemon"] is None
    assert run_command("status", "-c", file).stdout.startswith("daemon: down, or not at 127.0.0.1 port ")


def test_nobody_listens(database, orders, tmp_path):
    file = write_config(tmp_path, [source(database)], f"127.0.0.1:{free_port()}")
    result = run_command("status", "-c", file)
    assert result.returncode == 0 and "(Connection refused)" in result.stdout.splitlines()[0]


def test_real_daemon(database, orders, make_relay):
    """Kafka is away, so the daemon is not ready and says why."""
    relay = make_relay({"kafka": {"bootstrap_servers": f"127.0.0.1:{free_port()}"}, "sources": [source(database)]})
    relay.start(ready=False)
    relay.wait_event("started")
    daemon = status_json(relay.file)["daemon"]
    assert daemon["ready"] is False and daemon["reasons"]
    relay.stop()
    assert status_json(relay.file)["daemon"] is None


def test_usage(tmp_path):
    help = run_command("status", "--help")
    assert help.returncode == 0 and "usage: outboxd status" in help.stdout
    assert run_command("status", "--watch").returncode == 64
    assert run_command("status", "-c", tmp_path / "missing.yaml").returncode == 78


def test_what_no_index_holds_is_not_counted(database, tmp_path):
    """Without settled_at and with on_failed: continue only a scan of the whole history would find failed rows."""
    file = write_config(tmp_path, [source(database, preset="message", on_failed="continue")])
    database.execute(run_command("schema", "-c", file).stdout)
    database.execute("INSERT INTO agent_message (task_id, message_type, status) VALUES ('k', 't', 'FAILED_PERMANENTLY'), ('k', 't', 'PENDING')")
    (orders,) = status_json(file)["sources"]
    assert orders["rows"] == {"pending": 1, "parked": 0, "in_flight": 0, "failed": None, "unknown": None}
    assert orders["blocked_keys"] == 0
    assert re.search(r"orders .* 1 +0 +0 +- +- ", run_command("status", "-c", file).stdout)
