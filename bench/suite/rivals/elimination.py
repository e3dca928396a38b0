"""Counting patterns of relations with two columns by products of sparse matrices, one variable after the other.

A relation is a matrix, a pattern the sum over all values of its variables of the product of its matrices' entries. A
variable that meets at most two others is summed away: with none, it gives a number; with one, a vector; with two, the
product of two matrices, under the mask of a third one where an atom joins these two others already. That is all there
is to paths, stars, cycles and what hangs together of these; a clique of four has a variable that meets three.
"""

# pyright: reportUnusedExpression=false
# (a << b writes into a)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import graphblas as gb
from graphblas import Matrix

from bench.suite.contender import NotForThisError
from bench.suite.workload import Pattern

INT64 = gb.dtypes.INT64


@dataclass(frozen=True, eq=False)
class Factor:
    """A vector of one variable's values or a matrix of two; `ones` says that all entries are 1."""

    variables: tuple[str, ...]
    entries: Any
    ones: bool = False

    def towards(self, first: str) -> Any:
        """The matrix with rows by this variable."""
        return self.entries if self.variables[0] == first else self.entries.T


def order(pattern: Pattern, seed: int | None = None) -> tuple[str, ...]:
    """The order in which variables can be summed away.

    Parameters
    ----------
    seed
        An atom with few rows. Vectors come first, and of products those with few entries: of a matrix that has few,
        without a mask, and under the mask of one that has few.

    Raises
    ------
    NotForThisError
        If there is none, if a comparison is between variables, or if a relation has not two columns.

    Examples
    --------
    >>> triangle = Pattern((("e", ("a", "b")), ("e", ("b", "c")), ("e", ("a", "c"))))
    >>> order(triangle, 0), order(triangle, 1)
    (('c', 'a', 'b'), ('a', 'b', 'c'))
    >>> order(Pattern((("e", ("a", "b")), ("e", ("b", "c")), ("e", ("c", "d")))), 2)
    ('d', 'c', 'b', 'a')
    """
    for relation, variables in pattern.atoms:
        if len(variables) != 2:
            raise NotForThisError(f"relation '{relation}' has not two columns, and is no matrix")
    if pattern.comparisons:
        raise NotForThisError("comparisons between variables are no matrices")
    scopes: dict[frozenset[str], bool] = {}
    for at, (_, variables) in enumerate(pattern.atoms):
        scopes[frozenset(variables)] = scopes.get(frozenset(variables), False) or at == seed
    found: list[str] = []
    while len(found) < len(pattern.variables):
        meets, is_few = {}, {}
        for name in pattern.variables:
            if name not in found:
                own = [scope for scope in scopes if name in scope]
                meets[name] = frozenset().union(*own) - {name}
                mask = scopes.get(meets[name]) if len(meets[name]) == 2 else None
                is_few[name] = any(scopes[scope] for scope in own) if mask is None else mask
        able = [name for name in meets if len(meets[name]) <= 2]
        if not able:
            name = min(meets, key=lambda one: len(meets[one]))
            raise NotForThisError(f"variable '{name}' meets {len(meets[name])} others, and a matrix has two sides")
        name = min(able, key=lambda one: (len(meets[one]) == 2, not is_few[one], len(meets[one])))
        few = any(is_small for scope, is_small in scopes.items() if name in scope)
        scopes = {scope: is_small for scope, is_small in scopes.items() if name not in scope}
        scopes[meets[name]] = scopes.get(meets[name], False) or few
        found.append(name)
    return tuple(found)


def count(factors: Sequence[Factor], variables: Sequence[str]) -> int:
    """The sum over all values of the variables, which are summed away in this order, of the factors' product."""
    number, left = 1, list(factors)
    for name in variables:
        own = [factor for factor in left if name in factor.variables]
        left = [factor for factor in left if name not in factor.variables]
        vector = _vector(name, own)
        matrices = _merged([factor for factor in own if len(factor.variables) == 2])
        if not matrices:
            assert vector is not None
            number *= int(vector.entries.reduce().new().value or 0)
        elif len(matrices) == 1:
            left.append(_reduced(name, matrices[0], vector))
        else:
            one, two = matrices
            if vector is not None:
                one = _scaled(name, one, vector)
            mask = next((factor for factor in left if set(factor.variables) == _ends(name, one, two)), None)
            left = [factor for factor in left if factor is not mask]
            left.append(_product(name, one, two, mask))
        if not number:
            return 0
    return number


def _ends(name: str, *factors: Factor) -> set[str]:
    return {one for factor in factors for one in factor.variables if one != name}


def _vector(name: str, factors: Sequence[Factor]) -> Factor | None:
    """The product of all vectors of a variable."""
    vectors = [factor.entries for factor in factors if factor.variables == (name,)]
    if not vectors:
        return None
    product = vectors[0]
    for other in vectors[1:]:
        product = gb.binary.times(product & other).new()
    return Factor((name,), product)


def _merged(factors: Sequence[Factor]) -> list[Factor]:
    """Matrices of the same two variables as one."""
    found: dict[frozenset[str], Factor] = {}
    for factor in factors:
        there = found.get(frozenset(factor.variables))
        if there is not None:
            first = there.variables[0]
            entries = gb.binary.times(there.entries & factor.towards(first)).new()
            factor = Factor(there.variables, entries, there.ones and factor.ones)
        found[frozenset(factor.variables)] = factor
    return list(found.values())


def _reduced(name: str, factor: Factor, vector: Factor | None) -> Factor:
    (other,) = _ends(name, factor)
    matrix = factor.towards(other)
    if vector is None:
        return Factor((other,), matrix.reduce_rowwise(gb.monoid.plus[INT64]).new())
    return Factor((other,), gb.semiring.plus_times(matrix @ vector.entries).new())


def _scaled(name: str, factor: Factor, vector: Factor) -> Factor:
    (other,) = _ends(name, factor)
    return Factor((other, name), gb.semiring.plus_times(factor.towards(other) @ vector.entries.diag()).new())


def _product(name: str, one: Factor, two: Factor, mask: Factor | None) -> Factor:
    (first,), (second,) = _ends(name, one), _ends(name, two)
    if mask is not None and mask.variables != (first, second):
        one, two, first, second = two, one, second, first
    semiring = gb.semiring.plus_pair[INT64] if one.ones and two.ones else gb.semiring.plus_times[INT64]
    product = semiring(one.towards(first) @ two.towards(name))
    if mask is None:
        return Factor((first, second), product.new())
    entries = Matrix(INT64, mask.entries.nrows, mask.entries.ncols)
    entries(mask.entries.S) << product
    if not mask.ones:
        entries = gb.binary.times(entries & mask.entries).new()
    return Factor((first, second), entries)
