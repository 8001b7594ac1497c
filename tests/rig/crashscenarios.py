"""What happens to relays on their way to a crash point: each scenario leads past many points, and each point has one.

A scenario drives all its cases at once, on one PostgreSQL and one broker; a case is over when its victim has died."""
import collections
import datetime
import signal
import time

from .crash import Case, points
from .outbox import Outbox, merged
from .wait import stays, wait_until

MESSAGE_TIMEOUT = 1  # seconds; the lease is as short as it may be
BASE = {"kafka": {"message_timeout": f"{MESSAGE_TIMEOUT}s"}, "drain_timeout": "1s"}
SOURCE = {"batch": 20, "max_in_flight": 60, "poll": "200ms", "lease": f"{MESSAGE_TIMEOUT + 5}s"}
WIDE = {"max_in_flight_per_key": 1000}
SMALL_REQUESTS = {"properties": {"batch.num.messages": "2"}}
LIMIT = 6000  # bytes, of a record of the poisoned topic
LARGE = "CASE WHEN n IN ({}) THEN jsonb_build_object('n', n, 'text', repeat('x', 8000)) ELSE jsonb_build_object('n', n) END"

Scenario = collections.namedtuple("Scenario", "name act points source topic mock more")
SCENARIOS = {}


def scenario(points, source=None, topic=None, mock=False, **more):
    """points: {name: how often a victim passes it at least}; the passage to die at is drawn from these. source, more: keys
    of the configuration; topic: settings of the topic. mock: on librdkafka's mock brokers, where a real one cannot be made
    to do it."""
    def enter(act):
        SCENARIOS[act.__name__] = Scenario(act.__name__, act, points, {**SOURCE, **(source or {})}, topic or {}, mock,
                                           merged(BASE, more))
        return act
    return enter


class World:
    """The cases of one run, each on a database of its own that is a copy of `template` (a Database with the table)."""

    def __init__(self, scenario, deaths, cluster, broker, template, folder):
        self.cluster, self.broker = cluster, broker
        self.cases = []
        for death in deaths:
            outbox = Outbox(cluster.create_database(template), broker, broker.create_topic(**scenario.topic), None)
            config = outbox.config(scenario.source, **scenario.more)
            self.cases.append(Case(outbox, config, folder, death))

    def living(self):
        return [case for case in self.cases if not case.over()]

    def start(self):
        for case in self.cases:
            case.victim.start(ready=False)

    def fill(self, count, **columns):
        for case in self.cases:
            case.fill(count, **columns)

    def wait(self, condition, what, deadline=40):
        """Until it is true of each case that is not over."""
        def missing():
            return [case.name for case in self.living() if not condition(case)]

        wait_until(lambda: not missing(), deadline, lambda: f"{what}: {missing()}\n"
                   + "\n".join(case.victim.log()[-3000:] for case in self.living() if not condition(case)), every=0.05)

    def wait_passed(self, point, count=1, deadline=40):
        self.wait(lambda case: case.victim.passages[point] >= count, f"{point}, {count} times", deadline)

    def wait_sent(self, count, deadline=40):
        self.wait(lambda case: case.outbox.states().get("SENT", 0) >= count, f"{count} rows sent", deadline)

    def start_flow(self):
        """A producer and sessions that have proved themselves."""
        self.fill(10)
        self.start()
        self.wait_sent(10)

    def check_deaths(self):
        """Everybody has died where it was to die. A point that nothing led to is a fault of its scenario."""
        for case in self.living():
            try:
                wait_until(case.over, 20, f"{case.name} to die", every=0.05)
            except AssertionError:
                pass  # check_death() says more
        for case in self.cases:
            case.check_death()

    def remove(self):
        for case in self.cases:
            for each in [*case.dead, case.victim, case.survivor]:
                each.remove()
            case.outbox.database.drop()


# ---- nothing is wrong until the relay dies

ROWS = 150


