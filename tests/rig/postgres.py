"""A throwaway PostgreSQL: a cluster of its own in a temporary folder, on a free port."""
import contextlib
import glob
import os
import pwd
import shutil
import signal
import subprocess

import psycopg2
import psycopg2.extensions

from .process import Folder, Process, free_port, user_group
from .wait import wait_until

# What a throwaway server needs whatever it is for; all else is stock.
PLACE = {
    "listen_addresses": "127.0.0.1",
    "log_line_prefix": "%m [%p] %a %d ",
    "timezone": "UTC",
    "lc_messages": "C",
}
FOR_TESTS = {
    "fsync": "off",  # the machine does not lose power here, and what a killed process has written stays written
    "max_connections": "200",
    "max_prepared_transactions": "10",
    "deadlock_timeout": "200ms",
    "log_checkpoints": "off",
    "autovacuum_naptime": "5s",
}


def programs():
    """The folder with initdb and postgres of the newest version installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    if found:
        return os.path.dirname(found[-1])
    return subprocess.check_output(["pg_config", "--bindir"], text=True).strip()


def server_user():
    """PostgreSQL refuses to run as root; None when we are not root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name).pw_name
        except KeyError:
            continue
    raise RuntimeError("neither a user postgres nor nobody is there to run PostgreSQL")


class Database:
    """One database of a cluster, and an autocommit session to look into it.

    one_try: a statement that is lost with its session is not sent again, for it may have been carried out."""

    def __init__(self, cluster, name, one_try=False):
        self.cluster, self.name, self.one_try = cluster, name, one_try
        self._session = None

    def dsn(self, port=None, **more):
        """A libpq string for the relay; port: that of a proxy in front."""
        facts = dict(host="127.0.0.1", port=port or self.cluster.port, dbname=self.name, user="postgres")
        facts.update(more)
        return " ".join(f"{key}={quoted(value)}" for key, value in facts.items())

    def connect(self, autocommit=True, **more):
        connection = psycopg2.connect(self.dsn(application_name="test"), **more)
        connection.autocommit = autocommit
        return connection

    def session(self):
        """The session that the following methods use; made anew when the server was away."""
        if self._session is None or self._session.closed:
            self._session = self.connect()
        return self._session

    def _run(self, sql, args, fetch):
        for last_try in (False, True):
            try:
                with self.session().cursor() as cursor:
                    cursor.execute(sql, args)
                    return cursor.fetchall() if fetch and cursor.description else None
            except (psycopg2.OperationalError, psycopg2.InterfaceError):
                # A restarted server ends the session; one new connection is fair, more would hide an outage.
                if last_try or self.one_try or self._session is None or not self._session.closed:
                    raise

    def execute(self, sql, args=None):
        self._run(sql, args, False)

    def all(self, sql, args=None):
        return self._run(sql, args, True)

    def one(self, sql, args=None):
        rows = self._run(sql, args, True)
        assert len(rows) == 1, f"{len(rows)} rows: {sql}"
        return rows[0]

    def value(self, sql, args=None):
        return self.one(sql, args)[0]

    def states(self, table="event_outbox", column="status"):
        """How many rows are in each state, e.g. {"SENT": 10}."""
        return dict(self.all(f"SELECT {column}::text, count(*)::int FROM {table} GROUP BY 1"))

    def sessions(self, application="outboxd"):
        """The relay's sessions as (pid, state, xact_start, query)."""
        return self.all("SELECT pid, state, xact_start, query FROM pg_stat_activity"
                        " WHERE datname = %s AND application_name LIKE %s", (self.name, application + "%"))

    def terminate(self, application="outboxd", query="%"):
        """Ends the sessions of an application (those whose last statement is like `query`); returns how many."""
        return len(self.all("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
                            " AND application_name LIKE %s AND query LIKE %s", (self.name, application + "%", query)))

    def close(self):
        """Ends the session that the methods above use."""
        if self._session is not None:
            self._session.close()

    def drop(self):
        self.close()
        if self.cluster.alive():
            self.cluster.admin(f'DROP DATABASE IF EXISTS "{self.name}" WITH (FORCE)')


def quoted(value):
    text = str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'" if not text or set(text) & set(" '\\") else text


