"""A tick that fails anywhere leaves the state as it was, and the next tick is right."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import MemoryBudgetError, WeightOverflowError
from gpu_wcoj.join.settings import tune
from gpu_wcoj.trace.arrangement import Arrangement
from tests.helpers.join_patterns import BOTH_WAYS, PATTERNS
from tests.helpers.long_tests import IS_LONG

AGGREGATES = (
    "n(a, c) :- e(a, _), c = count : { e(a, b), e(b, _) }. s(a, sum(b)) :- e(a, b). m(mean(b)) :- e(_, b)."
    " least(a, min(b)) :- e(a, b). most(a, max(b)) :- e(a, b), !e(b, a)."
)
WAYS = ("step", "step_counts", "step_pieces")
PROGRAMS = {
    "triangle": (PATTERNS["triangle"], {}),
    "triangle, bag": (PATTERNS["triangle"], {"bag": True}),
    "triangle, kept": (PATTERNS["triangle"], {"keep": ["h"]}),
    "4-cycle once": (PATTERNS["4-cycle once"], {"outputs": ["h", "s"]}),
    "small pieces": (PATTERNS["diamond once"], {"chunk_rows": 7}),
    "projection": (PATTERNS["heads of heads"], {}),
    "projection, bag": (PATTERNS["heads of heads"], {"bag": True}),
    "recursion": ("h(x, y) :- e(x, y). h(x, z) :- h(x, y), e(y, z).", {}),
    "recursion, best values": (
        "d(y, min(0)) :- e(8, y). d(y, min(n)) :- d(x, m), e(x, y), !e(y, 0), n = m + 1. h(x) :- d(x, 2).",
        {"outputs": ["d", "h"]},
    ),
    "recursion, bag": ("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). h(x, y) :- p(x, y), e(x, y).", {"bag": True}),
    "recursions": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), q(y, z). q(x, y) :- p(y, x), x < y. h(x) :- p(x, x).",
        {"outputs": ["h", "p"]},
    ),
    "union": (f"{BOTH_WAYS} h(x) :- s(x, _). h(y) :- e(_, y).", {"keep": ["h"]}),
    "negation": ("h(a, b, c) :- e(a, b), e(b, c), !e(a, c), !e(c, 0).", {}),
    "negation, bag": ("h(a, c) :- e(a, b), e(b, c), !e(a, c).", {"bag": True}),
    "calculation": ("h(a, z) :- e(a, b), e(b, c), z = a * 7 + c, z % 3 != 1, !e(a, z).", {}),
    "groups": ("h(a, sum(b)) :- e(a, b), e(b, c), e(c, a).", {}),
    "aggregates": (AGGREGATES, {"outputs": ["n", "s", "m", "least", "most"]}),
}


class CountingKernels:
    """Kernels of a backend whose call number `fails_at`, counted from 0, raises."""

    def __init__(self, kernels, fails_at=None, error=None):
        self.kernels, self.fails_at, self.error = kernels, fails_at, error
        self.calls = 0

    def __getattr__(self, name):
        return self.counted(self.kernels, name)

    def counted(self, kernels, name):
        attribute = getattr(kernels, name)
        if name == "walker" and attribute is not None:
            return CountingWalker(self, attribute)
        if not callable(attribute):
            return attribute

        def call(*arguments, **named):
            call_index, self.calls = self.calls, self.calls + 1
            if call_index == self.fails_at:
                raise self.error
            return attribute(*arguments, **named)

        return call


class CountingWalker:
    """The kernels of small ticks, whose calls count with those of `CountingKernels`."""

    def __init__(self, kernels, walker):
        self.kernels, self.walker = kernels, walker

    def __getattr__(self, name):
        return self.kernels.counted(self.walker, name)


@pytest.fixture
def kernels(backend) -> Iterator[tuple[object, CountingKernels]]:
    counting = CountingKernels(backend.kernels)
    return replace(backend, kernels=counting), counting


def edges(seed, n, sign=None):
    random = np.random.default_rng(seed)
    rows = random.integers(0, 9, (n, 2))
    weights = random.choice([-1, 1, 1], n) if sign is None else np.full(n, sign)
    return pa.table({"c0": rows[:, 0], "c1": rows[:, 1], "weight": weights})


def run_tick(program, way, tick):
    """The tick's changes, or counts, in a form that compares."""
    if way != "step_pieces":
        changes = getattr(program, way)({"e": tick})
        return {name: change.rows() if way == "step" else change for name, change in changes.items()}
    rows = {name: [] for name in program.outputs}
    program.step_pieces({"e": tick}, lambda name, piece: rows[name].extend(piece.rows()))
    return {name: sorted(rows_of_head) for name, rows_of_head in rows.items()}


