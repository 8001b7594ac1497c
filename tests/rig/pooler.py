"""A PgBouncer in transaction mode in front of a cluster, which takes no start-up parameters but its own."""
from . import postgres
from .process import Folder, Process, free_port, port_answers
from .wait import wait_until

CONFIG = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 2
"""


class Pooler:
    def __init__(self, cluster):
        user = postgres.server_user()  # it refuses to run as root
        self.folder, self.port = Folder("pgbouncer", user), free_port()
        (self.folder / "ini").write_text(CONFIG.format(server=cluster.port, port=self.port))
        self.process = Process(["/usr/sbin/pgbouncer", self.folder / "ini"], self.folder / "log", user=user)
        wait_until(lambda: port_answers(self.port), 10, self.process.log)

    def remove(self):
        self.process.kill()
        self.folder.remove()
