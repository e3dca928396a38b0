"""Auxiliary relations: what is kept for the rules of others, as long as it stays small."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from gpu_wcoj.circuit.afresh import joins_afresh
from gpu_wcoj.circuit.head import ChangeCount, Head, PieceSink
from gpu_wcoj.errors import AuxiliaryError, WeightOverflowError
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.trace.arrangement import PhaseRows

PER_ROW = 4
"""Rows that it may have, or that a tick may bring, for each row of what is joined, changed or there."""

SPARE_ROWS = 1 << 16
"""So many there may be in any case."""


@dataclass(eq=False)
class AuxiliaryHead(Head):
    """A head that nobody asked for.

    Attributes
    ----------
    read
        The relations that it joins.
    """

    read: Sequence[RelationIndex] = ()

    def evaluate(self, collect: bool, sink: PieceSink | None = None) -> tuple[ChangeCount, list[PhaseRows] | None]:
        """As `Head.evaluate`.

        Raises
        ------
        AuxiliaryError
            If the relation or its change has more rows than it is worth, or the weight of one leaves int64.
        """
        with self._given_up():
            found = super().evaluate(collect, sink)
        assert self.relation is not None
        if _rows(self.relation) > self._most:
            raise AuxiliaryError(self.name, f"has more than {self._most:,} rows")
        return found

    def fill(self) -> None:
        """Join what is read as it is committed, and keep that.

        Raises
        ------
        AuxiliaryError
            As `evaluate` does.
        """
        assert self.relation is not None
        self.execution.begin()
        joins = joins_afresh(self.joins, self.execution)
        with self._given_up():
            columns, weights = replace(self, joins=joins, relation=None).derived()
        if len(weights):
            self.relation.load(columns, weights)

    @contextmanager
    def _given_up(self) -> Generator[None]:
        try:
            yield
        except WeightOverflowError as error:
            raise AuxiliaryError(self.name, "has a weight outside int64") from error

    @property
    def _most(self) -> int:
        return SPARE_ROWS + PER_ROW * sum(map(_rows, self.read))

    def _pieces(self) -> Iterator[Piece]:
        most, found = self._most, 0
        for piece in super()._pieces():
            found += len(piece)
            if found > most:
                raise AuxiliaryError(self.name, f"changes by more than {most:,} rows")
            yield piece


def _rows(index: RelationIndex) -> int:
    return len(index) + sum(batch.n_rows for batch in index.arrangements[index.canonical].pending)
