#!/usr/bin/python3
"""The house rules that a program can check. usage: lint.py [root]

Prints FILE:LINE: what is wrong, and at last `lint: N passed, N failed`, counted in rules. cppcheck and clang-format run too.
It relies on clang-format's layout (a function's braces stand alone in the first column), which it checks as well.
"""
import collections
import pathlib
import re
import shutil
import subprocess
import sys

# ---- the rules' tables

# A file includes its own layer and those before it.
LAYERS = ["base", "config", "core", "io", "relay", "cli"]

# Libraries that only some may see, also through headers of our own.
LIBRARIES = {
    "libpq-fe.h": ("src/io/", "src/cli/"),
    "librdkafka/": ("src/io/", "src/cli/"),
    "microhttpd.h": ("src/io/", "src/cli/"),
    "ares": ("src/io/", "src/cli/"),
    "ev.h": ("src/io/", "src/relay/relay.c", "src/cli/"),
    "yaml.h": ("src/config/", "src/cli/"),
    "jansson.h": ("src/config/", "src/core/", "src/io/", "src/relay/", "src/cli/"),
}
# What is above a seam, and the simulation's fakes of it, see no library.
SEAMS = ["src/io/db.h", "src/io/kafka.h"]

FILE_LINES, TEST_FILE_LINES, FUNCTION_LINES, NESTING = 500, 800, 70, 3
TABLES = ["src/core/verdict.c", "src/config/keys.c"]  # a row a line: as long as what they list

EVERYWHERE, NOWHERE = ("src/", "tests/"), ()
# Calls, and where they are allowed all the same.
BANNED = {
    r"v?sprintf|strcpy|strcat|strtok|atoi|atol|atof|localtime|gmtime|ctime|asctime|gets": NOWHERE,
    r"sleep|usleep|nanosleep": ("tests/",),
    r"PQexec\w*": ("src/cli/", "tests/"),
    r"rd_kafka_flush": ("tests/",),
    r"time|gettimeofday": ("src/relay/relay.c", "src/cli/", "tests/"),
}
GLOBALS = ("src/base/log.c", "src/relay/relay.c", "tests/")  # may have variables at file scope

# A public name begins with its file's stem; these files have one more noun each.
NOUNS = {"buf": ["slice"], "mem": ["arena"], "verdict": ["fault"], "rowstate": ["row"], "pgarray": ["pg"]}

UTHASH = "/usr/include/uthash.h"  # the one library whose macros cppcheck has to know


# ---- a C file, taken apart

