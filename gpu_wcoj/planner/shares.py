"""Selectivity of comparisons, measured on sample rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gpu_wcoj.join.plan import Condition
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.planner.ir import CatalogReader
from gpu_wcoj.trace.arrangement import COMPARE

RANGE = 0.5
"""Assumed share of rows that a comparison by order leaves without a sample."""

TRIED, TRIED_APART = 1 << 11, 1 << 8
"""Sample sizes in rows: of an atom with both operands, and of each of two atoms."""


def share_of(
    condition: Condition, atoms: Sequence[BodyAtom], values: Mapping[str, float], catalog: CatalogReader
) -> float:
    """Return the share of rows that a condition leaves.

    Two variables are compared in the rows of an atom that holds both, else they are assumed to be independent.

    Parameters
    ----------
    atoms
        Atoms of the path.
    values
        Per variable, its number of distinct values.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> rows = np.array([[1, 1, 1, 8], [2, 3, 4, 5]])
    >>> known = SimpleNamespace(sample=lambda atom, names: rows[[atom.variables.index(name) for name in names]])
    >>> r, s = BodyAtom("r", (0, 1), ("a", "b")), BodyAtom("r", (0, 1), ("c", "d"))
    >>> [share_of(Condition("a", "<", other), [r, s], {}, known) for other in (5, "b", "d")]
    [0.75, 0.75, 0.75]
    >>> share_of(Condition("a", "<", "d", textual=True), [r, s], {}, known)
    0.5
    """
    name, op, operand = condition.variable, condition.op, condition.operand
    names = (name, operand) if isinstance(operand, str) else (name,)
    if op in ("=", "!="):
        return 1 / max(values.get(variable, 1.0) for variable in names) if op == "=" else 1.0
    if condition.textual:
        return RANGE
    together = _sample_rows(names, atoms, catalog, TRIED)
    if together is not None:
        return _within(COMPARE[op](together[0], together[1] if isinstance(operand, str) else operand))
    apart = [
        sample_rows
        for variable in names
        if (sample_rows := _sample_rows((variable,), atoms, catalog, TRIED_APART)) is not None
    ]
    if len(apart) < 2:
        return RANGE
    left, right = np.sort(apart[0][0]), apart[1][0]
    less = np.searchsorted(left, right, side="left" if op in ("<", ">=") else "right") / len(left)
    return _within(less if op in ("<", "<=") else 1 - less)


def _sample_rows(
    names: Sequence[str], atoms: Sequence[BodyAtom], catalog: CatalogReader, max_rows: int
) -> Int64Array | None:
    """Return sample rows of an atom with these variables, one array row a variable, or None."""
    for atom in atoms:
        if set(names).issubset(atom.variables):
            rows = catalog.sample(atom, names)
            if rows is not None and rows.shape[1]:
                return rows[:, :: -(-rows.shape[1] // max_rows)]
    return None


def _within(satisfied: npt.NDArray[Any]) -> float:
    """Return the mean, with a positive lower bound."""
    return float(max(satisfied.mean(), 0.5 / len(satisfied)))
