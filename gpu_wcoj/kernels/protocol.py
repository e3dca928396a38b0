"""Signatures and specification of the kernels, which every backend and the reference follow.

Terms: a *trie* of depth D is ``values[0..D-1]`` and ``offsets[0..D-2]``; the children of ``values[d][i]`` are
``values[d + 1][offsets[d][i] : offsets[d][i + 1]]``, ascending. Row i of a trie is the path to ``values[D-1][i]``.
Codes are int64; a level is stored as int32 where all its codes fit. Sums of weights are taken modulo 2^64: the sum
is exact whenever the exact one fits int64, which the caller knows or checks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
CodeArray = npt.NDArray[np.int64] | npt.NDArray[np.int32]
IndexArray = npt.NDArray[np.intp]
UInt64Array = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]
Trie = tuple[Sequence[CodeArray], Sequence[Int64Array], Int64Array | None]
"""(values, offsets, weights); weights None: all are 1."""

SUM_OF_MINIMA, PROPOSALS, PROBES, MARKS, SURVIVORS, RANKED, N_WORK = range(7)
"""Elements of a `work` array, and their number.

Smallest counts summed over prefixes, candidates proposed, searches and mark tests, values marked for a group of
prefixes, candidates that survived, and searches by rank, which take a few loads."""


@dataclass(frozen=True, eq=False, slots=True)
class Level:
    """One level of one batch, as kernels see it.

    Attributes
    ----------
    values
        int32 or int64, the sorted runs of values.
    parent_offsets
        int64, the runs of values by node of the level above; None at the top level, which is one run.
    weights
        int64, at the last level only; None if all are 1 or the level is not the last.
    record, support
        The result of `Kernels.describe`: a record, and arrays to keep alive, to which `Kernels.prepare` may add.
    """

    values: CodeArray
    parent_offsets: Int64Array | None
    weights: Int64Array | None
    record: Any
    support: Any


class MergeInParts(Protocol):
    """A merge of two tries whose work is done in instalments.

    Instalments change nothing but what is private to the merge, so the tries can be read all the time. An instalment
    that fails can be asked for again.

    Attributes
    ----------
    n_rows
        Rows of both tries: the instalments up to this number do all the work.
    """

    n_rows: int

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that are private to the merge, written or not."""
        ...

    def advance(self, n_read: int) -> None:
        """Do the part ``n_read / n_rows`` of the work; nothing if that is done already.

        O(n_read) with all earlier instalments together, also where thousands of rows have one parent. A caller at a
        time.
        """
        ...

    def result(self) -> tuple[Trie, Sequence[tuple[Any, Any]], tuple[int, int]]:
        """Return the merged trie after the last instalment.

        Returns
        -------
        trie : that of `Kernels.merge_tries`
        described : per level, what `Kernels.describe` returns, and what `Kernels.prepare` adds if it had added to the
            level of a source before all rows were merged; empty if the trie is empty or was not to be described
        extreme weights : the largest magnitude of a weight, 1 for an empty trie; the number of negative weights
        """
        ...


Choice = tuple[Int64Array, Sequence[Sequence[tuple[int, Int64Array]]]]
"""An alternative next step of n prefixes: positions, int64 of shape (rows, n), and atoms.

Per atom and batch of it: a row of the positions, and the offsets that delimit the children of its nodes."""


(LOAD, BIND, SEEK, COPY, COMPARE, CALCULATE, ABSENT, EMIT) = range(8)  # fmt: skip
"""Codes of the operations of a walk; see `Walks`."""

COMPARISONS = ("<", "<=", "=", "!=", ">=", ">")
"""Comparisons in the order of their numbers in a walk."""

OPERATORS = ("+", "-", "*", "/", "%", "abs")
"""Operators of integers in the order of their numbers in a walk; see `gpu_wcoj.functions`."""

DROP, FAIL, WRAP = range(3)
"""Effects of a calculation that fails: the binding is dropped; it is dropped and reported; the code that follows from
the arguments is used."""

