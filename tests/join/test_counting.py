"""Counts that look at no value one by one equal recomputation: ranges, exclusions, negated atoms, prefixes alike."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.kernels.protocol import PROBES, PROPOSALS
from tests.helpers.answers import named

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])


def looked_at(program: gw.Program) -> int:
    """What the kernels looked at in the last tick."""
    paths = program.last_tick.work["h"][0].values()
    return sum(int(work[PROPOSALS] + work[PROBES]) for path in paths for work in path.values())


HUB = [(0, b) for b in range(1000)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("h(b) :- v(b), r(a, b), s(b, c).", 1000),
        ("h(b) :- v(b), r(a, b), s(a, c), b != c.", 1000 * 999),
        ("h(b) :- v(b), r(a, b), s(a, c), !t(b, c).", 1000 * 1000 - 3),
    ],
)
def test_a_hub_is_not_looked_at_value_by_value(text, expected):
    program = gw.Program(text, bag=True, threads=1, inputs=named(text))
    rows = HUB if "s(a, c)" in text else [(b, 0) for _, b in HUB]
    held = {"r": HUB, "s": rows, "t": [(1, 2), (2, 2), (7, 7)]}
    program.load({name: held[name] for name in program.inputs if name != "v"})
    assert program.step_counts({"v": [(b,) for b in range(1000)]})["h"].net == expected
    assert looked_at(program) <= 25_000


def test_prefixes_that_differ_in_hidden_variables_are_counted_once():
    program = gw.Program("h(x) :- v(x), r(a, b), s(b, c), r(c, a).", bag=True, threads=1, inputs=["v", "r", "s"])
    edges = [(a, (a + k) % 30) for a in range(30) for k in range(1, 12)]
    program.load({"r": edges, "s": edges})
    once = program.step_counts({"v": [(0,)]})["h"].net
    work = looked_at(program)
    assert program.step_counts({"v": [(x,) for x in range(1, 3000)]})["h"].net == 2999 * once > 0
    assert looked_at(program) <= work + 10


FAR = [(a, 0) for a in range(1, 2000)]  # a bound of the positions says nothing about few prefixes then
FEW = {
    "at the last step": (
        "h(x) :- v(x, y), w(y, a), r(a, b), s(a, b).",
        {"w": [(y, 0) for y in range(200)], "r": [*HUB, *FAR], "s": [*HUB, *FAR]},
        200 * 1000,
    ),
    "before further steps": (
        "h(x) :- v(x, a), r(a, b), s(b, y), t(y, z), u(z, b).",
        {"r": [(0, 0), *FAR], "s": [*HUB, *FAR], "t": [(y, y) for y in range(2000)], "u": [(z, 0) for z in range(900)]},
        200 * 900,
    ),
}


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("name", FEW)
@BAGS
def test_few_prefixes_of_one_hub_are_counted_once(name, bag):
    text, held, expected = FEW[name]
    program = gw.Program(text, bag=bag, threads=1, inputs=["v", *held])
    program.load(held)
    assert program.step_counts({"v": [(x, x if "w" in held else 0) for x in range(200)]})["h"].net == (
        expected if bag else 200
    )
    assert looked_at(program) <= 12_000


@pytest.mark.usefixtures("large_ticks")
def test_a_prefix_without_a_binding_of_one_part_is_left_out_of_the_next():
    text = "h(x) :- v(x), r(x, a), s(a, b), t(b, x), r(x, c), s(c, d), u(d, x)."
    program = gw.Program(text, bag=True, threads=1, inputs=["v", "r", "s", "t", "u"])
    pairs = [(x, 10 * x + k) for x in range(100) for k in range(10)]
    crossed = [(b, a) for a, b in pairs]
    closed = [(b, x if x < 2 else (x + 1) % 100) for b, x in crossed]
    program.load({"r": pairs, "s": [(b, b) for _, b in pairs], "t": closed, "u": crossed})
    assert program.step_counts({"v": [(x,) for x in range(100)]})["h"].net == 2 * 10 * 10
    assert looked_at(program) <= 5_000


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("weight", [1, 2])
def test_a_value_that_two_conditions_exclude_is_left_out_once(weight):
    program = gw.Program("h(x, y) :- v(x, y), r(x, z), z != x, z != y.", bag=True, inputs=["v", "r"])
    program.load({"r": [((x, z), weight) for x in range(50) for z in range(60)]})
    assert program.step_counts({"v": [(x, x) for x in range(50)]})["h"].net == 50 * 59 * weight
    assert program.step_counts({"v": [(x, x + 1) for x in range(50)]})["h"].net == 50 * 58 * weight


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("bag", [False, True])
def test_a_row_that_has_left_a_large_negated_relation_is_counted(bag):
    """Its deletion is a batch of its own."""
    program = gw.Program("h(x, y) :- v(x), r(x, y), !n(x, y).", bag=bag, inputs=["v", "r", "n"])
    rows = [(x, y) for x in range(100) for y in range(60)]
    program.load({"r": rows, "n": rows})
    program.step({"n": [((7, 8), -1)]})
    assert program.state_rows["n[0, 1]"] == [6000, 1]
    assert program.step_counts({"v": [(x,) for x in range(100)]})["h"].net == 1
