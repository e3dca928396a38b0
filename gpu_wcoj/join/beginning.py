"""Plans of common prefixes of delta paths, and of the continuation of each path from them."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_wcoj.join.plan import DeltaPath


@dataclass(frozen=True)
class CommonPrefix:
    """The first steps that several delta paths have in common, as a path.

    Attributes
    ----------
    head, rule, number
        The path that it is taken from, whose variable names it uses: a head, and the indices of one of its rules and
        of a path of that rule.
    path
        The path up to the last common step.
    begun
        The continuation by which this prefix itself starts from a shorter common prefix, if it does.
    """

    head: str
    rule: int
    path_index: int
    path: DeltaPath
    continuation: Continuation | None = None


@dataclass(frozen=True)
class Continuation:
    """The continuation of a path from the rows of a common prefix.

    Attributes
    ----------
    rest
        The remaining path. Its seed has the variables that the common prefix binds, in that order, by this path's
        names; its other atoms are those that the common prefix does not bind to their last variable.
    names
        Per step of the common prefix, its name in this path.
    counts
        Whether counts start from these rows, too. They do not if they group prefixes.
    """

    beginning: CommonPrefix
    remaining_path: DeltaPath
    names: tuple[str, ...]
    counts: bool = False
