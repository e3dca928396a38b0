"""Tables of prefixes, and their bounds, weights, exact sums, memory and meters in a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from gpu_wcoj.backend import Backend
from gpu_wcoj.errors import DeviceMemoryError
from gpu_wcoj.join.plan import AtomUse, Condition, DeltaQuery, Step
from gpu_wcoj.kernels.protocol import N_WORK, IndexArray, Int64Array
from gpu_wcoj.trace.arrangement import COMPARE
from gpu_wcoj.zset.arrays import exact_sum, memory_error, numbers, stacked
from gpu_wcoj.zset.index import IndexedZSet

Layout = tuple[tuple[int, int], ...]
"""The atoms that are bound in part, each with the number of bound levels."""


@dataclass(frozen=True, eq=False)
class Prefixes:
    """Rows of bound variables; rows that agree on the first variables of `order` are together.

    Attributes
    ----------
    order
        The variables bound so far; the last one varies fastest.
    values
        int64 (n,) per variable that is still needed.
    weights
        int64 (n,), products of the weights of completely bound atoms modulo 2^64; None if all are 1.
    layout
        The atoms of `positions`.
    positions
        int64 (rows, n): per atom of `layout` and batch of it, the position of its bound prefix; -1 for absent.
    """

    order: tuple[str, ...]
    values: dict[str, Int64Array]
    weights: Int64Array | None
    layout: Layout
    positions: Int64Array

    def __len__(self) -> int:
        return int(self.positions.shape[1])

    def gather(self, rows: IndexArray, xp: Any = np) -> Prefixes:
        """Return the prefixes at these positions; `xp` is the array module of all arrays."""
        return Prefixes(
            self.order,
            {name: column[rows] for name, column in self.values.items()},
            None if self.weights is None else self.weights[rows],
            self.layout,
            xp.ascontiguousarray(self.positions[:, rows]),
        )


def concatenate(pieces: Sequence[Prefixes], xp: Any = np) -> Prefixes:
    """Concatenate pieces of the same layout; `xp` is the array module of all arrays."""
    if len(pieces) == 1:
        return pieces[0]
    weights = None
    if any(piece.weights is not None for piece in pieces):
        weights = xp.concatenate(
            [xp.ones(len(piece), np.int64) if piece.weights is None else piece.weights for piece in pieces]
        )
    values = {name: xp.concatenate([piece.values[name] for piece in pieces]) for name in pieces[0].values}
    stand = xp.concatenate([piece.positions for piece in pieces], axis=1)
    return Prefixes(pieces[0].order, values, weights, pieces[0].layout, stand)


# The part of a prepared step that is cached between ticks: it depends on batch counts only.


@dataclass(frozen=True, eq=False)
class ExtensionShape:
    """The cached part of a step prepared for prefixes of one layout.

    Attributes
    ----------
    slots
        Per atom of the step, the index of its first batch, whether the step binds its last variable, and whether
        prefixes share its ranges; per batch, its row of positions before and after the step, -1 for none.
    layout
        The layout after the step.
    n_new_rows
        Number of rows of positions that the step writes.
    kept_rows
        Rows of positions that are copied.
    """

    slots: tuple[list[int], list[bool], list[bool], list[int], list[int]]
    layout: Layout
    n_new_rows: int
    kept_rows: tuple[int, ...]


Shapes = dict[tuple[Layout, str, str, tuple[int, ...]], ExtensionShape]
"""By layout, step name, newest variable and batch counts."""


def shape_of(
    layout: Layout, step: Step, newest: str, uses: Mapping[int, AtomUse], n_batches: Mapping[int, int]
) -> ExtensionShape:
    """Return the shape of a step; atoms without variable `newest` share ranges between prefixes."""
    depth = dict(layout)
    first_row: dict[int, int] = {}
    n_rows = 0
    for atom, _ in layout:
        first_row[atom] = n_rows
        n_rows += n_batches[atom]
    rows: list[int] = []
    out_rows: list[int] = []
    first, ends_atom, shared = [0], [], []
    new_layout: list[tuple[int, int]] = []
    n_new_rows = 0
    for atom in step.atoms:
        use, bound = uses[atom], depth.get(atom, 0)
        ends = bound + 1 == len(use.variables)
        rows.extend(first_row[atom] + batch if bound else -1 for batch in range(n_batches[atom]))
        out_rows.extend(-1 if ends else n_new_rows + batch for batch in range(n_batches[atom]))
        first.append(len(rows))
        ends_atom.append(ends)
        shared.append(newest not in use.variables[:bound])
        if not ends:
            new_layout.append((atom, bound + 1))
            n_new_rows += n_batches[atom]
    kept_rows: list[int] = []
    for atom, bound in layout:
        if atom not in step.atoms:
            new_layout.append((atom, bound))
            kept_rows.extend(range(first_row[atom], first_row[atom] + n_batches[atom]))
    return ExtensionShape((first, ends_atom, shared, rows, out_rows), tuple(new_layout), n_new_rows, tuple(kept_rows))


# Comparisons during a join: bounds of the variable being bound, or a filter of bound rows.


_MIN_INT64, _MAX_INT64 = -(1 << 63), (1 << 63) - 1
_NO_BOUND = np.empty(0, np.int64)


def find_bounds(
    step: Step, values: dict[str, Int64Array], n: int, backend: Backend
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return inclusive bounds and excluded values of the step's variable for `n` prefixes.

    Conditions on text are left to `condition_mask`. Bounds that no value satisfies have the lower above the upper.
    """
    xp = backend.xp
    no_bound = _NO_BOUND if backend.device is None else xp.empty(0, np.int64)
    if step.is_lookup:
        value = values[step.variable]
        return value, value, xp.empty((0, n), np.int64)
    conditions = [condition for condition in step.conditions if not condition.textual]
    excluded = [_column(condition, values, n, xp) for condition in conditions if condition.op == "!="]
    matrix = stacked(backend, excluded) if excluded else xp.empty((0, n), np.int64)
    ordered = [condition for condition in conditions if condition.op != "!="]
    if not ordered:
        return no_bound, no_bound, matrix
    lower = xp.full(n, _MIN_INT64, np.int64)
    upper = xp.full(n, _MAX_INT64, np.int64)
    impossible = xp.zeros(n, np.bool_)
    for condition in ordered:
        operand = _column(condition, values, n, xp)
        if condition.op in ("<=", "="):
            upper = xp.minimum(upper, operand)
        if condition.op in (">=", "="):
            lower = xp.maximum(lower, operand)
        if condition.op == "<":
            impossible |= operand == _MIN_INT64
            upper = xp.minimum(upper, xp.maximum(operand, _MIN_INT64 + 1) - 1)
        if condition.op == ">":
            impossible |= operand == _MAX_INT64
            lower = xp.maximum(lower, xp.minimum(operand, _MAX_INT64 - 1) + 1)
    return xp.where(impossible, _MAX_INT64, lower), xp.where(impossible, _MIN_INT64, upper), matrix


