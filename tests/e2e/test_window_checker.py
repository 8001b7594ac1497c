"""The rig itself: what rig/flow.py has to notice."""
import json

import pytest

from rig.flow import check_arrivals
from rig.kafka import Record


def topic(*arrivals):
    """Records of one partition: each is (key, n)."""
    return [Record("t", 0, offset, key, json.dumps({"n": n}).encode(), [], 0) for offset, (key, n) in enumerate(arrivals)]


WANTED = {b"a": [1, 3, 5], b"b": [2, 4]}
WHOLE = [(b"a", 1), (b"b", 2), (b"a", 3), (b"b", 4), (b"a", 5)]


def test_keys_in_order_and_repeats():
    assert check_arrivals(topic(*WHOLE), WANTED) == 0
    # A producer that was replaced sends again from an earlier row on.
    assert check_arrivals(topic(*WHOLE[:3], *WHOLE[:3], *WHOLE[1:]), WANTED) == 5


def test_a_topic_made_anew_has_the_last_ones():
    assert check_arrivals(topic(*WHOLE[2:]), WANTED, suffix=True) == 0
    with pytest.raises(AssertionError, match="came \\[1, 5\\] for \\[3, 5\\]"):
        check_arrivals(topic((b"a", 1), (b"a", 5)), WANTED, suffix=True)


@pytest.mark.parametrize("records,says", [
    ([WHOLE[2], *WHOLE[:2], *WHOLE[3:]], "at place 0 came \\[3, 1, 5\\] for \\[1, 3, 5\\]"),
    (WHOLE[:-1], "1 missing \\[5\\]"),
    ([*WHOLE, (b"a", 7)], "1 that should not be there \\[7\\]"),
    ([*WHOLE, (b"c", 7)], "1 arrived of 0"),
    (WHOLE[:1], "0 arrived of 2"),
], ids=["overtaken", "missing", "failed and sent", "strange", "a key missing"])
def test_what_is_wrong(records, says):
    with pytest.raises(AssertionError, match=says):
        check_arrivals(topic(*records), WANTED)


def test_a_key_in_two_partitions():
    first, second = topic((b"a", 1), (b"a", 3))
    with pytest.raises(AssertionError, match="two partitions"):
        check_arrivals([first, second._replace(partition=1)], {b"a": [1, 3]})
