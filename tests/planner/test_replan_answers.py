"""Plans that change while a program runs do not change its answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj.engine import state as replanning_module
from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.join.settings import tune
from gpu_wcoj.planner import replan
from gpu_wcoj.planner.lower import Plan
from tests.helpers.answers import named
from tests.helpers.comparison import arities, check_script, random_script, without_debts
from tests.helpers.comparison import check_script as check
from tests.helpers.join_patterns import PATTERNS
from tests.helpers.kernel_kinds import QUICK_KINDS, Kind, lacking
from tests.helpers.long_tests import IS_LONG
from tests.helpers.replanned_programs import RULE, Tick, every_tick, run_both, stream, was_replanned

MORE = "pair(b, c) :- h(a, b, c, d). reach(a, b) :- pair(a, b). reach(a, c) :- reach(a, b), u(b), pair(b, c)."


@pytest.mark.drawn("bag")
@pytest.mark.usefixtures("large_ticks")
@QUICK_KINDS
@pytest.mark.parametrize("bag", [False, True])
def test_every_backend_and_its_twin(kind, eager, bag):
    with tune(off=frozenset({"recounts"})):  # all rows, listed again, cost less than what the plan wastes
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
    monkeypatch.setattr(replan, "FEWEST", 20)
    monkeypatch.setattr(replanning_module, "CLEARLY", 1.0)
    chance = random.Random(seed)
    text = (
        "tri(a, b, c) :- e(a, b), e(b, c), e(a, c), f(c, w)."
        "far(a, d) :- e(a, b), f(b, c), e(c, d), a != d. near(a, b) :- far(a, b), !f(a, b)."
    )
    options: dict[str, Any] = {"bag": chance.random() < 0.5, "keep": ["far"], "inputs": named(text)}
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


@pytest.mark.parametrize("bag", [False, True])
def test_rules_with_one_body_share_it_after_every_plan(monkeypatch, bag):
    """Prefixes have the names of the first of them."""
    text = (
        "h(a, b, c, 1) :- r(a, b), s(b, c), a != c, !u(c). g(c, b, a, d) :- r(c, b), s(b, a), c != a, !u(a), d = c + 1."
        " f(c, b, a) :- r(c, b), s(b, a), c != a, !u(a). k(b, a, c, e) :- r(b, a), s(a, c), b != c, !u(c), e = b + 1."
    )
    planned, made = Compiler.plan, []

    def apart(self: Compiler, *given: Any) -> Plan:
        options = replace(self.options, order={"f": ["b"], "k": ["a"]}) if made else self.options
        made.append(planned(replace(self, options=options), *given))
        return made[-1]

    monkeypatch.setattr(Compiler, "plan", apart)
    every_tick(monkeypatch, lambda _, present, *__: dict.fromkeys(present.places(), 1.0))
    for seed in range(3):
        made.clear()
        script = random_script(random.Random(seed), {"r": 2, "s": 2, "u": 1})
        check(text, without_debts(script), bag=bag, backend="cpu")
        first, last = (plan.queries["f"][0] for plan in (made[0], made[-1]))
        assert first.continuations
        assert last.continuations


@pytest.mark.parametrize("seed", range(8 if IS_LONG else 2))
def test_any_plan_may_follow_any_other(monkeypatch, seed):
    """Every tick begins with an order by chance, in some of its paths by chance; by recomputation."""
    chance = random.Random(seed)
    planned, made, turned = Compiler.plan, replanning_module.mix_plans, []

    def any_order(self: Compiler, *given: Any) -> Plan:
        hints: dict[str, list[str]] = {}
        for rule in self.rules.rules:
            names = sorted({variable.name for atom in rule.atoms for variable in atom.variables})
            chance.shuffle(names)
            hints[rule.head.relation] = names
        strategy = chance.choice(["auto", "wcoj", "binary"])
        return planned(replace(self, options=replace(self.options, order=hints, strategy=strategy)), *given)

    def some(_: Plan, present: Plan, *__: Any) -> dict[replan.Place, float]:
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

    monkeypatch.setattr(Compiler, "plan", any_order)
    monkeypatch.setattr(replanning_module, "mix_plans", mix)
    every_tick(monkeypatch, some)
    names = [name for name in sorted(PATTERNS) if PATTERNS[name].count(",") > 5]
    for name in names if IS_LONG else chance.sample(names, 6):
        script = random_script(random.Random(f"{name} {seed}"), arities(PATTERNS[name]))
        keep = Program(PATTERNS[name]).heads if chance.random() < 0.5 else ()
        way = chance.choice(["step", "step_counts", "step_pieces"])
        check_script(PATTERNS[name], script, bag=chance.random() < 0.5, way=way, keep=keep, backend="cpu")
    assert sum(turned) > len(turned) // 4
