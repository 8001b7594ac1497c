"""`outboxd check` on a real Kafka: topics whose settings do not go with what is to be written, credentials, and rights."""
import json

import pytest

from rig.kafka import FOR_TESTS, SASL_USERS, Kafka
from rig.outbox import MESSAGE_TIMEOUT
from rig.relay import run_command
from rig.scale import LONG

PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "relay"}


def check(relay):
    """(exit code, {source: {finding: (message, cure)}})"""
    done = run_command("check", "-c", relay.file, "--json")
    found = {}
    for each in json.loads(done.stdout):
        found.setdefault(each["source"], {})[each["finding"]] = (each["message"], each["cure"])
    assert SASL_USERS["relay"] not in done.stdout + done.stderr
    return done.returncode, found


def sources(relay, **by_name):
    (one,) = relay.config["sources"]
    relay.config["sources"] = [{**one, "name": name, **more} for name, more in by_name.items()]
    relay.write_config()


def test_topics_and_what_is_wrong_with_them(outbox, broker):
    relay = outbox.relay()
    outbox.insert(1, payload=json.dumps("x" * 5000))
    small = broker.create_topic(max_message_bytes=4000)
    demanding = broker.create_topic(min_insync_replicas=2)
    compact = broker.create_topic(cleanup_policy="compact")
    hidden = broker.create_topic()
    broker.allow_only(hidden, "Create")
    sources(relay, fine={}, missing={"topic": "not-there"}, small={"topic": small}, demanding={"topic": demanding},
            compact={"topic": compact, "columns": {"key": None}, "ordering": "none"}, hidden={"topic": hidden},
            dead={"dead_letter_topic": "no-letters"}, loose={"topic": "{event_type}"},
            hasty={"ordering": "none", "kafka": {"properties": {"acks": "1", "enable.idempotence": False}}})
    try:
        code, found = check(relay)
    finally:
        broker.allow_all(hidden)
    assert code == 77
    assert "1 partition, 1 replica" in found["fine"]["topic"][0] and "replicas_unsafe" in found["fine"]
    assert "--create --topic not-there" in found["missing"]["topic_missing"][1]
    assert "takes 4000 bytes" in found["small"]["topic_too_small"][0] and "max.message.bytes=" in found["small"]["topic_too_small"][1]
    assert "has 1 of the min.insync.replicas 2" in found["demanding"]["replicas_too_few"][0]
    assert "min.insync.replicas=1" in found["demanding"]["replicas_too_few"][1]
    assert "have no key" in found["compact"]["topic_compacted"][0]
    assert "topic_denied" in found["hidden"] and "topic_missing" not in found["hidden"]
    assert "no-letters" in found["dead"]["topic_missing"][0]
    assert "acks is not all" in found["hasty"]["replicas_unsafe"][0]
    assert not {name for name in found["loose"] if name.startswith("topic")}
    assert not broker.admin().list_topics("not-there", timeout=10).topics["not-there"].partitions


def test_credentials(outbox, broker):
    relay = outbox.relay()
    server = {"bootstrap_servers": f"127.0.0.1:{broker.sasl_port}", "message_timeout": MESSAGE_TIMEOUT}
    password = relay.file.with_name("password")
    password.write_text(SASL_USERS["relay"] + "\n")
    sources(relay, wrong={"kafka": {**server, "properties": {**PLAIN, "sasl.password": "open-barley"}}},
            right={"kafka": {**server, "properties": PLAIN, "password_file": str(password)}})
    code, found = check(relay)
    assert code == 77
    assert "broker_refused" in found["wrong"] and "topic" not in found["wrong"]
    assert "open-barley" not in str(found)
    assert "broker" in found["right"] and "topic" in found["right"]


@pytest.mark.skipif(not LONG, reason="a broker of its own: OUTBOXD_LONG=1")
def test_a_topic_that_the_brokers_would_make_is_told_and_not_made(outbox):
    broker = Kafka({**FOR_TESTS, "auto.create.topics.enable": "true"})
    try:
        broker.start()
        relay = outbox.relay({"topic": "later"})
        relay.config["kafka"]["bootstrap_servers"] = broker.bootstrap
        relay.write_config()
        code, found = check(relay)
        assert code == 0 and "--create --topic later" in found["orders"]["topic_made_later"][1]
        assert "later" not in broker.admin().list_topics(timeout=10).topics
    finally:
        broker.remove()
