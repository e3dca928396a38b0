"""The delta rule: the change of a join as one generic join per atom.

    dQ = sum over j of  after(A1) ... after(A(j-1)) . d(Aj) . before(A(j+1)) ... before(An)

Atoms are numbered in the order of the body; every occurrence of a relation is an atom. The rule is exact for
insertions, deletions, bag weights, self-joins and simultaneous changes. A path is skipped if one of its factors is
empty: from the empty state only the path of the last atom remains.

A negated atom N is the factor 1 - d(N), d(w) = 1 if w > 0 else 0. Negated atoms are numbered before the positive ones,
so that other paths read them as after the tick; the change of -d(N) has a path of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from gpu_wcoj.join.few import extend_seeds_once
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.magnitudes import bound_magnitudes, exact_dot, multiply_exactly
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.join.plan import DeltaPath
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.join.running import PathRunner
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.trace.arrangement import Arrangement
from gpu_wcoj.zset.arrays import numbers

if TYPE_CHECKING:
    from gpu_wcoj.join.symmetric import SymmetricCount
    from gpu_wcoj.join.symmetry import Symmetry

MIN_PAIRED_ROWS = 64
"""Below this number of changed rows, a symmetry of order two is not used.

Joining the change with itself would cost as much as it saves."""

MAX_CHANGED_FRACTION = 0.25
"""Fraction of an atom's relation that may change where a symmetry is used.

