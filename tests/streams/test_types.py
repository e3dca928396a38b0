"""Columns whose types widen from tick to tick, with nulls or without: every operator agrees with plain counts."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from gpu_wcoj import streams
from tests.helpers.kernel_kinds import KINDS, needed

LARGE = Decimal("12345678901234567.5")
START = dt.datetime(2020, 1, 1)
VALUES: dict[str, list[tuple[pa.DataType, list[Any]]]] = {
    "integers": [
        (pa.int8(), [-5, -1, 0, 2]), (pa.uint8(), [0, 1, 2, 9]), (pa.int64(), [-6, 0, 1, 2]),
        (pa.uint64(), [0, 1, 2, 2**63 + 1, 2**64 - 1]),
    ],
    "decimals": [
        (pa.decimal128(5, 2), [Decimal(quarters) / 4 for quarters in range(-5, 9)]),
        (pa.decimal128(9, 0), [Decimal(-1), Decimal(0), Decimal(2)]),
        (pa.decimal128(30, 5), [Decimal(-1), Decimal("0.5"), LARGE, 25 * LARGE]),
    ],
    "times": [
        (pa.timestamp("s"), [START + dt.timedelta(seconds=second) for second in range(5)]),
        (pa.timestamp("us"), [START + dt.timedelta(milliseconds=500 * half) for half in range(7)]),
    ],
    "texts": [(pa.string(), list("abcd")), (pa.large_string(), list("cdxy"))],
}  # fmt: skip
"""Types that join with each other, from tick to tick another, with some of their values."""

Rows = Counter[tuple[Any, int]]


def nulls_last(value: Any) -> tuple[bool, Any]:
    return value is None, value


class Reference:
    """The answers by plain counts; rows are (value, group)."""

    def __init__(self, s: Rows, t: Rows) -> None:
        self.s, self.t = ({row: weight for row, weight in rows.items() if weight} for rows in (s, t))
        self.groups: dict[int, list[Any]] = {}
        for value, group in self.s:
            self.groups.setdefault(group, []).append(value)

    def answers(self) -> dict[str, Mapping[tuple[Any, ...], int]]:
        joined: Counter[tuple[Any, ...]] = Counter()
        for (value, group), weight in self.s.items():
            for (other, other_group), other_weight in self.t.items():
                if value is not None and value == other:
                    joined[value, group, other_group] += weight * other_weight
        matching = Counter({value: sum(w for (v, _), w in self.t.items() if v == value) for value, _ in self.t})
        semijoin = {row: w for row, w in self.s.items() if row[0] is not None and matching[row[0]] > 0}
        values = {group: [value for value in listed if value is not None] for group, listed in self.groups.items()}
        counts: Counter[Any] = Counter()
        for (value, _), weight in self.s.items():
            counts[value] += weight
        first = {group: sorted(listed, key=nulls_last)[:2] for group, listed in self.groups.items()}
        return {
            "integrate": self.s,
            "distinct": dict.fromkeys(self.s, 1),
            "plus": Counter({row: self.s.get(row, 0) + self.t.get(row, 0) for row in {**self.s, **self.t}}),
            "minus": Counter({row: self.s.get(row, 0) - self.t.get(row, 0) for row in {**self.s, **self.t}}),
            "join": joined,
            "join of values": joined,
            "multiway": joined,
            "semijoin": semijoin,
            "antijoin": {row: weight for row, weight in self.s.items() if row not in semijoin},
            "max": {(group, max(listed, default=None)): 1 for group, listed in values.items()},
            "min of values": {(group, min(listed, default=None)): 1 for group, listed in values.items()},
            "top 2": {(value, group): 1 for group, listed in first.items() for value in listed},
            "count distinct": {(group, len(set(listed))): 1 for group, listed in values.items()},
            "count": dict.fromkeys(counts.items(), 1),
        }


def operators(circuit: streams.Circuit) -> dict[str, streams.Stream]:
    s, t = circuit.source("s"), circuit.source("t")
    rule = "h(x, a, b) :- s(x, a), t(x, b)."
    return {
        "integrate": s.integrate(),
        "distinct": s.incremental_distinct().integrate(),
        "plus": (s + t).integrate(),
        "minus": (s - t).integrate(),
        "join": s.incremental_join(t, on={0: 0}).integrate(),
        "join of values": s.integrate().join(t.integrate(), on={0: 0}),
        "multiway": circuit.multiway(rule, {"s": s, "t": t}).integrate(),
        "semijoin": s.incremental_semijoin(t, on={0: 0}).integrate(),
        "antijoin": s.incremental_antijoin(t, on={0: 0}).integrate(),
        "max": s.incremental_aggregate(1, streams.Max(0)).integrate(),
        "min of values": s.integrate().aggregate(1, streams.Min(0)),
        "top 2": s.incremental_aggregate(1, streams.TopK(2, [0])).integrate(),
        "count distinct": s.incremental_aggregate(1, streams.CountDistinct(0)).integrate(),
        "count": s.incremental_aggregate(0, streams.Count()).integrate(),
    }


def draw_change(chance: random.Random, rows: Rows, family: str, has_nulls: bool) -> pa.Table:
    """Return a change in some type of the family, and add it to the rows."""
    kind, values = chance.choice(VALUES[family])
    inserted = [(chance.choice(values), chance.randrange(3)) for _ in range(chance.choice((0, 1, 4, 8)))]
    inserted = [(None if has_nulls and chance.random() < 0.2 else value, group) for value, group in inserted]
    held = [row for row, weight in rows.items() if weight > 0 and (row[0] is None or row[0] in values)]
    changes = [*((row, 1) for row in inserted), *((row, -1) for row in held if chance.random() < 0.4)]
    for row, weight in changes:
        rows[row] += weight
    columns = [row[0] for row, _ in changes], [row[1] for row, _ in changes], [weight for _, weight in changes]
    arrays = [pa.array(values, kind) for values, kind in zip(columns, (kind, pa.int64(), pa.int64()), strict=True)]
    return pa.Table.from_arrays(arrays, ["a", "b", "weight"])


@pytest.mark.drawn("kind")
@pytest.mark.parametrize("has_nulls", [False, True], ids=["no nulls", "nulls"])
@pytest.mark.parametrize("family", VALUES)
@pytest.mark.parametrize("kind", KINDS)
def test_types_that_widen(kind, family, has_nulls):
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    circuit = streams.Circuit(backend=needed(kind).backend(seed))
    for name, stream in operators(circuit).items():
        circuit.sink(name, stream)
    s: Rows = Counter()
    t: Rows = Counter()
    for tick in range(6):
        change = {"s": draw_change(chance, s, family, has_nulls), "t": draw_change(chance, t, family, has_nulls)}
        answers = circuit.step(change)
        for name, expected in Reference(s, t).answers().items():
            assert answers[name].to_dict() == {row: w for row, w in expected.items() if w}, (tick, name)
