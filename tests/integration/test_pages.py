"""The daemon's pages: /livez, /readyz, /status and /metrics of a running relay, well and in trouble."""
import concurrent.futures
import json
import re
import signal
import time
import urllib.request

from rig.wait import stays, wait_until

# What the text format 0.0.4 allows, line by line.
COMMENT = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
VALUE = r'"(?:[^"\\\n]|\\["\\n])*"'
NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
LINE = re.compile(rf"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{{{NAME}={VALUE}(?:,{NAME}={VALUE})*\}})? (\S+)")
FAST = {"poll": "200ms"}


def check_page(page):
    """Every line is well-formed; HELP and TYPE come once for each family, before its samples, which stand together."""
    assert page.endswith("\n")
    types, seen, current = {}, set(), None
    for line in page.splitlines():
        if line.startswith("#"):
            what, family, text = COMMENT.fullmatch(line).groups()
            assert (what, family) not in seen, line
            seen.add((what, family))
            if what == "TYPE":
                types[family], current = text, family
            continue
        name, value = LINE.fullmatch(line).groups()
        float(value.replace("Inf", "inf"))
        family = re.sub(r"_(bucket|sum|count)$", "", name) if types.get(current) == "histogram" else name
        assert family == current, line
        assert (types[family] == "counter") == name.endswith("_total"), line
    assert {family for what, family in seen if what == "HELP"} == set(types)
    samples = [line.rsplit(" ", 1)[0] for line in page.splitlines() if not line.startswith("#")]
    assert len(samples) == len(set(samples)), "a series comes twice"
    return types


def metrics_page(relay):
    with urllib.request.urlopen(f"http://127.0.0.1:{relay.port}/metrics", timeout=5) as answer:
        return answer.headers, answer.read().decode()


def test_F079_metrics_are_well_formed(mock_outbox):
    relay = mock_outbox.start(FAST)
    headers, page = metrics_page(relay)
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    types = check_page(page)
    assert {"outboxd_claimed_total", "outboxd_transaction_seconds", "process_cpu_seconds_total"} <= set(types)
    mock_outbox.insert(20, key=lambda n: f"k{n}")
    mock_outbox.insert(1, event_type='a"b\\c\nd', key="odd")
    mock_outbox.wait_sent(21)
    assert check_page(metrics_page(relay)[1]) == types
    metrics = relay.metrics()
    assert metrics.sum("outboxd_delivered_total", topic=mock_outbox.topic) == 21
    assert metrics.value("outboxd_commit_to_ack_seconds_count", source="orders") == 21
    assert metrics.value("outboxd_settled_total", outcome="sent") == 21


def test_F079_a_refused_topic_in_labels_and_log(mock_outbox):
    relay = mock_outbox.start({**FAST, "topic": "{event_type}", "on_failed": "continue"})
    mock_outbox.insert(3, event_type=lambda n: ['a"b', "a\\b", "a\nb"][n], key=lambda n: f"k{n}")
    mock_outbox.wait_states({"FAILED": 3})
    assert len(relay.events("row_failed")) >= 1
    check_page(metrics_page(relay)[1])
    assert relay.metrics().sum("outboxd_failed_total") == 3


def topic_faults(relay):
    """The daemon's own view of them."""
    status, body = relay.get("/status")
    assert status == 200
    return json.loads(body)["daemon"]["topic_faults"]


def topic_gauges(relay):
    """{gauge: {topic: value}}; whatever other labels there are."""
    gauges = {"fault": {}, "next_try_seconds": {}, "rows_put_off": {}}
    for name, labels, value in relay.metrics().samples:
        found = name.removeprefix("outboxd_topic_")
        if found in gauges:
            gauges[found][labels["topic"]] = value
    return gauges


