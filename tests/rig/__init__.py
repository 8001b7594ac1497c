"""What the tests and the demo start and look at: PostgreSQL, Kafka, the relay, a faulty network in between.

Everything listens on 127.0.0.1, lives in a temporary folder and is ended by its own process id.
"""
