"""Full recomputation of counts: the same numbers in every tick, and used only where cheaper."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import numpy as np
import pytest

import gpu_wcoj as gw
from gpu_wcoj.circuit import recount
from gpu_wcoj.circuit.head import Head
from gpu_wcoj.datasets import rmat, undirected
from gpu_wcoj.errors import AggregateOverflowError, NegativeWeightError, SchemaError, WeightOverflowError
from gpu_wcoj.join import delta, eliminate, full_join, generic
from gpu_wcoj.join import eliminate as ranged
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.kernels.protocol import N_WORK, PROBES, PROPOSALS, SURVIVORS
from gpu_wcoj.planner import lower
from tests.helpers.answers import named
from tests.helpers.comparison import Judges, check_counts, fed, random_script
from tests.helpers.kernel_kinds import Kind, lacking
from tests.helpers.long_tests import IS_LONG
from tests.helpers.recounted_programs import PATH, TRIANGLE, heads_of, skewed

BAGS = pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
TEXTS = {
    "triangle": "h(a, b, c) :- e(a, b), e(b, c), e(a, c).",
    "cycle": "h(a, b, c, d) :- e(a, b), e(b, c), e(d, c), e(a, d), b < d.",
    "path": "h(a, b, c, d, f) :- e(a, b), e(b, c), f(c, d), e(d, f).",
    "star": "h(a, b, c, d) :- e(a, b), e(a, c), f(a, d), b != c.",
    "house": "h(a, b, c, d, f) :- e(a, b), e(b, c), e(c, d), e(a, d), e(a, f), e(b, f).",
    "product": "h(a, b, c) :- e(a, b), u(c).",
    "one atom for both": "h(a, b, c) :- u(a), f(b, c), b < c.",
    "diamond": "h(a, b, c, d) :- e(a, b), e(a, c), e(b, c), e(a, d), e(b, d), c < d.",
    "bowtie": "h(x, a, b, c, d) :- e(x, a), e(x, b), f(a, b), e(x, c), e(x, d), f(c, d), a < c, b != c, b != d.",
    "kite": "h(a, b, c, d, g) :- e(a, b), f(a, c), f(b, c), f(a, d), f(b, d), e(d, g), c != d, a != g, c != g, b <= g.",
    "excluded": "h(x, a, b, c, d) :- e(x, a), e(a, b), f(x, c), e(x, d), f(c, d), c != a, c != b, d != a, d != b.",
    "bounded": "h(x, a, b, c, d) :- e(x, a), f(a, b), e(x, c), e(x, d), f(c, d), a <= c, d != a, d <= c, d >= b.",
    "excluded twice": "h(x, a, b, c, d) :- e(x, a), f(x, b), e(x, c), f(c, d), c != a, c != b.",
    "negated": "h(a, b, c) :- e(a, b), e(b, c), !f(a, c).",
    "constants": "h(a, b, c, d) :- e(a, b), t(1, b, c), t(c, c, d), e(d, d).",
    "two heads": "p(a, c) :- e(a, b), e(b, c). h(a, b, c) :- p(a, b), p(b, c).",
    "two rules": "h(a, b) :- e(a, b). h(b, a) :- f(a, b), u(a).",
}


@pytest.fixture
def always(monkeypatch, request):
    """Whole counts wherever they are possible, and prefixes put together however few they are."""
    request.getfixturevalue("large_ticks")
    monkeypatch.setattr(recount, "MIN_CHANGED", 1)
    monkeypatch.setattr(recount, "MIN_CHANGED_ON_DEVICE", 1)
    monkeypatch.setattr(recount, "MIN_CANDIDATES_PER_ROW", -1)
    monkeypatch.setattr(recount, "MAX_COST_RATIO", 1e30)
    monkeypatch.setattr(recount, "SKIP_MARGIN", 1e30)
    monkeypatch.setattr(recount, "MIN_SEED_RATIO", -1)
    allowance = recount.Recounting._allowance

    def whatever(self, *given) -> float | None:
        return None if allowance(self, *given) is None else 1e30

    monkeypatch.setattr(recount.Recounting, "_allowance", whatever)
    _sum_all(monkeypatch)


@pytest.fixture
def followed(monkeypatch):
    """No whole counts, and prefixes put together however few they are."""
    monkeypatch.setattr(recount, "MIN_CHANGED", 1 << 62)
    monkeypatch.setattr(recount, "MIN_CHANGED_ON_DEVICE", 1 << 62)
    _sum_all(monkeypatch)


def _sum_all(monkeypatch):
    monkeypatch.setattr(eliminate, "MIN_MERGED", 1)
    monkeypatch.setattr(eliminate, "MIN_SUMMED", 2)
    monkeypatch.setattr(delta, "DEVICE_SUMS_FROM", 1)
    monkeypatch.setattr(eliminate, "MERGED_PREFIX", 0)
    monkeypatch.setattr(eliminate, "MAX_DISTINCT_FRACTION", 1e30)
    monkeypatch.setattr(ranged, "MAX_VALUE_FACTOR", 1e30)


def recounted(program, name="h"):
    """Return the phases of the last tick that were counted by full recomputation."""
    head = heads_of(program)[name]
    assert isinstance(head, Head)
    return head.recounting.recounted


@pytest.mark.drawn("name", "bag", "way", "kind", each=True)
@pytest.mark.parametrize("way", ["always", "followed"])
@BAGS
@pytest.mark.parametrize("name", TEXTS)
def test_random_scripts(name, bag, kind, way, request):
    request.getfixturevalue(way)
    text, times = f"{TEXTS[name]} .output h", 0
    for seed in range(4 if IS_LONG and not kind.on_device else 3):
        program = gw.Program(text, bag=bag, backend=kind.backend(seed), threads=1 + seed % 2, inputs=named(text))
        judges = Judges(TEXTS[name], bag)
        inputs = {relation: judges.program.arities[relation] for relation in judges.program.inputs}
        for tick_index, tick in enumerate(random_script(random.Random(f"{text} {seed}"), inputs)):
            changes = {relation: fed(change, inputs[relation]) for relation, change in tick.items()}
            expected = judges.step(tick)
            if seed % 3 == 1 and tick_index % 3 == 0:
                program.load(changes)
            elif seed % 3 == 2 and tick_index % 4 == 0:
                program.step(changes)
            else:
                check_counts(program.step_counts(changes), expected, bag, f"seed {seed}, tick {tick_index}")
                times += len(recounted(program)) if changes else 0
            assert program.count("h") == sum(judges.heads["h"].values()), f"seed {seed}, tick {tick_index}"
    has_state = name == "two rules" and not bag
    assert (times == 0) == (has_state or way == "followed")


@pytest.fixture
def ready(monkeypatch):
    """Whole counts also where they cost more, as they do in small states."""
    monkeypatch.setattr(recount, "MAX_COST_RATIO", 50.0)
    monkeypatch.setattr(recount, "RISKED_COST_RATIO", 50.0)


def test_a_change_of_long_paths_is_counted_afresh():
    edges = undirected(rmat(scale=13, edges=100_000, seed=1))
    auto, followed = (gw.Program(PATH, strategy=strategy, backend="cpu") for strategy in ("auto", "wcoj"))
    for tick in (edges[:-10_000], edges[-10_000:]):
        counts = [program.step_counts({"e": tick})["h"] for program in (auto, followed)]
        assert counts[0] == counts[1]
    (phase,) = auto.last_tick.recounted["h"]
    assert phase.cost < phase.instead
    assert not followed.last_tick.recounted


@pytest.mark.usefixtures("ready")
def test_large_changes_are_counted_afresh_and_small_ones_followed():
    base, added = skewed()
    auto, followed = (gw.Program(PATH, strategy=strategy, threads=1, backend="cpu") for strategy in ("auto", "wcoj"))
    gone = gw.ZSet.from_rows([(tuple(row), -1) for row in base[:1500].tolist()])
    for tick, afresh in ((base, 0), (added[:2], 0), (added[2:1500], 1), (gone, 1)):
        counts = [program.step_counts({"e": tick})["h"] for program in (auto, followed)]
        assert counts[0] == counts[1]
        assert len(auto.last_tick.recounted.get("h", ())) == afresh
        assert not followed.last_tick.recounted
        assert ("the last tick's change was counted afresh for" in auto.explain()) == bool(afresh)
        assert auto.count("h") == followed.count("h")
    (phase,) = auto.last_tick.recounted["h"]
    assert phase.phase == 0
    text = f"a cost of {phase.cost:,} instead of about {phase.instead:,.0f}, where testing one candidate costs 1"
    assert f"the last tick's change was counted afresh for {text}" in auto.explain()


def test_where_nothing_is_summed_away_only_large_changes_are_tried():
    """A whole count is one more join then, which a change has to start more rows than."""
    base = undirected(rmat(scale=12, edges=60_000, seed=1))
    auto, followed = (gw.Program(TRIANGLE, strategy=strategy, backend="cpu") for strategy in ("auto", "wcoj"))
    gone = gw.ZSet.from_rows([(tuple(row), -1) for row in base[:40_000].tolist()])
    ticks = (base[:9_000], False, 0), (base[9_000:11_000], False, 0), (base[11_000:], True, 1), (gone, True, 1)
    for tick, is_sampled, afresh in ticks:  # the first is a load, which has a plan
        counts = [program.step_counts({"e": tick})["h"] for program in (auto, followed)]
        assert counts[0] == counts[1]
        work = auto.last_tick.work["h"][0].get(full_join.FULL_COUNT, {})
        assert (full_join.SAMPLED in work) == is_sampled
        assert len(auto.last_tick.recounted.get("h", ())) == afresh
    heads_of(auto)["h"].recounting._skipped_ticks = recount.MAX_SKIPPED_TICKS
    auto.step_counts({"e": base[:2000]})
    assert full_join.SAMPLED in auto.last_tick.work["h"][0][full_join.FULL_COUNT]


@pytest.mark.parametrize("min_rows", [1, np.inf], ids=["planned", "sampled"])
def test_from_the_empty_state_a_small_atom_is_looked_for(min_rows, monkeypatch):
    monkeypatch.setattr(lower, "MIN_PLANNED_ROWS", min_rows)
    monkeypatch.setattr(lower, "MIN_PLANNED_COST", np.inf)
    program = gw.Program("h(a, b, c) :- r(a, b), s(b, c), t(a, c). .output h", backend="cpu")
    rows = rmat(scale=12, edges=60_000, seed=1)
    program.step_counts({"r": rows[:1200], "s": rows, "t": rows})
    work = program.last_tick.work["h"][0]
    assert [*work] == [full_join.LOAD] if min_rows == 1 else full_join.SAMPLED in work[full_join.FULL_COUNT]
    assert sum(step[PROPOSALS] for steps in work.values() for step in steps.values()) < 100_000


@pytest.mark.usefixtures("ready")
def test_both_phases_of_a_tick_are_counted_apart():
    base, added = skewed()
    auto, followed = (gw.Program(PATH, strategy=strategy, backend="cpu") for strategy in ("auto", "wcoj"))
    mixed = gw.ZSet.from_rows([(tuple(row), -1) for row in base[:1500].tolist()] + [(tuple(row), 1) for row in added])
    for program in (auto, followed):
        program.load({"e": base})
    counts = [program.step_counts({"e": mixed})["h"] for program in (auto, followed)]
    assert counts[0] == counts[1]
    assert counts[0].deleted
    assert [phase.phase for phase in auto.last_tick.recounted["h"]] == [0, 1]


@pytest.mark.usefixtures("always")
def test_a_tick_that_fails_leaves_the_number_as_it_was():
    large = 2**40
    text = "h(a, b, c) :- e(a, b), e(b, c). h(a, b, a) :- f(a, b). .output h g(a, sum(b)) :- e(a, b)."
    program = gw.Program(text, bag=True)
    program.step_counts({"e": [((1, 2), 3), ((2, 3), large)], "f": [(1, 2)]})
    assert program.count("h") == 3 * large + 1
    for change, error in (
        ({"e": [((2, 4), 1)], "f": [(1, 2, 3)]}, SchemaError),
        ({"e": [((2, 5), -1)]}, NegativeWeightError),
        ({"e": [((2, 2**62), 4)]}, AggregateOverflowError),
    ):
        with pytest.raises(error):
            program.step_counts(change)
        assert program.count("h") == 3 * large + 1
    assert program.step_counts({"e": [(2, 9)]})["h"].net == 3
    assert program.count("h") == 3 * large + 4


@pytest.mark.usefixtures("always")
def test_weights_outside_int64_are_refused():
    program = gw.Program("h(a, b, c) :- e(a, b), e(b, c). .output h", bag=True)
    program.step_counts({"e": [((1, 2), 2**40)]})
    with pytest.raises(WeightOverflowError):
        program.step_counts({"e": [((2, 3), 2**40)]})
    assert program.count("h") == 0
    assert program.step_counts({"e": [((2, 3), 2**20)]})["h"].net == 2**60


@pytest.mark.usefixtures("followed")
def test_a_last_step_that_looks_at_nothing_costs_nothing(monkeypatch):
    """The last step's values are summed by ranges; the negated atom matches none of them."""
    monkeypatch.setattr(generic, "MIN_RANGE_PREFIXES", 1)
    monkeypatch.setattr(eliminate, "INITIAL_GATHERED", 1)
    monkeypatch.setattr(eliminate, "MAX_GATHERED", 4)
    text = "h(a, b, c, d) :- e(a, b), f(b, c), k(c, d), !g(b, d). .output h"
    program = gw.Program(text, chunk_rows=2, inputs=named(text))
    rows = [(x, y) for x in range(7) for y in range(7)]
    program.load({"f": rows, "k": rows, "g": [(50, 99)]})
    assert program.step_counts({"e": rows})["h"].net == 7**4


