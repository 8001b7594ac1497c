"""Tables: the same columns on the terminal, line by line as the figures come, and in docs/performance.md."""
import dataclasses
import typing


# ---- how a figure is written

def number(value):
    """300 000"""
    return f"{value:,.0f}".replace(",", " ")


def places(count, factor=1):
    """A format with so many decimals."""
    return lambda value: f"{value * factor:.{count}f}"


@dataclasses.dataclass(frozen=True)
class Column:
    heading: str
    key: str                             # of the figures; a dot goes into a dict within them
    write: typing.Callable = places(2)
    least: int = 7                       # characters on the terminal

    def cell(self, figures):
        value = figure(figures, self.key)
        return "" if value is None else self.write(value)

    @property
    def width(self):
        return max(self.least, len(self.heading))


def figure(figures, key):
    """None where there is none."""
    for part in key.split("."):
        if not isinstance(figures, dict) or part not in figures:
            return None
        figures = figures[part]
    return figures


@dataclasses.dataclass(frozen=True)
class Table:
    title: str
    about: str
    columns: typing.Sequence[Column]

    NAME_WIDTH = 34

    # ---- on the terminal

    def header(self):
        return " " * self.NAME_WIDTH + "".join(f"  {column.heading:>{column.width}}" for column in self.columns)

    def name(self, title):
        return f"{title:{self.NAME_WIDTH}}"

    def cells(self, figures):
        return "".join(f"  {column.cell(figures):>{column.width}}" for column in self.columns)

    # ---- in Markdown

    def markdown(self, steps):
        """steps: (title, figures) each. A failed one says so in place of its figures."""
        lines = [f"### {self.title}", "", self.about, "", markdown_row(["", *(column.heading for column in self.columns)]),
                 markdown_row(["---", *("---:" for _ in self.columns)])]
        for title, figures in steps:
            cells = ["failed", *[""] * (len(self.columns) - 1)] if "failed" in figures else [column.cell(figures) for column in self.columns]
            lines.append(markdown_row([title, *cells]))
        return "\n".join(lines) + "\n"


def markdown_row(cells):
    return "| " + " | ".join(cells) + " |"


# ---- the tables

RATE = Column("rows/s", "rows_per_second", number, 9)
POSTGRES = Column("PG s/M", "postgres_cpu", places(1))
WAL = Column("WAL B", "wal_bytes", number)
HOT = Column("HOT %", "hot_share", places(0, 100))

TABLES = {
    "ceilings": Table("Ceilings", "The bare programs: what PostgreSQL allows without Kafka and without a relay, and librdkafka without both.",
                      (RATE, Column("own s/M", "cpu"), POSTGRES, WAL, HOT, Column("claim ms", "claim_ms", places(1)))),
    "drain": Table("Drain", "A backlog from the start of the process until the last row is settled, Kafka and the relay on the same cores. "
                   "*ceiling*: the bare program on two connections, in turns with the drain. *bare s/M*: its processor time and that of librdkafka alone.",
                   (RATE, Column("ceiling", "ceiling_rate", number), Column("ratio", "ratio"), Column("first s", "first_seconds"), Column("own s/M", "cpu"),
                    Column("bare s/M", "bare_cpu"), POSTGRES,
                    Column("to bare", "postgres_ratio"), Column("Kafka s/M", "kafka_cpu", places(1)), WAL, HOT,
                    Column("stmts/row", "statements", places(4)), Column("peak MiB", "peak_rss", places(1)))),
    "latency": Table("Latency", "Milliseconds. *report*: from the row's creation to Kafka's report to the relay; *bare*: the same by the bare "
                     "program; *consumer*: from the commit to a consumer. CPU in per cent of a core.",
                     (Column("report p50", "report.p50"), Column("p99", "report.p99"), Column("p99.9", "report.p999"),
                      Column("bare p50", "bare.report.p50"), Column("p99", "bare.report.p99"), Column("p99.9", "bare.report.p999"),
                      Column("consumer p50", "consumer.p50"), Column("p99", "consumer.p99"), Column("p99.9", "consumer.p999"),
                      Column("CPU %", "cpu_percent", places(1)), Column("bare %", "bare.cpu_percent", places(1)),
                      Column("late", "late", number))),
    "footprint": Table("Footprint", "One process with the default settings.",
                       (Column("RSS MiB", "rss", places(1)), Column("peak MiB", "peak_rss", places(1)), Column("CPU %", "cpu_percent"),
                        Column("PG CPU %", "postgres_percent"), Column("threads", "threads", number), Column("files", "files", number),
                        Column("connections", "connections", number))),
    "growth": Table("How cost grows", "A drain of the same backlog with 1 000 keys from a table that has been through more, in turns with one from a "
                    "table that holds nothing else.",
                    (RATE, Column("plain", "plain_rate", number), Column("ratio", "ratio"), Column("claim ms", "claim_ms", places(1)),
                     Column("plain ms", "plain_claim_ms", places(1)), Column("ratio", "claim_ratio"), Column("own s/M", "cpu"), POSTGRES,
                     Column("peak MiB", "peak_rss", places(1)), Column("parked in s", "seconds_to_park", places(1)))),
    "instances": Table("Several instances", "On one table with 1 000 keys, in turns with one instance.",
                       (RATE, Column("one", "one_rate", number), Column("ratio", "ratio"), Column("own s/M", "cpu"), POSTGRES, WAL,
                        Column("stmts/row", "statements", places(4)))),
}
