"""The reader of EDN, against edn_format on random data, and what it refuses."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from typing import Any

import edn_format
import pytest

from gpu_wcoj.query.edn.reader import MAX_NESTING, Form, Symbol, read, read_all, to_form, to_python
from tests.helpers.long_tests import IS_LONG
from tests.reference.edn import loads

NAMES = ["a", "?x", "g/to", "+", "-", "<=", "a.b", "foo-bar", "*n*", "éa", "...", "%", "$", "->x", "a#b"]
TEXTS = ["", "a", 'say "hi"', "tab\there", "back\\slash", "two\nlines", "é😀", "; no comment", "#_ [", "\\n"]
GAPS = [" ", "\n", ", ", "\t", " ; (note]\n", " #_ skipped ", " #_ #_ a [b] ", " #_(1 {2 3}) "]


class Writer:
    """Random EDN text."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, depth: int) -> str:
        draw = self.random
        if depth and draw.random() < 0.6:
            begin, end = draw.choice(["()", "[]", "{}", "#}"])
            items = [self.text(depth - 1) for _ in range(draw.randint(0, 4))]
            if begin == "{":
                items = [piece for key, item in enumerate(items) for piece in (f":k{key}", item)]
            if begin == "#":
                begin, items = "#{", [f"{at}" for at in range(len(items))]
            return begin + "".join(item + draw.choice(GAPS) for item in items) + end
        return draw.choice([self.number, self.name, self.string, self.tagged, self.char])()

    def number(self) -> str:
        draw = self.random
        sign = draw.choice(["", "-", "+"])
        whole = str(draw.choice([0, 1, 7, 1234567890123]))
        return sign + whole + draw.choice(["", "", "N", ".5", "e3", ".25E-2", ".0"])

    def name(self) -> str:
        draw = self.random
        return draw.choice([*NAMES, *(f":{one}" for one in NAMES if "/" not in one), ":g/to", "nil", "true", "false"])

    def string(self) -> str:
        escaped = self.random.choice(TEXTS).replace("\\", "\\\\").replace('"', '\\"')
        return (
            '"' + (escaped.replace("\n", "\\n").replace("\t", "\\t") if self.random.random() < 0.5 else escaped) + '"'
        )

    def tagged(self) -> str:
        return self.random.choice(
            ['#inst "2026-01-02T03:04:05.678-01:00"', '#inst "2026-01-02T03:04:05Z"', f'#uuid "{uuid.UUID(int=77)}"']
        )

    def char(self) -> str:
        return self.random.choice(["\\a", "\\newline", "\\space", "\\tab", "\\Z"])


def as_theirs(form: Form) -> Any:
    """A form in edn_format's terms, types and all."""
    if form.kind in ("list", "vector", "set"):
        inner = [as_theirs(one) for one in form.value]
        return form.kind, frozenset(inner) if form.kind == "set" else tuple(inner)
    if form.kind == "map":
        pairs = zip(form.value[::2], form.value[1::2], strict=True)
        return "map", frozenset((as_theirs(key), as_theirs(value)) for key, value in pairs)
    return form.kind, form.value


def of_theirs(value: Any) -> Any:
    kinds = {bool: "bool", int: "int", float: "float", str: "string", dt.datetime: "inst", uuid.UUID: "uuid"}
    if isinstance(value, edn_format.Keyword):
        return "keyword", f":{value.name}"
    if isinstance(value, edn_format.Symbol):
        return "symbol", value.name
    if isinstance(value, edn_format.Char):
        return "char", str(value)
    if value is None:
        return "nil", None
    if type(value) in kinds:
        return kinds[type(value)], value
    if isinstance(value, (frozenset, set)):
        return "set", frozenset(map(of_theirs, value))
    if hasattr(value, "items"):
        return "map", frozenset((of_theirs(key), of_theirs(one)) for key, one in value.items())
    return "list" if isinstance(value, tuple) else "vector", tuple(map(of_theirs, value))


@pytest.mark.drawn("part", share=2)
@pytest.mark.parametrize("part", range(5))
def test_random_data_is_read_as_edn_format_reads_it(part: int) -> None:
    for seed in range(part * 100, part * 100 + (100 if IS_LONG else 40)):
        text = Writer(seed).text(4)
        assert as_theirs(read(text)) == of_theirs(loads(text)), text


def test_forms_know_where_they_stand() -> None:
    form = read('[:find ?x\n :where [?x :name "Ada"]] ; done')
    assert [(one.span.line, one.span.column, one.span.width) for one in form.value] == [
        (1, 2, 5), (1, 8, 2), (2, 2, 6), (2, 9, 16),
    ]  # fmt: skip
    assert read('#inst "2020"').span.width == 12


def test_plain_data_and_back() -> None:
    text = '[:find ?x :where [?x :age 5] [(< ?x 2.5)] (not [?x :name "Ada"]) #{1} {:a nil} true]'
    form = read(text)
    found = to_python(form)
    assert found[:4] == [":find", "?x", ":where", ["?x", ":age", 5]]
    assert isinstance(found[1], Symbol)
    assert to_form([":find", "?x", ["?x", ":age", 5], ("not", ["?x"])]) == read("[:find ?x [?x :age 5] (not [?x])]")
    assert str(to_form({":a": (1, "b c", 2.5, None, True)})) == '{:a (1 "b c" 2.5 nil true)}'
    assert str(read("[1 " + "x" * 100 + "]")).endswith("...")
    with pytest.raises(ValueError, match="type 'object' cannot be represented in EDN"):
        to_form([object()])


def test_what_is_edn_at_the_edges() -> None:
    assert read("-9223372036854775808").value == -(2**63)
    assert read("1.").value == 1.0
    assert read('"\\ud83d\\ude00"').value == "😀"
    assert read("[" * MAX_NESTING + "]" * MAX_NESTING).depth == MAX_NESTING
    assert read_all("#_ 1 ; nothing") == ()
    assert read("#_" * 500 + " 1" * 500 + " 2").value == 2
    assert read("[1 #_ 2, 3]") == read("[1 3]")
    assert read("\ufeff:a").value == ":a"
    assert read('#inst "2026"').value == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