FIXPOINT, PAUSED, WIDE, LIMIT, WRONG = range(5)
"""Results of a run over the rows of a loop.

Nothing is left to derive; the budget was used up, and another call continues; another way is cheaper; the limit of
iterations was reached; a row has fewer than no derivations, which is an internal error."""


@dataclass(frozen=True, eq=False, slots=True)
class Walks:
    """Delta paths of a loop's rules as a table of operations, for one row at a time.

    Each operation is its code, the offset of the next operation, the offset of the last `BIND` before it in its walk or
    -1, and its own fields. An operation that fails returns to that `BIND`, which goes on with its next candidate. Bound
    variables and constants are in registers. Each batch of an atom has a place that holds the position reached in it.

    LOAD n (position, register)*
        Load columns of the row; position 0 is the number of the row's head.
    BIND register cursor counter n_bounds n_atoms bounds_offset atom* (comparison, register)*
        Bind each value that all atoms hold and that satisfies all bounds. An atom is its number of batches, 1 if this
        is its last level and else 0, and per batch its level, the place of the level above (-1 at the top), and the
        place to fill. The atom with the fewest values proposes.
    SEEK register counter atom
        Look up a value; fail if the atom does not hold it.
    COPY register source
    COMPARE comparison left right
        Fail unless the comparison holds.
    CALCULATE register operator left right effect
        Calculate, with an effect of failure; "abs" does not read its right register.
    ABSENT n_terms n_batches register* level*
        Fail if a relation holds the row of the registers; the levels of each batch follow each other.
    EMIT target n_columns register*
        Emit a row.

    A row is present in an atom if the sum of its weights over all batches is not 0; as relations are sets, that is 1.

    Attributes
    ----------
    operations
        int64.
    level_offsets
        The offsets in `operations` at which there are numbers of `levels`.
    registers
        int64, the initial registers; constants are in some of them.
    n_places, n_cursors, n_counters
        Numbers of places, of `BIND` operations, and of rows of counters.
    widths
        Per head, its number of columns.
    starts
        Per head, the offsets of the walks that begin with its rows and emit derived rows: the number of their head as
        target, then their columns.
    inverse
        Per head, the offsets of the walks from its rows to their derivations. These emit the rank of the row of the
        loop that is joined, -1 if there is none.
    """

    operations: Int64Array
    level_offsets: Int64Array
    levels: Sequence[Level]
    registers: Int64Array
    n_places: int
    n_cursors: int
    n_counters: int
    widths: Sequence[int]
    starts: Sequence[Sequence[int]]
    inverse: Sequence[Sequence[int]]


class LoopRun(Protocol):
    """A run of walks, row at a time. Its calls return regularly, so that an interrupt is seen.

    Attributes
    ----------
    work
        int64, shape (n_counters, N_WORK), of all operations so far.
    failed
        Per walk of `starts`, then of `inverse`, whether a calculation with effect `FAIL` has failed.
    """

    work: Int64Array
    failed: BoolArray


class Fixpoint(LoopRun, Protocol):
    """Rows of a loop's heads from its empty state on, with the iteration of each, its rank.

    A head without order is a set: a row has the first iteration that derives it. A head with an order keeps the best
    value of the last column for each group of the other columns: the best value of an iteration is a row of that
    iteration, if it is better than all before.

    Attributes
    ----------
    rank
        The rank of the last rows.
    bounds
        The first one of these, and the number of rows up to the last one.
    """

    rank: int
    bounds: tuple[int, int]

    def add(self, head: int, columns: Sequence[Int64Array], rank: int) -> None:
        """Add distinct rows of one head, before the first `run`.

        Ranks do not decrease from call to call; the rows of the last one are extended.
        """
        ...

    def run(self, max_rank: int, max_frontier: int, max_work: int, budget: int) -> int:
        """Derive iterations of rows and return the result.

        O(1) expected a row, and a search of each atom a candidate.

        Parameters
        ----------
        max_rank
            Rank of the rows at which the result is `LIMIT`.
        max_frontier
            Rows of an iteration above which the result is `WIDE`.
        max_work
            Candidates and operations of an iteration above which the result is `WIDE`, and its rows are dropped.
        budget
            Candidates and operations after which the result is `PAUSED`, 2 or more.
        """
        ...

    def rows(self, begin: int, end: int) -> tuple[Int64Array, Int64Array]:
        """Return rows in the order of their ranks, and the ranks.

        A row is the number of its head and its columns, with undefined columns up to the largest width.
        """
        ...


