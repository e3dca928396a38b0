"""Values that an extension returns to its caller: work counts, and where to resume."""

from __future__ import annotations

SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS, RANKED, N_WORK = range(7)
"""Indices of the counts in `work`: smallest counts summed over prefixes, candidates examined, searches and mark tests,
values marked, candidates that survived, and searches by ranks."""

FRESH, ALONE, SCAN, GROUP = 0, 1, 2, 4
"""Modes of extending a prefix: by searching, by marking its smallest range, or (GROUP + SCAN) by marking the common
values of a group. The mode is stored in `resume`, so that an interrupted piece continues in the same order."""
