"""Counts of a program's allocations and system calls, by who makes them, while it runs (tally.c)."""
import collections
import struct

from .relay import build

RECORD = struct.Struct("16s16sQ")
ALLOCATIONS = {"malloc", "calloc", "realloc"}


def text(field):
    return field.rstrip(b"\0").decode()


class Tally:
    """env goes to the program that is to be counted; one program."""

    def __init__(self, path):
        self.path = path
        self.env = {"LD_PRELOAD": str(build() / "tests/rig/tally.so"), "TALLY": str(path)}

    def read(self):
        """(caller, call): how often until now. Callers: program, libpq, librdkafka, libev, libc, other."""
        return collections.Counter({(text(caller), text(call)): count
                                    for caller, call, count in RECORD.iter_unpack(self.path.read_bytes())})


def allocations(counts):
    """By caller."""
    return by_caller(counts, lambda call: call in ALLOCATIONS)


def system_calls(counts):
    """By caller."""
    return by_caller(counts, lambda call: call not in ALLOCATIONS)


def by_caller(counts, wanted):
    found = collections.Counter()
    for (caller, call), count in counts.items():
        found[caller] += count if wanted(call) else 0
    return found
