"""Processes of our own: started, watched, and ended by their own id, also when the tests die."""
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

from .wait import wait_until

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

outlive = False  # set by the demo that is told to leave its servers running


def free_port():
    """A free port on 127.0.0.1, below the range that the kernel takes ports for outgoing connections from: in that
    range a server that is down for a moment could lose its port, or a client could connect to itself."""
    while True:
        port = random.randint(12000, 31000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def port_answers(port):
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Folder:
    """A temporary folder with a short path (a Unix socket's path is at most 107 bytes). Removed by remove()."""

    def __init__(self, name, user=None):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=f"outboxd-{name}-", dir="/tmp"))
        if user:
            shutil.chown(self.path, user)

    def __truediv__(self, name):
        return self.path / name

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)


class Process:
    """One child; its output goes to the end of a log file."""

    def __init__(self, argv, log, user=None, env=None, die_with=signal.SIGKILL, cwd="/"):
        self.argv = [str(arg) for arg in argv]
        self.log_path = pathlib.Path(log)
        # The kernel sends `die_with` when the *thread* that started the child ends; only the main one lives as long as the tests.
        tied = threading.current_thread() is threading.main_thread() and not outlive
        parent = os.getpid()

        def in_child():
            _libc.prctl(PR_SET_PDEATHSIG, int(die_with))
            if os.getppid() != parent:
                os.kill(os.getpid(), die_with)

        who = dict(user=user, group=user_group(user), extra_groups=[]) if user and os.geteuid() == 0 else {}
        with open(self.log_path, "ab") as out:
            self.popen = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=cwd,
                                          env=None if env is None else {**os.environ, **env}, start_new_session=True,
                                          preexec_fn=in_child if tied else None, **who)
        self.pid = self.popen.pid

    def alive(self):
        return self.popen.poll() is None

    @property
    def exit_code(self):
        return self.popen.poll()

    def send(self, number):
        if self.alive():
            self.popen.send_signal(number)

    def wait(self, deadline=30):
        """Waits for its end; returns the exit code (negative: the signal that ended it)."""
        try:
            return self.popen.wait(deadline)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.argv[0]} did not end within {deadline} s:\n{self.tail()}") from None

    def end(self, number=signal.SIGTERM, deadline=30):
        """Asks it to end; kills it when it does not. For clean-up: wait() tells what it answered."""
        self.send(number)
        self.send(signal.SIGCONT)
        try:
            self.popen.wait(deadline)
        except subprocess.TimeoutExpired:
            self.kill()
        return self.popen.returncode

    def kill(self):
        self.send(signal.SIGKILL)
        return self.popen.wait(10)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def tail(self, lines=40):
        return "\n".join(self.log().splitlines()[-lines:])

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def wait_log(self, text, deadline=30, start=0):
        """Waits until the log holds text; a process that ends before that is an error at once."""

        def seen():
            return text in self.log()[start:] or not self.alive()

        wait_until(seen, deadline, lambda: f"{text!r} in the log of {self.argv[0]}:\n{self.tail()}")
        assert text in self.log()[start:], f"{self.argv[0]} ended with {self.exit_code}:\n{self.tail()}"


def user_group(user):
    import grp
    import pwd
    return grp.getgrgid(pwd.getpwnam(user).pw_gid).gr_name
