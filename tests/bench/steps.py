"""What a case is made of."""
import dataclasses
import fnmatch
import typing


@dataclasses.dataclass(frozen=True)
class Step:
    """One line of a table. name: CASE.WHAT, by which it is chosen and found again; run() returns its figures."""
    name: str
    title: str
    run: typing.Callable[[], dict]

    @property
    def case(self):
        return self.name.split(".")[0]


def chosen(names, patterns):
    """Those of the steps' names that one of the patterns matches, in their order: a whole name with * and ?, or the beginning
    of one up to a dot. Without patterns: all. A pattern that matches nothing is a mistake."""
    found = {pattern: {name for name in names if fnmatch.fnmatch(name, pattern) or name.startswith(pattern + ".")}
             for pattern in patterns}
    for pattern, matched in found.items():
        if not matched:
            raise SystemExit(f"no step is called {pattern!r}; there are:\n  " + "\n  ".join(names))
    return [name for name in names if not patterns or any(name in matched for matched in found.values())]
