"""Random streams of integers, texts and nulls, with arbitrary or non-negative weights."""

from __future__ import annotations

import random
from collections import Counter

import gpu_wcoj as gw

Row = tuple[object, ...]

SCHEMA = {"k": "int64", "v": "int64", "t": "string"}
"""The columns of all random streams: a key, a number that may be null, a text that may be null."""


def row(rng: random.Random) -> Row:
    value = None if rng.random() < 0.15 else rng.randrange(-2, 3)
    text = None if rng.random() < 0.15 else rng.choice(["b", "a", "ba", ""])
    return None if rng.random() < 0.1 else rng.randrange(4), value, text


def as_zset(rows: Counter[Row]) -> gw.ZSet:
    live = [(row, weight) for row, weight in rows.items() if weight]
    if not live:
        return gw.ZSet.empty(list(SCHEMA), list(SCHEMA.values()))
    columns = {name: [row[position] for row, _ in live] for position, name in enumerate(SCHEMA)}
    import pyarrow as pa

    kinds = {"int64": pa.int64(), "string": pa.large_string()}
    arrays = {name: pa.array(columns[name], kinds[kind]) for name, kind in SCHEMA.items()}
    return gw.ZSet.from_arrow({**arrays, "weight#": [weight for _, weight in live]}, weight="weight#")


def any_stream(seed: int, ticks: int, size: int = 8) -> list[gw.ZSet]:
    """Changes with weights of both signs, which need not add up to anything."""
    rng = random.Random(seed)
    made = []
    for _ in range(ticks):
        rows: Counter[Row] = Counter()
        for _ in range(rng.randrange(size)):
            rows[row(rng)] += rng.choice([-2, -1, 1, 1, 2])
        made.append(as_zset(rows))
    return made


def bag(rng: random.Random, before: Counter[Row], size: int) -> Counter[Row]:
    """Another bag: some of its rows gone, some others come."""
    after = Counter({row: weight for row, weight in before.items() if weight})
    for key in list(after):
        if rng.random() < 0.4:
            after[key] -= rng.randrange(1, after[key] + 1)
    for _ in range(rng.randrange(size)):
        after[row(rng)] += rng.choice([1, 1, 2])
    return after


def relation_stream(seed: int, ticks: int, size: int = 8) -> list[gw.ZSet]:
    """The changes of a bag, whose weights are never negative."""
    rng = random.Random(seed)
    before: Counter[Row] = Counter()
    made = []
    for _ in range(ticks):
        after = bag(rng, before, size)
        made.append(as_zset(_minus(after, before)))
        before = after
    return made


def nested_changes(seed: int, ticks: int, iterations: int, relation: bool, size: int = 5) -> list[list[gw.ZSet]]:
    """Changes by tick and iteration; those of a relation add up to a bag at every time."""
    rng = random.Random(seed)
    if not relation:
        return [any_stream(rng.randrange(10**9), iterations, size) for _ in range(ticks)]
    state: list[list[Counter[Row]]] = []
    for tick in range(ticks):
        line: list[Counter[Row]] = []
        for iteration in range(iterations):
            near = state[tick - 1][iteration] if tick else Counter()
            start = line[-1] if iteration and rng.random() < 0.5 else near
            line.append(bag(rng, start, size))
        state.append(line)
    nothing: Counter[Row] = Counter()
    return [
        [
            as_zset(
                _minus(
                    _minus(state[t][i], state[t][i - 1] if i else nothing),
                    _minus(state[t - 1][i] if t else nothing, state[t - 1][i - 1] if t and i else nothing),
                )
            )
            for i in range(iterations)
        ]
        for t in range(ticks)
    ]


def _minus(left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    made: Counter[Row] = Counter(left)
    for row, weight in right.items():
        made[row] -= weight
    return made
