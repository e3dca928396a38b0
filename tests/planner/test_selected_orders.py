"""Orders of variables that make all atoms of a body one selection of their relation."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.engine.replicas import proposed_by
from tests.helpers.comparison import check_scripts
from tests.helpers.long_tests import IS_LONG

CLIQUE4 = "e(a, b), e(b, c), e(a, c), e(a, d), e(b, d), e(c, d)"
SELECTED = {
    "triangle": "h(a, b, c) :- e(a, b), e(b, c), e(a, c), a < b, c > b.",
    "clique of four": f"h(a, d) :- {CLIQUE4}, a < b, b < c, c < d.",
    "path": "h(a, c) :- e(a, b), e(b, c), a < b, b < c.",
    "turned": "h(a, b, c) :- e(b, a), e(c, b), e(c, a), a < b, b < c.",
    "with another condition": "h(a, b, c) :- e(a, b), e(b, c), e(a, c), a < b, b < c, a != 1, b <= c, a <= 2.",
    "with a negated atom": "h(a, b, c) :- e(a, b), e(b, c), e(a, c), a < b, b < c, !f(a, c).",
}
OTHERS = {
    "columns in both orders": "h(a, b, c) :- e(a, b), e(b, c), e(c, a), a < b, b < c.",
    "not strict": "h(a, b, c) :- e(a, b), e(b, c), e(a, c), a <= b, b <= c.",
    "not of all atoms": "h(a, b, c) :- e(a, b), e(b, c), e(a, c), a < b.",
    "two relations": "h(a, b, c) :- e(a, b), f(b, c), e(a, c), a < b, b < c.",
    "constants of one atom": "h(a, b) :- e(a, b), e(b, 3), e(a, 3), a < b.",
}


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", [*SELECTED, *OTHERS])
def test_answers_are_those_of_recomputation(name, bag):
    text = f"{(SELECTED | OTHERS)[name]} .output h"
    for values in (None, {0: None}):
        check_scripts(text, range(6 if IS_LONG else 2), bag=bag, values=values)


@pytest.mark.parametrize("name", [*SELECTED, *OTHERS])
def test_all_atoms_are_one_selection(name):
    program = gw.Program(f"{(SELECTED | OTHERS)[name]} .output h")
    arranged = program.explain().partition("\narrangements\n")[2]
    assert (" < " in arranged or " > " in arranged) == (name in SELECTED)


def test_text_is_compared_by_ranks():
    program = gw.Program("h(a, b, c) :- e(a, b), e(b, c), e(a, c), a < b, b < c. .output h")
    program.step({"e": [("b", "c"), ("c", "d"), ("b", "d"), ("d", "b")]})
    program.step({"e": [("aa", "b"), ("aa", "c"), ("c", "aa")]})
    assert program.relation("h").to_dict() == {("b", "c", "d"): 1, ("aa", "b", "c"): 1}
    assert "|" not in program.explain().partition("\narrangements\n")[2]


def test_a_clique_is_walked_as_the_one_of_a_helper():
    edges = [(a, b) for a in range(40) for b in range(40) if a != b and (a * b) % 7 < 3]
    changed = edges[1::70]
    helper = gw.Program(f"s(a, b) :- e(a, b), a < b. h(a, b, c, d) :- {CLIQUE4.replace('e(', 's(')}. .output h")
    direct = gw.Program(f"h(a, b, c, d) :- {CLIQUE4}, a < b, b < c, c < d. .output h")
    work = []
    for program in (helper, direct):
        program.load({"e": [edge for edge in edges if edge not in changed]})
        counts = program.step_counts({"e": changed})["h"]
        assert "walked row by row" in program.explain()
        work.append((counts, proposed_by(program.last_tick.work)))
    assert counts.inserted > 0
    assert work[0] == work[1]
