"""Checks of a step after its variables are bound: calculations, conditions, negated atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.join.conditions import condition_mask
from gpu_wcoj.join.plan import Absent, Calculation, Check, Condition
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.weights import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin


def apply_checks(
    checks: Sequence[Check], values: dict[str, Int64Array], n: int, join: GenericJoin, alive: BoolArray | None = None
) -> BoolArray:
    """Return a mask of the rows among `n` that pass the checks.

    Calculated variables are added to `values`. A row for which a calculation fails is dropped, and `join.failed`
    records whether it was alive. Whether this is an error is decided later: a later step may drop the row, or its head
    may have no state.
    """
    backend = join.backend
    xp = backend.xp
    mask: BoolArray = xp.ones(n, np.bool_) if alive is None else alive

    def column(term: str | int) -> Int64Array:
        if isinstance(term, str):
            return values[term]
        constant: Int64Array = xp.full(n, term, np.int64)
        return constant

    for check in checks:
        if isinstance(check, Condition):
            mask = mask & condition_mask([check], values, join.ranks, xp)
        elif isinstance(check, Calculation):
            arguments = [column(term) for term in check.arguments]
            from gpu_wcoj.functions import evaluate_calculation  # needed by few programs

            values[check.variable], failed = evaluate_calculation(
                check, arguments, mask, backend, join.dictionary, join.ranks
            )
            if failed is not None and (check.drops or not check.is_inverse):
                if not check.drops:
                    join.failed.append((failed & mask).any())
                mask = mask & ~failed
        else:
            mask = mask & ~presence_mask(check, [column(term) for term in check.terms], join)
    return mask


def presence_mask(check: Absent, columns: Sequence[Int64Array], join: GenericJoin) -> BoolArray:
    """Return a mask of the rows that the negated atom's relation contains."""
    batches = join.negated[check.use.atom]
    if not batches:
        nothing: BoolArray = join.backend.xp.zeros(len(columns[0]), np.bool_)
        return nothing
    mask: BoolArray = weights_of_rows(batches, range(len(columns)), stacked(join.backend, columns), join.backend) > 0
    return mask


def filter_piece(checks: Sequence[Check], piece: Prefixes, join: GenericJoin) -> tuple[Prefixes, Int64Array | None]:
    """Apply checks to a piece; return what remains and its rows in the piece, None for all."""
    values = dict(piece.values)
    alive = apply_checks(checks, values, len(piece), join)
    needed = {name: column for name, column in values.items() if name in join.needed}
    piece = Prefixes(piece.order, needed, piece.weights, piece.layout, piece.positions)
    (rows,) = positions(join.backend, alive)
    if len(rows) == len(piece):
        return piece, None
    return piece.gather(rows, join.backend.xp), rows
