"""Fixtures for tests/integration and tests/e2e: one PostgreSQL and one Kafka for all, a fresh database and topic for each test."""
import pathlib
import re
import signal
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from rig import kafka, mockbroker, outbox as outboxes, pooler as poolers, postgres, relay as relays  # noqa: E402

DEFAULT_LIMIT = 120
SANITIZERS = re.compile(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|: runtime error: ")


def pytest_configure(config):
    # A plain SIGTERM would end Python without any clean-up.
    signal.signal(signal.SIGTERM, lambda number, frame: (_ for _ in ()).throw(KeyboardInterrupt))


def pytest_collection_modifyitems(items):
    """Groups, each of which one worker runs from its first test to its last, begin first."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    mark = item.get_closest_marker("limit")
    seconds = mark.args[0] if mark else DEFAULT_LIMIT

    def too_long(number, frame):
        raise AssertionError(f"the test took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.when == "call":
        item.failed = report.failed


def pytest_terminal_summary(terminalreporter, config):
    """The line that tests/run-check adds up."""
    def count(*names):
        return sum(len(terminalreporter.stats.get(name, ())) for name in names)

    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "measured" and report.when == "call":
                terminalreporter.write_line(f"measured: {value}")
    suite = pathlib.Path(config.args[0]).stem if config.args else "tests"
    terminalreporter.write_line(f"{suite}: {count('passed')} passed, {count('failed', 'error')} failed")


@pytest.fixture(scope="session")
def _cluster():
    cluster = postgres.Cluster()
    try:
        yield cluster.start()
    finally:
        cluster.remove()


@pytest.fixture
def cluster(_cluster):
    """The PostgreSQL server. A test may stop or kill it: the next one finds it running."""
    yield _cluster
    if not _cluster.alive():
        _cluster.start()


@pytest.fixture
def database(cluster):
    """An empty database."""
    database = cluster.create_database()
    yield database
    if not cluster.alive():
        cluster.start()
    database.drop()


@pytest.fixture
def pooler(cluster):
    """The port of a PgBouncer in transaction mode in front of the server."""
    pooler = poolers.Pooler(cluster)
    yield pooler.port
    pooler.remove()


@pytest.fixture(scope="session")
def _broker():
    broker = kafka.Kafka()
    try:
        yield broker.start()
    finally:
        broker.remove()


@pytest.fixture
def broker(_broker):
    """The Kafka broker. A test may stop, kill or suspend it: the next one finds it running."""
    yield _broker
    if _broker.alive():
        _broker.resume()
    else:
        _broker.start()


@pytest.fixture
def topic(broker):
    """A new topic with one partition."""
    return broker.create_topic()


@pytest.fixture
def make_relay(request, tmp_path):
    """make_relay(config, name="relay", env=None): a relay, not yet started. Its log is shown when the test fails."""
    made = []

    def make(config, name=None, env=None):
        made.append(relays.Relay(config, tmp_path, name or f"relay{len(made) + 1}", env))
        return made[-1]

    yield make
    for each in made:
        each.remove()
        assert SANITIZERS.search(each.log()) is None, each.log()[-20000:]
        if getattr(request.node, "failed", False):
            print(f"---- log of {each.name}\n" + each.log()[-20000:])


@pytest.fixture
def outbox(database, broker, topic, make_relay):
    """The standard table (made by the first relay's own schema), a topic, and relays for them."""
    return outboxes.Outbox(database, broker, topic, make_relay)


@pytest.fixture
def mock():
    """A mock broker that answers with the errors a test asks for."""
    mock = mockbroker.MockBroker()
    yield mock
    mock.remove()


@pytest.fixture
def mock_outbox(database, mock, make_relay):
    """As outbox, with the mock broker for Kafka."""
    return outboxes.Outbox(database, mock, mock.create_topic(), make_relay)
