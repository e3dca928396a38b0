"""When runs on the disk are merged: so that they stay few, and what is written follows what has changed."""

from __future__ import annotations

from collections.abc import Sequence

MOST_RUNS = 16


def first_to_merge(sizes: Sequence[int], most_runs: int = MOST_RUNS) -> int:
    """From which run on all are to become one; ``len(sizes) - 1`` if none are to be merged.

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
    last = len(sizes) - 1
    if last > 0 and sum(sizes[1:]) > sizes[0]:
        return 0
    if len(sizes) <= most_runs:
        return last
    start, total = last, sizes[last]
    at_least = max(2, most_runs // 2)
    while start > 1 and (last - start + 1 < at_least or sizes[start - 1] < 2 * total):
        start -= 1
        total += sizes[start]
    return start
