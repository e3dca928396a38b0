"""What can be asked of a program between ticks: its relations, their sizes, its plan."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING

from gpu_wcoj.backend import Backend
from gpu_wcoj.column import read_only
from gpu_wcoj.errors import SchemaError, UnknownRelationError, UsageError, entry_point, listed
from gpu_wcoj.lowering import CompiledProgram, Lowering
from gpu_wcoj.options import validate_flag
from gpu_wcoj.outgoing import Emitter
from gpu_wcoj.planner.lower import Plan
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.strata import unread
from gpu_wcoj.tick import StateStore, TickReport
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.turns import NotCopied
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.explain.arranged import ArrangementStatistics
    from gpu_wcoj.explain.rendering import Format
    from gpu_wcoj.planner.known import Known


@entry_point
class Inspected(NotCopied):
    """A program as it stands: nothing here changes an answer.

    Attributes
    ----------
    rules
        As they were given.
    inputs, heads, outputs
        Relations that take rows, that rules define, and whose changes ticks return.
    bag
        Whether weights are exact, as those of bags.
    backend
        Where the state lives.
    """

    rules: Rules
    inputs: tuple[str, ...]
    heads: tuple[str, ...]
    outputs: tuple[str, ...]
    bag: bool
    backend: Backend
    _arity: dict[str, int]
    _measures: bool
    _lowering: Lowering
    _ledger: StateStore
    _outgoing: Emitter

    @property
    def last_tick(self) -> TickReport:
        """What the last tick did; its arrays are read-only."""
        report = self._ledger.state.report
        for paths in (path for rules in report.work.values() for path in rules.values()):
            for counted in (array for variables in paths.values() for array in variables.values()):
                read_only(counted)
        return report

    def arity(self, relation: str) -> int:
        """Number of columns of a relation.

        Raises
        ------
        UnknownRelationError
            If the program has no such relation.
        """
        if relation not in self.inputs and relation not in self.heads:
            raise UnknownRelationError(relation, {*self.inputs, *self.heads})
        return self._arity[relation]

    def relation(self, name: str) -> ZSet:
        """All rows of a relation. A head that is neither kept nor read by a rule is joined afresh from the state.

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
            columns, weights = side.circuit.whole(name)
            return self._outgoing.as_zset(name, [PhaseRows(columns, weights)], side.circuit.backend)

        return self._ledger.turns.run(f"reading '{name}'", read)

    def count(self, name: str) -> int:
        """Number of rows of a relation; in bag semantics the sum of their weights. Not enumerated where it can be."""
        self.arity(name)

        def counted() -> int:
            side = self._ledger.reading(name)
            return 0 if side is None else side.circuit.total(name)

        return self._ledger.turns.run(f"counting '{name}'", counted)

    def empty(self, name: str) -> ZSet:
        """No rows, with the names and types of a relation's columns; int64 where no row has shown the type yet.

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
        """Merge every arrangement into one batch; nothing that has cancelled is left. O(state)."""
        self._ledger.turns.run("merging batches", self._ledger.compact)

    @property
    def state_rows(self) -> dict[str, list[int]]:
        """Per arrangement, for people, the rows of its batches."""
        return self._ledger.turns.run("looking at the state", self._state_rows)

    def _state_rows(self) -> dict[str, list[int]]:
        sides = self._ledger.settled()
        if sides is None:
            return {}
        return {
            str(key): [len(batch) for batch in arrangement.accumulated()]
            for index in sides.ahead.circuit.indices()
            for key, arrangement in index.arrangements.items()
        }

    @property
    def nbytes(self) -> int:
        """Bytes that the state takes: arrays, and what joins have made of these to search them by.

        Those of a twin and of backlogs too; dictionaries are not counted.
        """
        return sum(side.nbytes + side.bytes_beside for side in self._ledger.state.sides or ())

    def statistics(self) -> tuple[ArrangementStatistics, ...]:
        """What each arrangement of the state holds, exactly: rows, distinct prefixes, degrees and heavy hitters.

        Counted when it is asked for, O(state) at first and then in the time of what ticks have brought since. All that
        `explain` lists as arrangements is here, once there are rows, and the rows of inputs that no rule needs so;
        those of recursive relations have a rank more, the iteration that first has a row, whatever rules read of them.
        What the fields mean, `gpu_wcoj.explain.arranged` says.

        Raises
        ------
        UnsupportedTypeError
            If a heavy hitter is a time that Python cannot hold, such as one of nanoseconds.

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

        sides = self._ledger.settled()
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
        """How the program runs: per rule its delta paths, per path each variable with its extenders.

        Parameters
        ----------
        analyze
            Also what the last tick did, by the plan that it went by: per level the prefixes that it extended, the
            bound on the work, proposals, survivors, bytes and time. Prefixes, bytes and times are there for ticks that
            were measured: those behind the first call with this option, or all of a program with `analyze`. Where they
            are not, the text says so. What each figure counts, and where it is 0, `gpu_wcoj.explain.figures.Counts`
            says.
        bounds
            Also how many prefixes each level can have for one changed row at most, by the sizes and the largest degrees
            of the relations as they are now: a linear program each, for which SciPy is needed. Levels of recursions
            have none.
        statistics
            A folder with a ``statistics.json``: the plan of a program that begins with such relations.
        format
            ``"text"``; ``"json"``, whose keys are the fields of `gpu_wcoj.explain.tree.PlanTree`; ``"mermaid"``, a
            flowchart; ``"svg"``, a drawing; or ``"datalog"``, which is no plan but the program as Datalog text,
            whatever language it was written in; of a motif, a column ``_row`` numbers the rows of a table, which has
            no such column itself.

        Raises
        ------
        UsageError
            For another format or a value that an option does not have, where a program as text is asked for more than
            itself, or for `statistics` beside `analyze`.
        SchemaError
            If there are no such statistics, or they are of other relations.
        BackendUnavailableError
            If there are to be bounds, and SciPy is not installed.

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
            raise UsageError(f"statistics={statistics!r:.80} is not allowed; the path of a folder is, or None.")
        if format == "datalog":
            return self._as_datalog(analyze or bounds or statistics is not None)
        if not bounds:
            return self._explained(analyze, bounds, statistics, format)
        return self._ledger.turns.run(
            "looking at the state", lambda: self._explained(analyze, bounds, statistics, format)
        )

    def _explained(self, analyze: bool, bounds: bool, statistics: str | PathLike[str] | None, form: Format) -> str:
        from gpu_wcoj.explain.bounded import sizes_of_known, sizes_of_state
        from gpu_wcoj.explain.rendering import rendered
        from gpu_wcoj.explain.shown import Shown
        from gpu_wcoj.planner.known import Known

        if analyze and statistics is not None:
            raise UsageError(
                "explain shows either what statistics of elsewhere lead to, or what the last tick measured.\n"
                "  Leave out 'statistics' or 'analyze'."
            )
        catalog = None if statistics is None else Known.read(statistics)
        if catalog and not {*self.inputs, *self.heads}.intersection(catalog):
            raise SchemaError(
                f"the statistics in '{statistics}' are of {listed(catalog)}, and the program has none of these: its "
                f"relations are {listed([*self.inputs, *self.heads])}."
            )
        for name, columns in ({} if catalog is None else catalog.arity).items():
            if name in self.inputs and columns != self._arity[name]:
                raise SchemaError(
                    f"the statistics in '{statistics}' are of a relation '{name}' with {columns} columns, and the "
                    f"program's has {self._arity[name]}."
                )
        lowered = self._lowered if catalog is None else None
        planned = self._planned(catalog) if lowered is None else lowered.plan
        renderer = Shown(
            self._outgoing.column_name,
            self.backend.name,
            self.bag,
            self._ledger.route_text(),
            None if lowered is None else lowered.chosen or None,
            self.last_tick if catalog is None else TickReport(),
        )
        sizes_of = None
        if bounds and catalog is not None:
            sizes_of = sizes_of_known(catalog)
        elif bounds and lowered is not None:
            sides = self._ledger.settled()
            assert sides is not None
            sizes_of = sizes_of_state(sides.ahead.circuit)
        if analyze:
            self.analyze = True
        return rendered(renderer.of(planned, self.last_tick if analyze else None, sizes_of), form)

    def _as_datalog(self, asks_for_more: bool) -> str:
        from gpu_wcoj.query.printed import as_datalog

        if asks_for_more:
            raise UsageError("the program as Datalog says nothing of its plan.\n  Ask for another format.")
        default = self.rules.outputs or unread(self.rules)
        rules = self.rules if default == self.outputs else replace(self.rules, outputs=self.outputs)
        return as_datalog(rules, bag=self.bag)

    @property
    def analyze(self) -> bool:
        """Whether ticks are measured for ``explain(analyze=True)``; can be set between ticks."""
        return self._measures

    @analyze.setter
    def analyze(self, value: bool) -> None:
        self._measures = validate_flag("analyze", value)
        for side in self._ledger.state.sides or ():
            side.circuit.execution.measures = self._measures

    @property
    def _lowered(self) -> CompiledProgram | None:
        return self._ledger.lowered

    def _planned(self, catalog: Known | None = None) -> Plan:
        """The plan before any row has been seen, by what is known nevertheless."""
        types = self._ledger.state.types
        return self._lowering.plan(types, self._lowering.shapes(None, {}, types), catalog, ())
