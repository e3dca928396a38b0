"""GraphBLAS: counts by masked products of sparse matrices, of everything after each tick or of the change alone.

Comparisons are no matrices, so a few patterns of unordered pairs have a formula of their own. Of the change alone, the
delta rule's joins are counted with a matrix of 1 and -1 in the place of the changed relation.
"""

# pyright: reportUnusedExpression=false
# (a << b writes into a)

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import graphblas as gb
import numpy as np
from graphblas import Matrix

from bench.suite.contender import About, NotForThisError, Outcome, Setting
from bench.suite.rivals import elimination
from bench.suite.rivals.counter import Counter, Recounter
from bench.suite.rivals.elimination import INT64, Factor
from bench.suite.workload import Change, Pattern, State, Tick


def recompute(setting: Setting) -> Recompute:
    """Count anew after each tick."""
    return Recompute(setting, _pattern(setting))


def deltas(setting: Setting) -> Deltas:
    """Count the change alone."""
    return Deltas(setting, _pattern(setting))


def _pattern(setting: Setting) -> Pattern:
    if setting.how == "rows":
        raise NotForThisError("products of matrices give numbers, not rows")
    if setting.workload.pattern is None:
        raise NotForThisError("the workload is more than one rule, and no product of matrices is written for it")
    return setting.workload.pattern


class Matrices:
    """Relations as matrices of ones."""

    def __init__(self, setting: Setting, pattern: Pattern) -> None:
        gb.ss.config["nthreads"] = setting.threads
        self.pattern = pattern
        self.size = 1
        self.of: dict[str, Any] = {
            relation: Matrix(INT64, 1, 1) for relation in dict.fromkeys(name for name, _ in pattern.atoms)
        }

    def load(self, state: State) -> None:
        """Make them."""
        self._fit(max((int(rows.max(initial=0)) for rows in state.values()), default=0))
        for name, rows in state.items():
            self.of[name] = self.matrix(rows, 1)

    def arrive(self, tick: Tick) -> None:
        """Let there be room for new values."""
        self._fit(max((int(change.inserted.max(initial=0)) for change in tick.values()), default=0))

    def take(self, tick: Tick) -> None:
        """Let rows come and go."""
        for name, change in tick.items():
            matrix = self.of[name]
            if len(change.deleted):
                matrix(self.matrix(change.deleted, 1).S) << Matrix(INT64, self.size, self.size)
            if len(change.inserted):
                matrix(self.matrix(change.inserted, 1).S) << 1

    def matrix(self, rows: Any, value: Any) -> Any:
        """Rows as a matrix of its own."""
        return Matrix.from_coo(rows[:, 0], rows[:, 1], value, INT64, nrows=self.size, ncols=self.size)

    def factors(self) -> list[Factor]:
        """The pattern's."""
        return [Factor(variables, self.of[name], True) for name, variables in self.pattern.atoms]

    def nbytes(self) -> int:
        """What they take."""
        return sum(int(matrix.ss.nbytes) for matrix in self.of.values())

    def _fit(self, largest: int) -> None:
        if largest >= self.size:
            self.size = 1 << largest.bit_length()
            for matrix in self.of.values():
                matrix.resize(self.size, self.size)


def _prepared(tick: Tick) -> Tick:
    return {name: change for name, change in tick.items() if len(change)}


class Recompute(Recounter):
    """The whole answer's count after each tick."""

    about = About(gb.__version__)

    def __init__(self, setting: Setting, pattern: Pattern) -> None:
        super().__init__(setting)
        self.formula = FORMULAS.get(setting.workload.name)
        self.variables = () if self.formula else elimination.order(pattern)
        self.matrices = Matrices(setting, pattern)

    def load(self, state: State) -> None:
        """See `Contender`."""
        self.matrices.load(state)
        self.last = self.count()

    def prepare(self, tick: Tick) -> Tick:
        """See `Contender`."""
        return _prepared(tick)

    def take(self, prepared: Tick) -> None:
        """See `Recounter`."""
        self.matrices.arrive(prepared)
        self.matrices.take(prepared)

    def count(self) -> int:
        """See `Contender`."""
        if self.formula:
            return self.formula(self.matrices.of)
        return elimination.count(self.matrices.factors(), self.variables)

    def state_bytes(self) -> int:
        """Of the matrices."""
        return self.matrices.nbytes()

    def close(self) -> None:
        """See `Contender`."""
        self.matrices.of.clear()


