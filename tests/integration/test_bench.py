"""The benchmark's driver: it runs, and it counts right. What it measures here says nothing."""
import io
import json
import math
import subprocess
import sys

import pytest

from bench import document, measure, report, steps, targets
from bench.drain import in_turns
from bench.run import Run
from bench.servers import Servers
from bench.sizes import SIZES
from rig.relay import Metrics


def test_a_drain_and_its_ceiling(cluster, mock, tmp_path):
    servers, out = Servers(cluster, mock), io.StringIO()
    try:
        run = Run(servers, SIZES["tiny"], ["drain.mark.1000"], {}, tmp_path, out)
        facts = run.measure()
    finally:
        servers.remove()
    figures = json.loads(run.file.read_text())["steps"]["drain.mark.1000"]
    assert facts["steps"] == {"drain.mark.1000": figures} and "failed" not in figures, figures
    rows = SIZES["tiny"].rows
    assert figures["rows"] == figures["ceiling"]["rows"] == rows
    assert figures["ratio"] == pytest.approx(figures["rows_per_second"] / figures["ceiling"]["rows_per_second"])
    assert figures["rows_per_second"] == pytest.approx(rows / figures["seconds"])
    # A claim and a settle at least; and for each row a version by each, of some hundred bytes in all.
    assert 2 <= figures["statements"] * rows < rows
    assert 300 < figures["wal_bytes"] < 5000
    assert 0 <= figures["hot_share"] <= 1 and 0 <= figures["ceiling"]["hot_share"] <= 1
    assert 0 < figures["cpu"] and 0 < figures["postgres_cpu"] and 5 < figures["peak_rss"] < 200
    assert figures["bare_cpu"] == pytest.approx(figures["ceiling"]["cpu"] + figures["library"]["cpu"])
    header, line = out.getvalue().splitlines()[2:4]
    assert len(header) == len(line) and "mark, 1 000 keys" in line and f"{figures['ratio']:.2f}" in line


def test_a_step_that_fails_costs_only_its_own_figures(cluster, mock, tmp_path):
    servers, out = Servers(cluster, mock), io.StringIO()
    try:
        run = Run(servers, SIZES["tiny"], ["footprint.idle", "ceilings.librdkafka"], {}, tmp_path, out)
        broken, works = run.steps[1], run.steps[0]
        assert (works.name, broken.name) == ("ceilings.librdkafka", "footprint.idle")
        run.steps = [steps.Step(broken.name, broken.title, lambda: 1 / 0), works]
        facts = run.measure()
    finally:
        servers.remove()
    assert document.failed(facts) == ["footprint.idle"] and "ZeroDivisionError" in out.getvalue()
    assert facts["steps"]["ceilings.librdkafka"]["rows"] == SIZES["tiny"].rows


# ---- measuring

PAGE = """\
t_bucket{source="a",le="0.001"} 0
t_bucket{source="a",le="0.002"} 80
t_bucket{source="a",le="0.004"} 99
t_bucket{source="a",le="+Inf"} 100
t_bucket{source="b",le="0.001"} 7
t_bucket{source="b",le="+Inf"} 7
"""


def test_quantiles_are_interpolated_inside_a_bucket():
    found = measure.Histogram.of(Metrics(PAGE), "t", source="a")
    assert found.count == 100
    assert found.quantile(0.4) == pytest.approx(0.0015)
    assert found.quantile(0.8) == pytest.approx(0.002)
    assert found.quantile(0.895) == pytest.approx(0.003)
    assert found.quantile(1) == 0.004  # beyond the last bound nothing is known
    assert measure.Histogram.of(Metrics(PAGE), "t").quantile(7 / 107) == pytest.approx(0.001)
    assert measure.Histogram.of(Metrics(PAGE), "t", source="c").quantile(0.5) is None


def test_a_difference_of_histograms_is_what_came_between():
    before = measure.Histogram({0.001: 10, 0.002: 10, math.inf: 10})
    after = measure.Histogram({0.001: 10, 0.002: 14, math.inf: 14})
    assert (after - before).count == 4
    assert (after - before).quantile(0.5) == pytest.approx(0.0015)


BURN = "import time\nwhile time.process_time() < 0.3: pass\n"


def test_processor_time_counts_children_that_have_ended():
    parent = f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {BURN!r}])\nprint(flush=True)\ntime.sleep(60)\n"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        found = measure.children(process.pid), measure.cpu_seconds(process.pid), measure.tree_cpu_seconds(process.pid)
        process.kill()
    assert found[0] == [] and found[1] < 0.3 <= found[2]


def test_runs_take_turns_and_the_fastest_counts():
    order, rates = [], iter([1.0, 10.0, 3.0, 20.0, 2.0, 15.0])

    def run(name):
        order.append(name)
        return {"rows_per_second": next(rates), "name": name}

    best = in_turns(3, one=lambda: run("one"), other=lambda: run("other"))
    assert order == ["one", "other"] * 3
    assert best["one"] == {"rows_per_second": 3.0, "name": "one", "all_rates": [1, 3, 2]}
    assert best["other"]["rows_per_second"] == 20.0


