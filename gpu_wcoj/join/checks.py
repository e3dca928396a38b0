"""What follows once variables are bound: values that are calculated, conditions on them, and negated atoms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpu_wcoj.join.conditions import passes
from gpu_wcoj.join.path import Absent, Calculation, Check, Condition
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.weights import weights_of_rows
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.zset.arrays import BoolArray, positions, stacked

if TYPE_CHECKING:
    from gpu_wcoj.join.generic import GenericJoin


def checked(
    checks: Sequence[Check], values: dict[str, Int64Array], n: int, join: GenericJoin, alive: BoolArray | None = None
) -> BoolArray:
    """Which of `n` rows are left; `values` gets what is calculated.

    A row for which a calculation has no value is dropped, and `join.failed` is told if it was alive. Whether that is an
    error is not said yet, since the row may be dropped further on, or be in no state at all.
    """
    backend = join.backend
    xp = backend.xp
    held: BoolArray = xp.ones(n, np.bool_) if alive is None else alive

    def column(term: str | int) -> Int64Array:
        if isinstance(term, str):
            return values[term]
        constant: Int64Array = xp.full(n, term, np.int64)
        return constant

    for check in checks:
        if isinstance(check, Condition):
            held = held & passes([check], values, join.ranks, xp)
        elif isinstance(check, Calculation):
            arguments = [column(term) for term in check.arguments]
            from gpu_wcoj.join.calculate import calculated  # which few programs need

            values[check.variable], failed = calculated(check, arguments, held, backend, join.dictionary, join.ranks)
            if failed is not None and (check.drops or not check.is_inverse):
                if not check.drops:
                    join.failed.append((failed & held).any())
                held = held & ~failed
        else:
            held = held & ~present(check, [column(term) for term in check.terms], join)
    return held


def present(check: Absent, columns: Sequence[Int64Array], join: GenericJoin) -> BoolArray:
    """Which rows the negated atom's relation holds."""
    batches = join.negated[check.use.atom]
    if not batches:
        nothing: BoolArray = join.backend.xp.zeros(len(columns[0]), np.bool_)
        return nothing
    held: BoolArray = weights_of_rows(batches, range(len(columns)), stacked(join.backend, columns), join.backend) > 0
    return held


def following(checks: Sequence[Check], piece: Prefixes, join: GenericJoin) -> tuple[Prefixes, Int64Array | None]:
    """A piece after the checks, and which of its rows are left; None for all."""
    values = dict(piece.values)
    alive = checked(checks, values, len(piece), join)
    kept = {name: column for name, column in values.items() if name in join.needed}
    piece = Prefixes(piece.order, kept, piece.weights, piece.layout, piece.positions)
    (rows,) = positions(join.backend, alive)
    if len(rows) == len(piece):
        return piece, None
    return piece.take(rows, join.backend.xp), rows
