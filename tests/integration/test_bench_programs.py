"""The bare programs of the benchmark do what they measure, on a few hundred rows."""
import json
import signal
import subprocess

import pytest

from rig.relay import build


def argv(program, *args):
    return [str(build() / "tests/bench" / program), *map(str, args)]


def run(program, *args):
    """Its JSON."""
    done = subprocess.run(argv(program, *args), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def outbox(mock_outbox):
    """The mock broker is enough."""
    return mock_outbox


def file(outbox, **source):
    """The configuration, once the table is there."""
    return outbox.relay(source).file


@pytest.mark.parametrize("connections", [1, 2])
@pytest.mark.parametrize("keys,source", [
    pytest.param(300, {}, id="all keys different"),
    pytest.param(7, {}, id="some keys"),
    pytest.param(1, {"batch": 20, "max_in_flight": 100}, id="one key, whose share is small"),
    pytest.param(7, {"ordering": "none"}, id="no order"),
])
def test_the_ceiling_drains_the_table(outbox, keys, source, connections):
    config = file(outbox, **source)
    outbox.fill(300, keys)
    result = run("ceiling", "-c", config, "--source", "orders", "--connections", connections)
    assert outbox.states() == {"SENT": 300}
    assert result["rows"] == 300
    assert result["claims"] >= 300 / source.get("batch", 100)
    assert result["settles"] >= 3 if connections == 1 else result["settles"] >= 1
    assert result["rows_per_second"] == pytest.approx(300 / result["seconds"], rel=1e-3)
    assert 0 < result["cpu_seconds"] and 0 < result["settle_seconds"] <= result["seconds"]
    assert 0 < result["claim_seconds"]


def test_the_ceiling_ends_when_all_that_is_left_is_blocked(outbox):
    config = file(outbox)
    outbox.fill(1, 1, status="'FAILED'")
    outbox.fill(250, 2, first=2)
    assert run("ceiling", "-c", config)["rows"] == 125
    assert outbox.states() == {"FAILED": 1, "PENDING": 125, "SENT": 125}


def test_the_ceiling_stops_at_a_limit(outbox):
    config = file(outbox)
    outbox.fill(300, 300)
    assert run("ceiling", "-c", config, "--connections", 2, "--limit", 130)["rows"] == 130
    assert outbox.states() == {"PENDING": 170, "SENT": 130}


def test_produce_publishes_as_many_records_as_it_says(outbox):
    result = run("produce", "-c", file(outbox), "--topic", outbox.topic, "--rows", 300, "--size", 200, "--keys", 7)
    assert result["rows"] == 300
    assert result["rows_per_second"] == pytest.approx(300 / result["seconds"], rel=1e-3)
    assert result["cpu_seconds"] > 0
    records = outbox.records(301)  # one before the clock ran
    assert len(records) == 301
    assert {len(each.value) for each in records} == {200}
    assert len({each.key for each in records}) == 7
    assert {tuple(name for name, _ in each.headers) for each in records} == {("event_id", "event_type", "created_at")}


def quantiles_are_sound(times):
    return 0 < times["p50_us"] <= times["p99_us"] <= times["p999_us"] <= times["max_us"] < 60_000_000


@pytest.mark.parametrize("source", [pytest.param({"poll": "60s"}, id="told by NOTIFY"),
                                    pytest.param({"notify": None, "poll": "100ms"}, id="polling")])
def test_the_floor_carries_what_the_load_writes(outbox, source):
    floor = subprocess.Popen(argv("floor", "-c", file(outbox, **source)), stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert floor.stderr.readline() == "ready\n", floor.stderr.read()
        load = run("load", "--dsn", outbox.database.dsn(), "--table", outbox.table, "--rate", 200, "--seconds", 1,
                   "--keys", 5, "--size", 100, "--consume", outbox.broker.bootstrap, outbox.topic)
        floor.send_signal(signal.SIGTERM)
        out, err = floor.communicate(timeout=30)
    finally:
        floor.kill()
        floor.communicate()
    assert floor.returncode == 0, err
    assert outbox.states() == {"SENT": 200}
    result = json.loads(out)
    assert result["rows"] == 200 and result["cpu_seconds"] > 0
    assert 0 < result["claims"] and 0 < result["settles"] <= 200
    assert quantiles_are_sound(result["report"])
    assert (load["rows"], load["missing"]) == (200, 0) and 0 <= load["late"] <= 200
    assert load["commit_to_consumer"]["p50_us"] < load["commit_to_consumer"]["max_us"]
    records = outbox.records(200)
    assert {len(each.value) for each in records} == {100}
    assert sorted(json.loads(each.value)["i"] for each in records) == list(range(200))


def test_the_floor_ends_after_its_time(outbox):
    result = run("floor", "-c", file(outbox), "--seconds", 1)
    assert result["rows"] == 0
    assert result["report"] == {"p50_us": None, "p99_us": None, "p999_us": None, "max_us": None}


def test_the_load_paces_its_rows(outbox):
    file(outbox)
    result = run("load", "--dsn", outbox.database.dsn(), "--table", outbox.table, "--rate", 50, "--seconds", 2)
    assert result["rows"] == 100 and result["seconds"] >= 1.98
    assert "commit_to_consumer" not in result
    span = outbox.database.value("SELECT extract(epoch FROM max(created_at) - min(created_at))::float"
                                 " FROM event_outbox")
    assert span > 1.5


def test_a_program_that_cannot_work_says_why(outbox):
    done = subprocess.run(argv("ceiling", "-c", file(outbox), "--source", "nobody"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == "" and "nobody" in done.stderr
