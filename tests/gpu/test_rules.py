"""The reader by hand and lark's parser make the same of every program text of the tests."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.query import datalog
from tests.gpu import rules
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.long_tests import IS_LONG
from tests.reference.random_programs import chance_text, random_text

TESTS = Path(__file__).parents[1]
FOLDERS = (
    "join", "trace", "circuit", "zset", "planner", "query", "engine", "cuda", "gpu", "circuit/recursion", "helpers",
    "reference",
)  # fmt: skip
FILES = [*TESTS.glob("program/test_*.py"), *(path for name in FOLDERS for path in sorted(TESTS.glob(f"{name}/*.py")))]


def texts_of(path: Path) -> list[str]:
    """Every string of a file that looks like a program."""
    found = {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ":-" in node.value
    }
    return sorted(found)


def spans_of(read):
    """Where the pieces stand, which equality of rules leaves out."""
    pieces = [piece for rule in read.rules for piece in (rule.head, *rule.atoms, *rule.negated, *rule.comparisons)]
    return [piece.span for piece in (*pieces, *read.declarations, *read.directives)]


def check(text: str) -> bool:
    """Whether the text is a program; if so, both readers agree on it."""
    try:
        expected = datalog.parse(text)
    except GpuWcojError:
        # A mistake that is not in the syntax is an error here too; one in the syntax skips the test.
        with pytest.raises((GpuWcojError, pytest.skip.Exception)):
            rules.parse(text)
        return False
    read = rules.parse(text)
    assert read == expected
    assert read.text == expected.text
    assert (read.inputs, read.heads, read.outputs) == (expected.inputs, expected.heads, expected.outputs)
    assert spans_of(read) == spans_of(expected)
    return True


@pytest.fixture(autouse=True, scope="module")
def lark():
    return pytest.importorskip("lark")


@pytest.mark.parametrize("name", PATTERNS)
def test_patterns(name):
    assert check(PATTERNS[name])


def test_texts_in_the_files():
    """They hold programs; ordinary runs read every fourth file."""
    n_programs = 0
    for path in FILES if IS_LONG else FILES[::4]:
        for text in texts_of(path):
            try:
                n_programs += check(text)
            except pytest.skip.Exception:  # syntax that only the reader of the package knows
                continue
            except BaseException as error:
                error.add_note(f"a text in {path.relative_to(TESTS)}")
                raise
    assert n_programs > (150 if IS_LONG else 30)


def test_texts_that_chance_writes():
    for seed in range(300 if IS_LONG else 25):
        assert check(random_text(random.Random(seed)))
        assert check(chance_text(random.Random(f"reader {seed}")))


@pytest.mark.parametrize(
    "text",
    [
        'h(x, "a\\"b\\\\c\\n\\t\\r\\u00e9\\U0001F600") :- r(x).',
        "h(x) :- r(x, y), y > -1.5e3, x != -0, y = 2e-2. // comment\n% another\n/* and\none */ k(x) :- h(x).",
        ".decl r(a: decimal128(10, 2), b: timestamp[us, tz=UTC], c)\n.input r\nh(a) :- r(a, _, _).\n.output h",
        "h(x) :- r(x, true), s(x, false), falsehood(x).",
        "h(x % 2, sum(y * 2)) :- % one\n r(x, y) % two\n , y = (x + 1) % 3 - -x, z = x % y. % three % four",
        "h(x, count()) :- !r(x, _), not (s(_, x)), t(x), n = 1 + count : { r(_, x), m = min (y) + 1 : s(y, _) }.",
        "h(count, -5, - 5, --5, -(5), 2 - -1) :- r(count, sum), max v : { s(v), v > count } <= sum.",
        'e(1, "a"). e(-2, cat("b", "c")). .output e, h(a=b) h(x) :- e(x, _). .input e(IO=file, filename="x y", n=5)',
        'h(x) :- e(x, s), strlen(substr(s, 0, x)) = 1. g(x) :- h(x), x != cat("a", "b"). .output g g(1).',
        "\ufeffgrößer(größe) :- r(größe, _).",
    ],
)
def test_constants_comments_and_declarations(text):
    assert check(text)
