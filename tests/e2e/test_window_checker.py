"""The rig itself: what rig/flow.py and rig/crash.py have to notice."""
import collections
import json
import types

import pytest

from rig import crash
from rig.flow import check_arrivals
from rig.kafka import Record
from rig.relay import Metrics


def topic(*arrivals):
    """Records of one partition: each is (key, n)."""
    return [Record("t", 0, offset, key, json.dumps({"n": n}).encode(), [], 0) for offset, (key, n) in enumerate(arrivals)]


WANTED = {b"a": [1, 3, 5], b"b": [2, 4]}
KEY_OF = {n: key for key, numbers in WANTED.items() for n in numbers}
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


# ---- a case of the crash matrix: the rows above, of which the victim has left 3 and 4 behind

class DeadOrAlive:
    """A relay as Case.check() sees it."""

    def __init__(self, page=None, **windows):
        self.passages = types.SimpleNamespace(windows=lambda: collections.Counter(windows))
        self.page = page or windows
        self.disorder = []

    def events(self, _):
        return self.disorder

    def metrics(self):
        return Metrics("\n".join(f'outboxd_possible_duplicates_total{{window="{name}"}} {value}' for name, value in self.page.items()))


def case(monkeypatch, records, left=(3, 4), victim=None, survivor=None):
    made = crash.Case.__new__(crash.Case)
    made.name, made.rows, made.failed, made.dead, made.topics, made.letters = "case", 5, {}, [], {"e": "t"}, None
    made.left, made.to_recover, made.expiring = collections.Counter(left), set(left), set()
    made.victim, made.survivor = victim or DeadOrAlive(), survivor or DeadOrAlive(crash_recovered=len(left))
    made.outbox = types.SimpleNamespace(broker=types.SimpleNamespace(read=lambda *_: topic(*records)))
    monkeypatch.setattr(crash, "check_table", lambda *_: {"e": WANTED})
    return made


@pytest.mark.parametrize("repeats,victim", [([], {}), ([3, 4], {}), ([3, 4, 4], {"timed_out": 1}), ([1], {"producer_replaced": 1})])
def test_copies_that_a_death_allows(monkeypatch, repeats, victim):
    case(monkeypatch, [*WHOLE, *((KEY_OF[n], n) for n in repeats)], victim=DeadOrAlive(**victim)).check()


@pytest.mark.parametrize("repeats,more,says", [
    ([1], {}, "Counter\\({1: 1}\\) beyond"),
    ([3, 3], {}, "Counter\\({3: 1}\\) beyond"),
    ([], {"survivor": DeadOrAlive(crash_recovered=1)}, "2 left behind"),
    ([], {"survivor": DeadOrAlive(page={"crash_recovered": 3}, crash_recovered=2)}, "crash_recovered"),
], ids=["of a row that was done", "one too many", "not counted", "not shown"])
def test_what_a_death_does_not_allow(monkeypatch, repeats, more, says):
    with pytest.raises(AssertionError, match=says):
        case(monkeypatch, [*WHOLE, *((KEY_OF[n], n) for n in repeats)], **more).check()


def test_disorder_that_the_dead_has_seen(monkeypatch):
    victim = DeadOrAlive()
    victim.disorder = [{"event": "order_broken"}]
    with pytest.raises(AssertionError):
        case(monkeypatch, WHOLE, victim=victim).check()


def test_a_victim_that_does_not_die():
    alive = types.SimpleNamespace(alive=lambda: True, passages=collections.Counter(CLAIM_SENT=2), log=str)
    made = crash.Case.__new__(crash.Case)
    made.death, made.victim = ("CLAIM_SENT", 5), alive
    with pytest.raises(AssertionError, match="CLAIM_SENT was passed 2 times, and not 5"):
        made.check_death()
