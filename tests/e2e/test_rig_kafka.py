"""The rig itself: the real Kafka."""
import confluent_kafka
import pytest


def produce(broker, topic, records, **settings):
    """Each record is (key, value, headers, partition)."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap, **settings})
    for key, value, headers, partition in records:
        producer.produce(topic, key=key, value=value, headers=headers, partition=partition)
    assert producer.flush(30) == 0


def test_a_topic_is_read_whole(broker):
    topic = broker.create_topic(partitions=2)
    produce(broker, topic, [("a", b"\x00\xff", [("h", b"1"), ("h", None)], 1), (None, None, None, 0), ("c", b"", None, 1)])
    first, second, third = broker.read(topic, at_least=3)
    assert (first.partition, first.key, first.value, first.headers) == (0, None, None, [])
    assert (second.partition, second.offset, second.key, second.value) == (1, 0, b"a", b"\x00\xff")
    assert second.headers == [("h", b"1"), ("h", None)]
    assert (third.offset, third.value) == (1, b"")
    assert second.timestamp > 1600000000000
    assert broker.count(topic) == 3


def test_a_topic_keeps_its_settings(broker):
    topic = broker.create_topic(max_message_bytes=1000)
    produce(broker, topic, [("k", b"x" * 900, None, 0)])
    assert len(broker.read(topic)) == 1
    config = confluent_kafka.admin.ConfigResource("topic", topic)
    found = broker.admin().describe_configs([config])[config].result(10)
    assert found["max.message.bytes"].value == "1000"


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_the_broker_comes_back_with_its_port_and_data(broker, how):
    topic = broker.create_topic(partitions=3)
    produce(broker, topic, [(str(i), str(i).encode(), None, i % 3) for i in range(300)], acks="all")
    getattr(broker, how)()
    assert not broker.alive()
    broker.start()
    assert len(broker.read(topic, at_least=300)) == 300
