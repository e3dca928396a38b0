"""Operators for tests, each by itself and as it works on changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpu_wcoj.streams import (
    Aggregator,
    Apply,
    ApplyRows,
    Count,
    CountDistinct,
    Max,
    Mean,
    Min,
    Stream,
    Sum,
    TopK,
)

Build = Callable[..., Stream]


@dataclass(frozen=True)
class Query:
    """A function of streams, and its incremental form.

    Attributes
    ----------
    n_inputs
        How many streams it takes.
    relation
        Whether it takes no negative weights.
    """

    lifted: Build
    incremental: Build
    n_inputs: int = 1
    relation: bool = False


LINEAR: dict[str, Build] = {
    "map": lambda s: s.map(lambda k, v, t: (np.ma.filled(k, 9) % 2, t), names={"parity": "int64", "t": "string"}),
    "map to columns": lambda s: s.map(["t", "k"]),
    "map to no columns": lambda s: s.map([]),
    "map rows": lambda s: s.map_rows(lambda row: (row[1], row[0]), names={"v": "int64", "k": "int64"}),
    "flat map": lambda s: s.flat_map(
        lambda k, v, t: (np.repeat(np.arange(len(k)), 2), (np.repeat(t, 2),)), names={"t": "string"}
    ),
    "flat map rows": lambda s: s.flat_map_rows(lambda row: [(row[0], i) for i in range(row[0] or 0)]),
    "filter": lambda s: s.filter(lambda k, v, t: v >= 0),
    "filter rows": lambda s: s.filter_rows(lambda row: row[2] in ("a", None)),
    "index with": lambda s: s.index_with(["t", "v"]),
    "index with a function": lambda s: s.index_with(lambda k, v, t: np.ma.filled(k, 0) + 1, names=["next"]),
    "negate": lambda s: -s,
    "inspect": lambda s: s.inspect(lambda value: None),
    "delay": lambda s: s.delay(),
    "differentiate": lambda s: s.differentiate(),
    "integrate": lambda s: s.integrate(),
    "consolidated trace": lambda s: s.trace("k").consolidate(),
    "plus itself": lambda s: s + s,
    "minus what was": lambda s: s - s.delay(),
}


def _aggregators() -> dict[str, Callable[[], Aggregator]]:
    return {
        "count": Count,
        "sum": lambda: Sum("v"),
        "mean": lambda: Mean("v"),
        "min": lambda: Min("v"),
        "max": lambda: Max("v"),
        "min of texts": lambda: Min("t"),
        "max of texts": lambda: Max("t"),
        "count distinct": lambda: CountDistinct("v"),
        "count distinct pairs": lambda: CountDistinct("v", "t"),
        "top 2": lambda: TopK(2, [("v", "desc")]),
        "top 1 by text": lambda: TopK(1, ["t", ("v", "desc")]),
        "apply": lambda: Apply(lambda k, v, t, starts: (np.diff(np.append(starts, len(k))),), ["rows"]),
        "apply rows": lambda: ApplyRows(lambda rows: (len(rows), rows[0][2]), {"rows": "int64", "first": "string"}),
    }


OF_ALL = ("sum", "min", "count distinct")


def _aggregate(keys: list[str], make: Callable[[], Aggregator]) -> Query:
    return Query(lambda s: s.aggregate(keys, make()), lambda s: s.incremental_aggregate(keys, make()), relation=True)


def _joined(name: str, **options: object) -> Query:
    return Query(
        lambda a, b: getattr(a, name)(b, **options),
        lambda a, b: getattr(a, f"incremental_{name}")(b, **options),
        n_inputs=2,
    )


def _multiway(rule: str, n_inputs: int) -> Query:
    def build(incremental: bool) -> Build:
        return lambda *given: given[0].scope.multiway(
            rule, {f"r{i}": stream for i, stream in enumerate(given)}, incremental=incremental
        )

    return Query(build(False), build(True), n_inputs)


def _of_floats(keys: list[str], make: Callable[[], Aggregator]) -> Query:
    def floats(s: Stream) -> Stream:
        return s.map(lambda k, v, t: (k, v * 0.1), names={"k": "int64", "x": "double"})

    return Query(
        lambda s: floats(s).aggregate(keys, make()),
        lambda s: floats(s).incremental_aggregate(keys, make()),
        relation=True,
    )


NON_LINEAR: dict[str, Query] = {
    "distinct": Query(lambda s: s.distinct(), lambda s: s.incremental_distinct()),
    "join": _joined("join", on="k"),
    "join, selected": _joined("join", on={"k": "v"}, select=["t_right", "t"]),
    "join on texts": _joined("join", on=["t", "k"]),
    "join on nothing": _joined("join", on=[]),
    "semijoin on nothing": _joined("semijoin", on=[]),
    "antijoin on nothing": _joined("antijoin", on=[]),
    "full join on nothing": _joined("outer_join", on=[], keep="full"),
    "distinct of no columns": Query(lambda s: s.map([]).distinct(), lambda s: s.map([]).incremental_distinct()),
    "semijoin": _joined("semijoin", on="k"),
    "antijoin": _joined("antijoin", on="k"),
    "antijoin on two": _joined("antijoin", on={"k": "v", "t": "t"}),
    "left join": _joined("outer_join", on="k"),
    "right join": _joined("outer_join", on={"k": "v"}, keep="right"),
    "full join": _joined("outer_join", on=["t"], keep="full"),
    "multiway of two": _multiway("h(k, v, t, w) :- r0(k, v, t), r1(k, w, _).", 2),
    "multiway triangle": _multiway("h(a, b, c) :- r0(a, b, _), r1(b, c, _), r2(a, c, _).", 3),
    "multiway self-join": _multiway("h(a, c) :- r0(a, b, _), r0(b, c, _), a != c.", 1),
    "multiway with texts": _multiway('h(t, u) :- r0(_, x, t), r1(x, _, u), t < u, u != "b".', 2),
    **{f"{name} by key": _aggregate(["k"], make) for name, make in _aggregators().items()},
    **{f"{name} by text": _aggregate(["t"], make) for name, make in _aggregators().items() if name in ("count", "max")},
    **{
        f"{name} of all": _aggregate([], make)
        for name, make in _aggregators().items()
        if name in ("sum", "min", "count distinct")
    },
    "sum of floats": _of_floats(["k"], lambda: Sum("x")),
    "mean of floats": _of_floats(["k"], lambda: Mean("x")),
    "sum of all floats": _of_floats([], lambda: Sum("x")),
    "max of floats": _of_floats(["k"], lambda: Max("x")),
}