@pytest.mark.usefixtures("always")
def test_numbers_beyond_int64():
    names = [f"v{index}" for index in range(9)]
    body = ", ".join(f"e({left}, {right})" for left, right in pairwise(names))
    program = gw.Program(f"h({', '.join(names)}) :- {body}. .output h")
    rows = [(x, y) for x in range(200) for y in range(200)]
    assert program.step_counts({"e": rows})["h"].net == 200**9 == program.count("h") > 2**63
    gone = program.step_counts({"e": gw.ZSet.from_rows([((x, y), -1) for x in range(200) for y in range(100)])})["h"]
    assert gone.deleted == 200**9 - 200 * 100**8
    assert program.count("h") == 200 * 100**8


@pytest.mark.parametrize("route", [None, 2000])
def test_the_number_is_known_on_either_side_and_under_every_plan(route):
    why = lacking("shim")
    if why is not None:
        pytest.skip(why)
    chance = random.Random(route)
    base, added = (edges.tolist() for edges in skewed())
    program = gw.Program(PATH, backend=Kind("shim").backend(3), route=route, replan=1.5) if route else gw.Program(PATH)
    plain = gw.Program(PATH, strategy="binary", replan=None)
    present = base
    for tick in range(6):
        gone = chance.sample(present, chance.choice((3, 1500)))
        come = chance.sample(added, chance.choice((3, 1500)))
        change = [(tuple(row), -1) for row in gone] + [(tuple(row), 1) for row in come]
        rows = gw.ZSet.from_rows(change if tick else [(tuple(row), 1) for row in base])
        if tick == 2:
            program.load({"e": rows})
            plain.load({"e": rows})
        else:
            assert program.step_counts({"e": rows})["h"] == plain.step_counts({"e": rows})["h"]
        assert program.count("h") == plain.count("h")


