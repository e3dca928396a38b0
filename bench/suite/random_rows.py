"""Rows for the queries that chance writes: many or few values, evenly spread or skewed, joins of a bounded size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bench.suite.random_queries import NAME, Atom, Query
from bench.suite.workload import Rows

Ints = npt.NDArray[np.int64]


def relations(query: Query, seed: int, n: int) -> dict[str, Rows]:
    """Up to `n` distinct rows per relation of a query, columns alike.

    A column's values are below a bound between ``n / 8`` and ``2 n``; in one case of two they are skewed, up to about a
    tenth of the rows on the first value.
    """
    chance = np.random.default_rng([seed, query.seed])
    n_values = max(2, int(n * 2.0 ** chance.uniform(-3, 1)))
    power = float(chance.choice((1.0, chance.uniform(1.0, 3.0))))
    found = {}
    for name, arity in sorted(query.inputs.items()):
        rows = (n_values * chance.random((n, arity)) ** power).astype(np.int64)
        found[name] = np.unique(rows, axis=0)
    return found


def relations_within(query: Query, seed: int, n: int, most: int) -> dict[str, Rows]:
    """`relations`, of the largest of n, n / 2, n / 4 and so on rows that join within `most` rows.

    Atom by atom, each behind one that it shares a variable with if there is one, and what comes out of none of these
    joins has more rows. Predicates and negation take no part.
    """
    while _exceeds(query, found := relations(query, seed, n), most):
        n //= 2
    return found


def _exceeds(query: Query, found: Mapping[str, Rows], most: int) -> bool:
    """Whether one of the joins has more rows than that."""
    waiting, known = list(query.atoms), dict[str, Ints]()
    n_rows = 1
    while waiting:
        atom = next((one for one in waiting if not known.keys().isdisjoint(one.terms)), waiting[0])
        waiting.remove(atom)
        columns, own_rows = _columns(atom, found[atom.relation])
        left, right = _codes(known, n_rows, columns, own_rows)
        order = np.argsort(right, kind="stable")
        begin, end = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
        n_found = int((end - begin).sum())
        if n_found > most:
            return True
        parents = np.repeat(np.arange(n_rows), end - begin)
        places = np.arange(n_found) - np.repeat(np.cumsum(end - begin) - (end - begin), end - begin)
        children = order[begin[parents] + places]
        known = {name: column[parents] for name, column in known.items()} | {
            name: column[children] for name, column in columns.items() if name not in known
        }
        n_rows = n_found
    return False


def _columns(atom: Atom, rows: Rows) -> tuple[dict[str, Ints], int]:
    """Per variable its column, of the rows that the atom selects, and their number."""
    chosen = np.ones(len(rows), bool)
    first: dict[str, int] = {}
    for column, term in enumerate(atom.terms):
        if NAME.fullmatch(term):
            chosen &= rows[:, column] == rows[:, first.setdefault(term, column)]
        elif term != "_":
            chosen &= rows[:, column] == int(term)
    return {name: rows[chosen, column] for name, column in first.items()}, int(chosen.sum())


def _codes(one: Mapping[str, Ints], n_one: int, other: Mapping[str, Ints], n_other: int) -> tuple[Ints, Ints]:
    """A number per row of each, equal where rows agree in all variables that both have."""
    codes = np.zeros(n_one + n_other, np.int64)
    for name in one.keys() & other.keys():
        _, own = np.unique(np.concatenate((one[name], other[name])), return_inverse=True)
        _, codes = np.unique(codes * len(codes) + own, return_inverse=True)
    return codes[:n_one], codes[n_one:]
