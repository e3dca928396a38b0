"""Views: answers of a query, in any of the languages, that are kept up to date."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from typing import Any, Self, overload

from gpu_wcoj.arrow.table import columns_by_name
from gpu_wcoj.backend import BackendName
from gpu_wcoj.budget import limiting
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.engine.ingest import merge_relations
from gpu_wcoj.engine.options import VIEW_KEYWORDS, ExecutionOptions, ProgramOptions, validate_flag, validate_functions
from gpu_wcoj.errors import CheckpointError, SchemaError, UnknownRelationError, UsageError, entry_point, listed
from gpu_wcoj.locks import NotCopied, StateLock
from gpu_wcoj.maintained import SeveralAnswers
from gpu_wcoj.one_shot import listed_outputs, single_output
from gpu_wcoj.planner.ir import Strategy
from gpu_wcoj.prepared_query import LeftOut, QuerySource, column_types, prepare_query
from gpu_wcoj.program import Program
from gpu_wcoj.query.check import check
from gpu_wcoj.query.ir import Declaration, Directive, Rules
from gpu_wcoj.query.languages import Language, check_language, language_of
from gpu_wcoj.query.stratify import unread
from gpu_wcoj.result import Result
from gpu_wcoj.user_functions import Function
from gpu_wcoj.views.flat_motif import FlatMotif
from gpu_wcoj.views.matcher import MOTIF_OPTIONS, Matcher, MotifOptions, refuse_options, tables_of
from gpu_wcoj.views.matches import MatchChange, PackedColumn, PackedMatches
from gpu_wcoj.views.subscribers import Subscribable, deliver
from gpu_wcoj.zset.zset import ZSet


@overload
def view(
    text: str | Rules, relations: Any = None, /, *, outputs: list[str] | tuple[str, ...], **more: Any
) -> MultiView: ...


@overload
def view(
    text: str | Rules,
    relations: Any = None,
    /,
    *,
    language: Language | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    bag: bool | None = None,
    functions: Sequence[Function] = (),
    schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
    scan: bool = True,
    outputs: str | None = None,
    keep: Sequence[str] = (),
    backend: BackendName = "auto",
    threads: int | None = None,
    iterations: int | None = None,
    limit: int | None = None,
    timeout: float | None = None,
    memory: float | str | None = None,
    options: ExecutionOptions | None = None,
    **more: Any,
) -> View: ...


@entry_point
def view(
    text: str | Rules,
    relations: Any = None,
    /,
    *,
    language: Language | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    bag: bool | None = None,
    functions: Sequence[Function] = (),
    schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
    scan: bool = True,
    outputs: str | list[str] | tuple[str, ...] | None = None,
    keep: Sequence[str] = (),
    backend: BackendName = "auto",
    threads: int | None = None,
    iterations: int | None = None,
    limit: int | None = None,
    timeout: float | None = None,
    memory: float | str | None = None,
    options: ExecutionOptions | None = None,
    **more: Any,
) -> View | MultiView:
    """Maintain the answer of a query while its relations change.

    Parameters
    ----------
    text
        A query in Datalog, SQL, EDN or as a motif, or rules.
    relations
        The initial rows of relations, by name. They may also be keywords, if no option has the relation's name. Every
        column of a table is data, also a column called ``weight``; a `ZSet` keeps its weights. The relations of a motif
        are ``vertices`` and ``edges``, or a graph that has both.
    language
        ``"datalog"``, ``"sql"``, ``"motif"`` or ``"edn"``; by default detected from the beginning of the text, see
        `gpu_wcoj.query.languages.language_of`.
    dialect
        The dialect of SQL: duckdb, postgres, spark, or another of `gpu_wcoj.query.sql.compiler.DIALECTS`.
    arguments
        Arguments of a query in EDN: the values of ``:in`` other than relations, in order.
    bag
        Exact weights instead of sets; by default for SQL only.
    schema
        Names and types of the columns of relations, ``{"edges": {"src": "int64", "dst": "int64"}}``; these relations
        may start without rows, like relations that a program in Datalog declares.
    scan
        Whether tables in variables of the calling function, or of its module, are relations that the query reads by
        their names and that are not passed. A motif finds ``vertices`` and ``edges`` so if neither is passed.
    outputs
        The relation that is the answer if the program has several outputs; or a list of relations, for a `MultiView`,
        whose methods return a dict by output.
    functions, keep, backend, threads, iterations, limit, timeout, memory, options
        As for `Program`.
    more
        Relations; ``gpu_memory``, ``route``, ``chunk_rows``, ``replan``, ``analyze``, ``strategy`` and ``order`` of
        `options` by name; and for a motif the options ``where``, ``semantics``, ``columns``, ``ids``, ``id``, ``src``
        and ``dst`` of `gpu_wcoj.views.find`.

    Raises
    ------
    UsageError
        If the text is valid in two languages.
    UnknownRelationError
        If a relation that the query reads is missing. A relation that it does not read is ignored, if all others have
        rows.
    GpuWcojError
        Also every error of the language's parser and of `Program`.

    Examples
    --------
    >>> triangles = view("tri(a, b, c) :- edges(a, b), edges(b, c), edges(c, a).", edges=[(1, 2), (2, 3), (3, 1)])
    >>> triangles.count()
    3
    >>> triangles.apply(edges={"src": [1], "dst": [2], "weight": [-1]}).rows()
    [((1, 2, 3), -1), ((2, 3, 1), -1), ((3, 1, 2), -1)]
    >>> len(triangles.snapshot())
    0
    """
    execution = {name: more.pop(name) for name in VIEW_KEYWORDS if name in more}
    resolved_language = (
        check_language(language) if language is not None else language_of(text) if isinstance(text, str) else None
    )
    is_motif = isinstance(text, str) and resolved_language == "motif"
    prepared = None
    if not is_motif:
        source = QuerySource(
            text, resolved_language, dialect, arguments, bag, validate_functions("functions", functions)
        )
        merged = merge_relations(relations, more)
        prepared = prepare_query(source, merged, view, schema=schema, scan=scan)
    elif bag is not None or functions:
        refuse_options(["functions" if bag is None else "bag"])
    program_options = ProgramOptions.from_keywords(
        bag=prepared is not None and prepared.bag, inputs=None if prepared is None else prepared.rules.inputs,
        functions=functions, schema=schema, outputs=listed_outputs(outputs), keep=keep, backend=backend,
        threads=threads, iterations=iterations, limit=limit, timeout=timeout, memory=memory, options=options,
        **execution,
    )  # fmt: skip
    if prepared is None:
        if isinstance(relations, Mapping):
            relations, more = None, merge_relations(relations, more, reads_files=False)
        validate_flag("scan", scan)
        return _motif_view(str(text), relations, more, program_options, scan)
    with limiting(program_options.budget()):
        program, rows = prepared.start(program_options)
        if not isinstance(outputs, (list, tuple)):
            single_output(program.outputs)
        program.load(rows)
    connection = Connection.from_program(program, prepared.left_out)
    return connection.register(program.outputs, isinstance(outputs, (list, tuple)), resolved_language == "sql")


def _motif_view(text: str, graph: Any, more: Mapping[str, Any], options: ProgramOptions, scan: bool) -> MotifView:
    """Return the view of a motif; `more` has its tables and its options."""
    allowed = ("vertices", "edges", *MOTIF_OPTIONS)
    for name in more:
        if name not in allowed:
            raise UsageError.unknown_name("table or option of a motif", name, allowed)
    tables = tables_of(graph, more.get("vertices"), more.get("edges"), scan)
    motif_options = MotifOptions(**{name: more[name] for name in MOTIF_OPTIONS if name in more})
    return MotifView.from_options(text, tables, motif_options, options)


# Views of one state.


@entry_point
class Connection(NotCopied, SeveralAnswers):
    """Relations, and views of them that share their state; made by `connect`.

    One call of `apply` is one tick of all views: all of them take the change, or none does. Views may be added and
    dropped between ticks. Relations that several views read, and helpers that they define alike, are stored once.

    Examples
    --------
    >>> connection = connect(edge=[(1, 2), (2, 3)])
    >>> hops = connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
    >>> far = connection.view("far(a, d) :- hop(a, c), edge(c, d).")
    >>> changes = connection.apply(edge=[(3, 4)])
    >>> changes["hop"].rows(), changes["far"].rows()
    ([((2, 4), 1)], [((1, 4), 1)])
    >>> far.close()
    >>> list(connection.views)
    ['hop']
    """

    _made_by = "gpu_wcoj.connect"

    def __init__(self, tables: Mapping[str, Any], bag: bool | None, options: ProgramOptions) -> None:
        self._tables = dict(tables)
        self._bag = bag
        self._options = options
        self._program: Program | None = None
        self._views: dict[str, View | MultiView] = {}
        self._is_closed = False
        self._left_out: Mapping[str, LeftOut] = {}
        self.turns = StateLock("the connection")

    @classmethod
    def from_program(cls, program: Program, left_out: Mapping[str, LeftOut] | None = None) -> Self:
        """Return the connection of a program that has its views' rules.

        Parameters
        ----------
        left_out
            Columns of tables that the program does without.
        """
        connection = cls({}, program.bag, program.options)
        connection._program, connection._left_out = program, left_out or {}
        return connection

    def __repr__(self) -> str:
        if self._is_closed:
            return "Connection, closed"
        views = ", ".join(self._views) or "none"
        return f"Connection; views: {views}; relations: {', '.join(self.relations) or 'none'}"

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the answers of all views."""
        self._check_open("reading the answers")
        return tuple(output for view in self._views.values() for output in view.outputs)

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._is_closed

    @property
    def program(self) -> Program:
        """The program of all views; another one after a view was added or dropped.

        Ticks of the program itself do not reach subscribers.

        Raises
        ------
        UsageError
            If the connection is closed, or has no view.
        """
        self._check_open("this call")
        if self._program is None:
            raise UsageError.wrong_state("this call", "the connection has no view", "Call its method view first.")
        return self._program

    def _check_open(self, doing: str) -> None:
        if self._is_closed:
            raise UsageError.wrong_state(doing, "the connection is closed", "Call gpu_wcoj.connect again.")

    @property
    def views(self) -> dict[str, View | MultiView]:
        """The views by name."""
        return dict(self._views)

    @property
    def relations(self) -> list[str]:
        """The relations that take rows."""
        return [*self._tables, *(() if self._program is None else self._program.inputs)]

    @overload
    def view(
        self, text: str | Rules, relations: Mapping[str, Any] | None = None, /, *,
        outputs: list[str] | tuple[str, ...], **more: Any,
    ) -> MultiView: ...  # fmt: skip

    @overload
    def view(
        self,
        text: str | Rules,
        relations: Mapping[str, Any] | None = None,
        /,
        *,
        name: str | None = None,
        language: Language | None = None,
        dialect: str = "duckdb",
        arguments: Sequence[Any] = (),
        functions: Sequence[Function] = (),
        outputs: str | None = None,
        **more: Any,
    ) -> View: ...

    def view(
        self,
        text: str | Rules,
        relations: Mapping[str, Any] | None = None,
        /,
        *,
        name: str | None = None,
        language: Language | None = None,
        dialect: str = "duckdb",
        arguments: Sequence[Any] = (),
        functions: Sequence[Function] = (),
        outputs: str | list[str] | tuple[str, ...] | None = None,
        **more: Any,
    ) -> View | MultiView:
        """Add a view of the relations, and of other views, by their names. O(state).

        Parameters
        ----------
        text
            A query in Datalog, SQL or EDN, a motif, or rules. The edges and vertices of a motif are the relations
            ``edges`` and ``vertices`` of the connection; others are named by ``edges="transfers"``. Without a relation
            ``vertices``, the ends of the edges are the vertices.
        relations
            Initial rows of relations that the connection does not have yet; they may also be keywords. For a motif
            also its options ``where``, ``semantics``, ``columns``, ``id``, ``src`` and ``dst``; see `gpu_wcoj.find`.
        name
            The name of the answer, instead of the one in the text. SQL without ``CREATE VIEW`` calls it ``answer``, a
            motif ``matches``.
        language, dialect, arguments, outputs
            As for `gpu_wcoj.view`.
        functions
            Python functions that the text may call.

        Returns
        -------
        A `View`, or a `MultiView` for a list of outputs.

        Raises
        ------
        UsageError
            If an output has the name of a relation or of another view, or if the query counts rows, as SQL does, and
            the connection keeps sets.
        GpuWcojError
            Also every error of `gpu_wcoj.view`; the other views are as before.

        Examples
        --------
        >>> connection = connect(orders={"who": ["x", "y"], "n": [1, 2]})
        >>> large = connection.view("SELECT who FROM orders WHERE n > 1", name="large")
        >>> connection.view("SELECT count(*) AS n FROM large", name="n_large").snapshot().rows()
        [(1,)]
        """
        spoken = language if language is not None or not isinstance(text, str) else language_of(text)
        merged = merge_relations(relations, more, reads_files=spoken != "motif")
        source = QuerySource(text, language, dialect, arguments, None, validate_functions("functions", functions))
        if isinstance(text, str) and spoken == "motif":
            given = {"arguments": arguments, "functions": functions, "outputs": outputs}
            refuse_options(option for option, value in given.items() if value)

        def add() -> View | MultiView:
            query, tables, columns = source, merged, None
            if isinstance(text, str) and spoken == "motif":
                query, tables, columns = self._motif(text, merged, name or "matches")
            called = None if columns is not None else name
            program, names = self._program_with(query, tables, called, listed_outputs(outputs))
            if not isinstance(outputs, (list, tuple)):
                single_output(names)
            self._program, self._tables = program, {}
            self._bag = program.bag
            return self.register(names, isinstance(outputs, (list, tuple)), spoken == "sql", columns)

        return self.turns.run("adding a view", add)

    def _motif(
        self, text: str, more: Mapping[str, Any], name: str
    ) -> tuple[QuerySource, dict[str, Any], tuple[PackedColumn, ...]]:
        """Return a motif as rules, the new relations, and the columns of its matches."""
        refuse_options(option for option in ("ids",) if option in more)
        allowed = ("vertices", "edges", *(option for option in MOTIF_OPTIONS if option != "ids"))
        for option in more:
            if option not in allowed:
                raise UsageError.unknown_name("table or option of a motif", option, allowed)
        options = MotifOptions(**{option: more[option] for option in MOTIF_OPTIONS if option in more})
        given = {table: more[table] for table in ("vertices", "edges") if more.get(table) is not None}
        new_tables = {table: data for table, data in given.items() if not isinstance(data, str)}
        known = {**self._tables, **self._visible(), **new_tables}
        called = {table: data if isinstance(data, str) else table for table, data in given.items()}
        if "edges" not in called or "vertices" in known:
            called = {"vertices": "vertices", "edges": "edges", **called}
        called = {table: relation for table, relation in called.items() if table in given or relation in known}
        for table, relation in {"edges": "edges", **called}.items():
            if relation not in known:
                raise UnknownRelationError(relation, known, remedy=f"Name the {table}: {table}='...'.")
        types = column_types({relation: known[relation] for relation in called.values()}, self._options.schema)
        kinds = {
            table: {column: "" if kind is None else DataType(kind).family for column, kind in types[relation].items()}
            for table, relation in called.items()
        }
        flat = FlatMotif.compile(text, kinds, options)
        rules = flat.over({table: (relation, list(kinds[table])) for table, relation in called.items()}, name)
        return QuerySource(rules, bag=True), new_tables, flat.packed

    def _visible(self) -> dict[str, ZSet]:
        """Return the relations and views of the program without their rows."""
        outlines = {} if self._program is None else self._program.outlines()
        return {name: outline for name, outline in outlines.items() if "#" not in name}

    def _program_with(
        self, source: QuerySource, new_tables: Mapping[str, Any], name: str | None, outputs: Sequence[str] | None
    ) -> tuple[Program, tuple[str, ...]]:
        """Return the program with one more view, and the view's outputs."""
        self._check_open("adding a view")
        present = self._program
        relations = {*self._tables} if present is None else {*present.inputs, *present.heads}
        for table in new_tables:
            if table in relations:
                raise UsageError.duplicate("the relation", table, remedy="Pass its changes to apply().")
        tables = {**self._tables, **new_tables}
        visible = self._visible()
        if name is not None:
            visible.pop(ANSWER, None)
        prepared = prepare_query(
            source, {**tables, **visible}, Connection.view, schema=self._options.schema, scan=False, is_shared=True
        )
        if prepared.bag and self._bag is False:
            raise UsageError.conflict(
                "this query", "a connection that keeps sets", "Make it with gpu_wcoj.connect(bag=True).",
                "the query counts rows, as SQL does",
            )  # fmt: skip
        rules = prepared.rules
        chosen = tuple(outputs or rules.outputs or unread(rules))
        for output in chosen:
            if output not in rules.heads:
                raise UnknownRelationError(output, rules.heads, "heads")
        rules = replace(rules, outputs=chosen, sorting=None)
        if name is not None:
            rules = rules.renamed({single_output(chosen): name})
        for output in rules.outputs:
            if output in relations or output in tables:
                raise UsageError.with_parts(
                    f"'{output}' is the name of another relation or view of the connection", got=output,
                    remedy="Pass name='...', or drop the other view.",
                )  # fmt: skip
        rows = {table: data for table, data in prepared.relations.items() if table in tables}
        initial = replace(prepared, relations=rows)
        if present is None:
            rules = replace(rules, declarations=(*rules.declarations, *_declared_tables(rules, rows)))
            directives = (Directive("input", table) for table in tables)
            rules = replace(rules, text="", directives=tuple(dict.fromkeys([*rules.directives, *directives])))
            options = replace(
                self._options, bag=prepared.bag if self._bag is None else self._bag, inputs=rules.inputs,
                outputs=rules.outputs,
            )  # fmt: skip
            program = Program.from_options(rules, replace(options, functions=source.functions))
        else:
            extended = present.rules.united(rules, rules.outputs[0])
            check(extended)
            functions = tuple({one.name: one for one in (*present.options.functions, *source.functions)}.values())
            program = present.with_rules(extended, (*present.outputs, *rules.outputs), functions)
        with limiting(program.options.budget()):
            changes = initial.initial_changes(program)
            if changes:
                program.load(changes)
        return program, rules.outputs

    def register(
        self,
        outputs: Sequence[str],
        is_multiple: bool,
        ignores_case: bool,
        columns: Sequence[PackedColumn] | None = None,
    ) -> View | MultiView:
        """Register a view of outputs; for a motif, with the columns of its matches."""
        made: View | MultiView
        if columns is not None:
            made = SharedMotifView(self, tuple(outputs), columns)
        else:
            made = (MultiView if is_multiple else View)(self, tuple(outputs), ignores_case=ignores_case)
        self._views[made.name] = made
        return made

    def drop(self, name: str) -> None:
        """Drop a view. Its subscribers get nothing more, and what only it needs is freed. O(state).

        After the last one, the connection has the rows of the relations, for the next view.

        Raises
        ------
        UsageError
            If there is no such view, or another one reads it.

        Examples
        --------
        >>> connection = connect(edge=[(1, 2), (2, 3)])
        >>> hops = connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
        >>> connection.drop("hop")
        >>> hops.is_closed, connection.relations
        (True, ['edge'])
        """

        def drop() -> None:
            if name not in self._views:
                raise UsageError.unknown_name("view", name, self._views)
            dropped, remaining = self._views[name], {**self._views}
            del remaining[name]
            if remaining:
                outputs = [output for view in remaining.values() for output in view.outputs]
                rules = self.program.rules.reduced(outputs)
                for output in dropped.outputs:
                    if output in rules.heads:
                        raise UsageError.wrong_state(
                            f"dropping '{name}'", "another view reads it", "Drop that view first."
                        )
                self._program = self.program.with_rules(rules, outputs)
            else:
                self._tables, self._program = self.program.input_rows(assumes_types=False), None
            self._views = remaining
            dropped.detach()

        self.turns.run("dropping a view", drop)

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, ZSet]:
        """Apply one tick's changes of relations to all views; return the change of each output.

        Parameters
        ----------
        changes
            By relation; see `View.apply`.

        Raises
        ------
        GpuWcojError
            As `Program.step`; all views are as before.

        Examples
        --------
        >>> connection = connect(edge=[(1, 2)])
        >>> hops = connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
        >>> connection.apply(edge=[(2, 3)])["hop"].rows()
        [((1, 3), 1)]
        """
        ignores_case = any(view.ignores_case for view in self._views.values())
        return self.run_tick(merge_relations(changes, more), ignores_case)

    def run_tick(self, changes: Mapping[str, Any], ignores_case: bool) -> dict[str, ZSet]:
        """Apply changes of relations, whose names may differ in case from the program's."""
        return self.turns.run("taking a tick", lambda: self._run_tick(changes, ignores_case))

    def _run_tick(self, changes: Mapping[str, Any], ignores_case: bool) -> dict[str, ZSet]:
        if ignores_case:
            changes = {self.relation_name(name, True): rows for name, rows in changes.items()}
        if self._left_out:
            changes = {name: self._without_left_out(name, rows) for name, rows in changes.items()}
        if ignores_case:
            changes = {name: self._spell(name, rows) for name, rows in changes.items()}
        program = self._program
        answers = (self.program if program is None else program).step(changes)
        following = [view for view in self._views.values() if view.listeners]
        if following:
            deliver(
                (view.listeners, view.change_among(answers))
                for view in following
                if any(len(answers[output]) for output in view.outputs)
            )
        return answers

    def relation_name(self, name: str, ignores_case: bool) -> str:
        """Return a relation's name in the program's spelling.

        Names of SQL may differ in case if one relation matches.
        """
        return _spelled(name, (*self.program.inputs, *self.program.heads)) if ignores_case else name

    def _without_left_out(self, name: str, rows: Any) -> Any:
        """Return rows without the columns that the program does without."""
        return self._left_out[name].without(rows, f"relation '{name}'") if name in self._left_out else rows

    def _spell(self, name: str, rows: Any) -> Any:
        """Return rows with the names of their columns in the program's spelling."""
        declared = self.program.declared.get(name)
        column_names = names_in(rows)
        if declared is None or not column_names or set(column_names) <= {*declared, "weight"}:
            return rows
        spelled = {column_name: _spelled(column_name, declared) for column_name in column_names}
        if len(set(spelled.values())) < len(column_names) or spelled == {
            column_name: column_name for column_name in column_names
        }:
            return rows
        if isinstance(rows, ZSet):
            names = tuple(spelled[column_name] for column_name in column_names)
            return ZSet(names, rows.columns, rows.stored_weights, rows.weight_name, rows.backend)
        columns = columns_by_name(rows, f"relation '{name}'")
        return {spelled[column_name]: values for column_name, values in columns.items()}

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Store the relations and all views in a folder for `restore`; see `Program.checkpoint`.

        After a view was added or dropped, name an empty folder.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> connection = connect(edge=[(1, 2), (2, 3)])
        >>> hops = connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
        >>> with TemporaryDirectory() as folder:
        ...     connection.checkpoint(folder)
        ...     list(Connection.restore(folder).views)
        ['hop']
        """

        def store() -> None:
            views = [
                {"outputs": list(view.outputs), "is_multiple": isinstance(view, MultiView),
                 "ignores_case": view.ignores_case,
                 "columns": [asdict(one) for one in view.packed] if isinstance(view, SharedMotifView) else None}
                for view in self._views.values()
            ]  # fmt: skip
            left_out = {name: [list(one.columns), sorted(one.positions)] for name, one in self._left_out.items()}
            self.program.checkpoint(path, extra={_VIEWS: views, _LEFT_OUT: left_out})

        self.turns.run("storing the state", store)

    @classmethod
    def restore(cls, path: str | PathLike[str], **options: Any) -> Connection:
        """Return the connection of a checkpoint, with its views in `views`.

        Parameters
        ----------
        path
            The folder that `checkpoint` was given.
        options
            Options of `Program` that do not change answers: `backend`, `threads`, `limit` and the like; and
            `functions`, which a checkpoint does not store.

        Raises
        ------
        CheckpointError
            If there is no checkpoint, or it was not stored by a view or a connection.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> connection = connect(edge=[(1, 2), (2, 3)])
        >>> hops = connection.view("hop(a, c) :- edge(a, b), edge(b, c).")
        >>> with TemporaryDirectory() as folder:
        ...     connection.checkpoint(folder)
        ...     again = Connection.restore(folder)
        >>> again.apply(edge=[(3, 4)])["hop"].rows(), again.views["hop"].count()
        ([((2, 4), 1)], 2)
        """
        program = Program.restore(path, **options)
        if _VIEWS not in program.stored_beside:
            raise CheckpointError.with_parts(
                f"the checkpoint '{path}' was not stored by a view", subject=str(path),
                remedy="Restore it as what it is: Program.restore, or the same gpu-wcoj command again.",
            )  # fmt: skip
        left_out = {
            name: LeftOut(tuple(columns), frozenset(positions))
            for name, (columns, positions) in program.stored_beside[_LEFT_OUT].items()
        }
        connection = cls.from_program(program, left_out)
        for stored in program.stored_beside[_VIEWS]:
            columns = stored.get("columns")  # checkpoints of connections without motifs may lack it
            if columns is not None:
                columns = [PackedColumn(**{**one, "fields": tuple(map(tuple, one["fields"]))}) for one in columns]
            connection.register(stored["outputs"], stored["is_multiple"], stored["ignores_case"], columns)
        return connection

    def close(self) -> None:
        """Close all views and free their memory; it may be closed twice.

        Examples
        --------
        >>> connection = connect(edge=[(1, 2)])
        >>> connection.close()
        >>> connection
        Connection, closed
        """

        def close() -> None:
            for view in self._views.values():
                view.detach()
            self._views, self._tables, self._program, self._is_closed = {}, {}, None, True

        self.turns.run("closing", close)


ANSWER = "answer"
"""The name of the answer of SQL without ``CREATE VIEW``, and of EDN."""


_LEFT_OUT = "left out"
"""The key of the columns that the program of a checkpoint does without."""

_VIEWS = "views"
"""The key of the descriptions of views in a checkpoint."""


def _declared_tables(rules: Rules, tables: Mapping[str, Any]) -> list[Declaration]:
    """Return declarations of the columns of tables that the rules do not declare."""
    declared = {declaration.relation for declaration in rules.declarations}
    made = []
    for name, data in tables.items():
        if name not in declared:
            columns = data.names if isinstance(data, ZSet) else tuple(columns_by_name(data, f"relation '{name}'"))
            if not columns and name not in rules.inputs:
                raise SchemaError.with_parts(
                    f"relation '{name}' has no columns, and this view does not read it", subject=name,
                    remedy="Pass a table with columns, or pass it to the first view that reads it.",
                )  # fmt: skip
            made.append(Declaration(name, tuple(columns), (None,) * len(columns), is_binding=False))
    return made


@entry_point
def connect(
    relations: Mapping[str, Any] | None = None,
    /,
    *,
    bag: bool | None = None,
    schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
    backend: BackendName = "auto",
    threads: int | None = None,
    iterations: int | None = None,
    limit: int | None = None,
    timeout: float | None = None,
    memory: float | str | None = None,
    strategy: Strategy = "auto",
    **more: Any,
) -> Connection:
    """Return a connection to relations, for several views that share their state.

    Parameters
    ----------
    relations
        The initial rows of relations, by name, as for `view`. They may also be keywords.
    bag
        Exact weights instead of sets, for all views; by default as the language of the first view. In a connection
        with weights, answers of Datalog have weights too.
    schema
        As for `view`.
    backend, threads, iterations, limit, timeout, memory, strategy
        As for `Program`. The limits hold for all views together.

    Examples
    --------
    >>> with connect(orders={"cust": ["a", "b", "a"], "amount": [5, 7, 9]}) as connection:
    ...     totals = connection.view("select cust, sum(amount) total from orders group by cust", name="totals")
    ...     large = connection.view("select cust from totals where total > 10", name="large")
    ...     large.snapshot().rows(), connection.apply(orders={"cust": ["b"], "amount": [4]})["large"].rows()
    ([('a',)], [(('b',), 1)])
    """
    options = ProgramOptions(
        schema=schema, backend=backend, threads=threads, iterations=iterations, limit=limit, timeout=timeout,
        memory=memory, strategy=strategy,
    )  # fmt: skip
    return Connection(merge_relations(relations, more), None if bag is None else validate_flag("bag", bag), options)


@entry_point
class _ProgramView(Subscribable):
    """Outputs of the program of a connection."""

    _made_by = "gpu_wcoj.view"

    def __init__(self, connection: Connection, outputs: tuple[str, ...], *, ignores_case: bool = False) -> None:
        self.listeners = []
        self._connection: Connection | None = connection
        self._outputs = outputs
        self.ignores_case = ignores_case  # for names in calls of methods, which no dialect folds

    @property
    def outputs(self) -> tuple[str, ...]:
        """The names of the answers."""
        return self._outputs

    @property
    def name(self) -> str:
        """The name of the view: its first output."""
        return self.outputs[0]

    @property
    def connection(self) -> Connection:
        """The connection of the view, to which other views can be added.

        Raises
        ------
        UsageError
            If the view is closed.
        """
        if self._connection is None:
            raise UsageError.wrong_state("this call", f"the view '{self.name}' is closed", "Make another view.")
        return self._connection

    @property
    def program(self) -> Program:
        """The program that computes the view and those beside it; see `Connection.program`."""
        return self.connection.program

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return self._connection is None

    def close(self) -> None:
        """Drop the view and its subscriptions, and free their memory; it may be closed twice.

        Raises
        ------
        UsageError
            If another view of the connection reads it.

        Examples
        --------
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> hops.close()
        >>> hops.is_closed
        True
        """
        if self._connection is not None:
            self._connection.drop(self.name)

    def detach(self) -> None:
        """Mark the view as closed, after its connection has dropped it."""
        self._connection = None
        self.listeners.clear()

    @property
    def turns(self) -> StateLock:
        """The lock of the ticks of all views of the connection."""
        return self.connection.turns

    @abstractmethod
    def change_among(self, answers: Mapping[str, ZSet]) -> Any:
        """Return the change of this view."""

    def _present(self) -> Any:
        return self.change_among({name: self.program.relation(name) for name in self.outputs})

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Store the view in a folder for `restore`, with all that shares its state.

        The first call writes the whole state, later calls with the same folder write what has changed since.

        Raises
        ------
        CheckpointError, CheckpointWriteError
            As `Program.checkpoint`.

        Examples
        --------
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     hops.checkpoint(folder)
        ...     again = View.restore(folder)
        >>> again.apply(edge=[(3, 4)]).rows()
        [((2, 4), 1)]
        """
        self.connection.checkpoint(path)

    @classmethod
    def restore(cls, path: str | PathLike[str], **options: Any) -> Self:
        """Return the view of a checkpoint; see `Connection.restore`.

        Raises
        ------
        CheckpointError
            If there is no checkpoint, or it holds several views, or another kind of view.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> with TemporaryDirectory() as folder:
        ...     hops.checkpoint(folder)
        ...     View.restore(folder, threads=1).rows()
        [(1, 3)]
        """
        connection = Connection.restore(path, **options)
        views = [*connection.views.values()]
        if len(views) != 1 or not isinstance(views[0], cls):
            raise CheckpointError.with_parts(
                f"the checkpoint '{path}' holds {listed(f'{type(one).__name__} {one.name}' for one in views)}",
                subject=str(path), expected=f"one {cls.__name__}", remedy="Call gpu_wcoj.Connection.restore.",
            )  # fmt: skip
        return views[0]


