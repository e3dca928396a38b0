"""The joins of a loop in one tick, put to the rules that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_wcoj.circuit.recursion.rules import LoopRule
from gpu_wcoj.join.delta import IncrementalGenericJoin


@dataclass(eq=False)
class RuleJoin:
    """One join of a rule.

    Attributes
    ----------
    is_asked
        Whether it goes from rows to their derivations.
    seeds
        Per path, how many rows have started it in this tick.
    """

    rule: LoopRule
    join: IncrementalGenericJoin
    is_asked: bool = False
    seeds: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.seeds = [0] * len(self.join.query.paths)

    def begins(self, phases: Sequence[int]) -> bool:
        """Whether anything starts a path in one of these phases of an iteration; what does so is counted."""
        found, arrangements = False, self.join.arrangements
        for number, path in enumerate(self.join.query.paths):
            for phase in phases:
                delta = arrangements[path.seed.key].delta(phase)
                if delta is not None:
                    found = True
                    self.seeds[number] += delta.n_rows
        return found
