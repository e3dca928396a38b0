"""Small ticks: the same answers, state and errors as ticks that run path by path, and as a fresh program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpu_wcoj as gw
from cpu_fallback.tries import PROPOSALS
from gpu_wcoj.checkpoint import Checkpoint
from gpu_wcoj.engine import small_ticks
from gpu_wcoj.engine.small_ticks import WalkWork
from gpu_wcoj.engine.state import TickReport
from gpu_wcoj.join.settings import Tuning, tune
from gpu_wcoj.join.walk import UnsuitableTickError
from gpu_wcoj.trace import spine
from gpu_wcoj.trace.spine import MergePolicy, Spine
from gpu_wcoj.zset.index import TrieMerge
from tests.helpers.long_tests import IS_LONG

ORDERED = "e(a, b) :- edge(a, b), a < b.\n"
SYMMETRIC = "s(a, b) :- edge(a, b).\ns(b, a) :- edge(a, b).\n"
PROGRAMS = {
    "triangle": ORDERED + "t(a, b, c) :- e(a, b), e(b, c), e(a, c).\n.output t",
    "clique4": ORDERED + "t(a, b, c, d) :- e(a, b), e(a, c), e(a, d), e(b, c), e(b, d), e(c, d).\n.output t",
    "clique5": ORDERED
    + "t(a, b, c, d, f) :- e(a, b), e(a, c), e(a, d), e(a, f), e(b, c), e(b, d), e(b, f), e(c, d), e(c, f), e(d, f).\n"
    + ".output t",
    "diamond": ORDERED + SYMMETRIC + "t(a, b, c, d) :- e(a, b), s(a, c), s(b, c), s(a, d), s(b, d), c < d.\n.output t",
    "cycle4": SYMMETRIC + "t(a, b, c, d) :- s(a, b), s(b, c), s(c, d), s(d, a), a < b, a < c, a < d, b < d.\n.output t",
    "cycle3": "t(a, b, c) :- edge(a, b), edge(b, c), edge(c, a).",
    "loop": "t(a, b) :- edge(a, b), edge(b, a), edge(a, a).",
    "negation": "t(a, b, c) :- edge(a, b), edge(b, c), !edge(a, c), a != c.",
    "projection": "t(a, d) :- edge(a, b), edge(b, c), edge(c, d).",
    "house": "t(a, b, c, d, f) :- edge(a, b), edge(b, c), edge(c, d), edge(d, a), edge(a, f), edge(b, f), a != c.",
    "constants": "t(b, c) :- edge(3, b), edge(b, c), edge(c, 3), c > 4.",
    "star": "t(a) :- edge(a, b), edge(a, c), edge(a, d), edge(e, a).",
    "strata": "t(a, c) :- edge(a, b), f(b, c).\nu(a) :- t(a, c), !f(a, c).\n.output t\n.output u",
    "wildcards": "t(a) :- edge(a, _), f(_, a).",
    "cross": "t(a, d) :- edge(a, b), f(c, d), b >= d.",
    "counted": "t(a, count()) :- edge(a, b), edge(b, c), edge(c, a).\nu(n, count()) :- t(a, n).",
    "summed": "t(a, sum(c)) :- edge(a, b), f(b, c).\nu(a) :- t(a, n), n > 20, !f(a, a).",
    "extremes": "t(a, min(c)) :- edge(a, b), f(b, c).\nu(a, max(c)) :- edge(a, b), f(b, c).\nv(a) :- t(a, b), u(a, b).",
    "means": "t(a, mean(b)) :- edge(a, b).\nu(mean(b)) :- edge(a, b), f(a, _).",
    "whole": "t(n) :- n = count : { edge(_, _) }.\nu(max(b)) :- edge(a, b).\nv(sum(b)) :- edge(a, b), f(b, _).",
    "arity3": "t(a, d) :- g(a, b, c), edge(b, d), g(d, c, a).",
}
WIDTHS = {"g": 3}
VALUES: dict[str, Callable[[int], Any]] = {
    "text": lambda n: f"account {n}",
    "bytes": lambda n: None if n == 3 else bytes([n % 256]),
    "float": lambda n: n / 4,
    "date": lambda n: date(2020, 1, 1) + timedelta(days=n),
    "null": lambda n: None if n % 5 == 2 else n,
}
"""Values of each type, from integers."""

Rows = list[tuple[tuple[Any, ...], int]]
SLOW_MERGES = MergePolicy(ratio=4, instalment=8, fuel=0.1, ahead=1)
"""Merges read few rows per inserted row, so that many are running at any time."""


class Twins:
    """A program whose small ticks walk, and one whose ticks never do, that must stay equal."""

    def __init__(
        self, text: str, bag: bool, rng: np.random.Generator, value: Callable[[int], Any] | None = None,
        policy: MergePolicy | None = None,
    ) -> None:  # fmt: skip
        self.rng, self.bag, self.value = rng, bag, value
        self.walking = gw.Program(text, backend="cpu", bag=bag, merge_policy=policy)
        with tune(max_tick_rows=-1):
            self.plain = gw.Program(text, backend="cpu", bag=bag)
        self.text = text
        self.aggregates = any(f"{op}(" in text or f"{op} :" in text for op in ("count", "sum", "mean", "max"))
        """Most ticks of bags leave no negative weight then, which aggregates refuse."""
        self.n_values = int(rng.choice([6, 25]))
        self.scale = int(rng.choice([1, 2**40])) if value is None else 1
        self.rows: dict[str, Counter[tuple[Any, ...]]] = {}
        start = {}
        for name in self.walking.inputs:
            given = [self._row(name) for _ in range(int(rng.integers(0, 4 * self.n_values)))]
            self.rows[name] = Counter(given) if bag else Counter(set(given))
            start[name] = given
        for program in (self.walking, self.plain):
            program.load(start)
        self.n_walked = 0

    def _row(self, name: str) -> tuple[Any, ...]:
        row = tuple((self.rng.integers(0, self.n_values, WIDTHS.get(name, 2)) * self.scale).tolist())
        return row if self.value is None else tuple(map(self.value, row))

    def change(self) -> dict[str, Rows]:
        """Return a random change: deletions of rows that are there or not, insertions of either, repeats."""
        changes: dict[str, Rows] = {}
        for name, present in self.rows.items():
            if len(self.rows) > 1 and self.rng.random() < 0.3:
                continue
            rows: Rows = []
            for _ in range(int(self.rng.choice([1, 1, 1, 2, 5, 20]))):
                if self.rng.random() < 0.5 and present:
                    row = list(present)[int(self.rng.integers(len(present)))]
                    most = max(1, present[row]) if self.aggregates and self.rng.random() < 0.98 else 2
                    rows.append((row, -int(self.rng.integers(1, most + 1)) if self.bag else -1))
                else:
                    rows.append((self._row(name), int(self.rng.integers(1, 4)) if self.bag else 1))
                row, weight = rows[-1]
                present[row] = present[row] + weight if self.bag else int(weight > 0)
                if present[row] == 0:
                    del present[row]
            changes[name] = rows
        return changes

    def tick(self) -> None:
        """Run one random tick on both programs, and compare what it returns."""
        before = {name: rows.copy() for name, rows in self.rows.items()}
        changes = self.change()
        how = str(self.rng.choice(["step", "step_counts", "load"]))
        results = []
        for program in (self.walking, self.plain):
            try:
                results.append((getattr(program, how)(changes), None))
            except gw.errors.GpuWcojError as error:
                results.append((None, str(error)))
        (answer, error), (expected, expected_error) = results
        self.n_walked += error is None and not self.walking.last_tick.path_by_path
        assert error == expected_error
        if error is not None:  # the tick was undone
            self.rows = before
        if how == "step" and answer is not None:
            assert {name: change.rows() for name, change in answer.items()} == {
                name: change.rows() for name, change in expected.items()
            }
        elif how == "step_counts":
            assert answer == expected
        assert self.walking.last_tick.ignored == self.plain.last_tick.ignored

    def compare_state(self) -> None:
        """Compare all relations, with each other and with a program that gets all rows at once."""
        fresh = gw.Program(self.text, backend="cpu", bag=self.bag)
        fresh.load({name: [(row, n) for row, n in rows.items()] for name, rows in self.rows.items()})
        for name in (*fresh.inputs, *fresh.heads):
            expected = self.plain.relation(name)
            assert expected.to_dict() == fresh.relation(name).to_dict(), name
            assert self.walking.relation(name).rows() == expected.rows(), name
            assert self.walking.count(name) == fresh.count(name), name


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_small_ticks_equal_large_ones_and_recomputation(name: str, bag: bool) -> None:
    for seed in range(3 if IS_LONG else 1):
        rng = np.random.default_rng([seed, len(name), bag])
        with tune(max_memtable_rows=8 if seed == 1 else 512):
            twins = Twins(PROGRAMS[name], bag, rng, policy=SLOW_MERGES if seed == 1 else None)
        for _ in range(12):
            twins.tick()
            if seed == 2 or rng.random() < 0.2:
                twins.compare_state()
        twins.compare_state()
        assert twins.n_walked > 3, twins.walking._ledger.small.obstacles  # type: ignore[union-attr]


@pytest.mark.drawn("name")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", ["cycle3", "negation", "projection", "strata", "counted", "extremes", "arity3"])
@pytest.mark.parametrize("form", VALUES)
def test_ticks_of_all_types_walk(form: str, name: str, bag: bool) -> None:
    rng = np.random.default_rng([len(form), len(name), bag])
    twins = Twins(PROGRAMS[name], bag, rng, VALUES[form])
    for _ in range(10):
        twins.tick()
    twins.compare_state()
    assert twins.n_walked > 3, twins.walking.last_tick.path_by_path


def test_rows_that_are_read_after_every_tick_stay_in_the_state() -> None:
    program = gw.Program("h(a, b) :- e(a, b), e(b, b).", backend="cpu", bag=True)
    program.step({"e": np.empty((0, 2), np.int64)})
    expected: Counter[tuple[int, ...]] = Counter()
    for row in [(2**40, 2**40), (0, 2**40), (1, 0), (2**40, 2**40)]:  # codes that are stored as int64
        program.step({"e": [row]})
        expected[row] += 1
        assert program.relation("e").to_dict() == expected


def _triangles() -> gw.Program:
    return _triangles_of([(i, i + 1) for i in range(30)] + [(i, i + 2) for i in range(30)])


def _triangles_of(rows: list[tuple[int, ...]]) -> gw.Program:
    program = gw.Program(PROGRAMS["triangle"], backend="cpu")
    if rows:
        program.load({"edge": rows})
    return program


def _rows(program: gw.Program) -> dict[str, Any]:
    return {name: program.relation(name).rows() for name in (*program.inputs, *program.heads)}


@pytest.mark.parametrize("scale", [1, -(2**40)])
@pytest.mark.parametrize("name", ["triangle", "cycle3", "negation", "arity3"])
def test_ticks_of_many_rows_beside_large_batches(name: str, scale: int) -> None:
    """Their ranges are prefetched, of values below, above and between those of the batches, too."""
    rng = np.random.default_rng(11)
    walking = gw.Program(PROGRAMS[name], backend="cpu")
    with tune(max_tick_rows=-1):
        plain = gw.Program(PROGRAMS[name], backend="cpu")

    def rows(n: int, low: int, high: int) -> dict[str, list[tuple[int, ...]]]:
        return {
            relation: [tuple(row) for row in (scale * rng.integers(low, high, (n, WIDTHS.get(relation, 2)))).tolist()]
            for relation in walking.inputs
        }

    start = rows(6_000, 100, 1_500)
    for program in (walking, plain):
        program.load(start)
    for n in (16, 40, 97):
        changes = {
            relation: [*inserted, *((row, -1) for row in start[relation][n : 2 * n])]
            for relation, inserted in rows(n, 0, 1_600).items()
        }
        answers = [program.step(changes)["t"].rows() for program in (walking, plain)]
        assert answers[0] == answers[1]
        assert not walking.last_tick.path_by_path
    assert _rows(walking) == _rows(plain)


def test_ticks_stay_in_the_memtables_until_something_reads_the_state() -> None:
    program = _triangles()
    before = program._ledger.present.sides
    for i in range(20):
        assert program.step_counts({"edge": [(i, i + 3)]})["t"].net >= 2
    assert program._ledger.present.sides is before
    assert program._ledger.present.recent is not None
    assert program.count("edge") == 80
    assert program._ledger.present.recent is None
    assert [sum(rows) for rows in program.state_rows.values()] == [80, 80, 80]


def test_full_memtables_become_batches() -> None:
    with tune(max_memtable_rows=4):
        program = _triangles()
    rows = []
    for i in range(8):
        program.step_counts({"edge": [(i, i + 3)]})
        rows.append(program._ledger.present.sides.primary.relation_rows)  # type: ignore[union-attr]
    assert rows == [60] * 5 + [65] * 3


def _ticks_of_one_edge(program: gw.Program, seed: int, n_ticks: int) -> set[tuple[int, ...]]:
    """Insert and delete edges, one a tick, and return the edges that are left.

    A tick that fails is done again.
    """
    rng, rows = np.random.default_rng(seed), set(program.relation("edge").to_dict())
    for _ in range(n_ticks):
        row = tuple(int(value) for value in rng.integers(0, 40, 2))
        while True:
            tick = program.last_tick.tick
            try:
                program.step_counts({"edge": [(row, -1 if row in rows else 1)]})
                break
            except (gw.errors.MemoryBudgetError, KeyboardInterrupt):
                assert program.last_tick.tick == tick
        rows ^= {row}
    return rows


@pytest.mark.parametrize("works_ahead", [False, True])
def test_small_ticks_do_their_part_of_running_merges(works_ahead: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a tick that turns memtables into batches would do that of all of them."""
    policy = MergePolicy(ratio=16, instalment=64, ahead=16)
    if not works_ahead:
        monkeypatch.setattr(Spine, "work_ahead", lambda *_: None)
    with tune(max_memtable_rows=16):
        program = gw.Program(PROGRAMS["triangle"], backend="cpu", merge_policy=policy)
    program.load({"edge": [(i, j) for i in range(100) for j in range(40)]})
    advance, read = TrieMerge.advance, []

    def record(merge: TrieMerge, n_read: int) -> None:
        read.append(n_read - merge.n_read)
        advance(merge, n_read)

    monkeypatch.setattr(TrieMerge, "advance", record)
    rows = _ticks_of_one_edge(program, 1, 300)
    assert _rows(program) == _rows(_triangles_of(sorted(rows)))
    assert (max(read) <= 3 * policy.fuel * policy.ratio) == works_ahead


