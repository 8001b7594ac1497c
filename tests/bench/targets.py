"""What was promised, and whether it holds in these results."""
import dataclasses
import typing

from .report import figure, places

DEFAULT_DRAINS = ("drain.mark.all-different", "drain.mark.1000", "drain.mark.unordered")
FEW_KEYS = ("drain.mark.10", "drain.mark.1")
DELETES = ("drain.delete.all-different", "drain.delete.1000", "drain.delete.unordered")


@dataclasses.dataclass(frozen=True)
class Target:
    """The worst of the steps' figures must be within the bound: at least, or at most."""
    text: str
    steps: typing.Sequence[str]
    key: str
    at_least: float | None = None
    at_most: float | None = None
    write: typing.Callable = places(2)
    unit: str = ""

    def judge(self, results):
        """(text, wanted, measured, does it hold), texts and a bool; the last two are None when one of the figures is missing."""
        most = self.at_least is None
        bound = self.at_most if most else self.at_least
        wanted = f"{'at most' if most else 'at least'} {bound:g}{self.unit}"
        values = [figure(results.get(name, {}), self.key) for name in self.steps]
        if any(value is None for value in values):
            return self.text, wanted, None, None
        worst = max(values) if most else min(values)
        return self.text, wanted, self.write(worst) + self.unit, worst <= bound if most else worst >= bound


TARGETS = (
    Target("drain, mark: share of the ceiling (1 000 keys, all different, ordering none)", DEFAULT_DRAINS, "ratio", at_least=0.7),
    Target("drain, mark, 10 keys and one key: share of their ceilings", FEW_KEYS, "ratio", at_least=0.6),
    Target("drain, delete: share of its ceiling", DELETES, "ratio", at_least=0.6),
    Target("relay, CPU seconds a million rows when draining", DEFAULT_DRAINS, "cpu", at_most=5),
    Target("PostgreSQL's CPU when draining, to the bare program's", DEFAULT_DRAINS, "postgres_ratio", at_most=1.3),
    Target("relay's CPU at 1 000 rows/s, to the bare program's", ["latency.1000"], "cpu_ratio", at_most=1.5),
    Target("commit to report at 1 000 rows/s, p50, to the bare program's", ["latency.1000"], "p50_ratio", at_most=1.5),
    Target("the same, p99", ["latency.1000"], "p99_ratio", at_most=1.5),
    Target("a single row on an idle relay, commit to report, p50", ["latency.single"], "report.p50", at_most=2, unit=" ms"),
    Target("resident memory, idle", ["footprint.idle"], "rss", at_most=14, write=places(1), unit=" MiB"),
    Target("resident memory, peak", (*DEFAULT_DRAINS, "footprint.draining"), "peak_rss", at_most=32, write=places(1), unit=" MiB"),
    Target("relay's CPU, idle", ["footprint.idle"], "cpu_percent", at_most=0.3, unit=" %"),
    Target("PostgreSQL's CPU, idle", ["footprint.idle"], "postgres_percent", at_most=1, unit=" %"),
    Target("relay's CPU with 50 sources, idle", ["footprint.sources"], "cpu_percent", at_most=1, unit=" %"),
    Target("drain with 10 million settled rows, to the plain table", ["growth.many-settled"], "ratio", at_least=0.95),
    Target("drain beside 100 000 blocked rows, to the plain table", ["growth.blocked"], "ratio", at_least=0.9),
)


def judge(results):
    return [target.judge(results) for target in TARGETS]
