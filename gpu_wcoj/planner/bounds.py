"""Upper bounds on the size of a join, from the sizes and largest degrees of its relations.

The bound of Atserias, Grohe and Marx (doi:10.1137/110859440): give every atom a weight such that for every variable,
the weights of the atoms that hold it add up to 1 or more. Then the join has at most as many rows as the product of the
atoms' sizes, each to the power of its weight. A linear program finds the smallest such product, and for some relations
of these sizes the join has that many rows.

A *degree*, the maximum number of rows that an atom has for one value of some of its variables, is used in the same way:
such a constraint covers only the variables that it adds. That is valid in an order in which the given variables come
first: by the chain rule, the entropy of a row is the sum of the entropies of its variables, each given those before it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from gpu_wcoj.errors import BackendUnavailableError, UsageError

LARGEST_DENOMINATOR = 720
"""Largest denominator of a rounded cover weight; vertices of the polytope have small fractions."""


@dataclass(frozen=True)
class Size:
    """Constraint: at most `rows` values of `variables` for each value of `given`.

    Attributes
    ----------
    variables
        Variables of an atom; with or without those of `given`.
    given
        Empty for the size of the relation, some of the atom's variables for a degree.
    """

    variables: tuple[str, ...]
    rows: float
    given: tuple[str, ...] = ()

    def __str__(self) -> str:
        new = "".join(f"{name} " for name in self.variables if name not in self.given)
        given_text = f"given {' '.join(self.given)} " if self.given else ""
        return f"{new}{given_text}: {self.rows:g}"


@dataclass(frozen=True)
class Bound:
    """Bound with its fractional cover.

    Attributes
    ----------
    rows
        Maximum number of rows; infinite if some variable is in no atom.
    cover
        The weight of each size, in the order of the sizes.
    """

    rows: float
    cover: tuple[Fraction, ...]


def bound(sizes: Sequence[Size], order: Sequence[str] | None = None) -> Bound:
    """Return the smallest bound on the number of distinct values of some variables in the join.

    Parameters
    ----------
    sizes
        At least one per atom. A degree is ignored unless all of its `given` variables come first in `order`.
    order
        The variables, in the order in which they are bound; None for all, by first occurrence in `sizes`.

    Raises
    ------
    UsageError
        If a size is negative or NaN.
    BackendUnavailableError
        If SciPy is not installed.

    Examples
    --------
    Triangles among N edges are N^1.5 at most:

    >>> found = bound([Size(("a", "b"), 10_000), Size(("b", "c"), 10_000), Size(("a", "c"), 10_000)])
    >>> round(found.rows), [str(weight) for weight in found.cover]
    (1000000, ['1/2', '1/2', '1/2'])

    If no vertex has more than 5 edges, one row of change closes 5 triangles at most:

    >>> change = [Size(("a", "b"), 1), Size(("b", "c"), 5, given=("b",)), Size(("a", "c"), 5, given=("a",))]
    >>> round(bound(change).rows)
    5
    """
    for size in sizes:
        if not size.rows >= 0:
            raise UsageError.with_parts(
                f"the size of {size} is invalid: got {size.rows!r} rows",
                subject=str(size),
                got=size.rows,
                remedy="Pass a number from 0 on.",
            )
    names = list(dict.fromkeys(name for size in sizes for name in size.variables)) if order is None else list(order)
    place = {name: i for i, name in enumerate(names)}
    rows, covered = [], []
    for size in sizes:
        new = [place[name] for name in size.variables if name in place and name not in size.given]
        usable = set(size.given) <= place.keys() and all(place[g] < n for g in size.given for n in new)
        rows.append(float(size.rows))
        covered.append(tuple(sorted(new)) if usable else ())
    if not all(rows):
        return Bound(0.0, tuple(Fraction(not size) for size in rows))
    return _smallest_cover(len(names), tuple(rows), tuple(covered))


@functools.lru_cache(maxsize=4096)
def _smallest_cover(n_variables: int, rows: tuple[float, ...], covered: tuple[tuple[int, ...], ...]) -> Bound:
    """Return the bound of the smallest fractional cover, by linear programming."""
    if {place for covered_places in covered for place in covered_places} != set(range(n_variables)):
        return Bound(math.inf, tuple(Fraction(0) for _ in rows))
    if not n_variables:
        return Bound(1.0, tuple(Fraction(0) for _ in rows))
    costs = [math.log2(max(size, 1.0)) for size in rows]
    covers = [
        [-1.0 if variable in covered_places else 0.0 for covered_places in covered] for variable in range(n_variables)
    ]
    solved = _linprog()(costs, A_ub=covers, b_ub=[-1.0] * n_variables, bounds=(0, None), method="highs")
    if solved.status:
        raise RuntimeError(f"the linear program of {covered} over {rows} has no solution: {solved.message}")
    weights = [float(weight) for weight in solved.x]
    cover = tuple(Fraction(weight).limit_denominator(LARGEST_DENOMINATOR) for weight in weights)
    covers_all = all(
        sum(weight for weight, covered_places in zip(cover, covered, strict=True) if variable in covered_places) >= 1
        for variable in range(n_variables)
    )
    if not covers_all:
        cover = tuple(map(Fraction, weights))
    total = math.prod(max(size, 1.0) ** float(weight) for size, weight in zip(rows, cover, strict=True))
    return Bound(total, cover)


def _linprog() -> Any:
    try:
        from scipy.optimize import linprog
    except ImportError as error:
        raise BackendUnavailableError.with_parts(
            f"bounds need SciPy, which cannot be imported: {error}",
            subject="scipy",
            remedy="Install it: pip install 'gpu_wcoj[bounds]'.",
        ) from error
    return linprog
