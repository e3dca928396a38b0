"""Auxiliary relations: joins materialised for other rules as long as they stay small."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpu_wcoj.circuit.afresh import recomputation_joins
from gpu_wcoj.circuit.head import ChangeCount, Head, PieceSink
from gpu_wcoj.errors import AuxiliaryError, WeightOverflowError
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.trace.arrangement import PhaseRows

PER_ROW = 4
"""Maximum rows of an auxiliary relation, or of its change in a tick, per row of the joined relations (a ratio)."""

SPARE_ROWS = 1 << 16
"""Rows that an auxiliary relation or its change may have, whatever the size of the joined relations."""


@dataclass(eq=False)
class AuxiliaryHead(Head):
    """A head that is materialised for other rules and is not part of the program's answer.

    Attributes
    ----------
    inputs
        The joined relations.
    """

    inputs: Sequence[RelationIndex] = ()

    def evaluate(self, collect: bool, sink: PieceSink | None = None) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """Evaluate this tick as `Head.evaluate` does.

        Raises
        ------
        AuxiliaryError
            If the relation or its change exceeds the limit of rows, or a weight leaves int64.
        """
        with self._as_auxiliary_error():
            result = super().evaluate(collect, sink)
        assert self.relation is not None
        if _count_rows(self.relation) > self._max_rows:
            raise AuxiliaryError(self.name, f"has more than {self._max_rows:,} rows")
        return result

    def fill(self) -> None:
        """Join the committed state of the inputs and store the result.

        Raises
        ------
        AuxiliaryError
            As `evaluate` does.
        """
        assert self.relation is not None
        self.execution.begin()
        joins = recomputation_joins(self.joins, self.execution)
        with self._as_auxiliary_error():
            columns, weights = replace(self, joins=joins, relation=None).derivation_changes()
        if len(weights):
            self.relation.load(columns, weights)

    @contextmanager
    def _as_auxiliary_error(self) -> Generator[None]:
        try:
            yield
        except WeightOverflowError as error:
            raise AuxiliaryError(self.name, "has a weight outside int64") from error

    @property
    def _max_rows(self) -> int:
        return SPARE_ROWS + PER_ROW * sum(map(_count_rows, self.inputs))

    def _pieces(self) -> Iterator[Piece]:
        max_rows, n_rows = self._max_rows, 0
        for piece in super()._pieces():
            n_rows += len(piece)
            if n_rows > max_rows:
                raise AuxiliaryError(self.name, f"changes by more than {max_rows:,} rows")
            yield piece


def _count_rows(index: RelationIndex) -> int:
    return len(index) + sum(batch.n_rows for batch in index.arrangements[index.canonical].pending)
