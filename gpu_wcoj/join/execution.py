"""Settings of joins: backend, threads, and rows a piece."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpu_wcoj.backend import Backend
from gpu_wcoj.join.generic import Ranks
from gpu_wcoj.join.memory import choose_piece_rows
from gpu_wcoj.kernels.protocol import Int64Array

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary
    from gpu_wcoj.join.share import Share

ITERATIONS = 100_000
"""Iterations of a loop in a tick at most, unless the user sets a limit."""


@dataclass(eq=False)
class Execution:
    """Settings with which joins run.

    Attributes
    ----------
    weighted
        Bag semantics: weights are carried. Otherwise relations are sets and change in two phases.
    chunk_rows
        Rows of one piece; None to choose it every tick.
    threads
        Threads for the seeds of a path; 1 on a device.
    host_ranks
        Maps a family of text to the rank of every code in text order.
    share
        The share of every path's seeds that is processed; None for all.
    iterations
        Iterations of a loop in a tick at most.
    dictionary
        The texts that rules calculate with.
    recounts
        Whether a head's change may be counted as the difference of two full recomputations.
    measures
        Whether joins measure what the kernels do not count; see `gpu_wcoj.join.meter`.
    piece_rows
        Rows of one piece in this tick.
    """

    backend: Backend
    weighted: bool
    chunk_rows: int | None = None
    threads: int = 1
    host_ranks: Ranks | None = None
    share: Share | None = None
    iterations: int = ITERATIONS
    dictionary: Dictionary | None = None
    recounts: bool = True
    measures: bool = False
    piece_rows: int = field(init=False)
    _moved: dict[str, tuple[Int64Array, Int64Array]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.begin()

    @property
    def phases(self) -> tuple[int, ...]:
        """Sign of each phase of a tick; 0 if rows carry weights."""
        return (0,) if self.weighted else (-1, 1)

    def begin(self) -> None:
        """Start a tick or another join: choose the piece size by the free memory."""
        self.piece_rows = self.chunk_rows or choose_piece_rows(self.backend)

    def ranks(self, family: str) -> Int64Array:
        """Return the rank of every code of a family, on the backend; moved only after a change."""
        assert self.host_ranks is not None
        host = self.host_ranks(family)
        moved = self._moved.get(family)
        if moved is None or moved[0] is not host:
            moved = self._moved[family] = host, self.backend.asarray(host)
        return moved[1]
