"""A run's results as text: the last words on the terminal, and the measured part of docs/performance.md."""
import textwrap

from rig.relay import ROOT

from .report import TABLES, markdown_row

PAGE = ROOT / "docs/performance.md"
BEGIN, END = "<!-- measured -->", "<!-- /measured -->"


def failed(facts):
    return [name for name, figures in facts["steps"].items() if "failed" in figures]


def machine(facts):
    has, runs = facts["machine"], facts["versions"]
    return textwrap.fill(
        f"{has['cores']} cores ({has['processor']}), {has['memory_gib']} GiB, {has['kernel']}, {has['file_system']} (a page reaches the disk in "
        f"{has['sync_us']} us); load {has['load_before']} before it began. "
        + ", ".join(f"{name} {value}" if value != "on" else f"{name}=on" for name, value in runs.items()) + ".", 120)


def verdict(holds):
    return {True: "yes", False: "no", None: "not measured"}[holds]


def summary(facts):
    """For the terminal."""
    judged = facts["targets"]
    lines = ["Targets", *(f"  {text:82} {wanted:>16}  {measured or '':>10}  {verdict(holds)}" for text, wanted, measured, holds in judged
                          if holds is not None)]
    holds = [each[3] for each in judged]
    lines.append(f"\n{holds.count(True)} targets hold, {holds.count(False)} do not, {holds.count(None)} were not measured; "
                 f"{facts['seconds'] // 60} min {facts['seconds'] % 60} s.")
    lines += [f"Failed: {name}" for name in failed(facts)]
    if facts["machine"]["load_before"] > 0.5:
        lines.append("The machine was busy before it began: only the ratios are worth something.")
    return "\n".join(lines)


def measured(facts):
    """For the page."""
    parts = [f"Measured on {facts['begun']} in {facts['seconds'] // 60} minutes.\n\n{machine(facts)}\n", "## Targets\n\n" + targets(facts), "## Figures\n"]
    for case, table in TABLES.items():
        found = [(figures["title"], figures) for name, figures in facts["steps"].items() if name.split(".")[0] == case]
        if found:
            parts.append(table.markdown(found))
    return "\n".join(parts)


def targets(facts):
    rows = [["", "wanted", "measured", ""], ["---", "---:", "---:", "---"]]
    rows += [[text, wanted, found or "", verdict(holds) if holds is not False else "**no**"] for text, wanted, found, holds in facts["targets"]]
    return "".join(markdown_row(cells) + "\n" for cells in rows)


def replaced(page, text):
    """The page with its measured part replaced; what people wrote around it stays."""
    before, rest = page.split(BEGIN + "\n", 1)
    after = rest.split(END + "\n", 1)[1]
    return f"{before}{BEGIN}\n{text}{END}\n{after}"


def write(facts):
    PAGE.write_text(replaced(PAGE.read_text(), measured(facts)))
