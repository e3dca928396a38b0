"""Which cases are run.

``quick`` is a first look within five minutes; the report is made of it, ``skewed``, ``large`` and ``full``. ``full``
takes more of all but what ``skewed`` does, with all rivals for hours; ``varied`` is a short one without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from bench.suite.catalogue import TINY, WORKLOADS, Source, Spec
from bench.suite.chance import Size
from bench.suite.record import Kind


@dataclass(frozen=True)
class Suite:
    """Cases, and how long each contender may take.

    Attributes
    ----------
    limit
        Seconds after which a contender that loads, or takes a round, is stopped.
    rival_limit
        The same for rivals.
    budget
        Seconds of timed rounds per contender and case, after which its process begins no further one.
    rounds
        Timed rounds of a process, at most.
    judge_limit
        Seconds that another engine may count an answer for a check.
    again
        Seconds that times may be taken again for, of all cases that a run takes; None for no limit.
    random_queries, random_size
        How many queries that chance writes are compared as well, and on what.
    """

    name: str
    specs: tuple[Spec, ...]
    limit: float
    rival_limit: float
    budget: float
    rounds: int
    judge_limit: float
    random_queries: int
    random_size: Size
    again: float | None = None


_SOURCES: Mapping[str, Source] = MappingProxyType(
    {"cyclic": "rmat", "tpch": "keys", "hub": "hub", "arriving": "arriving", "lsqb": "lsqb"}
)


def source_of(name: str) -> Source:
    """The data that a workload is made for."""
    family = WORKLOADS[name].family
    return _SOURCES[family] if family in _SOURCES else "rmat" if name.startswith("path") else "zipf"


PATTERNS = tuple(name for name, workload in WORKLOADS.items() if workload.family in ("cyclic", "acyclic", "tpch"))

TINIEST = Suite(
    "tiny",
    tuple(
        Spec(name, source_of(name), TINY[source_of(name)], 200 if source_of(name) == "lsqb" else 10, "delete", 2)
        for name in WORKLOADS
    ),
    limit=60, rival_limit=60, budget=0.2, rounds=2, judge_limit=30, random_queries=3,
    random_size=Size(300, 5_000, 20, 2, 2, 0.0),
)  # fmt: skip
"""Every workload on a few rows: whether everything runs, within some minutes."""

LARGE_ANSWERS = ("kite", "house", "bowtie", "barbell")
"""Patterns of five and six vertices have many occurrences, so their graphs are smaller."""
NO_SPARK = ("kept", "duckdb", "ladybug", "graphblas", "dogs3")
"""Rivals that start at once."""
FEW = ("kept", "duckdb")
"""Those that show how time grows with the change and the state."""


def _size(name: str, small: bool) -> Mapping[str, int]:
    source = source_of(name)
    if source == "rmat":
        shapes = ((8, 2_000), (11, 16_000)) if small else ((10, 10_000), (14, 200_000))
        scale, edges = shapes[name not in LARGE_ANSWERS]
        if name == "clique5" and not small:
            scale, edges = 12, 40_000
        return {"scale": scale, "edges": edges}
    if source == "hub":
        return {"scale": 14 if small else 18}
    if source == "lsqb":
        return {"scale": 3}
    return {"rows": 40_000 if small else 400_000} if source == "zipf" else {"orders": 10_000 if small else 200_000}


def _quick() -> tuple[Spec, ...]:
    found = []
    for name in PATTERNS:
        if name not in ("path4", "star4", "tpch-lines"):
            asked = {"triangle": None, "path3": NO_SPARK, "tpch-local": NO_SPARK}.get(name, ())
            changes = 100 if name in LARGE_ANSWERS else 1_000
            found.append(Spec(name, source_of(name), _size(name, True), changes, "mixed", 3, rivals=asked))
    small = _size("triangle", True)
    return (
        *found,
        Spec("triangle", "rmat", small, 1, "mixed", 50, rivals=()),
        Spec("triangle", "uniform", small, 1_000, "insert", 3, rivals=()),
        Spec("lsqb-q6", "lsqb", {"scale": 3}, 100, "mixed", 3, rivals=("duckdb",)),
        Spec("hub", "hub", _size("hub", True), 1_000, "insert", 1, rivals=()),
        Spec("second-hub", "hub", _size("hub", True), 1, "insert", 1, rivals=("dogs3",)),
        Spec(
            "arriving", "arriving", {"scale": 12, "edges": 40_000, "degree": 1_000, "nodes": 1_000}, 1_000, "insert", 0,
            rivals=("kept", "dogs3"),
        ),
    )  # fmt: skip


QUICK = Suite(
    "quick", _quick(), limit=3, rival_limit=3, budget=0.5, rounds=5, judge_limit=1, random_queries=0,
    random_size=Size(), again=40,
)  # fmt: skip


def _large(names: Sequence[str], rivals: tuple[str, ...]) -> tuple[Spec, ...]:
    """Insertions of up to a million rows into states of millions, the smaller ones of all patterns first."""
    sizes = {"rmat": {"scale": 18, "edges": 2_800_000}, "zipf": {"rows": 2_400_000}, "keys": {"orders": 480_000}}
    return tuple(
        Spec(name, source_of(name), sizes[source_of(name)], changes, "insert", 1, rivals=rivals)
        for changes in (1_000, 100_000, 1_000_000)
        for name in names
    )


LARGE = Suite(
    "large", _large(("triangle", "path3", "star3", "tpch-local"), ("duckdb", "graphblas")), limit=60, rival_limit=30,
    budget=3, rounds=3, judge_limit=20, random_queries=0, random_size=Size(),
)  # fmt: skip


def _full() -> tuple[Spec, ...]:
    """Every pattern; then one thing varied at a time: changes, their kind, the state, the skew, what is asked for."""
    usual = [name for name in PATTERNS if name not in LARGE_ANSWERS]
    every = [Spec(name, source_of(name), _size(name, False), 1_000, "mixed", 5) for name in usual]
    every += [Spec(name, "rmat", _size(name, False), 100, "mixed", 5) for name in LARGE_ANSWERS]
    even = [
        Spec(name, "uniform", _size(name, False), 1_000, "mixed", 5, rivals=FEW)
        for name in usual
        if source_of(name) == "rmat"
    ]
    varied = ("triangle", "path3", "star3", "tpch-all", "tpch-local")
    sizes = [
        Spec(name, source_of(name), _size(name, False), changes, "insert", n_ticks, rivals=FEW)
        for name in (*varied, "clique4")
        for changes, n_ticks in ((1, 200), (10, 50), (100, 20), (10_000, 1))
    ]
    sizes += _large(varied, FEW)
    ends: tuple[Kind, ...] = ("insert", "delete")
    kinds = [
        Spec(name, source_of(name), _size(name, False), changes, kind, 3, rivals=())
        for name in varied
        for changes in (1_000, 20_000)
        for kind in ends
    ]
    kinds += [Spec(name, source_of(name), _size(name, False), 20_000, "mixed", 3, rivals=()) for name in varied]
    graphs_of = ((10, 8_000), (12, 40_000), (16, 1_000_000), (17, 2_000_000))
    states = [
        Spec(name, "rmat", {"scale": scale, "edges": edges}, 1_000, "mixed", 5, rivals=FEW)
        for name in ("triangle", "cycle4", "path3")
        for scale, edges in graphs_of
    ]
    states += [
        Spec("tpch-all", "keys", {"orders": orders}, 1_000, "mixed", 5, rivals=FEW)
        for orders in (2_000, 20_000, 1_000_000)
    ]
    skews = [
        Spec(name, "rmat", {"scale": 13, "edges": 100_000, "skew": skew}, 1_000, "mixed", 5, rivals=())
        for name in ("triangle", "cycle4", "clique4", "path3")
        for skew in (25, 35, 45, 50, 57, 62)
    ]
    rows = [
        Spec(name, source_of(name), _size(name, True), 1_000, "mixed", 5, how="rows", rivals=NO_SPARK)
        for name in ("triangle", "clique4", "path3", "star3", "tpch-all")
    ]
    hubs = [Spec("hub", "hub", {"scale": scale}, 1_000, "insert", 1) for scale in (14, 16, 18, 20)]
    hubs += [Spec("second-hub", "hub", {"scale": scale}, 1, "insert", 1) for scale in (14, 16, 18, 20)]
    published = {"scale": 17, "edges": 2_000_000, "degree": 13_127}
    arriving = [
        Spec("arriving", "arriving", {**published, "nodes": 1}, 1, "insert", 200, rivals=("kept", "dogs3")),
        Spec("arriving", "arriving", {**published, "nodes": 1_000}, 1_000, "insert", 0, rivals=("kept", "dogs3")),
    ]
    lsqb = [Spec(name, "lsqb", {"scale": 3}, 100, "mixed", 5) for name in WORKLOADS if source_of(name) == "lsqb"]
    lsqb += [Spec(f"lsqb-q{number}", "lsqb", {"scale": 100}, 1_000, "mixed", 5) for number in (3, 6, 9)]
    return (*every, *even, *sizes, *kinds, *states, *skews, *rows, *hubs, *arriving, *lsqb)


FULL = Suite(
    "full",
    _full(),
    limit=60,
    rival_limit=30,
    budget=4,
    rounds=7,
    judge_limit=20,
    random_queries=200,
    random_size=Size(),
)


def _varied() -> tuple[Spec, ...]:
    """Some patterns, one thing varied at a time, by the engine's own ways."""
    named = ("triangle", "cycle4", "clique4", "path3", "star3", "tpch-all")
    usual = [Spec(name, source_of(name), _size(name, False), 1_000, "mixed", 2, rivals=()) for name in named]
    sizes = [
        Spec(name, source_of(name), _size(name, False), changes, "insert", n_ticks, rivals=())
        for name in ("triangle", "clique4", "path3", "tpch-all")
        for changes, n_ticks in ((1, 50), (100, 5), (10_000, 1))
    ]
    states = [
        Spec(name, "rmat", {"scale": scale, "edges": edges}, 1_000, "mixed", 2, rivals=())
        for name in ("triangle", "path3")
        for scale, edges in ((12, 40_000), (16, 1_000_000))
    ]
    skews = [
        Spec(name, "rmat", {"scale": 12, "edges": 50_000, "skew": skew}, 1_000, "mixed", 2, rivals=())
        for name in ("triangle", "clique4", "path3")
        for skew in (25, 45, 60)
    ]
    small = [
        Spec(name, source_of(name), _size(name, True), 1_000, "mixed", 2, rivals=())
        for name in ("path4", "star4", "tpch-lines")
    ]
    small += [Spec(name, "uniform", _size(name, True), 1_000, "mixed", 2, rivals=()) for name in ("cycle4", "path3")]
    asked = ("triangle", "path3", "tpch-all")
    small += [Spec(name, source_of(name), _size(name, True), 1_000, "delete", 2, rivals=()) for name in asked]
    small += [Spec(name, source_of(name), _size(name, True), 1_000, "mixed", 2, "rows", rivals=()) for name in asked]
    small += [
        Spec(name, "lsqb", {"scale": 3}, 100, "mixed", 2, rivals=())
        for name in WORKLOADS
        if source_of(name) == "lsqb" and name != "lsqb-q6"  # which quick takes
    ]
    return (*usual, *sizes, *states, *skews, *small)


