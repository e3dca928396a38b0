"""The figures of a plan's tree: what is expected of its levels, and what they did in the last tick.

As in `gpu_wcoj.explain.tree`, the names of the fields are the keys of the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """What is expected of a level for each changed row: values proposed, and prefixes that are left."""

    proposals: float
    rows: float


@dataclass(frozen=True)
class Counts:
    """What a level did in the last tick. None stands for what was not measured.

    Attributes
    ----------
    prefixes
        That it extended; those that look alike to it and to all that follows are one where rows are only counted.
    work_bound
        The smallest count of its atoms, summed over these prefixes; of a check, one for each at most. Atoms are counted
        batch by batch, so that a row that is in one batch and taken back in another counts in both: those that the tick
        itself deletes, too. Of a last level that is only counted and takes its values from one atom it may be 0, as
        lengths of ranges are added there instead of looking at values: it is a bound on work, not on `survivors`.
    proposals
        Values that were looked at one by one.
    probes
        Searches in the other atoms, and marks that were tested.
    marks
        Values that were marked for a group of prefixes.
    survivors
        Values that all of its atoms hold; one that stands in several batches may be counted in each.
    rows
        That went on to what follows; none where they were only counted.
    bytes
        That these rows took.
    seconds
        That it took, of all threads together.
    """

    work_bound: int = 0
    proposals: int = 0
    probes: int = 0
    marks: int = 0
    survivors: int = 0
    prefixes: int | None = None
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None

    def plus(self, other: Counts) -> Counts:
        """Both together; what one of them has not measured is not known."""
        return Counts(
            self.work_bound + other.work_bound,
            self.proposals + other.proposals,
            self.probes + other.probes,
            self.marks + other.marks,
            self.survivors + other.survivors,
            None if self.prefixes is None or other.prefixes is None else self.prefixes + other.prefixes,
            None if self.rows is None or other.rows is None else self.rows + other.rows,
            None if self.bytes is None or other.bytes is None else self.bytes + other.bytes,
            None if self.seconds is None or other.seconds is None else self.seconds + other.seconds,
        )


@dataclass(frozen=True)
class SeedCounts:
    """How a path began in the last tick.

    Attributes
    ----------
    changes
        Changed rows that started it; those of a variant are counted at its path.
    prefixes
        Of these, how many all atoms held that they bind; in each variant that was begun with.
    seconds
        That finding them took.
    """

    changes: int
    prefixes: int
    seconds: float


@dataclass(frozen=True)
class TickTree:
    """The last tick as a whole.

    Attributes
    ----------
    tick
        Its number, from 0.
    seconds
        All of it: reading of the changes, joins, and the state after it.
    merged_rows
        Rows that merging batches read.
    is_measured
        Whether prefixes, rows, bytes and times were measured.
    total
        Of all levels.
    notes
        What was not measured, and why.
    """

    tick: int
    backend: str
    seconds: float
    merged_rows: int
    is_measured: bool
    total: Counts
    notes: tuple[str, ...]
