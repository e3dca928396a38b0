"""Join changes with weights as Python integers: slow, used only if int64 may overflow."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.magnitudes import to_python
from gpu_wcoj.join.seeds import bind_seeds
from gpu_wcoj.join.weights import sum_of_weights
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import stacked
from gpu_wcoj.zset.index import IndexedZSet


def exact_change(join: IncrementalGenericJoin, phase: int) -> dict[tuple[int, ...], int]:
    """Return the changed head rows of a phase and their exact weights as Python integers.

    All variables are bound, and each atom's weight is looked up again: sums over an atom's batches are weights of the
    state, which fit int64, so adding them modulo 2^64 is exact. The products are computed on the host.
    """
    backend = join.execution.backend
    total: dict[tuple[int, ...], int] = {}
    for path_index, path in enumerate(join.query.paths):
        generic = join.generic_join(path_index, phase)
        if generic is None:
            continue
        generic = replace(generic, needed=generic.needed.union(path.order), work={}, _extensions={})
        change = join.arrangements[path.seed.key].pending[phase]
        for piece in generic.pieces(bind_seeds(path, join.seeds_of(path_index, phase, generic), generic), path.steps):
            weight = _weights((change,), path.seed.variables, piece.values, backend)
            if path.is_negated:
                before = join.arrangements[path.seed.key].before(phase)
                old = _weights(before, path.seed.variables, piece.values, backend)
                weight = (old > 0).astype(object) * 1 - (old + weight > 0).astype(object) * 1
            for atom, use in generic.uses.items():
                weight = weight * _weights(generic.batches[atom], use.variables, piece.values, backend)
            columns = [
                backend.to_host(piece.values[term]).tolist() if isinstance(term, str) else [term] * len(piece)
                for term in join.query.head
            ]
            for row, exact in zip(zip(*columns, strict=True), weight.tolist(), strict=True):
                total[row] = total.get(row, 0) + exact
    return total


def _weights(
    batches: tuple[IndexedZSet, ...], variables: tuple[str, ...], values: dict[str, Int64Array], backend: Backend
) -> Int64Array:
    columns = [values[name] for name in variables]
    if not batches:
        return np.zeros(len(columns[0]), object)
    positions = stacked(backend, [batch.locate(columns) for batch in batches])
    return to_python(backend, sum_of_weights(batches, positions, backend))
