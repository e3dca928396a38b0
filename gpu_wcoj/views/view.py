"""Views: answers of a query, in any of the languages, that are kept up to date."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

from gpu_wcoj.arrow.table import columns_by_name
from gpu_wcoj.backend import BackendName
from gpu_wcoj.engine.options import ProgramOptions, validate_functions
from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.locks import NotCopied
from gpu_wcoj.one_shot import listed_outputs, merge_relations, single_output
from gpu_wcoj.planner.ir import Strategy
from gpu_wcoj.prepared_query import LeftOut, QuerySource, prepare_query
from gpu_wcoj.program import Program, TickReport
from gpu_wcoj.query.ir import Rules
from gpu_wcoj.query.languages import Language, check_language, language_of
from gpu_wcoj.result import Result
from gpu_wcoj.user_functions import Function
from gpu_wcoj.views.matcher import MOTIF_OPTIONS, Matcher, MotifOptions, refuse_options, tables_of
from gpu_wcoj.views.matches import MatchChange
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.explain.render import Format


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
    gpu_memory: float | str | None = None,
    route: Literal["auto", "device", "cpu"] | int = "auto",
    threads: int | None = None,
    chunk_rows: int | None = None,
    iterations: int | None = None,
    replan: float | None = 4.0,
    analyze: bool = False,
    strategy: Strategy = "auto",
    order: Mapping[str, Sequence[str]] | None = None,
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
    gpu_memory: float | str | None = None,
    route: Literal["auto", "device", "cpu"] | int = "auto",
    threads: int | None = None,
    chunk_rows: int | None = None,
    iterations: int | None = None,
    replan: float | None = 4.0,
    analyze: bool = False,
    strategy: Strategy = "auto",
    order: Mapping[str, Sequence[str]] | None = None,
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
        their names and that are not passed. Motifs and EDN read passed tables only.
    outputs
        The relation that is the answer if the program has several outputs; or a list of relations, for a `MultiView`,
        whose methods return a dict by output.
    functions, keep, backend, gpu_memory, route
        As for `Program`.
    threads, chunk_rows, iterations, replan, analyze, strategy, order
        As for `Program`.
    more
        Relations; and for a motif the options ``where``, ``semantics``, ``columns``, ``ids``, ``id``, ``src`` and
        ``dst`` of `gpu_wcoj.views.find`.

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
    options = ProgramOptions(
        bag=prepared is not None and prepared.bag, inputs=None if prepared is None else prepared.rules.inputs,
        functions=functions, schema=schema, outputs=listed_outputs(outputs), keep=keep, backend=backend,
        gpu_memory=gpu_memory, route=route, threads=threads, chunk_rows=chunk_rows, iterations=iterations,
        replan=replan, analyze=analyze, strategy=strategy, order=order,
    )  # fmt: skip
    if prepared is None:
        if isinstance(relations, Mapping):
            relations, more = None, merge_relations(relations, more)
        return MotifView(_matcher(str(text), relations, more, options))
    program, rows = prepared.start(options)
    kind = MultiView if isinstance(outputs, (list, tuple)) else View
    if kind is View:
        single_output(program.outputs)
    program.load(rows)
    return kind(program, ignores_case=resolved_language == "sql", left_out=prepared.left_out)


def _matcher(text: str, graph: Any, more: Mapping[str, Any], options: ProgramOptions) -> Matcher:
    """Return the matcher of a motif; `more` has its tables and its options."""
    allowed = ("vertices", "edges", *MOTIF_OPTIONS)
    for name in more:
        if name not in allowed:
            raise UsageError.unknown_name("table or option of a motif", name, allowed)
    tables = tables_of(graph, more.get("vertices"), more.get("edges"))
    motif_options = MotifOptions(**{name: more[name] for name in MOTIF_OPTIONS if name in more})
    return Matcher.from_options(text, tables, motif_options, options)


@entry_point
class _MaintainedProgram(NotCopied):
    """A program that is kept up to date, and the spelling of its names."""

    def __init__(
        self, program: Program, *, ignores_case: bool = False, left_out: Mapping[str, LeftOut] | None = None
    ) -> None:
        self.program = program
        self._ignores_case = ignores_case  # for names in calls of methods, which no dialect folds
        self._left_out = left_out or {}

    def __repr__(self) -> str:
        return f"{type(self).__name__} of {self.program!r}, after {self.program.last_tick.tick + 1} ticks"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    @property
    def progress(self) -> TickReport:
        """The report of the last tick."""
        return self.program.last_tick

    def explain(
        self,
        *,
        analyze: bool = False,
        bounds: bool = False,
        statistics: str | PathLike[str] | None = None,
        format: Format = "text",  # noqa: A002  # as in Program.explain
    ) -> str:
        """Return the plan of the view; see `Program.explain`."""
        return self.program.explain(analyze=analyze, bounds=bounds, statistics=statistics, format=format)

    def _step(self, changes: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, ZSet]:
        """Take one tick; return the changes of the outputs."""
        merged = merge_relations(changes, more)
        return self.program.step(dict(self._change(self._relation_name(name), rows) for name, rows in merged.items()))

    def _relation_name(self, name: str) -> str:
        """Return a relation's name in the program's spelling.

        Names of SQL may differ in case if one relation matches.
        """
        return _spelled(name, (*self.program.inputs, *self.program.heads)) if self._ignores_case else name

    def _change(self, name: str, rows: Any) -> tuple[str, Any]:
        """Return a change of the columns that the program has, with names in their spelling."""
        if name in self._left_out:
            rows = self._left_out[name].without(rows, f"relation '{name}'")
        declared = self.program.declared.get(name)
        column_names = names_in(rows)
        if not self._ignores_case or declared is None or not column_names or set(column_names) <= {*declared, "weight"}:
            return name, rows
        spelled = {column_name: _spelled(column_name, declared) for column_name in column_names}
        if len(set(spelled.values())) < len(column_names) or spelled == {
            column_name: column_name for column_name in column_names
        }:
            return name, rows
        if isinstance(rows, ZSet):
            names = tuple(spelled[column_name] for column_name in column_names)
            return name, ZSet(names, rows.columns, rows.stored_weights, rows.weight_name, rows.backend)
        columns = columns_by_name(rows, f"relation '{name}'")
        return name, {spelled[column_name]: values for column_name, values in columns.items()}


@entry_point
class View(_MaintainedProgram):
    """The answer of a query that is kept up to date; made by `view`.

    Attributes
    ----------
    program
        The program that computes it.
    """

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> ZSet | MatchChange:
        """Apply one tick's changes of relations and return the change of the answer, with weights.

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
        (change,) = self._step(changes, more).values()
        return change

    def snapshot(self, name: str | None = None) -> Result:
        """Return the answer, or the relation `name`, as a table.

        Raises
        ------
        UnknownRelationError
            If there is no such relation.
        """
        name = self.program.outputs[0] if name is None else self._relation_name(name)
        return Result(self.program.relation(name))

    def count(self, name: str | None = None) -> int:
        """Return the number of rows of `snapshot`.

        Rows are not enumerated if the count can be computed otherwise.
        """
        return self.program.count(self.program.outputs[0] if name is None else self._relation_name(name))


