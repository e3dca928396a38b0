"""Cost terms of a rule body that do not depend on the changed atom; computed once."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_wcoj.planner.bits import Bits


@dataclass(eq=False)
class SharedCosts:
    """Cost terms that the estimators of a body share; see `gpu_wcoj.planner.cost.Estimator`.

    It serves all changes of positive atoms of a body without calculations: the changed row may bind a calculated
    variable, and a negated atom has other values.

    Attributes
    ----------
    bits
        Masks of its atoms, before a changed atom is chosen.
    values
        Values of the estimator; empty until an estimator with statistics exists.
    degrees
        Degrees by atom, variables that are bound before, and variable.
    levels
        Costs of levels without comparisons, by the bound variables that influence them, the variable, and the atom that
        proposes it alone.
    steps
        Costs of steps by variable, atoms, bound variables of each atom, and the share of its range that is read.
    """

    bits: Bits
    values: dict[str, float] = field(default_factory=dict)
    degrees: dict[tuple[int, int, str], float] = field(default_factory=dict)
    levels: dict[tuple[int, str, int | None], tuple[float, float, float]] = field(default_factory=dict)
    steps: dict[tuple[str, tuple[int, ...], tuple[int, ...], float], tuple[float, float, float]] = field(
        default_factory=dict
    )
