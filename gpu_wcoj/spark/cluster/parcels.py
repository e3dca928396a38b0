"""Rows on their way to cells: Arrow bodies, each with the cell it goes to, routed by NumPy.

A *parcel* is one row of a DataFrame: the stage and the cell, the relation, the mask of the roles that the rows have
there, and a body, a serialised record batch with the columns of the relation and, only if some weight is not 1, the
weights. Spark shuffles a few parcels in place of many rows, and a cell reads a body without copying it. A parcel
without a body has a note for the driver.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from gpu_wcoj.errors import UsageError
from gpu_wcoj.spark.cluster.hashing import xxhash64
from gpu_wcoj.spark.cluster.layout import Value
from gpu_wcoj.spark.cluster.plan import Hashed, Route
from gpu_wcoj.spark.sources import WEIGHT

REL, DIGEST, NOTE = "rel", "digest", "note"
STAGE, CELL, MASK, KEY = "stage", "cell", "mask", "key"
IS_WEIGHTED, BODY = "weighted", "body"

PARCEL = pa.schema(
    [
        pa.field(REL, pa.int32()), pa.field(STAGE, pa.int32()), pa.field(CELL, pa.int32()), pa.field(KEY, pa.int32()),
        pa.field(MASK, pa.int64()), pa.field(IS_WEIGHTED, pa.bool_()), pa.field(NOTE, pa.string()),
        pa.field(BODY, pa.binary()),
    ]
)  # fmt: skip
"""The columns of parcels; `KEY` is the cell's, see `gpu_wcoj.spark.cluster.exchange.cell_keys`."""

BODY_BYTES = 1 << 16
"""Bytes of a body, about. Spark hands 10,000 rows at a time to Python, which then are at most 640 MB."""
GATHERED_ROWS = 1 << 18
"""Rows that are gathered before they are routed: four rounds for a million rows, some 10 MB each."""
SENT_BYTES = 1 << 22
"""Bytes of parcels that are gathered before they go to Spark."""


