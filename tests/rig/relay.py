"""The relay under test: a configuration file, the process, its log, its metrics."""
import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from .process import Process, free_port
from .wait import wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]

FACT = re.compile(r'([A-Za-z0-9_.]+)=("(?:[^"\\]|\\.)*"|\S*)')
SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
# How a test's clean-up ends it. `make coverage`: after the program has written its counts (counts.c).
END = signal.SIGUSR2 if os.environ.get("COVERAGE") else signal.SIGKILL

ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def build():
    """The folder that make builds in; make says which, when it runs the tests."""
    return ROOT / os.environ.get("BUILD", "build")


def binary():
    """$OUTBOXD, or what make has built."""
    return pathlib.Path(os.environ.get("OUTBOXD") or build() / "outboxd")


def unescaped(text):
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[1]), text)


def parse_event(line):
    """A line of logfmt as a dict; {} for anything else."""
    facts = {}
    for name, value in FACT.findall(line):
        facts[name] = unescaped(value[1:-1]) if value.startswith('"') else value
    return facts if "event" in facts else {}


class Metrics:
    """A page of /metrics."""

    def __init__(self, page):
        self.page = page
        self.samples = []
        for line in page.splitlines():
            found = SAMPLE.match(line)
            if found and not line.startswith("#"):
                labels = {name: unescaped(value) for name, value in LABEL.findall(found[2] or "")}
                self.samples.append((found[1], labels, float(found[3])))

    def all(self, name, **labels):
        """The values of every series of that name that has these labels."""
        return [value for sample, has, value in self.samples
                if sample == name and all(has.get(key) == wanted for key, wanted in labels.items())]

    def sum(self, name, **labels):
        """Their sum; 0 when there is none."""
        return sum(self.all(name, **labels))

    def value(self, name, **labels):
        """The one value."""
        values = self.all(name, **labels)
        assert len(values) == 1, f"{name} {labels}: {values}\n{self.page}"
        return values[0]


def run_command(*args, env=None, stdin="", deadline=60):
    """Runs `outboxd ARGS` to its end; the result has returncode, stdout, stderr."""
    return subprocess.run([str(binary()), *map(str, args)], input=stdin, capture_output=True, text=True, timeout=deadline,
                          env=None if env is None else {**os.environ, **env})


class Relay:
    """program: another build of it than binary()."""

    def __init__(self, config, folder, name="relay", env=None, program=None):
        self._begin(pathlib.Path(folder) / f"{name}.yaml", free_port(), folder, name, env, program)
        self.config = {"http": {"listen": f"127.0.0.1:{self.port}"}, "log": {"format": "logfmt"}, **config}
        self.write_config()

    @classmethod
    def of_file(cls, file, port, folder, name="relay", env=None):
        """With a file that somebody else wrote; port: where it has http listen."""
        relay = cls.__new__(cls)
        relay._begin(file, port, folder, name, env)
        return relay

    def _begin(self, file, port, folder, name, env, program=None):
        self.file, self.port, self.name, self.env = file, port, name, env
        self.program = program or binary()
        self.log_path = pathlib.Path(folder) / f"{name}.log"
        self.process = None

    def write_config(self):
        """JSON is YAML. Call it again after changing self.config."""
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.config, indent=2) + "\n")
        new.replace(self.file)  # a reload reads the old one or the new one

    def start(self, ready=True, wrap=()):
        """ready: waits until /readyz says so. wrap: a command in front of the relay's own."""
        self.process = Process([*wrap, self.program, "run", "-c", self.file], self.log_path, env=self.env)
        if ready:
            self.wait_ready()
        return self

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.alive()

    # ---- signals

    def send(self, number):
        self.process.send(number)

    def stop(self, deadline=40):
        """SIGTERM; returns the exit code."""
        self.process.send(signal.SIGTERM)
        return self.process.wait(deadline)

    def kill(self):
        self.process.kill()

    def suspend(self):
        self.process.send(signal.SIGSTOP)

    def resume(self):
        self.process.send(signal.SIGCONT)

    def reload(self, event="reloaded", **changes):
        """Writes self.config, with these top-level sections changed, sends SIGHUP, and returns what the log says of it."""
        self.config.update(changes)
        self.write_config()
        seen = len(self.events(event))
        self.send(signal.SIGHUP)
        return self.wait_event(event, count=seen + 1)

    def reload_source(self, number=0, **changes):
        """The same with keys of one source changed."""
        self.config["sources"][number].update(changes)
        return self.reload()

    def remove(self):
        """Clean-up at the end of a test, whatever its state."""
        if self.alive():
            self.process.end(END)

    # ---- log

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def events(self, event=None, **facts):
        """The log's lines as dicts: all, or those of one event with these facts."""
        found = filter(None, map(parse_event, self.log().splitlines()))
        return [line for line in found if (event is None or line["event"] == event)
                and all(line.get(key) == str(value) for key, value in facts.items())]

    def wait_event(self, event, deadline=15, count=1, **facts):
        """Waits for the count-th such line and returns it."""
        found = wait_until(lambda: self.events(event, **facts)[count - 1:], deadline,
                           lambda: f"event={event} {facts} in the log:\n" + self.log()[-6000:])
        return found[0]

    def lines(self):
        """How many there are."""
        return len(self.log().splitlines())

    def told(self, since=0):
        """How often each kind of line came, from the since-th line on. Every line has to be one of ours."""
        lines = self.log().splitlines()[since:]
        told = [parse_event(line) for line in lines]
        assert all(told), [line for line, event in zip(lines, told) if not event]
        return collections.Counter(tuple(line.get(name) for name in ("event", "facility", "error", "written")) for line in told)

    def check_told(self, since, begin):
        """What repeats was summed up: a line of a kind in ten seconds, and one at its begin and its end. begin: the time, of
        time.monotonic(), at which the log had so many lines."""
        told = self.told(since)
        assert max(told.values()) <= 2 + (time.monotonic() - begin) / 10, told

    # ---- http

    def get(self, path, method="GET", deadline=5):
        """(status, body); status 0 when nothing answers."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method)
        try:
            with urllib.request.urlopen(request, timeout=deadline) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metrics(self):
        status, body = self.get("/metrics")
        assert status == 200, f"/metrics: {status}\n{self.log()[-4000:]}"
        return Metrics(body)

    def ready(self):
        return self.get("/readyz")[0] == 200

    def wait_ready(self, deadline=30):
        wait_until(lambda: self.ready() or not self.alive(), deadline,
                   lambda: f"/readyz: {self.get('/readyz')}\n" + self.log()[-6000:])
        assert self.alive(), f"the relay ended with {self.process.exit_code}:\n{self.log()[-6000:]}"
