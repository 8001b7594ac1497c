#!/usr/bin/python3
"""Proves that the unit tests of src/core can fail: changes one operator, number, condition or statement of it at a time, and
sees that some test notices.

usage: tests/unit/mutants.py [N [SEED]]     N mutants (200; 0: all of them), drawn by SEED (1)
What no unit test notices stands in EXPLAINED with the reason why, or is a failure. `make mutants-core` runs it.
"""
import concurrent.futures
import os
import pathlib
import random
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ["MUTANT_BUILD"])
CORE = ROOT / "src/core"

# The tests of a file that is not named like its test.
SQL = ["sql", "sqlclaim", "sqlcount", "sqlfacts", "sqlfit", "sqlgrants", "sqladopt", "sqlschema", "sqlsettle", "sqltext"]
TESTS = {"headers": ["route"], "route": ["route", "cloudevents", "tracecontext", "letter"], "checktable": ["check", "checktable"],
         "sqlcheck": ["checktable"], "checkkafka": ["check"], "fingerprint": ["check"], **dict.fromkeys(SQL, ["sql", "sqlfit", "sqltexts"])}

SWAPS = [(r" < ", " <= "), (r" <= ", " < "), (r" > ", " >= "), (r" >= ", " > "), (r" == ", " != "), (r" != ", " == "),
         (r" && ", " || "), (r" \|\| ", " && "), (r" \+ ", " - "), (r" - ", " + "), (r" \* (?=[\w(])", " / "), (r" / ", " * "),
         (r" & ", " | "), (r" \| ", " & "), (r"\btrue\b", "false"), (r"\bfalse\b", "true"), (r"(?<=[\s(])!(?=\w)", ""),
         (r"\+\+", "--"), (r"--", "++"), (r"(?<=[\s(,\[=])0(?=[\s;,)\]])", "1"), (r"(?<=[\s(,\[=])1(?=[\s;,)\]])", "2"),
         (r"\bif \((.*)\)$", r"if (!(\1))"), (r"\breturn (?!true|false|NULL|0;)(\w+);", r"return (\1) + 1;")]
STATEMENT = re.compile(r"^\t+(?!return|break|continue|goto|case|default|else|if|for|while|do|switch|static|const|struct|enum|size_t|"
                       r"u?int\d*_t|bool|char|double|unsigned|int )[\w*(].*;$")

# Nobody notices memory to spare; and what an assertion says is said already.
SPARED = re.compile(r"mem_new\(|mem_resize\(|\bchar \w+\[|assert\(|sizeof\(")

# (file, the line, what stands there instead): why no unit test can notice.
EXPLAINED = {
    ("settle.c", "for (param = 0; param < SQL_PARAMS; param++)", "for (param = 1; param < SQL_PARAMS; param++)"):
        "the first parameter is no array",
    ("settle.c", "if (used + (len > 0 ? len : 1) > limit)", "if (used + (len > 1 ? len : 1) > limit)"): "the same for a length of 1",
    ("settle.c", "len = len > 0 ? len : 1;", "len = len > 1 ? len : 1;"): "the same for a length of 1",
    ("sqlfit.c", "*flags |= is_integer(fitting->columns[COLUMN_TIMESTAMP]) ? SQLTEXT_MILLIS : 0;",
     "*flags |= is_integer(fitting->columns[COLUMN_TIMESTAMP]) ? SQLTEXT_MILLIS : 1;"): "bit 0 is the id's, which is always there",
    ("sqlfit.c", "*flags |= facts == NULL || !fitting->columns[COLUMN_AVAILABLE_AT]->not_null ? SQLTEXT_NULLABLE : 0;",
     "*flags |= facts == NULL || !fitting->columns[COLUMN_AVAILABLE_AT]->not_null ? SQLTEXT_NULLABLE : 1;"):
        "bit 0 is the id's, which is always there",
    ("sqlfacts.c", ".tells_compression = is_true(cell(result, 0, TELLS_COMPRESSION)),",
     ".tells_compression = is_true(cell(result, 1, TELLS_COMPRESSION)),"): "every row tells it",
    ("sqlgrants.c", "if (update.len > 0)", "if (update.len > 1)"): "no list of columns is one byte",
    **{("sqlclaim.c", "{0, 0, NULL},", mutant): "the text that is not there ends the list"
       for mutant in ("{0, 1, NULL},", "{1, 0, NULL},")},
    ("sql.c", "dialect.has |= kind == SQL_CLAIM_FAR ? SQLTEXT_FAR : 0;", "dialect.has |= kind == SQL_CLAIM_FAR ? SQLTEXT_FAR : 1;"):
        "bit 0 is the id's, which is always there",
    ("sqlfacts.c", ".name = copy(arena, cell(result, 0, NAME)),", ".name = copy(arena, cell(result, 1, NAME)),"):
        "every row names the table",
    **{(file, "for (i = 0; i < SQLSCHEMA_COLUMNS; i++) {", "for (i = 1; i < SQLSCHEMA_COLUMNS; i++) {"): "the first is not written by the relay"
       for file in ("sqlschema.c", "sqladopt.c")},
    ("headers.c", "need = need > TEXT_KEPT_BYTES ? need : TEXT_KEPT_BYTES;", ";"): "how often memory is taken, not what stands in it",
    ("headers.c", "need = need > TEXT_KEPT_BYTES ? need : TEXT_KEPT_BYTES;", "need = need >= TEXT_KEPT_BYTES ? need : TEXT_KEPT_BYTES;"):
        "equal numbers",
    ("sqlfit.c", "*flags |= facts != NULL && facts->tells_compression ? SQLTEXT_COMPRESSION : 0;",
     "*flags |= facts != NULL && facts->tells_compression ? SQLTEXT_COMPRESSION : 1;"): "bit 0 is the id's, which is always there",
    ("sqlfit.c", "for (i = 0; i < template.n_pieces; i++) {", "for (i = 0; i <= template.n_pieces; i++) {"):
        "one too far in an arena's memory, where no column stands",
    ("sqltext.c", "for (param = 0; param < SQL_PARAMS; param++) {", "for (param = 0; param <= SQL_PARAMS; param++) {"):
        "every name is found before",
    ("sqltext.c", "undefined(name);", ";"): "no text has a name that is not defined",
    ("breaker.c", "if (breaker->state != BREAKER_OPEN || now_us >= breaker->until_us)",
     "if (breaker->state != BREAKER_OPEN || now_us > breaker->until_us)"): "0 either way",
    ("order.c", "order = a.len < b.len ? -1 : 1;", "order = a.len < b.len ? -1 : 2;"): "only the sign counts",
    ("order.c", "return number.len > 0 && number.bytes[0] == '-';", "return number.len >= 0 && number.bytes[0] == '-';"):
        "no number is empty",
    ("headers.c", "if (cursor->at < cursor->end)", "if (cursor->at <= cursor->end)"): "jansson has found the string complete",
    ("order.c", "return negative(a) ? -1 : 1;", "return negative(a) ? -1 : 2;"): "only the sign counts",
    ("sched.c", "return a < b ? a : b;", "return a <= b ? a : b;"): "equal numbers",
    ("sched.c", "return a > b ? a : b;", "return a >= b ? a : b;"): "equal numbers",
    ("backoff.c", "if (delay < 0)", "if (delay <= 0)"): "0 either way",
    ("route.c", "if (value.len > 0)", "if (value.len >= 0)"): "nothing is copied either way",
    ("headers.c", "if (*cursor->at == '\\\\' && cursor->end - cursor->at > 1)",
     "if (*cursor->at == '\\\\' && cursor->end - cursor->at > 2)"): "jansson has found the string complete",
    ("metrics.c", "else if (labels[0] != '\\0')", "else if (labels[1] != '\\0')"): "no label is a single byte",
}


