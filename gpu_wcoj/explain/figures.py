"""Numbers of a plan's tree: estimates of its levels, and work in the last tick.

As in `gpu_wcoj.explain.tree`, the names of the fields are the keys of the JSON.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """Estimate of a level per changed row: proposed values, and remaining prefixes."""

    proposals: float
    rows: float


@dataclass(frozen=True)
class Counts:
    """Work of a level in the last tick; None for numbers that were not measured.

    Attributes
    ----------
    prefixes
        Extended prefixes; prefixes that agree for this and all later levels are one if rows are only counted.
    work_bound
        The smallest count of its atoms, summed over these prefixes; for a check, at most one per prefix. Atoms are
        counted batch by batch, so a row that is in one batch and deleted in another counts in both, also if this tick
        deletes it. For a last level that is only counted and has values of one atom it may be 0, as lengths of ranges
        are added there instead of reading values: it bounds work, not `survivors`.
    proposals
        Values that were read one by one.
    probes
        Searches in the other atoms, and tested marks.
    marks
        Values that were marked for a group of prefixes.
    survivors
        Values that all of its atoms have; a value in several batches may be counted in each.
    rows
        Rows passed on to the next level; 0 if they were only counted.
    bytes
        Size of these rows.
    seconds
        Time of the level, summed over threads.
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
        """Add two counts; a number is None if it is None in either."""
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
    """Seeds of a path in the last tick.

    Attributes
    ----------
    changes
        Changed rows that seeded it; those of a variant are counted at its path.
    prefixes
        Changed rows that passed all atoms that they bind, per variant.
    seconds
        Time for finding the prefixes.
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
        Total time: reading of the changes, joins, and building the new state.
    merged_rows
        Rows read by merging batches.
    is_measured
        Whether prefixes, rows, bytes and times were measured.
    total
        Sum of all levels.
    notes
        Missing measurements and their reasons.
    """

    tick: int
    backend: str
    seconds: float
    merged_rows: int
    is_measured: bool
    total: Counts
    notes: tuple[str, ...]
