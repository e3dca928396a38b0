"""Every workload by its name, and how a case of it is made."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

import numpy as np

from bench.engine.graph import Edges
from bench.suite.hypergraph import is_acyclic
from bench.suite.judge import Expected
from bench.suite.record import Case, How, Kind, Order
from bench.suite.streams import Data, stream
from bench.suite.workload import Pattern, Stream, Workload
from bench.suite.workloads import fixed, graphs, lsqb, stars, tpch

WORKLOADS: Mapping[str, Workload] = MappingProxyType(
    {**graphs.WORKLOADS, **stars.WORKLOADS, **tpch.WORKLOADS, **fixed.WORKLOADS, **lsqb.WORKLOADS}
)
Source = Literal["rmat", "uniform", "zipf", "keys", "hub", "arriving", "lsqb", "random"]
ZIPF = 0.8
"""The power by which keys of skewed stars and snowflakes are unlike each other."""


@dataclass(frozen=True)
class Spec:
    """What a case is made from.

    Attributes
    ----------
    size
        Graphs: ``scale`` and ``edges``, and perhaps ``skew`` in percent; stars and the snowflake: ``rows``; foreign
        keys: ``orders``; the hub: ``scale``; arriving nodes: ``scale``, ``edges``, ``degree``, ``nodes``; LSQB:
        ``scale`` in thousandths.
    rivals
        Which rivals are asked, of those that take part; all if None.
    """

    workload: str
    data: Source
    size: Mapping[str, int]
    change_rows: int = 1_000
    kind: Kind = "insert"
    n_ticks: int = 10
    how: How = "count"
    seed: int = 1
    rivals: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """What tells it apart from all others of a suite, without its rows.

        Examples
        --------
        >>> Spec("triangle", "rmat", {"scale": 7, "edges": 500}, 20, "mixed", 2).name
        'triangle, rmat scale=7 edges=500, 2 ticks of 20 mixed'
        """
        size = " ".join(f"{name}={value}" for name, value in self.size.items())
        rest = "" if self.how == "count" else f", {self.how}"
        rest += "" if self.seed == 1 else f", seed {self.seed}"
        ticks = f"{self.n_ticks or 'all'} tick{'' if self.n_ticks == 1 else 's'} of {self.change_rows:,} {self.kind}"
        return f"{self.workload}, {self.data} {size}, {ticks}{rest}"


@dataclass(frozen=True, eq=False)
class Made:
    """A case with its rows.

    Attributes
    ----------
    known
        What its answers are, where they are known without counting.
    """

    case: Case
    workload: Workload
    stream: Stream
    known: Expected | None = field(default=None)


TINY: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "rmat": {"scale": 6, "edges": 250},
        "uniform": {"scale": 6, "edges": 250},
        "zipf": {"rows": 200},
        "keys": {"orders": 60},
        "hub": {"scale": 6},
        "arriving": {"scale": 6, "edges": 250, "degree": 0, "nodes": 16},
        "lsqb": {"scale": 3},
    }
)


def tiny(spec: Spec) -> Spec:
    """The same workload on few rows, to run first and to test with."""
    return replace(spec, size=TINY[spec.data], change_rows=min(spec.change_rows, 10), n_ticks=2)


def made(spec: Spec, order: Order = "generated") -> Made:
    """Make a case; the same one from the same values.

    Raises
    ------
    KeyError
        If there is no such workload.
    MissingError
        If its rows are read from a file that is not there.
    """
    workload = WORKLOADS[spec.workload]
    known = None
    data: Data | None = None
    if spec.data == "hub":
        rows, changes = (
            fixed.hub(spec.size["scale"], spec.change_rows)
            if spec.workload == "hub"
            else fixed.second_hub(spec.size["scale"])
        )
        known = Expected(changes=changes, by=("known",))
    elif spec.data == "arriving":
        size = spec.size
        limit = spec.n_ticks or None
        rows = fixed.arriving(size["scale"], size["edges"], spec.seed, size["degree"], size["nodes"], limit)
    else:
        data = _data(spec, workload, order)
        rows = stream(data, spec.change_rows, spec.kind, spec.n_ticks, spec.seed)
    return Made(_case(spec, workload, rows, data, order), workload, rows, known)


def _data(spec: Spec, workload: Workload, order: Order) -> Data:
    size = spec.size
    if workload.name in graphs.WORKLOADS:
        skew = size.get("skew", 25 if spec.data == "uniform" else round(100 * graphs.SKEW))
        return graphs.data(workload, _edges(size["scale"], size["edges"], spec.seed, skew / 100), order)
    if workload.name in tpch.WORKLOADS:
        return tpch.data(workload, size["orders"], spec.seed)
    if workload.name in lsqb.WORKLOADS:
        return lsqb.data(workload, size["scale"])
    power = ZIPF if spec.data == "zipf" else 0.0
    if workload.name == "snowflake":
        return stars.snowflake_data(size["rows"], spec.seed, power)
    return stars.star_data(int(workload.name.removeprefix("star")), size["rows"], spec.seed, power)


@functools.lru_cache(maxsize=4)
def _edges(scale: int, n_directed: int, seed: int, a: float) -> Edges:
    return graphs.edges_of(scale, n_directed, seed, a)


def _case(spec: Spec, workload: Workload, rows: Stream, data: Data | None, order: Order) -> Case:
    degrees = None if data is None else data.degrees
    if spec.data in ("hub", "arriving"):
        edges = [rows.state["edge"], *(tick["edge"].inserted for tick in rows.ticks)]
        counted = np.bincount(np.concatenate(edges).ravel())
        degrees = counted[counted > 0]
    body = workload.pattern
    items = [max(map(len, tick.values()), default=0) for tick in rows.ticks]
    return Case(
        workload.name, workload.family, spec.data, dict(spec.size), spec.seed,
        state_rows=sum(map(len, rows.state.values())),
        change_rows=spec.change_rows if data is not None else max(items, default=0),
        kind=spec.kind if data is not None else "insert", n_ticks=len(rows.ticks), how=spec.how, vertex_order=order,
        atoms=0 if body is None else len(body.atoms),
        variables=0 if body is None else len(body.variables),
        cyclicity=None if body is None else cyclicity(body),
        is_acyclic=body is not None and is_acyclic([variables for _, variables in body.atoms]),
        skew=None if degrees is None else float((degrees.astype(float) ** 2).mean() / degrees.mean() ** 2),
        largest_degree=None if degrees is None else int(degrees.max()),
    )  # fmt: skip


def cyclicity(body: Pattern) -> int | None:
    """Edges less vertices plus parts of the query's graph, over the variables that atoms share.

    Examples
    --------
    >>> [cyclicity(WORKLOADS[name].pattern) for name in ("path3", "triangle", "diamond", "clique5", "snowflake")]
    [0, 1, 2, 6, None]
    """
    shared = [
        {name for name in variables if sum(name in others for _, others in body.atoms) > 1}
        for _, variables in body.atoms
    ]
    if any(len(one) > 2 for one in shared):
        return None
    edges = {frozenset(one) for one in shared if len(one) == 2}
    vertices = set().union(*shared)
    parts = {name: name for name in vertices}

    def root(name: str) -> str:
        while parts[name] != name:
            name = parts[name]
        return name

    for edge in edges:
        one, other = (root(name) for name in sorted(edge))
        parts[one] = other
    return len(edges) - len(vertices) + sum(parts[name] == name for name in vertices)