def condition_mask(
    conditions: Sequence[Condition],
    values: dict[str, Int64Array],
    ranks: Callable[[str], Int64Array] | None,
    xp: Any = np,
) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that satisfy all conditions; text is compared by rank.

    `xp` is the array module of values and ranks.
    """
    n = len(next(iter(values.values())))
    mask: npt.NDArray[np.bool_] = xp.ones(n, np.bool_)
    for condition in conditions:
        left, right = values[condition.variable], _column(condition, values, n, xp)
        if condition.textual:
            assert ranks is not None
            rank = ranks(condition.family)
            left, right = rank[left], rank[right]
        mask &= COMPARE[condition.op](left, right)
    return mask


def _column(condition: Condition, values: dict[str, Int64Array], n: int, xp: Any) -> Int64Array:
    if isinstance(condition.operand, str):
        return values[condition.operand]
    column: Int64Array = xp.full(n, condition.operand, np.int64)
    return column


# Weights of rows that are spread over several batches.


def sum_of_weights(batches: tuple[IndexedZSet, ...], positions: Int64Array, backend: Backend) -> Int64Array:
    """Return the weight of each row, by its positions in the batches (-1: absent), modulo 2^64."""
    if backend.device is not None:
        return _sum_on_device(batches, positions, backend.xp)
    if positions.shape[1] == 1:
        exact = sum(
            [
                1 if batch.weights is None else int(batch.weights[position])
                for batch, position in zip(batches, positions[:, 0].tolist(), strict=True)
                if position >= 0
            ]
        )
        return np.array([(exact + (1 << 63)) % (1 << 64) - (1 << 63)], np.int64)
    total = np.zeros(positions.shape[1], np.int64)
    for batch, position in zip(batches, positions, strict=True):
        is_present = position >= 0
        if batch.weights is None:
            total += is_present
        else:
            total[is_present] += batch.weights[position[is_present]]
    return total


def _sum_on_device(batches: tuple[IndexedZSet, ...], positions: Int64Array, xp: Any) -> Int64Array:
    """Return `sum_of_weights` without reading sizes of batches, which waits for a device."""
    total: Int64Array = xp.zeros(positions.shape[1], np.int64)
    for row, batch in enumerate(batches):
        position = positions[row]
        if batch.weights is None:
            total += position >= 0
        elif batch.n_rows:
            total += xp.where(position >= 0, batch.weights[xp.maximum(position, 0)], 0)
    return total


def weights_of_rows(
    batches: Sequence[IndexedZSet], column_of: Sequence[int], matrix: Int64Array, backend: Backend
) -> Int64Array:
    """Return the weight of each column of `matrix` in all batches, modulo 2^64.

    There is at least one batch.

    Parameters
    ----------
    column_of
        The row of `matrix` that holds the values of each level.
    """
    columns_of = [column_of] * len(batches)
    if backend.device is not None:
        return backend.kernels.weights_of([batch.levels for batch in batches], columns_of, matrix)
    located = backend.kernels.locate([batch.records for batch in batches], columns_of, matrix)
    return sum_of_weights(tuple(batches), located, backend)


# Products and sums of weights that may leave int64: bounds of them, and exact ones.


def largest_magnitudes(backend: Backend, *columns: Int64Array) -> list[int]:
    """Return the largest magnitude of each column; 0 for an empty one. Waits once for a device."""
    ends = iter(numbers(backend, *(end for column in columns if len(column) for end in (column.max(), column.min()))))
    return [max(next(ends), -next(ends)) if len(column) else 0 for column in columns]


def multiply_exactly(left: Int64Array, right: Int64Array, backend: Backend, bound: int | None) -> Int64Array:
    """Multiply elementwise, as Python integers on the host if int64 might overflow.

    `bound` is an upper bound of the products' magnitudes, if there is one.
    """
    if left.dtype != object and right.dtype != object:
        if bound is not None and bound < 1 << 63:
            return left * right
        max_left, max_right = largest_magnitudes(backend, left, right)
        if max_left * max_right < 1 << 63:
            return left * right
    product: Int64Array = to_python(backend, left) * to_python(backend, right)
    return product


def to_python(backend: Backend, values: Int64Array) -> Int64Array:
    """Return the values as Python integers, on the host."""
    return backend.to_host(values).astype(object, copy=False)


def bound_magnitudes(values: Int64Array, bound: int | None, backend: Backend) -> int:
    """Return an upper bound of the sum of magnitudes of values that are at most `bound`.

    The values are read, which waits for a device, only if `bound` does not keep the sum far from leaving int64.
    """
    if values.dtype == object:
        return int(np.abs(values).sum())
    if bound is not None and bound * len(values) < 1 << 62:
        return bound * len(values)
    if backend.device is not None:
        return largest_magnitudes(backend, values)[0] * len(values)
    return int(np.abs(values.astype(np.float64)).sum() * (1 + 2.0**-20)) + 1


def exact_dot(counts: Int64Array, weights: Int64Array | None, backend: Backend) -> int:
    """Return the sum of counts times weights as an exact integer, from values that are exact."""
    if backend.device is None and len(counts) < 2:
        return sum(counts.tolist()) if weights is None else sum(counts.tolist()) * sum(weights.tolist())
    if counts.dtype != object:
        if weights is None:
            return exact_sum(backend, counts)
        max_count, max_weight = largest_magnitudes(backend, counts, weights)
        if max_count * max_weight * len(counts) < 1 << 63:
            return numbers(backend, (counts * weights).sum())[0]
    product = (
        to_python(backend, counts) if weights is None else to_python(backend, counts) * to_python(backend, weights)
    )
    return int(product.sum())


# The size of pieces on a device, and smaller ones after it runs out of memory.


_T = TypeVar("_T")

CHUNK_ROWS = 1 << 17
"""Rows a piece on the CPU, unless the user sets them."""

PIECE_ROW_BYTES = 512
"""Bytes that a row of a piece takes, including the kernels' buffers.

