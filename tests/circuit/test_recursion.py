"""Recursive programs under random changes: after every tick they hold what a naive evaluator derives, and the ranks
that a run from scratch would give."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import IterationLimitError
from tests.helpers.answers import named
from tests.helpers.comparison import ranks
from tests.helpers.recursive_programs import RANKED as PROGRAMS


def arity(text: str) -> dict[str, int]:
    """The inputs of a program and how many columns each has."""
    program = gw.Program(text)
    return {name: program.arity(name) for name in program.inputs}


def tick(random: np.random.Generator, widths: Mapping[str, int], state: dict[str, set], size: int, values: int):
    """Return random changes of all inputs; deletions balance insertions above a size."""
    changes = {}
    for name, width in widths.items():
        rows = {}
        for _ in range(int(random.integers(0, size + 1))):
            row = tuple(random.integers(0, values, width).tolist())
            if state[name] and random.random() < (0.7 if len(state[name]) > 2 * values else 0.3):
                row = sorted(state[name])[int(random.integers(0, len(state[name])))]
                rows[row] = -1
            else:
                rows[row] = 1
        changes[name] = list(rows.items())
        for row, sign in rows.items():
            (state[name].add if sign > 0 else state[name].discard)(row)
    return changes


def contents(program: gw.Program) -> dict[str, dict]:
    """Every head."""
    return {name: dict(program.relation(name).rows()) for name in program.heads}


def test_an_edge_of_a_cycle_goes_and_comes_back(backend):
    """Deleting the edge deletes the rows it supports; inserting it again restores the same bits."""
    program = gw.Program(PROGRAMS["linear"], backend=backend)
    ring = [(i, (i + 1) % 9) for i in range(9)]
    program.step({"e": [*ring, (4, 4), (2, 7)]})
    assert program.count("p") == 81
    before = ranks(program)
    gone = program.step({"e": [((8, 0), -1)]})["p"].rows()
    assert {row for row, _ in gone} == {(x, y) for x in range(9) for y in range(9) if y <= x} - {(4, 4)}
    assert all(weight == -1 for _, weight in gone)
    back = program.step({"e": [(8, 0)]})["p"].rows()
    assert [(row, -weight) for row, weight in back] == gone
    assert ranks(program) == before


def test_the_last_edge_goes_and_all_come_again(backend):
    program = gw.Program(PROGRAMS["linear"], backend=backend)
    edges = [(0, 1), (1, 2), (2, 0)]
    for _ in range(3):
        assert len(program.step({"e": edges})["p"]) == 9
        assert len(program.step({"e": [(edge, -1) for edge in edges]})["p"]) == 9
        assert program.count("p") == 0
        assert program.relation("p").rows() == []


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize(
    "name",
    ["linear", "non-linear", "mutual", "from marked", "read by others", "negation", "shortest paths", "two of them"],
)
def test_a_batch_equals_its_rows_one_by_one(name, backend):
    widths = arity(PROGRAMS[name])
    random = np.random.default_rng(1)
    state: dict[str, set] = {name: set() for name in widths}
    together, separate = (gw.Program(PROGRAMS[name], backend=backend, inputs=named(PROGRAMS[name])) for _ in range(2))
    for _ in range(8):
        changes = tick(random, widths, state, 10, 8)
        together.step(changes)
        single = [(relation, row) for relation, rows in changes.items() for row in rows]
        for row_index in random.permutation(len(single)).tolist():
            relation, row = single[row_index]
            separate.step({relation: [row]})
        assert contents(together) == contents(separate)
        assert ranks(together) == ranks(separate)


def test_counting_and_loading_say_the_same(backend):
    """Ticks that only count, or do not even that, leave what a step leaves."""
    programs = [gw.Program(PROGRAMS["read by others"], backend=backend) for _ in range(3)]
    widths = arity(PROGRAMS["read by others"])
    random = np.random.default_rng(2)
    state: dict[str, set] = {name: set() for name in widths}
    for _ in range(10):
        changes = tick(random, widths, state, 6, 7)
        rows = programs[0].step(changes)
        counts = programs[1].step_counts(changes)
        programs[2].load(changes)
        for name, count in counts.items():
            signs = [weight for _, weight in rows[name].rows()]
            assert (count.inserted, count.deleted, count.net) == (signs.count(1), signs.count(-1), sum(signs))
        assert contents(programs[0]) == contents(programs[1]) == contents(programs[2])
        for program in programs:
            assert program.count("p") == len(program.relation("p"))


@pytest.mark.drawn("name", share=2)
@pytest.mark.parametrize("name", ["non-linear", "mutual", "read by others", "all pairs"])
def test_a_checkpoint_holds_the_ranks(name, backend, tmp_path):
    """Checkpoints after every other tick, incremental, restore a program that continues."""
    widths = arity(PROGRAMS[name])
    random = np.random.default_rng(4)
    state: dict[str, set] = {name: set() for name in widths}
    program = gw.Program(PROGRAMS[name], backend=backend)
    for tick_index in range(12):
        changes = tick(random, widths, state, 6, 7)
        if tick_index % 2:
            program.checkpoint(tmp_path)
            again = gw.Program.restore(tmp_path, backend=backend)
            assert contents(again) == contents(program)
            assert ranks(again) == ranks(program)
            assert again.step(changes) == program.step(changes)
            assert ranks(again) == ranks(program)
        else:
            program.step(changes)


def test_a_loop_without_end_is_undone(backend):
    """A limit of iterations that a chain needs more of."""
    program = gw.Program(PROGRAMS["linear"], backend=backend, iterations=10)
    program.step({"e": [(i, i + 1) for i in range(10)]})
    before = ranks(program)
    with pytest.raises(IterationLimitError, match=r"(?s)the recursion \('p' reads 'p'\) has not.*after 10 .*undone"):
        program.step({"e": [(10, 11), (20, 21)]})
    assert ranks(program) == before
    assert len(program.step({"e": [(20, 21)]})["p"]) == 1


def test_types_and_nulls_that_turn_up_later(backend):
    """The state moves, ranks and all, when columns get another type or their first null."""
    program = gw.Program("p(x, y) :- e(x, y). p(x, z) :- p(x, y), f(y, z).", backend=backend)
    program.step({"e": [(1, 2)], "f": [(2, 3), (3, 4), (4, 2)]})
    before = ranks(program)["p"]
    narrow = pa.table({"a": pa.array([5], pa.int32()), "b": pa.array([2], pa.int32())})
    assert len(program.step({"e": narrow})["p"]) == 3
    with_null = pa.table({"a": pa.array([None, 7]), "b": pa.array([3, None], pa.int64())})
    rows = program.step({"e": with_null})["p"].rows()
    assert rows == [((None, 2), 1), ((None, 3), 1), ((None, 4), 1), ((7, None), 1)]
    assert [len(column) for column in ranks(program)["p"]] == [10] * 5
    rows = program.step({"e": [((5, 2), -1)], "f": [((4, 2), -1)]})["p"].rows()
    assert ((None, 2), -1) in rows
    assert ((7, None), -1) not in rows
    assert len(before[0]) == 3


def test_texts(backend):
    program = gw.Program("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z), x < z.", backend=backend)
    program.step({"e": [("b", "c"), ("c", "a"), ("a", "d")]})
    assert program.count("p") == 4
    rows = program.step({"e": [("c", "ab"), ("ab", "e")]})["p"].rows()
    assert dict(rows) == dict.fromkeys([("ab", "e"), ("c", "ab"), ("c", "e")], 1)


def test_least_texts_and_no_values(backend):
    """Texts are compared as texts, also later texts; rows without a value are absent."""
    text = "l(x, min(t)) :- n(x, t). l(y, min(t)) :- l(x, t), e(x, y)."
    program = gw.Program(text, backend=backend)
    program.step({"n": [("a", "m"), ("b", "z")], "e": [("a", "b"), ("b", "c"), ("c", "b")]})
    assert dict(program.relation("l").rows()) == dict.fromkeys([("a", "m"), ("b", "m"), ("c", "m")], 1)
    rows = program.step({"n": [("c", "b")], "e": [(("a", "b"), -1)]})["l"].rows()
    assert dict(rows) == {("b", "m"): -1, ("b", "b"): 1, ("c", "m"): -1, ("c", "b"): 1}
    values = pa.table({"x": ["d", "c"], "t": pa.array([None, "a"])})
    assert dict(program.step({"n": values, "e": [("d", "e")]})["l"].rows()) == {
        ("b", "b"): -1, ("b", "a"): 1, ("c", "b"): -1, ("c", "a"): 1,
    }  # fmt: skip
    assert dict(program.step({"n": [("e", "k")]})["l"].rows()) == {("e", "k"): 1}


def test_least_of_texts_that_rules_make(backend):
    text = 'l(x, min(t)) :- n(x, t). l(y, min(t)) :- l(x, _), e(x, y, z), t = cat(z, "!").'
    program = gw.Program(text, backend=backend)
    program.step({"n": [("a", "k")], "e": [("a", "b", "q"), ("b", "c", "r"), ("a", "c", "s")]})
    assert dict(program.relation("l").rows()) == dict.fromkeys([("a", "k"), ("b", "q!"), ("c", "r!")], 1)
    rows = program.step({"e": [(("b", "c", "r"), -1), ("c", "b", "b")]})["l"].rows()
    assert dict(rows) == {("b", "q!"): -1, ("b", "b!"): 1, ("c", "r!"): -1, ("c", "s!"): 1}


def test_explain_says_what_is_recursive():
    text = gw.Program(PROGRAMS["read by others"]).explain()
    assert "p   (recursive: its rows are kept with their ranks; iterations with few rows run row at a time" in text
    assert "y: intersect p(x, y) before, by p[0, 1, rank] with e(y, z) before, by e[1, 0]" in text
    assert "#" not in text
    text = gw.Program(PROGRAMS["two of them"]).explain()
    assert "d   (recursive, evaluated with r, b: the values that have been a group's best are kept" in text


def test_a_long_chain(backend):
    """Hundreds of iterations, and an edge in the middle that goes."""
    n = 120
    program = gw.Program(PROGRAMS["linear"], backend=backend)
    program.step({"e": [(i, i + 1) for i in range(n)]})
    assert program.count("p") == n * (n + 1) // 2
    gone = program.step({"e": [((n // 2, n // 2 + 1), -1)]})["p"]
    assert len(gone) == (n // 2 + 1) * (n - n // 2)
    shortcut = program.step({"e": [(0, n)]})["p"]
    assert shortcut.rows() == [((0, n), 1)]


def test_a_row_that_has_left_a_large_recursion_is_not_counted(backend):
    """Its deletion is a batch of its own."""
    program = gw.Program("r(x) :- s(x). r(y) :- r(x), e(x, y).", backend=backend, inputs=["s", "e"])
    program.load({"s": [(x,) for x in range(6000)], "e": [(0, 7)]})
    program.step({"s": [((9,), -1)]})
    assert program.count("r") == len(program.relation("r")) == 5999