VARIED = Suite(
    "varied", _varied(), limit=8, rival_limit=8, budget=0.5, rounds=3, judge_limit=1, random_queries=0,
    random_size=Size(),
)  # fmt: skip


def _skewed() -> tuple[Spec, ...]:
    """Skewed cyclic patterns at 1,000 changes a tick, each from a small state on: where the strategies part."""
    graphs: Mapping[str, tuple[tuple[int, int], ...]] = {
        "triangle": ((11, 16_000), (14, 200_000), (16, 1_000_000), (17, 2_000_000)),
        "cycle4": ((8, 2_000), (10, 8_000), (12, 40_000), (14, 200_000)),
        "diamond": ((8, 2_000), (10, 8_000), (12, 40_000), (14, 200_000)),
        "clique4": ((8, 2_000), (10, 8_000), (12, 40_000), (14, 200_000)),
        "clique5": ((8, 2_000), (10, 8_000)),
        "bowtie": ((8, 2_000), (9, 4_000), (10, 8_000), (11, 16_000)),
        "house": ((8, 2_000), (9, 4_000), (10, 8_000)),
        "kite": ((8, 2_000), (9, 4_000)),
        "barbell": ((8, 2_000), (9, 4_000)),
    }
    return tuple(
        Spec(name, "rmat", {"scale": scale, "edges": edges}, 1_000, "mixed", 1, rivals=())
        for name, sizes in graphs.items()
        for scale, edges in sizes
    )


SKEWED = Suite(
    "skewed", _skewed(), limit=40, rival_limit=40, budget=1, rounds=5, judge_limit=8, random_queries=0,
    random_size=Size(),
)  # fmt: skip

SUITES: Mapping[str, Suite] = MappingProxyType(
    {suite.name: suite for suite in (TINIEST, QUICK, VARIED, SKEWED, LARGE, FULL)}
)
