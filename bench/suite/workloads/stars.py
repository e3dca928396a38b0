"""Stars and a snowflake: a relation in the middle, others around it, joined by keys; no cycle.

A star's arms ``r1``, ``r2``, ... share one key, which each of them has a few times, as popular keys have many times in
skewed data. The snowflake has one fact relation with three keys, dimensions of each, and dimensions of two of these.
"""

from __future__ import annotations

import numpy as np

from bench.suite.streams import Data, Items
from bench.suite.workload import Pattern, Rows, Workload

ARMS = (3, 4, 5)
FAN_OUT = 4
"""Rows of an arm per key, on average."""
SNOWFLAKE = Pattern(
    (
        ("fact", ("f", "a", "b", "c")),
        ("dim_a", ("a", "u")),
        ("dim_b", ("b", "v")),
        ("dim_c", ("c", "w")),
        ("sub_a", ("u", "x")),
        ("sub_b", ("v", "y")),
    )
)


def star(arms: int) -> Pattern:
    """Arms that meet in ``k``."""
    return Pattern(tuple((f"r{i}", ("k", f"x{i}")) for i in range(1, arms + 1)))


def _workload(name: str, body: Pattern) -> Workload:
    return Workload(name, "acyclic", body.rule(name), name, dict(body.atoms), body, body.sql())


WORKLOADS = {
    **{f"star{arms}": _workload(f"star{arms}", star(arms)) for arms in ARMS},
    "snowflake": _workload("snowflake", SNOWFLAKE),
}


def drawn(random: np.random.Generator, n: int, values: int, skew: float) -> Items:
    """`n` values below `values`, value v with a chance that falls with the power `skew` of v + 1; 0 is uniform."""
    if not skew:
        return random.integers(0, values, n)
    shares = np.cumsum(np.arange(1, values + 1, dtype=np.float64) ** -skew)
    shuffled = random.permutation(values)
    found = np.searchsorted(shares, random.random(n) * shares[-1], side="right")
    chosen: Items = shuffled[np.minimum(found, values - 1)]
    return chosen


def star_data(arms: int, rows: int, seed: int, skew: float) -> Data:
    """Arms of `rows` rows together; an item is one row of one arm, and rows of an arm differ in their last column."""
    random = np.random.default_rng(seed)
    keys = drawn(random, rows, max(1, rows // arms // FAN_OUT), skew)
    arm = np.arange(rows) % arms

    def rows_of(items: Items) -> dict[str, Rows]:
        own = {i: items[arm[items] == i] for i in range(arms)}
        return {f"r{i + 1}": np.stack([keys[one], one], axis=1) for i, one in own.items()}

    return Data(rows, rows_of)


def snowflake_data(rows: int, seed: int, skew: float) -> Data:
    """A fact relation of `rows` rows, which change; dimensions a tenth as long, theirs a hundredth, which do not."""
    random = np.random.default_rng(seed)
    wide, narrow = max(2, rows // 10), max(2, rows // 100)
    facts = np.stack([np.arange(rows), *(drawn(random, rows, wide, skew) for _ in range(3))], axis=1)
    numbers, fewer = np.arange(wide), np.arange(narrow)
    fixed = {name: np.stack([numbers, drawn(random, wide, narrow, skew)], axis=1) for name in ("dim_a", "dim_b")}
    fixed["dim_c"] = np.stack([numbers, random.integers(0, 50, wide)], axis=1)
    fixed |= {name: np.stack([fewer, random.integers(0, 50, narrow)], axis=1) for name in ("sub_a", "sub_b")}
    return Data(rows, lambda items: {"fact": facts[items]}, fixed)