def test_F079_F080_a_topic_with_a_fault_is_told_while_it_has_one(mock_outbox, mock):
    """Its error, since when, when it is tried next, how many rows wait; and nothing of it once it takes rows again."""
    relay = mock_outbox.start({**FAST, "topic": "{event_type}"})
    bad, good = mock.create_topic(), mock_outbox.topic
    assert topic_faults(relay) == [] and relay.metrics().value("outboxd_topic_faults", source="orders") == 0
    mock.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", 4)
    mock_outbox.insert(20, key=lambda n: f"b{n}", event_type=bad)
    (fault,) = wait_until(lambda: topic_faults(relay), 10, relay.log)
    assert (fault["source"], fault["topic"], fault["error"]) == ("orders", bad, "TOPIC_AUTHORIZATION_FAILED")
    assert fault["reason"].startswith("TOPIC_AUTHORIZATION_FAILED: ") and fault["state"] in ("open", "trying")
    assert 0 <= fault["for_seconds"] < 10 and 0 <= fault["next_try_seconds"] < 30
    wait_until(lambda: topic_faults(relay)[0]["rows_put_off"] >= 5 and topic_faults(relay)[0]["next_try_seconds"] > 1, 20,
               lambda: topic_faults(relay))
    gauges, (later,) = topic_gauges(relay), topic_faults(relay)
    assert relay.metrics().value("outboxd_topic_fault", topic=bad, error="TOPIC_AUTHORIZATION_FAILED") == 1
    assert relay.metrics().value("outboxd_topic_faults") == 1
    assert set(gauges["rows_put_off"]) == {bad} and gauges["rows_put_off"][bad] >= 5
    assert 0 < gauges["next_try_seconds"][bad] < 30
    assert later["for_seconds"] > fault["for_seconds"]
    check_page(metrics_page(relay)[1])
    mock_outbox.insert(1, "g", event_type=good)
    mock.clear("Produce")
    mock_outbox.wait_sent(21, deadline=40)
    assert topic_faults(relay) == []
    assert topic_gauges(relay) == {"fault": {}, "next_try_seconds": {}, "rows_put_off": {}}
    assert relay.metrics().value("outboxd_topic_faults") == 0


def test_F079_many_topics_with_a_fault(mock_outbox, mock):
    """A hundred of them are told, and the number of all."""
    relay = mock_outbox.start({**FAST, "topic": "{event_type}"})
    mock.fail("Produce", "TOPIC_AUTHORIZATION_FAILED", 1000)
    mock_outbox.insert(120, key=lambda n: f"b{n}", event_type=lambda n: f"bad-{n}")
    wait_until(lambda: relay.metrics().sum("outboxd_topic_faults") == 120, 60, lambda: relay.metrics().page)
    assert len(topic_faults(relay)) == 100
    assert {len(of_topic) for of_topic in topic_gauges(relay).values()} == {100}


def test_process_metrics(mock_outbox):
    relay = mock_outbox.start(FAST)
    metrics = relay.metrics()
    assert abs(metrics.value("process_start_time_seconds") - time.time()) < 120
    assert 1e6 < metrics.value("process_resident_memory_bytes") < 1e9
    assert abs(metrics.value("process_open_fds") - relay.process.open_files()) < 10
    assert 0 < metrics.value("process_cpu_seconds_total") <= relay.process.cpu_seconds() + 0.1
    assert metrics.value("outboxd_event_loop_lag_seconds") < 5
    (labels,) = [labels for name, labels, _ in metrics.samples if name == "outboxd_build_info"]
    assert all(labels[library] for library in ("version", "libpq", "librdkafka"))


def test_F082_methods_and_paths(mock_outbox):
    relay = mock_outbox.start(FAST)
    for path in ("/livez", "/readyz", "/status", "/metrics"):
        assert relay.get(path)[0] == 200
        assert relay.get(path, "HEAD") == (200, "")
        assert relay.get(path, "POST")[0] == 405
    assert relay.get("/nowhere")[0] == 404