@scenario({"TABLE_KNOWN": 1, "SESSION_OPENED": 2, "SESSION_TIDIED": 4, "LISTENER_AT_REST": 1, "PRODUCER_MADE": 1, "KAFKA_CAME": 1,
           "CLAIM_DUE": 5, "CLAIM_SENT": 5, "CLAIM_ANSWERED": 5, "CLAIM_ENTERED": 5})
def claims(world):
    """Start, and claims of a backlog."""
    world.fill(ROWS)
    world.start()


@scenario({"PUBLISH_DUE": ROWS, "MESSAGE_QUEUED": ROWS, "PUBLISHED": ROWS, "REPORT_ARRIVED": ROWS, "REPORT_RECORDED": ROWS,
           "DELIVERED": ROWS, "SETTLE_DUE": 3, "SETTLE_SENT": 3, "SETTLE_ANSWERED": 3, "SENT_WRITTEN": ROWS,
           "SETTLE_FORGOTTEN": 3}, source=WIDE)
def deliveries(world):
    """A backlog is delivered, many rows of a key at once."""
    world.fill(ROWS)
    world.start()


@scenario({"QUEUE_FULL": 3}, source=WIDE,
          kafka={"properties": {"queue.buffering.max.messages": "5", "linger.ms": "50"}})
def narrow(world):
    """The library's queue takes five messages."""
    world.fill(ROWS)
    world.start()


# ---- Kafka refuses

POISON = (40, 41, 77, 140)


@scenario({"REFUSED": 4, "KEY_CONCLUDED": 4, "BATCH_CONDEMNED": 1, "TRIAL_PUBLISHED": 1, "ROW_FAILED": 4, "FAILURE_WRITTEN": 4},
          source={"on_failed": "continue"}, topic={"max_message_bytes": LIMIT}, kafka=SMALL_REQUESTS)
def poison(world):
    """Some records are too large for the topic."""
    world.fill(ROWS, payload=LARGE.format(", ".join(map(str, POISON))))
    for case in world.cases:
        case.failed = {n: "MSG_SIZE_TOO_LARGE" for n in POISON}
    world.start()


@scenario({"ROW_DOOMED": 4, "LETTER_PUBLISHED": 4, "LETTER_SHORTENED": 4, "LETTER_DELIVERED": 4},
          source={"on_failed": "continue"}, topic={"max_message_bytes": LIMIT}, kafka=SMALL_REQUESTS)
def dead_letters(world):
    """Some records are too large for their topic, and for that of dead letters, but for what is left without the value."""
    world.fill(ROWS, payload=LARGE.format(", ".join(map(str, POISON))))
    for case in world.cases:
        case.failed = {n: "MSG_SIZE_TOO_LARGE" for n in POISON}
        case.set_letters(world.broker.create_topic(max_message_bytes=LIMIT))
    world.start()


@scenario({"TOPIC_REFUSED": 1, "TOPIC_DEFERRED": 3, "TOPIC_RECOVERED": 1}, source={"topic": "{event_type}"})
def missing_topic(world):
    """Half of the rows are for a topic that is made only later."""
    for case in world.cases:
        good = case.outbox.topic
        case.topics = {good: good, f"{good}-late": f"{good}-late"}
        case.fill(ROWS, keys=7, event_type=f"CASE WHEN n % 2 = 0 THEN '{good}' ELSE '{good}-late' END",
                  aggregate_id="'k' || n % 2 || '-' || n % 7")
    world.start()
    world.wait_passed("TOPIC_DEFERRED", 3)
    for case in world.cases:
        world.broker.create_topic(f"{case.outbox.topic}-late")


@scenario({"RETRY_DECIDED": 4, "RETRY_WRITTEN": 4}, mock=True,
          source={"retry": {"initial": "300ms", "multiplier": 1, "max_attempts": 1000}},
          kafka={"properties": {"batch.num.messages": "1"}})
def retries(world):
    """Requests are answered with an error that nobody is to blame for."""
    world.start_flow()
    world.broker.fail("Produce", "UNKNOWN", 10 * len(world.cases))
    world.fill(ROWS)