# ---- choosing

NAMES = ["drain.mark.1", "drain.mark.10", "drain.delete.1", "growth.blocked"]


@pytest.mark.parametrize("patterns, wanted", [
    ([], NAMES), (["drain"], NAMES[:3]), (["drain.mark.1"], ["drain.mark.1"]), (["growth", "drain.mark"], ["drain.mark.1", "drain.mark.10", "growth.blocked"]),
    (["*.1"], ["drain.mark.1", "drain.delete.1"]),
])
def test_steps_are_chosen_by_name(patterns, wanted):
    assert steps.chosen(NAMES, patterns) == wanted


def test_a_pattern_without_a_match_is_a_mistake():
    with pytest.raises(SystemExit, match="'drian'.*\n  drain.mark.1\n"):
        steps.chosen(NAMES, ["drain", "drian"])


# ---- telling

TABLE = report.Table("Title", "About it.", (report.Column("rows/s", "rate", report.number, 9), report.Column("a long heading", "sub.share", report.places(1, 100))))


def test_a_table_on_the_terminal_is_aligned():
    line = TABLE.name("one") + TABLE.cells({"rate": 1234567.8, "sub": {"share": 0.5}})
    assert TABLE.header().split() == ["rows/s", "a", "long", "heading"]
    assert line.split() == ["one", "1", "234", "568", "50.0"]
    assert len(line) == len(TABLE.header()) == len(TABLE.name("two") + TABLE.cells({"rate": None}))
    assert line.index("50.0") + 4 == TABLE.header().index("heading") + 7


def test_a_table_in_markdown():
    assert TABLE.markdown([("one", {"rate": 1, "sub": {"share": 0.123}}), ("two", {"rate": 2}), ("three", {"failed": "Traceback"})]) == (
        "### Title\n\nAbout it.\n\n|  | rows/s | a long heading |\n| --- | ---: | ---: |\n"
        "| one | 1 | 12.3 |\n| two | 2 |  |\n| three | failed |  |\n")


def test_a_target_is_judged_by_the_worst_figure():
    most = targets.Target("t", ["a", "b"], "x", at_most=2, unit=" ms")
    least = targets.Target("t", ["a", "b"], "x", at_least=2)
    results = {"a": {"x": 1}, "b": {"x": 2.5}}
    assert most.judge(results) == ("t", "at most 2 ms", "2.50 ms", False)
    assert least.judge(results) == ("t", "at least 2", "1.00", False)
    assert most.judge({"a": {"x": 2}, "b": {"x": 0}})[3] and least.judge({"a": {"x": 2}, "b": {"x": 3}})[3]
    assert most.judge({"a": {"x": 1}, "b": {"failed": "..."}}) == ("t", "at most 2 ms", None, None)


def test_every_target_names_steps_that_there_are():
    from bench.run import all_steps
    names = {step.name for step in all_steps(None, SIZES["full"])}
    assert {name for target in targets.TARGETS for name in target.steps} <= names
    assert len(names) == len(all_steps(None, SIZES["full"]))
    assert {name.split(".")[0] for name in names} == set(report.TABLES)


FACTS = {
    "begun": "2026-01-02", "seconds": 90, "whole": True,
    "machine": {"cores": 2, "processor": "P", "memory_gib": 4.0, "kernel": "Linux 6", "file_system": "ext4", "sync_us": 500, "load_before": 0.1},
    "versions": {"outboxd": "1", "fsync": "on"},
    "steps": {"drain.mark.1": {"title": "mark, one key", "rows_per_second": 12345, "ratio": 0.5}},
    "targets": [["fast", "at least 2", "1.00", False], ["small", "at most 2", "1.00", True], ["calm", "at most 1", None, None]],
}


def test_the_page_keeps_what_people_wrote_around_the_figures():
    page = f"# Head\n\n{document.BEGIN}\nold\n{document.END}\n\n## Tried and dropped\n\nBy hand.\n"
    once = document.replaced(page, document.measured(FACTS))
    assert once.startswith("# Head\n\n") and once.endswith("\n\n## Tried and dropped\n\nBy hand.\n") and "old" not in once
    assert "| mark, one key | 12 345 |" in once and "| fast | at least 2 | 1.00 | **no** |" in once and "| calm | at most 1 |  | not measured |" in once
    assert document.replaced(once, document.measured(FACTS)) == once
    assert document.BEGIN + "\n" in document.PAGE.read_text() and document.END + "\n" in document.PAGE.read_text()


def test_the_last_words():
    text = document.summary(FACTS)
    assert "1 targets hold, 1 do not, 1 were not measured; 1 min 30 s." in text and "busy" not in text
    busy = {**FACTS, "machine": {**FACTS["machine"], "load_before": 3.0}}
    assert "busy" in document.summary(busy)
