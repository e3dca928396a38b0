"""A generic join that counts its cost and stops at a limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gpu_wcoj.join.eliminate import BOUND, SEED, Allowance
from gpu_wcoj.join.generic import GenericJoin
from gpu_wcoj.join.measured import MeasuredJoin
from gpu_wcoj.join.meter import Meter
from gpu_wcoj.join.plan import DeltaPath, Step
from gpu_wcoj.join.prefixes import Prefixes
from gpu_wcoj.kernels.protocol import Int64Array


@dataclass(eq=False)
class BudgetedJoin(MeasuredJoin):
    """A `GenericJoin` that charges written rows and counted prefixes to an allowance.

    Raises `AllowanceError` once the allowance is used up. It is measured if it has a meter.
    """

    allowance: Allowance = field(default_factory=Allowance)

    def extend(self, prefixes: Prefixes, step: Step) -> Iterator[tuple[Int64Array, Prefixes]]:
        """See `GenericJoin.extend`."""
        extended = GenericJoin.extend(self, prefixes, step) if self.meter is None else super().extend(prefixes, step)
        for parent, piece in extended:
            self.allowance.rows += len(piece)
            self.allowance.check(self)
            yield parent, piece

    def _count_part(self, prefixes: Prefixes, steps: Sequence[Step]) -> tuple[Int64Array, int | None]:
        self.allowance.parts += len(prefixes)
        return super()._count_part(prefixes, steps)

    def _count_last(self, prefixes: Prefixes, step: Step) -> tuple[Int64Array, int | None] | None:
        counted = GenericJoin._count_last if self.meter is None else MeasuredJoin._count_last
        counts = counted(self, prefixes, step)
        if counts is not None:
            self.allowance.counted += len(prefixes)
        return counts


def with_budget(join: GenericJoin, max_cost: float | None = None, meter: Meter | None = None) -> BudgetedJoin:
    """Return the join with a fresh allowance, limited to a cost of `max_cost` if that is given."""
    fields = {**vars(join), "meter": meter, "allowance": Allowance(max_cost)}
    return BudgetedJoin(**{**fields, "work": {} if meter is None else meter.work})


def binding_cost(path: DeltaPath, n_seeds: int, join: GenericJoin) -> int:
    """Return the cost of reading `n_seeds` seeds of a path and locating them in its atoms."""
    return n_seeds * (SEED + BOUND * sum(len(join.batches[atom]) for atom, _, _ in path.binding))
