"""A tick that fails anywhere, on either side, leaves both sides as they were, backlogs included."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import MemoryBudgetError
from tests.circuit.test_undefined_values import PROGRAMS, CountingKernels, Interrupt, attempted, edges, run_tick
from tests.engine.conftest import Pair, pair_of
from tests.helpers.long_tests import IS_LONG

TICKS = [edges(1, 40, 1), edges(2, 12), edges(3, 3), edges(4, 12), edges(5, 4), edges(6, 12)]
ON_TWIN = (False, True, True, False, False, True)
"""So that the twin is built, and each side takes in backlogs of one tick and of two."""


class Calls:
    """Calls of kernels on both sides; that with the number `fails_at` raises."""

    def __init__(self, pair: Pair) -> None:
        self.sides = [CountingKernels(backend.kernels) for backend in (pair.primary, pair.twin)]
        backends = zip((pair.primary, pair.twin), self.sides, strict=True)
        self.pair = Pair(*(replace(backend, kernels=kernels) for backend, kernels in backends))

    def start(self, side=0, fails_at=None, error=None):
        for kernels in self.sides:
            kernels.calls, kernels.fails_at = 0, None
        self.sides[side].fails_at, self.sides[side].error = fails_at, error


def seen(program):
    """What a tick may change: the state, which is one immutable value, and what the circuits have installed."""
    state = program._ledger.state
    assert state.sides is None or program._ledger.installed is state
    for side in state.sides or ():
        circuit = side.circuit
        for index, spines in zip(circuit.indices(), side.circuit_state.spines, strict=True):
            assert index.spines() == spines
            assert not any(arrangement.pending for arrangement in index.arrangements.values())
        assert [head.weight_bound for head in circuit.heads.values()] == list(side.circuit_state.weight_bounds)
    return state, [len(dictionary) for dictionary in program.dictionaries]


ERRORS = {"error": RuntimeError("the kernel failed"), "interrupt": KeyboardInterrupt()}
CASES = [("numpy", name, "error") for name in PROGRAMS]
CASES += [
    ("numpy", "triangle", "interrupt"),
    ("numpy", "projection, bag", "interrupt"),
    ("shim", "triangle, kept", "error"),
]


@pytest.mark.drawn("pair", "name", "error", share=4)
@pytest.mark.parametrize(("pair", "name", "error"), CASES, indirect=["pair"])
def test_a_tick_that_fails_at_any_kernel_call_of_either_side_leaves_no_trace(name, error, pair, sides):
    text, options = PROGRAMS[name]
    error = ERRORS[error]
    calls = Calls(pair)
    program = gw.Program(text, **calls.pair.options(route=1) | options)
    alone = gw.Program(text, backend="cpu", **{"threads": 1} | options)
    failed_on = [0, 0]
    for number, tick in enumerate(TICKS):
        sides(lambda _, number=number: ON_TWIN[number])
        expected = run_tick(alone, "step", tick)
        before = seen(program)
        found = None
        for side in (0, 1):
            fails_at, failed = 0 if IS_LONG else number % 2, True
            while failed and found is None:
                calls.start(side, fails_at, error)
                found, raised = attempted(program, "step", tick)
                failed = raised is not None
                calls.start()
                if failed:
                    assert error in (raised, raised.__cause__)
                    assert seen(program) == before, f"tick {number}, side {side}, call {fails_at}"
                    failed_on[side] += 1
                    fails_at += 1 if IS_LONG else 2  # ordinarily every second call
                elif side == 0 and ON_TWIN[number]:
                    program._ledger.state = before[0]  # to let the calls of the other side fail too
                    program._ledger.settle()
                    found = None
        if found is None:
            found = run_tick(program, "step", tick)
        assert found == expected, f"tick {number}"
    assert min(failed_on) > (20 if IS_LONG else 10)
    for name in (*program.inputs, *program.heads):
        assert program.relation(name).rows() == alone.relation(name).rows()


@pytest.mark.parametrize("on_twin", [False, True])
def test_running_out_of_memory_on_either_side_says_what_to_do(on_twin, pair, sides):
    calls = Calls(pair)
    sides(lambda number: on_twin)
    program = gw.Program(PROGRAMS["triangle"][0], **calls.pair.options(route=1))
    program.step({"e": [(1, 2), (2, 3)]})
    before = seen(program)
    calls.start(int(on_twin), 2, MemoryError("42 GiB"))
    with pytest.raises(MemoryBudgetError, match=r"(?s)42 GiB.*undone"):
        program.step({"e": [(1, 3)]})
    calls.start()
    assert seen(program) == before
    assert program.step({"e": [(1, 3)]})["h"].rows() == [((1, 2, 3), 1)]


def test_a_lowering_that_fails_while_the_twin_is_ahead(pair, sides):
    """The primary side takes in its backlog to be moved, or nothing has happened."""
    calls = Calls(pair)
    sides(lambda number: number in (1, 2))
    program = gw.Program("h(a, b, c) :- e(a, b), e(b, c).", **calls.pair.options(route=1))
    for rows in ([(1, 2)], [(2, 3)], [("x", 5)][:0] or [(3, 9)]):
        program.step({"e": rows})
    before = seen(program)
    assert before[0].sides.primary.backlog
    change = {"e": pa.table({"a": [None, 3], "b": [1, 4]}, pa.schema([("a", pa.int64()), ("b", pa.int64())]))}
    fails_at, found = 0, None
    while found is None:
        calls.start(0, fails_at, RuntimeError("the kernel failed"))
        try:
            sides(lambda number: False)
            found = program.step(change)["h"].rows()
        except RuntimeError:
            fails_at += 1
            calls.start()
            assert seen(program) == before
    assert fails_at > 5
    assert found == [((None, 1, 2), 1), ((2, 3, 4), 1)]


@pytest.mark.drawn("name", "last")
@pytest.mark.parametrize("last", [False, True], ids=["on the device", "on the twin"])
@pytest.mark.parametrize("name", ["triangle", "projection"])
def test_an_interrupt_at_any_line_leaves_both_sides_before_or_after_and_never_between(name, last, sides):
    text, options = PROGRAMS[name]
    pair = pair_of("numpy")
    ticks = TICKS[:5]
    ways = [False, True, True, False, False] if last else [False, True, False, True, True]

    def fresh():
        on_twin = iter([*ways, last, last])
        sides(lambda _: next(on_twin))
        program = gw.Program(text, **pair.options(route=1) | options)
        for tick in ticks:
            program.step({"e": tick})
        return program, seen(program)

    def rows(program):
        shown = {name: program.relation(name).rows() for name in (*program.inputs, *program.heads)}
        program.compact()
        for side in program._ledger.state.sides:
            for index in side.circuit.indices():
                columns, weights = index.rows()
                shown.setdefault(index.name + "'", (np_list(columns), np_list([weights])))
                assert shown[index.name + "'"] == (np_list(columns), np_list([weights])) or index.name in program.heads
        return shown

    program, _ = fresh()
    with Interrupt(-1) as uninterrupted:
        program.step({"e": TICKS[5]})
    committed = rows(program)
    program, before = fresh()
    completed = []
    n = uninterrupted.lines
    for at in [*range(0, n - 150, 23), *range(n - 150, n)]:
        interrupt = Interrupt(at)
        try:
            with interrupt:
                program.step({"e": TICKS[5]})
        except KeyboardInterrupt:
            completed.append(interrupt.where)
        program._ledger.settle()
        if seen(program) == before:
            completed.pop()
            sides(lambda _: last)
        else:
            assert rows(program) == committed, interrupt.where
            program, before = fresh()
    assert n > 1000
    assert len(completed) < 10, completed


def np_list(columns):
    return [column.tolist() for column in columns]