def code_lines(text):
    """(number, line) of what is code and nothing else: no comment, no text, no preprocessor, no declaration at file level."""
    comment = False
    for number, line in enumerate(text.split("\n")):
        begins, ends = "/*" in line, "*/" in line
        if not comment and not begins and line.startswith("\t") and '"' not in line and not SPARED.search(line):
            yield number, line
        comment = (comment or begins) and not ends


def mutants_of(file):
    """(file, line number, line, line instead) of every mutant."""
    for number, line in code_lines(file.read_text()):
        for pattern, instead in SWAPS:
            for found in re.finditer(pattern, line):
                yield file, number, line, line[:found.start()] + found.expand(instead) + line[found.end():]
        if STATEMENT.match(line):
            yield file, number, line, re.sub(r"\S.*", ";", line)


def chosen(n, seed):
    every = [mutant for file in sorted(CORE.glob("*.c")) for mutant in mutants_of(file)]
    return every if n == 0 else random.Random(seed).sample(every, min(n, len(every)))


def run(command, **options):
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options).returncode


def notices(program):
    try:
        return run([program], timeout=20, env=os.environ | {"CK_FORK": "no"}) != 0
    except subprocess.TimeoutExpired:
        return True


def judge(number, mutant):
    """killed, alive, or none: it does not compile, or compiles to the same."""
    file, line_number, _, instead = mutant
    folder = BUILD / "mutants-core" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    lines = file.read_text().split("\n")
    lines[line_number] = instead
    changed, changed_object = folder / file.name, folder / "changed.o"
    changed.write_text("\n".join(lines))
    compiler = [word for word in shlex.split(os.environ["MUTANT_COMPILE"]) if not word.startswith(("-M", "-W"))]
    if run([*compiler, "-O1", "-g0", "-w", "-c", "-o", changed_object, changed]) != 0:
        return "none"
    sound = str(file.relative_to(ROOT).with_suffix(".o"))
    objects = [changed_object if word.endswith(sound) else word for word in os.environ["MUTANT_OBJECTS"].split()]
    for test in TESTS.get(file.stem, [file.stem]):
        program = folder / test
        if run([*shlex.split(os.environ["MUTANT_LINK"]), "-o", program, BUILD / f"tests/unit/test_{test}.o", BUILD / "tests/unit/main.o",
                *objects, *shlex.split(os.environ["MUTANT_LIBS"])]) != 0:
            raise SystemExit(f"{file.name}: test_{test} does not link")
        killed = notices(program)
        program.unlink()
        if killed:
            return "killed"
    return "alive"


def main(n=200, seed=1):
    mutants = chosen(int(n), int(seed))
    counts = {"killed": 0, "explained": 0, "alive": 0, "none": 0}
    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("MUTANT_JOBS", os.cpu_count() or 1))) as pool:
        for mutant, verdict in zip(mutants, pool.map(judge, range(len(mutants)), mutants)):
            file, number, line, instead = mutant
            if verdict == "alive" and (file.name, line.strip(), instead.strip()) in EXPLAINED:
                verdict = "explained"
            counts[verdict] += 1
            if verdict == "alive":
                print(f"NOT OK: {file.name}:{number + 1}: nobody notices\n  - {line.strip()}\n  + {instead.strip()}", flush=True)
    print(f"mutants-core: {counts['killed']} killed, {counts['explained']} explained, {counts['none']} do not compile, "
          f"drawn by seed {seed}")
    print(f"mutants-core: {counts['killed'] + counts['explained']} passed, {counts['alive']} failed")
    return 1 if counts["alive"] or not counts["killed"] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
