"""Auxiliary relations: what is kept for the rules of others, as long as it stays small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpu_wcoj.circuit.head import ChangeCount, Head, PieceSink
from gpu_wcoj.errors import AuxiliaryError, WeightOverflowError
from gpu_wcoj.join.index import RelationIndex
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.trace.arrangement import PhaseRows

PER_ROW = 4
"""Rows that a tick may bring for each row of what is joined, changed or there."""

SPARE_ROWS = 1 << 16
"""So many it may bring in any case."""


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
            If the change has more rows than such a relation is worth, or the weight of one leaves int64.
        """
        try:
            return super().evaluate(collect, sink)
        except WeightOverflowError as error:
            raise AuxiliaryError(self.name, "has a weight outside int64") from error

    def _pieces(self) -> Iterator[Piece]:
        most, found = SPARE_ROWS + PER_ROW * sum(map(_rows, self.read)), 0
        for piece in super()._pieces():
            found += len(piece)
            if found > most:
                raise AuxiliaryError(self.name, f"changes by more than {most:,} rows")
            yield piece


def _rows(index: RelationIndex) -> int:
    return len(index) + sum(batch.n_rows for batch in index.arrangements[index.canonical].pending)
