#!/usr/bin/env python3
"""An application that places orders: each order and its event in one transaction, so that both are there or neither.

usage: writer.py DSN COUNT [CUSTOMERS]     needs psycopg2, and the table that `outboxd schema` prints
"""
import json
import sys

import psycopg2


def place_order(connection, customer, amount):
    with connection, connection.cursor() as cursor:  # one transaction: it commits, or an exception rolls it back
        # Whoever changes the customer's row holds it until the commit: so the events of a customer have the order of
        # their ids, whatever other writers do.
        cursor.execute("UPDATE customer SET orders = orders + 1 WHERE name = %s", (customer,))
        cursor.execute("INSERT INTO event_outbox (aggregate_id, event_type, payload) VALUES (%s, 'order_placed', %s)",
                       (customer, json.dumps({"customer": customer, "amount": amount})))


def main():
    dsn, count = sys.argv[1], int(sys.argv[2])
    customers = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    connection = psycopg2.connect(dsn)
    for number in range(count):
        place_order(connection, f"customer-{number % customers}", 10 + number)
    connection.close()


if __name__ == "__main__":
    main()