def test_without_pages_and_without_words(mock_outbox):
    relay = mock_outbox.relay(FAST, http={"listen": None}, log={"level": "error"})
    relay.start(ready=False)
    mock_outbox.insert(5)
    mock_outbox.wait_sent(5)
    assert relay.get("/livez") == (0, "")
    relay.send(signal.SIGUSR1)
    assert (relay.stop(), relay.log()) == (0, "")


def reasons(relay):
    status, body = relay.get("/readyz")
    answer = json.loads(body)
    assert status == (200 if answer["ready"] else 503)
    return [(each["source"], each["dependency"]) for each in answer["reasons"]]


def test_F082_alive_but_not_ready(mock_outbox, mock, cluster):
    relay = mock_outbox.start(FAST)
    assert json.loads(relay.get("/readyz")[1]) == {"ready": True, "reasons": []}
    mock.down()
    wait_until(lambda: reasons(relay) == [("orders", "kafka")], 15, lambda: relay.get("/readyz"))
    stays(lambda: relay.get("/livez")[0] == 200, 1)
    mock.up()
    relay.wait_ready()
    cluster.stop()
    wait_until(lambda: reasons(relay) == [("orders", "postgres")], 15, lambda: relay.get("/readyz"))
    stays(lambda: relay.get("/livez")[0] == 200, 1)


def test_F082_a_loop_that_stands_does_not_answer(mock_outbox):
    relay = mock_outbox.start(FAST)
    relay.suspend()
    assert relay.get("/livez", deadline=1) == (0, "")
    relay.resume()
    wait_until(lambda: relay.get("/livez")[0] == 200, 5)


def counted(relay):
    """outboxd_rows by state."""
    return {labels["state"]: value for name, labels, value in relay.metrics().samples if name == "outboxd_rows"}


def test_F080_gauges_do_not_keep_yesterdays_number(mock_outbox, mock, cluster):
    """Rows wait for a broker that is away; then they are sent; then the database goes."""
    relay = mock_outbox.relay(FAST)
    mock_outbox.insert(100, key=lambda n: f"k{n}")
    mock.down()
    relay.start(ready=False)
    wait_until(lambda: relay.get("/livez")[0] and counted(relay).get("pending") == 100, 20, relay.log)
    mock.up()
    mock_outbox.wait_sent(100)
    wait_until(lambda: set(counted(relay).values()) == {0}, 40, lambda: counted(relay))
    assert set(counted(relay)) == {"pending", "parked", "in_flight", "failed", "unknown"}
    refreshed = relay.metrics().value("outboxd_rows_refreshed_timestamp_seconds")
    assert abs(refreshed - time.time()) < 60
    cluster.stop()
    wait_until(lambda: counted(relay) == {}, 90, lambda: counted(relay))
    again = relay.metrics().value("outboxd_rows_refreshed_timestamp_seconds")
    assert again > refreshed - .001  # the wall clock less an age: its last digit may differ


def test_F081_a_scrape_is_not_a_query(mock_outbox, database):
    """50 scrapes a second while the table is locked: each is answered from memory."""
    relay = mock_outbox.start(FAST)
    locker = database.connect(autocommit=False)
    locker.cursor().execute("LOCK TABLE event_outbox IN ACCESS EXCLUSIVE MODE")

    def scrape(n):
        time.sleep(max(0, begin + n / 50 - time.monotonic()))
        before = time.monotonic()
        status, page = relay.get("/metrics")
        return status, page, time.monotonic() - before

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(scrape, range(250)))
    waiting = database.all("SELECT query FROM pg_stat_activity WHERE application_name LIKE 'outboxd%%' AND datname = %s"
                           " AND wait_event_type = 'Lock' AND query LIKE '%%suspects%%'", (database.name,))
    locker.rollback()
    assert all(status == 200 for status, _, _ in answers)
    slow = sorted(seconds for _, _, seconds in answers)
    assert slow[len(slow) * 95 // 100] < 0.1, slow[-15:]
    assert len(waiting) <= 1
    mock_outbox.insert(1)
    mock_outbox.wait_sent(1, deadline=10)
    check_page(answers[-1][1])
