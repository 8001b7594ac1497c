"""Cases that talk of minutes or millions run shortened; OUTBOXD_LONG=1 runs them as they were written."""
import os

LONG = os.environ.get("OUTBOXD_LONG") == "1"


def scaled(short, long):
    return long if LONG else short
