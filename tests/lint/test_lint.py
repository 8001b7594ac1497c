"""The lint finds each mistake that it is there for, and nothing in a clean file."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import lint  # noqa: E402

CLEAN = """/* thing: an example. */
#include "base/buf.h"

static const char *const names[] = {"a", "b"};

struct pair {
	int first, second;
};

/* Not a mistake: strcpy() in a comment, "atoi(" in a string. */
int thing_count(const char *text)
{
	static const int limit = 3;
	struct pair pair = {
		.first = 1,
		.second = 2,
	};

	for (int i = 0; i < limit; i++) {
		if (text[i] == '{') {
			while (pair.first > 0)
				pair.first -= 1;
		}
	}
	return names[0] == text
		       ? thing_count("the longest line that is broken by clang-format before its question mark")
		       : pair.first;
}
"""

BODY = "\tx += 1;\n"

# (the rule's sentence begins so, file, what it holds)
MISTAKES = [
    ("includes", "src/core/thing.c", '#include "io/db.h"\n'),
    ("includes", "src/base/thing.c", '#include "config/config.h"\n'),
    ("includes", "src/base/thing.c", '#include "buf.h"\n'),
    ("a library", "src/relay/source.c", "#include <ev.h>\n"),
    ("a library", "src/relay/batch.c", "#include <libpq-fe.h>\n"),
    ("a library", "src/core/thing.c", "#include <librdkafka/rdkafka.h>\n"),
    ("a library", "src/io/kafka.h", "#include <librdkafka/rdkafka.h>\n"),
    ("a file", "src/core/thing.c", "\n" * 501),
    ("a function has", "src/core/thing.c", "static int f(int x)\n{\n" + BODY * 67 + "\treturn x;\n}\n"),
    ("a function nests", "src/core/thing.c",
     "static int f(int x)\n{\n\tfor (;;)\n\t\tfor (;;)\n\t\t\tfor (;;)\n\t\t\t\tif (x)\n\t\t\t\t\treturn x;\n}\n"),
    ("no banned", "src/core/thing.c", "static int f(const char *t)\n{\n\treturn atoi(t);\n}\n"),
    ("no banned", "src/core/thing.c", "static void f(void)\n{\n\tusleep(1);\n}\n"),
    ("no banned", "src/io/db.c", "static void f(void *c)\n{\n\tPQexecParams(c, 0, 0, 0, 0, 0, 0, 0);\n}\n"),
    ("no banned", "src/io/kafka.c", "static void f(void *k)\n{\n\trd_kafka_flush(k, 1);\n}\n"),
    ("no banned", "src/relay/source.c", "static long f(void)\n{\n\treturn time(0);\n}\n"),
    ("no variable", "src/core/thing.c", "static int count;\n"),
    ("no variable", "src/core/thing.c", 'static const char *names[] = {"a"};\n'),
    ("no variable", "src/core/thing.c", "static int f(void)\n{\n\tstatic int calls;\n\n\treturn calls++;\n}\n"),
    ("a public", "src/core/thing.c", "int other_count(void)\n{\n\treturn 1;\n}\n"),
    ("a public", "src/core/thing.h", "int other_count(int x);\n"),
    ("structs", "src/core/thing.h", "typedef struct thing thing_t;\n"),
    ("nothing is left", "src/core/thing.c", "/* " + "TO" + "DO: later */\n"),
    ("clang-format", "src/core/thing.c", "static  int f( void ) { return 1; }\n"),
    ("cppcheck", "src/core/thing.c", "int thing_f(void)\n{\n\tint a[2] = {0, 0};\n\n\treturn a[2];\n}\n"),
]


def plant(tmp_path, name, text):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (tmp_path / ".clang-format").write_text((pathlib.Path(lint.__file__).parents[2] / ".clang-format").read_text())


def broken(tmp_path):
    return {sentence: found for sentence, found in lint.check(tmp_path) if found}


@pytest.mark.parametrize("rule,name,text", MISTAKES, ids=[f"{rule}-{name}-{i}" for i, (rule, name, _) in enumerate(MISTAKES)])
def test_a_planted_mistake_is_found(tmp_path, rule, name, text):
    plant(tmp_path, name, text)
    found = broken(tmp_path)
    hits = [places for sentence, places in found.items() if sentence.startswith(rule)]
    assert hits and hits[0][0][0] == name, found


def test_a_clean_file_passes(tmp_path):
    plant(tmp_path, "src/core/thing.c", CLEAN)
    plant(tmp_path, "src/base/buf.h", "struct buf;\n")
    assert broken(tmp_path) == {}


def test_a_library_is_seen_through_headers(tmp_path):
    plant(tmp_path, "src/io/pool.h", "#include <libpq-fe.h>\n")
    plant(tmp_path, "src/relay/source.c", '#include "io/pool.h"\n')
    (places,) = broken(tmp_path).values()
    assert places == [("src/relay/source.c", 1, "<libpq-fe.h> must not be seen here (through io/pool.h)")]


def test_every_rule_has_a_planted_mistake():
    for rule in lint.RULES:
        assert any(rule.__doc__.startswith(begins) for begins, _, _ in MISTAKES), rule.__name__
