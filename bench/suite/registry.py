"""Every contender by its name, as the function that builds it: looked up where it runs, so that nothing else is loaded.

A rival of `gpu-wcoj bench --rivals` may have several contenders, each a way to use it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import MappingProxyType

from bench.suite.contender import Contender, MissingError, Setting

STRATEGIES = ("wcoj", "binary", "auto")
OWN = frozenset({*STRATEGIES, "kept"})
"""Contenders that are the engine in one way or another: none of them confirms what another one says."""
CONTENDERS = MappingProxyType(
    {
        "wcoj": "bench.suite.engine:wcoj",
        "binary": "bench.suite.engine:binary",
        "auto": "bench.suite.engine:auto",
        "kept": "bench.suite.rivals.kept:tree",
        "duckdb": "bench.suite.rivals.duck:recompute",
        "duckdb-delta": "bench.suite.rivals.duck:deltas",
        "ladybug": "bench.suite.rivals.ladybug_db:recompute",
        "graphblas": "bench.suite.rivals.blas:recompute",
        "graphblas-delta": "bench.suite.rivals.blas:deltas",
        "spark": "bench.suite.rivals.spark_sql:recompute",
        "dogs3-wcoj": "bench.suite.rivals.dogs3:wcoj",
        "dogs3-delta": "bench.suite.rivals.dogs3:delta",
    }
)
RIVALS: MappingProxyType[str, tuple[str, ...]] = MappingProxyType(
    {
        "kept": ("kept",),
        "duckdb": ("duckdb", "duckdb-delta"),
        "ladybug": ("ladybug",),
        "graphblas": ("graphblas", "graphblas-delta"),
        "spark": ("spark",),
        "dogs3": ("dogs3-wcoj", "dogs3-delta"),
    }
)
"""Per rival that can be asked for, the names of its contenders."""
HELD = frozenset({"kept", "graphblas", "graphblas-delta", "dogs3-wcoj", "dogs3-delta"})
"""Contenders whose results between may be far larger than the state: they are held to a share of the memory."""


def factory(name: str) -> Callable[[Setting], Contender]:
    """What builds a contender, by its name here, or as ``module:function``.

    Raises
    ------
    MissingError
        If it is of a library that is not installed.
    """
    module, _, function = (name if ":" in name else CONTENDERS[name]).partition(":")
    try:
        made: Callable[[Setting], Contender] = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise MissingError(
            f"{name} needs a library that is not installed ({error}): pip install 'gpu_wcoj[bench]'"
        ) from error
    return made
