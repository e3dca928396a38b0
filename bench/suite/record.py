"""What a run of the suite leaves: a document with one record per case and contender, written as JSON.

A *case* is a workload on one state under one stream of changes. A *contender* is what keeps the answer up to date: the
engine by one of its strategies, or a rival. A *round* feeds all ticks of a case and then takes them back; the first one
checks the answers, the others are timed.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from bench.engine.machine import write_json
from bench.suite.built import built

SCHEMA = 1
"""Of the JSON; a reader refuses another one."""

Kind = Literal["insert", "mixed", "delete"]
"""Of changes: all insert; half of them insert, half delete; four of five delete."""
How = Literal["count", "rows"]
"""Whether a tick counts the rows by which the answer changed, or hands all of them out."""
Order = Literal["generated", "degree"]
"""How vertices are numbered: as they were generated, or by ascending degree."""


@dataclass(frozen=True)
class Case:
    """A workload on one state under one stream of changes.

    Attributes
    ----------
    workload
        Its name, such as ``triangle``.
    family
        ``cyclic``, ``acyclic``, ``tpch``, ``lsqb``, ``hub``, ``arriving``, ``random``.
    data
        What the rows are made by: ``rmat`` for a skewed graph, ``uniform``, ``zipf`` for skewed keys, ``keys`` for
        foreign keys, ``hub``, ``arriving``, ``lsqb``, ``random``.
    parameters
        Of what makes them.
    seed
        Of what makes them, and of what draws the changes.
    state_rows
        Rows of all relations before the first tick.
    change_rows
        Changed rows of a tick; the most, where ticks differ. Of a graph, changed edges: a pattern that reads them both
        ways has two rows for each in its state, and one that reads them in either way three.
    how, vertex_order
        See `How` and `Order`.
    atoms, variables
        Of the query.
    cyclicity
        Of the query's graph, edges less vertices plus parts: 0 for a tree, 1 for a cycle, 6 for a 5-clique; None where
        an atom has more than two variables that are joined.
    is_acyclic
        Whether the query has a join tree.
    skew
        The mean of the squared degrees by the square of their mean, over vertices that have edges: 1 where all degrees
        are alike. None where the data is no graph.
    largest_degree
        None where the data is no graph.
    """

    workload: str
    family: str
    data: str
    parameters: Mapping[str, float]
    seed: int
    state_rows: int
    change_rows: int
    kind: Kind
    n_ticks: int
    how: How = "count"
    vertex_order: Order = "generated"
    atoms: int = 0
    variables: int = 0
    cyclicity: int | None = None
    is_acyclic: bool = False
    skew: float | None = None
    largest_degree: int | None = None

    @property
    def key(self) -> str:
        """What tells cases of a document apart, for people as well."""
        order = "" if self.vertex_order == "generated" else f", by {self.vertex_order}"
        how = "" if self.how == "count" else f", {self.how}"
        ticks = f"{self.n_ticks} tick{'' if self.n_ticks == 1 else 's'} of {self.change_rows:,} {self.kind}"
        return f"{self.workload}, {self.data}, {self.state_rows:,} rows, {ticks}{how}{order}"


@dataclass(frozen=True)
class Spread:
    """Of some values of one kind: the median, the quartiles, the ends, and how many there are."""

    median: float
    low: float
    high: float
    least: float
    most: float
    n: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None of no values.

        Examples
        --------
        >>> Spread.of([3.0, 1.0, 2.0])
        Spread(median=2.0, low=1.5, high=2.5, least=1.0, most=3.0, n=3)
        """
        if not values:
            return None
        low = high = values[0]
        if len(values) > 1:
            low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(statistics.median(values), low, high, min(values), max(values), len(values))


@dataclass(frozen=True)
class Work:
    """What a contender counted while it took the ticks of one round, all added up.

    Attributes
    ----------
    sum_of_minima
        The fewest values that an atom of a level would propose, over all prefixes; None where nothing counts it.
    proposals
        Values that were proposed.
    probes
        Searches for them, and tests of marks.
    rows
        Prefixes that survived, over all levels: of binary joins, the rows of intermediate results.
    merged_rows
        Rows that merging batches of the state read; None where nothing counts them.
    marks
        Values that were marked, so that they need not be searched for.
    """

    sum_of_minima: int | None = None
    proposals: int | None = None
    probes: int | None = None
    rows: int | None = None
    merged_rows: int | None = None
    marks: int | None = None

    @property
    def effort(self) -> int:
        """Proposals, probes and marks together.

        Examples
        --------
        >>> Work(10, 20, 30, 5, marks=7).effort
        57
        """
        return sum(one or 0 for one in (self.proposals, self.probes, self.marks))


@dataclass(frozen=True)
class Check:
    """How the answers were checked before a time was taken.

    Attributes
    ----------
    is_right
        Whether every count and hash that was compared is equal.
    by
        What the answers were compared with: ``known``, ``duckdb``, ``graphblas``, ``brute force``, or the name of
        another contender.
    count
        Rows of the answer after all ticks, where known.
    changes
        By how many rows each tick changed it.
    message
        What differed, for a wrong answer.
    """

    is_right: bool
    by: tuple[str, ...] = ()
    count: int | None = None
    changes: tuple[int, ...] = ()
    message: str | None = None


