"""Extenders: the worst-case optimal join as three verbs. Read this file first.

A join binds one variable after the other. A *prefix* is a binding of the variables so far; `Prefixes` is a table of
them. Everything in a rule that restricts the next variable is an *extender* of the prefixes: an atom, a negated atom,
the comparisons, or a calculation such as ``c = a + b``. An extender has three verbs:

===========  =======================================================================================================
`count`      Bound the number of values that it would propose for each prefix. An atom: the width of its range,
             added up over its batches, O(1) a batch and prefix. Infinite for an extender that can only test.
`propose`    Extend prefixes by these values, O(1) a value and batch of an atom.
`intersect`  Keep the prefixes whose value it allows, O(log) a batch and prefix. An atom multiplies the weight when its
             last variable is bound, by the sum of the row's weights over its batches.
===========  =======================================================================================================

`bind_variable` is the whole method: for each prefix, the extender with the smallest count proposes and the others
intersect. Its work is at most the sum over prefixes of the smallest count, times a logarithm and the number of
extenders. With every atom among the extenders of its variables, that sum is within the worst-case optimal bound
(arXiv:1310.3314). The verbs are those of arXiv:1802.03760, which also sums over delta queries; here
`IncrementalGenericJoin.join` in `gpu_wcoj.join.delta` does.

**What runs instead.** Production calls `GenericJoin.extend`: it takes the bounds of the comparisons, lets one kernel,
`Kernels.fill_common`, do the three verbs for all atoms of a step, and filters the result by the checks. Fused, a
candidate that some atom lacks is never written to memory, the kernel chooses a way to intersect for each prefix, and
prefixes with the same range share it; if only the number is needed, `Kernels.count_common` writes nothing. The
extenders here call the same code for one atom, comparison or check at a time. `extenders_of` lists those of a step of
a running join, and a test compares `bind_step` with `GenericJoin.extend` for every step of every delta path.

Two conditions differ from the textbook. A calculation binds its variable alone, before the checks that follow it, as a
failure is an error only for a binding that comes so far. Conditions on a path's seed belong to no step: they filter the
seeds, see `gpu_wcoj.join.seeds`.

**The state below.** An atom reads an arrangement: batches of `IndexedZSet`, tries that `IndexedZSet.get_by_prefix`,
`as_zset_view` and `extend_leaves` read and grow without a join. `IncrementalIndex` is the protocol of such state:
an atom's is `AtomIndex`, a relation's is `RelationIndex` in `gpu_wcoj.join.relation`.

Examples
--------
All triangles of four edges, from one empty prefix. For a = 1 and b = 2, the atom e(b, c) has one value and e(a, c) has
two, so that the former proposes:

>>> from gpu_wcoj.backend import cpu_backend
>>> from gpu_wcoj.trace.arrangement import ArrangementKey
>>> edges = IndexedZSet.from_columns([np.array([1, 1, 2, 3]), np.array([2, 3, 3, 4])])
>>> uses = [AtomUse(i, ArrangementKey("e", (0, 1)), tuple(names)) for i, names in enumerate(["ab", "bc", "ac"])]
>>> batches = {use.atom: (edges,) for use in uses}
>>> join = GenericJoin({use.atom: use for use in uses}, batches, True, frozenset("abc"), cpu_backend())
>>> ab, bc, ac = (AtomExtender(join, use) for use in uses)
>>> prefixes = Prefixes((), {}, np.array([1]), (), np.empty((0, 1), np.int64))
>>> for variable, extenders in {"a": [ab, ac], "b": [ab, bc]}.items():
...     _, prefixes = bind_variable(variable, extenders, prefixes)
>>> prefixes.values
{'a': array([1, 1, 2]), 'b': array([2, 3, 3])}
>>> bc.count("c", prefixes), ac.count("c", prefixes)
(array([1, 1, 1]), array([2, 2, 1]))
>>> parent, proposed = bc.propose("c", prefixes)
>>> parent, proposed.values["c"]
(array([0, 1, 2]), array([3, 4, 4]))
>>> remaining, triangles = ac.intersect("c", proposed)
>>> remaining, triangles.values
(array([0]), {'a': array([1]), 'b': array([2]), 'c': array([3])})
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

import numpy as np

from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.generic import GenericJoin, apply_checks
from gpu_wcoj.join.plan import Absent, AtomUse, Condition, Step
from gpu_wcoj.join.prefixes import Layout, Prefixes, concatenate, condition_mask, find_bounds
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement, PhaseRows
from gpu_wcoj.zset.arrays import BoolArray, numbers, positions
from gpu_wcoj.zset.index import IndexedZSet

INFINITE = (1 << 63) - 1
"""The count of an extender that cannot propose, in values."""

Extended = tuple[Int64Array, Prefixes]
"""Prefixes, and per prefix the position of the one that it extends or is, ascending."""

L_contra = TypeVar("L_contra", contravariant=True)


@dataclass(frozen=True, eq=False)
class Extender(ABC):
    """One condition of a rule's body, which restricts the values of a variable.

    Attributes
    ----------
    join
        The join whose state, backend and texts the condition reads.
    """

    join: GenericJoin

    @abstractmethod
    def participates_in_level(self, variable: str) -> bool:
        """Return whether the condition restricts the variable."""

    def count(self, variable: str, prefixes: Prefixes) -> Int64Array:  # noqa: ARG002  # the same for all
        """Return an upper bound of the values that each prefix gets, int64 of shape (n,)."""
        counts: Int64Array = self._xp.full(len(prefixes), INFINITE, np.int64)
        return counts

    def propose(self, variable: str, prefixes: Prefixes) -> Extended:
        """Extend the prefixes by all values that the condition allows.

        Raises
        ------
        NotImplementedError
            If the count is infinite.
        """
        raise NotImplementedError(f"{type(self).__name__} proposes no values of '{variable}': its count is infinite.")

    @abstractmethod
    def intersect(self, variable: str, prefixes: Prefixes) -> Extended:
        """Keep the prefixes whose value of the variable the condition allows."""

    @property
    def _xp(self) -> Any:
        return self.join.backend.xp

    def _keep(self, prefixes: Prefixes, mask: BoolArray) -> Extended:
        (rows,) = positions(self.join.backend, mask)
        return rows, prefixes.gather(rows, self._xp)


@dataclass(frozen=True, eq=False)
class AtomExtender(Extender):
    """An atom; prefixes carry their position in each batch, so nothing bound is searched again.

    Its variables are bound in attribute order. A value that several batches hold is proposed once; one whose rows
    cancel is not proposed at the atom's last variable.
    """

    use: AtomUse

    def participates_in_level(self, variable: str) -> bool:
        """Return whether the atom holds the variable."""
        return variable in self.use.variables

    def count(self, variable: str, prefixes: Prefixes) -> Int64Array:  # noqa: ARG002  # positions tell the level
        """Return the widths of the ranges below each prefix, added up over the batches."""
        return self.join.widths(prefixes, self.use.atom)

    def propose(self, variable: str, prefixes: Prefixes) -> Extended:
        """Extend each prefix by the values below it."""
        return self._extend(prefixes, Step(variable, (self.use.atom,)))

    def intersect(self, variable: str, prefixes: Prefixes) -> Extended:
        """Keep the prefixes that the atom holds; descend by the variable."""
        return self._extend(prefixes, Step(variable, (self.use.atom,), is_lookup=True))

    @cached_property
    def _single_atom_join(self) -> GenericJoin:
        """The join, with caches for steps of this atom alone."""
        join = self.join
        needed = frozenset(self.use.variables)
        return GenericJoin(join.uses, join.batches, join.weighted, needed, join.backend, join.chunk_rows)

    def _extend(self, prefixes: Prefixes, step: Step) -> Extended:
        join, xp = self._single_atom_join, self._xp
        extended = list(join.extend(prefixes, step))
        if not extended:
            shape = join.extension(prefixes, step)
            nothing: Int64Array = xp.zeros(0, np.int64)
            n_rows = shape.n_new_rows + len(shape.kept_rows)
            order = prefixes.order if step.is_lookup else (*prefixes.order, step.variable)
            values: dict[str, Int64Array] = dict.fromkeys((*prefixes.values, step.variable), nothing)
            return nothing, Prefixes(order, values, None, shape.layout, xp.zeros((n_rows, 0), np.int64))
        return xp.concatenate([parent for parent, _ in extended]), concatenate([piece for _, piece in extended], xp)


@dataclass(frozen=True, eq=False)
class RangeExtender(Extender):
    """The comparisons of one variable with bound variables and constants, as one range.

    It proposes where both ends are known, as for ``c = d`` or ``0 <= c, c < d``. Comparisons of text only intersect.

    Examples
    --------
    >>> from gpu_wcoj.backend import cpu_backend
    >>> conditions = Condition("y", ">=", 0), Condition("y", "<=", "x"), Condition("y", "!=", 1)
    >>> extender = RangeExtender(GenericJoin({}, {}, False, frozenset("xy"), cpu_backend()), conditions)
    >>> prefixes = Prefixes(("x",), {"x": np.array([2, -1])}, None, (), np.empty((0, 2), np.int64))
    >>> extender.count("y", prefixes)
    array([3, 0])
    >>> parent, proposed = extender.propose("y", prefixes)
    >>> parent, proposed.values["y"]
    (array([0, 0]), array([0, 2]))
    """

    conditions: tuple[Condition, ...]

    def participates_in_level(self, variable: str) -> bool:
        """Return whether the variable is compared."""
        return any(variable == condition.variable for condition in self.conditions)

    def count(self, variable: str, prefixes: Prefixes) -> Int64Array:
        """Return the width of the range of each prefix; excluded values count too."""
        lower, upper = self._bounds(variable, prefixes)
        if len(lower) < len(prefixes):
            return super().count(variable, prefixes)
        is_infinite = upper.astype(np.float64) - lower.astype(np.float64) >= 2.0**62
        counts: Int64Array = self._xp.where(is_infinite, INFINITE, self._xp.where(lower > upper, 0, upper - lower + 1))
        return counts

    def propose(self, variable: str, prefixes: Prefixes) -> Extended:
        """Extend each prefix by the values of its range."""
        xp, counts = self._xp, self.count(variable, prefixes)
        (n,) = numbers(self.join.backend, counts.sum()) if len(prefixes) else (0,)
        if n == 0:
            parent = value = xp.zeros(0, np.int64)
        else:
            lower, _ = self._bounds(variable, prefixes)
            parent = xp.searchsorted(xp.cumsum(counts), xp.arange(n), side="right")
            value = lower[parent] + xp.arange(n) - (xp.cumsum(counts) - counts)[parent]
        extended = prefixes.gather(parent, xp)
        order, values = (*prefixes.order, variable), {**extended.values, variable: value}
        rows, extended = self.intersect(variable, replace(extended, order=order, values=values))
        return parent[rows], extended

    def intersect(self, variable: str, prefixes: Prefixes) -> Extended:  # noqa: ARG002  # the conditions name it
        """Keep the prefixes for which all comparisons hold."""
        return self._keep(prefixes, condition_mask(self.conditions, prefixes.values, self.join.ranks, self._xp))

    def _bounds(self, variable: str, prefixes: Prefixes) -> tuple[Int64Array, Int64Array]:
        step = Step(variable, (), self.conditions)
        return find_bounds(step, prefixes.values, len(prefixes), self.join.backend)[:2]


@dataclass(frozen=True, eq=False)
class CheckExtender(Extender):
    """A negated atom, or a comparison with a calculated variable: it only tests bound variables.

    A negated atom allows what no row of positive weight matches.
    """

    check: Condition | Absent

    def participates_in_level(self, variable: str) -> bool:
        """Return whether the check reads the variable."""
        check = self.check
        return variable in (check.terms if isinstance(check, Absent) else (check.variable, check.operand))

    def intersect(self, variable: str, prefixes: Prefixes) -> Extended:  # noqa: ARG002  # the check names it
        """Keep the prefixes that pass the check."""
        mask = apply_checks([self.check], dict(prefixes.values), len(prefixes), self.join)
        return self._keep(prefixes, mask)


@dataclass(frozen=True, eq=False)
class CalculationExtender(Extender):
    """A calculation, such as ``c = a + b``: one value for each prefix, or none if it fails.

    A failure is recorded in `GenericJoin.failed`.
    """

    calculation: Calculation

    def participates_in_level(self, variable: str) -> bool:
        """Return whether the calculation binds the variable."""
        return variable == self.calculation.variable

    def count(self, variable: str, prefixes: Prefixes) -> Int64Array:  # noqa: ARG002  # the same for all
        """Return 1 for each prefix."""
        counts: Int64Array = self._xp.ones(len(prefixes), np.int64)
        return counts

    def propose(self, variable: str, prefixes: Prefixes) -> Extended:  # noqa: ARG002  # the calculation names it
        """Extend each prefix by the result."""
        values = dict(prefixes.values)
        mask = apply_checks([self.calculation], values, len(prefixes), self.join)
        return self._keep(replace(prefixes, values=values), mask)

    def intersect(self, variable: str, prefixes: Prefixes) -> Extended:
        """Keep the prefixes whose value is the result."""
        parent, calculated = self.propose(variable, prefixes)
        rows, kept = self._keep(calculated, calculated.values[variable] == prefixes.values[variable][parent])
        return parent[rows], kept


def bind_variable(variable: str, extenders: Sequence[Extender], prefixes: Prefixes) -> Extended:
    """Bind one variable: the extender with the smallest count proposes, the others intersect.

    A variable that is bound already is looked up: all extenders intersect.
    """
    join = extenders[0].join
    backend, xp = join.backend, join.backend.xp
    if variable in prefixes.values:
        return _intersect_all(variable, extenders, xp.arange(len(prefixes)), prefixes)
    smallest = xp.stack([extender.count(variable, prefixes) for extender in extenders]).argmin(axis=0)
    parents: list[Int64Array] = []
    pieces: list[Prefixes] = []
    for index, proposer in enumerate(extenders):
        (rows,) = positions(backend, smallest == index)
        if len(rows) or (index == 0 and not len(prefixes)):
            parent, proposed = proposer.propose(variable, prefixes.gather(rows, xp))
            others = [extender for extender in extenders if extender is not proposer]
            parent, piece = _intersect_all(variable, others, rows[parent], proposed)
            parents.append(parent)
            pieces.append(_in_layout(piece, pieces[0].layout if pieces else piece.layout, join))
    parent, extended = xp.concatenate(parents), concatenate(pieces, xp)
    rows = backend.kernels.lexsort([parent])
    return parent[rows], extended.gather(rows, xp)


def bind_step(join: GenericJoin, prefixes: Prefixes, step: Step) -> Extended:
    """Run a step by the three verbs; the result is all that `GenericJoin.extend` yields."""
    parent, extended = join.backend.xp.arange(len(prefixes)), prefixes
    for variable, extenders in extenders_of(join, step):
        rows, extended = bind_variable(variable, extenders, extended)
        parent = parent[rows]
    return parent, extended


def extenders_of(join: GenericJoin, step: Step) -> list[tuple[str, list[Extender]]]:
    """Return the extenders of a step of a running join, by the variable that they restrict.

    The first variable is the step's; each of the others is calculated.
    """
    extenders: list[Extender] = [AtomExtender(join, join.uses[atom]) for atom in step.atoms]
    if step.conditions:
        extenders.append(RangeExtender(join, step.conditions))
    levels = [(step.variable, extenders)]
    for check in step.checks:
        if isinstance(check, Calculation):
            levels.append((check.variable, [CalculationExtender(join, check)]))
        else:
            levels[-1][1].append(CheckExtender(join, check))
    return levels


def _intersect_all(variable: str, extenders: Sequence[Extender], parent: Int64Array, prefixes: Prefixes) -> Extended:
    for extender in extenders:
        rows, prefixes = extender.intersect(variable, prefixes)
        parent = parent[rows]
    return parent, prefixes


def _in_layout(prefixes: Prefixes, layout: Layout, join: GenericJoin) -> Prefixes:
    """Return the prefixes with the positions of atoms in this order."""
    if prefixes.layout == layout:
        return prefixes
    rows_of = join.position_rows(prefixes.layout)
    rows = join.backend.asarray(np.array([row for atom, _ in layout for row in rows_of[atom]], np.int64))
    return replace(prefixes, layout=layout, positions=join.backend.xp.ascontiguousarray(prefixes.positions[rows]))


class IncrementalIndex(Protocol[L_contra]):
    """State that receives a change, shows it beside the old state, and commits it.

    Its levels are named by its subject: a relation's by column, an atom's by variable.
    """

    def receive_delta(self, phases: Sequence[PhaseRows]) -> None:
        """Record this tick's change; the state does not change yet."""
        ...

    def commit(self) -> None:
        """End the tick: the change becomes state."""
        ...

    def delta(self, phase: int) -> IndexedZSet | None:
        """Return this tick's change of one phase, indexed; None if it is empty."""
        ...

    def accumulated(self) -> tuple[IndexedZSet, ...]:
        """Return the committed state, as batches."""
        ...

    def participates_in_level(self, level: L_contra) -> bool:
        """Return whether the index can extend prefixes by that level."""
        ...


