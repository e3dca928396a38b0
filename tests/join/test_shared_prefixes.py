"""Delta paths that begin alike: the work of a tick, and the same answers as those of rules on their own."""

from __future__ import annotations

import random

import pytest

import gpu_wcoj as gw
from gpu_wcoj.errors import CalculationError, WeightOverflowError
from gpu_wcoj.join import delta, seeds
from gpu_wcoj.join.delta import CommonPrefixes, SharedPrefix
from gpu_wcoj.join.settings import tune
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner.passes import PASSES, share
from gpu_wcoj.planner.passes.share import share_prefixes
from tests.helpers.answers import named
from tests.helpers.comparison import check_script, random_script, without_debts
from tests.helpers.random_plans import any_orders, with_any_branches, with_passes

RULES = {
    "triangle": "triangle(a, b, c) :- e(a, b), e(b, c), e(a, c).",
    "diamond": "diamond(p, q, r, s) :- e(p, q), e(q, r), e(p, r), e(q, s), e(r, s).",
    "clique": "clique(a, b, c, d) :- e(a, b), e(b, c), e(a, c), e(a, d), e(b, d), e(c, d).",
    "large": "large(x, y, z) :- e(x, y), e(y, z), e(x, z), w(z, v), v > 10.",
}


@pytest.fixture
def from_one_row(monkeypatch):
    """Few rows that change are shared as well, and whatever costs say."""
    monkeypatch.setattr(delta, "MIN_CHANGED_ROWS", 1)
    monkeypatch.setattr(share, "_listing", lambda *_: (1e9, 0.0))


@pytest.fixture
def taken(monkeypatch) -> list[int]:
    """How often rows were enumerated, and taken from what was held."""
    found = [0, 0]
    rows = SharedPrefix.rows

    def watched(self, *arguments):
        given = rows(self, *arguments)
        if given is not None:
            found[isinstance(given, type(iter([])))] += 1
        return given

    monkeypatch.setattr(SharedPrefix, "rows", watched)
    return found


def edges(n: int, seed: int = 0) -> list[tuple[int, int]]:
    random_ = random.Random(seed)
    return [(random_.randrange(40), random_.randrange(40)) for _ in range(n)]


def sparse(n: int, seed: int) -> list[tuple[int, int]]:
    random_ = random.Random(seed)
    return [(random_.randrange(400), random_.randrange(400)) for _ in range(n)]


def shared_of(program: gw.Program) -> CommonPrefixes:
    found = program._ledger.state.sides.ahead.circuit.beginnings
    assert found is not None
    return found


def proposals(program: gw.Program) -> dict[tuple[str, int, str], int]:
    """Per head, path and step."""
    return {
        (name, number, step): int(counted[PROPOSALS])
        for name, rules in program.last_tick.work.items()
        for number, steps in rules[0].items()
        for step, counted in steps.items()
    }


@pytest.fixture
def paths_alone():
    """Changes are not the difference of all rows."""
    with tune(off=frozenset({"recounts"}), max_tick_rows=-1):
        yield


@pytest.mark.usefixtures("paths_alone")
def test_shared_steps_are_counted_once(monkeypatch):
    """All of them but one are missing beside what the rules do on their own, and nothing else.

    What is marked for neighbours depends on how seeds are sorted, so that is asked for in all programs.
    """
    monkeypatch.setattr(seeds, "SAMPLED_FROM", 32)
    loaded = {"e": edges(600), "w": [(i, i) for i in range(40)]}
    names = ("triangle", "diamond", "large")
    alone: dict[tuple[str, int, str], int] = {}
    for name in names:
        program = gw.Program(RULES[name], replan=None)
        program.step({relation: loaded[relation] for relation in program.inputs})
        program.step({"e": edges(200, 1)})
        alone |= proposals(program)
    program = gw.Program(" ".join(RULES[name] for name in names), replan=None)
    program.step(loaded)
    program.step({"e": edges(200, 1)})
    found = proposals(program)
    plan = program._lowered.plan.queries
    spared = {
        (name, number, step.name)
        for name in names[1:]
        for number, (path, way) in enumerate(zip(plan[name][0].paths, plan[name][0].continuations, strict=True))
        if way is not None
        for step in path.steps[:1]
    }
    assert len(spared) >= 3
    assert {place: alone[place] for place in alone if place not in spared} == found
    assert sum(found.values()) == sum(alone.values()) - sum(alone[place] for place in spared)
    assert all(alone[place] > 0 for place in spared)


