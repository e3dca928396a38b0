"""Aggregates in recursive rules at keys that only the recursion derives."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit.circuit import Circuit
from gpu_wcoj.errors import AggregateOverflowError, CalculationError, IterationLimitError, UnsupportedError
from tests.helpers.comparison import Judges, agree, bits, check_scripts, compared
from tests.helpers.kernel_kinds import Kind, lacking
from tests.helpers.recursive_programs import AGGREGATING as PROGRAMS


def rows(program: gw.Program, name: str) -> list[tuple[object, ...]]:
    return [row for row, _ in program.relation(name).rows()]


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_what_the_braces_compare_or_negate(bag, backend):
    points = [(0, 0), (1, 1), (2, 2)]
    expected = {
        "compared": [(0, 0), (1, 1), (2, 2), (3, 3)],
        "sum": [(0,), (1,), (2,), (3,)],
        "negated": [(0,)],
        "in a head of its own": [(0, 0), (1, 1), (2, 2), (3, 3)],
        "equal": [(0,), (1,), (2,), (3,)],
        "the key is an aggregate": [(0,), (1,), (2,), (3,)],
    }
    for name, answer in expected.items():
        program = gw.Program(PROGRAMS[name], bag=bag, backend=backend.name)
        program.step({relation: points if relation == "p" else [(9, 9)] for relation in program.inputs})
        assert rows(program, "o") == answer, name


def test_every_tick_brings_what_changes(backend):
    program = gw.Program(PROGRAMS["compared"], backend=backend.name)
    assert program.step({"p": [(9, 9)]})["o"].to_dict() == {(r, 0): 1 for r in range(4)}
    assert program.step({"p": [(1, 1)]})["o"].to_dict() == {(2, 0): -1, (3, 0): -1, (2, 1): 1, (3, 1): 1}
    assert program.step({"p": [((9, 9), -1)]})["o"].to_dict() == {}
    counts = program.step_counts({"p": [((1, 1), -1), (0, 5)]})
    assert (counts["o"].inserted, counts["o"].deleted) == (1, 1)
    assert rows(program, "o") == [(0, 0), (1, 1), (2, 1), (3, 1)]
    program.load({"p": [((0, 5), -1)]})
    assert rows(program, "o") == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_weights_of_either_sign_do_not_hide_a_key(backend):
    """The recursion reads the rows of positive weight, whatever those of the others add up to."""
    text = "o(x) :- s(x). o(y) :- o(x), p(x, y), 0 = count : { q(z), z > y }."
    program = gw.Program(text, bag=True, backend=backend.name)
    program.step({"s": [(1,), (2,)], "p": [((1, 5), 1), ((2, 5), -1)], "q": [(3,)]})
    assert rows(program, "o") == [(1,), (2,), (5,)]


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_what_comes_and_goes_leaves_nothing(bag, backend):
    program = gw.Program(PROGRAMS["two"], bag=bag, backend=backend.name)
    program.step({"s": [(1,)], "p": [(1, 2), (2, 4)], "q": [(0, 0), (1, 1), (2, 0)]})
    before = bits(program, program.heads)
    program.step({"p": [(4, 5), (2, 7)], "q": [(4, 1), (5, -1)]})
    assert rows(program, "o") != [(1,), (2,), (4,)]
    program.step({"p": [((4, 5), -1), ((2, 7), -1)], "q": [((4, 1), -1), ((5, -1), -1)]})
    assert bits(program, program.heads) == before
    mark = program.mark()
    program.step({"s": [((1,), -1)]})
    assert rows(program, "o") == []
    program.return_to(mark)
    assert bits(program, program.heads) == before


def test_keys_are_in_a_checkpoint(backend, tmp_path):
    judges = Judges(PROGRAMS["of two loops"])
    program = gw.Program(PROGRAMS["of two loops"], backend=backend.name)
    chance = random.Random(3)
    for tick_index in range(6):
        tick = {
            name: ("rows", [(tuple(chance.choices(range(5), k=arity)), chance.choice((1, 1, -1))) for _ in range(6)])
            for name, arity in (("s", 1), ("p", 2), ("q", 2))
        }
        compared(program, judges, tick, "step", f"tick {tick_index}")
        program.checkpoint(tmp_path / "kept")
        program = gw.Program.restore(tmp_path / "kept", backend=backend.name)
        agree(program, judges, f"tick {tick_index}, restored")


def test_texts_floats_and_nulls_as_keys(backend):
    text = "o(x) :- s(x). o(y) :- o(x), p(x, y), 1 <= count : { q(z), z < y }."
    for values in (["a", "b", "c", "d"], [0.5, 1.5, 2.5, 3.5]):
        a, b, c, d = values
        program = gw.Program(text, backend=backend.name)
        program.step({"s": [(a,)], "p": [(a, b), (b, c), (c, d)], "q": [(c,)]})
        assert rows(program, "o") == [(a,)]
        program.step({"q": [(a,)]})
        assert rows(program, "o") == [(a,), (b,), (c,), (d,)]
        program.step({"p": [(b, None), (None, a)], "s": [(None,)]})  # nulls turn up: the state is stored anew
        assert rows(program, "o") == [(None,), (a,), (b,), (c,), (d,)]
        program.step({"q": [((a,), -1)]})
        assert rows(program, "o") == [(None,), (a,)]


def test_types_come_from_what_the_recursion_derives(backend):
    table = pa.table({"c0": pa.array([1, 2], pa.int32()), "c1": pa.array([2, 3], pa.int32())})
    program = gw.Program("o(1). o(y) :- o(x), p(x, y), 1 <= count : { q(z), z <= x }.", backend=backend.name)
    program.step({"p": table, "q": [(1,)]})
    assert rows(program, "o") == [(1,), (2,), (3,)]


def test_a_key_that_is_no_longer_asked_for_needs_no_value(backend):
    """The sum at 2 overflows in the tick that deletes 2; a tick that keeps 2 is refused."""
    text = "o(x) :- s(x). o(y) :- o(x), p(x, y), n = sum (v * x) : { q(v), v >= x }, n >= 0."
    program = gw.Program(text, backend=backend.name)
    program.step({"s": [(1,)], "p": [(1, 2), (2, 3)], "q": [(5,)]})
    assert rows(program, "o") == [(1,), (2,), (3,)]
    before = bits(program, program.heads)
    with pytest.raises((CalculationError, AggregateOverflowError)):
        program.step({"q": [(2**62,)]})
    assert bits(program, program.heads) == before
    program.step({"q": [(2**62,)], "p": [((1, 2), -1)]})
    assert rows(program, "o") == [(1,)]


def test_a_rule_behind_the_recursion_is_asked_of_its_end_alone(backend):
    """While the keys are being found the count is 0; nothing is divided by that."""
    text = "o(0). o(r + 1) :- o(r), r < 3, 1 <= count : { p(x), x <= r }. h(6 / n) :- n = count : { o(r), r > 2 }."
    program = gw.Program(text, backend=backend.name)
    assert program.step({"p": [(0,)]})["h"].to_dict() == {(6,): 1}
    text = "a(0). a(r + 1) :- a(r), r < 3, 1 <= count : { p(x), x <= r }. c(n) :- n = count : { a(r), r > 1 }."
    text += " b(0). b(r + 1) :- b(r), r < 3, n = sum (6 / m) : { c(m), m > r - 5 }, n >= 0."
    program = gw.Program(text, backend=backend.name)  # one recursion divides by what another one has in its end
    program.step({"p": [(0,)]})
    assert rows(program, "b") == [(0,), (1,), (2,), (3,)]


def test_a_recursion_without_an_end(backend):
    text = "o(x) :- s(x). o(r + 1) :- o(r), r < 90, 0 = count : { p(x), x > r }."
    program = gw.Program(text, backend=backend.name, iterations=50)
    program.step({"s": [(1,)], "p": [(10,)]})
    before = bits(program, program.heads)
    with pytest.raises(IterationLimitError, match=r"'o' reads 'o'.*50"):
        program.step({"s": [(11,)]})
    assert bits(program, program.heads) == before
    assert program.step({"s": [(70,)]})["o"].to_dict() == {(r,): 1 for r in range(70, 91)}


@pytest.mark.parametrize(
    ("text", "cycle"),
    [
        ("o(x) :- s(x). o(y) :- o(x), p(x, y), 0 < count : { o(z), z < x }.", "'o' aggregates 'o'"),
        ("o(x) :- s(x). o(y) :- o(x), c(x, y). c(x, n) :- s(x), n = count : { o(z), z < x }.",
         "'c' aggregates 'o' reads 'c'"),
        ("o(x) :- s(x). o(y) :- o(x), 0 < count : { s(z), z < x, z < max v : { o(v), v < z } }, y = x.",
         "'o' aggregates 'o'"),
    ],
)  # fmt: skip
def test_braces_that_read_the_recursion_are_refused(text, cycle):
    with pytest.raises(UnsupportedError) as caught:
        gw.Program(text)
    assert cycle in str(caught.value)
    assert "#" not in str(caught.value).split("\n")[0]


def test_keys_are_found_by_ticks_of_what_they_need(backend, monkeypatch):
    """A tick without new keys needs one trial tick, a chain of keys one per key."""
    taken: list[int] = []
    evaluate = Circuit._evaluate

    def noted(self, changes, collect, sink, heads):
        taken.append(sum(len(change.columns[0]) for change in changes.values()))
        return evaluate(self, changes, collect, sink, heads)

    monkeypatch.setattr(Circuit, "_evaluate", noted)
    text = "o(x) :- s(x). o(y) :- o(x), p(x, y), 1 <= count : { q(z), z <= x }."
    program = gw.Program(text, backend=backend.name)
    program.step({"s": [(0,)], "p": [(x, x + 1) for x in range(20)], "q": [(0,)]})
    assert rows(program, "o") == [(x,) for x in range(21)]
    assert taken == [22, *[1] * 20, 42]
    taken.clear()
    program.step({"q": [(1,)]})
    assert taken == [1, 1]


def test_on_either_side_of_a_state_that_is_kept_twice():
    reason = lacking("shim")
    if reason:
        pytest.skip(reason)
    sides = {"backend": Kind("shim").backend(1), "twin": "cpu", "route": 4}
    check_scripts(PROGRAMS["two"], [1], **sides)


GUARDED = {
    "compared": ("!met(x). met(x) :- o(x), q(z, _), z < x.", "0 = count : { q(z, _), z < x }."),
    "by what is reached": ("!met(y). met(y) :- o(x), p(x, y), q(z, _), z < y.", "0 = count : { q(z, _), z < y }."),
    "nested": (
        "!met(x). met(x) :- o(x), q(z, w), z < x, !far(z, w, x). far(z, w, x) :- o(x), q(z, w), q(u, _), u > z + x.",
        "0 = count : { q(z, w), z < x, 0 = count : { q(u, _), u > z + x } }.",
    ),
    "two rules": (
        "!met(x). met(x) :- o(x), q(z, _), z < x. met(y) :- o(y), q(y, _).",
        "0 = count : { q(z, _), z < x }, 0 = count : { q(x, _) }.",
    ),
    "a constant": ("!met(x), x != 2. met(x) :- o(x), q(2, z), z != x.", "0 = count : { q(2, z), z != x }, x != 2."),
}


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", GUARDED)
def test_a_negated_head_that_asks_of_rows_of_the_recursion(name, backend):
    """Such a negated head is complete before the recursion, as the count of an aggregate is."""
    start = "o(x) :- s(x). o(y) :- o(x), p(x, y), "
    negating, counting = (f"{start}{body}" for body in GUARDED[name])
    for seed in range(4):
        bag = seed % 2 == 1
        judges = Judges(counting, bag)
        program = gw.Program(negating, outputs=["o"], bag=bag, backend=backend.name)
        chance = random.Random(seed)
        for tick_index in range(6):
            tick = {
                relation: ("zset", [(tuple(chance.choices(range(5), k=arity)), 1) for _ in range(5)])
                for relation, arity in (("s", 1), ("p", 2), ("q", 2))
            }
            if tick_index % 2:
                gone = {
                    relation: [(row, -1) for row in judges.state[relation] if chance.random() < 0.4]
                    for relation in tick
                }
                tick = {relation: ("zset", pairs) for relation, pairs in gone.items()}
            judges.step(tick)
            program.step({relation: [*pairs] for relation, (_, pairs) in tick.items()})
            assert set(rows(program, "o")) == set(judges.heads["o"]), f"seed {seed}, tick {tick_index}"


@pytest.mark.parametrize(
    "text",
    [
        "o(x) :- s(x). o(y) :- o(x), p(x, y), !met(x). met(x) :- o(x), o(z), z < x.",
        "o(x) :- s(x). o(y) :- o(x), p(x, y), !met(y). met(x) :- o(x), q(z, _), z < x.",
        "o(x) :- s(x). o(y) :- o(x), p(x, y), !met(y). met(y) :- o(x), p(x, y), q(z, _), z < x.",
    ],
)
def test_a_negated_head_that_asks_for_more_is_refused(text):
    with pytest.raises(UnsupportedError, match="'o' negates 'met' reads 'o'"):
        gw.Program(text)


def test_sql_asks_for_there_being_none_in_a_recursion(backend):
    text = (
        "WITH RECURSIVE o(r) AS (SELECT 0 UNION SELECT o.r + 1 FROM o WHERE o.r < 5 AND NOT EXISTS "
        "(SELECT 1 FROM p WHERE p.x < o.r AND p.y > o.r)) SELECT r FROM o"
    )
    view = gw.view(text, p=pa.table({"x": [1], "y": [9]}), language="sql", backend=backend.name)
    assert view.snapshot().rows() == [(0,), (1,), (2,)]
    assert view.apply(p=[((1, 9), -1), ((3, 7), 1)]).to_dict() == {(3,): 1, (4,): 1}
