"""librdkafka's mock brokers, in a process of their own (mockbroker.c): they answer with whatever error a test asks for.

Their log is short-lived and they do not drop an idempotent producer's repeats; what needs that runs on the real Kafka.
"""
import subprocess

from . import kafka
from .relay import build


class MockBroker:
    def __init__(self, brokers=1):
        self.brokers = brokers
        self._topics = 0
        self._popen = subprocess.Popen([build() / "tests/rig/mockbroker", str(brokers)], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, bufsize=1)
        word, self.bootstrap = self._popen.stdout.readline().split()
        assert word == "bootstrap"

    def ask(self, *words):
        """One command; returns the number in its answer, if there is one."""
        self._popen.stdin.write(" ".join(map(str, words)) + "\n")
        answer = self._popen.stdout.readline().split(None, 1)
        assert answer and answer[0] == "ok", f"mockbroker: {words}: {answer}"
        return int(answer[1]) if len(answer) > 1 else None

    def create_topic(self, name=None, partitions=1):
        if name is None:
            self._topics += 1
            name = f"mock-{self._topics}"
        self.ask("topic", name, partitions)
        return name

    def delete_topic(self, name):
        """For who is used to the real broker: the library has no call for it, and the topics end with the process."""

    def fail(self, api, code, count=1):
        """The next `count` requests of that kind get this error, and are not carried out."""
        self.ask("fail", api, code, count)

    def slow(self, api, milliseconds, code="NO_ERROR", count=1, broker=1):
        """The next requests are carried out, and answered late."""
        self.ask("slow", broker, api, milliseconds, code, count)

    def pending(self, api, broker=1):
        return self.ask("pending", broker, api)

    def clear(self, api):
        self.ask("clear", api)

    def down(self, broker=-1):
        self.ask("down", broker)

    def up(self, broker=-1):
        self.ask("up", broker)

    def read(self, topic, at_least=0, deadline=30):
        return kafka.read(self.bootstrap, topic, at_least, deadline)

    def count(self, topic):
        return kafka.count(self.bootstrap, topic)

    def remove(self):
        self._popen.stdin.close()
        try:
            self._popen.wait(10)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._popen.stdout.close()