@entry_point
class MultiView(_MaintainedProgram):
    """The answers of a program that are kept up to date; made by `view` with a list of outputs.

    Attributes
    ----------
    program
        The program that computes them.

    Examples
    --------
    >>> ends = view("out(a) :- edge(a, b). into(b) :- edge(a, b).", edge=[(1, 2)], outputs=["out", "into"])
    >>> ends.apply(edge=[(1, 3)])["into"].rows()
    [((3,), 1)]
    >>> ends.count()
    {'out': 1, 'into': 2}
    """

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> dict[str, ZSet]:
        """Apply one tick's changes; return the change of each output. See `View.apply`."""
        return self._step(changes, more)

    def snapshot(self) -> dict[str, Result]:
        """Return each output as a table."""
        return {name: Result(self.program.relation(name)) for name in self.program.outputs}

    def count(self) -> dict[str, int]:
        """Return the number of rows of each output."""
        return {name: self.program.count(name) for name in self.program.outputs}


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
class MotifView(View):
    """The matches of a motif, kept up to date.

    Attributes
    ----------
    matcher
        The matcher of the motif.

    Examples
    --------
    >>> pairs = view("(a)-[e]->(b)", edges={"src": [1], "dst": [2], "n": [5]}, where="e.n > 4", columns=["e.n"])
    >>> pairs.apply(edges={"src": [1, 1], "dst": [3, 2], "n": [7, 5], "weight": [1, -1]}).rows()
    [((5,), -1), ((7,), 1)]
    >>> pairs.count()
    1
    """

    def __init__(self, matcher: Matcher) -> None:
        super().__init__(matcher.program)
        self.matcher = matcher

    def apply(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> MatchChange:
        """Apply one tick's changes of ``vertices`` and ``edges``; see `Matcher.apply`."""
        return self.matcher.step(merge_relations(changes, more))

    def snapshot(self, name: str | None = None) -> Result:
        """Return the matches, or the relation `name`, as a table."""
        return self.matcher.matches() if name is None else super().snapshot(name)

    def count(self, name: str | None = None) -> int:
        """Return the number of matches, without listing them."""
        return self.matcher.count() if name is None else super().count(name)
