"""Joins of a loop in one tick, with their rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpu_wcoj.circuit.recursion.plan import LoopRule
from gpu_wcoj.join.delta import IncrementalGenericJoin


@dataclass(eq=False)
class RuleJoin:
    """A join of a rule.

    Attributes
    ----------
    is_inverse
        Whether it computes derivations from rows.
    seeds
        Per path, the number of rows that have seeded it in this tick.
    """

    rule: LoopRule
    join: IncrementalGenericJoin
    is_inverse: bool = False
    seeds: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.seeds = [0] * len(self.join.query.paths)

    def has_seeds(self, phases: Sequence[int]) -> bool:
        """Count the seeds of all paths in these phases of an iteration.

        Return whether there are any.
        """
        any_seeds, arrangements = False, self.join.arrangements
        for path_index, path in enumerate(self.join.query.paths):
            for phase in phases:
                delta = arrangements[path.seed.key].delta(phase)
                if delta is not None:
                    any_seeds = True
                    self.seeds[path_index] += delta.n_rows
        return any_seeds
