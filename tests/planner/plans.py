"""Plans that chance makes: any order on every delta path, any mix of proposing and looking up."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace

import pytest

from gpu_wcoj.planner import lower
from gpu_wcoj.planner import passes as planner
from gpu_wcoj.planner.draft import Draft, Order
from gpu_wcoj.planner.passes import PASSES, Pass, ordered, through_passes
from gpu_wcoj.planner.passes.arrangements import atom_of
from gpu_wcoj.query.datalog import parse


def with_passes(monkeypatch: pytest.MonkeyPatch, passes: Iterable[Pass]) -> None:
    """Let programs be planned by these."""
    chosen = tuple(passes)
    for module in (planner, lower):
        monkeypatch.setattr(module, "through_passes", lambda draft: through_passes(draft, chosen), raising=False)


def with_any_orders(monkeypatch: pytest.MonkeyPatch, chance: random.Random) -> None:
    """Let chance choose orders, and per variable the atom that proposes alone, or none."""

    def by_chance(draft: Draft) -> Draft:
        rules = []
        for one in draft.rules:
            body = one.normalised
            orders = []
            for seed in range(-len(body.negated), len(body.atoms)):
                rest = [name for name in body.variables if name not in atom_of(body, seed).variables]
                chance.shuffle(rest)
                via = []
                for name in rest:
                    holding = [i for i, atom in enumerate(body.atoms) if i != seed and name in atom.variables]
                    via.append(chance.choice([None, *holding]))
                orders.append((Order(seed, tuple(rest), tuple(via)),))
            rules.append(replace(one, orders=tuple(orders)))
        return replace(draft, rules=tuple(rules))

    with_passes(monkeypatch, [by_chance if one is ordered else one for one in PASSES])


def hints(text: str, chance: random.Random) -> dict[str, list[str]]:
    """For every head some of its rules' variables, in any order."""
    rules = parse(text)
    found = {}
    for head in rules.heads:
        atoms = [atom for rule in rules.rules if rule.head.relation == head for atom in rule.atoms]
        names = sorted({one.name for atom in atoms for one in atom.variables if not one.is_wildcard})
        found[head] = chance.sample(names, chance.randint(0, len(names)))
    return found
