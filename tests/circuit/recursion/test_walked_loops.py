"""Loops that run row at a time: the same answers, ranks and bits as the vectorised way, and less counted work."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import pytest

import gpu_wcoj as gw
from cpu_fallback.kernels import CompiledKernels
from cpu_fallback.numpy_kernels import VectorisedKernels
from gpu_wcoj.backend import cpu_backend
from gpu_wcoj.circuit.recursion import loop, semi_naive
from gpu_wcoj.circuit.recursion.loop import IncrementalRun
from gpu_wcoj.circuit.recursion.semi_naive import SemiNaiveRun
from gpu_wcoj.errors import CalculationError, IterationLimitError
from gpu_wcoj.join.settings import tune
from tests.helpers.comparison import bits, stored
from tests.helpers.kernel_kinds import needed
from tests.helpers.long_tests import IS_LONG

Changes = dict[str, list[tuple[tuple[int, ...], int]]]

REACH = "r(x) :- s(x). r(y) :- r(x), e(x, y)."
CLOSURE = "t(x, y) :- e(x, y). t(x, z) :- t(x, y), e(y, z)."
TEXTS: dict[str, tuple[str, dict[str, int]]] = {
    "reach": (REACH, {"s": 1, "e": 2}),
    "closure": (CLOSURE, {"e": 2}),
    "two rules": (CLOSURE + " t(x, z) :- e(x, y), t(y, z).", {"e": 2}),
    "two heads and negation": (
        "a(x) :- s(x). b(y) :- a(x), e(x, y). a(y) :- b(x), f(x, y), !g(y).",
        {"s": 1, "e": 2, "f": 2, "g": 1},
    ),
    "numbers": ("n(x) :- s(x). n(x + 1) :- n(x), x < 30, !g(x). n(x * 2 - 7) :- n(x), g(x), x < 99.", {"s": 1, "g": 1}),
    "quotients": ("n(x) :- s(x). n(x / 2) :- n(x). n(x % 5 + abs(0 - x) / 3) :- n(x), g(x).", {"s": 1, "g": 1}),
    "same generation": ("h(x, y) :- e(z, x), e(z, y), x != y. h(x, y) :- e(z, x), h(z, w), e(w, y).", {"e": 2}),
    "an intersection": ("r(x) :- s(x). r(z) :- r(x), e(x, y), e(y, z), f(x, z).", {"s": 1, "e": 2, "f": 2}),
    "bounds": (
        "r(x, t) :- s(x), f(x, t). r(y, u) :- r(x, t), e(x, y), f(y, u), t < u, u <= 9.",
        {"s": 1, "e": 2, "f": 2},
    ),
    "constants": (
        "r(x, 3) :- s(x). r(y, z) :- r(x, 3), e(x, y), f(z, z). r(x, x) :- r(_, x), g(x). r(y, 3) :- r(x, x), e(x, y).",
        {"s": 1, "e": 2, "f": 2, "g": 1},
    ),
    "least values": ("d(x, min(c)) :- f(x, c), s(x). d(y, min(c + 1)) :- d(x, c), e(x, y).", {"s": 1, "e": 2, "f": 2}),
    "greatest values": ("d(x, max(c)) :- f(x, c). d(y, max(c)) :- d(x, c), e(x, y).", {"e": 2, "f": 2}),
}
WAYS = {
    "walked": {},
    "in many calls": {(semi_naive, "BUDGET_PER_ROW"): 1e-4, (loop, "BUDGET_PER_ROW"): 1e-4},
    "there and back": {(CompiledKernels, "walked_rows"): 8},
    "always from the empty state": {(loop, "GIVE_UP"): 1 << 62},
    "never from the empty state": {(loop, "GIVE_UP"): 1e-9},
    "vectorised after a call": {(loop, "MAINTAINED_PER_ROW"): 0, (loop, "BUDGET_PER_ROW"): 1e-4},
    "from the empty state late": {(loop, "GIVE_UP"): 8},
}


def script(name: str, seed: int, n_ticks: int = 12) -> Iterator[Changes]:
    """A graph that is there at once, then few rows that go and come."""
    inputs, chance = TEXTS[name][1], random.Random(f"{name} {seed}")
    n_values = chance.choice((4, 7, 12))
    there: dict[str, set[tuple[int, ...]]] = {relation: set() for relation in inputs}
    for tick in range(n_ticks):
        changes: Changes = {}
        for relation, width in inputs.items():
            for _ in range(2 * n_values if tick == 0 else chance.choice((0, 1, 1, 2))):
                rows = changes.setdefault(relation, [])
                if tick and there[relation] and chance.random() < 0.55:
                    row, weight = chance.choice(sorted(there[relation])), -1
                else:
                    row, weight = tuple(chance.randrange(n_values) for _ in range(width)), 1
                if any(row == other for other, _ in rows) or (weight == 1) == (row in there[relation]):
                    continue
                rows.append((row, weight))
                (there[relation].add if weight == 1 else there[relation].discard)(row)
        yield {relation: rows for relation, rows in changes.items() if rows}


def program(name: str, walks: bool, **options) -> gw.Program:
    """A program whose loops run row at a time or never do."""
    with tune(walk_loops=walks):
        made = gw.Program(TEXTS[name][0], **options)
    made.step({relation: [((0,) * width, 1), ((0,) * width, -1)][:1] for relation, width in TEXTS[name][1].items()})
    made.step({relation: [((0,) * width, -1)] for relation, width in TEXTS[name][1].items()})
    return made


def check_scripts(
    name: str, bag: bool, way: Mapping[tuple[object, str], float], monkeypatch: pytest.MonkeyPatch, seeds: int, backend
) -> None:
    """Compare changes, ranks and bits with the vectorised way, and at the end with the state loaded at once."""
    for seed in range(seeds):
        walked = program(name, True, bag=bag, backend=backend)
        vectorised = program(name, False, bag=bag, backend=backend)
        there: dict[str, dict[tuple[int, ...], int]] = {relation: {} for relation in TEXTS[name][1]}
        for changes in script(name, seed):
            with monkeypatch.context() as patch:
                for (owner, constant), value in way.items():
                    patch.setattr(owner, constant, value)
                ours = walked.step(changes)
            theirs = vectorised.step(changes)
            assert {head: rows.to_dict() for head, rows in ours.items()} == {
                head: rows.to_dict() for head, rows in theirs.items()
            }
            assert stored(walked) == stored(vectorised)
            assert bits(walked, walked.heads) == bits(vectorised, vectorised.heads)
            for relation, rows in changes.items():
                for row, weight in rows:
                    there[relation][row] = there[relation].get(row, 0) + weight
        at_once = program(name, True, bag=bag, backend=backend)
        at_once.step({relation: [(row, 1) for row, n in rows.items() if n] for relation, rows in there.items()})
        assert stored(at_once) == stored(walked)
        assert bits(at_once, at_once.heads) == bits(walked, walked.heads)


@pytest.mark.drawn("name", "bag", "way", each=True)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", TEXTS)
def test_every_tick_equals_the_vectorised_way_and_recomputation(name, bag, way, monkeypatch):
    needed("numba")
    check_scripts(name, bag, WAYS[way], monkeypatch, 2, "cpu")


@pytest.mark.drawn("name", share=4)
@pytest.mark.parametrize("name", TEXTS)
def test_the_same_without_numba(name, monkeypatch):
    for way in ({}, {(VectorisedKernels, "walked_rows"): 1 << 10, (loop, "GIVE_UP"): 1e-9}):
        check_scripts(name, False, way, monkeypatch, 2 if IS_LONG else 1, cpu_backend(compiled=False))


def chain(n: int) -> list[tuple[int, int]]:
    return [(i, i + 1) for i in range(n)]


def counted_calls(monkeypatch: pytest.MonkeyPatch, kind: type, method: str) -> list[int]:
    """Count the calls of a method."""
    calls: list[int] = []
    original = getattr(kind, method)

    def counted(*arguments, **named):
        calls.append(1)
        return original(*arguments, **named)

    monkeypatch.setattr(kind, method, counted)
    return calls


@pytest.mark.parametrize("walks", [True, False])
def test_a_chain_takes_no_vectorised_iterations(walks, monkeypatch):
    needed("numba")
    calls = counted_calls(monkeypatch, SemiNaiveRun, "_absorb")
    with tune(walk_loops=walks):
        made = gw.Program(REACH, backend="cpu")
    made.step({"s": [(0,)], "e": chain(300)})
    assert made.count("r") == 301
    assert len(calls) == (0 if walks else 301)


@pytest.mark.parametrize("walks", [True, False])
@pytest.mark.parametrize("text", [REACH, CLOSURE], ids=["reach", "closure"])
def test_a_deletion_in_a_chain_takes_no_vectorised_iterations(text, walks, monkeypatch):
    needed("numba")
    monkeypatch.setattr(loop, "GIVE_UP", 1e-9)
    with tune(walk_loops=walks):
        made = gw.Program(text, backend="cpu")
    inputs: Mapping[str, list[tuple[int, ...]]] = {"s": [(0,)], "e": chain(100)}
    made.step({relation: inputs[relation] for relation in made.inputs})
    (head,) = made.heads
    before = bits(made, made.heads)
    calls = counted_calls(monkeypatch, IncrementalRun, "_derive")
    gone = made.step({"e": [((50, 51), -1)]})[head].to_dict()
    assert gone == ({(i,): -1 for i in range(51, 101)} if text is REACH else
                    {(i, j): -1 for i in range(51) for j in range(51, 101)})  # fmt: skip
    assert (len(calls) == 1) is walks
    made.step({"e": [(50, 51)]})
    assert bits(made, made.heads) == before


def test_a_dear_change_begins_from_the_empty_state_before_it_costs_as_much(monkeypatch):
    """In a ladder of least distances, one edge changes nearly all values, many times each."""
    needed("numba")
    k = 40
    steps = [(2 * i, 2 * i + 1, 0) for i in range(k)] + [(2 * i + 1, 2 * i + 2, 0) for i in range(k)]
    steps += [(2 * i, 2 * i + 2, 2 ** (9 - i // 4)) for i in range(k)]
    made = gw.Program("d(x, min(c)) :- s(x, c). d(y, min(c + w)) :- d(x, c), e(x, y, w).", backend="cpu")
    made.step({"s": [(0, 0)], "e": steps})
    before = bits(made, made.heads)
    followed = counted_calls(monkeypatch, IncrementalRun, "_derive")
    afresh = counted_calls(monkeypatch, SemiNaiveRun, "_walk")
    made.step({"e": [((0, 1, 0), -1)]})
    assert len(afresh) == 1
    assert len(followed) <= 2
    made.step({"e": [(0, 1, 0)]})
    assert bits(made, made.heads) == before


class Stopped(BaseException):
    """An interrupt."""


@pytest.mark.parametrize("method", ["fixpoint", "maintenance"])
def test_an_interrupt_between_calls_leaves_the_state(method, monkeypatch):
    needed("numba")
    made = gw.Program(CLOSURE, backend="cpu")
    edges = chain(60)
    if method == "maintenance":
        made.step({"e": edges})
        edges = [(60, 61)]
    before = bits(made, made.heads)
    kernels = cpu_backend().kernels
    kind = getattr(kernels, method)
    calls: list[int] = []

    class Interrupted(kind):
        def run(self, *limits):
            calls.append(1)
            if len(calls) == 4:
                raise Stopped
            return super().run(*limits)

    with monkeypatch.context() as patch:
        patch.setattr(type(kernels), method, Interrupted)
        patch.setattr(semi_naive, "BUDGET_PER_ROW", 1e-3)
        patch.setattr(loop, "BUDGET_PER_ROW", 1e-3)
        with pytest.raises(Stopped):
            made.step({"e": edges})
    assert len(calls) == 4
    assert bits(made, made.heads) == before
    made.step({"e": edges})
    assert made.count("t") == (61 * 62 // 2 if method == "maintenance" else 60 * 61 // 2)


def test_the_limit_of_iterations_is_the_same():
    needed("numba")
    for walks in (True, False):
        with tune(walk_loops=walks):
            exact = gw.Program(REACH, iterations=41, backend="cpu")
            short = gw.Program(REACH, iterations=40, backend="cpu")
        assert len(exact.step({"s": [(0,)], "e": chain(40)})["r"]) == 41
        assert len(exact.step({"e": [(edge[0] + 40, edge[1] + 40) for edge in chain(41)]})["r"]) == 41
        with pytest.raises(IterationLimitError, match="41"):
            exact.step({"e": [(edge[0] + 81, edge[1] + 81) for edge in chain(42)]})
        assert exact.count("r") == 82
        with pytest.raises(IterationLimitError, match="40"):
            short.step({"s": [(0,)], "e": chain(40)})
        assert short.count("r") == 0


@pytest.mark.parametrize("walks", [True, False])
def test_results_that_leave_the_integers(walks):
    """They are errors if a binding needs them, and not if another condition drops it."""
    needed("numba")
    top = 2**63 - 1
    for text, value in (
        ("n(x) :- s(x). n(x + 1) :- n(x), x > 5.", top),
        ("n(x) :- s(x). n(x * x) :- n(x), x > 5.", 7),
        ("n(x) :- s(x). n(8 / x) :- n(x).", 0),
        ("n(x) :- s(x). n(8 % x) :- n(x).", 0),
        ("n(x) :- s(x). n(0 - 2 - x) :- n(x).", top),
        ("n(x) :- s(x). n(abs(x)) :- n(x).", -top - 1),
    ):
        with tune(walk_loops=walks):
            made = gw.Program(text, backend="cpu")
        with pytest.raises(CalculationError):
            made.step({"s": [(value,)]})
        assert made.count("n") == 0
    with tune(walk_loops=walks):
        made = gw.Program("n(x) :- s(x). n(x + 1) :- n(x), x > 5, t(x + 1).", backend="cpu")
    made.step({"s": [(top,), (6,)], "t": [(7,)]})
    assert made.relation("n").to_dict() == {(6,): 1, (7,): 1, (top,): 1}


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (REACH, "iterations with few rows run row at a time"),
        ("t(x, y) :- e(x, y). t(x, z) :- t(x, y), t(y, z).", "joins rows of the recursion with each other"),
        ("r(x) :- s(x). r(upcase(x)) :- r(x).", "calculates or compares other values than integers"),
    ],
)
def test_explain_tells_the_way(text, note):
    assert note in str(gw.Program(text, backend="cpu").explain())
