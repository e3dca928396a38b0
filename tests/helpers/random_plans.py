"""Random plans: any order on every delta path, any mix of proposing and looking up."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from gpu_wcoj.join import bushy
from gpu_wcoj.join.plan import Branch, DeltaPath
from gpu_wcoj.planner import lower
from gpu_wcoj.planner import passes as planner
from gpu_wcoj.planner.ir import Draft, Order
from gpu_wcoj.planner.join_order import Chooser
from gpu_wcoj.planner.passes import PASSES, Pass, order_variables, run_passes
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.safety import inner_aggregates


def with_passes(monkeypatch: pytest.MonkeyPatch, passes: Iterable[Pass]) -> None:
    """Let programs be planned by these; who names passes itself gets those."""
    chosen = tuple(passes)
    for module in (planner, lower):
        monkeypatch.setattr(module, "run_passes", lambda draft, own=chosen: run_passes(draft, own), raising=False)


def with_any_orders(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Let chance choose orders, and per variable the atom that proposes alone, or none."""
    with_passes(monkeypatch, any_orders(chance, PASSES))


def any_orders(chance: random.Random, passes: Iterable[Pass]) -> list[Pass]:
    """The passes, chance in the place of the one that chooses orders."""

    def by_chance(draft: Draft) -> Draft:
        rules = []
        for one in order_variables(draft).rules:
            body = one.normalised
            orders, expected = [], []
            for seed in range(-len(body.negated), len(body.atoms)):
                rest = [name for name in body.variables if name not in body.atom(seed).variables]
                chance.shuffle(rest)
                via = []
                for name in rest:
                    holding = [i for i, atom in enumerate(body.atoms) if i != seed and name in atom.variables]
                    via.append(chance.choice([None, *holding]))
                order = Order(seed, tuple(rest), tuple(via))
                orders.append((order,))
                expected.append(Chooser(body, seed, draft.setting.known).foreseen(order))
            rules.append(replace(one, orders=tuple(orders), foreseen=tuple(expected)))
        return replace(draft, rules=tuple(rules))

    return [by_chance if one is order_variables else one for one in passes]


def with_any_branches(monkeypatch: pytest.MonkeyPatch, chance: random.Random, *, orders: bool = False) -> None:
    """Let chance bracket the steps of every path, and always join branches back, whatever prefixes share."""
    monkeypatch.setattr(bushy, "MAX_DISTINCT_FRACTION", 1.0)

    def by_chance(draft: Draft) -> Draft:
        return draft.over(lambda one: replace(one, paths=tuple(bracketed(path) for path in one.paths)))

    def bracketed(path: DeltaPath) -> DeltaPath:
        found, at, n = [], 0, len(path.steps)
        while at < n:
            end = chance.randint(at + 1, n)
            if chance.random() < 0.8:
                found.append(Branch(at, end))
            at = end
        variants = tuple(bracketed(one) for one in path.variants)
        return replace(path, branches=tuple(found), variants=variants)

    after = planner.sort_seeds
    passes = [*PASSES[: PASSES.index(after) + 1], by_chance, *PASSES[PASSES.index(after) + 1 :]]
    with_passes(monkeypatch, any_orders(chance, passes) if orders else passes)


def hints(text: str, chance: random.Random) -> dict[str, list[str]]:
    """For every head some of its rules' variables, in any order."""
    rules = parse(text)
    found = {}
    for head in rules.heads:
        bodies = [rule for rule in rules.rules if rule.head.relation == head]
        atoms = [atom for rule in bodies for body in (rule, *inner_aggregates(rule)) for atom in body.atoms]
        names = sorted({one.name for atom in atoms for one in atom.variables if not one.is_wildcard})
        found[head] = chance.sample(names, chance.randint(0, len(names)))
    return found
