"""Which cases are run: ``quick`` for a first look within five minutes, ``full`` for the report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bench.suite.catalogue import TINY, WORKLOADS, Source, Spec
from bench.suite.chance import Size


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
        Seconds of timed rounds per contender and case, after which no further one is begun.
    rounds
        Timed rounds, at most.
    judge_limit
        Seconds that another engine may count an answer for a check.
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


_SOURCES: Mapping[str, Source] = MappingProxyType(
    {"cyclic": "rmat", "tpch": "keys", "hub": "hub", "arriving": "arriving", "lsqb": "lsqb"}
)


def source_of(name: str) -> Source:
    """The data that a workload is made for."""
    family = WORKLOADS[name].family
    return _SOURCES[family] if family in _SOURCES else "rmat" if name.startswith("path") else "zipf"


PATTERNS = tuple(name for name, workload in WORKLOADS.items() if workload.family in ("cyclic", "acyclic", "tpch"))
GRAPHS = tuple(name for name in PATTERNS if source_of(name) == "rmat")

_SMALL: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "rmat": {"scale": 11, "edges": 16_000},
        "zipf": {"rows": 40_000},
        "keys": {"orders": 10_000},
        "hub": {"scale": 15},
        "arriving": {"scale": 13, "edges": 60_000, "degree": 2_000, "nodes": 1_000},
    }
)

TINIEST = Suite(
    "tiny",
    tuple(
        Spec(name, source_of(name), TINY[source_of(name)], 200 if source_of(name) == "lsqb" else 10, "delete", 2)
        for name in WORKLOADS
    ),
    limit=60, rival_limit=60, budget=0.2, rounds=2, judge_limit=30, random_queries=3,
    random_size=Size(300, 5_000, 20, 2, 2, 0.0),
)  # fmt: skip
"""Every workload on a few rows: whether everything runs, within a minute or two."""

QUICK = Suite(
    "quick",
    (
        *(Spec(name, source_of(name), _SMALL[source_of(name)], 1_000, "mixed", 3) for name in PATTERNS),
        Spec("triangle", "rmat", _SMALL["rmat"], 1, "mixed", 100),
        Spec("triangle", "uniform", _SMALL["rmat"], 1_000, "insert", 3),
        Spec("hub", "hub", _SMALL["hub"], 1_000, "insert", 1),
        Spec("second-hub", "hub", _SMALL["hub"], 1, "insert", 1),
        Spec("arriving", "arriving", _SMALL["arriving"], 1_000, "insert", 0),
    ),
    limit=10, rival_limit=3, budget=0.5, rounds=5, judge_limit=1, random_queries=0, random_size=Size(),
)  # fmt: skip

SUITES: Mapping[str, Suite] = MappingProxyType({suite.name: suite for suite in (TINIEST, QUICK)})