All changed rows join with each other."""

DEVICE_SUMS_FROM = 1 << 14
"""Prefixes from which on variables are eliminated on a device."""


@dataclass(eq=False)
class IncrementalGenericJoin(PathRunner):
    """The change of a join, from arrangements and their pending changes."""

    by_symmetry: bool = field(default=False, init=False)
    """True if this tick's change was counted along fewer paths, by symmetry."""
    _summable: dict[int, bool] = field(default_factory=dict, init=False)

    def begin(self) -> None:
        """Reset the counts of the previous tick."""
        super().begin()
        self.by_symmetry = False

    @property
    def is_empty(self) -> bool:
        """True if some positive atom held no row before the tick: the join had no binding."""
        return any(not arrangement.spine.batches for arrangement in self.positive)

    @cached_property
    def positive(self) -> tuple[Arrangement, ...]:
        """The arrangements of the positive atoms, one an atom."""
        return tuple(self.arrangements[path.seed.key] for path in self.query.paths if not path.is_negated)

    @property
    def negated_changes(self) -> bool:
        """True if a change of a negated atom's relation may derive rows of both signs in a phase.

        From the empty state it does not.
        """
        if not self.query.has_negation:
            return False
        numbers = [path_index for path_index, path in enumerate(self.query.paths) if path.is_negated]
        phases = range(len(self.execution.phases))
        return any(self.generic_join(path_index, phase) is not None for path_index in numbers for phase in phases)

    def join(self, phase: int, paths: Iterable[int] | None = None) -> Iterator[Piece]:
        """Yield the change of one phase in pieces.

        Rows may repeat across pieces if the head projects. `paths` selects some of the query's paths.
        """
        sign = self.execution.phases[phase]
        backend = self.execution.backend
        xp = backend.xp

        def enumerate_block(
            join: GenericJoin, prefixes: Prefixes, path: DeltaPath
        ) -> Iterator[tuple[Prefixes, int, Int64Array | None, int | None]]:
            variables = self.query.head_variables
            depth = path.depth_of(variables)
            path_sign = -sign if path.is_negated else sign
            for piece in self.bind_pieces(join, prefixes, path, depth):
                if depth < len(path.steps):
                    yield piece, path_sign, *join.count_bounded(piece, path.steps[depth:])
                else:
                    yield piece, path_sign, None, None

        remaining_paths = []
        for path_index in range(len(self.query.paths)) if paths is None else paths:
            path = self.query.paths[path_index]
            matches = (
                extend_seeds_once(self, path_index, phase, True)
                if path.order[-1] in self.query.head_variables
                else None
            )
            if matches is None:
                remaining_paths.append(path_index)
            elif n := matches.rows.shape[1]:
                yield Piece(self._head_columns(matches.values(path), n), sign)
        for piece, piece_sign, counts, bound in self.run_paths(remaining_paths, phase, enumerate_block):
            weights: Int64Array | int = piece_sign
            if self.execution.weighted:
                weights = piece.weights if piece.weights is not None else xp.ones(len(piece), np.int64)
            if counts is None:
                bound = self.weight_bound
            else:
                bound = None if bound is None else bound * self.weight_bound
                weights = (
                    counts * weights if isinstance(weights, int) else multiply_exactly(counts, weights, backend, bound)
                )
            if len(piece):
                yield Piece(self._head_columns(piece.values, len(piece)), weights, bound)

    def bind_pieces(self, join: GenericJoin, prefixes: Prefixes, path: DeltaPath, depth: int) -> Iterator[Prefixes]:
        """Bind the first steps of a path; yield the prefixes in pieces."""
        if not path.branches:
            return join.pieces(prefixes, path.steps[:depth])
        from gpu_wcoj.join.bushy import bind_branched  # needed by few paths

        return bind_branched(join, prefixes, path, depth)

    @property
    def symmetry(self) -> Symmetry | None:
        """The symmetry by which this tick's change is counted, if it is small beside the state."""
        symmetry, max_changed = self.query.symmetry, 0
        for arrangement in () if symmetry is None else self.positive:
            changed = max((batch.n_rows for batch in arrangement.pending), default=0)
            if not arrangement.spine.batches or changed > MAX_CHANGED_FRACTION * len(arrangement.spine):
                return None
            max_changed = max(max_changed, changed)
        return None if symmetry is None or (symmetry.order == 2 and max_changed < MIN_PAIRED_ROWS) else symmetry

    @property
    def followed_paths(self) -> Sequence[int]:
        """Indices of the paths along which this tick's change is counted; by symmetry one an orbit."""
        symmetry = self.symmetry
        return range(len(self.query.paths)) if symmetry is None else symmetry.representatives

    def stands_for(self, path_index: int) -> int:
        """Return the number of paths that a path was counted for in this tick."""
        symmetry = self.query.symmetry if self.by_symmetry else None
        return 1 if symmetry is None else next((len(orbit) for orbit in symmetry.orbits if path_index in orbit), 1)

    @cached_property
    def _symmetric(self) -> SymmetricCount:
        from gpu_wcoj.join.symmetric import SymmetricCount  # needed by few programs

        assert self.query.symmetry is not None
        return SymmetricCount(self, self.query.symmetry)

    def count(self, phase: int) -> int:
        """Return the sum of the weights of the change of one phase.

        The last level is enumerated only if it has checks.
        """
        if self.symmetry is not None:
            self.by_symmetry = True
            return self._symmetric.count(phase)
        backend = self.execution.backend
        total = 0
        late: list[Any] = []
        remaining_paths = []
        for path_index in range(len(self.query.paths)):
            matches = extend_seeds_once(self, path_index, phase, False)
            if matches is None:
                remaining_paths.append(path_index)
            elif backend.device is None:
                total += int(matches.counts.sum())
            elif len(matches.counts):
                late.append(matches.counts.sum())

        def count_block(join: GenericJoin, prefixes: Prefixes, path: DeltaPath) -> Iterable[Any]:
            reverse = path.is_negated and not self.execution.weighted
            for count in count_positive(join, prefixes, path):
                yield -count if reverse else count

        def count_positive(join: GenericJoin, prefixes: Prefixes, path: DeltaPath) -> Iterable[Any]:
            if self._eliminates_variables(path, len(prefixes)):
                from gpu_wcoj.join.eliminate import sum_bindings

                added = sum_bindings(join, prefixes, path, path.steps)
                self.magnitude += abs(added) if self.execution.weighted else 0
                return (added,)
            counts, bound = join.count_bounded(prefixes, path.steps)
            if self.execution.weighted:
                self.magnitude += bound_magnitudes(counts, bound, backend) * self.weight_bound
            if bound is None or counts.dtype == object:
                return (exact_dot(counts, prefixes.weights, backend),)
            bound *= 1 if prefixes.weights is None else self.weight_bound
            if bound * len(counts) >= 1 << 63:
                return (exact_dot(counts, prefixes.weights, backend),)
            return ((counts if prefixes.weights is None else counts * prefixes.weights).sum(),)

        for result in self.run_paths(remaining_paths, phase, count_block):
            if isinstance(result, int):
                total += result
            else:
                late.append(result)
        if late:
            total += sum(numbers(backend, *late))
        return total if self.execution.weighted else total * self.execution.phases[phase]

    def _eliminates_variables(self, path: DeltaPath, n: int) -> bool:
        """Return whether to eliminate variables of a path in a count; this waits for a device."""
        if (
            len(path.steps) < 2
            or path.calculations
            or (n < DEVICE_SUMS_FROM and self.execution.backend.device is not None)
        ):
            return False
        is_summable = self._summable.get(id(path))
        if is_summable is None:
            from gpu_wcoj.join.eliminate import can_eliminate

            is_summable = self._summable[id(path)] = can_eliminate(path)
        return is_summable

    def _head_columns(self, values: Mapping[str, Int64Array], n: int) -> list[Int64Array]:
        xp = self.execution.backend.xp
        return [values[term] if isinstance(term, str) else xp.full(n, term, np.int64) for term in self.query.head]
