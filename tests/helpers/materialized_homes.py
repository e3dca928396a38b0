"""People who live in cities: rows, changes, and rules for which a relation of homes is kept."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import gpu_wcoj as gw

TRIANGLE = "near(a) :- knows(a, b), knows(b, c), knows(c, a), {}."
HOMES = ", ".join(f"lives({name}, x{name}), city(x{name}, k)" for name in "abc")
TEXT = TRIANGLE.format(HOMES)
NAME = "city[0, 1]*lives[1, 0]"

Tick = dict[str, Any]


def kept(program: gw.Program) -> list[str]:
    lowered = program._ledger.lowered
    assert lowered is not None
    return [one.name for one in lowered.plan.auxiliaries]


def world(n_people: int = 600, n_cities: int = 120, n_countries: int = 12, n_edges: int = 6000, seed: int = 0) -> Tick:
    """People who know each other, each in one city of one country."""
    numbers = np.random.default_rng(seed)
    people, cities = np.arange(n_people), np.arange(n_cities) + 10_000
    return {
        "knows": np.unique(numbers.integers(0, n_people, (n_edges, 2)), axis=0),
        "lives": np.stack([people, numbers.choice(cities, n_people)], axis=1),
        "city": np.stack([cities, numbers.integers(0, n_countries, n_cities)], axis=1),
    }


def changes(state: Tick, n_ticks: int, seed: int = 1) -> Iterator[dict[str, list[tuple[tuple[int, ...], int]]]]:
    """People move, cities change hands, edges come and go."""
    chance = random.Random(seed)
    rows = {name: [tuple(map(int, row)) for row in own] for name, own in state.items()}
    for _ in range(n_ticks):
        tick: dict[str, list[tuple[tuple[int, ...], int]]] = {}
        for name, many in (("knows", 60), ("lives", 10), ("city", 2)):
            for _ in range(many):
                at = chance.randrange(len(rows[name]))
                old = rows[name][at]
                new = (old[0], chance.choice(rows[name])[1])
                tick.setdefault(name, []).extend([(old, -1), (new, 1)])
                rows[name][at] = new
        yield tick