@entry_point
class View(_ProgramView):
    """The answer of a query that is kept up to date; made by `view`.

    Examples
    --------
    >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
    >>> hops.apply(edge=[(3, 4)]).rows()
    [((2, 4), 1)]
    >>> hops.snapshot().rows(), hops.count()
    ([(1, 3), (2, 4)], 2)
    >>> hops.close()
    """

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> ZSet | MatchChange:
        """Apply one tick's changes of relations and return the change of the answer, with weights.

        Views that share the state take the change, too.

        Parameters
        ----------
        changes
            By relation, as for `Program.step`: a `ZSet` or anything shaped as rows, where an extra column ``weight``
            holds weights, below 0 for deletions. Columns with names go by name, rows of tuples by position. They may
            also be keywords.

        Raises
        ------
        GpuWcojError
            Same as `Program.step`; the answer is as before.

        Examples
        --------
        >>> pairs = view("pair(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2)])
        >>> pairs.apply(edge=[(2, 3)]).rows()
        [((1, 3), 1)]
        """
        return self.change_among(self.connection.run_tick(merge_relations(changes, more), self.ignores_case))

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the answer."""
        return list(self.program.empty(self.name).names)

    def snapshot(self, name: str | None = None) -> Result:
        """Return the answer, or the relation `name`, as a table.

        Raises
        ------
        UnknownRelationError
            If there is no such relation.

        Examples
        --------
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> hops.snapshot().rows(), hops.snapshot("edge").rows()
        ([(1, 3)], [(1, 2), (2, 3)])
        """
        name = self.name if name is None else self.connection.relation_name(name, self.ignores_case)
        return Result(self.program.relation(name))

    def count(self, name: str | None = None) -> int:
        """Return the number of rows of `snapshot`.

        Rows are not enumerated if the count can be computed otherwise.

        Examples
        --------
        >>> hops = view("hop(a, c) :- edge(a, b), edge(b, c).", edge=[(1, 2), (2, 3)])
        >>> hops.count(), hops.count("edge")
        (1, 2)
        """
        name = self.name if name is None else self.connection.relation_name(name, self.ignores_case)
        return self.program.count(name)

    def change_among(self, answers: Mapping[str, ZSet]) -> ZSet | MatchChange:
        """Return the change of this view."""
        return answers[self.name]


@entry_point
class SharedMotifView(View):
    """The matches of a motif over relations of a connection; made by `Connection.view`.

    Other views read the matches as a relation of flat columns, such as ``"a.id"``. Keys are not checked: a vertex with
    two rows is in twice as many matches.

    Examples
    --------
    >>> connection = connect(edges={"src": [1, 2], "dst": [2, 1], "amount": [5, 9]}, bag=True)
    >>> pairs = connection.view("(a)-[e]->(b); (b)-[]->(a)", where="e.amount > 6", columns=["a", "e.amount"])
    >>> pairs.snapshot().rows()
    [({'id': 2}, 9)]
    >>> large = connection.view("SELECT count(*) FROM matches", name="n_large")
    >>> pairs.apply(edges={"src": [1], "dst": [2], "amount": [7]}).rows()
    [(({'id': 1}, 7), 1), (({'id': 2}, 9), 1)]
    """

    def __init__(self, connection: Connection, outputs: tuple[str, ...], columns: Sequence[PackedColumn]) -> None:
        super().__init__(connection, outputs)
        self.packed = columns

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the matches."""
        return [column.label for column in self.packed]

    def snapshot(self, name: str | None = None) -> Result:
        """Return the matches, or the relation `name`, as a table."""
        if name is not None:
            return super().snapshot(name)
        return Result(PackedMatches(self.packed, self.program.relation(self.name)))

    def change_among(self, answers: Mapping[str, ZSet]) -> MatchChange:
        """Return the change of the matches."""
        return MatchChange(PackedMatches(self.packed, answers[self.name]))


