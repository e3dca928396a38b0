"""Derivation counts in owner cells, and the rows that appear or vanish."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpu_wcoj.engine.compile import stored_columns
from gpu_wcoj.engine.ingest import read_change
from gpu_wcoj.errors import CheckpointError, WeightOverflowError
from gpu_wcoj.program import Program
from gpu_wcoj.zset.zset import ZSet


def apply_derivations(program: Program, changes: Mapping[str, ZSet], is_bag: bool) -> dict[str, ZSet]:
    """Apply changes of derivation counts and return the rows that appear (1) or vanish (-1).

    In bag semantics, the result is the summed changes. `program` is a program over bags whose rules only rename; its
    inputs hold the derivation counts.
    """
    result = program.step(changes)
    if is_bag:
        return result
    return {name: _crossing(program, name, rows) if len(rows) else rows for name, rows in result.items()}


def _crossing(program: Program, name: str, rows: ZSet) -> ZSet:
    """Return the rows whose derivation count becomes positive or ceases to be so."""
    lowered = program.subject.ledger.lowered
    assert lowered is not None
    source = f"in{name.removeprefix('out')}"
    types = [lowered.kinds[source, column] for column in range(len(rows.columns))]
    incoming = read_change(source, rows, len(rows.columns), None, types, program.dictionaries)
    columns = stored_columns(source, incoming, lowered).columns
    index = lowered.circuit.sources[source]
    backend = index.backend
    after = backend.to_host(index.weights_of([backend.asarray(column) for column in columns]))
    before = after - rows.weights
    if (after < 0).any():
        row = int(np.flatnonzero(after < 0)[0])
        raise CheckpointError(
            f"row {rows.rows()[row][0]} would have {int(after[row])} derivations: the changes do not fit the state.\n"
            "  The batch is not committed. Begin a new checkpoint from the inputs, and report this."
        )
    sign = (after > 0).astype(np.int64) - (before > 0).astype(np.int64)
    return ZSet.from_columns(rows.names, rows.columns, sign)


def sum_rows(table: Any, width: int) -> Any:
    """Sum the weights of equal rows over the first `width` columns of an Arrow table.

    Rows of weight 0 are left out.
    """
    import pyarrow.compute as pc

    weight = table.column_names[-1]
    names = table.column_names[:width]
    selected = table.select([*names, weight])
    if not selected.num_rows:
        return selected
    weights = selected[weight].to_numpy()
    if max(int(weights.max()), -int(weights.min())) * len(weights) >= 1 << 63:
        raise WeightOverflowError("of a cell", "of some derivations", None)
    total = selected.group_by(names, use_threads=False).aggregate([(weight, "sum")])
    total = total.select([*names, f"{weight}_sum"]).rename_columns([*names, weight])
    return total.filter(pc.not_equal(total[weight], 0))
