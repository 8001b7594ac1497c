"""`make bench`: BENCH=short takes a fifth of the time; CASES='drain growth.blocked' runs only those, CASES=list says what there is.
`python3 -m bench document FILE` writes docs/performance.md once more from a run's JSON."""
import json
import os
import pathlib
import signal
import sys

from rig import kafka
from rig.relay import ROOT, build

from . import document, machine
from .run import Run, all_steps
from .servers import Servers
from .sizes import SIZES
from .steps import chosen


def measure(sizes, patterns):
    chosen([step.name for step in all_steps(None, sizes)], patterns)  # a mistake is told before anything starts
    kafka.jars()
    print(f"PostgreSQL and Kafka start, with stock settings. This takes {sizes.about}" + (" in all." if patterns else "."), flush=True)
    servers = Servers()
    try:
        about = machine.about(servers)
        print("\n" + document.machine(about), flush=True)
        run = Run(servers, sizes, patterns, about, build() / "bench", sys.stdout)
        run.measure()
    finally:
        servers.remove()
    print("\n" + document.summary(run.facts) + f"\nAll figures: {os.path.relpath(run.file, ROOT)}")
    if run.whole and sizes.name == "full":
        document.write(run.facts)
        print(f"Written for readers: {os.path.relpath(document.PAGE, ROOT)}")
    return 1 if document.failed(run.facts) else 0


def main(arguments):
    # A plain SIGTERM would end Python without ending the servers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
    if arguments[:1] == ["document"]:
        document.write(json.loads(pathlib.Path(arguments[1]).read_text()))
        return 0
    size, patterns = os.environ.get("BENCH") or "full", (os.environ.get("CASES") or "").split()
    if size not in SIZES:
        raise SystemExit(f"BENCH={size}: there are {', '.join(SIZES)}")
    if patterns == ["list"]:
        print("\n".join(f"{step.name:28} {step.title}" for step in all_steps(None, SIZES[size])))
        return 0
    return measure(SIZES[size], patterns)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
