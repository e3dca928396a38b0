"""Joins that several rules have in common: what one of them enumerates in a tick serves the others.

The first rule that is evaluated enumerates the join with all variables that any of them keeps; the others take their
columns from the same pieces, which are given back when the last one has taken them. Rules that only count do not ask,
and do not wait for others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from gpu_wcoj.join.delta import IncrementalGenericJoin
from gpu_wcoj.join.piece import Piece


@dataclass(eq=False)
class CommonJoin:
    """The join that some rules share.

    Attributes
    ----------
    members
        The rules' joins, in the order in which they are evaluated.
    waiting
        Per phase of this tick, how many members have yet to take its pieces.
    """

    members: list[SharedJoin] = field(default_factory=list)
    waiting: dict[int, int] = field(default_factory=dict)
    _pieces: dict[int, tuple[list[Piece], int]] = field(default_factory=dict)

    def begin(self) -> None:
        """A tick begins; its members know whether they will ask."""
        asking = sum(one.asks for one in self.members)
        self.waiting = {} if asking < 2 else dict.fromkeys(range(len(self.members[0].execution.phases)), asking)
        self.forget()

    def forget(self) -> None:
        """Give back the pieces that nobody has taken: the tick has failed, or is over."""
        self._pieces = {}

    def pieces(self, member: SharedJoin, phase: int) -> list[Piece]:
        """The pieces of a phase, whose columns are `DeltaQuery.together`."""
        found = self._pieces.pop(phase, None) or member.enumerated(phase)
        self.waiting[phase] -= 1
        if self.waiting[phase]:
            self._pieces[phase] = found
        pieces, bound = found
        member.weight_bound = max(member.weight_bound, bound)
        return pieces


@dataclass(eq=False)
class SharedJoin(IncrementalGenericJoin):
    """The join of a rule that shares it with others.

    Attributes
    ----------
    common
        What they share.
    asks
        Whether this tick's rows are going to be enumerated for certain.
    """

    common: CommonJoin = field(default_factory=CommonJoin)
    asks: bool = False

    def __post_init__(self) -> None:
        self.common.members.append(self)

    def join(self, phase: int, paths: Iterable[int] | None = None) -> Iterator[Piece]:
        """As `IncrementalGenericJoin.join`; from the pieces of another rule, if that has gone before."""
        if paths is not None or not self.asks or not self.common.waiting.get(phase):
            yield from super().join(phase, paths)
            return
        xp = self.execution.backend.xp
        place = {name: at for at, name in enumerate(self.query.together)}
        for piece in self.common.pieces(self, phase):
            columns = [
                piece.columns[place[term]] if isinstance(term, str) else xp.full(len(piece), term, "int64")
                for term in self.query.head
            ]
            yield replace(piece, columns=columns)

    def enumerated(self, phase: int) -> tuple[list[Piece], int]:
        """The pieces of a phase with all variables that any of the rules keeps, and the bound of their weights."""
        whole = self._whole
        whole.finished, whole.failed, whole.meters = self.finished, self.failed, self.meters
        whole.begun = self.begun
        whole.seeds = whole.weight_bound = 0
        pieces = list(whole.join(phase))
        self.seeds += whole.seeds
        return pieces, whole.weight_bound

    @cached_property
    def _whole(self) -> IncrementalGenericJoin:
        """The join with all those variables."""
        return IncrementalGenericJoin(replace(self.query, head=self.query.together), self.arrangements, self.execution)
