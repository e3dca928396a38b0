"""Parts of a body that differ in what they are compared with: counted once for what they share, and right."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.datasets import rmat, undirected
from gpu_wcoj.join import delta, eliminate
from gpu_wcoj.join import eliminate as ranged
from gpu_wcoj.join.generic import split
from gpu_wcoj.join.plan import Condition, Step
from gpu_wcoj.kernels.protocol import PROBES, PROPOSALS
from gpu_wcoj.trace.arrangement import COMPARE
from tests.helpers.answers import named

BOWTIE = "h(x, a, b, c, d) :- s(x, a), s(x, b), e(a, b), s(x, c), s(x, d), e(c, d), a < c, b != c, b != d. .output h"
KITE = "h(a, b, c, d, f) :- e(a, b), s(a, c), s(b, c), s(a, d), s(b, d), s(d, f), c != d, a != f, b != f, c != f."
HOUSE = "h(a, b, c, d, f) :- e(a, b), s(b, c), s(c, d), s(d, a), s(a, f), s(b, f), a != c, b != d, c != f, d != f."
BODIES = pytest.mark.parametrize("text", [BOWTIE, KITE, HOUSE], ids=["bowtie", "kite", "house"])


def graph(scale, edges, seed=1):
    found = undirected(rmat(scale=scale, edges=edges, seed=seed))
    return {"e": found, "s": np.concatenate([found, found[:, ::-1]])}


def ticks(n_new):
    """A skewed graph: most of it, the rest, and that taken back."""
    whole = graph(7, 900)["e"]
    parts = whole[n_new:], whole[:n_new]
    state, change = ({"e": part, "s": np.concatenate([part, part[:, ::-1]])} for part in parts)
    back = {name: gw.ZSet.from_rows([(tuple(row), -1) for row in rows.tolist()]) for name, rows in change.items()}
    return state, change, back


def alone(monkeypatch):
    """Every prefix is counted by itself."""
    monkeypatch.setattr(eliminate.Summing, "_sum_by_ranges", lambda *_: None)
    monkeypatch.setattr(ranged, "strip_conditions", lambda steps, *_: (steps, False))


def work_of(program):
    counted = program.last_tick.work["h"][0].values()
    return sum(int(work[PROPOSALS] + work[PROBES]) for steps in counted for work in steps.values())


@pytest.mark.usefixtures("large_ticks")
@BODIES
def test_a_change_looks_at_fewer_values(text, monkeypatch):
    state, *changes = ticks(150)
    found, work = [], []
    for is_alone in (False, True):
        if is_alone:
            alone(monkeypatch)
        program = gw.Program(text, strategy="wcoj", backend="cpu")
        program.load(state)
        for change in changes:
            found.append(program.step_counts(change)["h"].net)
            work.append(work_of(program))
    assert found[:2] == found[2:]
    assert found[0] == -found[1] > 10_000
    assert sum(work[:2]) < 0.7 * sum(work[2:])


EXCLUDED = "h(x, b, c, d) :- r(x, b), s(x, c), f(c, d), s(x, d), d != b. .output h"


def test_prefixes_that_differ_in_an_excluded_value_only_go_on_as_one(monkeypatch):
    pairs = [(x, y) for x in range(40) for y in range(60)]
    work = []
    for is_alone in (False, True):
        if is_alone:
            alone(monkeypatch)
        program = gw.Program(EXCLUDED, strategy="wcoj", threads=1, inputs=named(EXCLUDED), backend="cpu")
        program.load({"s": pairs, "f": [(c, c) for c in range(60)]})
        assert program.step_counts({"r": pairs})["h"].net == 40 * 60 * 59
        work.append(work_of(program))
    assert work[0] < 0.9 * work[1]


NARROW = {
    "bands": (
        "h(a, b, c, d, f) :- r(a, b), s(c, d), s(d, f), a < c, c < b.",
        [(a, a + 4) for a in range(1200)],
        [(c, c) for c in range(30_000)],
    ),
    "ends": (
        "h(x, a, c, d, f) :- r(x, a), s(x, c), g(c, d), g(d, f), c > a.",
        [(x, a) for x in range(600) for a in (97, 98)],
        [(x, c) for x in range(600) for c in range(100)],
    ),
}


@pytest.mark.parametrize("name", NARROW)
def test_narrow_ranges_are_looked_through_one_by_one(name, monkeypatch):
    """All values that they are taken from would be many more."""
    text, rows, state = NARROW[name]
    work = []
    for is_alone in (False, True):
        if is_alone:
            alone(monkeypatch)
        program = gw.Program(f"{text} .output h", strategy="wcoj", threads=1, inputs=named(text))
        program.load({"s": state, "g": [(c, c) for c in range(100)]} if name == "ends" else {"s": state})
        assert program.step_counts({"r": rows})["h"].net == len(rows) * 3 // (1 if name == "bands" else 2)
        work.append(work_of(program))
    assert work[0] <= work[1]


def test_binary_joins_are_counted_as_ever(monkeypatch):
    """What one atom proposes and others drop is no part of its own."""
    state, change, _ = ticks(150)
    program = gw.Program(BOWTIE, strategy="binary")
    program.load(state)
    calls = []
    monkeypatch.setattr(ranged, "enumerate_values", lambda *_: calls.append(1))
    program.step_counts(change)
    assert not calls


@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "!=", "="])
def test_what_the_last_variable_is_compared_with_is_compared_with_what_it_is_known_to_be(op):
    steps = Step("c", (0,)), Step("d", (1, 2), (Condition("d", "!=", "b"), Condition("d", op, "c")))
    found = split(steps, "ab")
    assert found is not None
    (turned,) = next(step for step in found.pinned if step.variable == "c").conditions
    assert (turned.variable, turned.operand) == ("c", "b")
    for b in range(3):
        for c in range(3):
            assert COMPARE[op](b, c) == COMPARE[turned.op](c, b)


@pytest.fixture
def added(monkeypatch):
    """What differences of sums came to; None where they were given up."""
    found, made = [], ranged.PrefixGroups._total_of_values
    monkeypatch.setattr(ranged.PrefixGroups, "_total_of_values", lambda *given: found.append(made(*given)) or found[-1])
    return found


@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("shift", [-(1 << 63), 1 << 62, (1 << 63) - 128])
def test_codes_far_from_zero(shift, monkeypatch, added):
    monkeypatch.setattr(eliminate, "MIN_MERGED", 1)
    monkeypatch.setattr(eliminate, "MAX_DISTINCT_FRACTION", 1e30)
    monkeypatch.setattr(ranged, "MAX_VALUE_FACTOR", 1e30)
    state, change, _ = ticks(150)
    counts = []
    for moved in (0, shift):
        program = gw.Program(BOWTIE, backend="cpu")
        program.load({name: rows + moved for name, rows in state.items()})
        counts.append(program.step_counts({name: rows + moved for name, rows in change.items()})["h"])
    assert counts[0] == counts[1]
    assert added
    assert None not in added


@pytest.mark.drawn("kind")
@pytest.mark.usefixtures("large_ticks")
def test_codes_of_both_signs_that_span_all(monkeypatch, kind, added):
    monkeypatch.setattr(eliminate, "MIN_MERGED", 1)
    monkeypatch.setattr(eliminate, "MAX_DISTINCT_FRACTION", 1e30)
    monkeypatch.setattr(delta, "DEVICE_SUMS_FROM", 1)
    monkeypatch.setattr(ranged, "MAX_VALUE_FACTOR", 1e30)
    state, change, _ = ticks(150)
    least, most = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    ends = np.concatenate([np.arange(64) + least, np.arange(64) + (most - 63)])
    counts = []
    for codes in (np.arange(128), ends):
        program = gw.Program(BOWTIE, backend=kind.backend())
        program.load({name: codes[rows] for name, rows in state.items()})
        counts.append(program.step_counts({name: codes[rows] for name, rows in change.items()})["h"])
    assert counts[0] == counts[1]
    assert added
    assert None not in added


@pytest.mark.parametrize("powers", [(0, 0), (20, 20), (27, 31), (30, 31), (0, 61)])
def test_sums_beyond_int64_are_exact(powers, monkeypatch):
    """In a bag no row's weight leaves int64; their sum does."""
    monkeypatch.setattr(eliminate, "MIN_MERGED", 1)
    monkeypatch.setattr(eliminate, "MIN_SUMMED", 1)
    monkeypatch.setattr(eliminate, "MAX_DISTINCT_FRACTION", 1e30)
    monkeypatch.setattr(ranged, "MAX_VALUE_FACTOR", 1e30)
    text = "h(x, a, c, d) :- k(x, a), e(x, c), f(c, d), a < c. .output h"
    rows = [(x, a) for x in range(8) for a in range(8)]
    one, other = (gw.ZSet.from_rows([(row, 1 << power) for row in rows]) for power in powers)
    program = gw.Program(text, bag=True, inputs=named(text))
    program.load({"e": one, "f": other})
    assert program.step_counts({"k": rows})["h"].net == 8 * 28 * 8 << sum(powers)


@pytest.mark.parametrize("threads", [1, 2])
def test_what_was_done_is_explained(threads):
    state, change, _ = ticks(150)
    program = gw.Program(BOWTIE, analyze=True, threads=threads, strategy="wcoj")
    plain = gw.Program(BOWTIE, strategy="wcoj", threads=threads)
    for one in (program, plain):
        one.load(state)
    assert program.step_counts(change)["h"] == plain.step_counts(change)["h"]
    for one in (program, plain):
        assert "change of" in one.explain(analyze=True)
        assert set(one.explain(analyze=True, format="json")) > set("{}")
