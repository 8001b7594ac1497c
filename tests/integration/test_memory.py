"""Memory when all is not well: it is bounded while a broker is away, and flat while messages are refused."""
import pytest

from rig.scale import scaled
from rig.wait import stays, wait_until

MIB = 1 << 20


def resident(relay):
    """Resident bytes of the process."""
    status = open(f"/proc/{relay.pid}/status").read()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


@pytest.mark.unsanitized
@pytest.mark.limit(scaled(120, 1800))
def test_F055_memory_while_the_broker_is_away(mock_outbox, mock):
    """20,000 rows of 10 kB in place of a million; the broker answers nothing for 3 s and is then away for 7 s, in place of
    30 min."""
    database, limit = mock_outbox.database, 1000
    relay = mock_outbox.relay({"batch": 200, "max_in_flight": limit, "poll": "100ms"}, kafka={"message_timeout": "4s"}).start()
    mock_outbox.insert(1, "warm")
    mock_outbox.wait_sent(1)
    mock.ask("rtt", 1, 60_000)
    mock_outbox.fill(scaled(20_000, 1_000_000), keys=20_000, payload="jsonb_build_object('n', n, 'text', repeat('x', 10000))")
    in_flight, memory = [], []

    def look():
        in_flight.append(database.value("SELECT count(*) FROM event_outbox WHERE settled_at IS NULL AND status = 'SENDING'"))
        memory.append(resident(relay))
        return True

    wait_until(lambda: look() and in_flight[-1] == limit, 10, lambda: in_flight)
    stays(look, 3)
    mock.down()
    stays(look, scaled(7, 1800))
    assert max(in_flight) == limit
    # What it held when its memory was first full, and a little for what came and went meanwhile.
    full = memory[in_flight.index(limit)]
    assert max(memory) < full + 4 * MIB, [each // 1024 for each in memory]
    mock.up()
    mock.ask("rtt", 1, 0)
    wait_until(lambda: mock_outbox.states().get("SENT", 0) > limit, 30, mock_outbox.states)


@pytest.mark.limit(scaled(120, 1800))
def test_F046_memory_while_messages_are_refused(mock_outbox):
    """40,000 rows too large for the library, with headers, each refused by the produce call and failed; in place of a
    million (see also test_kafkalimits.c)."""
    rows, database = scaled(40_000, 1_000_000), mock_outbox.database
    relay = mock_outbox.relay({"max_in_flight": 500, "ordering": "none"}, kafka={"properties": {"message.max.bytes": "1000"}}).start()

    def refuse(count):
        failed = relay.metrics().sum("outboxd_failed_total")
        mock_outbox.fill(count, payload="to_jsonb(repeat('x', 2000))", headers="'{\"a\": \"b\", \"c\": null}'")
        wait_until(lambda: relay.metrics().sum("outboxd_failed_total") == failed + count, scaled(60, 900))
        return resident(relay)

    warm = refuse(20_000)
    assert refuse(rows) < warm + 2 * MIB  # a header lost with each row would show
    assert relay.stop() == 0


@pytest.mark.unsanitized
@pytest.mark.parametrize("kind", ["jsonb", "text", "bytea"])
def test_F055_payloads_that_were_small_on_disk(mock_outbox, kind):
    """100 rows of 1 MB that PostgreSQL has compressed to a hundredth: what counts is what they take in memory."""
    relay = mock_outbox.relay({"max_in_flight_bytes": "16MiB"}, kafka={"properties": {"message.max.bytes": "2000000"}})
    using = {"jsonb": "payload", "text": "payload::text", "bytea": "convert_to(payload::text, 'UTF8')"}[kind]
    mock_outbox.database.execute(f"ALTER TABLE event_outbox ALTER payload TYPE {kind} USING {using}")
    value = "jsonb_build_object('n', n, 'text', repeat('x', 1000000))"
    mock_outbox.fill(100, keys=100, payload=using.replace("payload", f"({value})"))
    assert mock_outbox.database.value("SELECT max(pg_column_size(payload)) FROM event_outbox") < 20_000
    relay.start()
    mock_outbox.wait_sent(100, 60)
    status = open(f"/proc/{relay.pid}/status").read()
    assert int(status.partition("VmHWM:")[2].split()[0]) * 1024 < 48 * MIB


def test_a_claim_that_runs_out_of_time_asks_for_less(mock_outbox):
    """Each row takes 10 ms to be claimed, so a whole batch never comes to its end."""
    relay = mock_outbox.relay({"batch": 200}, postgres={"statement_timeout": "500ms"})
    mock_outbox.database.execute("CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS"
                                 " $$ BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END $$")
    mock_outbox.database.execute("CREATE TRIGGER slow BEFORE UPDATE ON event_outbox FOR EACH ROW WHEN (NEW.status = 'SENDING')"
                                 " EXECUTE FUNCTION slow()")
    mock_outbox.fill(200, keys=200)
    relay.start()
    mock_outbox.wait_sent(200, 30)
    assert len(relay.events("statement_failed", error="57014")) >= 1