class Maintenance(LoopRun, Protocol):
    """Changes of the rows of a filled loop of sets, iteration by iteration.

    See `gpu_wcoj.circuit.recursion`.

    Attributes
    ----------
    iterations
        Number of iterations so far.
    spent
        Candidates and operations so far, and rows that were decided.
    """

    iterations: int
    spent: int

    def add(self, head: int, columns: Sequence[Int64Array], iterations: Int64Array, weights: Int64Array) -> None:
        """Store derivations of rows of one head at their iterations, before the first `run`.

        No weight is 0; rows may repeat.
        """
        ...

    def run(self, max_iterations: int, max_derived: int, budget: int) -> int:
        """Maintain iterations and return the result.

        At one of these limits it is `LIMIT`, `WIDE` or `PAUSED`.
        """
        ...

    def entries(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return the rows that changed, as in `Fixpoint.rows`, their iterations and signs."""
        ...


class Kernels(Protocol):
    """The operations of a backend.

    Arrays go in and out on the backend's device; they are not modified unless stated.

    Attributes
    ----------
    measures_ranges
        Whether `count_common` reads no values of a single atom without weights and bounds.
    walker
        The kernels of small ticks; None where rows are not in the host's memory or there is no machine code.
    begin_merge
        Begins the merge of two tries with one or more rows each, in O(1): the result is that of `merge_tries`. Its
        memory is allocated, but not written. The levels of one of the tries describe it; with none, the result will
        have no description. None where all merges are done at once.
    walked_rows
        Rows of an iteration up to which a loop is cheaper row at a time; 0 without `fixpoint` and `maintenance`.
    """

    name: str
    measures_ranges: bool
    walker: WalkKernels | None
    begin_merge: Callable[[Trie, Trie, Sequence[Level]], MergeInParts] | None
    walked_rows: int

    def lexsort(self, columns: Sequence[Int64Array]) -> IndexArray:
        """Return the stable order that sorts rows by the first column, then the second, ...

        One or more columns of shape (n,). O(n log n), one sort where the columns' ranges pack into one key.
        """
        ...

    def run_starts(self, columns: Sequence[Int64Array]) -> IndexArray:
        """Return the positions at which a row differs from the one before it; the first is 0.

        Empty for no rows. O(n).
        """
        ...

    def distinct_rows(self, columns: Sequence[Int64Array]) -> list[Int64Array]:
        """Return the distinct rows, sorted.

        O(n log n); O(n) where they are sorted and distinct already.
        """
        ...

    def consolidate(self, columns: Sequence[Int64Array], weights: Int64Array) -> tuple[list[Int64Array], Int64Array]:
        """Sort rows, add the weights of equal ones modulo 2^64, drop rows of weight 0. O(n log n)."""
        ...

    def held_rows(self, masks: Sequence[BoolArray]) -> list[IndexArray]:
        """Return per mask the rows where it is true, ascending. O(n)."""
        ...

    def segment_sums(self, values: Int64Array, starts: IndexArray) -> Int64Array:
        """Return the exact sums of the runs of `values` that begin at `starts`. O(n).

        Parameters
        ----------
        values
            int64, shape (n,).
        starts
            np.intp, shape (s,): ascending without repeats, the first 0; each run ends where the next one begins, the
            last one at n. Empty where `values` is.

        Returns
        -------
        int64, shape (s,).

        Raises
        ------
        OverflowError
            If a sum is outside int64, whatever the order of adding; it names the first such run.
        """
        ...

    def exclusive_sum(self, counts: Int64Array) -> Int64Array:
        """Return the sums before each element, and of all, modulo 2^64. O(n).

        int64, shape (n + 1,).
        """
        ...

    def hash_rows(self, columns: Sequence[Int64Array]) -> UInt64Array:
        """Return a hash of each row, with the same bits on every backend and in every process. O(n).

        uint64, shape (n,), calculated modulo 2^64: h is 0 at first; for each column's code c, from the first column to
        the last, h becomes mix((h xor c) + 0x9E3779B97F4A7C15). mix(z) is the finaliser of SplitMix64: z ^= z >> 30,
        z *= 0xBF58476D1CE4E5B9, z ^= z >> 27, z *= 0x94D049BB133111EB, z ^= z >> 31. It spreads rows over partitions:
        rows that differ in one column only never have the same hash.
        """
        ...

    def build_levels(self, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
        """Return values and offsets of the trie of sorted distinct rows, one column a level. O(n)."""
        ...

    def index_rows(self, columns: Sequence[Int64Array]) -> tuple[list[CodeArray], list[Int64Array]]:
        """Return values and offsets of the trie of the distinct rows, from rows in any order.

        O(n log n).
        """
        ...

    def rearrange(
        self, parts: Sequence[tuple[Sequence[CodeArray], Sequence[Int64Array]]], order: Sequence[int],
        tags: Sequence[int] = (),
    ) -> tuple[list[CodeArray], list[Int64Array]]:  # fmt: skip
        """Return the trie of the rows of several tries in another order of their columns.

        The result is values and offsets.

        Parameters
        ----------
        parts
            Values and offsets of one or more tries of one depth, without common rows.
        order
            The column of the parts that each level holds.
        tags
            One a trie, or none. If there are some, each row has that of its trie as one more level below it, whose
            offsets, 0 to the number of rows, are left out.

        Notes
        -----
        O(n log n).
        """
        ...

    def expand_columns(self, values: Sequence[CodeArray], offsets: Sequence[Int64Array]) -> list[Int64Array]:
        """Return the sorted rows of a trie, one int64 column a level. O(n).

        The inverse of `build_levels`.
        """
        ...

    def describe(
        self, values: CodeArray, parent_offsets: Int64Array | None, weights: Int64Array | None
    ) -> tuple[Any, Any]:
        """Return this backend's description of a level: (record, arrays to keep alive). O(n).

        It is called once a batch.
        """
        ...

    def bytes_beside(self, level: Level) -> int:
        """Return the bytes that `describe` and `prepare` have made of a level so far. O(1).

        The level's own arrays are not counted.
        """
        ...

    def merge_tries(self, left: Trie, right: Trie) -> tuple[list[CodeArray], list[Int64Array], Int64Array | None]:
        """Return the trie of all rows of both tries.

        Weights of equal rows add modulo 2^64; rows of weight 0 and nodes without children are dropped. A merge of
        sorted runs, never a sort: O(n + m), with runs without a counterpart copied as blocks.
        """
        ...

    def locate(
        self, records: Sequence[Sequence[Any]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """Descend each trie t by its first ``len(records[t])`` levels for every row of `columns`.

        Parameters
        ----------
        records
            Per trie, the records of the levels to descend.
        column_of
            Per trie, the row of `columns` that holds the values of each of these levels.
        columns
            int64, shape (c, n).

        Returns
        -------
        int64 of shape (number of tries, n): the position in the last level descended, -1 where the path is absent.
        O(log) a level and row; O(1) expected at top levels whose codes are dense.
        """
        ...

    def weights_of(
        self, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """Return per row the sum of its weights in all tries, modulo 2^64.

        int64, shape (n,), 0 for rows that no trie holds. Arguments are those of `count_children`, except that all
        levels are descended, and the last one is a trie's last.
        """
        ...

    def count_children(
        self, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], columns: Int64Array
    ) -> Int64Array:
        """Return the number of values of each trie's last level below all rows.

        Each trie is descended by all of these levels but the last.

        Parameters
        ----------
        levels
            Per trie, two or more.
        column_of
            Per trie, the row of `columns` that holds the values of each level but the last.
        columns
            int64, shape (c, n).

        Returns
        -------
        int64 of shape (number of tries,). Rows that a trie does not hold have nothing below them. O(log) a level and
        row.
        """
        ...

    def widths(
        self, levels: Sequence[Level], rows: Sequence[int], positions: Int64Array, lower: Int64Array, upper: Int64Array
    ) -> Int64Array:
        """Return the number of an atom's values below each prefix, added up over its batches.

        Parameters
        ----------
        levels
            One a batch.
        rows
            Per level, the row of `positions` that holds the parents; any integer at top levels.
        positions
            int64, shape (r, n), -1 for absent.
        lower, upper
            int64, shape (n,): least and greatest counted value, inclusive; empty if all count.

        Returns
        -------
        int64, shape (n,). O(1) a batch and prefix, O(log) with bounds.
        """
        ...

    def narrowest(self, choices: Sequence[Choice]) -> IndexArray:
        """Return per prefix the first of the choices that propose the fewest values for it.

        int64, shape (n,). An atom proposes as many values as there are children below its batches' positions, none
        below -1, added up; a choice as many as its narrowest atom. A choice without atoms proposes the most. There is
        at least one choice. O(1) a batch and prefix.
        """
        ...

    def extend_seeds(
        self, levels: Sequence[Sequence[Level]], column_of: Sequence[Sequence[int]], first: Sequence[int],
        columns: Int64Array, fill: bool, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """Run `locate`, `count_common` and `fill_common` in one call, for a few rows.

        All levels but the last are descended; the result is the values of the last level that all atoms hold. For sets,
        whose atoms end there: every sum of weights is 0 or 1.

        Parameters
        ----------
        levels
            Per slot, all levels of its batch.
        column_of
            Per slot, the row of `columns` for each level but the last.
        first
            Atom a has slots ``first[a]`` to ``first[a + 1]``.
        columns
            int64, shape (c, n), n at least 1.
        fill
            Whether to return the values, or only their number.

        Returns
        -------
        counts : int64, shape (n,), 0 for rows that some atom does not hold
        matches : int64, shape (2, m), the row and the value of each survivor; m is 0 without `fill`
        """
        ...

    def prepare(
        self, levels: Sequence[Level], first: Sequence[int], last: Sequence[bool], shared: Sequence[bool],
        rows: Sequence[int], out_rows: Sequence[int], sought: bool = False,
    ) -> Any:  # fmt: skip
        """Describe the extenders of one variable for `count_common` and `fill_common`.

        Slot k is one batch of one atom; atom a has slots ``first[a]`` to ``first[a + 1]``.

        Parameters
        ----------
        levels
            Per slot, the level that holds the variable.
        last
            Per atom, whether the variable is its last one: weights count, and rows whose weights cancel do not survive.
        shared
            Per atom, whether its range does not depend on the variable bound last; prefixes that agree on the other
            variables should be together. A hint: it changes the work, never results.
        rows
            Per slot, the row of the positions matrix with the prefixes' positions in the level above; -1 at the top.
        out_rows
            Per slot, the row of the output positions matrix; -1 if the atom ends here.
        sought
            Whether every prefix looks up one value, which is both of its bounds and may be excluded. A hint, too.
        """
        ...

    def count_common(
        self, extension: Any, positions: Int64Array, begin: int, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array, work: Int64Array,
    ) -> Int64Array:  # fmt: skip
        """Return for prefixes `begin` to `end` the sum of the weights of the values in all atoms.

        Parameters
        ----------
        extension
            From `prepare`.
        positions
            int64, shape (rows, n): the position of each prefix in each batch, -1 for absent.
        lower, upper
            int64, shape (n,): least and greatest value allowed, inclusive; both of shape (0,) for no bounds.
        excluded
            int64, shape (e, n): values not allowed.
        work
            int64, shape (N_WORK,): added to.

        Returns
        -------
        int64, shape (end - begin,): products over atoms of their weights, summed modulo 2^64; an atom's weight is the
        sum over its batches at its last level, 1 before that.

        Notes
        -----
        Each prefix is extended through the atom with the smallest range, or through values marked for a group of
        prefixes where that looks at no more than a constant times as many candidates: O(sum of minima) candidates,
        each with a search a batch of every other atom.
        """
        ...

    def fill_common(
        self, extension: Any, positions: Int64Array, resume: Int64Array, end: int,
        lower: Int64Array, upper: Int64Array, excluded: Int64Array,
        weights: Int64Array | None, weighted: bool, capacity: int, n_out_rows: int, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array, Int64Array | None, Int64Array]:  # fmt: skip
        """Return the survivors of `count_common`, up to `capacity` of them.

        Parameters
        ----------
        resume
            int64, shape (3,): (first prefix, 0, 0) at first. On return, where the next call continues, also inside one
            prefix; ``resume[0] == end`` when all is done.
        weights
            int64, shape (n,), the prefixes' weights; None if all are 1.
        weighted
            Whether to return weights.
        capacity
            Rows to return at most, at least 1.
        n_out_rows
            Rows of the output positions matrix.

        Returns
        -------
        parent : int64 (m,), the prefix of each survivor, ascending
        value : int64 (m,)
        weight : int64 (m,) modulo 2^64, or None
        positions : int64 (n_out_rows, m), of each survivor in the batches of unfinished atoms
        """
        ...

    def fresh_values(
        self, levels: Sequence[Level], positions: Int64Array, starts: Int64Array,
        known: Sequence[Level], known_positions: Int64Array, work: Int64Array,
    ) -> tuple[Int64Array, Int64Array]:  # fmt: skip
        """Return per group of prefixes the values below some prefix of it that are new to the group.

        For sets: weights are not read.

        Parameters
        ----------
        levels
            Per batch, one or more, the level that holds the values.
        positions
            int64, shape (len(levels), n): the position of each prefix in the level above, -1 for absent. All values of
            a top level are below every prefix.
        starts
            int64, shape (g + 1,): group i is the prefixes from ``starts[i]`` to ``starts[i + 1]``; the first is 0,
            the last n.
        known
            Per batch, the level that holds the known values; there may be no batch.
        known_positions
            int64, shape (len(known), g): the position of each group in the level above, as in `positions`.
        work
            int64, shape (N_WORK,): added to. Every value below a prefix is proposed; the returned ones survive.

        Returns
        -------
        offsets : int64, shape (g + 1,)
        values : int64, those of group i from ``offsets[i]`` to ``offsets[i + 1]``, ascending and distinct

        Notes
        -----
        O(1) expected for a value that is proposed, and a sort of the distinct ones of a group where they are sparse;
        known values cost no more than the proposed ones, times a logarithm. Memory besides the result does not
        grow with the number of values proposed.
        """
        ...

    def fixpoint(self, walks: Walks, orders: Sequence[int]) -> Fixpoint:
        """Return a fixpoint without rows.

        Parameters
        ----------
        orders
            Per head, 0 for a set, 1 if the smallest value of the last column is best, -1 if the largest one is.
        """
        ...

    def maintenance(self, walks: Walks, states: Sequence[Sequence[Sequence[Level]]]) -> Maintenance:
        """Return the maintenance of a loop without pending derivations.

        Parameters
        ----------
        states
            Per head, the levels of each batch of its rows before the tick: the columns, then the rank.
        """
        ...


class WalkKernels(Protocol):
    """The operations of small ticks: walks of delta paths over memtables and batches.

    A context is an int64 array of shape (CONTEXT,) with the addresses of a query, a state and memory to work in, and is
    passed as its address. `cpu_fallback.walk_records` has its fields and those of all other records; the reference is
    `tests/reference/walks.py`. A relation has one or
    more arrangements: its rows that pass a filter, in one order of the columns. The rows of an arrangement have three
    sources: *batches*, which are tries; a *memtable*, sorted distinct rows with weights that are not 0; and the
    *changed rows* of this tick, sorted and distinct. The weight of a row is the sum over its sources; a row of weight 0
    is not there. In a set, each sum over batches and memtable is 0 or 1.

    A changed row has a weight that is not 0, the weight of the row before the tick, and a *stamp*, its place in the
    order in which the changed rows of all relations apply, one after the other. In a set, stamps of deleted rows count
    from 0 and those of inserted rows from `FIRST_INSERT`, so that all deletions are first; in a bag, all count from
    `FIRST_INSERT`. The functions do not write to batches, and keep nothing that they allocate.
    """

    def run_tick(self, tick: int) -> int:
        """Run a tick, from the passed rows to its memtables, until the caller is needed.

        The relations in `T_INPUTS` receive their rows (`receive_rows`), and the heads follow in order. A head that
        reads no relation or head that has changed is passed over. The others are walked, one walk a rule: either to
        count rows, or to list them. Listed rows are consolidated (`consolidate_rows`); then a relation that keeps the
        rows of the head receives them, in sets with several derivations by way of their numbers (`derive_presence`).
        Last, the changed rows are merged into `T_TARGET` (`merge_memtables`).

        Parameters
        ----------
        tick
            Address of a record of shape (TICK,). `T_HEAD` is -1 for a new tick.

        Returns
        -------
        `DONE`. `UNREADABLE` if a column that was exported by Arrow may have nulls, and `LARGE` if a weight may leave
        int64: the tick is given up then. Otherwise `T_HEAD` is a head that needs the caller, who calls again when it is
        done: `CALLED` for a head that the caller evaluates, who sets its flag and `T_HEAD` to the next one; `FULL`,
        `GROW` and `PAUSED` as the walk `H_WALK` returned them. The caller may list the rows of a `FULL` head, and set
        `T_STAGE` to `T_LISTED`.

        Notes
        -----
        The records of the present memtables stay valid, so that a tick that is not committed leaves nothing behind.
        """
        ...

    def walk(self, context: int) -> int:
        """Walk the delta paths of a query from all changed rows, until the caller is needed.

        For each path, and each changed row of its first atom's arrangement: the row, of weight w and stamp t, binds the
        atom's variables. The other atoms see the batches, the memtables, and changed rows with stamps below t; atoms
        with `ATOM_AFTER`, also the one with stamp t. The walk finds each binding of the other variables for which every
        positive atom sees its row, every comparison holds, and no negated atom sees its row with a positive weight. The
        binding's weight is the product of the weights of its rows. If the first atom is negated, w is replaced: in a
        set by -w; in a bag by 1, -1 or 0, as the row stops being there (with a positive weight), begins to, or neither.

        Paths with `P_EMITS` list rows: the head's columns, and the sum of the weights of bindings that agree on the
        variables that the head keeps. Rows may repeat, in any order; weights of 0 are left out. The other paths add up
        the weights of their bindings: in a set, by the sign of the changed row's own weight, deleted rows at ``[0]`` of
        the totals and inserted rows at ``[1]``; in a bag, all at ``[0]``. Element ``[2]`` is a float64: the magnitude,
        at least the sum of the magnitudes of all bindings' weights, but for rounding.

        Parameters
        ----------
        context
            Of the query. `ACTION` is `BEGIN` for a new walk, which sets totals and result to 0 and adds the work of the
            one before to `TOTAL_WORK`. `BUDGET` is 0 or more, and each buffer has room for one value or more. No
            product of the weights of one binding leaves int64.

        Returns
        -------
        `DONE`; `FULL`, if the result has `OUT_CAPACITY` rows, which the caller takes, setting `OUT_SIZE` to 0; `GROW`,
        if the buffer `RESULT` has to have room for `NEEDED` values, its contents being out of date then; or `PAUSED`,
        if the budget of candidates is used up, which the caller renews. After all but `DONE` another call goes on. The
        sum of all results does not depend on where calls end.

        Notes
        -----
        Sums are taken modulo 2^64: the result is exact if the magnitude is within int64. A step costs the smallest of
        its atoms' ranges times a logarithm. Steps of a path that share no atom and no condition are summed apart and
        multiplied. Ranges that several values of a step have in common are intersected once, into a list of ascending
        values. `WORK` counts; a step that is begun again after `GROW` counts twice.
        """
        ...

    def begin_small_tick(self, context: int) -> None:
        """Drop the changed rows of all arrangements; begin with the first stamps. O(arrangements)."""
        ...

    def receive_rows(self, context: int, relation: int, mode: int, capacity: int) -> int:
        """Make a relation's passed rows its changed rows, in the order of each of its arrangements.

        It is called at most once a tick and relation. Rows of weight 0, also in total, are ignored. If the relation's
        record has an address in `R_PLACES`, its rows and weights are copied from there first; an address in `R_ARROW`
        is that of an ArrowArray, from which the places are taken.

        Parameters
        ----------
        mode
            `AS_SET`: operations of which the last on a row wins. A positive weight inserts the row if it is not there,
            with weight 1; a negative one deletes it if it is there, with weight -1. `AS_BAG`: the weights of equal rows
            are added. `AS_IS`: distinct rows that change by their weights; their weights before count as 0.
        capacity
            Rows that a relation may be passed, 1 or more; all of its arrays have that length.

        Returns
        -------
        The number of changed rows, `R_N_CHANGED`. -2 if a column of Arrow may have nulls. -1 if more than `capacity`
        rows are passed, or, for `AS_BAG`, if a passed weight has a magnitude of `LARGEST_WEIGHT` // `capacity` or more,
        or a changed row's weight before the tick one of `LARGEST_WEIGHT` or more; the tick is given up then.

        Notes
        -----
        The changed rows of the relation are sorted; for `AS_SET` and `AS_IS`, deleted rows are first. Stamps follow
        that order. Each arrangement has those of them that pass its filter, sorted by its own order. O(n log n) for n
        rows and each arrangement, and one search a row.
        """
        ...

    def derive_presence(self, context: int, source: int, target: int) -> int:
        """Pass to a relation the rows whose number of derivations becomes positive, or no longer is.

        The changed rows of relation `source` are numbers of derivations that change. In their order, a row whose weight
        is above 0 after the tick and was not before is passed to `target` with weight 1, one that was and is no longer
        with weight -1. Returns their number; `receive_rows` is to be called for them, with `AS_IS`. O(n).
        """
        ...

    def merge_memtables(self, context: int, target: int) -> int:
        """Merge the changed rows into new memtables; the present ones stay as they are.

        The weights of equal rows are added, and rows of weight 0 dropped. A memtable with changed rows is merged into
        the spare memory of its arrangement, which has room for all of them; in the new record, it and the present
        memory have changed places. No arrangement has changed rows in its new record.

        Parameters
        ----------
        target
            Address of the arrangements' records after the tick, as many as there are arrangements.

        Returns
        -------
        The rows of the largest new memtable

        Notes
        -----
        O(rows of the memtables of changed arrangements).
        """
        ...

    def consolidate_rows(self, context: int, spare_rows: int, order: int, spare: int) -> int:
        """Sort the rows that `walk` has listed, and add the weights of equal ones modulo 2^64.

        Rows of weight 0 are dropped. In a set, rows of negative weight come first, and `RESULT` is their number; in a
        bag, it is 0. The other arguments are addresses of memory as large as the result, and of two arrays of one int64
        a row. Returns the number of rows that are left, at the beginning of the result. O(n log n).
        """
        ...