@dataclass(frozen=True, eq=False)
class AtomIndex:
    """An atom's index: an arrangement whose levels are named by the atom's variables.

    Atoms share arrangements: a change received or committed by one atom's index is seen by all atoms of that
    arrangement. A tick passes its change to the relation's index, which passes it to each arrangement once.
    """

    use: AtomUse
    arrangement: Arrangement

    def receive_delta(self, phases: Sequence[PhaseRows]) -> None:
        """Record this tick's change of the atom's relation."""
        self.arrangement.receive_delta(phases)

    def commit(self) -> None:
        """End the tick: the change becomes state."""
        self.arrangement.commit()

    def delta(self, phase: int) -> IndexedZSet | None:
        """Return this tick's change of one phase."""
        return self.arrangement.delta(phase)

    def accumulated(self) -> tuple[IndexedZSet, ...]:
        """Return the committed state, as batches."""
        return self.arrangement.accumulated()

    def participates_in_level(self, variable: str) -> bool:
        """Return whether the atom holds the variable."""
        return variable in self.use.variables

    def extender(self, phase: int, seed: int) -> AtomExtender:
        """Return the atom's extender on the delta path of another atom, the seed.

        It sees the state after this phase if the atom precedes the seed, else the state before it.
        """
        use, backend = self.use, self.arrangement.backend
        seen = self.arrangement.after(phase) if use.atom < seed else self.arrangement.before(phase)
        batches = seen or (IndexedZSet.empty(len(use.variables), backend),)
        return AtomExtender(
            GenericJoin({use.atom: use}, {use.atom: batches}, True, frozenset(use.variables), backend), use
        )
