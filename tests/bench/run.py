"""One run: what is measured, shown as it comes, and kept after each step."""
import json
import time
import traceback

from . import cases, growth, latency, targets
from .report import TABLES
from .steps import chosen

CASES = (cases.ceilings, cases.drains, latency.latency, latency.footprint, growth.growth, cases.instances)


def all_steps(servers, sizes):
    return [step for case in CASES for step in case(servers, sizes)]


class Run:
    """about: what is told of machine and versions. The results go into a file in `folder`, and line by line to `out`."""

    def __init__(self, servers, sizes, patterns, about, folder, out):
        every = all_steps(servers, sizes)
        wanted = chosen([step.name for step in every], patterns)
        self.steps = [step for step in every if step.name in wanted]
        self.whole = len(self.steps) == len(every)
        self.file = folder / f"{sizes.name}{'' if self.whole else '-part'}.json"
        self._servers, self._sizes, self._out, self._begin = servers, sizes, out, time.monotonic()
        self.facts = {**about, "sizes": vars(sizes), "whole": self.whole, "steps": {}}

    def measure(self):
        # A JVM compiles what it runs often, and the first to be measured would pay for it.
        cases.produce(self._servers, self._sizes)
        case = None
        for step in self.steps:
            if step.case != case:
                case = step.case
                self._say(f"\n{TABLES[case].title}\n{TABLES[case].header()}\n")
            self._measure_one(step, TABLES[case])
            self._save()
        return self.facts

    def _measure_one(self, step, table):
        """A step that fails must not cost the figures of the others."""
        self._say(table.name(step.title))
        begin = time.monotonic()
        try:
            figures = step.run()
            self._say(table.cells(figures) + "\n")
        except Exception as error:
            figures = {"failed": traceback.format_exc()}
            self._say(f"  failed: {type(error).__name__}: {str(error).split(chr(10))[0]}\n")
            self._servers.stop_relays()
        self.facts["steps"][step.name] = {"title": step.title, "took": round(time.monotonic() - begin), **figures}

    def _say(self, text):
        self._out.write(text)
        self._out.flush()

    def _save(self):
        self.facts["seconds"] = round(time.monotonic() - self._begin)
        self.facts["targets"] = targets.judge(self.facts["steps"])
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.write_text(json.dumps(self.facts, indent=1) + "\n")
