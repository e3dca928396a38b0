"""Changes of rows as the difference of all rows: the same Z-sets in every tick, and used only where cheaper."""

from __future__ import annotations

import numpy as np
import pytest

import gpu_wcoj as gw
from bench.cliffs.laws import counted
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.circuit.recount import ListingCosts
from gpu_wcoj.errors import CalculationError, WeightOverflowError
from gpu_wcoj.planner import lower
from tests.helpers.recounted_programs import heads_of

LIMITS = {"at once": 0.0, "given up at the first rows": 1.0}
PATH = "h(a, d) :- e(a, b), e(b, c), e(c, d). g(a) :- h(a, d), u(d)."


@pytest.fixture(params=LIMITS)
def always(request, monkeypatch):
    """Changes of all heads are the difference of all rows."""
    request.getfixturevalue("large_ticks")
    monkeypatch.setattr(ListingCosts, "limit", lambda *_: LIMITS[request.param])
    monkeypatch.setattr(ListingCosts, "expected", lambda *_: 1e18)
    compared, compare = [], Head._compare
    monkeypatch.setattr(Head, "_compare", lambda head, *of: compared.append(head.name) or compare(head, *of))
    return compared


@pytest.mark.usefixtures("always")
def test_undefined_values_are_refused():
    program = gw.Program("h(a, x) :- e(a, b), f(b, c), x = a / c. g(a) :- h(a, _).", backend="cpu")
    program.step({"e": [(1, 1), (2, 2)], "f": [(1, 1)]})
    before = program.relation("h")
    with pytest.raises(CalculationError, match="divides by zero"):
        program.step({"f": [(2, 0)]})
    assert program.relation("h") == before
    program.step({"f": [(2, 1)]})
    assert len(program.relation("h")) == 2


@pytest.mark.usefixtures("always")
def test_weights_outside_int64_are_refused():
    program = gw.Program("h(a) :- e(a, b), f(a, b). g(a) :- h(a), u(a).", bag=True, backend="cpu")
    large = gw.ZSet.from_dict({(1, 1): 1 << 61})
    program.step({"e": large, "f": [(1, 1)], "u": []})
    with pytest.raises(WeightOverflowError):
        program.step({"f": gw.ZSet.from_dict({(1, 1): 7})})
    program.step({"f": gw.ZSet.from_dict({(1, 1): 1})})
    assert program.relation("h").to_dict() == {(1,): 1 << 62}


def hubs():
    """A state that has few paths, and edges to and from a vertex that has all others as neighbours."""
    chance = np.random.default_rng(7)
    sparse = chance.integers(0, 40_000, (20_000, 2))
    hub = np.arange(0, 3_000)
    out, into = np.column_stack([np.full(3_000, 50_000), hub]), np.column_stack([hub, np.full(3_000, 50_000)])
    return sparse, np.concatenate([out, into])


@pytest.mark.drawn("text")
@pytest.mark.usefixtures("large_ticks")
@pytest.mark.parametrize("text", [PATH, PATH.replace("g(a)", "g(a, count())")], ids=["set", "groups"])
def test_deleting_a_hub_costs_less_than_its_paths(text):
    sparse, hub = hubs()
    program = gw.Program(text, backend="cpu", threads=1)
    program.step({"e": sparse, "u": np.arange(0, 40_000, 5)[:, None]})
    before = {name: program.relation(name) for name in program.heads}
    program.step({"e": hub})
    inserted = counted(program)
    program.step({"e": gw.ZSet.from_rows([(row, -1) for row in map(tuple, hub.tolist())])})
    assert {name: program.relation(name) for name in program.heads} == before
    assert "listed afresh" in program.explain()
    assert 2 * counted(program) < inserted


@pytest.mark.usefixtures("large_ticks")
def test_cheap_changes_are_followed():
    sparse, _ = hubs()
    program = gw.Program(PATH, backend="cpu", threads=1)
    program.step({"e": sparse, "u": np.arange(0, 40_000, 5)[:, None]})
    for start in range(0, 1_000, 100):
        program.step({"e": sparse[start : start + 100] + 1})
        assert "afresh" not in program.explain()
    costs = heads_of(program)["h"].costs
    assert 0 < costs.per_seed * 600 < costs.all_rows


def test_a_tick_that_makes_all_rows_dearer_does_not_follow_its_paths():
    """Before the tick no value of b is one of a, so that what all rows have cost tells nothing."""
    chance = np.random.default_rng(518)
    rows = np.unique(np.stack([chance.integers(0, 836, 8_362), chance.integers(0, 10, 8_362)], 1), axis=0)
    text = "h(a, b) :- e(a, b), e(b, c), e(a, c), e(a, d), e(d, f), e(a, f)."
    program, anew = (gw.Program(text, threads=1, backend="cpu") for _ in range(2))
    program.step({"e": rows[len(rows) // 3 :]})
    answer = program.step({"e": rows[: len(rows) // 3]})["h"]
    assert answer == anew.step({"e": rows})["h"]
    assert counted(program) < 1_000_000  # 3,500,000 along the paths


@pytest.mark.usefixtures("large_ticks")
def test_a_dear_change_is_not_begun(monkeypatch):
    """Samples tell the cost of a large change, so that no delta path is listed in part before all rows are."""
    monkeypatch.setattr(lower, "MIN_PLANNED_ROWS", np.inf)  # the planned load costs as much as the change
    monkeypatch.setattr(lower, "MIN_PLANNED_COST", np.inf)
    values = np.random.default_rng(4)
    rows = np.stack([values.permutation(20_000), values.permutation(20_000)], 1)
    program, anew = (
        gw.Program("h(v, z) :- e(v, w), e(v, x), e(w, y), e(x, z).", backend="cpu", threads=1) for _ in range(2)
    )
    program.step({"e": rows})
    program.step({"e": gw.ZSet.from_rows([(row, -1) for row in map(tuple, rows[:6_000].tolist())])})
    anew.step({"e": rows[6_000:]})
    assert "listed afresh" in program.explain()
    assert counted(program) < 1.2 * counted(anew)


@pytest.mark.usefixtures("large_ticks")
def test_a_change_that_exceeds_its_limit_at_its_end_is_kept():
    """One step looks at all values of a hub, which costs more than the limit, and nothing is left to do."""
    program = gw.Program("h(a, c) :- e(a, b), f(b, c), g(c).", backend="cpu", threads=1)
    hub = np.arange(0, 40_000, 2)
    program.step({"e": [(0, 1)], "f": np.stack([np.zeros_like(hub), hub], 1), "g": (hub + (hub % 100 > 0))[:, None]})
    program.step({"e": [(7, 0)]})
    assert len(program.relation("h")) == 400
    assert "afresh" not in program.explain()
    assert counted(program) < 50_000