Its parent, value and weight, about ten bound variables, its positions in about ten batches as found and as gathered,
eight bytes each."""

MEMORY_DIVISOR = 4
"""A piece may take the free memory divided by this: a path holds a piece a level."""

MIN_PIECE_ROWS, MAX_PIECE_ROWS = 1 << 16, 1 << 25
"""Least and greatest number of rows of one piece on a device."""

GIVE_UP_ROWS = 4096
"""Rows down to which pieces are halved if the device runs out of memory."""


def choose_piece_rows(backend: Backend) -> int:
    """Return the rows of a piece if the user has not set them; on a device by its free memory.

    Examples
    --------
    >>> from gpu_wcoj.backend import select_backend
    >>> choose_piece_rows(select_backend("cpu"))
    131072
    """
    if backend.device is None:
        return CHUNK_ROWS
    return max(MIN_PIECE_ROWS, min(MAX_PIECE_ROWS, backend.device.free_bytes() // (MEMORY_DIVISOR * PIECE_ROW_BYTES)))


def run_within_memory(backend: Backend, rows: int, run: Callable[[int], _T], doing: str) -> _T:
    """Return ``run(rows)``, with half as many rows each time that the device runs out of memory.

    Raises
    ------
    DeviceMemoryError
        If memory is too small even for `GIVE_UP_ROWS` rows.
    """
    device = backend.device
    assert device is not None
    given_back = False
    while True:
        try:
            return run(rows)
        except device.out_of_memory as error:
            if isinstance(error, DeviceMemoryError):
                raise
        if given_back and rows <= GIVE_UP_ROWS:  # outside the handler: the memory of the failed call is free by now
            raise memory_error(backend, doing)
        device.release()
        given_back = True
        rows = rows if rows <= GIVE_UP_ROWS else max(GIVE_UP_ROWS, rows // 2)


# Counts and times of a join's steps, collected on request.
#
# The kernels count their work in any case; prefixes, rows, bytes and times are measured here. On a device a measurement
# begins and ends by waiting for it, so a measured tick takes longer.


@dataclass(eq=False)
class Gauge:
    """Measurements of one step: extended prefixes, resulting rows and their bytes, seconds."""

    prefixes: int = 0
    rows: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def add(self, gauge: Gauge) -> Gauge:
        """Return the sum of two gauges."""
        return Gauge(
            self.prefixes + gauge.prefixes, self.rows + gauge.rows, self.nbytes + gauge.nbytes,
            self.seconds + gauge.seconds,
        )  # fmt: skip


@dataclass(eq=False)
class Meter:
    """Measurements of one run along a path or a variant of it; threads' blocks have one each.

    Attributes
    ----------
    path_index, variant
        Index of the path in its query, and of the variant; 0 for the path itself. A full recomputation has an index of
        its own, see `gpu_wcoj.join.full_join`.
    work
        Per step, by name, the kernels' counters.
    changes
        Changed rows that started the run.
    prefixes
        Number of these that reached the first step.
    seconds
        Seconds for binding the seeds.
    """

    path_index: int
    variant: int
    work: dict[str, Int64Array]
    gauges: dict[str, Gauge] = field(default_factory=dict)
    changes: int = 0
    prefixes: int = 0
    seconds: float = 0.0

    def gauge(self, step: str) -> Gauge:
        """Return the gauge of a step."""
        return self.gauges.setdefault(step, Gauge())

    def total_gauges(self, name: str) -> dict[str, Gauge]:
        """Return the gauges; with a name, their sum under it."""
        if not name or not self.gauges:
            return dict(self.gauges)
        return {name: reduce(Gauge.add, self.gauges.values())}

    @contextmanager
    def seeding(self, backend: Backend) -> Generator[None]:
        """Measure the enclosed code as binding the path's seeds."""
        start = now(backend)
        yield
        self.seconds += now(backend) - start


