"""Joins that several rules share: one rule enumerates the join in a tick, others reuse it.

The first rule that is evaluated enumerates the join with all variables that any of the rules keeps; the others take
their columns from the same pieces, which are dropped after the last one. Rules that only count take no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.piece import Piece


@dataclass(eq=False)
class CommonJoin:
    """A join that several rules share.

    Attributes
    ----------
    members
        The rules' joins, in the order of evaluation.
    waiting
        Per phase of this tick, the number of members that have yet to read its pieces.
    """

    members: list[SharedJoin] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)
    _pieces: dict[int, tuple[list[Piece], int]] = field(default_factory=dict)

    def begin(self) -> None:
        """Start a tick; the members' `is_requested` are set."""
        asking = sum(member.is_requested for member in self.members)
        self.waiting = {} if asking < 2 else dict.fromkeys(range(len(self.members[0].execution.phases)), asking)
        self.forget()

    def forget(self) -> None:
        """Drop the pieces that were not read, after a tick or a failure."""
        self._pieces = {}

    def pieces(self, member: SharedJoin, phase: int) -> list[Piece]:
        """Return the pieces of a phase, with the columns `DeltaQuery.together`."""
        entry = self._pieces.pop(phase, None) or member.enumerate_pieces(phase)
        self.waiting[phase] -= 1
        if self.waiting[phase]:
            self._pieces[phase] = entry
        pieces, bound = entry
        member.weight_bound = max(member.weight_bound, bound)
        return pieces


@dataclass(eq=False)
class SharedJoin(IncrementalGenericJoin):
    """The join of a rule that shares it with other rules.

    Attributes
    ----------
    common
        The shared join.
    asks
        Whether this tick's rows are certain to be enumerated.
    """

    common: CommonJoin = field(default_factory=CommonJoin)
    is_requested: bool = False

    def __post_init__(self) -> None:
        self.common.members.append(self)

    def join(self, phase: int, paths: Iterable[int] | None = None) -> Iterator[Piece]:
        """Yield pieces as `IncrementalGenericJoin.join` does, reusing another rule's pieces."""
        if paths is not None or not self.is_requested or not self.common.waiting.get(phase):
            yield from super().join(phase, paths)
            return
        xp = self.execution.backend.xp
        place = {name: column for column, name in enumerate(self.query.shared_variables)}
        for piece in self.common.pieces(self, phase):
            columns = [
                piece.columns[place[term]] if isinstance(term, str) else xp.full(len(piece), term, "int64")
                for term in self.query.head
            ]
            yield replace(piece, columns=columns)

    def enumerate_pieces(self, phase: int) -> tuple[list[Piece], int]:
        """Return the pieces of a phase and a bound of their weights.

        The pieces have all variables that any of the rules keeps.
        """
        join = self._full_join
        join.finished, join.failed, join.meters = self.finished, self.failed, self.meters
        join.prefix_users = self.prefix_users
        join.seeds = join.weight_bound = 0
        pieces = list(join.join(phase))
        self.seeds += join.seeds
        return pieces, join.weight_bound

    @cached_property
    def _full_join(self) -> IncrementalGenericJoin:
        """The join with all variables that any of the rules keeps."""
        return IncrementalGenericJoin(
            replace(self.query, head=self.query.shared_variables), self.arrangements, self.execution
        )
