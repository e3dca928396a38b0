"""The cases: per fast path, a program, its rows, and a tick that is slower without the fast path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj import datasets

Rows = npt.NDArray[np.int64]

TRIANGLE = "h(a, b, c) :- edge(a, b), edge(b, c), edge(c, a)."
CYCLE = "edge(a, b), edge(b, c), edge(c, d), edge(d, a)"


@dataclass(frozen=True)
class Case:
    """A program, its rows, and the changes that are timed.

    Attributes
    ----------
    off
        Fields of `gpu_wcoj.join.settings.Tuning` that turn the fast path off.
    rows
        Makes all rows, by relation.
    changed
        The relation whose last rows arrive in ticks; the others are loaded. Empty if all rows are the first tick of a
        new program.
    is_single
        Whether that program answers once and is then dropped, as a query does.
    tick_rows, n_ticks
        Rows of a tick, and the number of ticks.
    lists
        Whether ticks list the changed rows of the answer, rather than count them.
    base
        Fields of the tuning on both sides.
    """

    text: str
    off: Mapping[str, Any]
    rows: Callable[[], Mapping[str, Rows]]
    changed: str
    tick_rows: int
    n_ticks: int = 1
    lists: bool = False
    bag: bool = False
    is_single: bool = False
    base: Mapping[str, Any] = field(default_factory=dict)


def _few_keys() -> Mapping[str, Rows]:
    """Return relations of 10,000 rows that meet in ten keys."""
    chance, n_rows = np.random.default_rng(1), 10_000
    row, keys = np.arange(n_rows), chance.integers(0, 10, (2, n_rows))
    return {"s": np.stack([row, keys[0]], axis=1), "t": np.stack([keys[1], row], axis=1)}


def _few_ends() -> Mapping[str, Rows]:
    """Return relations of 10,000 rows, of which those of `left` lead to 20 keys, and these to 500 values each."""
    row = np.arange(10_000)
    return {
        "left": np.stack([row, row % 20], axis=1), "right": np.stack([row % 20, row], axis=1),
        "last": np.stack([row, row], axis=1),
    }  # fmt: skip


def _graph(scale: int, n_edges: int) -> Callable[[], Mapping[str, Rows]]:
    """Return a function that makes the directed edges of an R-MAT graph, in random order."""

    def rows() -> Mapping[str, Rows]:
        edges = np.unique(np.asarray(datasets.rmat(scale=scale, edges=2 * n_edges, seed=1)), axis=0)
        edges = edges[edges[:, 0] != edges[:, 1]]
        return {"edge": np.random.default_rng(1).permutation(edges)[:n_edges]}

    return rows


def _snowflake(n_values: int = 200, fan: int = 10) -> Mapping[str, Rows]:
    """Facts with two skewed keys; from each key `fan` values lead on to `fan` others, of which one in 40 is wanted."""
    random = np.random.default_rng(1)
    leads = np.stack([np.repeat(np.arange(n_values), fan), np.arange(n_values * fan)], axis=1)
    ends = np.stack([np.repeat(np.arange(n_values * fan), fan), random.integers(0, 4000, n_values * fan * fan)], axis=1)
    wanted = np.arange(0, 4000, 40)[:, None]
    keys = (random.zipf(1.3, (2, 6000)) % n_values).astype(np.int64)
    facts = np.stack([np.arange(6000), *keys], axis=1)
    return {"arm1": leads, "arm2": leads, "end1": ends, "end2": ends, "good1": wanted, "good2": wanted, "fact": facts}


def _hub(n: int = 6_000) -> Mapping[str, Rows]:
    """Three relations of which the one in the middle is joined by a value that has a third of its rows."""
    random = np.random.default_rng(0)
    middle = random.integers(0, n, (n, 2))
    middle[random.random(n) < 0.3, 0] = 0
    left = np.stack([np.arange(n), random.integers(0, n, n)], axis=1)
    right = np.stack([random.integers(0, 10, n), random.permutation(n)], axis=1)
    return {"left": left, "middle": middle, "right": right}


def _acquaintances(n_people: int = 4000, n_cities: int = 400) -> Mapping[str, Rows]:
    """People who know each other, their cities, and the cities' countries."""
    random = np.random.default_rng(1)
    knows = np.unique(random.integers(0, n_people, (60_000, 2)), axis=0)
    lives = np.stack([np.arange(n_people), random.integers(0, n_cities, n_people)], axis=1)
    lies = np.stack([np.arange(n_cities), random.integers(0, 40, n_cities)], axis=1)
    return {"knows": random.permutation(knows), "lives": lives, "lies": lies}


