#!/usr/bin/env python3
"""A consumer whose effects happen once, however often a record arrives: it adds up each customer's orders.

usage: consumer.py BOOTSTRAP_SERVERS TOPIC GROUP DSN     needs psycopg2, confluent_kafka, and what `outboxd schema --inbox` prints
"""
import json
import signal
import sys

import confluent_kafka
import psycopg2


def apply_once(connection, group, record):
    """The record's effect and its entry in the inbox, in one transaction: a repeat finds the entry and has no effect."""
    event_id = dict(record.headers())["event_id"].decode()
    order = json.loads(record.value())
    with connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO inbox (consumer, event_id) VALUES (%s, %s) ON CONFLICT DO NOTHING", (group, event_id))
        if cursor.rowcount == 0:
            return
        cursor.execute("INSERT INTO revenue (consumer, customer, amount) VALUES (%s, %s, %s)"
                       " ON CONFLICT (consumer, customer) DO UPDATE SET amount = revenue.amount + excluded.amount",
                       (group, order["customer"], order["amount"]))


def main():
    bootstrap, topic, group, dsn = sys.argv[1:]
    running = True

    def stop(number, frame):
        nonlocal running
        running = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    connection = psycopg2.connect(dsn)
    # Offsets are committed by hand, behind the transaction: a crash between the two brings a repeat, not a loss.
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest",
                                         "enable.auto.commit": False, "session.timeout.ms": 6000})
    consumer.subscribe([topic])
    while running:
        record = consumer.poll(0.5)
        if record is None:
            continue
        if record.error():
            raise confluent_kafka.KafkaException(record.error())
        apply_once(connection, group, record)
        consumer.commit(record, asynchronous=False)
    consumer.close()
    connection.close()


if __name__ == "__main__":
    main()