class Deltas(Counter):
    """The sum of one count for each atom, with the changed rows in its place."""

    about = About(gb.__version__)

    def __init__(self, setting: Setting, pattern: Pattern) -> None:
        self.orders = [elimination.order(pattern, seed) for seed in range(len(pattern.atoms))]
        self.matrices = Matrices(setting, pattern)

    def load(self, state: State) -> None:
        """See `Contender`."""
        self.matrices.load(state)

    def prepare(self, tick: Tick) -> Tick:
        """See `Contender`."""
        return _prepared(tick)

    def tick(self, prepared: Tick) -> Outcome:
        """See `Contender`."""
        matrices = self.matrices
        matrices.arrive(prepared)
        before = {name: matrices.of[name].dup() for name in prepared}
        matrices.take(prepared)
        changes = {name: self._signed(change) for name, change in prepared.items()}
        after = matrices.factors()
        net = 0
        for seed, (relation, variables) in enumerate(matrices.pattern.atoms):
            if relation in changes:
                later = [
                    Factor(names, before.get(name, matrices.of[name]), True)
                    for name, names in matrices.pattern.atoms[seed + 1 :]
                ]
                factors = [*after[:seed], Factor(variables, changes[relation]), *later]
                net += elimination.count(factors, self.orders[seed])
        return Outcome(net)

    def _signed(self, change: Change) -> Any:
        rows = np.concatenate([change.inserted, change.deleted])
        return self.matrices.matrix(rows, np.repeat(np.array([1, -1]), [len(change.inserted), len(change.deleted)]))

    def count(self) -> int:
        """See `Contender`."""
        return elimination.count(self.matrices.factors(), self.orders[0])

    def state_bytes(self) -> int:
        """Of the matrices."""
        return self.matrices.nbytes()

    def close(self) -> None:
        """See `Contender`."""
        self.matrices.of.clear()


def _pairs(entries: Any) -> int:
    """``sum(t * (t - 1) / 2)`` over the entries t."""
    values = entries.to_coo()[-1]
    return int((values * (values - 1) // 2).sum())


def _paths(matrix: Any, mask: Any = None) -> Any:
    """Per two vertices, the paths of two edges between them."""
    product = gb.semiring.plus_pair[INT64](matrix @ matrix)
    if mask is None:
        return product.new()
    found = Matrix(INT64, matrix.nrows, matrix.ncols)
    found(mask.S) << product
    return found


def _diamonds(matrices: Mapping[str, Any]) -> int:
    return _pairs(_paths(matrices["s"], matrices["e"]))


def _cycles(matrices: Mapping[str, Any]) -> int:
    return _pairs(gb.select.triu(_paths(matrices["s"]), 1).new()) // 2


def _bowties(matrices: Mapping[str, Any]) -> int:
    """Two triangles at one vertex, less those that share an edge there."""
    per_edge = _paths(matrices["s"], matrices["s"])
    twice = per_edge.reduce_rowwise(gb.monoid.plus[INT64]).new()
    per_vertex = gb.binary.floordiv(twice, 2).new()
    return _pairs(per_vertex) - _pairs(per_edge)


FORMULAS: Mapping[str, Callable[[Mapping[str, Any]], int]] = MappingProxyType(
    {"diamond": _diamonds, "cycle4": _cycles, "bowtie": _bowties}
)
"""By workload: e holds each edge from its smaller vertex to the larger one, s both ways."""
