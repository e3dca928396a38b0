"""Plans of beginnings that delta paths share: what is enumerated once, and how each path goes on from its rows."""

from __future__ import annotations

from dataclasses import dataclass

from gpu_wcoj.join.path import DeltaPath


@dataclass(frozen=True)
class Beginning:
    """What several delta paths do first, as a path of its own.

    Attributes
    ----------
    head, rule, number
        Whose path it is taken from, and in whose names it is: a head, and the numbers of one of its rules and of a path
        of that.
    path
        It ends with the last step that all of them share.
    begun
        How it begins itself, where others share less.
    """

    head: str
    rule: int
    number: int
    path: DeltaPath
    begun: Begun | None = None


@dataclass(frozen=True)
class Begun:
    """How a path goes on from the rows of a beginning.

    Attributes
    ----------
    rest
        Its seed has the variables that the beginning binds, in that order, as this path calls them; the other atoms are
        those that the beginning has not bound to the last variable.
    names
        Per step of the beginning, what this path calls it.
    counts
        Whether a count begins with these rows, too: it does not where it goes on with one prefix for many.
    """

    beginning: Beginning
    rest: DeltaPath
    names: tuple[str, ...]
    counts: bool = False