def attempted(program, way, tick):
    """Return the result of `take` and the error that it raised, each or None."""
    try:
        return run_tick(program, way, tick), None
    except (RuntimeError, KeyboardInterrupt, MemoryBudgetError) as raised:
        return None, raised


def full_state(program):
    """All that a user can see of the state, and every batch of it."""
    indices = program._lowered.circuit.indices() if program._lowered else []
    arrangements = [arrangement for index in indices for arrangement in index.arrangements.values()]
    return {
        "relations": {name: program.relation(name).rows() for name in (*program.inputs, *program.heads)},
        "counts": {name: program.count(name) for name in program.heads},
        "ranks": [[column.tolist() for column in index.rows()[0]] for index in indices],
        "batches": [arrangement.spine for arrangement in arrangements],
        "pending": [arrangement.pending for arrangement in arrangements],
        "report": program.last_tick,
        "dictionaries": [len(dictionary) for dictionary in program.dictionaries],
    }


def check(text, options, way, error, backend, counting, first=0, every=1, is_walked=False):
    """Let each kernel call of every tick fail in turn; the state stays, and a retry is right.

    A tick that is walked row by row has one call, any other more than three.
    """
    ticks = [edges(1, 40, 1), edges(2, 12), edges(3, 12)]
    with tune() if is_walked else tune(max_tick_rows=-1):
        twin, program = (gw.Program(text, backend=backend, **{"threads": 1} | options) for _ in range(2))
    for tick_index, tick in enumerate(ticks):
        expected = run_tick(twin, way, tick)
        before = full_state(program)
        fails_at = first
        while True:
            counting.calls, counting.fails_at, counting.error = 0, fails_at, error
            answers, raised = attempted(program, way, tick)
            counting.fails_at = None
            if raised is None:
                break
            assert error in (raised, raised.__cause__)
            assert full_state(program) == before, f"tick {tick_index}, call {fails_at}"
            fails_at += every
        assert answers == expected, f"tick {tick_index}"
        assert fails_at > (0 if is_walked and tick_index else 3)
        assert full_state(program)["relations"] == full_state(twin)["relations"]


@pytest.mark.drawn("way")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_tick_that_fails_at_any_kernel_call_leaves_no_trace(name, way, kernels):
    """Ordinarily each of the three ways has a third of the calls fail."""
    text, options = PROGRAMS[name]
    share = {} if IS_LONG else {"first": WAYS.index(way), "every": len(WAYS)}
    check(text, options, way, RuntimeError("the kernel failed"), *kernels, **share)


@pytest.mark.drawn("error", "name", share=4)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("full")], ids=["interrupt", "memory"])
@pytest.mark.parametrize(
    "name", ["triangle", "4-cycle once", "projection", "projection, bag", "recursion", "recursion, best values"]
)
def test_a_tick_that_is_interrupted_or_out_of_memory_at_any_kernel_call_leaves_no_trace(name, error, kernels):
    text, options = PROGRAMS[name]
    check(text, options, "step", error, *kernels)


