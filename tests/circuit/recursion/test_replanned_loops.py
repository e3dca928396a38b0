"""Loops whose plans change between ticks: rows and ranks equal a run from scratch."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpu_wcoj import Program
from gpu_wcoj.circuit.recursion.loop import LoopHead
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.engine import state as replanning_module
from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import PROPOSALS
from gpu_wcoj.planner import lower
from gpu_wcoj.planner import replan as feedback
from gpu_wcoj.planner.ir import Order
from gpu_wcoj.planner.join_order import Chooser
from gpu_wcoj.planner.lower import INVERSE, Place, Plan
from tests.helpers.answers import named
from tests.helpers.comparison import SMALL, Judges, compared, random_script, translated, without_debts
from tests.helpers.kernel_kinds import QUICK_KINDS
from tests.helpers.long_tests import IS_LONG
from tests.helpers.recursive_programs import ALL, CLOSURES, SETS
from tests.reference.program_text import aggregates, written

"""Whether everything is tried."""

TURNING = {
    "closure, three at once": CLOSURES["closure, three at once"],
    "same generation": SETS["same generation"],
    "two heads": SETS["points-to"],
    "negation below and in a loop": (
        "p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). q(x, y) :- f(x, y), !p(x, y)."
        " q(x, w) :- q(x, y), f(y, z), q(z, w), !p(y, w)."
    ),
    "least values": "d(x, min(0)) :- s(x). d(z, min(d + w)) :- d(x, d), t(x, y, w), e(y, u), f(u, z).",
    "greatest values of groups": (
        "w(x, y, max(c)) :- t(x, y, c). w(x, z, max(a)) :- w(x, y, a), e(y, u), e(u, z), w(u, z, b)."
        " n(x, c) :- s(x), c = count : { w(x, _, _) }."
    ),
}
"""Loops with rules that leave several variables to a path, so that there are several orders."""

TRIED = TURNING | (ALL if IS_LONG else {})


@pytest.fixture
def turned(monkeypatch):
    """Replan every tick with random orders in some random paths; yield the changed places."""
    chance, planned, made = random.Random("turned"), Compiler.plan, replanning_module.mix_plans
    places: dict[str, set[Place]] = {"delta": set(), "asked": set()}

    def any_order(self: Compiler, *given: Any) -> Plan:
        hints: dict[str, list[str]] = {}
        for rule in self.rules.rules:
            names = sorted({variable.name for atom in rule.atoms for variable in atom.variables})
            chance.shuffle(names)
            hints[rule.head.relation] = names
        options = replace(self.options, order=hints, strategy=chance.choice(["auto", "wcoj", "binary"]))
        return planned(replace(self, options=options), *given)

    def some(_: Plan, present: Plan, *__: Any) -> dict[Place, float]:
        return {place: 1.0 for place in present.places() if chance.random() < 0.7}

    def mix(present: Plan, *given: Any) -> Plan:
        plan = made(present, *given)
        for place in plan.places():
            if plan.path(place) != present.path(place):
                places["asked" if place[2] == INVERSE else "delta"].add(place)
        rules = [rule for loop in plan.loops for rule in loop.rules]
        assert all(rule.query is plan.queries[rule.head][rule.index] for rule in rules)
        return plan

    def hurry(self: feedback.Feedback, *_: Any, **__: Any) -> None:
        if self.factor is not None:
            self.is_due, self.done = True, defaultdict(float)

    class AnyOrder(Chooser):
        """Chooses by chance, for the paths that are asked."""

        def choose(self, hint: Any = ()) -> tuple[Order, ...]:
            names = list(self.body.variables)
            chance.shuffle(names)
            return super().choose(hint or names)

    monkeypatch.setattr(lower, "Chooser", AnyOrder)
    monkeypatch.setattr(Compiler, "plan", any_order)
    monkeypatch.setattr(replanning_module, "_cheaper", some)
    monkeypatch.setattr(replanning_module, "mix_plans", mix)
    monkeypatch.setattr(replanning_module, "SORTING", 0.0)
    monkeypatch.setattr(replanning_module, "CLEARLY", 0.0)
    monkeypatch.setattr(feedback.Feedback, "observe", hurry)
    return places


def with_ranks(program: Program) -> dict[str, Any]:
    """Return all rows of heads in loops with ranks; for heads of best values, their histories."""
    sides = program._ledger.settle()
    if sides is None:
        return {}
    circuit = sides.primary.circuit
    rows_of_heads = {}
    for name, head in circuit.heads.items():
        for index in head.state:
            if isinstance(index, RankedIndex):
                columns, weights = index.rows()
                rows = [circuit.backend.to_host(column).tolist() for column in (*columns, weights)]
                rows_of_heads[name] = sorted(zip(*rows, strict=True))
                for key, arrangement in index.arrangements.items():  # every arrangement holds the same
                    again = RelationIndex(name, index.width, [key], circuit.backend)
                    again.load(columns, weights)
                    columns_found, expected = (each.columns() for each in (arrangement, again.arrangements[key]))
                    assert [
                        a.tolist() for a in map(circuit.backend.to_host, (*columns_found[0], columns_found[1]))
                    ] == [a.tolist() for a in map(circuit.backend.to_host, (*expected[0], expected[1]))]
    return rows_of_heads


def _aggregates(text: str) -> bool:
    rules = written(text).rules
    return any(rule.aggregates or any(True for literal in rule.body for _ in aggregates(literal)) for rule in rules)


@pytest.mark.drawn("bag")
@pytest.mark.parametrize("bag", [False, True], ids=["set", "bag"])
@pytest.mark.parametrize("name", TRIED)
def test_any_plan_may_follow_any_other(name, bag, turned, tmp_path):
    """Answers equal recomputation, and ranks equal those of a program that keeps its plan."""
    text = TRIED[name]
    inputs = {relation: written(text).arities[relation] for relation in written(text).inputs}
    for seed in range(6 if IS_LONG else 2):
        script = translated(random_script(random.Random(f"{text} {seed}"), inputs), SMALL)
        if bag and _aggregates(text):
            script = without_debts(script)
        program = Program(text, bag=bag, threads=1 + bag, inputs=named(text))
        fixed = Program(text, bag=bag, replan=None, inputs=named(text))
        judges, again = Judges(text, bag), Judges(text, bag)
        for tick_index, tick in enumerate(script):
            place = f"{name}, seed {seed}, tick {tick_index}"
            way = ("step", "step_counts", "step_pieces")[(seed + tick_index) % 3]
            compared(program, judges, tick, way, place)
            compared(fixed, again, tick, "step", place)
            assert with_ranks(program) == with_ranks(fixed), place
            if tick_index % 4 == 3:
                program.checkpoint(tmp_path / f"{seed}")
                if (tick_index + seed) % 2:
                    program = Program.restore(tmp_path / f"{seed}")
                    assert with_ranks(program) == with_ranks(fixed), place
    assert (turned["delta"] and turned["asked"]) or name not in TURNING


@QUICK_KINDS
@pytest.mark.parametrize("name", list(TURNING)[2:5])
def test_every_backend(name, kind, turned):
    text = TRIED[name]
    inputs = {relation: written(text).arities[relation] for relation in written(text).inputs}
    script = translated(random_script(random.Random(f"{text}"), inputs), SMALL)
    program, judges = Program(text, backend=kind.backend(), inputs=named(text)), Judges(text)
    for tick_index, tick in enumerate(script[: None if IS_LONG or not kind.on_device else 6]):
        compared(program, judges, tick, "step", f"tick {tick_index}")
    assert turned["delta"]


RULES = "hit(x, y) :- start(x, y). hit(x, z) :- hit(x, y), wide(y, u, w), narrow(w), go(w, z), pick(u)."
"""From a row of hit, u should come before w where pick has few rows, and w before u where narrow and go have."""


def skewed(n_ticks: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yield a loading tick, then changed starts; in one tick pick grows and narrow shrinks."""
    chance = np.random.default_rng(seed)
    side = 60
    wide = np.unique(np.stack([chance.integers(0, top, 6_000) for top in (30, side, side)], axis=1), axis=0)
    yield {
        "wide": wide, "pick": [(0,)], "narrow": [(i,) for i in range(side)],
        "go": [(i, (7 * i) % 30) for i in range(side)], "start": [(0, 0)],
    }  # fmt: skip
    present: list[tuple[int, int]] = []
    for tick_index in range(n_ticks):
        new = [(1 + 400 * tick_index + i, int(chance.integers(0, 30))) for i in range(400)]
        gone, present = present[:100], present[100:] + new
        tick: dict[str, Any] = {"start": [(row, 1) for row in new] + [(row, -1) for row in gone]}
        if tick_index == 1:
            tick["pick"] = [(i,) for i in range(1, side)]
            tick["narrow"] = [((i,), -1) for i in range(2, side)]
        yield tick


