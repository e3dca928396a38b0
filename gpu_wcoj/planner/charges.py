"""Cost constants of the planner, in probes."""

from __future__ import annotations

PREFIX, WIDTH, PROPOSAL, PROBE, LOOKUP = 0.7, 0.25, 1.0, 0.5, 0.5
"""Costs in probes of a step: of a prefix, of an atom's range width, and of a proposed value; then of a search for
a value in a further atom of the step, and of a lookup in a step of its own.
"""

ALONE, COPY = 0.3, 0.35
"""Costs in probes of a step with one atom that is already bound: of a prefix with its first value, of a copied
value.

Measured along foreign keys: a key that is followed by itself takes half as long as a key that is looked up. Further
values of a prefix cost `PROPOSAL`. Copying them takes less than that, but so does an intersection for a value of a wide
range, and what is copied is still to be looked up elsewhere, one value after the other.
"""


def copying(prefixes: float, values: float) -> float:
    """Return the cost in probes of copying the values of these prefixes at a step of one atom.

    Examples
    --------
    >>> copying(10.0, 10.0), copying(10.0, 12.0)
    (3.5, 5.5)
    """
    return min(values, prefixes) * COPY + max(values - prefixes, 0.0) * PROPOSAL
