"""A minute of `make soak`, with another seed each day; and that its checker notices what it is there for."""
import datetime

import pytest

from rig.outbox import number
from rig.soak import Soak

SECONDS = 60


def lost(records):
    return [each for each in records if (each.key, number(each)) != (records[0].key, number(records[0]))]


def swapped(records):
    """The first two rows of a key, whose values change places."""
    first = records[0]
    second = next(each for each in records if each.key == first.key and number(each) != number(first))
    values = {first.value: second.value, second.value: first.value}
    return [each._replace(value=values.get(each.value, each.value)) if each.key == first.key else each for each in records]


@pytest.mark.limit(300)
def test_F018_F042_F058_soak(outbox, tmp_path, record_property):
    outbox.topic = outbox.broker.create_topic(partitions=3)
    outbox.relay()
    seed = datetime.date.today().toordinal()
    soak = Soak(outbox, tmp_path, SECONDS, seed)
    try:
        rows = soak.run()
        record_property("measured", f"soak, {SECONDS} s with seed {seed}: {soak.check(rows)}")
        check_faults_are_seen(outbox, soak, rows)
    finally:
        soak.remove()


def check_faults_are_seen(outbox, soak, rows):
    """What was read from Kafka, with one fault each."""
    records = outbox.records(rows)
    repeats = soak.counted().total() + 1
    faults = {"1 missing": lost(records), "at place 0 came": swapped(records), "repeats, counted": records + records[-1:] * repeats}
    for says, planted in faults.items():
        outbox.records = lambda at_least=0, planted=planted: planted
        with pytest.raises(AssertionError, match=says):
            soak.check(rows)