class Cluster:
    def __init__(self, settings=FOR_TESTS, folder=None, port=None, env=None):
        self.user, self.env = server_user(), env
        self.folder = folder or Folder("pg", self.user)
        self.data = self.folder / "data"
        self.log_path = self.folder / "log"
        self.port = port or free_port()
        self.settings = {**PLACE, **settings}
        self.process = None
        self._databases = 0
        self._init()

    def _init(self):
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync",
                  "--no-instructions")

    def _run(self, program, *args):
        who = dict(user=self.user, group=user_group(self.user), extra_groups=[]) if self.user else {}
        done = subprocess.run([f"{programs()}/{program}", *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, cwd="/", **who)
        if done.returncode != 0:
            raise RuntimeError(f"{program}: {done.stdout}{done.stderr}")

    def start(self):
        argv = [f"{programs()}/postgres", "-D", self.data, "-p", self.port, "-k", self.folder.path]
        for name, value in self.settings.items():
            argv += ["-c", f"{name}={value}"]

        def attempt():
            self.process = Process(argv, self.log_path, user=self.user, env=self.env, die_with=signal.SIGQUIT)
            wait_until(lambda: self.answers() or not self.process.alive(), 60, lambda: self.process.tail())
            return self.process.alive()

        # After a kill the old server's processes may hold its shared memory for a moment: then it refuses to start.
        wait_until(attempt, 30, lambda: "PostgreSQL to start:\n" + self.process.tail(), every=0.2)
        return self

    def answers(self):
        try:
            psycopg2.connect(host="127.0.0.1", port=self.port, user="postgres", dbname="postgres",
                             connect_timeout=5).close()
            return True
        except psycopg2.OperationalError:
            return False

    def alive(self):
        return self.process is not None and self.process.alive()

    def stop(self, how="fast"):
        """fast ends the sessions; smart waits for them; immediate does not even write a checkpoint."""
        number = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how]
        self.process.send(number)
        self.process.wait(60)

    def restart(self, how="fast"):
        self.stop(how)
        self.start()

    def kill(self):
        """SIGKILL of the server: its sessions end, and the next start recovers."""
        self.process.kill()

    def remove(self):
        if self.alive():
            self.process.end(signal.SIGQUIT)
        self.folder.remove()

    def admin(self, sql):
        connection = psycopg2.connect(host="127.0.0.1", port=self.port, user="postgres", dbname="postgres")
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(sql)
        finally:
            connection.close()

    def own(self, path):
        """A secret file: the server's alone."""
        if self.user:
            shutil.chown(path, self.user)
        os.chmod(path, 0o600)

    @contextlib.contextmanager
    def configured(self, **settings):
        """Settings that need no restart, for all sessions, until the end of the block."""
        self._configure([f"SET {name} = '{value}'" for name, value in settings.items()])
        try:
            yield self
        finally:
            if not self.alive():
                self.start()
            self._configure([f"RESET {name}" for name in settings])

    def _configure(self, changes):
        for change in changes:
            self.admin(f"ALTER SYSTEM {change}")
        size = self.log_size()
        self.admin("SELECT pg_reload_conf()")
        # The postmaster takes it over before it forks the next session.
        wait_until(lambda: "received SIGHUP" in self.log_since(size), 10, "the reload")

    def create_database(self, template=None):
        """template: a Database that is to be copied, file by file; it must have no session."""
        self._databases += 1
        name = f"test{self._databases}"
        self.admin(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{template.name}" STRATEGY file_copy' if template else ""))
        return Database(self, name)

    def log(self):
        return self.log_path.read_text(errors="replace")

    def log_size(self):
        """Where the log ends now, for log_since()."""
        return len(self.log())

    def log_since(self, size):
        return self.log()[size:]


class Standby(Cluster):
    """A copy of another one, which must be running; it follows it until it is promoted."""

    def __init__(self, primary, port=None):
        self.primary = primary
        super().__init__({**primary.settings}, port=port)

    def _init(self):
        self._run("pg_basebackup", "-h", "127.0.0.1", "-p", self.primary.port, "-U", "postgres", "-D", self.data, "-R",
                  "-c", "fast", "--no-sync")

    def start(self):
        """From then on the primary commits nothing that this one does not have."""
        super().start()
        self.primary.admin("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.admin("SELECT pg_reload_conf()")
        wait_until(self._is_synchronous, 30, lambda: self.log()[-2000:])
        return self

    def _is_synchronous(self):
        return Database(self.primary, "postgres").value("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1

    def promote(self):
        self.admin("SELECT pg_promote()")

    def remove(self):
        """The primary, if it is there, waits for it no more."""
        if self.primary.alive():
            self.primary.admin("ALTER SYSTEM RESET synchronous_standby_names")
            self.primary.admin("SELECT pg_reload_conf()")
        super().remove()
