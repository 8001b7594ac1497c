"""The crash matrix: relays die at every crash point (src/base/crash.h), and others go on where they were. And what
docs/guarantees.md says of it and of other tests."""
import datetime
import os
import random
import re

import pytest

from rig import crash
from rig.crashscenarios import SCENARIOS, World, table
from rig.outbox import Outbox
from rig.relay import ROOT

PAGE = ROOT / "docs/guarantees.md"

# `make crash-matrix` runs all; other runs half of the scenarios by turns of a day.
WHOLE = "CRASH_SEEDS" in os.environ
SEEDS = range(int(os.environ.get("CRASH_SEEDS", "1")))
TODAY = list(SCENARIOS) if WHOLE else list(SCENARIOS)[datetime.date.today().toordinal() % 2::2]


@pytest.fixture
def template(database, broker, make_relay):
    """A database with the table, which each case gets a copy of."""
    Outbox(database, broker, "none", make_relay).relay()
    return database


def deaths(scenario, seed):
    """(point, passage) for each point of the scenario: the first seed dies at the first passage, others at any."""
    dice = random.Random(f"{scenario.name} {seed}")
    return [(point, dice.randint(1, most) if seed else 1) for point, most in scenario.points.items()]


@pytest.mark.limit(180)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TODAY)
def test_F018_a_relay_dies_at_a_crash_point(cluster, request, template, tmp_path, record_property, name, seed):
    scenario = SCENARIOS[name]
    broker = request.getfixturevalue("mock" if scenario.mock else "broker")
    world = World(scenario, deaths(scenario, seed), cluster, broker, template, tmp_path)
    try:
        scenario.act(world)
        world.check_deaths()
        for case in world.cases:
            case.recover()
        for case in world.cases:
            record_property("measured", f"{name}, seed {seed}: {case.check()}")
    finally:
        world.remove()


def test_every_crash_point_has_a_scenario():
    """Once: whoever adds a point says which way leads past it."""
    named = [point for scenario in SCENARIOS.values() for point in scenario.points]
    assert sorted(named) == sorted(crash.points())


def test_the_guarantees_name_tests_and_points_that_there_are():
    page = PAGE.read_text()
    assert table() in page, "`make docs` brings it up to date"
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.*"))
    named = set(re.findall(r"`(test_\w+)`", page))
    assert named and [name for name in named if not re.search(rf"\b(def |START_TEST\(){name}\b", tests)] == []
    ways = set(re.findall(r"scenarios? `(\w+)`(?: and `(\w+)`)?", page))
    assert ways and {name for pair in ways for name in pair if name} <= set(SCENARIOS)
    assert set(re.findall(r"`([A-Z][A-Z_]{4,})`", page)) <= set(crash.points())