@entry_point
class MultiView(_ProgramView, SeveralAnswers):
    """The answers of a program that are kept up to date; made by `view` with a list of outputs.

    Examples
    --------
    >>> ends = view("out(a) :- edge(a, b). into(b) :- edge(a, b).", edge=[(1, 2)], outputs=["out", "into"])
    >>> ends.apply(edge=[(1, 3)])["into"].rows()
    [((3,), 1)]
    >>> ends.count()
    {'out': 1, 'into': 2}
    """

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, ZSet]:
        """Apply one tick's changes; return the change of each output. See `View.apply`.

        Examples
        --------
        >>> text = "out(a) :- edge(a, b). into(b) :- edge(a, b)."
        >>> ends = view(text, edge=[(1, 2)], outputs=["out", "into"])
        >>> {name: change.rows() for name, change in ends.apply(edge=[(1, 3)]).items()}
        {'out': [], 'into': [((3,), 1)]}
        """
        return self.change_among(self.connection.run_tick(merge_relations(changes, more), self.ignores_case))

    def change_among(self, answers: Mapping[str, ZSet]) -> dict[str, ZSet]:
        """Return the changes of this view."""
        return {name: answers[name] for name in self.outputs}


def _spelled(name: str, names: Sequence[str]) -> str:
    """Return the one of `names` that matches `name` without regard to case.

    Without a match, or with several, it is `name` itself.
    """
    matches = [candidate for candidate in names if candidate.casefold() == name.casefold()]
    return matches[0] if len(matches) == 1 and name not in names else name


