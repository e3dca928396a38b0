"""Records by which a query and a state are described to the kernel that walks delta paths.

A record is a row of a matrix of int64; the constants here are its columns. A context holds the addresses of all
matrices and arrays, and what a call leaves for the next one. See `cpu_fallback.walk`.
"""

from __future__ import annotations

import numpy as np

(
    ARRANGEMENTS, SLOTS, ATOMS, ATOM_VARIABLES, MAX_DEPTH, CURSORS, STRIDE, VARIABLES, PATHS, NODES, USES, CHILDREN,
    CHECKS, TERMS, LISTS, BUFFERS, SEGMENTS, EXCLUDED, WORK, SUMS, MAGNITUDES, HEAD, N_HEAD, OUT, OUT_CAPACITY,
    OUT_SIZE, TOTALS, WEIGHTED, PATH, PATH_END, SEED, NODE, ACTION, RESULT, STAMP, BUDGET, NEEDED, RELATIONS, ORDER,
    SPARE, IDENTITY, COLUMNS, FILTERS, FILTER_SPANS, DELETED, INSERTED, N_ARRANGEMENTS, N_NODES, TOTAL_WORK,
    WORK_DONE, OUT_START, N_RELATIONS, WAY, CONTEXT,
) = range(54)  # fmt: skip
"""The context: addresses; MAX_DEPTH of atoms; STRIDE, sources of an atom at most; N_HEAD columns of the head; size and
capacity of the result; WEIGHTED, whether rows carry weights; PATH to ACTION, where the next call goes on, but
PATH_END is the number of paths that are not variants; WAY, the path or the variant of it that is walked; RESULT and
NEEDED, the buffer that must grow and its size; STAMP of the present changed row; BUDGET of candidates until the call
returns; DELETED and INSERTED, the stamps of the next changed rows; WORK_DONE, the values proposed and searched when
the last call returned; OUT_START, the rows of the result that other walks have listed before this one."""

(
    A_DEPTH, A_BATCHES, A_SLOTS, A_ROWS, A_WEIGHTS, A_SIZE, A_TICK_ROWS, A_TICK_WEIGHTS, A_TICK_STAMPS, A_TICK_BEFORE,
    A_TICK_SIZE, A_SPARE_ROWS, A_SPARE_WEIGHTS, ARRANGEMENT,
) = range(14)  # fmt: skip
"""An arrangement: its depth, number of batches and first slot (batch b, level d: slot + b * depth + d); the rows,
weights and size of its memtable; rows, weights, stamps, weights before and size of this tick's rows; spare memory."""

ATOM_ARRANGEMENT, ATOM_AFTER, ATOM_CURSORS, ATOM = range(4)
"""An atom of a path: its arrangement; 1 if it sees the changed row itself; its first cursor."""

(
    P_SEED, P_WIDTH, P_FIRST_ATOM, P_END_ATOM, P_FIRST_USE, P_END_USE, P_FIRST_CHECK, P_END_CHECK, P_FIRST_CHILD,
    P_END_CHILD, P_NEGATED, P_ROOT, P_EMITS, P_FIRST_LIST, P_END_LIST, P_ATOM, P_SORTED, P_FIRST_VARIANT,
    P_END_VARIANT, PATH_FIELDS,
) = range(20)  # fmt: skip
"""A path: the arrangement and width of its changed rows; its atoms; the uses and checks that a changed row binds; the
first steps; whether a negated atom starts it; its root among the steps; whether it lists rows; the lists that become
out of date with a changed row; the atom that names the changed row's variables; the variables whose values are sorted
for the head, if the body does not tell them apart; the paths that bind its variables in other orders."""

(
    N_VARIABLE, N_LOOKUP, N_FIRST_USE, N_END_USE, N_FIRST_CONDITION, N_END_CONDITION, N_FIRST_CHECK, N_END_CHECK,
    N_PARENT, N_FIRST_CHILD, N_END_CHILD, N_LIST, N_BUFFER, N_MODE, N_COUNTS, N_FIRST_LIST, N_END_LIST, N_SUMMED,
    N_ENDS_ROWS, NODE_FIELDS,
) = range(20)  # fmt: skip
"""A step: its variable, whether that is bound already; its atoms, conditions and checks; its parent and children; the
list that it starts from, or -1; the buffer of its candidates; its mode; whether it is counted without candidates; the
lists that become out of date with its value; 1 + the use of its only child that is not listed, if all its values are
summed at once, else 0; whether each value ends a row of the result without any check."""

U_ATOM, U_LEVEL, U_LAST, U_LISTED, U_UNITED, USE = range(6)
"""The use of an atom by a step: the level that it binds; whether that is the last one; whether the step's list is made
from it; whether it belongs to the same factor as the use before."""
K_KIND, K_OP, K_LEFT, K_RIGHT, K_CONSTANT, K_ARRANGEMENT, K_AFTER, K_FIRST_TERM, K_ATOM, CHECK = range(10)
"""A check: a comparison of a variable with a variable or, if that is -1, a constant; or a negated atom (KIND 1)."""
L_FIRST_USE, L_END_USE, L_BASE, L_BUFFER, LIST = range(5)
"""A list of common values: the atoms, the list that it starts from or -1, its buffer."""
(
    B_VALUES, B_WEIGHTS, B_CAPACITY, B_SIZE, B_PLAIN, B_VALID, B_POSITION, B_BITS, B_WORDS, B_BASE, B_MARKED, B_SUMMED,
    BUFFER,
) = range(13)  # fmt: skip
"""A buffer: ascending values and their weights (all 1 if PLAIN), followed by as much scratch memory; whether it is up
to date; the next candidate; a bit per value above BASE, if MARKED; whether its values are summed at once, 0 before that
is known, -1 if not."""
S_ADDRESS, S_WIDTH, S_STRIDE, S_LOW, S_HIGH, S_SLOT, S_START, S_WEIGHTS, S_STAMPS, S_LIMIT, S_BUFFER, SEGMENT = range(
    12
)
"""A segment: ascending values of one source, of WIDTH bytes, STRIDE apart; its slot and start of ranks, or -1; its
weights and stamps, 0 without; the stamp from which rows are not seen; its buffer, or -1."""

