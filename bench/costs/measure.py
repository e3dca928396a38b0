"""What elementary operations take on this machine, in nanoseconds of one core.

`rows` times operations on whole relations. `kernels` reads what the kernels have counted in ticks, and fits
non-negative costs of the counted operations to the measured time.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import gpu_wcoj as gw
from gpu_wcoj.backend import select_backend
from gpu_wcoj.join.settings import tune
from gpu_wcoj.trace.arrangement import Arrangement, ArrangementKey, PhaseRows

N_ROWS = 1_000_000
ROUNDS = 5

PROGRAMS = (
    "h(a, b, c) :- e(a, b), e(b, c), e(a, c).",
    "h(a, b, c, d) :- e(a, b), e(b, c), e(c, d), e(d, a).",
    "h(a, b, c, d) :- e(a, b), e(b, c), e(a, c), e(b, d), e(c, d), a < d.",
    "h(a, b, c) :- e(a, b), e(b, c), a != c.",
    "h(a, b, c) :- e(a, b), f(b, c), g(c).",
)
"""Programs whose ticks are measured: cyclic and acyclic, of one and of several atoms a step."""
TICKS = (64, 256, 1024, 4096)
"""Changed rows of a tick."""

Costs = dict[str, float]
"""Nanoseconds by the names in `gpu_wcoj.costs`."""


def median_ns(run: Callable[[], Any], n: int) -> float:
    """Return the median CPU time of several runs, in nanoseconds for each of `n` operations."""
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        run()
        taken.append((time.process_time_ns() - start) / n)
    return statistics.median(taken)


def rows() -> Costs:
    """Return the costs of rows that are indexed, merged and sorted."""
    backend, chance = select_backend("cpu"), np.random.default_rng(1)
    columns = [chance.integers(0, N_ROWS, N_ROWS) for _ in range(2)]

    def arranged(part: slice) -> Arrangement:
        made = Arrangement(ArrangementKey("e", (0, 1)), backend)
        unsorted = [column[part] for column in columns]
        order = backend.kernels.lexsort(unsorted)
        made.receive_delta([PhaseRows([column[order] for column in unsorted], 1)])
        made.commit()
        return made

    half = N_ROWS // 2
    left, right = (arranged(part).spine.batches[0] for part in (slice(half), slice(half, None)))
    return {
        "INDEXED_ROW": median_ns(lambda: arranged(slice(None)), N_ROWS),
        "MERGED_ROW": median_ns(lambda: left.merge(right), N_ROWS),
        "SORTED_PREFIX": median_ns(lambda: backend.kernels.lexsort(columns), N_ROWS),
    }


def fitted(names: Sequence[str], counted: Sequence[Sequence[float]], nanoseconds: Sequence[float]) -> Costs:
    """Return non-negative costs of operations, by least squares of errors relative to the root of the time.

    Each measurement has a fixed part besides, which is not returned, nor are operations without a name.

    Parameters
    ----------
    counted
        Per measurement, how often each operation was carried out, those without a name last.
    """
    from scipy.optimize import nnls

    scale = 1 / np.sqrt(np.maximum(np.array(nanoseconds), 1.0))
    operations = np.column_stack([np.array(counted, float), np.ones(len(scale))])
    found, _ = nnls(operations * scale[:, None], np.array(nanoseconds) * scale)
    return dict(zip(names, found.tolist(), strict=False))


def levels() -> Iterator[Mapping[str, Any]]:
    """Yield the levels of ticks of all programs and sizes over an R-MAT graph, with their counts and seconds."""
    edges = gw.datasets.rmat(15, 300_000)
    tables: dict[str, npt.NDArray[np.int64]] = {"e": edges, "f": edges[::2], "g": np.unique(edges[::5, :1], axis=0)}
    for text in PROGRAMS:
        with tune(max_tick_rows=-1):
            program = gw.Program(text, backend="cpu", threads=1, analyze=True)
        program.load({name: tables[name] for name in program.inputs if name != "e"} | {"e": edges[:-20_000]})
        for n_rows in TICKS:
            for number in range(ROUNDS):
                change = edges[len(edges) - 20_000 + number * n_rows :][:n_rows]
                if len(change) < n_rows:
                    break
                program.step({"e": change})
                plan = json.loads(program.explain(analyze=True, format="json"))
                for path in plan["heads"][0]["rules"][0]["paths"]:
                    yield from (level for level in path["levels"] if level["counts"] and level["counts"]["prefixes"])
                program.step({"e": [(tuple(row), -1) for row in change.tolist()]})


def kernels(found: Sequence[Mapping[str, Any]]) -> Costs:
    """Return the costs of what kernels count: candidates, searches, and prefixes that are written.

    Marked values and read prefixes are fitted too, as they take time.
    """
    names = ("CANDIDATE", "SEARCH", "WRITTEN_PREFIX")
    counted = []
    for level in found:
        counts = level["counts"]
        searched = 0 if counts["marks"] else counts["probes"]
        tested = counts["probes"] - searched
        counted.append([counts["proposals"] + tested, searched, counts["rows"], counts["marks"], counts["prefixes"]])
    return fitted(names, counted, [1e9 * level["counts"]["seconds"] for level in found])


def measure() -> Costs:
    """Return all costs that can be measured."""
    return rows() | kernels(list(levels()))