@pytest.mark.drawn("name", "threads", "analyze", each=True)
@pytest.mark.parametrize(("threads", "analyze"), [(1, False), (2, True)])
@pytest.mark.parametrize("name", ["path", "diamond", "house", "negated"])
def test_all_that_the_kernels_do_is_reported(name, threads, analyze, monkeypatch):
    """Work of samples and of aborted counts is part of the report."""
    monkeypatch.setattr(full_join, "THREAD", 1)
    counted = {}
    made = GenericJoin.work_of

    def noted(join, step):
        work = made(join, step)
        counted[id(work)] = work
        return work

    monkeypatch.setattr(GenericJoin, "work_of", noted)
    monkeypatch.setattr(recount, "MAX_COST_RATIO", 2.0)
    monkeypatch.setattr(recount, "MIN_SEED_RATIO", -1)
    base, added = skewed()
    program = gw.Program(f"{TEXTS[name]} .output h", backend="cpu", analyze=analyze, threads=threads)
    seen = set()
    for tick in (
        {"e": base[:3000], "f": base[:2000]},
        {"e": added[:1500]},
        {"f": added[:1100]},
        {"e": added[1500:3000]},
    ):
        counted.clear()
        tick = {relation: rows for relation, rows in tick.items() if relation in program.inputs}
        if not tick:
            continue
        program.step_counts(tick)
        work = program.last_tick.work["h"][0]
        reported = sum(
            (counts for steps in work.values() for counts in steps.values()), start=np.zeros(N_WORK, np.int64)
        )
        afresh, done = work.get(full_join.FULL_COUNT, {}), sum(counted.values(), start=np.zeros(N_WORK, np.int64))
        if threads > 1 and full_join.GIVEN_UP in afresh:  # what runs ahead is left out, as how far it comes is chance
            assert (reported <= done).all()
        else:
            assert reported.tolist() == done.tolist()
        seen.update(name if name.startswith("#") else "step" for name in afresh)
        assert any(not name.startswith("#") for name in afresh) == bool(program.last_tick.recounted)
        document = json.loads(program.explain(analyze=True, format="json"))
        (rule,) = document["heads"][-1]["rules"]
        assert (rule["afresh"] is not None) == bool(afresh)
        total = document["tick"]["total"]
        assert [total["proposals"], total["survivors"]] == reported[[PROPOSALS, SURVIVORS]].tolist()
        for head in program.last_tick.recounted.values():
            recomputation = rule["afresh"]
            levels = [level["counts"]["survivors"] for level in recomputation["levels"] if level["counts"]]
            assert sum(levels) == sum(counts[SURVIVORS] for name, counts in afresh.items() if not name.startswith("#"))
            assert all(use["sees"] == "after" for level in recomputation["levels"] for use in level["uses"])
            assert "counted afresh: all of " in program.explain(analyze=True)
            assert recomputation["change_of"] == rule["paths"][head[-1].paths[0]]["change_of"]
            if analyze:
                assert recomputation["seed_counts"]["prefixes"] > 0
                assert total["bytes"] >= sum(counts["bytes"] for _, counts in recomputation["further"]) > 0
    assert seen >= {"#sampled", "step"}