def _chain(n_edges: int = 3000) -> Mapping[str, Rows]:
    """A chain whose first edge comes last."""
    chain = np.stack([np.arange(n_edges), np.arange(1, n_edges + 1)], axis=1)
    return {"edge": chain[::-1], "start": np.zeros((1, 1), np.int64)}


def _even_graph(n_nodes: int = 800, n_edges: int = 8_300) -> Mapping[str, Rows]:
    """A graph whose nodes have about as many neighbours each."""
    return {"edge": np.unique(np.random.default_rng(1).integers(0, n_nodes, (n_edges, 2)), axis=0)}


def _started(n_starts: int = 5) -> Mapping[str, Rows]:
    """A graph, and a few of its nodes."""
    return {**_graph(12, 16_000)(), "start": np.arange(n_starts, dtype=np.int64)[:, None]}


def _without(fast_path: str) -> Mapping[str, Any]:
    return {"off": frozenset({fast_path})}


CASES: Mapping[str, Case] = {
    "auxiliary relations": Case(
        "h(a, b, c) :- knows(a, b), knows(b, c), knows(c, a), lives(a, x), lives(b, y), lives(c, z), "
        "lies(x, l), lies(y, l), lies(z, l).",
        _without("auxiliary relations"), _acquaintances, "knows", 3000, bag=True,
    ),
    "bushy plans": Case(
        "h(k, a, b, x, u, y, v) :- fact(k, a, b), arm1(a, x), end1(x, u), good1(u), arm2(b, y), end2(y, v), good2(v).",
        _without("bushy plans"), _snowflake, "fact", 1000, lists=True,
    ),
    "early aggregates": Case(
        "h(w, min(v)) :- s(v, k), t(k, w).", _without("early aggregates"), _few_keys, "", 20_000, lists=True
    ),
    "elimination": Case(
        "h(a, b, c, d, f) :- edge(a, b), edge(b, c), edge(c, a), edge(a, d), edge(d, f), edge(f, a).",
        _without("elimination"), _graph(13, 55_000), "edge", 600,
    ),
    "joined pairs": Case(
        "h(a, b) :- edge(a, b), edge(b, c), edge(c, d), edge(d, x), edge(x, a).",
        _without("joined pairs"), _even_graph, "", 8_300, lists=True, is_single=True,
    ),
    "load paths": Case(
        "h(u, v) :- left(u, v), middle(w, v), right(x, w), middle(x, z).",
        _without("load paths"), _hub, "", 60_000, lists=True, bag=True,
    ),
    "merged prefixes": Case(
        "h(v, w) :- left(u, k), right(k, v), last(v, w).", _without("merged prefixes"), _few_ends, "left", 2_000,
        lists=True, bag=True, base={"max_tick_rows": -1},
    ),
    "path variants": Case(f"h(a, b, c, d) :- {CYCLE}.", _without("path variants"), _graph(12, 16_000), "edge", 4000),
    "projections": Case("h(k, w) :- t(k, w), s(_, k).", _without("projections"), _few_keys, "s", 1_000, lists=True),
    "push down": Case(
        "p(a, c) :- edge(a, b), edge(b, c). h(c) :- start(a), p(a, c).",
        _without("push down"), _started, "edge", 1000, lists=True,
    ),
    "range sums": Case(
        "s(a, b) :- edge(a, b). s(b, a) :- edge(a, b). "
        "h(a, b, c, d, f) :- s(a, b), s(b, c), s(c, a), s(a, d), s(d, f), s(f, a), b < c, d < f, b < d.",
        _without("range sums"), _graph(12, 14_600), "edge", 600,
    ),
    "recounts": Case(
        "h(a, b, c, d) :- edge(a, b), edge(a, c), edge(a, d), b < c, c < d.",
        _without("recounts"), _graph(13, 55_000), "edge", 4000,
    ),
    "seed lookups": Case(  # as on a device, where nothing is walked
        TRIANGLE, _without("seed lookups"), _graph(13, 55_000), "edge", 1, 40, base={"max_tick_rows": -1}
    ),
    "shared prefixes": Case(
        "h(a, b, c, d) :- edge(a, b), edge(a, c), edge(a, d), edge(b, c), edge(b, d), edge(c, d).",
        _without("shared prefixes"), _graph(12, 16_000), "edge", 4000,
    ),
    "symmetry": Case(TRIANGLE, _without("symmetry"), _graph(15, 345_000), "edge", 15_000),
    "walks of small ticks": Case(TRIANGLE, {"max_tick_rows": -1}, _graph(13, 55_000), "edge", 1, 40),
    "walks of loops": Case(
        "r(x) :- start(x). r(y) :- r(x), edge(x, y).", {"walk_loops": False}, _chain, "edge", 1
    ),
}  # fmt: skip
"""The case of each fast path, by its name in `gpu_wcoj.join.settings.FAST_PATHS`; walks have switches of their own."""
