"""Read access to a program between ticks: its relations, their sizes, its plan."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from gpu_wcoj.backend import Backend
from gpu_wcoj.data.column import read_only
from gpu_wcoj.engine.compile import CompiledProgram, Compiler
from gpu_wcoj.engine.options import validate_flag
from gpu_wcoj.engine.state import StateStore, TickReport
from gpu_wcoj.errors import SchemaError, UnknownRelationError, UsageError, entry_point, listed
from gpu_wcoj.locks import NotCopied
from gpu_wcoj.outgoing import Emitter
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.strata import unread
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.explain.arranged import ArrangementStatistics
    from gpu_wcoj.explain.rendering import Format
    from gpu_wcoj.planner.catalog import Catalog


@entry_point
class Inspected(NotCopied):
    """The read-only interface of a program: nothing here changes an answer.

    Attributes
    ----------
    rules
        The rules as passed in.
    inputs, heads, outputs
        Relations that take rows, relations that rules define, and relations whose changes ticks return.
    bag
        True if weights are exact, as in bags.
    backend
        The backend of the state.
    """

    rules: Rules
    inputs: tuple[str, ...]
    heads: tuple[str, ...]
    outputs: tuple[str, ...]
    bag: bool
    backend: Backend
    _arity: dict[str, int]
    _measures: bool
    _lowering: Compiler
    _ledger: StateStore
    _outgoing: Emitter

    @property
    def last_tick(self) -> TickReport:
        """The report of the last tick; its arrays are read-only."""
        report = self._ledger.state.report
        for paths in (path for rules in report.work.values() for path in rules.values()):
            for counted in (array for variables in paths.values() for array in variables.values()):
                read_only(counted)
        return report

    def arity(self, relation: str) -> int:
        """Return the number of columns of a relation.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.
        """
        if relation not in self.inputs and relation not in self.heads:
            raise UnknownRelationError(relation, {*self.inputs, *self.heads})
        return self._arity[relation]

    def relation(self, name: str) -> ZSet:
        """Return all rows of a relation.

        A head that is neither kept nor read by a rule is joined again from the state.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.
        """
        self.arity(name)

        def read() -> ZSet:
            side = self._ledger.reading(name)
            if side is None:
                return self._outgoing.empty(name)
            columns, weights = side.circuit.rows(name)
            return self._outgoing.as_zset(name, [PhaseRows(columns, weights)], side.circuit.backend)

        return self._ledger.turns.run(f"reading '{name}'", read)

    def count(self, name: str) -> int:
        """Return the number of rows of a relation; in bag semantics the sum of their weights.

        Rows are not enumerated if the count can be computed otherwise.
        """
        self.arity(name)

        def counted() -> int:
            side = self._ledger.reading(name)
            return 0 if side is None else side.circuit.total(name)

        return self._ledger.turns.run(f"counting '{name}'", counted)

    def empty(self, name: str) -> ZSet:
        """Return a Z-set without rows that has the names and types of a relation's columns.

        A column is int64 if no row has determined its type yet.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [("x", "y")]})
        >>> program.empty("path").to_arrow().schema.types[0]
        DataType(string)
        """
        self.arity(name)
        return self._outgoing.empty(name)

    def compact(self) -> None:
        """Merge every arrangement into one batch without cancelled rows. O(state)."""
        self._ledger.turns.run("merging batches", self._ledger.compact)

    @property
    def state_rows(self) -> dict[str, list[int]]:
        """Per arrangement, as text for people, the rows of its batches."""
        return self._ledger.turns.run("looking at the state", self._state_rows)

    def _state_rows(self) -> dict[str, list[int]]:
        sides = self._ledger.settle()
        if sides is None:
            return {}
        return {
            str(key): [len(batch) for batch in arrangement.accumulated()]
            for index in sides.ahead.circuit.indices()
            for key, arrangement in index.arrangements.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes of the state: arrays, and the search structures that joins derived from them.

        A twin and backlogs are included; dictionaries are not.

        Those of a twin and of backlogs too; dictionaries are not counted.
        """
        return sum(side.nbytes + side.bytes_beside for side in self._ledger.state.sides or ())

    def statistics(self) -> tuple[ArrangementStatistics, ...]:
        """Return exact statistics of each arrangement of the state.

        They are rows, distinct prefixes, degrees and heavy hitters.

        Computed on demand: O(state) at first, then linear in the changes of the ticks since. Every arrangement that
        `explain` lists is here once there are rows, and also the rows of inputs that no rule needs arranged.
        Arrangements of recursive relations have one more column, the rank: the iteration that first derived a row.
        `gpu_wcoj.explain.arranged` documents the fields.

        Raises
        ------
        UnsupportedTypeError
            If a heavy hitter is a time that Python cannot represent, such as one in nanoseconds.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> program = Program("path(a, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [("hub", "x"), ("hub", "y"), ("hub", "z"), ("x", "y")]})
        >>> forth, back = program.statistics()
        >>> forth.name, forth.rows, forth.levels[0].prefixes
        ('edge[c0, c1]', 4, 2)
        >>> forth.levels[0].histogram, forth.levels[0].heaviest
        ((1, 1), ((('hub',), 3), (('x',), 1)))
        >>> changes = program.step({"edge": [(("hub", "x"), -1)]})
        >>> [(one.name, one.rows, one.levels[0].heaviest[0]) for one in program.statistics()]
        [('edge[c0, c1]', 3, (('hub',), 2)), ('edge[c1, c0]', 3, (('y',), 2))]
        """
        return self._ledger.turns.run("looking at the state", self._statistics)

    def _statistics(self) -> tuple[ArrangementStatistics, ...]:
        from gpu_wcoj.explain.arranged import arrangement_statistics

        sides = self._ledger.settle()
        if sides is None:
            return ()
        lowered = sides.ahead.lowered
        name_of, values_of = self._outgoing.column_name, self._outgoing.values_of
        return tuple(arrangement_statistics(lowered.circuit, lowered.plan, lowered.shapes, name_of, values_of))

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # the option is called --format
    ) -> str:
        """Return the program's plan: per rule its delta paths, per path each variable and extenders.

        Parameters
        ----------
        analyze
            Add the work of the last tick under its plan: per level the prefixes that it extended, the bound on the
            work, proposals, survivors, bytes and time. Prefixes, bytes and times exist for measured ticks: ticks after
            the first call with this option, or all ticks of a program with `analyze`. If they are missing, the text
            says so. `gpu_wcoj.explain.figures.Counts` documents each figure.
        bounds
            Add the maximum number of prefixes of each level for one changed row, from the present sizes and largest
            degrees of the relations. Each bound is a linear program, which needs SciPy. Levels of recursions have none.
        statistics
            A folder with a ``statistics.json``: explain the plan of a program that starts with such relations.
        format
            ``"text"``; ``"json"``, whose keys are the fields of `gpu_wcoj.explain.tree.PlanTree`; ``"mermaid"``, a
            flowchart; ``"svg"``, a drawing; or ``"datalog"``, which is the program as Datalog text instead of a plan,
            whatever language it was written in. For a motif, a column ``_row`` numbers the rows of a table; the table
            itself has no such column.

        Raises
        ------
        UsageError
            For another format or an invalid value of an option, for ``format="datalog"`` together with another option,
            or for `statistics` together with `analyze`.
        SchemaError
            If the statistics are missing, or are of other relations.
        BackendUnavailableError
            If `bounds` is True and SciPy is not installed.

        Examples
        --------
        >>> from gpu_wcoj import Program
        >>> print(Program("path(a, c) :- edge(a, b), edge(b, c).").explain())
        backend cpu, set semantics
        <BLANKLINE>
        path   (derivations are counted: its rows are distinct)
          path(a, c) :- edge(a, b), edge(b, c).
            delta path 1: change of edge(a, b)
              c: look up edge(b, c) before, by edge[0, 1]
            delta path 2: change of edge(b, c)
              a: look up edge(a, b) after, by edge[1, 0]
        <BLANKLINE>
        arrangements
          edge[0, 1]
          edge[1, 0]
        """
        from gpu_wcoj.explain.rendering import check_format

        check_format(format)
        analyze, bounds = validate_flag("analyze", analyze), validate_flag("bounds", bounds)
        if statistics is not None and not isinstance(statistics, (str, PathLike)):
            raise UsageError.invalid_value("statistics", statistics, "the path of a folder, or None")
        if format == "datalog":
            return self._as_datalog(analyze or bounds or statistics is not None)
        if not bounds:
            return self._explained(analyze, bounds, statistics, format)
        return self._ledger.turns.run(
            "looking at the state", lambda: self._explained(analyze, bounds, statistics, format)
        )

    def _explained(self, analyze: bool, bounds: bool, statistics: str | PathLike[str] | None, form: Format) -> str:
        from gpu_wcoj.explain.bounded import sizes_of_catalog, sizes_of_state
        from gpu_wcoj.explain.rendering import render
        from gpu_wcoj.explain.shown import PlanView
        from gpu_wcoj.planner.catalog import Catalog

        if analyze and statistics is not None:
            raise UsageError.conflict(
                "'statistics'",
                "'analyze'",
                "Leave out one of them.",
                why="the last tick was not measured under the plan of these statistics",
            )
        catalog = None if statistics is None else Catalog.read(statistics)
        if catalog and not {*self.inputs, *self.heads}.intersection(catalog):
            raise SchemaError.mismatch(
                f"the statistics in '{statistics}'",
                "are of other relations",
                listed(catalog),
                f"some of {listed([*self.inputs, *self.heads])}",
            )
        for name, columns in ({} if catalog is None else catalog.arity).items():
            if name in self.inputs and columns != self._arity[name]:
                raise SchemaError.mismatch(
                    f"relation '{name}' in the statistics in '{statistics}'",
                    "has the wrong number of columns",
                    columns,
                    self._arity[name],
                )
        lowered = self._lowered if catalog is None else None
        planned = self._planned(catalog) if lowered is None else lowered.plan
        renderer = PlanView(
            self._outgoing.column_name,
            self.backend.name,
            self.bag,
            self._ledger.route_text(),
            None if lowered is None else lowered.chosen or None,
            self.last_tick if catalog is None else TickReport(),
        )
        sizes_of = None
        if bounds and catalog is not None:
            sizes_of = sizes_of_catalog(catalog)
        elif bounds and lowered is not None:
            sides = self._ledger.settle()
            assert sides is not None
            sizes_of = sizes_of_state(sides.ahead.circuit)
        if analyze:
            self.analyze = True
        return render(renderer.explained_tree(planned, self.last_tick if analyze else None, sizes_of), form)

    def _as_datalog(self, asks_for_more: bool) -> str:
        from gpu_wcoj.query.printer import as_datalog

        if asks_for_more:
            raise UsageError.conflict(
                "format='datalog'",
                "'analyze', 'bounds' or 'statistics'",
                "Use format='text', 'json', 'mermaid' or 'svg'.",
                why="Datalog text has no plan",
            )
        default = self.rules.outputs or unread(self.rules)
        rules = self.rules if default == self.outputs else replace(self.rules, outputs=self.outputs)
        return as_datalog(rules, bag=self.bag)

    @property
    def analyze(self) -> bool:
        """True if ticks are measured for ``explain(analyze=True)``; can be set between ticks."""
        return self._measures

    @analyze.setter
    def analyze(self, value: bool) -> None:
        self._measures = validate_flag("analyze", value)
        for side in self._ledger.state.sides or ():
            side.circuit.execution.measures = self._measures

    @property
    def _lowered(self) -> CompiledProgram | None:
        return self._ledger.lowered

    def _planned(self, catalog: Catalog | None = None) -> Plan:
        """Return the plan before any row has been seen, from the statistics if there are any."""
        types = self._ledger.state.types
        return self._lowering.plan(types, self._lowering.shapes(None, {}, types), catalog, ())