@dataclass(frozen=True, eq=False)
class Router:
    """The routes of one relation's rows.

    Attributes
    ----------
    relation
        Its index in the plan.
    schema
        Its columns: ``c0``, ``c1``, ..., and for ordered inputs ``o0``, ...
    routes
        Per route, the bit of its role in masks.
    keys
        The key of each cell.
    """

    relation: int
    schema: pa.Schema
    routes: Sequence[tuple[Route, int]]
    keys: Sequence[int]

    @property
    def weighted_schema(self) -> pa.Schema:
        """The columns, and the weight after them."""
        return self.schema.append(pa.field(WEIGHT, pa.int64()))

    def parcels(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows as parcels, once for each of their cells.

        Parameters
        ----------
        rows
            Rows of `schema` or of `weighted_schema`.
        """
        hashes: dict[tuple[Any, ...], npt.NDArray[np.int64]] = {}

        def coordinate(hashed: Hashed) -> npt.NDArray[np.int64]:
            key = hashed.columns, hashed.salt, hashed.parts
            if key not in hashes:
                values = xxhash64([rows.column(f"c{i}") for i in hashed.columns], hashed.salt)
                hashes[key] = np.mod(values, hashed.parts)
            return hashes[key] * hashed.stride

        outbox = _Outbox()
        whole: list[pa.Buffer] = []
        for stage in dict.fromkeys(route.stage for route, _ in self.routes):
            routed = []
            for route, bit in self.routes:
                if route.stage == stage:
                    cell_of_row = reduce(np.add, map(coordinate, route.hashed)) if route.hashed else None
                    routed.append((route, bit, cell_of_row, self._taken(rows, route)))
            for cell in range(len(self.keys)):
                for mask, indices in _by_mask(rows.num_rows, cell, routed):
                    if indices is None:
                        whole = whole or list(_bodies(rows))
                    bodies = whole if indices is None else _bodies(rows.take(pa.array(indices)))
                    for body in bodies:
                        outbox.add(self.relation, stage, cell, self.keys[cell], mask, _is_weighted(rows), body)
                yield from outbox.taken(SENT_BYTES)
        yield from outbox.taken()

    def packed(self, stage: int, cell: int, mask: int, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield rows that have been routed as parcels."""
        outbox = _Outbox()
        for body in _bodies(rows):
            outbox.add(self.relation, stage, cell, self.keys[cell], mask, _is_weighted(rows), body)
        yield from outbox.taken()

    def opened(self, is_weighted: bool, body: pa.Buffer) -> pa.RecordBatch:
        """Return the rows of a body, in its memory."""
        return pa.ipc.read_record_batch(body, self.weighted_schema if is_weighted else self.schema)

    @staticmethod
    def _taken(rows: pa.RecordBatch, route: Route) -> npt.NDArray[np.bool_] | None:
        """Return the rows that a route takes by their heavy values; None for all."""
        taken: npt.NDArray[np.bool_] | None = None
        for column, values, is_included in route.chosen:
            is_chosen = _is_among(rows.column(f"c{column}"), values)
            here = is_chosen if is_included else ~is_chosen
            taken = here if taken is None else taken & here
        return taken


def _is_among(column: pa.Array, values: Sequence[Value]) -> npt.NDArray[np.bool_]:
    """Return whether values are among some; null never is."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        allowed = pa.array([str(value) for value in values], kind)
    else:
        comparable = pa.int64() if pa.types.is_integer(kind) else pa.float64()
        column = column.cast(comparable)
        allowed = pa.array([value for value in values if isinstance(value, int)]).cast(comparable)
    is_among: npt.NDArray[np.bool_] = pc.is_in(column, value_set=allowed, skip_nulls=True).to_numpy(
        zero_copy_only=False
    )
    return is_among


def _by_mask(
    n: int, cell: int, routed: Sequence[tuple[Route, int, npt.NDArray[np.int64] | None, npt.NDArray[np.bool_] | None]]
) -> Iterator[tuple[int, npt.NDArray[np.intp] | None]]:
    """Yield masks of roles in a cell, and the indices of the rows with them; None for all rows."""
    everyone = 0
    kind = np.min_scalar_type(max((1 << bit for _, bit, _, _ in routed), default=1) * 2 - 1)
    masks: npt.NDArray[Any] | None = None
    for route, bit, cell_of_row, taken in routed:
        if cell >= route.cells:
            continue
        if cell_of_row is None and taken is None:
            everyone |= 1 << bit
            continue
        has_role = np.ones(n, np.bool_) if taken is None else taken
        if cell_of_row is not None:
            has_role = has_role & (cell_of_row == route.coordinate(cell))
        word = has_role.astype(kind) << kind.type(bit)
        masks = word if masks is None else masks | word
    if masks is None:
        if everyone and n:
            yield everyone, None
        return
    roles: npt.NDArray[Any] = masks | kind.type(everyone)
    present = np.flatnonzero(np.bincount(roles)) if kind.itemsize == 1 else np.unique(roles)
    for mask in present.tolist():
        if mask:
            yield mask, None if len(present) == 1 else np.flatnonzero(roles == mask)


def _is_weighted(rows: pa.RecordBatch) -> bool:
    return WEIGHT in rows.schema.names


def _bodies(rows: pa.RecordBatch) -> Iterator[pa.Buffer]:
    """Yield rows as bodies."""
    size = max(1, BODY_BYTES * rows.num_rows // max(1, rows.get_total_buffer_size()))
    for start in range(0, rows.num_rows, size):
        yield rows.slice(start, size).serialize()


class _Outbox:
    """Parcels that are gathered for the next record batch."""

    def __init__(self) -> None:
        self._heads: list[tuple[int, int, int, int, int, bool]] = []
        self._bodies: list[pa.Buffer] = []
        self._bytes = 0

    def add(
        self, relation: int, stage: int, cell: int, key: int, mask: int, is_weighted: bool, body: pa.Buffer
    ) -> None:
        self._heads.append((relation, stage, cell, key, mask, is_weighted))
        self._bodies.append(body)
        self._bytes += body.size

    def taken(self, at_least: int = 1) -> Iterator[pa.RecordBatch]:
        """Yield the parcels if they have so many bytes."""
        if self._bytes < at_least:
            return
        heads = zip(*self._heads, strict=True)
        columns = [pa.array(values, field.type) for values, field in zip(heads, PARCEL, strict=False)]
        offsets = np.concatenate([[0], np.cumsum([body.size for body in self._bodies])]).astype(np.int32)
        data = np.concatenate([np.frombuffer(body, np.uint8) for body in self._bodies])
        n = len(self._bodies)
        bodies = pa.Array.from_buffers(pa.binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        yield pa.RecordBatch.from_arrays([*columns, pa.nulls(n, pa.string()), bodies], schema=PARCEL)
        self._heads, self._bodies, self._bytes = [], [], 0


def note_parcel(text: str, key: int) -> pa.RecordBatch:
    """Return a note for the driver, which passes through the cell with this key."""
    arrays = [pa.array([text if field.name == NOTE else key if field.name == KEY else None], field.type)
              for field in PARCEL]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=PARCEL)


def batch_of_task(batch: int | None, query: str) -> tuple[int, str]:
    """Return the ids of a batch and its query; without a batch, those of this task's stream."""
    from pyspark import TaskContext

    if batch is not None:
        return batch, query
    context = TaskContext.get()
    assert context is not None
    stream_batch = context.getLocalProperty("streaming.sql.batchId")
    stream_query = context.getLocalProperty("sql.streaming.queryId")
    if stream_batch is None or stream_query is None:
        raise UsageError.wrong_state("running a cell", "its task belongs to neither a stream nor the loading of tables")
    return int(stream_batch), stream_query


def report_of(rows: int, digest: int, batch: int, query: str) -> str:
    """Return the note on the rows of a source that a task has read."""
    return json.dumps({"rows": rows, "digest": digest % (1 << 64), "query": query, "batch": batch})


def sum_digests(digests: pa.Array) -> int:
    """Return the sum of hashes as unsigned integers."""
    return int(np.asarray(digests.fill_null(0)).view(np.uint64).sum(dtype=np.uint64))


@dataclass(frozen=True, eq=False)
class Dispatch:
    """The work of a task on rows of sources: it sends them to their cells.

    Attributes
    ----------
    routers
        By index of a relation.
    relation
        The relation of all rows, which have its columns; None for rows with the index of their relation and its
        columns in slots.
    slots
        By index of a relation, the slot of each column.
    batch, query
        As those of `gpu_wcoj.spark.cluster.worker.Work`.
    """

    routers: Mapping[int, Router]
    relation: int | None
    slots: Sequence[Mapping[str, str]]
    batch: int | None = None
    query: str = ""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield parcels, and a note on the rows; the function of ``mapInArrow``."""
        rows, digest, key = 0, 0, 0
        for gathered in _gathered(batches, GATHERED_ROWS):
            rows += gathered.num_rows
            if DIGEST in gathered.schema.names:
                digest += sum_digests(gathered[DIGEST])
            for router, part in self._parts(gathered):
                key = router.keys[0]
                yield from router.parcels(part)
        if rows:
            yield note_parcel(report_of(rows, digest, *batch_of_task(self.batch, self.query)), key)

    def _parts(self, rows: pa.RecordBatch) -> Iterator[tuple[Router, pa.RecordBatch]]:
        """Yield the rows of each relation with its columns."""
        if self.relation is not None:
            router = self.routers[self.relation]
            yield router, as_rows(router, rows, {name: name for name in router.schema.names})
            return
        for relation in pc.unique(rows[REL]).to_pylist():
            router = self.routers[relation]
            yield router, as_rows(router, rows.filter(pc.equal(rows[REL], relation)), self.slots[relation])


def as_rows(router: Router, rows: pa.RecordBatch, source_of: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows with the columns of a relation, and with weights if some are not 1.

    Parameters
    ----------
    source_of
        The name of each column in `rows`; columns that are missing there are null.
    """
    names, n = set(rows.schema.names), rows.num_rows
    arrays = []
    for field in router.schema:
        name = source_of[field.name]
        column = rows[name] if name in names else pa.nulls(n, field.type)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    schema = router.schema
    if WEIGHT in names and not (np.asarray(rows[WEIGHT]) == 1).all():
        arrays.append(rows[WEIGHT])
        schema = router.weighted_schema
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _gathered(batches: Iterable[pa.RecordBatch], n_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield larger record batches."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(part.num_rows for part in gathered) >= n_rows:
            yield pa.concat_batches(gathered)
            gathered = []
    if gathered:
        yield pa.concat_batches(gathered)