@pytest.mark.usefixtures("large_ticks")
def test_counts_begin_together_where_they_go_row_by_row(taken):
    text = RULES["triangle"] + RULES["diamond"] + " far(a, c) :- e(a, b), e(b, c), e(a, d), e(d, c)."
    program, rows = gw.Program(text, replan=None), gw.Program(text, replan=None)
    for one in (program, rows):
        one.load({"e": edges(600)})
    taken[:] = 0, 0
    counts = program.step_counts({"e": edges(200, 1)})
    assert min(taken) > 0
    assert {name: one.net for name, one in counts.items()} == {
        name: sum(weight for _, weight in zset.rows()) for name, zset in rows.step({"e": edges(200, 1)}).items()
    }


@pytest.mark.usefixtures("large_ticks")
def test_one_row_goes_alone(taken):
    program = gw.Program(" ".join(RULES.values()))
    program.step({"e": edges(600), "w": [(1, 20)]})
    taken[:] = 0, 0
    program.step({"e": [(100, 101), (101, 102), (100, 102)]})
    assert taken == [0, 0]
    program.step({"e": edges(delta.MIN_CHANGED_ROWS * 2, 5)})
    assert min(taken) > 0


def test_answers_do_not_depend_on_threads_and_pieces():
    text = " ".join(RULES.values())
    found = []
    for threads, chunk_rows in ((1, None), (3, None), (1, 50), (2, 1000)):
        program = gw.Program(text, threads=threads, chunk_rows=chunk_rows, replan=None)
        program.step({"e": sparse(1500, 0), "w": [(i, i % 20) for i in range(400)]})
        changes = program.step({"e": sparse(3000, 1)})
        assert shared_of(program)
        found.append({name: zset.to_dict() for name, zset in changes.items()})
    assert all(one == found[0] for one in found)
    assert all(found[0].values())


@pytest.mark.usefixtures("from_one_row")
def test_nothing_is_held_between_ticks():
    text = "t(a, b, c) :- e(a, b), e(b, c), e(a, c). k(a, b, c, 9 / c) :- e(a, b), e(b, c), e(a, c), u(c)."
    program = gw.Program(text)
    program.step({"e": [(1, 2), (2, 3)], "u": [(3,), (0,)]})
    before = {name: program.relation(name) for name in ("t", "k")}
    with pytest.raises(CalculationError, match="9 / c|9 / 0"):
        program.step({"e": [(2, 0), (1, 0)]})
    assert not any(one.buffered for one in shared_of(program)._shared.values())
    assert {name: program.relation(name) for name in ("t", "k")} == before
    assert program.step({"e": [(1, 3)]})["k"].rows() == [((1, 2, 3, 3), 1)]
    assert not any(one.buffered for one in shared_of(program)._shared.values())


@pytest.mark.usefixtures("from_one_row")
def test_a_sink_that_fails_leaves_nothing(taken):
    program = gw.Program(" ".join(RULES.values()))
    program.step({"e": edges(100), "w": [(1, 20)]})
    before = {name: program.relation(name) for name in RULES}

    def refuse(name: str, _: gw.ZSet) -> None:
        if name == "diamond":
            raise ConnectionError

    with pytest.raises(ConnectionError):
        program.step_pieces({"e": edges(300, 3)}, refuse)
    assert taken[0] > 0
    assert not any(one.buffered for one in shared_of(program)._shared.values())
    assert {name: program.relation(name) for name in RULES} == before