# ---- Kafka is away

def stop_in_flight(world):
    """The broker is stopped with rows in flight, and more come."""
    world.start_flow()
    world.broker.suspend()
    world.fill(30)
    world.wait(lambda case: case.in_flight() > 3, "rows in flight")
    world.fill(30)


@scenario({"KAFKA_WENT": 1, "OUTAGE_NOTICED": 1, "OUTAGE_LASTING": 1, "OUTAGE_OVER": 1, "STAGE_RELEASED": 1})
def outage(world):
    """The broker dies with rows in flight, and comes back after the grace of 5 s."""
    stop_in_flight(world)
    world.broker.kill()
    world.wait_passed("OUTAGE_LASTING")
    world.broker.start()


@scenario({"CLUSTER_REFUSED": 3, "RELEASE_WRITTEN": 3, "RELEASED_BEHIND": 3, "COUNTED_TIMED_OUT": 3, "PRODUCER_PURGED": 1,
           "PRODUCER_ENDED": 1}, source=WIDE)
def stall(world):
    """The broker stands still with rows in flight, for longer than the message time-out: the producer is replaced."""
    stop_in_flight(world)
    world.wait_passed("PRODUCER_ENDED")
    world.broker.resume()


@scenario({"COUNTED_PRODUCER_REPLACED": 1}, source={**WIDE, "lease": "8s"}, topic={"partitions": 16}, mock=True,
          kafka={"message_timeout": "3s"})
def late_answers(world):
    """Answers come after the time-out of one row, when another one of the same producer is not too old."""
    world.start_flow()
    world.broker.slow("Produce", 6000, count=2)
    case, = world.cases
    # Time-outs are counted in whole seconds since the start: the second row belongs to the next one.
    started = datetime.datetime.fromisoformat(case.victim.wait_event("started")["time"]).timestamp()
    wait_until(lambda: 0.5 < (time.time() - started) % 1 < 0.7, 10, "the right moment", every=0.01)
    case.fill(1, aggregate_id="'early'")
    stays(case.victim.alive, 0.7)
    case.fill(1, aggregate_id="'late'")


# ---- the database refuses, or is away

@scenario({"CLAIM_LOST": 1, "SETTLE_LOST": 1, "SESSION_LOST": 2, "LOSS_NOTICED": 1}, source={"max_in_flight": 200},
          postgres={"lock_timeout": "60s", "connections": 3})
def lost_answers(world):
    """The server is restarted at once while a claim and a settle of everybody wait in it."""
    stop_in_flight(world)
    locks = [case.outbox.database.connect(autocommit=False) for case in world.cases]
    for lock in locks:
        lock.cursor().execute("LOCK TABLE event_outbox IN ACCESS EXCLUSIVE MODE")
    world.broker.resume()
    world.wait(lambda case: all(any(part in each for each in at_work(case)) for part in ("scanned", "AS x (")), "a claim and a settle")
    world.cluster.restart("immediate")


def at_work(case):
    """The statements that wait in the server."""
    return [query for _, state, _, query in case.outbox.database.sessions() if state == "active"]


REFUSE = """CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.status <> 'SENDING' AND (NEW.payload ->> 'n')::int = 50 THEN RAISE data_exception; END IF; RETURN NEW; END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON event_outbox FOR EACH ROW EXECUTE FUNCTION refuse()"""


@scenario({"STATEMENT_FAILED": 4, "SETTLE_HALVED": 1, "SETTLE_REFUSED": 2, "SETTLE_GIVEN_UP": 1})
def refused_settles(world):
    """A trigger refuses whatever is written about one row."""
    for case in world.cases:
        case.outbox.database.execute(REFUSE)
    world.fill(ROWS)
    world.start()
    world.wait_passed("SETTLE_GIVEN_UP")
    for case in world.cases:
        case.outbox.database.execute("DROP TRIGGER refuse ON event_outbox")


