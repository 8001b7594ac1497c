"""What docs/tables.md shows, so that tests run just that."""
import re

from .relay import ROOT

PAGE = (ROOT / "docs/tables.md").read_text()


def block(kind, text, where):
    """The one block of this kind that has the text in it (where: str.startswith, or `in`)."""
    found = [each for each in re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S) if where(each, text)]
    assert len(found) == 1, f"{len(found)} blocks of {kind} with {text}"
    return found[0]


def statement(begin):
    """The statement of the page that begins so, with psycopg2's names for :names."""
    return re.sub(r"(?<!:):(\w+)", r"%(\1)s", block("sql", begin, str.startswith))


def sources(name):
    """The section `sources` with the source of this name."""
    return block("yaml", f"- name: {name}\n", lambda each, text: text in each)