def now(backend: Backend) -> float:
    """Return the time in seconds after waiting for all launched work."""
    if backend.device is not None:
        backend.to_host(backend.xp.zeros(1, np.int64))
    return time.perf_counter()


@dataclass(frozen=True)
class StepCounts:
    """Counts of one step in one tick.

    Attributes
    ----------
    work
        The kernels' counters; see `gpu_wcoj.kernels.protocol`.
    """

    work: tuple[int, ...] = (0,) * N_WORK
    prefixes: int = 0
    rows: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def add(self, work: Iterable[int], gauge: Gauge) -> StepCounts:
        """Return the counts with one more run."""
        return StepCounts(
            tuple(a + b for a, b in zip(self.work, work, strict=True)),
            self.prefixes + gauge.prefixes,
            self.rows + gauge.rows,
            self.nbytes + gauge.nbytes,
            self.seconds + gauge.seconds,
        )


@dataclass(frozen=True)
class PathCounts:
    """Counts of one path, or one of its variants, in one tick; see `Meter`."""

    changes: int
    prefixes: int
    seconds: float
    steps: Mapping[str, StepCounts]


@dataclass(frozen=True)
class JoinCounts:
    """Counts of one join in one tick, by path index and variant."""

    query: DeltaQuery
    paths: Mapping[tuple[int, int], PathCounts]