# ---- leases run out

def leave_rows(world):
    """A relay dies with rows in flight."""
    world.fill(ROWS)
    for case in world.cases:
        case.predecessor("REPORT_RECORDED", 30)
    wait_until(lambda: not any(case.dead[-1].alive() for case in world.cases), 30, "the first to die")
    for case in world.cases:
        case.bury()


@scenario({"TAKEN_OVER": 5, "COUNTED_CRASH_RECOVERED": 5}, source=WIDE)
def second_death(world):
    """Rows that a dead relay has left are taken over."""
    leave_rows(world)
    world.start()


@scenario({"SUSPECT_SENT": 2, "SUSPECT_ENTERED": 2, "ATTEMPTS_EXPIRED": 1}, source={"on_failed": "continue"})
def suspects(world):
    """What a dead relay has left was left before, and one row for the last time."""
    leave_rows(world)
    for case in world.cases:
        last = max(case.to_recover)
        case.expiring, case.failed = {last}, {last: "lease expired"}
        case.outbox.database.execute("UPDATE event_outbox SET attempts = CASE WHEN (payload ->> 'n')::int = %s THEN 10 ELSE 2 END"
                                     " WHERE status = 'SENDING'", (last,))
    world.start()


@scenario({"SETTLE_FENCED": 3, "COUNTED_LEASE_EXPIRED": 3, "LEASE_SHORT": 1})
def suspended(world):
    """A relay is stopped for longer than its lease; another one takes its rows over, and then it goes on."""
    stop_in_flight(world)
    for case in world.living():
        case.victim.suspend()
    world.broker.resume()
    for case in world.cases:
        wait_until(lambda: not at_work(case), 10, lambda: at_work(case))
        case.take_stock()
        case.survivor.start(ready=False)
    world.wait_sent(70)
    for case in world.cases:
        case.victim.resume()


# ---- reload and drain

@scenario({"RELOAD_BEGUN": 1, "RELOAD_READ": 1, "SOURCE_RETIRED": 1, "RELOAD_DONE": 1, "SOURCE_BURIED": 1})
def reload(world):
    """SIGHUP with rows in flight: the source begins anew by other settings, and the old one drains beside it."""
    stop_in_flight(world)
    for case in world.living():
        case.victim.config["sources"][0]["batch"] = 30
        case.victim.write_config()
        case.victim.send(signal.SIGHUP)
    world.wait_passed("RELOAD_DONE")
    world.broker.resume()


@scenario({"DRAIN_BEGUN": 1, "DRAIN_DONE": 1, "LOOP_LEFT": 1})
def drain(world):
    """SIGTERM in full flow."""
    world.fill(ROWS)
    world.start()
    world.wait_sent(5)
    for case in world.living():
        case.victim.send(signal.SIGTERM)


@scenario({"DRAIN_LATE": 1, "ROW_FORGOTTEN": 1}, source={"lease": "15s"}, kafka={"message_timeout": "10s"})
def late_drain(world):
    """SIGTERM while the broker stands still with rows in flight, until the deadline has passed."""
    stop_in_flight(world)
    for case in world.living():
        case.victim.send(signal.SIGTERM)
    world.wait(lambda case: False, "everybody to end")
    world.broker.resume()


# ---- for readers

def table():
    """Every point, its moment, and its scenario; then what the scenarios are."""
    way = {point: each.name for each in SCENARIOS.values() for point in each.points}
    lines = [f"{point:25} {way[point]:16} {moment}" for point, moment in points().items()]
    told = [f"{each.name:16} {' '.join(each.act.__doc__.split())}" for each in SCENARIOS.values()]
    return "\n".join([f"{'POINT':25} {'SCENARIO':16} WHAT HAS JUST HAPPENED", *lines, "", f"{'SCENARIO':16} WHAT HAPPENS IN IT", *told])


if __name__ == "__main__":  # `make docs` writes it into docs/guarantees.md
    print(table())
