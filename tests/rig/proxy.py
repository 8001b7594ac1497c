"""A TCP proxy on 127.0.0.1 that can cut, delay, swallow and stall what passes through it."""
import collections
import socket
import threading
import time


class Proxy:
    """Forwards each connection to 127.0.0.1:target. Faults can be switched at any time, also for open connections.

    blackhole       nothing passes either way, and new connections are accepted and never answered
    swallow_answers what the server says is dropped; what the client says still arrives
    refuse          new connections are closed at once
    delay           seconds that each byte takes, in each direction
    on_client_data  called with the bytes of each piece that the client sends, before it is passed on; a test counts or cuts
    on_server_data  the same for the server's
    """

    def __init__(self, target):
        self.target = target
        self.blackhole = self.swallow_answers = self.refuse = False
        self.delay = 0.0
        self.on_client_data = self.on_server_data = lambda data: None
        self.accepted = 0
        self._lock = threading.Lock()
        self._sockets = set()
        self._closed = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept)

    def _spawn(self, function, *args):
        threading.Thread(target=function, args=args, daemon=True).start()

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.refuse:
                client.close()
            elif self.blackhole:
                self._keep(client)
            else:
                self._connect(client)

    def _connect(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target), 10)
        except OSError:
            client.close()
            return
        for each in (client, server):
            each.settimeout(None)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._keep(each)
        self._spawn(self._pump, client, server, False)
        self._spawn(self._pump, server, client, True)

    def _keep(self, each):
        with self._lock:
            self._sockets.add(each)

    def _pump(self, source, sink, answers):
        """One direction. A second thread writes, so that a delay does not slow the stream down."""
        queue, ready = collections.deque(), threading.Condition()
        self._spawn(self._write, queue, ready, sink)
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if data:
                try:
                    (self.on_server_data if answers else self.on_client_data)(data)
                except Exception:  # the test cut it off, or failed: either way this connection ends
                    data = b""
            if data and (self.blackhole or (answers and self.swallow_answers)):
                continue
            with ready:
                queue.append((time.monotonic() + self.delay, data))
                ready.notify()
            if not data:
                self._close(source)
                return

    def _write(self, queue, ready, sink):
        while True:
            with ready:
                while not queue:
                    ready.wait()
                due, data = queue.popleft()
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            try:
                if data and not self.blackhole:
                    sink.sendall(data)
            except OSError:
                data = b""
            if not data:
                self._close(sink)
                return

    def _close(self, each):
        with self._lock:
            self._sockets.discard(each)
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        each.close()

    def cut(self):
        """Closes every open connection; new ones are accepted."""
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            self._close(each)

    def heal(self):
        """No fault any more. Connections that stood in a black hole are cut: their bytes are gone."""
        was = self.blackhole or self.swallow_answers
        self.blackhole = self.swallow_answers = self.refuse = False
        self.delay = 0.0
        if was:
            self.cut()

    def close(self):
        self._closed = True
        self._listener.close()
        self.cut()
