"""What an extension tells its caller: how much it has looked at, and how a piece that was cut goes on."""

from __future__ import annotations

SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS, RANKED, N_WORK = range(7)
"""What `work` counts: smallest counts summed over prefixes, candidates looked at, searches and mark tests, values
marked, candidates that survived, and of the searches those by ranks."""

FRESH, ALONE, SCAN, GROUP = 0, 1, 2, 4
"""How a prefix is extended: by seeking, by marking its own smallest range, or (GROUP + SCAN) by marking what a group
shares; stored in `resume` so that a piece that was cut goes on in the same order."""
