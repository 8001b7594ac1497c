"""A TCP proxy on the loopback that can cut, reset, delay, swallow, crumble and stall what passes through it."""
import collections
import socket
import struct
import threading
import time

HEAD = 4096  # so much of what a client says first is kept, to know it by
NOW = struct.pack("ii", 1, 0)  # SO_LINGER: close() resets


class Link:
    """One connection: the client's socket, the server's (None: nobody answers), and the first words of the client."""

    def __init__(self, client, server=None):
        self.client, self.server, self.head = client, server, b""
        self.reset = False

    def sockets(self):
        return filter(None, (self.client, self.server))

    def close(self, each):
        try:
            each.shutdown(socket.SHUT_RD if self.reset else socket.SHUT_RDWR)  # wakes who waits for it
        except OSError:
            pass
        each.close()


class Proxy:
    """Forwards each connection to 127.0.0.1:target. Faults can be switched at any time, also for open connections.

    swallow_questions  what the client says is dropped; what the server says still arrives
    swallow_answers    the other way round
    blackhole          nothing passes either way, and new connections are accepted and never answered
    refuse             new connections are closed at once
    delay              seconds that each byte takes, in each direction
    crumble            each byte is sent alone
    only               function of a Link: swallowing happens to those connections alone; cut() and half_close() as well
    on_client_data     called with the bytes of each piece that the client sends, before it is passed on; a test counts or cuts
    on_server_data     the same for the server's
    """

    def __init__(self, target, port=0, host="127.0.0.1"):
        self.target = target
        self._begin_faults()
        self.on_client_data = self.on_server_data = lambda data: None
        self.accepted = 0
        self._lock = threading.Lock()
        self._links = set()
        self._closed = False
        self._listener = socket.create_server((host, port), backlog=128)
        self.port = self._listener.getsockname()[1]
        self._accepting = self._spawn(self._accept)

    def _begin_faults(self):
        self.blackhole = self.swallow_answers = self.swallow_questions = self.refuse = self.crumble = False
        self.delay = 0.0
        self.only = lambda link: True

    def _spawn(self, function, *args):
        thread = threading.Thread(target=function, args=args, daemon=True)
        thread.start()
        return thread

    def _accept(self):
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.refuse:
                client.close()
            elif self.blackhole and self.only(Link(client)):
                self._keep(Link(client))
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
        link = self._keep(Link(client, server))
        self._spawn(self._pump, link, False)
        self._spawn(self._pump, link, True)

    def _keep(self, link):
        with self._lock:
            self._links.add(link)
        return link

    def _swallows(self, link, answers):
        there = self.swallow_answers if answers else self.swallow_questions
        return (self.blackhole or there) and self.only(link)

    def _pump(self, link, answers):
        """One direction. A second thread writes, so that a delay does not slow the stream down."""
        source, sink = (link.server, link.client) if answers else (link.client, link.server)
        queue, ready = collections.deque(), threading.Condition()
        self._spawn(self._write, queue, ready, link, sink, answers)
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if data:
                if not answers and len(link.head) < HEAD:
                    link.head += data
                try:
                    (self.on_server_data if answers else self.on_client_data)(data)
                except Exception:  # the test cut it off, or failed: either way this connection ends
                    data = b""
            if data and self._swallows(link, answers):
                continue
            with ready:
                queue.append((time.monotonic() + self.delay, data))
                ready.notify()
            if not data:
                link.close(source)
                return

    def _write(self, queue, ready, link, sink, answers):
        while True:
            with ready:
                while not queue:
                    ready.wait()
                due, data = queue.popleft()
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            try:
                if data and not (self.blackhole and self._swallows(link, answers)):
                    self._send(sink, data)
            except OSError:
                data = b""
            if not data:
                link.close(sink)
                with self._lock:
                    self._links.discard(link)
                return

    def _send(self, sink, data):
        if not self.crumble:
            sink.sendall(data)
            return
        for at in range(len(data)):
            sink.sendall(data[at:at + 1])

    def open(self):
        """The connections that are, as a set."""
        with self._lock:
            return set(self._links)

    def cut(self, reset=False):
        """Closes every open connection (reset: by RST, without a good-bye); new ones are accepted."""
        for link in filter(self.only, self.open()):
            with self._lock:
                self._links.discard(link)
            link.reset = reset
            for each in link.sockets():
                if reset and each.fileno() >= 0:  # not closed meanwhile
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NOW)
                link.close(each)

    def half_close(self, toward):
        """Tells one side, "client" or "server", that the other one says no more; what it says itself still passes."""
        for link in filter(self.only, self.open()):
            try:
                getattr(link, toward).shutdown(socket.SHUT_WR)
            except (OSError, AttributeError):
                pass  # closed meanwhile, or a silent one

    def heal(self):
        """No fault any more. Connections whose bytes were swallowed are cut: those bytes are gone."""
        was = self.blackhole or self.swallow_answers or self.swallow_questions
        only = self.only
        self._begin_faults()
        if was:
            self.only = only
            self.cut()
            self.only = lambda link: True

    def close(self):
        if self._closed:
            return
        self._closed = True
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept(), which would keep the port
        self._listener.close()
        self._accepting.join(10)
        self.only = lambda link: True
        self.cut()
