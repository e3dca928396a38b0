"""Costs of elementary operations, in nanoseconds of one core.

Plans, strategies and limits are compared by them, and only their ratios decide. ``make calibrate-costs`` measures those
again that have the name of a function of `bench.costs.measure`, and shows both. The others were set by hand, so that
the plans of benchmarks are the fastest ones.
"""

from __future__ import annotations

from typing import Final

# A step of a delta path, for a tick of some hundred changed rows that is planned before its values are known.

PREFIX: Final = 5.6
"""Nanoseconds of a prefix at a step."""
WIDTH: Final = 2.0
"""Nanoseconds of an atom whose range is located for a prefix."""
PROPOSAL: Final = 8.0
"""Nanoseconds of a proposed value, and of a changed row itself."""
COUNTED_PROPOSAL: Final = 2.5
"""Nanoseconds of a proposed value of a last step that is counted: 1.5 s for the 637 million of triangles per vertex."""
PROBE: Final = 4.0
"""Nanoseconds of a search for a proposed value in a further atom."""
LOOKUP: Final = 4.0
"""Nanoseconds of a lookup in a step of its own."""
SINGLE: Final = 2.4
"""Nanoseconds of a prefix with its first value, at a step of one atom that is bound already.

Along foreign keys, a key that is followed by itself takes half as long as a key that is looked up."""
COPY: Final = 2.8
"""Nanoseconds of a copied value at such a step.

Further values of a prefix cost `PROPOSAL`. Copying them takes less than that, but so does an intersection for a value
of a wide range, and what is copied is still to be looked up elsewhere, one value after the other."""
OFFERED_ORDER: Final = 32.0
"""Nanoseconds of the offer of another order to a changed row.

An order is offered only if listing the rows of a changed row costs at least this much, and this much times the cost
ratio of the variant."""
BRANCH_START: Final = 16_000.0
"""Nanoseconds of the start of a branch of a bushy plan."""
GROUPED_PREFIX: Final = 12.0
"""Nanoseconds of a prefix that is grouped by what a branch reads of it."""
JOINED_ROW: Final = 12.0
"""Nanoseconds of a prefix that is joined with one row of a branch."""
READ_ROW: Final = 4.0
"""Nanoseconds of a row of a shared prefix that is read again."""
FOUND_ROW: Final = 8.0
"""Nanoseconds of a row of a shared prefix that is searched in an atom."""

# A kernel call on numbers that are known.

CANDIDATE: Final = 1
"""Nanoseconds of a value that is proposed, or tested by a mark (`kernels`)."""
SEARCH: Final = 30
"""Nanoseconds of a value that is searched without marks (`kernels`)."""
RANK: Final = 2
"""Nanoseconds of a value that is searched by ranks."""
WRITTEN_PREFIX: Final = 30
"""Nanoseconds of a prefix that is written (`kernels`)."""
COUNTED_PREFIX: Final = 20
"""Nanoseconds of a prefix whose remaining steps are counted."""
SORTED_PREFIX: Final = 15
"""Nanoseconds of a prefix that is sorted (`rows`)."""
PARTED_PREFIX: Final = 10
"""Nanoseconds of a prefix, in each part of the steps that do not depend on each other."""
MERGED_PREFIX: Final = 80
"""Nanoseconds of a prefix that is merged with equal ones."""
SEED: Final = 15
"""Nanoseconds of a changed row that is read."""
LOCATED_SEED: Final = 25
"""Nanoseconds of a changed row that is located in a batch."""

# Rows of relations.

INDEXED_ROW: Final = 64.0
"""Nanoseconds of a row of a relation that is sorted and arranged (`rows`)."""
MERGED_ROW: Final = 60
"""Nanoseconds of a row of two batches, or of two answers, that are merged (`rows`)."""
STORED_ROW: Final = 1_000
"""Nanoseconds of a new row of a loop that is evaluated from nothing."""
ITERATION: Final = 250_000
"""Nanoseconds of an iteration of such a loop that is not walked."""
LOOP_OPERATION: Final = 12.5
"""Nanoseconds of a counted operation of the kernels in such a loop."""
WALKED_VALUE: Final = 8
"""Nanoseconds of a value that a tick proposes or searches that is walked."""
STEPWISE_TICK: Final = 700_000
"""Nanoseconds of a tick that is not walked, before it looks at values; more for queries of many atoms."""
WALKED_OPERATION: Final = 50
"""Nanoseconds of a candidate or an operation of such a loop, or of its maintenance, that is walked."""
MAINTAINED_ITERATION: Final = 1_000_000
"""Nanoseconds of an iteration of a tick's maintenance of sets that is not walked, in chains and ladders."""
BEST_ITERATION: Final = 4_000_000
"""Nanoseconds of the same where a head keeps best values."""
THREAD: Final = 3 << 20
"""Nanoseconds of a further thread that takes part in a count; starting one takes time."""
