"""Behind a real PgBouncer in transaction mode: nothing of a request may outlive its transaction."""
import psycopg2
import pytest

from rig import postgres
from rig.process import Folder, Process, free_port, port_answers
from rig.wait import wait_until

CONFIG = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 4
ignore_startup_parameters = extra_float_digits
"""


@pytest.fixture
def pooler(cluster):
    """The port of a PgBouncer in front of the cluster."""
    user = postgres.server_user()  # it refuses to run as root
    folder, port = Folder("pgbouncer", user), free_port()
    (folder / "ini").write_text(CONFIG.format(server=cluster.port, port=port))
    process = Process(["/usr/sbin/pgbouncer", folder / "ini"], folder / "log", user=user)
    try:
        wait_until(lambda: port_answers(port), 10, process.log)
        yield port
    finally:
        process.kill()
        folder.remove()


def test_F059_behind_a_transaction_pooler(mock_outbox, pooler):
    rows, database = 2000, mock_outbox.database
    mock_outbox.relay(name="direct")  # makes the table: a script is no transaction
    relay = mock_outbox.relay({"poll": "200ms"}, postgres={"dsn": database.dsn(port=pooler)})
    mock_outbox.fill(rows, 100)
    relay.start()
    wait_until(lambda: mock_outbox.states() == {"SENT": rows}, 30, mock_outbox.states)
    relay.wait_event("notify_unavailable", 20)
    # The pooler's sessions, as the next client gets them.
    connection = psycopg2.connect(database.dsn(port=pooler))
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*), current_setting('enable_sort'), current_setting('statement_timeout'),"
                       " current_setting('plan_cache_mode') FROM pg_prepared_statements")
        assert cursor.fetchone() == (0, "on", "0", "auto")
    connection.close()
    assert relay.stop() == 0
