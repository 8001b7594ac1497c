"""The HTTP server alone (io/http.c in build/tests/rig/httpserver): what it serves, and what strangers can do to it."""
import concurrent.futures
import http.client
import os
import pathlib
import random
import signal
import socket
import time

import pytest

from rig.process import Process, free_port
from rig.wait import wait_until

BUILD = pathlib.Path(os.environ.get("BUILD", pathlib.Path(__file__).parents[2] / "build"))


class Server:
    def __init__(self, folder, host="127.0.0.1", port=0):
        self.host = host
        self.process = Process([BUILD / "tests/rig/httpserver", host, port], folder / "httpserver.log")
        self.process.wait_log("port ", 10)
        self.port = int(self.process.log().split()[1])

    def connect(self, timeout=15):
        return socket.create_connection((self.host, self.port), timeout)

    def ask(self, method, path, **kwargs):
        """(status, headers, body) over a connection of its own."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        connection.request(method, path, **kwargs)
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, response.headers, body

    def works(self):
        return self.ask("GET", "/hello")[::2] == (200, b"hello\n")

    def end(self):
        assert self.process.end() == 0, self.process.log()


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path)
    yield server
    server.end()


def talk(connection, request):
    """Sends bytes as they are; returns all that comes until the server closes."""
    answer = b""
    try:
        connection.sendall(request)
        while piece := connection.recv(65536):
            answer += piece
    except (ConnectionResetError, BrokenPipeError):
        pass
    return answer


def test_get(server):
    status, headers, body = server.ask("GET", "/hello")
    assert (status, body) == (200, b"hello\n")
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["Content-Length"] == "6"
    assert server.ask("GET", "/hello?from=prometheus")[0] == 200


def test_F082_head_has_no_body(server):
    status, headers, body = server.ask("HEAD", "/hello")
    assert (status, headers["Content-Length"], body) == (200, "6", b"")
    assert server.ask("HEAD", "/nowhere")[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", "BREW"])
def test_F082_other_methods_are_refused(server, method):
    body = b"x" * 100000 if method in ("POST", "PUT") else None
    status, headers, _ = server.ask(method, "/hello", body=body)
    assert (status, headers["Allow"]) == (405, "GET, HEAD")
    assert server.works()


@pytest.mark.parametrize("path", ["/", "/hello/", "/HELLO", "//hello", "/%00", "/../hello", "/" + "a" * 5000])
def test_F082_unknown_paths(server, path):
    assert server.ask("GET", path)[0] == 404


def test_connection_is_kept_for_the_next_request(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=5)
    connection.connect()
    before = connection.sock.getsockname()
    for _ in range(50):
        connection.request("GET", "/hello")
        assert connection.getresponse().read() == b"hello\n"
    assert connection.sock.getsockname() == before
    connection.close()


def test_pipelined_requests(server):
    answer = talk(server.connect(), b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n" * 20 +
                  b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert answer.count(b"\r\n\r\nhello\n") == 21


def test_large_pages_arrive_whole(server):
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        for status, _, body in pool.map(lambda _: server.ask("GET", "/big"), range(40)):
            assert status == 200 and len(body) == 4 * 1024 * 1024


def test_huge_and_malformed_requests_are_bounded(server):
    def status(request):
        """The status, or None for a connection closed without a word."""
        answer = talk(server.connect(), request)
        return int(answer.split()[1]) if answer else None

    assert status(b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n") in (None, 400, 414, 431)
    assert status(b"GET / HTTP/1.1\r\nX: " + b"a" * 100000 + b"\r\n\r\n") in (None, 400, 413, 431)
    assert status(b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20000 + b"\r\n") in (None, 400, 413, 431)
    assert status(b"GET /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n" + b"x" * 100000) in (None, 400, 413)
    assert status(b"GET /hello HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nxx") in (None, 400, 413)
    assert status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n") in (None, 400, 405, 505)
    assert status(b"GET /hello HTTP/9.9\r\n\r\n") in (None, 400, 505)
    assert server.works()


def test_random_bytes(server):
    randomly = random.Random(1)
    pieces = [b"GET ", b"HEAD ", b"/hello", b" HTTP/1.1", b" HTTP/1.0", b"\r\n", b"\n", b"\r", b"\0", b"Host: x", b": ", b"%",
              b"Content-Length: ", b"-1", b"99999999999999999999", b"Transfer-Encoding: chunked", b"\xff", b"Expect: 100-continue"]
    for number in range(350):
        end = b"\r\n\r\n" if number < 300 else b""  # what never ends holds a connection for its 5 s
        with server.connect() as connection:
            connection.sendall(b"".join(randomly.choices(pieces, k=randomly.randint(1, 20))) + end)
    assert server.process.alive() and server.works()


def test_clients_that_vanish(server):
    for _ in range(100):
        connection = server.connect()
        connection.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.close()
    assert server.works()
    wait_until(lambda: server.process.open_files() < 20, 10, "the connections are closed")


def open_slow(server):
    connection = server.connect()
    connection.sendall(b"GET /hello HTTP/1.1\r\nX: ")
    return connection


def seconds_until_closed(connection, begin, drip):
    """Sends a byte each half second, when it drips; returns when the server has hung up."""
    connection.settimeout(0.5)
    while time.monotonic() - begin < 60:
        try:
            if drip:
                connection.sendall(b"a")
            if not connection.recv(1000):
                break
        except TimeoutError:
            continue
        except OSError:
            break
    return time.monotonic() - begin


def test_slow_clients_have_an_end(server):
    """Silence is ended after 5 s, a request that trickles after 10 s."""
    begin = time.monotonic()
    silent, dripping = open_slow(server), open_slow(server)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(seconds_until_closed, silent, begin, False)
        second = pool.submit(seconds_until_closed, dripping, begin, True)
        assert 3 < first.result() < 9
        assert 8 < second.result() < 14
    assert server.works()


def test_reader_that_stops_reading_has_an_end(server):
    before = server.process.open_files()
    connection = server.connect()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.sendall(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: server.process.open_files() > before, 5, "the connection is taken")
    wait_until(lambda: server.process.open_files() == before, 15, "the connection is closed")
    connection.close()


def test_number_of_connections_is_bounded(server):
    """More than 64 wait in the kernel; when the others have gone, they are served."""
    crowd = [server.connect() for _ in range(100)]
    time.sleep(0.2)
    assert server.process.open_files() < 80
    for connection in crowd[:80]:
        connection.close()
    wait_until(server.works, 10, "it answers again")
    assert talk(crowd[99], b"GET /hello HTTP/1.0\r\n\r\n").endswith(b"hello\n")
    for connection in crowd[80:]:
        connection.close()


def test_F086_idle_costs_nothing(server):
    connection = server.connect()
    server.works()
    begin = server.process.cpu_seconds()
    time.sleep(1)
    assert server.process.cpu_seconds() - begin <= 0.02
    connection.close()


def test_F089_loopback_and_ipv6_literal(tmp_path):
    server = Server(tmp_path, "::1")
    assert server.works()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), 1)
    server.end()


def test_F089_loopback_is_not_reached_from_outside(server):
    with pytest.raises(OSError):
        socket.create_connection((own_address(), server.port), 1)


def own_address():
    """An address of this host that is not loopback's; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this host has no other address")
        return probe.getsockname()[0]


def test_address_in_use_and_unknown(tmp_path):
    port = free_port()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        taken = Process([BUILD / "tests/rig/httpserver", "127.0.0.1", port], tmp_path / "taken.log")
        assert taken.wait(10) == 1
        assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in taken.log()
    unknown = Process([BUILD / "tests/rig/httpserver", "no-such-host.invalid"], tmp_path / "unknown.log")
    assert unknown.wait(30) == 1
    assert "cannot listen on no-such-host.invalid: " in unknown.log()


def test_restart_on_the_same_port(tmp_path):
    """Connections in TIME_WAIT do not keep the port."""
    server = Server(tmp_path)
    assert talk(server.connect(), b"POST /hello HTTP/1.1\r\nHost: x\r\n\r\n")
    server.process.send(signal.SIGTERM)
    assert server.process.wait(10) == 0
    again = Server(tmp_path / "..", port=server.port)
    assert again.works()
    again.end()
