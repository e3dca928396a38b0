"""Changes that a program refuses, whichever way it takes them: its state stays, and it works on."""

from __future__ import annotations

import pytest

import gpu_wcoj as gw

TEXT = "h(a, c) :- edge(a, b), edge(b, c), node(a, _). p(a) :- h(a, _)."
FIRST = {"edge": [(1, 2), (2, 3), (2, 2)], "node": [(1, "one"), (2, "two")]}
NEXT = {"edge": [(3, 1), ((1, 2), -1)], "node": [(3, "three")]}


def state(program):
    """All that a user can see of the state."""
    relations = (*program.inputs, *program.heads)
    return (
        {name: program.relation(name).rows() for name in relations},
        {name: program.relation(name).to_arrow().schema for name in relations},
        {name: program.count(name) for name in relations},
        program.last_tick,
    )


def ways(program):
    return program.step, program.step_counts, lambda changes: program.step_pieces(changes, lambda name, piece: None)


def assert_refused(changes, error, match, text=TEXT, first=FIRST, following=NEXT, **options):
    """Every way to step refuses `changes`, leaves the state as it was, and works on as if nothing had been."""
    program, untouched = (gw.Program(text, **options) for _ in range(2))
    for one in (program, untouched):
        one.step(first)
    before, sizes = state(program), list(map(len, program.dictionaries))
    for step in ways(program):
        with pytest.raises(error, match=match):
            step(changes)
        assert state(program) == before
        assert list(map(len, program.dictionaries)) == sizes
    assert program.step(following) == untouched.step(following)
    assert state(program)[:3] == state(untouched)[:3]