def test_batches_of_a_complete_merge_are_searched_as_one_from_the_next_tick_on() -> None:
    with tune(max_memtable_rows=16):
        program = gw.Program(PROGRAMS["triangle"], backend="cpu", merge_policy=MergePolicy(ratio=600, ahead=16))
    program.load({"edge": [(i, j) for i in range(100) for j in range(40)]})
    rows = {(i, j) for i in range(100) for j in range(40)}
    n_batches = []
    for i in range(60):
        program.step_counts({"edge": [(i, 50)]})
        rows.add((i, 50))
        state = program._ledger.present
        assert state.sides is not None
        spines = [spine for of_relation in state.sides.primary.circuit_state.spines for spine in of_relation.values()]
        n_batches.append(max(len(spine.batches) for spine in spines if spine))
        assert state.recent is not None
    assert (n_batches[17], n_batches[32]) == (2, 1)
    assert _rows(program) == _rows(_triangles_of(sorted(rows)))


@pytest.mark.drawn("error", "name", each=True)
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize(
    "name", ["_pending_batches", "Spine.insert", "Spine.work_ahead", "Spine.with_complete_merges", "TrieMerge.advance"]
)
def test_a_tick_that_fails_while_batches_are_merged_leaves_the_state_as_it_was(
    name: str, error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails before or after that work."""
    with tune(max_memtable_rows=12):
        program = gw.Program(PROGRAMS["triangle"], backend="cpu", merge_policy=SLOW_MERGES)
    program.load({"edge": [(i, j) for i in range(40) for j in range(0, 40, 3)]})
    place, _, attribute = name.rpartition(".")
    owner = {"": small_ticks, "Spine": spine.Spine, "TrieMerge": TrieMerge}[place]
    function, rng, n_failed = getattr(owner, attribute), np.random.default_rng(1), 0

    def fail(*arguments: Any) -> Any:
        nonlocal n_failed
        drawn = rng.random()
        n_failed += drawn < 0.2
        if drawn < 0.1:
            raise error
        result = function(*arguments)
        if drawn < 0.2:
            raise error
        return result

    monkeypatch.setattr(owner, attribute, fail)
    rows = _ticks_of_one_edge(program, 5, 300)
    monkeypatch.undo()
    assert n_failed > 1
    assert _rows(program) == _rows(_triangles_of(sorted(rows)))


@pytest.mark.parametrize("has_run", [False, True], ids=["before", "after"])
def test_an_interrupted_small_tick_leaves_the_state_as_it_was(has_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    program, expected = _triangles(), _triangles()
    program.step({"edge": [(0, 3)]})
    expected.step({"edge": [(0, 3)]})
    kernels = type(program.backend.kernels.walker)
    run_tick = kernels.run_tick

    def interrupt(tick: int) -> None:
        if has_run:
            run_tick(tick)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(kernels, "run_tick", staticmethod(interrupt))
        with pytest.raises(KeyboardInterrupt):
            program.step({"edge": [(1, 4), ((0, 1), -1)]})
    assert program.last_tick.tick == expected.last_tick.tick
    for change in ([(1, 4), ((0, 1), -1)], [((0, 3), -1)]):
        assert program.step({"edge": change})["t"].rows() == expected.step({"edge": change})["t"].rows()
    assert _rows(program) == _rows(expected)


def test_memory_that_runs_out_while_memtables_are_emptied_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program, expected = _triangles(), _triangles()
    for ticked in (program, expected):
        ticked.step({"edge": [(0, 3), ((4, 5), -1)]})

    def fail(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(type(program.backend.kernels), "merge_tries", staticmethod(fail))
        patched.setattr(small_ticks, "_pending_batches", fail)
        with pytest.raises(gw.errors.MemoryBudgetError, match=r"(?s)small ticks.*as before"):
            program.relation("edge")
    assert program.step({"edge": [(1, 4)]})["t"].rows() == expected.step({"edge": [(1, 4)]})["t"].rows()
    assert _rows(program) == _rows(expected)


def test_marks_and_checkpoints_hold_the_rows_of_small_ticks(tmp_path: Any) -> None:
    program = _triangles()
    program.step({"edge": [(0, 3)]})
    mark = program.mark()
    before = _rows(program)
    program.step({"edge": [(1, 4)]})
    program.step({"edge": [((0, 1), -1)]})
    program.return_to(mark)
    assert _rows(program) == before
    program.step({"edge": [(1, 4)]})
    with Checkpoint.open(tmp_path / "checkpoint", program=program) as checkpoint:
        checkpoint.commit(0)
        program.step({"edge": [((1, 4), -1), (2, 5)]})
        checkpoint.commit(1)
    opened = _triangles_of([])
    with Checkpoint.open(tmp_path / "checkpoint", program=opened) as checkpoint:
        checkpoint.restore(opened)
    assert _rows(opened) == _rows(program)


def test_arrow_batches_with_and_without_weights_are_read() -> None:
    program, expected = _triangles(), _triangles()
    names = list(program.relation("edge").names)
    batch = pa.RecordBatch.from_arrays([pa.array([0, 1]), pa.array([3, 4])], names=names)
    assert program.step({"edge": batch})["t"].rows() == expected.step({"edge": [(0, 3), (1, 4)]})["t"].rows()
    assert program._ledger.present.recent is not None
    deletions = batch.append_column("weight", pa.array([-1, -1]))
    assert (
        program.step({"edge": deletions})["t"].rows()
        == expected.step({"edge": [((0, 3), -1), ((1, 4), -1)]})["t"].rows()
    )
    assert _rows(program) == _rows(expected)


@pytest.mark.parametrize(
    "change",
    [
        [("a", "b")],
        [(1, 2, 3)],
        [(1, 2**70)],
        [((1, 2), "x")],
        {"c0": [1], "c2": [2]},
    ],
)
def test_rows_that_do_not_fit_are_refused_as_before(change: Any) -> None:
    program, expected = _triangles(), gw.Program(PROGRAMS["triangle"], backend="cpu")
    program.step({"edge": [(0, 3)]})
    before = program.last_tick.tick
    with pytest.raises(gw.errors.GpuWcojError) as caught:
        program.step({"edge": change})
    expected.load({"edge": [(0, 1)]})
    with pytest.raises(type(caught.value)):
        expected.step({"edge": change})
    assert program.last_tick.tick == before
    assert program.count("edge") == 61


def test_a_walk_that_turns_out_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpu_wcoj.join import walk

    monkeypatch.setattr(walk, "BUDGET_CANDIDATES", 1)
    text = "t(a, d) :- edge(a, b), edge(b, c), edge(c, d)."
    expected = gw.Program(text, backend="cpu")
    with tune(max_walk_work=8):
        program = gw.Program(text, backend="cpu")
    rows = [(a, b) for a in range(12) for b in range(12)]
    for ticked in (program, expected):
        ticked.load({"edge": rows})
    wanted = expected.step({"edge": [(20, 3), (3, 21)]})["t"].rows()
    assert program.step({"edge": [(20, 3), (3, 21)]})["t"].rows() == wanted
    assert program._ledger.present.recent is None
    assert program.last_tick.path_by_path == "the walk of a rule looked at more than 8 values"


def test_a_tick_of_one_edge_makes_a_bounded_number_of_calls() -> None:
    """Calls do not hang on a machine's noise: a triangle's edge made 1,025 calls of Python functions before."""
    import sys

    program = _triangles()
    names = list(program.relation("edge").names)
    batches = [pa.RecordBatch.from_arrays([pa.array([i]), pa.array([i + 3])], names=names) for i in range(4)]
    for batch in batches[:3]:
        program.step_counts({"edge": batch})
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        program.step_counts({"edge": batches[3]})
    finally:
        sys.setprofile(None)
    assert calls <= 70


def test_the_size_of_the_state_is_read_without_emptying_the_memtables() -> None:
    program = _triangles()
    program.step({"edge": [(0, 3)]})
    recent = program._ledger.present.recent
    assert program.nbytes > 0
    assert program.last_tick.tick == 1
    assert program._ledger.present.recent is recent
    program.step_counts({"edge": np.empty((0, 2), np.int64)})
    assert program._ledger.present.recent is recent
    assert program.last_tick.tick == 2


def test_a_tick_that_changes_nothing_keeps_the_memtables() -> None:
    program = _triangles()
    program.step({"edge": [(0, 3)]})
    recent = program._ledger.present.recent
    assert program.step_counts({"edge": [(0, 3), ((7, 70), -1)]})["t"].net == 0
    assert program.last_tick.ignored == {"edge": 2}
    assert program._ledger.present.recent is recent
    assert program.step({"edge": [((0, 3), -1), (0, 3)]})["t"].rows() == []
    assert program.count("edge") == 61


def test_changes_that_are_no_mapping_are_refused() -> None:
    program = _triangles()
    program.step({"edge": [(0, 3)]})
    with pytest.raises(gw.errors.GpuWcojError):
        program.step([("edge", [(1, 4)])])  # type: ignore[arg-type]
    assert program.count("edge") == 61


def test_measured_ticks_are_no_small_ones() -> None:
    program = _triangles()
    program.step({"edge": [(0, 3)]})
    program.explain(analyze=True)
    program.step({"edge": [(1, 4)]})
    assert program._ledger.present.recent is None
    assert "(not measured)" not in program.explain(analyze=True)


def test_a_tick_that_is_committed_does_not_fail_as_its_memtables_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    with tune(max_memtable_rows=1):
        program = _triangles()
    expected = _triangles()
    expected.step({"edge": [(0, 3), (1, 4)]})

    def fail(*_arguments: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(small_ticks, "_pending_batches", fail)
        program.step({"edge": [(0, 3), (1, 4)]})
        with pytest.raises(gw.errors.MemoryBudgetError):
            program.step({"edge": [(2, 5)]})
    assert _rows(program) == _rows(expected)


def test_work_that_made_ticks_large_ones_is_forgotten() -> None:
    program = _triangles()
    program.step({"edge": [(0, 3)]})
    small = program._ledger.small
    assert small is not None
    small.work_per_row = 4.0 * Tuning().max_expected_work
    with pytest.raises(UnsuitableTickError, match="expected to look at more than 48,000,000 values"):
        small.check(1)
    for _ in range(16):
        with suppress(UnsuitableTickError):
            small.check(1)
    small.check(1)


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", ["clique4", "clique5", "diamond", "cycle4", "house"])
def test_answers_over_long_ranges_equal_those_of_large_ticks(name: str, bag: bool) -> None:
    rng = np.random.default_rng(len(name))
    ends = (rng.random((4000 if name in ("clique5", "house") else 12000, 2)) ** 3 * 500).astype(np.int64)
    program = gw.Program(PROGRAMS[name], backend="cpu", bag=bag)
    with tune(max_tick_rows=-1):
        large = gw.Program(PROGRAMS[name], backend="cpu", bag=bag)
    for each in (program, large):
        each.load({"edge": ends})
    for i in range(12):
        rows = np.concatenate([(rng.random((6, 2)) ** 3 * 500).astype(np.int64), ends[rng.integers(0, len(ends), 3)]])
        weights = np.where(np.arange(9) < 6, 1, -1)
        change = {"edge": pa.table({"c0": rows[:, 0], "c1": rows[:, 1], "weight": weights})}
        if i % 4 == 3:
            listed = program.step(change)
            assert bag or not program.last_tick.path_by_path
            assert {name: rows.to_dict() for name, rows in listed.items()} == {
                name: rows.to_dict() for name, rows in large.step(change).items()
            }
            continue
        counts = program.step_counts(change)
        assert bag or any(isinstance(work, WalkWork) for work in program.last_tick.work.values())
        assert counts == large.step_counts(change)


FORMS = {
    "rows": lambda rows: [((a, b), w) for a, b, w in rows.tolist()],
    "batch": lambda rows: pa.record_batch({"a": rows[:, 0], "b": rows[:, 1], "weight": rows[:, 2]}),
    "slice": lambda rows: pa.table({"a": rows[:, 0], "b": rows[:, 1], "weight": rows[:, 2]}).slice(1),
    "chunks": lambda rows: pa.concat_tables(
        [pa.table({"a": part[:, 0], "b": part[:, 1], "weight": part[:, 2]}) for part in (rows[:2], rows[2:])]
    ),
    "columns": lambda rows: {"a": rows[:, 0], "b": rows[::-1, 1][::-1], "weight": rows[:, 2]},
    "contiguous columns": lambda rows: {"a": rows[:, 0].copy(), "b": rows[:, 1].copy(), "weight": rows[:, 2].copy()},
    "lists": lambda rows: {"a": rows[:, 0].tolist(), "b": rows[:, 1].tolist(), "weight": rows[:, 2].tolist()},
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_in_any_form_are_copied(form: str) -> None:
    rows = np.array([[5, 2**40, 1], [-3, 7, 2], [5, 2**40, -1], [4, 4, 3]])
    expected = Counter({(-3, 7): 2, (4, 4): 3})
    if form == "slice":
        expected[5, 2**40] -= 1
    program = gw.Program("h(a, b) :- e(a, b).", backend="cpu", bag=True)
    program.step({"e": pa.table({"a": [0], "b": [0], "weight": [1]})})
    change = program.step({"e": FORMS[form](rows)})["h"]
    rows[:] = 99
    assert change.to_dict() == expected
    program.step({"e": [(0, 0)]})
    assert program.relation("e").to_dict() == {**expected, (0, 0): 2}


@pytest.mark.parametrize("order", ["C", "F"])
def test_matrices_in_either_order_are_copied(order: str) -> None:
    program = gw.Program("h(a, b) :- e(a, b).", backend="cpu")
    program.step({"e": np.zeros((1, 2), np.int64)})
    rows = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], order=order)[::2]
    assert program.step({"e": rows})["h"].to_dict() == {(1, 2): 1, (5, 6): 1}


def test_ticks_that_derive_too_many_rows_are_not_tried_again_at_once() -> None:
    text = "h(a, c) :- e(a, b), f(b, c).\ng(a) :- h(a, c), e(c, a).\n.output g"
    with tune(off=frozenset({"push down"})):
        program = gw.Program(text, backend="cpu")
    program.load({"e": [(1, 0)], "f": [(0, value) for value in range(40_000)]})
    reasons = []
    for value in range(2, 40):
        assert program.step_counts({"e": [(value, 0)]})["g"].net >= 0
        reasons.append(program.last_tick.path_by_path)
    assert all("derived more than" in reason for reason in reasons), reasons
    assert 1 <= sum(not reason.startswith("a tick before it") for reason in reasons) <= 3, reasons
    assert program.count("h") == 39 * 40_000


def test_large_changes_are_not_read_as_small_ones() -> None:
    class Unread(list[Any]):
        def __iter__(self) -> Any:
            raise AssertionError("the rows were read")

    from gpu_wcoj.engine.ingest import read_small_change

    assert read_small_change([(1, 2)] * 3, ("a", "b"), 2) is None
    assert read_small_change(pa.table({"a": [1] * 3, "b": [2] * 3}), ("a", "b"), 2) is None
    assert read_small_change(np.zeros((3, 2), np.int64), ("c0", "c1"), 2) is None
    assert read_small_change({"c0": np.zeros(3, np.int64), "c1": np.zeros(3, np.int64)}, ("c0", "c1"), 2) is None
    assert read_small_change(Unread([(1, 2)]), ("a", "b"), 2) is None


def test_reports_name_every_head() -> None:
    program, large = _triangles(), _triangles()
    program.step({"edge": [(0, 3)]})
    assert set(program.last_tick.work) == set(large.last_tick.work)


@pytest.mark.parametrize("n_atoms", [63, 64])
def test_a_variable_in_more_atoms_than_the_kernel_has_room_for_is_bound_path_by_path(n_atoms: int) -> None:
    names = [f"r{i}" for i in range(n_atoms)]
    text = f"t(a, x) :- s(a), {', '.join(f'{name}(x)' for name in names)}."
    program = gw.Program(text, backend="cpu")
    program.load({"s": [(1,)], **{name: [(1,), (2,)] for name in names}})
    assert program.step({"s": [(5,)]})["t"].rows() == [((5, 1), 1), ((5, 2), 1)]
    reason = "head t: x is bound by more than 63 atoms" if n_atoms > 63 else ""
    assert program.last_tick.path_by_path == reason


def test_counts_that_leave_int64_are_exact() -> None:
    program = gw.Program("q(a, b, c, d, e, f) :- r(a, b), r(a, c), r(a, d), r(a, e), r(a, f).", backend="cpu")
    n = 60_000
    program.load({"r": {"a": np.zeros(n, np.int64), "b": np.arange(n)}})
    assert program.step_counts({"r": [(0, n)]})["q"].net == (n + 1) ** 5 - n**5 > 2**63
    assert program.step_counts({"r": [((0, n), -1)]})["q"] == (0, (n + 1) ** 5 - n**5, n**5 - (n + 1) ** 5)


@pytest.mark.parametrize("bag", [False, True])
def test_rows_of_arrow_are_read_wherever_they_lie(bag: bool) -> None:
    """Slices, tables of one and of several chunks, and nulls, which make the tick run path by path."""
    program, expected = (gw.Program("t(a, c) :- edge(a, b), edge(b, c).", backend="cpu", bag=bag) for _ in range(2))
    for ticked in (program, expected):
        ticked.load({"edge": [(a, a + 1) for a in range(9)]})
    names = list(program.relation("edge").names)
    rows = [(row, row % 4) for row in range(20)]
    whole = pa.record_batch([pa.array([row[column] for row in rows]) for column in (0, 1)], names=names)
    tables = [
        whole.slice(3, 5),
        whole.slice(19),
        pa.Table.from_batches([whole.slice(1, 4)]),
        pa.Table.from_batches([whole.slice(0, 2), whole.slice(7, 3)]),
        whole.slice(2, 3).append_column("weight", pa.array([-1, 1, -1])),
        whole.slice(0, 0),
    ]
    for table in tables:
        given = [tuple(row.values()) for row in table.to_pylist()]
        given = [(row[:2], row[2]) if len(row) > 2 else row for row in given]
        assert program.step({"edge": table})["t"].rows() == expected.step({"edge": given})["t"].rows()
        assert program.last_tick.path_by_path == ""
    nulls = pa.record_batch([pa.array([1, None]), pa.array([2, 3])], names=names)
    assert program.step({"edge": nulls})["t"].rows() == expected.step({"edge": [(1, 2), (None, 3)]})["t"].rows()
    assert _rows(program) == _rows(expected)


@pytest.mark.parametrize("how", ["step", "step_counts"])
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_a_walk_begins_at_the_end_with_fewer_values(bag: bool, how: str) -> None:
    """A row whose one end is a hub is walked from its other end, whichever column that is in."""
    hub, n = 1_000_000, 3_000
    edges = [(hub, leaf) for leaf in range(n)] + [(leaf, leaf + 1) for leaf in range(n) if leaf % 3]
    text = "t(a, b, c, d) :- edge(a, b), edge(b, c), edge(c, d), edge(d, a)."
    walking = gw.Program(text, backend="cpu", bag=bag)
    with tune(max_tick_rows=-1):
        plain = gw.Program(text, backend="cpu", bag=bag)
    for program in (walking, plain):
        program.load({"edge": edges})
    n_rows = 0
    for row, weight in [((3, hub), 1), ((hub, n), 1), ((9, hub), 1), ((8, 9), -1), ((3, hub), -1), ((7, hub), 1)]:
        answer, expected = (getattr(program, how)({"edge": [(row, weight)]})["t"] for program in (walking, plain))
        if how == "step":
            answer, expected = answer.rows(), expected.rows()
        assert answer == expected
        assert not walking.last_tick.path_by_path
        work = sum(step[PROPOSALS] for path in walking.last_tick.work["t"][0].values() for step in path.values())
        assert work < n / 10
        n_rows += walking.count("t")
    assert n_rows


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("head", ["t(a, b, c, d)", "t(a, d)", "t(a)"])
def test_whole_relations_are_not_listed_for_a_changed_row(head: str, bag: bool) -> None:
    """The labels of a vertex are looked up for the few that a row reaches, whatever their relations hold."""
    n = 3_000
    text = f"{head} :- edge(a, b), edge(b, c), edge(c, d), person(d), active(d)."
    walking = gw.Program(text, backend="cpu", bag=bag)
    with tune(max_tick_rows=-1):
        plain = gw.Program(text, backend="cpu", bag=bag)
    edges = [(a, (a * factor + 1) % n) for a in range(n) for factor in (2, 3, 5)]
    for program in (walking, plain):
        program.load({"edge": edges, "person": [(a,) for a in range(n)], "active": [(a,) for a in range(0, n, 2)]})
    n_rows = 0
    for row, weight in [((3, 700), 1), ((700, 31), 1), ((3, 700), -1), ((n, 31), 1), ((10, 21), -1)]:
        answer, expected = (program.step({"edge": [(row, weight)]})["t"].rows() for program in (walking, plain))
        assert answer == expected
        assert not walking.last_tick.path_by_path
        work = sum(step[PROPOSALS] for path in walking.last_tick.work["t"][0].values() for step in path.values())
        assert work < n / 10
        n_rows += len(answer)
    assert n_rows


def test_a_report_of_few_fields_is_one_of_defaults() -> None:
    made, other = TickReport.of_fields(tick=3), TickReport.of_fields()
    assert made == TickReport(tick=3)
    tables = [name for name, value in vars(TickReport()).items() if value == {}]
    assert tables
    assert not any(getattr(made, name) is getattr(other, name) for name in tables)


@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
def test_ticks_that_change_nothing_leave_the_memtables_empty(bag: bool) -> None:
    """They take over the empty memtables of the tick before, until something changes, is undone or fails."""
    program = gw.Program("t(a, c) :- edge(a, b), edge(b, c).", backend="cpu", bag=bag)
    program.load({"edge": [(1, 2), (2, 3)]})
    nothing = {"edge": [((5, 6), 0)]} if bag else {"edge": [(1, 2)]}
    mark = program.mark()
    for _ in range(3):
        for _ in range(2):
            assert program.step(nothing)["t"].rows() == []
        assert program.step({"edge": [(3, 4)]})["t"].rows() == [((2, 4), 1)]
        assert program.step(nothing)["t"].rows() == []
        assert program.step({"edge": [(4, 5)]})["t"].rows() == [((3, 5), 1)]
        assert not program.last_tick.path_by_path
        program.return_to(mark)
        assert program.step(nothing)["t"].rows() == []
        assert program.count("t") == 1
        with pytest.raises(gw.errors.GpuWcojError):
            program.step({"edge": [(1, "x")]})
