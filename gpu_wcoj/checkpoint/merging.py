"""The merge policy of runs on the disk: few runs, and writes in proportion to changes."""

from __future__ import annotations

from collections.abc import Sequence

MAX_RUNS = 16
"""Default maximum number of runs of one relation."""


def first_to_merge(sizes: Sequence[int], most_runs: int = MAX_RUNS) -> int:
    """Return the first of the runs to merge into one; ``len(sizes) - 1`` for no merge.

    Parameters
    ----------
    sizes
        Rows of the runs, the oldest first; the last is the change that is about to be written.
    most_runs
        More than this are not left; at least 2.

    Notes
    -----
    The oldest run is written again only once the others outgrow it, so a changed row pays for two rows of that at
    most. The others are merged when they are too many: at least half of them, and older ones as long as they are less
    than twice what has been gathered, so that a row is merged about log2(oldest / change) / log2(most_runs / 2) times.

    Examples
    --------
    >>> first_to_merge([1000, 10, 10]), first_to_merge([1000, 600, 600])
    (2, 0)
    >>> first_to_merge([1000, 80, 10, 10, 10], most_runs=4)
    2
    """
    newest = len(sizes) - 1
    if newest > 0 and sum(sizes[1:]) > sizes[0]:
        return 0
    if len(sizes) <= most_runs:
        return newest
    start, total = newest, sizes[newest]
    at_least = max(2, most_runs // 2)
    while start > 1 and (newest - start + 1 < at_least or sizes[start - 1] < 2 * total):
        start -= 1
        total += sizes[start]
    return start
