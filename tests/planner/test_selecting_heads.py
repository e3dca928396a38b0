"""Heads that only rename or select are read through an arrangement that selects."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from tests.helpers.comparison import check_scripts
from tests.helpers.long_tests import IS_LONG

READ = "h(a, c) :- s(a, b), s(b, c). .output h"
HEADS = {
    "ordered": "s(a, b) :- e(a, b), a < b.",
    "turned": "s(b, a) :- e(a, b), b >= a.",
    "with constants": "s(a, b) :- e(a, b), a != 1, 3 > b.",
    "twice": "t(a, b) :- e(a, b), a <= b. s(b, a) :- t(a, b), b != 0.",
    "renamed, then selected": "t(b, a) :- e(a, b). s(a, b) :- t(a, b), a != b.",
    "of one relation and its complement": "s(a, b) :- e(a, b), a < b. h(a, b) :- e(a, b), a >= b.",
}


@pytest.mark.drawn("bag", "options")
@pytest.mark.parametrize("options", [{}, {"keep": ["s"]}, {"outputs": ["h", "s"]}], ids=repr)
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", HEADS)
def test_answers_are_those_of_recomputation(name, bag, options):
    text = f"{HEADS[name]} {READ}"
    for values in (None, {0: None}):
        check_scripts(text, range(6 if IS_LONG else 2), bag=bag, values=values, **options)


def test_only_what_is_read_is_kept():
    program = gw.Program(f"{HEADS['ordered']} h(a, b, c) :- s(a, b), s(b, c), s(a, c). .output h")
    assert program.step({"e": [(1, 2), (2, 3), (1, 3), (3, 1), (2, 2)]})["h"].rows() == [((1, 2, 3), 1)]
    assert sorted(map(sum, program.state_rows.values())) == [3, 3, 5]
    assert program.relation("s").to_dict() == {(1, 2): 1, (1, 3): 1, (2, 3): 1}
    assert "s   (only selects from e: rules read that instead)" in program.explain()
    assert "e[c0, c1 | c0 < c1]" in program.explain()


def test_order_on_text_is_no_selection():
    program = gw.Program(f"{HEADS['ordered']} {READ}")
    for rows in ([("b", "c"), ("a", "b")], [("Z", "a"), ("c", "B")], [(("a", "b"), -1), ("a", "aa"), ("aa", "d")]):
        program.step({"e": rows})
    pairs = {("b", "c"), ("Z", "a"), ("a", "aa"), ("aa", "d")}
    assert program.relation("s").to_dict() == dict.fromkeys(pairs, 1)
    assert program.relation("h").to_dict() == {("Z", "aa"): 1, ("a", "d"): 1}
