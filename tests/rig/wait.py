"""Waiting for a condition. No test sleeps and hopes."""
import time


def wait_until(condition, deadline=10.0, what=None, every=0.02):
    """Calls condition() until it returns something true, and returns that. After `deadline` seconds: AssertionError
    with `what` was waited for (text, or a function that makes it) and what the condition returned last."""
    end = time.monotonic() + deadline
    while True:
        last = condition()
        if last:
            return last
        if time.monotonic() >= end:
            if callable(what):
                what = what()
            raise AssertionError(f"not within {deadline} s: {what or condition.__name__}; last seen: {last!r}")
        time.sleep(every)


def stays(condition, seconds, what=None, every=0.05):
    """The opposite: condition() is true all the time for `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = condition()
        assert seen, f"{what or condition.__name__}: ended before {seconds} s had passed; seen: {seen!r}"
        time.sleep(every)
