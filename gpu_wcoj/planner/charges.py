"""What single things cost that a step does, in probes."""

from __future__ import annotations

PREFIX, WIDTH, PROPOSAL, PROBE, LOOKUP = 0.7, 0.25, 1.0, 0.5, 0.5
"""What it costs to bring a prefix to a step, to ask an atom for its width there, to look at a proposed value, to
search it in another atom, and to search it in an atom alone, afterwards."""

ALONE, COPY = 0.3, 0.35
"""What a prefix and its first value cost at a step of one atom that something is bound of; values are only copied.

Measured along foreign keys: a key that is followed by itself takes half as long as one that is looked up. Further
values of a prefix cost `PROPOSAL`. Copying them takes less than that, but so does an intersection for a value of a wide
range, and what is copied is still to be looked up elsewhere, one value after the other.
"""


def copying(prefixes: float, values: float) -> float:
    """What the values of so many prefixes cost at a step of one atom.

    Examples
    --------
    >>> copying(10.0, 10.0), copying(10.0, 12.0)
    (3.5, 5.5)
    """
    return min(values, prefixes) * COPY + max(values - prefixes, 0.0) * PROPOSAL