class Source:
    def __init__(self, root, path):
        self.path = path
        self.name = str(path.relative_to(root))
        self.raw = path.read_text()
        self.lines = without_comments(self.raw).split("\n")

    def includes(self):
        """(line, name, system) of each #include."""
        for number, line in enumerate(self.raw.split("\n"), 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if found:
                yield number, found[2], found[1] == "<"

    def functions(self):
        """(first line, last line, name, signature) of each definition."""
        start = None
        for number, line in enumerate(self.lines, 1):
            if line == "{":
                start = number
            elif line == "}" and start:
                signature, first = self.signature(start)
                found = re.search(r"(\w+)\s*\(", signature)
                if found:
                    yield first, number, found[1], signature
                start = None

    def signature(self, brace):
        """The lines before a function's opening brace that belong to it, and the number of the first."""
        first = brace - 1
        while first > 1 and self.lines[first - 2].strip() and self.lines[first - 2][-1] not in ";}{#":
            if self.lines[first - 2].startswith("#"):
                break
            first -= 1
        return " ".join(self.lines[first - 1:brace - 1]), first

    def top_level(self):
        """(line, text) of each declaration outside functions, with what stands in braces cut out."""
        depth, text, first = 0, "", None
        for number, line in enumerate(self.lines, 1):
            if line.startswith("#") or (number > 1 and self.lines[number - 2].endswith("\\")):
                continue
            for char in line + "\n":
                if char == "{":
                    depth += 1
                    if depth == 1:
                        text += "{"
                elif char == "}":
                    depth -= 1
                    if depth == 0:
                        text += "}"
                        if re.search(r"\)\s*\{\}$", text):  # a function's body
                            text, first = "", None
                elif depth == 0 and char == ";":
                    yield first, " ".join(text.split())
                    text, first = "", None
                elif depth == 0:
                    if not char.isspace() and first is None:
                        first = number
                    text += char


def without_comments(text):
    """Comments and the insides of strings as blanks, so that line numbers and columns stay."""
    def blank(found):
        piece = found[0]
        if piece[0] in "\"'":
            return piece[0] + " " * (len(piece) - 2) + piece[0]
        return re.sub(r"[^\n]", " ", piece)

    text = re.sub(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", blank, text, flags=re.S)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def allowed(name, places):
    return any(name.startswith(place) for place in places)


# ---- the rules: each yields (file, line, message)

def rule_layers(tree):
    """includes point downwards, and name the layer"""
    for source in tree.under("src/"):
        layer = source.name.split("/")[1]
        for number, name, system in source.includes():
            if system:
                continue
            target = name.split("/")[0]
            if target not in LAYERS:
                yield source.name, number, f'"{name}": write it as "layer/file.h"'
            elif LAYERS.index(target) > LAYERS.index(layer):
                yield source.name, number, f'{layer} must not include "{name}": {target} is above it'


def rule_libraries(tree):
    """a library is seen only where it belongs, also through our own headers"""
    for source in tree.under("src/"):
        for number, name, way in tree.reached(source):
            for library, places in LIBRARIES.items():
                if name.startswith(library) and not allowed(source.name, places) and source.name not in SEAMS:
                    yield source.name, number, f"<{name}> must not be seen here" + (f" (through {way})" if way else "")
        if source.name in SEAMS:
            for number, name, system in source.includes():
                if system and any(name.startswith(library) for library in LIBRARIES):
                    yield source.name, number, f"<{name}>: this header is a seam and names no library"


def rule_file_length(tree):
    """a file has at most 500 lines, a file of tests 800"""
    for source in tree.sources:
        count = source.raw.count("\n")
        most = TEST_FILE_LINES if source.name.startswith("tests/") else FILE_LINES
        if count > most and source.name not in TABLES:
            yield source.name, count, f"{count} lines, {most} at most"


def rule_function_length(tree):
    """a function has at most 70 lines"""
    for source in tree.sources:
        for first, last, name, _ in source.functions():
            if last - first + 1 > FUNCTION_LINES:
                yield source.name, first, f"{name} has {last - first + 1} lines, {FUNCTION_LINES} at most"


def rule_nesting(tree):
    """a function nests at most three levels deep"""
    for source in tree.sources:
        for first, last, name, _ in source.functions():
            ended, initialiser = "{", False
            for number in range(first, last + 1):
                line = source.lines[number - 1]
                if not line.strip():
                    continue
                depth = len(line) - len(line.lstrip("\t")) - 1
                begins = ended in "{};:)" and line.lstrip()[0] not in "?:"  # a statement, not a line that goes on
                if begins and depth > NESTING and not initialiser:
                    yield source.name, number, f"{name} is nested {depth} levels deep here, {NESTING} at most"
                    break
                ended = line[-1] if not line.endswith("else") else ")"
                if re.search(r"(=|\]|\)|return)\s*\{$", line) and not re.search(r"\b(if|for|while|switch)\b", line):
                    initialiser = True
                elif line.strip().startswith("}"):
                    initialiser = False


def rule_banned_calls(tree):
    """no banned calls"""
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            for calls, places in BANNED.items():
                found = re.search(rf"(?<![\w.>])({calls})\s*\(", line)
                if found and not allowed(source.name, places):
                    yield source.name, number, f"{found[1]}() is banned here"


def rule_globals(tree):
    """no variable that can change outlives a call, but in log.c and relay.c"""
    for source in tree.sources:
        if allowed(source.name, GLOBALS):
            continue
        for number, text in source.top_level():
            declared = text.split("=")[0]
            if re.match(r"(typedef|extern|_Static_assert)\b", declared) or "(" in declared:
                continue
            if source.path.suffix == ".h" and not re.search(r"^static\b|=", text):
                continue  # functions, declared by their type's name
            if re.match(r"(static\s+)?(const\s+)?(struct|enum|union)\s+\w*\s*(\{\})?$", declared):
                continue
            if not constant(declared):
                yield source.name, number, f"a variable at file scope that is not const: {declared.strip()}"
        for first, last, name, _ in source.functions():
            for number in range(first + 1, last + 1):
                found = re.match(r"\s+static\s+([^=;]*)", source.lines[number - 1])
                if found and not constant(found[1]):
                    yield source.name, number, f"a static variable in {name} that is not const"


def constant(declaration):
    """Is the variable itself const, not only what it points to?"""
    return "const" in (declaration.rsplit("*", 1)[1] if "*" in declaration else declaration)


def rule_names(tree):
    """a public function's name begins with the stem of the file that defines or the header that declares it"""
    stems = collections.defaultdict(set)
    places = {}
    for source in tree.under("src/"):
        for number, name in public_functions(source):
            stem = source.path.stem
            stems[name] |= {stem, *NOUNS.get(stem, [])}
            places.setdefault(name, (source.name, number))
    for name, (where, number) in places.items():
        if name != "main" and not any(name.startswith(stem.split("_")[0]) for stem in stems[name]):
            yield where, number, f"{name} is public: its name should begin with {' or '.join(sorted(stems[name]))} (or it be static)"


def public_functions(source):
    for first, _, name, signature in source.functions():
        if not signature.lstrip().startswith("static"):
            yield first, name
    if source.path.suffix == ".h":
        for number, text in source.top_level():
            found = re.match(r"(?!typedef|static|struct \w+ \{|enum)[\w\s*]*?(\w+)\s*\(", text)
            by_type = re.match(r"(?!typedef|static|struct|enum|extern)\w+ (\w+(?:, \w+)*)$", text)
            for name in [found[1]] if found else by_type[1].split(", ") if by_type else []:
                yield number, name


def rule_typedefs(tree):
    """structs, unions and enums are called by their names"""
    for source in tree.sources:
        for number, line in enumerate(source.lines, 1):
            if re.search(r"\btypedef\s+(struct|enum|union)\b(?![^;(]*\()", line):
                yield source.name, number, "typedef of a struct, union or enum"


def rule_unfinished(tree):
    """nothing is left for later"""
    for source in tree.sources:
        for number, line in enumerate(source.raw.split("\n"), 1):
            if re.search(r"\b(TODO|FIXME|XXX)\b", line):
                yield source.name, number, "unfinished"


def rule_format(tree):
    """clang-format agrees"""
    if not tree.sources:
        return
    done = subprocess.run(["clang-format", "--dry-run", *(str(source.path) for source in tree.sources)],
                          capture_output=True, text=True, cwd=tree.root)
    for found in re.finditer(r"^(.*?):(\d+):\d+: (?:warning|error): (.*)$", done.stderr, re.M):
        name = str(pathlib.Path(found[1]).relative_to(tree.root)) if found[1].startswith("/") else found[1]
        yield name, int(found[2]), "clang-format would change this (`make format`)"
    if done.returncode != 0:
        yield ".clang-format", 0, done.stderr.strip()


def rule_cppcheck(tree):
    """cppcheck finds nothing"""
    argv = ["cppcheck", "-q", "--std=c11", "--enable=warning,performance,portability", "--inline-suppr",
            "--suppress=missingIncludeSystem", f"--include={UTHASH}", f"--suppress=*:{UTHASH}", "--template={file}:{line}: {message} ({id})", "-D_GNU_SOURCE", "-Isrc", "-j2",
            *sorted({source.name.split("/")[0] for source in tree.sources})]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=tree.root)
    for found in re.finditer(r"^(.*?):(\d+): (.*)$", done.stderr, re.M):
        yield found[1], int(found[2]), found[3]
    if done.returncode != 0:
        yield "cppcheck", 0, done.stdout.strip()


RULES = [value for name, value in list(globals().items()) if name.startswith("rule_")]
PROGRAMS = {rule_format: "clang-format", rule_cppcheck: "cppcheck"}


class Tree:
    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        paths = sorted(path for folder in EVERYWHERE for path in (self.root / folder).rglob("*.[ch]"))
        self.sources = [Source(self.root, path) for path in paths]
        self.by_name = {source.name: source for source in self.sources}

    def under(self, folder):
        return [source for source in self.sources if source.name.startswith(folder)]

    def reached(self, source, seen=None, first=None, way=""):
        """(line of the first #include, system header, own headers on the way) of all that a file includes, at any depth."""
        seen = set() if seen is None else seen
        for number, name, system in source.includes():
            number = first or number
            if system:
                yield number, name, way
            elif f"src/{name}" in self.by_name and name not in seen:
                seen.add(name)
                yield from self.reached(self.by_name[f"src/{name}"], seen, number, f"{way} > {name}" if way else name)


def check(root):
    """(rule's sentence, [(file, line, message)]) for each rule."""
    tree = Tree(root)
    for rule in RULES:
        program = PROGRAMS.get(rule)
        if program and not shutil.which(program):
            yield rule.__doc__, [(program, 0, "is not installed (`make deps`)")]
        else:
            yield rule.__doc__, sorted(set(rule(tree)))


def main():
    failed = passed = 0
    for sentence, found in check(sys.argv[1] if len(sys.argv) > 1 else "."):
        for name, number, message in found:
            print(f"{name}:{number}: {message}")
        print(f"{'not ok' if found else 'ok'}: {sentence}")
        failed, passed = failed + bool(found), passed + (not found)
    print(f"lint: {passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