@dataclass(frozen=True)
class Record:
    """One contender at one case.

    Attributes
    ----------
    contender
        Its name in the registry.
    version
        Of the rival; None for the engine, whose version is the document's commit.
    threads
        That it may use.
    seconds
        Of its ticks in all timed rounds; None where it was stopped, or its answer was wrong.
    cpu_seconds
        Processor time of these, all threads and processes of the contender.
    undo_seconds
        Of the ticks that take a round back.
    round_cpu_seconds
        Processor time of all ticks of each timed round.
    first_cpu_seconds
        The same of the checked round, the first after the state was loaded.
    load_seconds
        From the empty state to the loaded one, indices and kept results included.
    first_only
        Whether the times are those of the checked round, since there was no time for another one.
    peak_bytes, before_bytes
        The most memory that its processes had while the state was loaded and the ticks of the first round were taken,
        and what they had before. What is asked to check the answers does not count.
    state_bytes
        That the contender says its state takes; None where it does not say.
    work
        None where nothing is counted.
    bound_rows
        The bound of Atserias, Grohe and Marx on the rows that all delta queries of one tick can have, given the sizes
        of the relations; the mean over the ticks. None where it is not asked for, or there is no pattern.
    plan_seconds
        From the text to a plan, without data; None for rivals.
    stopped
        Why it came to no end, or did not start; None where it came to one.
    unfinished_seconds
        Processor time that it had taken for the first round when it was stopped in it, or on the way back, so that a
        whole round takes at least as much; None where it was not.
    """

    case: Case
    contender: str
    threads: int = 1
    version: str | None = None
    seconds: Spread | None = None
    cpu_seconds: Spread | None = None
    undo_seconds: Spread | None = None
    round_cpu_seconds: tuple[float, ...] = ()
    first_cpu_seconds: float | None = None
    load_seconds: float | None = None
    first_only: bool = False
    peak_bytes: int | None = None
    before_bytes: int | None = None
    state_bytes: int | None = None
    work: Work | None = None
    bound_rows: float | None = None
    plan_seconds: float | None = None
    check: Check | None = None
    stopped: str | None = None
    unfinished_seconds: float | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """The engine's strategies on one case, their ticks taken in turn: A B C, B C A and so on; see `bench.suite.again`.

    Attributes
    ----------
    cpu_seconds
        Per strategy, processor time of each round.
    work
        Per strategy.
    ratio
        Auto's median processor time of a round by the lesser of those of the other two; by the only one of them that
        came to an end, if one was stopped. None where auto was, or both were.
    work_ratio
        The same of counted work: proposals, probes and marks together.
    """

    case: Case
    cpu_seconds: Mapping[str, tuple[float, ...]]
    work: Mapping[str, Work]
    ratio: float | None
    work_ratio: float | None
    check: Check | None = None
    stopped: Mapping[str, str] = field(default_factory=dict)

    @property
    def fastest_ratio(self) -> float | None:
        """The same of the fastest rounds, which what else a machine does disturbs least.

        Examples
        --------
        >>> case = Case("triangle", "cyclic", "rmat", {}, 1, 100, 1, "insert", 1)
        >>> Comparison(case, {"wcoj": (2.0, 3.0), "binary": (9.0,), "auto": (2.2, 5.0)}, {}, 1.4, 1.0).fastest_ratio
        1.1
        """
        fastest = {name: min(rounds) for name, rounds in self.cpu_seconds.items() if rounds}
        auto = fastest.pop("auto", None)
        return auto / min(fastest.values()) if auto is not None and fastest and min(fastest.values()) else None


@dataclass(frozen=True)
class Planning:
    """How long planning takes, from the text to a plan, over all queries that were planned."""

    seconds: Spread
    queries: int
    largest_atoms: int


@dataclass(frozen=True)
class Document:
    """Everything of one run.

    Attributes
    ----------
    machine
        What `bench.engine.machine.describe` says: date, commit, processor, memory, versions.
    suite
        ``quick``, ``full`` or another name.
    seconds
        Of the whole run.
        All sessions together, where it was resumed.
    missing
        Contenders that were asked for and could not take part, and why.
    settings
        What the run was asked for; it goes on with the same only. See `bench.suite.store`.
    planned
        The names of all cases that it was to take, random queries among them; none in a document that was written
        before they were kept.
    done
        Of these, the ones whose records are here, with the seconds that each took.
    ended
        Why it stopped before the last case; None where it did not.
    resumed
        When it went on, each time that it did.
    """

    machine: Mapping[str, Any]
    suite: str
    seed: int
    records: tuple[Record, ...]
    comparisons: tuple[Comparison, ...] = ()
    planning: Planning | None = None
    seconds: float = 0.0
    missing: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA
    settings: Mapping[str, Any] = field(default_factory=dict)
    planned: tuple[str, ...] = ()
    done: Mapping[str, float] = field(default_factory=dict)
    ended: str | None = None
    resumed: tuple[str, ...] = ()

    @property
    def left_out(self) -> tuple[str, ...]:
        """The planned cases that are not here, in their order."""
        return tuple(name for name in self.planned if name not in self.done)

    def write(self, path: Path) -> None:
        """Write it as JSON: whoever reads the path finds this document or the one before."""
        write_json(path, asdict(self))

    @classmethod
    def read(cls, path: Path) -> Document:
        """What `write` wrote.

        Raises
        ------
        ValueError
            If it is of another schema.
        """
        found = json.loads(path.read_text())
        if found.get("schema") != SCHEMA:
            raise ValueError(
                f"{path} is of schema {found.get('schema')}, and this reads schema {SCHEMA}: run it again."
            )
        return built(cls, found)