def proposed(program: Program) -> dict[str, int]:
    """Values that the last tick looked at, ranks left out, per kind of path."""
    sides = program._ledger.settle()
    assert sides is not None
    total = {"delta": 0, "asked": 0}
    for head in sides.primary.circuit.heads.values():
        assert isinstance(head, LoopHead)
        for position, rule_join in enumerate(head.loop.joins):
            for steps in program.last_tick.work[head.name][position].values():
                proposals = sum(int(counted[PROPOSALS]) for name, counted in steps.items() if not name.startswith("#"))
                total["asked" if rule_join.is_inverse else "delta"] += proposals
    return total


def was_replanned(program: Program) -> bool:
    return "\nplan: chosen anew before tick" in program.explain()


@pytest.mark.parametrize("bag", [False, True] if IS_LONG else [False])
def test_a_bad_plan_of_a_loop_is_left(bag):
    """With default options, a bad plan is replaced once it wastes as much as replanning costs."""
    program, fixed = (Program(RULES, bag=bag, threads=1, replan=replan) for replan in (4.0, None))
    work: list[list[int]] = [[], []]
    for tick in skewed(8):
        changes, expected = program.step(tick), fixed.step(tick)
        assert changes["hit"].rows() == expected["hit"].rows()
        for engine, engine_work in zip((program, fixed), work, strict=True):
            engine_work.append(sum(proposed(engine).values()))
    assert was_replanned(program)
    assert not was_replanned(fixed)
    assert 3 * sum(work[0][-4:]) < sum(work[1][-4:])
    assert work[0][:3] == work[1][:3]
    assert with_ranks(program) == with_ranks(fixed)
    assert program.relation("hit").rows() == fixed.relation("hit").rows()