@pytest.mark.drawn("name", "error", each=True)
@pytest.mark.parametrize("error", [RuntimeError("the kernel failed"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("name", ["triangle", "triangle, bag", "negation", "projection", "projection, bag"])
def test_a_walked_tick_that_fails_at_any_kernel_call_leaves_no_trace(name, error, kernels):
    text, options = PROGRAMS[name]
    for way in ("step", "step_counts"):
        check(text, options, way, error, *kernels, is_walked=True)


def test_a_tick_that_fails_in_a_thread_leaves_no_trace(kernels, monkeypatch):
    monkeypatch.setattr("gpu_wcoj.join.delta.SPLIT_FROM", 1)
    check(PATTERNS["triangle"], {"threads": 2}, "step", RuntimeError("the kernel failed"), *kernels)


def test_running_out_of_memory_says_what_to_do(kernels):
    backend, counting = kernels
    program = gw.Program(PATTERNS["triangle"], backend=backend)
    counting.fails_at, counting.error = 3, MemoryError("42 GiB")
    with pytest.raises(MemoryBudgetError, match=r"(?s)42 GiB.*undone.*chunk_rows"):
        program.step({"e": [(1, 2)]})


@pytest.mark.usefixtures("large_ticks")
class TestOtherFailures:
    """Failures outside the kernels."""

    def program(self, backend, **options):
        program = gw.Program(PATTERNS["triangle"], backend=backend, threads=1, **options)
        program.step({"e": [(1, 2), (2, 3)]})
        return program, full_state(program)

    @pytest.mark.parametrize("error", [RuntimeError("no space left"), KeyboardInterrupt()])
    @pytest.mark.parametrize("bag", [False, True])
    def test_a_sink_that_raises(self, bag, error, backend):
        program, before = self.program(backend, bag=bag)

        def sink(name, piece):
            raise error

        with pytest.raises(type(error)) as raised:
            program.step_pieces({"e": [(1, 3)]}, sink)
        assert raised.value is error
        assert full_state(program) == before
        assert program.step({"e": [(1, 3)]})["h"].rows() == [((1, 2, 3), 1)]

    @pytest.mark.parametrize("method", ["committed", "receive_delta"])
    @pytest.mark.parametrize("which", range(2))
    def test_an_arrangement_that_raises(self, method, which, backend, monkeypatch):
        program, before = self.program(backend)
        arrangement = list(program._lowered.circuit.sources["e"].arrangements.values())[which]

        right = getattr(Arrangement, method)

        def fail(self, *arguments):
            if self is arrangement:
                raise RuntimeError("the arrangement failed")
            return right(self, *arguments)

        monkeypatch.setattr(Arrangement, method, fail)
        with pytest.raises(RuntimeError, match="the arrangement failed"):
            program.step({"e": [(1, 3), (7, 8)]})
        monkeypatch.undo()
        assert full_state(program) == before
        assert program.step({"e": [(1, 3)]})["h"].rows() == [((1, 2, 3), 1)]

    def test_an_overflow_in_the_answer(self, backend):
        program, _ = self.program(backend, bag=True)
        program.step({"e": [((1, 2), 2**40), ((2, 3), 2**40)]})
        before = full_state(program)
        with pytest.raises(WeightOverflowError, match=r"\(1, 2, 3\)"):
            program.step({"e": [((1, 3), 1)]})
        assert full_state(program) == before
        assert program.step({"e": [((1, 2), -(2**40)), ((1, 3), 1)]})["h"].rows() == [((1, 2, 3), 2**40 + 1)]

    def test_text_of_a_failed_tick_is_taken_back(self, kernels):
        backend, counting = kernels
        program = gw.Program(PATTERNS["triangle"], backend=backend, threads=1)
        program.step({"e": [("a", "b"), ("b", "c")]})
        before = full_state(program)
        for fails_at in range(4):
            counting.calls, counting.fails_at, counting.error = 0, fails_at, RuntimeError("the kernel failed")
            with pytest.raises(RuntimeError, match="the kernel failed"):
                program.step({"e": [("new", "a"), ("newer", "a")]})
            assert full_state(program) == before
        counting.fails_at = None
        assert program.step({"e": [("a", "c")]})["h"].rows() == [(("a", "b", "c"), 1)]

    def test_a_tick_that_needs_another_lowering_and_fails(self, kernels):
        """Nulls for the first time: the state is moved into wider columns, or not at all."""
        backend, counting = kernels
        program = gw.Program("h(a, b, c) :- e(a, b), e(b, c).", backend=backend, threads=1)
        program.step({"e": [(1, 2), (2, 3)]})
        before = full_state(program)
        change = {"e": pa.table({"a": [None, 3], "b": [1, 4]}, pa.schema([("a", pa.int64()), ("b", pa.int64())]))}
        fails_at, failed = 0, True
        while failed:
            counting.calls, counting.fails_at, counting.error = 0, fails_at, RuntimeError("the kernel failed")
            try:
                rows = program.step(change)["h"].rows()
                failed = False
            except RuntimeError:
                fails_at += 1
            counting.fails_at = None
            assert not failed or full_state(program) == before
        assert fails_at > 5
        assert rows == [((None, 1, 2), 1), ((2, 3, 4), 1)]


def test_ticks_go_on_after_a_failure_as_if_it_had_not_been(kernels):
    """Ticks that failed once each give the answers of a program that never failed."""
    backend, counting = kernels
    random = np.random.default_rng(5)
    twin, program = (gw.Program(PATTERNS["heads of heads"], backend=backend, threads=1) for _ in range(2))
    for tick_index in range(40):
        tick = edges(tick_index, 8)
        counting.calls = 0
        expected = run_tick(twin, "step", tick)
        counting.calls, counting.fails_at = 0, int(random.integers(0, counting.calls))
        counting.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            run_tick(program, "step", tick)
        counting.fails_at = None
        assert run_tick(program, "step", tick) == expected
    assert program.relation("h") == twin.relation("h")


class Interrupt:
    """Raise KeyboardInterrupt at the given line, counted from 0, that the package executes."""

    def __init__(self, line_number):
        self.at, self.lines, self.where = line_number, 0, ("", 0)

    def __enter__(self):
        self.before = sys.gettrace()  # of coverage, if it measures this run
        sys.settrace(self.trace)
        return self

    def __exit__(self, *raised):
        sys.settrace(self.before)

    def trace(self, frame, event, argument):
        if "/gpu_wcoj/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.at + 1:
                self.where = (frame.f_code.co_name, frame.f_lineno)
                raise KeyboardInterrupt
        return self.trace


@pytest.mark.drawn("name", "keep", "walks", "fewest_lines", share=3)
@pytest.mark.parametrize(
    ("name", "keep", "walks", "fewest_lines"),
    [
        ("triangle", [], True, 300),
        ("triangle", [], False, 1000),
        ("projection of a join", ["h"], True, 300),
        ("projection of a join", ["h"], False, 1000),
        ("recursion", [], True, 1000),
        ("groups", [], True, 300),
    ],
)
def test_an_interrupt_at_any_line_leaves_the_state_before_or_after_and_never_between(name, keep, walks, fewest_lines):
    """Behind the commit, only the few lines that return are left."""
    *first, final = [edges(1, 40, 1), edges(2, 12), edges(3, 12)]

    def fresh():
        with tune(max_tick_rows=256 if walks else -1):
            program = gw.Program(PATTERNS.get(name) or PROGRAMS[name][0], threads=1, keep=keep)
        for tick in first:
            program.step({"e": tick})
        return program, full_state(program)

    twin, _ = fresh()
    with Interrupt(-1) as uninterrupted:
        twin.step({"e": final})
    committed = full_state(twin)["relations"]
    program, before = fresh()
    completed = []
    n = uninterrupted.lines
    for line in [*range(0, n - 200, 1 if n < 1000 else 17), *range(n - 200, n)]:
        interrupt = Interrupt(line)
        try:
            with interrupt:
                program.step({"e": final})
        except KeyboardInterrupt:
            completed.append(interrupt.where)
        now = full_state(program)
        if now == before:
            completed.pop()
        else:
            assert now["relations"] == committed, interrupt.where
            program, before = fresh()
    assert n > fewest_lines
    assert len(completed) < 10, completed


def _due() -> gw.Program:
    """A program that is to be planned anew by what its ticks have done."""
    program = gw.Program("h(a, b, c, d) :- s(a, d), r(a, b, c), u(b), v(c).", threads=1, keep=["h"])
    random = np.random.default_rng(0)
    rows = np.unique(np.stack([random.integers(0, top, 12_000) for top in (40, 100, 100)], axis=1), axis=0)
    program.step({"r": rows, "u": [(0,)], "v": [(i,) for i in range(100)], "s": [(0, 0)]})
    program.step({"u": [(i,) for i in range(1, 100)], "v": [((i,), -1) for i in range(1, 100)]})
    for _ in range(100):
        if program._ledger.feedback.is_due:
            return program
        program.step({"s": random.integers(0, (40, 10**6), (2000, 2))})
    raise AssertionError("the plan still stands after a hundred ticks")


def _refusing(_: str, __: gw.ZSet) -> None:
    raise ValueError("no more")


@pytest.mark.parametrize("way", ["reading", "handing out"])
def test_a_tick_that_fails_leaves_the_plan_too(way):
    """Also where the program was planned anew for it."""
    program, fresh = _due(), _due()
    plan, rows, n_state_rows = program.explain(), program.relation("h"), program.state_rows
    with pytest.raises(ValueError, match="columns" if way == "reading" else "no more"):
        program.step_pieces({"s": [(1,)] if way == "reading" else [(1, -1), (2, -1)]}, _refusing)
    assert (program.explain(), program.relation("h"), program.state_rows) == (plan, rows, n_state_rows)
    for tick_index in range(20):
        tick = {"s": np.random.default_rng(tick_index).integers(0, (40, 10**6), (2000, 2))}
        assert program.step(tick) == fresh.step(tick)
    assert f"\nplan: chosen anew before tick {program.last_tick.tick - 19}," in fresh.explain()
    assert "\nplan: chosen anew before tick" in program.explain()
    assert program.relation("h") == fresh.relation("h")


def test_a_tick_is_undone_even_where_its_error_cannot_be_shown(monkeypatch):
    def no_room(*_):
        raise MemoryError("no room for a message")

    program = gw.Program("h(a, c) :- r(a, b), s(b, c), 7 / c > 0.")
    program.step({"r": [("x", 2)], "s": [(2, 3)]})

    def contents():
        return program.relation("h").rows(), program.relation("r").rows(), len(program.dictionaries[0])

    before = contents()
    with monkeypatch.context() as patched:
        patched.setattr(type(program._outgoing), "to_user_error", no_room)
        with pytest.raises(MemoryError, match="no room for a message"):
            program.step({"r": [("y", 6)], "s": [(6, 0)]})
    assert contents() == before
    assert program.step({"r": [("z", 2)]})["h"].rows() == [(("z", 3), 1)]
