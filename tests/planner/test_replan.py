"""Plans that change while a program runs: the answers never do, and the work falls."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj import replanning as replanning_module
from gpu_wcoj.circuit import adopting
from gpu_wcoj.errors import DeviceMemoryError, UsageError
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.path import AtomUse
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.lowering import Lowering
from gpu_wcoj.planner import feedback
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.trace.arrangement import Arrangement
from tests.join.patterns import PATTERNS
from tests.join.twin import arities, check_script, random_script
from tests.kinds import QUICK_KINDS, Kind, lacking
from tests.long import IS_LONG
from tests.recursion.twin import check_script as check
from tests.recursion.twin import without_debts

RULE = "h(a, b, c, d) :- s(a, d), r(a, b, c), u(b), v(c)."
"""From a change of s, b should come before c where u has few rows, and c before b where v has."""
MORE = "pair(b, c) :- h(a, b, c, d). reach(a, b) :- pair(a, b). reach(a, c) :- reach(a, b), u(b), pair(b, c)."

Tick = dict[str, Any]

"""Whether everything is tried."""


@pytest.fixture
def eager(monkeypatch):
    """Plans are looked at after little work, and arrangements cost little."""
    monkeypatch.setattr(feedback, "FEWEST", 500)
    monkeypatch.setattr(feedback, "PER_ROW", 0.05)
    monkeypatch.setattr(feedback, "PER_ORDER", 0.0)
    monkeypatch.setattr(feedback, "SMALL_TICKS", 1)
    monkeypatch.setattr(replanning_module, "SORTING", 0.05)


def stream(n_ticks: int, swap_at: int, seed: int = 0, n: int = 12_000, changes: int = 100) -> Iterator[Tick]:
    """A tick that loads, then small ones; in one of them u gets many rows, and v loses all but one."""
    random_numbers = np.random.default_rng(seed)
    side = 100
    rows = np.stack([random_numbers.integers(0, top, n) for top in (40, side, side)], axis=1)
    yield {"r": np.unique(rows, axis=0), "u": [(0,)], "v": [(i,) for i in range(side)], "s": [(0, 0)]}
    kept: list[tuple[int, int]] = []
    for number in range(n_ticks):
        new = list({(int(a), int(d)) for a, d in random_numbers.integers(0, [40, 10**6], (changes, 2))})
        gone = kept[: len(kept) // 4]
        kept = kept[len(gone) :] + new
        tick: Tick = {"s": [(row, 1) for row in new] + [(row, -1) for row in gone]}
        if number == swap_at:
            tick["u"] = [(i,) for i in range(1, side)]
            tick["v"] = [((i,), -1) for i in range(1, side)]
        yield tick


def proposed(program: Program) -> int:
    """Values that the last tick looked at."""
    heads = program.last_tick.work.values()
    return sum(
        counted.item(PROPOSALS)
        for rules in heads
        for paths in rules.values()
        for steps in paths.values()
        for counted in steps.values()
    )


def was_replanned(program: Program) -> bool:
    return "\nplan: chosen anew before tick" in program.explain()


def run_both(replanned: Program, fixed: Program, ticks: Iterator[Tick]) -> tuple[list[int], list[int]]:
    """Feed both, and compare every answer; the values that the ticks proposed."""
    work: tuple[list[int], list[int]] = ([], [])
    for tick in ticks:
        found, expected = replanned.step(tick), fixed.step(tick)
        assert {name: one.rows() for name, one in found.items()} == {name: one.rows() for name, one in expected.items()}
        for one, program in zip(work, (replanned, fixed), strict=True):
            one.append(proposed(program))
    for name in fixed.heads:
        assert replanned.relation(name).rows() == fixed.relation(name).rows()
        assert replanned.count(name) == fixed.count(name)
    return work


def test_a_stream_whose_skew_changes():
    """With nothing set otherwise: once as much is wasted as planning and arranging take, the waste ends."""
    program, fixed = Program(RULE, threads=1), Program(RULE, replan=None, threads=1)
    work, wasted = run_both(program, fixed, stream(10, 2, changes=2000))
    assert was_replanned(program)
    assert not was_replanned(fixed)
    assert 20 * work[-1] < wasted[-1]
    assert work[:4] == wasted[:4]
    assert program.explain().count("plan:") == 1


def test_small_ticks_are_noticed_too(eager, monkeypatch):
    monkeypatch.setattr(feedback, "SMALL_TICKS", 16)
    program, fixed = Program(RULE, threads=1), Program(RULE, replan=None, threads=1)
    work, wasted = run_both(program, fixed, stream(60, 2, n=2000, changes=4))
    assert was_replanned(program)
    assert 2 * sum(work[-8:]) < sum(wasted[-8:])


@QUICK_KINDS
@pytest.mark.parametrize("bag", [False, True])
def test_every_backend_and_its_twin(kind, eager, bag):
    program = Program(RULE, bag=bag, keep=["h"], backend=kind.backend())
    fixed = Program(RULE, bag=bag, keep=["h"], backend="cpu", replan=None)
    work, wasted = run_both(program, fixed, stream(8, 2, n=3000, changes=40))
    assert was_replanned(program)
    assert 4 * work[-1] < wasted[-1]


@pytest.mark.parametrize("route", ["device", "cpu", 60] if IS_LONG else [60])
def test_both_sides_of_a_twin_are_planned_anew(eager, route):
    reason = lacking("shim")
    if reason:
        pytest.skip(reason)
    program = Program(RULE, backend=Kind("shim").backend(), route=route)
    fixed = Program(RULE, backend="cpu", replan=None)
    ticks = (tick for number in range(2) for tick in _sizes(stream(5, 2, number, n=1500, changes=60), number))
    work, wasted = run_both(program, fixed, ticks)
    assert was_replanned(program)
    assert sum(work[-4:]) < sum(wasted[-4:])
    sides = program._ledger.state.sides
    assert sides is not None
    assert len({id(side.lowered.plan) for side in sides}) == 1


def _sizes(ticks: Iterator[Tick], number: int) -> Iterator[Tick]:
    """Ticks, some of which are cut to a few rows so that they run elsewhere."""
    for place, tick in enumerate(ticks):
        yield {"s": tick["s"][:20]} if place and (place + number) % 2 and len(tick) == 1 else tick


def test_kept_heads_loops_negation_and_aggregates(eager):
    text = RULE + MORE + "lone(b) :- u(b), !pair(b, b). many(b, count()) :- pair(b, c)."
    program, fixed = Program(text, keep=["pair", "h"]), Program(text, keep=["pair", "h"], replan=None)
    run_both(program, fixed, stream(8, 2, n=2000, changes=30))
    assert was_replanned(program)


def test_counted_loaded_and_streamed_ticks(eager):
    program, fixed = Program(RULE), Program(RULE, replan=None)
    for number, tick in enumerate(stream(10, 2, n=3000, changes=40)):
        if number % 3 == 0:
            assert program.step_counts(tick) == fixed.step_counts(tick)
        elif number % 3 == 1:
            pieces: list[list[Any]] = [[], []]
            for one, into in zip((program, fixed), pieces, strict=True):
                one.step_pieces(tick, lambda name, piece, into=into: into.extend((name, row) for row in piece.rows()))
            assert sorted(pieces[0]) == sorted(pieces[1])
        else:
            program.load(tick)
            fixed.load(tick)
        assert program.count("h") == fixed.count("h")
    assert was_replanned(program)


@pytest.mark.parametrize("seed", range(4 if IS_LONG else 2))
def test_random_ticks(eager, monkeypatch, seed):
    """Whatever comes, with plans that change as often as they can; types, nulls and texts turn up on the way."""
    monkeypatch.setattr(feedback, "FEWEST", 20)
    monkeypatch.setattr(replanning_module, "CLEARLY", 1.0)
    chance = random.Random(seed)
    text = (
        "tri(a, b, c) :- e(a, b), e(b, c), e(a, c), f(c, w)."
        "far(a, d) :- e(a, b), f(b, c), e(c, d), a != d. near(a, b) :- far(a, b), !f(a, b)."
    )
    options: dict[str, Any] = {"bag": chance.random() < 0.5, "keep": ["far"]}
    program, fixed = Program(text, replan=1.01, **options), Program(text, replan=None, **options)
    for number in range(25):
        n_values = chance.choice([3, 10, 40])
        tick: Tick = {}
        for name in ("e", "f"):
            hub = chance.randrange(n_values) if chance.random() < 0.4 else None
            rows: list[Any] = []
            for _ in range(chance.randrange(60)):
                left = hub if hub is not None and chance.random() < 0.8 else chance.randrange(n_values)
                row: tuple[Any, ...] = (
                    left,
                    None if number > 12 and chance.random() < 0.1 else chance.randrange(n_values),
                )
                rows.append((row, chance.choice([1, 1, 1, -1])))
            if rows:
                tick[name] = rows
        try:
            found = program.step(tick)
        except Exception as error:  # the other program has to say the same
            with pytest.raises(type(error)):
                fixed.step(tick)
            continue
        assert {name: one.rows() for name, one in found.items()} == {
            name: one.rows() for name, one in fixed.step(tick).items()
        }
    for name in ("tri", "far", "near"):
        assert program.relation(name).rows() == fixed.relation(name).rows()


def test_engines_that_share_work_may_have_different_plans(eager):
    fixed = Program(RULE, replan=None)
    shares = [Program(RULE, replan=4.0 if number else None) for number in range(3)]
    for number, share in enumerate(shares):
        share.share_work(number, 3)
    numbers = np.random.default_rng(3)
    for number, tick in enumerate(stream(8, 2, n=3000, changes=60)):
        if number:
            tick["r"] = numbers.integers(0, [40, 100, 100], (200, 3))
        whole = fixed.step(tick)["h"].rows()
        parts = [share.step(tick)["h"].rows() for share in shares]
        assert sorted(row for part in parts for row in part) == whole
    assert [was_replanned(share) for share in shares] == [False, True, True]


def every_tick(monkeypatch: pytest.MonkeyPatch, cheaper: Callable[..., dict[feedback.Place, float]]) -> None:
    """Every tick begins by taking the paths of another plan that these are."""

    def hurry(self: feedback.Feedback, *_: Any) -> None:
        self.is_due = True
        self.done = defaultdict(float)

    monkeypatch.setattr(replanning_module, "_cheaper", cheaper)
    monkeypatch.setattr(replanning_module, "SORTING", 0.0)
    monkeypatch.setattr(replanning_module, "CLEARLY", 0.0)
    monkeypatch.setattr(feedback.Feedback, "observe", hurry)


@pytest.mark.parametrize("bag", [False, True])
def test_rules_that_share_a_join_may_do_so_no_more(monkeypatch, bag):
    """They have the names of the first of them, and paths that are planned for one alone have its own."""
    text = (
        "h(a, b, c, 1) :- r(a, b), s(b, c), a != c, !u(c). g(c, b, a, d) :- r(c, b), s(b, a), c != a, !u(a), d = c + 1."
        " f(c, b, a) :- r(c, b), s(b, a), c != a, !u(a). k(b, a, c, e) :- r(b, a), s(a, c), b != c, !u(c), e = b + 1."
    )
    planned, made = Lowering.plan, []

    def apart(self: Lowering, *given: Any) -> Plan:
        made.append(planned(replace(self, hints={"f": ["b"], "k": ["a"]}) if made else self, *given))
        return made[-1]

    monkeypatch.setattr(Lowering, "plan", apart)
    every_tick(monkeypatch, lambda _, present, *__: dict.fromkeys(present.places(), 1.0))
    for seed in range(3):
        made.clear()
        script = random_script(random.Random(seed), {"r": 2, "s": 2, "u": 1})
        check(text, without_debts(script), bag=bag, clingo=False, backend="cpu")
        first, last = (plan.queries["f"][0] for plan in (made[0], made[-1]))
        assert first.together
        assert not last.together


@pytest.mark.parametrize("seed", range(8 if IS_LONG else 4))
def test_any_plan_may_follow_any_other(monkeypatch, seed):
    """Every tick begins with an order by chance, in some of its paths by chance; by recomputation."""
    chance = random.Random(seed)
    planned, made, turned = Lowering.plan, replanning_module.mixed, []

    def any_order(self: Lowering, *given: Any) -> Plan:
        hints: dict[str, list[str]] = {}
        for rule in self.rules.rules:
            names = sorted({variable.name for atom in rule.atoms for variable in atom.variables})
            chance.shuffle(names)
            hints[rule.head.relation] = names
        strategy = chance.choice(["auto", "wcoj", "binary"])
        return planned(replace(self, hints=hints, strategy=strategy), *given)

    def some(_: Plan, present: Plan, *__: Any) -> dict[feedback.Place, float]:
        places = [
            (name, rule, number)
            for name, queries in present.queries.items()
            for rule, query in enumerate(queries)
            for number in range(len(query.paths))
        ]
        return {place: 1.0 for place in places if chance.random() < 0.6}

    def mix(present: Plan, *given: Any) -> Plan:
        found = made(present, *given)
        turned.append(found.queries != present.queries)
        return found

    monkeypatch.setattr(Lowering, "plan", any_order)
    monkeypatch.setattr(replanning_module, "mixed", mix)
    every_tick(monkeypatch, some)
    names = [name for name in sorted(PATTERNS) if PATTERNS[name].count(",") > 5]
    for name in names if IS_LONG else chance.sample(names, 10):
        script = random_script(random.Random(f"{name} {seed}"), arities(PATTERNS[name]))
        keep = Program(PATTERNS[name]).heads if chance.random() < 0.5 else ()
        way = chance.choice(["step", "step_counts", "step_pieces"])
        check_script(PATTERNS[name], script, bag=chance.random() < 0.5, way=way, keep=keep, backend="cpu")
    assert sum(turned) > len(turned) // 4


def test_checkpoints_before_and_after(eager, tmp_path):
    """What is written under one plan goes on under another, and under none; increments are not mixed up."""
    text = RULE + "pair(b, c) :- h(a, b, c, d)."
    program, fixed = Program(text, keep=["pair"]), Program(text, keep=["pair"], replan=None)
    replanned = set()
    for number, tick in enumerate(stream(10, 3, n=3000, changes=40)):
        found, expected = program.step(tick), fixed.step(tick)
        assert found["pair"].rows() == expected["pair"].rows()
        program.checkpoint(tmp_path / "state")
        again = Program.restore(tmp_path / "state", replan=4.0 if number % 2 else None)
        assert again.relation("pair").rows() == fixed.relation("pair").rows()
        assert again.relation("r").rows() == fixed.relation("r").rows()
        replanned.add(was_replanned(program))
        if number in (2, 3, 9):
            program = again
    assert replanned == {False, True}


def test_a_restored_state_is_planned_for_what_it_holds(tmp_path):
    fixed = Program(RULE, replan=None)
    *ticks, last = stream(8, 2, n=3000, changes=40)
    for tick in ticks:
        fixed.step(tick)
    fixed.checkpoint(tmp_path)
    again = Program.restore(tmp_path, replan=None)
    assert again.step(last)["h"].rows() == fixed.step(last)["h"].rows()
    assert 4 * proposed(again) < proposed(fixed)


def test_no_memory_for_another_plan_leaves_all_as_it_is(eager, monkeypatch):
    program, fixed = Program(RULE), Program(RULE, replan=None)
    calls = []

    def fail(*_: object) -> None:
        calls.append(1)
        raise DeviceMemoryError("arranging", 1)

    monkeypatch.setattr(adopting, "_arranged", fail)
    work, wasted = run_both(program, fixed, stream(12, 2, n=3000, changes=40))
    assert calls
    assert work == wasted
    assert "plan: kept before tick" in program.explain()
    assert len(calls) < 6


def test_an_interrupt_while_planning_anew_undoes_it(eager, monkeypatch):
    program, fixed = Program(RULE), Program(RULE, replan=None)
    made = adopting._arranged
    interrupted = []

    def interrupt(*given: Any) -> Any:
        if not interrupted:
            interrupted.append(1)
            raise KeyboardInterrupt
        return made(*given)

    monkeypatch.setattr(adopting, "_arranged", interrupt)
    for tick in stream(8, 2, n=3000, changes=40):
        try:
            found = program.step(tick)
        except KeyboardInterrupt:
            assert program.relation("h").rows() == fixed.relation("h").rows()
            assert not was_replanned(program)
            found = program.step(tick)
        assert found["h"].rows() == fixed.step(tick)["h"].rows()
    assert interrupted
    assert was_replanned(program)


@QUICK_KINDS
@pytest.mark.parametrize("bag", [False, True])
def test_what_both_plans_arrange_is_shared(kind, bag):
    """What is arranged anew is what its rows would have given; selections, weights and derivations too."""
    text = "h(a, c) :- r(a, b, c), r(b, a, 1), s(c). k(a, b) :- h(a, b), r(a, b, c), c < 3, !s(a)."
    program = Program(text, bag=bag, keep=["h"], backend=kind.backend(), route="device")
    numbers = np.random.default_rng(5)
    for _ in range(3):
        rows = [(tuple(row), int(numbers.integers(-1, 4))) for row in numbers.integers(0, 6, (80, 3)).tolist()]
        program.step({"r": rows, "s": [(1,), (2,)]})
    sides = program._ledger.settled()
    assert sides is not None
    circuit, lowering = sides.primary.circuit, program._lowering
    n_built = []
    for order in itertools.permutations(range(3)):
        plan = _turned(sides.primary.lowered.plan, order)
        other = lowering.circuit(plan, circuit.execution)
        to_build = adopting.rows_to_build(other, circuit)
        adopting.adopt(other, circuit)
        built = 0
        for new, old in zip(other.indices(), circuit.indices(), strict=True):
            assert [one.tolist() for one in map(circuit.backend.to_host, new.rows()[0])] == [
                one.tolist() for one in map(circuit.backend.to_host, old.rows()[0])
            ]
            for key, arrangement in new.arrangements.items():
                if key in old.arrangements:
                    assert arrangement.spine is old.arrangements[key].spine
                    continue
                built += len(arrangement.spine)
                again = RelationIndex(new.name, new.width, [key], circuit.backend)
                again.load(*old.rows())
                for found, expected in zip(_flat(arrangement), _flat(again.arrangements[key]), strict=True):
                    assert found.tolist() == expected.tolist()
        assert built <= to_build
        n_built.append(built)
    assert max(n_built) > 0


def _turned(plan: Plan, order: tuple[int, ...]) -> Plan:
    """The plan with arrangements of r in another order besides; for their rows only, they fit no path."""
    (query,) = plan.queries["k"]
    keys = [use for path in query.paths for use in path.others if use.key.relation == "r"]
    wanted = {replace(use.key, order=order) for use in keys if len(use.key.order) == 3}
    path = query.paths[0]
    extra = tuple(AtomUse(9, key, tuple("xyz")) for key in wanted)
    turned = replace(query, paths=(replace(path, others=(*path.others, *extra)), *query.paths[1:]))
    return replace(plan, queries={**plan.queries, "k": (turned,)})


def _flat(arrangement: Arrangement) -> list[Any]:
    columns, weights = arrangement.columns()
    return [arrangement.backend.to_host(one) for one in (*columns, weights)]


def test_a_stream_as_expected_is_left_alone(monkeypatch):
    looks = []
    made = replanning_module.replanned

    def count(*given: Any) -> Any:
        looks.append(1)
        return made(*given)

    monkeypatch.setattr(feedback, "FEWEST", 500)
    monkeypatch.setattr(feedback, "PER_ORDER", 0.0)
    monkeypatch.setattr(replanning_module, "replanned", count)
    program = Program("t(a, b, c) :- e(a, b), e(b, c), e(a, c).")
    numbers = np.random.default_rng(0)
    program.step({"e": np.unique(numbers.integers(0, 300, (5000, 2)), axis=0)})
    for _ in range(40):
        program.step({"e": numbers.integers(0, 300, (50, 2))})
    assert sum(looks) == 0
    assert not was_replanned(program)


def test_skew_that_swings_makes_no_plan_swing(monkeypatch):
    """Arranging rows for plans takes no more than what the ticks did, however often the skew turns."""
    built = []
    made = adopting.adopt

    def count(circuit: Any, other: Any) -> None:
        built.append(adopting.rows_to_build(circuit, other))
        made(circuit, other)

    monkeypatch.setattr("gpu_wcoj.routing.sides.adopt", count)
    monkeypatch.setattr(feedback, "FEWEST", 500)
    monkeypatch.setattr(feedback, "PER_ORDER", 0.0)
    program = Program(RULE, threads=1)
    work = 0
    for tick in stream(1, 99, n=4000):
        program.step(tick)
    numbers = np.random.default_rng(1)
    for number in range(60):
        many, few = ("u", "v") if number // 3 % 2 else ("v", "u")
        rows = {"s": numbers.integers(0, [40, 10**6], (60, 2))}
        if number % 3 == 0:
            rows |= {many: [((i,), 1) for i in range(100)], few: [((i,), -1) for i in range(1, 100)]}
        program.step(rows)
        work += proposed(program)
    assert feedback.SORTING * sum(built) <= work


@pytest.mark.parametrize("value", [1, 0, -2.0, float("nan"), float("inf"), True, "4", [4]])
def test_factors_that_make_no_sense(value):
    with pytest.raises(UsageError, match="replan="):
        Program(RULE, replan=value)
