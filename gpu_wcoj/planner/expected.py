"""Estimates of tries, levels and paths; see `gpu_wcoj.planner.cost`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple


class Levels(NamedTuple):
    """Trie sizes of one atom, in the order in which a path binds its variables.

    Attributes
    ----------
    variables
        Variables of the levels.
    distinct
        Per level, the number of distinct prefixes; the last is the number of rows.
    met
        Per level but the last, mean children of a prefix that is met through rows; empty if unknown.
    """

    variables: tuple[str, ...]
    distinct: tuple[float, ...]
    met: tuple[float, ...] = ()

    def degree(self, depth: int) -> float:
        """Return the number of values of level `depth` below one prefix."""
        if depth == 0:
            return self.distinct[0]
        if self.met:
            return self.met[depth - 1]
        return self.distinct[depth] / max(self.distinct[depth - 1], 1.0)


class Expected(NamedTuple):
    """Estimates of one level.

    Attributes
    ----------
    variable
        Bound variable; empty for the seeds.
    proposed
        Values that the smallest atom proposes, over all prefixes.
    rows
        Number of prefixes that are left.
    """

    variable: str
    proposed: float
    rows: float


@dataclass(frozen=True)
class Foreseen:
    """Estimates of a delta path for one changed row.

    Attributes
    ----------
    levels
        Estimates of the seeds, then of each step, if rows are listed.
    listing, counting
        Cost in probes of listing the result rows, and of counting them.
    """

    levels: tuple[Expected, ...]
    listing: float
    counting: float

    @property
    def cost(self) -> float:
        """Geometric mean of both costs, in probes."""
        return math.sqrt(self.listing * self.counting)

    @property
    def proposed(self) -> float:
        """Number of proposed values over all steps."""
        return sum(level.proposed for level in self.levels[1:])


TOO_DEAR = Foreseen((), math.inf, math.inf)
"""Estimates of a path that costs more than the given limit."""