SUM, ENUMERATE, EMIT = range(3)
"""Modes of a step: its values are summed; enumerated; enumerated, and each is a row of the result."""
EQ, NE, LT, LE, GT, GE = range(6)
"""Comparisons."""
DONE, FULL, GROW, PAUSED, CALLED, LARGE, UNREADABLE = range(7)
"""Results of a call: all is done; the result must be taken; a buffer must grow; the budget is used up; the caller
evaluates a head; a weight might leave int64; rows of Arrow have nulls."""
RUN_TICK, BEGIN_TICK, RECEIVE, WALK, DERIVE, CONSOLIDATE, MERGE = range(7)
"""What a call of the kernel of small ticks does."""
START, ENTER, NEXT, RETURNED, EMITTING, BEGIN = range(6)
"""What is next: a changed row; a step; a candidate of a step; what follows a value; a row of the result; the first
row of a tick."""

(
    R_WIDTH, R_ATOM, R_FIRST, R_END, R_ROWS, R_WEIGHTS, R_SIZE, R_CHANGED, R_CHANGES, R_BEFORE, R_STAMPS, R_N_CHANGED,
    R_PLACES, R_ARROW, R_LARGEST, RELATION,
) = range(16)  # fmt: skip
"""A relation: its width; an atom that reads it in full; its arrangements; rows and weights that it receives; its
changed rows, their weights, weights before and stamps. PLACES is 0, or the address of an address and a stride in bytes
per column and for the weights, from which the rows are copied first; weights at address 0 are all 1. ARROW is 0, or the
address of an ArrowArray of Arrow's C data interface, from whose children the places are taken. LARGEST is a float64: no
row has a weight of a larger magnitude, in bags."""
F_OP, F_LEFT, F_RIGHT, F_CONSTANT, FILTER = range(5)
"""A comparison that the rows of an arrangement pass: of a column with a column or, if that is -1, a constant."""
(
    T_CONTEXT, T_INPUTS, T_N_INPUTS, T_MODE, T_CAPACITY, T_TARGET, T_HEADS, T_N_HEADS, T_HEAD, T_STAGE, T_FLAGS,
    T_READS, T_WALKS, T_ATOMS, T_BUDGET, T_SPARE_ROWS, T_NUMBERS, T_N_ROWS, T_N_GONE, T_N_CHANGED, T_LARGEST,
    TICK,
) = range(22)  # fmt: skip
"""A tick: the context of its state; the relations that are passed rows, how they are read, and how many rows they may
be passed; the records of the arrangements after the tick; its heads, the next one (-1 at the beginning) and what is
next of it; a flag per relation and then per head, whether it has changed; the flags that the heads read, their walks
and atoms; the budget of a walk; memory in which listed rows are sorted; the listed rows of the present head, and how
many of them are deleted; the changed rows of all inputs; the rows of the largest memtable after the tick."""
(
    H_KIND, H_FIRST_READ, H_END_READ, H_FIRST_WALK, H_END_WALK, H_WALK, H_RELATION, H_DERIVATIONS, H_RESULT, H_DELETED,
    H_INSERTED, H_MAGNITUDE, H_WORK, H_OBSERVED, H_ROWS, H_RECORD,
) = range(16)  # fmt: skip
"""A head of a tick: its kind; the flags that it reads; its walks, one a rule, and the next of them; the relations that
keep its rows and their numbers of derivations, or -1; its result; numbers of deleted and inserted rows, in bags the
change of the total weight and 0; float64s: the magnitude of its weights, and the values that its walks looked at;
whether others see that it has changed; the listed rows, or the relation whose changed rows they are as -1 - number."""
W_CONTEXT, W_SHARE, W_FIRST_ATOM, W_END_ATOM, W_RECORD = range(5)
"""A walk of a tick: its context; a float64, its share of the delta paths; the relations of its positive atoms."""
H_SKIPPED, H_COUNTED, H_LISTED, H_CALLED = range(4)
"""Kinds of heads: not evaluated; its rows are counted, or listed; the caller evaluates it."""
H_UNCHANGED, H_STALE, H_DONE = range(3)
"""Results of heads: nothing that it reads has changed; it is not evaluated though that has changed; it is evaluated."""
T_BEGIN, T_WALKING, T_LISTED = range(3)
"""What is next of a head: all; the walk that has been begun; what follows once its rows are listed."""
AS_SET, AS_BAG, AS_IS = range(3)
"""Ways to read rows: operations of which the last on a row wins; weights to add; distinct rows that change."""

MARKED_A_RANK = 8
"""Values tested by bits that cost as much as one value searched by ranks."""
VARIANTS_FROM = 8
"""Values of a path's first step from which the first steps of its variants are looked at."""
USES_A_LIST = 16
"""Values of an atom per use from which they are copied into a list, whose values are then marked by bits."""
FIRST_INSERT = 1 << 40
"""Stamp of a tick's first inserted row of a set; deleted rows have smaller ones."""
MIN_SUMMED = 4
"""Values of a step from which they are summed at once."""
SUMMED_A_CALL = 1024
"""Values of a step that are summed before an interrupt is looked for."""
LARGEST_WEIGHT = 1 << 61
"""Magnitude of a weight, in rows, from which sums are left to exact arithmetic."""
MIN_INT64, MAX_INT64 = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""Least and greatest code."""
