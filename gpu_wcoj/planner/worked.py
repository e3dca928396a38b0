"""What is worked out of a body's costs once, whichever of its atoms changes."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpu_wcoj.planner.bits import Bits


@dataclass(eq=False)
class Worked:
    """What one estimator of a body leaves to the next; see `gpu_wcoj.planner.costs.Estimator`.

    It serves all changes of positive atoms of a body in which nothing is calculated: what is calculated may be bound by
    the row that changes, and a negated atom has values of its own.

    Attributes
    ----------
    bits
        Of its atoms, before one of them changes.
    values
        Those of the estimator; empty before there is one that knows something.
    degrees
        By atom, variables that are bound before, and variable.
    levels
        Where nothing is compared, by the variables that tell what binding one more costs, that one, and the atom that
        proposes it alone.
    steps
        By variable, atoms, what each of these has bound, and the share of its range that is gone through.
    """

    bits: Bits
    values: dict[str, float] = field(default_factory=dict)
    degrees: dict[tuple[int, int, str], float] = field(default_factory=dict)
    levels: dict[tuple[int, str, int | None], tuple[float, float, float]] = field(default_factory=dict)
    steps: dict[tuple[str, tuple[int, ...], tuple[int, ...], float], tuple[float, float, float]] = field(
        default_factory=dict
    )