def sum_meters(query: DeltaQuery, meters: Iterable[Meter], backend: Backend) -> JoinCounts:
    """Add up all runs along one join's paths. Waits once for a device."""
    runs = [meter for meter in meters if meter.changes or meter.prefixes or meter.work or meter.gauges]
    counted = [(meter, step) for meter in runs for step in meter.work]
    arrays = [meter.work[step] for meter, step in counted]
    rows = backend.to_host(backend.xp.stack(arrays)).tolist() if arrays else []
    work: dict[tuple[int, str], list[int]] = {
        (id(meter), step): row for (meter, step), row in zip(counted, rows, strict=True)
    }
    paths: dict[tuple[int, int], PathCounts] = {}
    for meter in runs:
        key = meter.path_index, meter.variant
        before = paths.get(key, PathCounts(0, 0, 0.0, {}))
        steps = dict(before.steps)
        for step in dict.fromkeys((*meter.gauges, *meter.work)):
            step_work = work.get((id(meter), step), [0] * N_WORK)
            steps[step] = steps.get(step, StepCounts()).add(step_work, meter.gauges.get(step, Gauge()))
        paths[key] = PathCounts(
            before.changes + meter.changes, before.prefixes + meter.prefixes, before.seconds + meter.seconds, steps
        )
    return JoinCounts(query, dict(sorted(paths.items())))
