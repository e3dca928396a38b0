"""Other libraries for GPUs as rivals, where they are installed. None of them has been run from here yet."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

from bench.engine.queries import TRIANGLE, Query
from bench.gpu.graph import unpacked
from bench.gpu.place import Place

Counter = Callable[[Place, Query, Any], dict[str, Any]]


def cudf_join(place: Place, keys: Any) -> dict[str, Any]:
    """Triangles by two joins of cuDF frames."""
    cudf = importlib.import_module("cudf")
    smaller, larger = unpacked(keys)

    def count() -> int:
        ab = cudf.DataFrame({"a": smaller, "b": larger})
        bc = cudf.DataFrame({"b": smaller, "c": larger})
        ac = cudf.DataFrame({"a": smaller, "c": larger})
        return len(ab.merge(bc, on="b").merge(ac, on=["a", "c"]))

    return _timed(place, count, "cuDF, two joins")


def cugraph_match(place: Place, keys: Any) -> dict[str, Any]:
    """Triangles by cuGraph's motif tables: each triangle is found once per automorphism."""
    cudf, cugraph = (importlib.import_module(name) for name in ("cudf", "cugraph"))
    match = importlib.import_module("cugraph.experimental").subgraph_isomorphism
    smaller, larger = unpacked(keys)
    graph, motif = cugraph.Graph(directed=False), cugraph.Graph(directed=False)
    graph.from_cudf_edgelist(cudf.DataFrame({"src": smaller, "dst": larger}), source="src", destination="dst")
    motif.from_cudf_edgelist(cudf.DataFrame({"src": [0, 1, 0], "dst": [1, 2, 2]}), source="src", destination="dst")
    return _timed(place, lambda: len(match(graph, motif)) // 6, "cuGraph, subgraph_isomorphism")


def _timed(place: Place, count: Callable[[], int], what: str) -> dict[str, Any]:
    count()
    seconds, found = place.wall(count)
    return {"what": what, "seconds": seconds, "count": found}


def _where_installed(
    name: str, modules: tuple[str, ...], count: Callable[[Place, Any], dict[str, Any]] | None
) -> Counter:
    def attempt(place: Place, query: Query, keys: Any) -> dict[str, Any]:
        if query is not TRIANGLE:
            return {"absent": f"{name} runs for triangles only here"}
        for module in modules:
            try:
                importlib.import_module(module)
            except Exception as error:  # a library that is there but does not start is absent too
                return {"absent": f"{type(error).__name__}: {error}"}
        if count is None:
            return {"not_run": f"{name} is there, and no run of it has been written yet"}
        start = time.monotonic()
        try:
            return count(place, keys)
        except Exception as error:  # a rival that fails is a figure less
            return {"failed": f"{type(error).__name__}: {error}", "after_seconds": time.monotonic() - start}

    return attempt


COUNTERS: dict[str, Counter] = {
    "cuDF": _where_installed("cuDF", ("cudf",), cudf_join),
    "cuGraph": _where_installed("cuGraph", ("cudf", "cugraph"), cugraph_match),
    "pyxlog": _where_installed("pyxlog", ("pyxlog",), None),
}
