"""Rejected programs with loops, and rejected ticks: messages with names, state unchanged."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import GpuWcojError, IterationLimitError
from tests.helpers.comparison import Judges, agree, bits
from tests.helpers.recursive_programs import ALL


def test_a_loop_without_an_end(backend):
    text = "n(x) :- s(x). n(y) :- n(x), !b(x), y = x + 1. m(x) :- s(x)."
    program = gw.Program(text, backend=backend.name, iterations=50)
    program.step({"b": [(3,), (30,)], "s": [(1,)]})
    before = bits(program, program.heads)
    for change in ({"s": [(40,)]}, {"b": [((3,), -1), ((30,), -1)]}, {"s": [(35,)], "b": [(5,)]}):
        with pytest.raises(IterationLimitError, match=r"'n'.*50"):
            program.step(change)
        assert bits(program, program.heads) == before
    assert program.step({"b": [((3,), -1)]})["n"].to_dict() == {(x,): 1 for x in range(4, 31)}


def test_a_quotient_by_nothing_in_a_loop(backend):
    text = "q(x) :- s(x). q(z) :- q(x), f(x, y), z = x / y."
    program = gw.Program(text, backend=backend.name)
    judges = Judges(text)
    good = {"s": [(12,)], "f": [(12, 2), (6, 3)]}
    program.step(good)
    judges.step({name: ("rows", [(row, 1) for row in rows]) for name, rows in good.items()})
    before = bits(program, program.heads)
    with pytest.raises(GpuWcojError, match="0"):
        program.step({"f": [(2, 0)]})
    assert bits(program, program.heads) == before
    agree(program, judges)
    assert program.step({"f": [(2, 2)]})["q"].to_dict() == {(1,): 1}


def test_a_sum_that_leaves_the_integers(backend):
    text = "n(x) :- s(x). n(y) :- n(x), x > 5, y = x * x."
    program = gw.Program(text, backend=backend.name)
    program.step({"s": [(3,)]})
    with pytest.raises(GpuWcojError, match=r"\*"):
        program.step({"s": [(7,)]})
    assert program.relation("n").to_dict() == {(3,): 1}


@pytest.mark.parametrize("name", ["closure, both", "sums over a loop", "shortest paths"])
def test_a_bad_change_leaves_the_state(name, backend):
    program = gw.Program(ALL[name], backend=backend.name)
    inputs = {relation: program.arity(relation) for relation in program.inputs}
    program.step({relation: [tuple(range(width)), tuple(range(1, width + 1))] for relation, width in inputs.items()})
    before = bits(program, program.heads)
    one, width = next(iter(inputs.items()))
    with pytest.raises(GpuWcojError):
        program.step({one: [("a",) * width]})
    with pytest.raises(GpuWcojError):
        program.step({"nothing": [(1,)]})
    assert bits(program, program.heads) == before