def test_counts_that_are_given_up_are_reported(monkeypatch):
    monkeypatch.setattr(recount.Recounting, "_incremental_cost", lambda *_: 1e6)
    base, added = skewed()
    program = gw.Program("h(a, b, c, d) :- e(a, b), e(b, c), e(c, d), e(a, d). .output h", backend="cpu")
    program.load({"e": base})
    monkeypatch.setattr(recount.Recounting, "_allowance", lambda *_: 1_500_000.0)
    monkeypatch.setattr(recount.Recounting, "_estimate", recount._CostEstimate((1.0,), 1, (0,)))
    program.step_counts({"e": added[:1500]})
    assert not program.last_tick.recounted
    afresh = program.last_tick.work["h"][0][full_join.FULL_COUNT]
    assert list(afresh) == [full_join.GIVEN_UP]
    spent = afresh[full_join.GIVEN_UP]
    assert spent[PROPOSALS] + spent[PROBES] + 2 * spent[SURVIVORS] > 25_000
    assert "given up, as it costs more than following the change: " in program.explain(analyze=True)


@pytest.mark.usefixtures("ready")
def test_what_is_counted_afresh_is_no_mistaken_estimate(monkeypatch):
    """A recomputed phase adds neither an expectation nor work to the feedback of paths."""
    base, added = skewed()
    program = gw.Program(PATH, backend="cpu")
    program.load({"e": base})
    sums = program._ledger.feedback
    before = sums.proposed, sums.expected, dict(sums.done)
    program.step_counts({"e": added[2:1500]})
    assert program.last_tick.recounted
    assert (sums.proposed, sums.expected, sums.done) == before
    mixed = gw.ZSet.from_rows([(tuple(row), -1) for row in base[:1500].tolist()] + [((1, 2), 1), ((5, 9), 1)])
    program.step_counts({"e": mixed})
    assert [phase.phase for phase in program.last_tick.recounted["h"]] == [0]
    paths = program.last_tick.work["h"][0]
    followed = sum(int(work[PROPOSALS]) for n, steps in paths.items() if n >= 0 for work in steps.values())
    assert sums.proposed - before[0] == followed
    rate = sum(rate for _, rate in next(iter(sums._gauges.values()))[0].seeds)
    assert sums.expected - before[1] == pytest.approx(rate * 2) or followed == 0
