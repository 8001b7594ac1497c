"""Runs a program again and again, until each place in it that asks for memory has been refused once (starve.c)."""
import os
import re
import signal
import struct
import subprocess

from .relay import build

# What is said on the way to a deliberate end: by us, by libev, by librdkafka.
ABORTS = ("outboxd: out of memory", "(libev) cannot allocate", "Assertion `")
# A test that ended otherwise than by an abort; Check itself ends a test with 2 when it has no memory.
CRASHED = re.compile(r"\(E\) .*(Received signal (?!6\b)\d+|timeout expired|Early exit with return value (?!2\b)\d+)")


class Starve:
    """share: (n, of) takes the n-th of so many parts of all sites; after: so many allocations of a process succeed first; forked:
    only processes that the program forks, which are its tests."""

    def __init__(self, path, share=(0, 1), after=0, forked=False):
        self.path = path
        self.env = {"LD_PRELOAD": str(build() / "tests/rig/starve.so"), "STARVE": str(path),
                    "STARVE_SHARE": f"{share[0]}/{share[1]}", "STARVE_AFTER": str(after)}
        if forked:
            self.env["STARVE_ONLY"] = "forked"

    def sites(self):
        """How many have failed until now."""
        if not self.path.exists():
            return 0
        return sum(site != 0 for site, in struct.iter_unpack("Q", self.path.read_bytes()))


def judge(code, output, allowed=(0, 1)):
    """What is wrong with how a program has ended for lack of memory; None when it ended as it should.

    It says so and aborts, or goes on; tests that it runs may then fail, or be aborted themselves."""
    if code not in (*allowed, -signal.SIGABRT):
        return f"ended with {code}"
    if code == -signal.SIGABRT and not any(text in output for text in ABORTS):
        return "aborted without a word"
    crashed = CRASHED.search(output)
    return crashed[1] if crashed else None


def run_until_fed(argv, starve, rounds, deadline=60, allowed=(0, 1)):
    """Runs it until nothing fails any more, `rounds` times at most. Returns what went wrong, as texts."""
    wrong = []
    for _ in range(rounds):
        before = starve.sites()
        try:
            done = subprocess.run([str(arg) for arg in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, errors="replace", timeout=deadline, env={**os.environ, **starve.env})
            fault, output = judge(done.returncode, done.stdout, allowed), done.stdout
        except subprocess.TimeoutExpired as late:
            fault, output = f"did not end within {deadline} s", (late.stdout or b"").decode(errors="replace")
        if fault:
            wrong.append(f"{fault}:\n{output[-6000:]}")
        if starve.sites() == before:
            break
    return wrong
