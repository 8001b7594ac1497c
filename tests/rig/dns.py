"""Where a program finds host names (names.c): a name server of the test's own, and what getaddrinfo() finds."""
import collections
import socket
import struct
import threading
import time

from .relay import build

A, AAAA = 1, 28
NXDOMAIN = 3
HOSTS = "127.0.0.1 localhost\n"


class NameServer:
    """Answers on UDP. addresses: {name: [IPv4 or IPv6 address, ...]}; a name that is not there does not exist.

    silent  it takes questions and answers none
    delay   seconds before each answer
    asked   how often for each name
    folder  for resolv.conf, and for hosts, which a test may write anew
    env     for the program that is to ask this one

    getaddrinfo(), which does not ask it, finds what blocking() said last; for another name it waits, 20 s at most."""

    def __init__(self, folder, addresses=()):
        self.addresses, self.silent, self.delay, self.asked = dict(addresses), False, 0.0, collections.Counter()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.folder = folder
        self.folder.mkdir()
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\n")
        (folder / "hosts").write_text(HOSTS)
        self.env = {"LD_PRELOAD": str(build() / "tests/rig/names.so"), "NAMES": str(folder),
                    "NAMES_PORT": str(self._socket.getsockname()[1])}
        threading.Thread(target=self._serve, daemon=True).start()

    def blocking(self, **addresses):
        """{name: IPv4 address}"""
        part = self.folder / "blocking.part"
        part.write_text("".join(f"{address} {name}\n" for name, address in addresses.items()))
        part.rename(self.folder / "blocking")

    def close(self):
        self._socket.close()

    def _serve(self):
        while True:
            try:
                query, client = self._socket.recvfrom(4096)
            except OSError:
                return
            threading.Thread(target=self._answer, args=(query, client), daemon=True).start()

    def _answer(self, query, client):
        name, kind, end = question(query)
        self.asked[name] += 1
        due = time.monotonic() + self.delay
        while self.silent or time.monotonic() < due:
            if self.silent:
                return
            time.sleep(0.01)
        try:
            self._socket.sendto(answer(query, end, kind, self.addresses.get(name)), client)
        except OSError:
            pass  # closed


def question(query):
    """(name, type, where the question ends)."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
        at += 1 + query[at]
    return ".".join(labels), struct.unpack_from("!H", query, at + 1)[0], at + 5


def answer(query, end, kind, addresses):
    """addresses None: there is no such name."""
    family = {A: socket.AF_INET, AAAA: socket.AF_INET6}.get(kind)
    found = [each for each in addresses or () if family == (socket.AF_INET6 if ":" in each else socket.AF_INET)]
    flags = 0x8180 | (NXDOMAIN if addresses is None else 0)
    head = query[:2] + struct.pack("!HHHHH", flags, 1, len(found), 0, 0)
    records = b""
    for each in found:
        data = socket.inet_pton(family, each)
        records += struct.pack("!HHHIH", 0xc00c, kind, 1, 0, len(data)) + data
    return head + query[12:end] + records
