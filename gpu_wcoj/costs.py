"""Costs of elementary operations, in nanoseconds of one core: what plans, strategies and limits are compared by.

Only their ratios decide. ``make calibrate-costs`` measures them again on a machine and shows both. The names of its
measurements are in the comments; costs without one were set by hand, on the case that is named.
"""

from __future__ import annotations

from typing import Final

# A step of a delta path, for a tick of some hundred changed rows that is planned before its values are known.

PREFIX: Final = 5.6
"""A prefix at a step (`steps`)."""
WIDTH: Final = 2.0
"""An atom whose range is located for a prefix (`steps`)."""
PROPOSAL: Final = 8.0
"""A proposed value; also a changed row itself (`steps`)."""
PROBE: Final = 4.0
"""A search for a proposed value in a further atom (`steps`)."""
LOOKUP: Final = 4.0
"""A lookup in a step of its own (`steps`)."""
SINGLE: Final = 2.4
"""A prefix with its first value, at a step of one atom that is bound already.

Along foreign keys, a key that is followed by itself takes half as long as a key that is looked up."""
COPY: Final = 2.8
"""A copied value at such a step.

Further values of a prefix cost `PROPOSAL`. Copying them takes less than that, but so does an intersection for a value
of a wide range, and what is copied is still to be looked up elsewhere, one value after the other."""
OFFERED_ORDER: Final = 32.0
"""The offer of another order to a changed row.

An order is offered only if listing the rows of a changed row costs at least this much, and this much times the cost
ratio of the variant."""
BRANCH_START: Final = 16_000.0
"""The start of a branch of a bushy plan."""
GROUPED_PREFIX: Final = 12.0
"""A prefix that is grouped by what a branch reads of it."""
JOINED_ROW: Final = 12.0
"""A prefix that is joined with one row of a branch."""
READ_ROW: Final = 4.0
"""A row of a shared prefix that is read again."""
FOUND_ROW: Final = 8.0
"""A row of a shared prefix that is searched in an atom."""

# A kernel call on numbers that are known.

CANDIDATE: Final = 1
"""A value that is proposed, or tested by a mark (`kernels`)."""
SEARCH: Final = 30
"""A value that is searched without marks (`kernels`)."""
RANK: Final = 2
"""A value that is searched by ranks (`kernels`)."""
WRITTEN_PREFIX: Final = 30
"""A prefix that is written (`kernels`)."""
COUNTED_PREFIX: Final = 20
"""A prefix whose remaining steps are counted (`kernels`)."""
SORTED_PREFIX: Final = 15
"""A prefix that is sorted (`rows`)."""
PARTED_PREFIX: Final = 10
"""A prefix, in each part of the steps that do not depend on each other."""
MERGED_PREFIX: Final = 80
"""A prefix that is merged with equal ones (`rows`)."""
SEED: Final = 15
"""A changed row that is read (`kernels`)."""
LOCATED_SEED: Final = 25
"""A changed row that is located in a batch (`kernels`)."""

# Rows of relations.

INDEXED_ROW: Final = 64.0
"""A row of a relation that is sorted and arranged (`rows`)."""
MERGED_ROW: Final = 60
"""A row of two batches, or of two answers, that are merged (`rows`)."""
STORED_ROW: Final = 1_000
"""A new row of a loop that is evaluated from nothing (`closures`)."""
ITERATION: Final = 250_000
"""An iteration of such a loop that is not walked (`closures`)."""
LOOP_OPERATION: Final = 12.5
"""A counted operation of the kernels in such a loop (`closures`)."""
WALKED_OPERATION: Final = 50
"""A candidate or an operation of such a loop, or of its maintenance, that is walked (`closures`)."""
MAINTAINED_ITERATION: Final = 1_000_000
"""An iteration of a tick's maintenance of sets that is not walked, in chains and ladders of small rows."""
BEST_ITERATION: Final = 4_000_000
"""The same where a head keeps best values."""
THREAD: Final = 3 << 20
"""A further thread that takes part in a count; starting one takes time."""
