"""The rig itself: the mock broker."""
import time

import confluent_kafka
import pytest


def produce(mock, topic, values, **settings):
    """The error of each record's report, or None."""
    producer = confluent_kafka.Producer({"bootstrap.servers": mock.bootstrap, "log_level": 0, "message.timeout.ms": 5000,
                                         **settings})
    errors = []
    for value in values:
        producer.produce(topic, key="k", value=value, on_delivery=lambda error, message: errors.append(error))
    producer.flush(10)
    return errors


def test_records_are_read_back(mock):
    topic = mock.create_topic(partitions=2)
    assert produce(mock, topic, [b"a", b"b"]) == [None, None]
    assert [each.value for each in mock.read(topic, at_least=2)] == [b"a", b"b"]
    assert mock.count(topic) == 2


def test_an_error_is_answered_and_nothing_written(mock):
    topic = mock.create_topic()
    mock.fail("Produce", "TOPIC_AUTHORIZATION_FAILED")
    (error,) = produce(mock, topic, [b"a"])
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    assert mock.count(topic) == 0
    assert produce(mock, topic, [b"b"]) == [None]


def test_a_slow_answer_is_late_but_written(mock):
    topic = mock.create_topic()
    mock.slow("Produce", 1500)
    assert mock.pending("Produce") == 1
    begin = time.monotonic()
    assert produce(mock, topic, [b"a"]) == [None]
    assert time.monotonic() - begin > 1.4
    assert mock.count(topic) == 1 and mock.pending("Produce") == 0


def test_brokers_go_down_and_come_up(mock):
    topic = mock.create_topic()
    mock.down()
    (error,) = produce(mock, topic, [b"a"], **{"message.timeout.ms": 1000})
    assert error.name() == "_MSG_TIMED_OUT"
    mock.up()
    assert produce(mock, topic, [b"b"]) == [None]


def test_a_wrong_command_is_an_error(mock):
    with pytest.raises(AssertionError, match="unknown CODE"):
        mock.fail("Produce", "NO_SUCH_THING")