def names_in(rows: Any) -> list[str]:
    """Return the column names of rows that can be read more than once; empty without names.

    Examples
    --------
    >>> names_in({"src": [1], "dst": [2]}), names_in([(1, 2)])
    (['src', 'dst'], [])
    """
    if isinstance(rows, ZSet):
        return list(rows.names)
    if isinstance(rows, Mapping):
        return [key for key in rows if isinstance(key, str)]
    names = getattr(rows, "column_names", None)  # of PyArrow
    if names is None and hasattr(rows, "__arrow_c_stream__"):
        names = getattr(rows, "columns", None)  # of pandas and Polars
    return [column_name for column_name in names if isinstance(column_name, str)] if isinstance(names, Iterable) else []


@entry_point
class MotifView(Matcher, View):
    """The matches of a motif, kept up to date; made by `view`.

    Examples
    --------
    >>> pairs = view("(a)-[e]->(b)", edges={"src": [1], "dst": [2], "n": [5]}, where="e.n > 4", columns=["e.n"])
    >>> pairs.apply(edges={"src": [1, 1], "dst": [3, 2], "n": [7, 5], "weight": [1, -1]}).rows()
    [((5,), -1), ((7,), 1)]
    >>> pairs.count()
    1
    """

    @property
    def connection(self) -> Connection:
        """Not supported: a motif has tables of its own."""
        raise UsageError.unsupported(
            "a second view on the state of a motif", remedy="Make the motif a view of gpu_wcoj.connect(bag=True)."
        )

    @property
    def matcher(self) -> Matcher:
        """The matcher of the motif: the view itself."""
        return self
