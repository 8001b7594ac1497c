"""What systemd is told of the daemon: sd_notify(3), on a socket of the test's own."""
import fcntl
import os
import re
import signal
import socket
import struct
import subprocess
import time

import pytest

from rig.proxy import Proxy
from rig.relay import build
from rig.wait import stays, wait_until

LIMIT = 1.5  # of the watchdog, in seconds
SO_TIMESTAMPNS = 35  # the kernel says when each message was sent, however late the test looks


class Supervisor:
    """Hears what is sent to $NOTIFY_SOCKET: a path, or with abstract a name in the kernel's own namespace."""

    def __init__(self, folder, abstract=False):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.name = f"@outboxd-test-{os.getpid()}-{id(self)}" if abstract else str(folder / "notify")
        self.socket.bind(self.name.replace("@", "\0", 1))
        self.socket.setblocking(False)
        self.heard = []  # (time, text)

    def env(self, watchdog=LIMIT, **more):
        facts = {"NOTIFY_SOCKET": self.name, **more}
        return {**facts, "WATCHDOG_USEC": str(int(watchdog * 1e6))} if watchdog else facts

    def listen(self):
        """All that came so far: the texts."""
        while True:
            try:
                text, ancillary, _, _ = self.socket.recvmsg(65536, 256)
            except BlockingIOError:
                return [text for _, text in self.heard]
            seconds, nanoseconds = next(struct.unpack("qq", data) for _, kind, data in ancillary if kind == SO_TIMESTAMPNS)
            self.heard.append((seconds + nanoseconds / 1e9, text.decode()))

    def wait(self, text, deadline=15):
        wait_until(lambda: text in "\n".join(self.listen()), deadline, lambda: f"{text}; heard: {self.heard}")

    def lives(self):
        """When the signs of life came."""
        self.listen()
        return [when for when, text in self.heard if text == "WATCHDOG=1"]

    def alone(self, text):
        """How many messages are just this."""
        return self.listen().count(text)


@pytest.fixture
def supervisor(tmp_path):
    supervisor = Supervisor(tmp_path)
    yield supervisor
    supervisor.socket.close()


def test_environment():
    done = subprocess.run([build() / "tests/integration/test_sdnotify"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "100%: Checks:" in done.stdout, done.stdout + done.stderr


def test_from_start_to_stop(mock_outbox, supervisor):
    relay = mock_outbox.relay({"poll": "200ms"}, env=supervisor.env(watchdog=None)).start()
    supervisor.wait("READY=1")
    supervisor.wait("STATUS=ready")
    relay.reload_source(batch=7)
    supervisor.wait("RELOADING=1\nMONOTONIC_USEC=")
    wait_until(lambda: supervisor.alone("READY=1") == 2, 10, supervisor.listen)
    told = int(re.search(r"MONOTONIC_USEC=(\d+)", "\n".join(supervisor.listen()))[1])
    assert 0 <= time.monotonic() * 1e6 - told < 30e6
    relay.file.write_text("x: [")
    relay.send(signal.SIGHUP)
    wait_until(lambda: supervisor.alone("READY=1") == 3, 10, supervisor.listen)  # it goes on, with the old file
    assert relay.stop() == 0
    assert supervisor.listen()[-1] == "STOPPING=1\nSTATUS=draining"
    assert supervisor.lives() == []


def test_a_name_in_the_abstract_namespace(mock_outbox, tmp_path):
    supervisor = Supervisor(tmp_path, abstract=True)
    mock_outbox.relay(env=supervisor.env()).start()
    supervisor.wait("READY=1")
    supervisor.wait("WATCHDOG=1")
    supervisor.socket.close()


def test_ready_without_a_database(mock_outbox, supervisor):
    """The process is up; what it waits for, /readyz says. A start that fails for an outage would be tried again and again."""
    relay = mock_outbox.relay(env=supervisor.env(), schema=False)
    relay.config["postgres"] = {"dsn": "host=127.0.0.1 port=1 dbname=none"}
    relay.write_config()
    relay.start(ready=False)
    supervisor.wait("READY=1")
    supervisor.wait("WATCHDOG=1")


@pytest.mark.parametrize("env", [{"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "soon"}],
                         ids=["of another process", "off", "no number"])
def test_no_watchdog(mock_outbox, supervisor, env):
    mock_outbox.relay(env={**supervisor.env(0.3), **env}).start()
    supervisor.wait("READY=1")
    stays(lambda: supervisor.lives() == [], 1.0)


def test_F073_signs_of_life_come_from_the_loop(mock_outbox, supervisor, tmp_path):
    """Blocked by a log that nobody reads, the loop gives none, though all other threads run on. Then they come again."""
    log = tmp_path / "stderr"
    os.mkfifo(log)
    reader = os.open(log, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4096)
    relay = mock_outbox.relay(env=supervisor.env()).start(wrap=["sh", "-c", f'exec "$@" 2>{log}', "sh"])
    wait_until(lambda: len(supervisor.lives()) >= 6, 20, supervisor.lives)
    gaps = sorted(after - before for before, after in zip(supervisor.lives(), supervisor.lives()[1:]))
    assert gaps[-1] < LIMIT and gaps[len(gaps) // 2] <= LIMIT / 2, gaps

    def blocked():
        relay.send(signal.SIGUSR1)
        return relay.get("/livez", deadline=0.5)[0] == 0

    wait_until(blocked, 30)
    lives = len(supervisor.lives())
    stays(lambda: len(supervisor.lives()) == lives, 2 * LIMIT)

    def read_on():
        try:
            os.read(reader, 65536)
        except BlockingIOError:
            pass
        return len(supervisor.lives()) >= lives + 3

    wait_until(read_on, 20, supervisor.lives)
    assert relay.alive() and relay.get("/livez")[0] == 200
    os.close(reader)


def test_F073_a_database_that_does_not_answer_is_no_reason_for_a_restart(mock_outbox, supervisor):
    proxy = Proxy(mock_outbox.database.cluster.port)
    try:
        relay = mock_outbox.relay({"poll": "200ms"}, env=supervisor.env())
        relay.config["postgres"] = {"dsn": mock_outbox.database.dsn(proxy.port), "statement_timeout": "1s"}
        relay.write_config()
        relay.start()
        proxy.blackhole = True
        lives = len(supervisor.lives())
        wait_until(lambda: not relay.ready(), 15)  # a request was given up: statement_timeout and 5 s
        assert relay.events("postgres_connection_lost") or relay.events("postgres_down")
        times = supervisor.lives()[lives:]
        assert len(times) > 4 and max(after - before for before, after in zip(times, times[1:])) < LIMIT
    finally:
        proxy.close()
