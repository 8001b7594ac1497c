"""What a relay does not do to the table while it starts and works."""

from rig.flow import Writer
from rig.wait import wait_until


def test_F011_starting_the_relay_locks_nobody_out(outbox, cluster):
    """Started ten times beside a writer. Somebody's open transaction holds SHARE UPDATE EXCLUSIVE, which every lock above ROW
    EXCLUSIVE would have to wait for."""
    relay = outbox.relay({"poll": "200ms"}, postgres={"lock_timeout": "200ms"})
    holder = outbox.database.connect(autocommit=False)
    holder.cursor().execute("LOCK TABLE event_outbox IN SHARE UPDATE EXCLUSIVE MODE")
    with cluster.configured(log_lock_waits="on", deadlock_timeout="100ms"):  # a line for whoever waits for so long
        begin = cluster.log_size()
        with Writer(outbox, keys=10, rate=500) as writer:
            for _ in range(10):
                relay.start()
                rows = writer.rows
                wait_until(lambda: outbox.states().get("SENT", 0) >= rows, 20, outbox.states)
                assert relay.stop() == 0
            rows = writer.stop()
        log = cluster.log_since(begin)
    assert "still waiting for" not in log and "lock timeout" not in log
    relay.start()
    outbox.wait_sent(rows)
    holder.rollback()
    holder.close()