@pytest.mark.usefixtures("from_one_row")
@pytest.mark.parametrize("way", ["step", "step_counts"])
def test_what_a_beginning_weighs_counts_where_weights_may_overflow(way, taken, from_one_row):
    """Its atoms' weights have a part in the products, which come out as 0 modulo 2^64."""
    text = "h(a, b, c, d) :- e(a, b), f(b, c), e(a, c), g(c, d). k(a, b, c, d) :- e(a, b), f(b, c), e(a, c), w(c, d)."
    heavy = 2**25
    program = gw.Program(text, bag=True, inputs=named(text))
    program.step({name: gw.ZSet.from_dict({row: heavy}) for name, row in [("f", (1, 2)), ("g", (2, 3)), ("w", (2, 3))]})
    with pytest.raises(WeightOverflowError, match=str(heavy**4)):
        getattr(program, way)({"e": gw.ZSet.from_dict({(1, 1): heavy, (1, 2): heavy})})
    assert taken[0]


def test_beginnings_that_begin_with_branches(from_one_row, monkeypatch):
    """One that begins with another one need not have its branches."""
    text = (
        "h0(q, s, r) :- f(q, s), e(s, r), e(s, q). h1(q, t) :- e(r, t), e(r, q), u(p), u(r)."
        " h2(t, p, q) :- e(t, p), f(q, t), e(t, q). h3(r, p, s, t, q) :- e(p, s), e(p, r), u(t), f(q, s)."
    )
    for seed in (5, 14):
        script = random_script(random.Random(seed), {"e": 2, "f": 2, "u": 1})
        with monkeypatch.context() as patched:
            with_any_branches(patched, random.Random(seed), orders=True)
            check_script(text, script, replan=None)


@pytest.mark.parametrize("bag", [False, True])
def test_what_is_checked_where_only_one_of_them_looks_up(bag, from_one_row, monkeypatch):
    """The checks of a level stand behind its last lookup, which the beginning need not have."""
    text = (
        "h(t, p, r, q) :- e(t, p), e(t, r), f(p, r), f(r, q), !u(r), t < r."
        " k(t, p, r) :- e(t, p), e(t, r), f(p, r), !u(r), t < r."
    )
    for seed in (33, 34):
        script = without_debts(random_script(random.Random(seed), {"e": 2, "f": 2, "u": 1}))
        with monkeypatch.context() as patched:
            with_passes(patched, any_orders(random.Random(seed), PASSES))
            check_script(text, script, bag=bag, replan=None)


def test_rules_that_share_all_and_rules_that_share_some(kind):
    text = (
        "t(a, b, c) :- e(a, b), e(b, c), e(a, c). s(c, a) :- e(a, b), e(b, c), e(a, c)."
        " k(a, b, c, d) :- e(a, b), e(b, c), e(a, c), f(c, d)."
    )
    for seed in range(4):
        script = random_script(random.Random(seed), {"e": 2, "f": 2})
        check_script(text, script, bag=seed % 2 == 0, backend=kind.backend(seed), replan=None)


@pytest.mark.usefixtures("paths_alone")
def test_what_begins_alike_is_said():
    program = gw.Program(RULES["triangle"] + RULES["diamond"], analyze=True)
    program.step({"e": edges(600)})
    program.step({"e": edges(300, 1)})
    said = "shares its beginning, that of path 1 of triangle: r is bound once a tick"
    assert said in program.explain()
    for form in ("mermaid", "svg"):
        assert "shares its beginning" in program.explain(format=form)
    assert '"begins_as": {' in program.explain(format="json")
    text = program.explain(analyze=True).partition("diamond(p, q, r, s)")[2]
    first = text.partition("delta path 2")[0]
    assert "changed rows" not in first  # the triangle's path has begun with these
    assert "rows change or more, as it was in this tick" in first
    assert "prefixes 0" not in first


def test_the_pass_can_be_left_out(monkeypatch):
    with_passes(monkeypatch, [one for one in PASSES if one is not share_prefixes])
    program = gw.Program(RULES["triangle"] + RULES["diamond"])
    program.step({"e": edges(600)})
    assert program._ledger.state.sides.ahead.circuit.beginnings is None
