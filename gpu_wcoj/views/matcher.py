"""Incremental matching of motifs in the tables of a graph."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import Any, Final, Self, TypeVar

from gpu_wcoj.arrow.indexed_table import distinct_values, kinds_of, nulls
from gpu_wcoj.arrow.table import is_of_spark
from gpu_wcoj.engine.ingest import Incoming, read_change
from gpu_wcoj.engine.options import STORED_OPTIONS, ProgramOptions, validate_flag
from gpu_wcoj.errors import CheckpointError, SchemaError, UsageError, entry_point, listed, nearest
from gpu_wcoj.locks import ClosedLock, StateLock
from gpu_wcoj.prepared_query import tables_of_caller
from gpu_wcoj.program import Program
from gpu_wcoj.query.ir import Atom, Declaration, Directive, Rule, Rules, Variable
from gpu_wcoj.query.motif.compile import ROW, CompiledMotif, Graph, Semantics, compile_motif
from gpu_wcoj.query.motif.parse import Motif, parse
from gpu_wcoj.result import Result
from gpu_wcoj.views.matches import (
    Lookup,
    MatchChange,
    MatchRows,
    Table,
    as_table,
    elements_of,
    match_columns,
    with_keys,
)
from gpu_wcoj.views.subscribers import Subscribable, deliver
from gpu_wcoj.zset.zset import ZSet

T = TypeVar("T")


@dataclass(frozen=True)
class MotifOptions:
    """Options for the matches of a motif; `find` documents them.

    Attributes
    ----------
    where
        A condition on columns.
    semantics
        Elements that must differ.
    columns
        Columns of the matches; None for all named elements.
    ids
        Lists of ids to which vertices are restricted.
    id, src, dst
        Names of the key columns.
    """

    where: str | None = None
    semantics: Semantics = "homomorphism"
    columns: Sequence[str] | None = None
    ids: Mapping[str, Any] | None = None
    id: str = "id"
    src: str = "src"
    dst: str = "dst"


MOTIF_OPTIONS: Final = tuple(declared.name for declared in fields(MotifOptions))
"""The names of the options for the matches of a motif."""

_REFUSED: Final = (*STORED_OPTIONS, "functions")
"""The options of a program that motifs do not have."""


@entry_point
class Matcher(Subscribable):
    """Matches of a motif in a changing graph.

    Parameters
    ----------
    is_kept
        True if changes will follow.
    motif, graph, vertices, edges, where, semantics, columns, ids, id, src, dst, options
        See `gpu_wcoj.views.find`.

    Attributes
    ----------
    motif
        The parsed motif.
    motif_options
        The options for its matches.
    compiled
        The compiled motif.

    Examples
    --------
    >>> matcher = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
    >>> matcher.apply(edges={"src": [2], "dst": [1]}).rows()
    [((1, 2), 1), ((2, 1), 1)]
    >>> matcher.apply(edges={"src": [1], "dst": [2], "weight": [-1]}).rows()
    [((1, 2), -1), ((2, 1), -1)]
    >>> len(matcher.matches())
    0
    """

    def __init__(
        self,
        motif: str | Motif,
        graph: Any = None,
        *,
        vertices: Any = None,
        edges: Any = None,
        where: str | None = None,
        semantics: Semantics = "homomorphism",
        columns: Sequence[str] | None = None,
        ids: Mapping[str, Any] | None = None,
        id: str = "id",  # noqa: A002  # the column is called so
        src: str = "src",
        dst: str = "dst",
        is_kept: bool = True,
        **options: Any,
    ) -> None:
        refuse_options(name for name in _REFUSED if name in options)
        self._open(
            motif,
            tables_of(graph, vertices, edges),
            MotifOptions(where, semantics, columns, ids, id, src, dst),
            ProgramOptions.from_keywords(**options),
            is_kept,
        )

    @classmethod
    def from_options(
        cls,
        motif: str | Motif,
        tables: tuple[Any, Any],
        motif_options: MotifOptions,
        options: ProgramOptions,
        is_kept: bool = True,
    ) -> Self:
        """Return a matcher of the tables of vertices and edges, with these options."""
        matcher = cls.__new__(cls)
        matcher._open(motif, tables, motif_options, options, is_kept)
        return matcher

    def _open(
        self,
        motif: str | Motif,
        tables: tuple[Any, Any],
        motif_options: MotifOptions,
        options: ProgramOptions,
        is_kept: bool,
    ) -> None:
        refuse_options(options.changed(_REFUSED))
        id, src, dst = motif_options.id, motif_options.src, motif_options.dst  # noqa: A001  # the column is called so
        vertices, edges = tables
        self.motif = motif if isinstance(motif, Motif) else parse(motif)
        self.motif_options = motif_options
        edges = with_keys(as_table(edges, "the edges"), (src, dst))
        vertices = None if vertices is None else as_table(vertices, "the vertices")
        self._graph = graph_of(None if vertices is None else kinds_of(vertices), kinds_of(edges), motif_options)
        self._columns = match_columns(self.motif, motif_options.columns, self._graph)
        by_rows = is_kept and vertices is not None
        self.compiled: CompiledMotif = compile_motif(
            self.motif,
            where=motif_options.where,
            semantics=motif_options.semantics,
            elements=elements_of(self._columns, self._graph, by_rows),
            ids=tuple(motif_options.ids or ()),
            graph=self._graph,
        )
        self._is_kept = is_kept
        self._program = Program.from_options(self.compiled.rules, replace(options, bag=True, single_tick=not is_kept))
        self._turns = StateLock("the matcher")
        self._archive: Program | None = None  # the tables as they were stored last
        self.listeners = []
        needed = self._needed()
        self._edges = Table.from_data("edges", edges, (src, dst), needed["edges"])
        self._vertices = None
        if vertices is not None:
            self._vertices = Table.from_data("vertices", vertices, (id,), needed["vertices"])
        self._session = edges.sparkSession if is_of_spark(edges) else None
        changes = {"vertices": self._vertices, "edges": self._edges}
        self._first: dict[str, Incoming] = {
            name: table.all_rows(self.program, columns)
            for name, columns, table in (
                ("vertices", self.compiled.vertices, changes["vertices"]),
                ("edges", self.compiled.edges, changes["edges"]),
            )
            if columns and table is not None
        }
        for name, values in (motif_options.ids or {}).items():
            self._first[f"ids#{name}"] = _id_input(name, values, self.program)
        if is_kept:
            self.program.load(self._first)
            self._first = {}

    @property
    def program(self) -> Program:
        """The program that runs the rules of the motif."""
        if self.is_closed:
            raise UsageError.wrong_state("this call", "the matcher is closed", "Make another one.")
        return self._program

    @property
    def outputs(self) -> tuple[str, ...]:
        """The name of the answer."""
        return ("matches",)

    @property
    def rules(self) -> Rules:
        """The rules of the motif."""
        return self.compiled.rules

    def stored_rows(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Return the names of all columns of each table, and its present rows.

        Rows have the columns that the motif needs.
        """
        tables = (self._vertices, self._edges)
        return {table.name: (table.names, table.contents.present()[0]) for table in tables if table is not None}

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the matches."""
        return [column.label for column in self._columns]

    def _needed(self) -> dict[str, list[str]]:
        """Return the requested or compared columns per table, in the order of the table."""
        graph = self._graph
        needed = {"vertices": {graph.id}, "edges": {graph.src, graph.dst}}
        read = {"vertices": self.compiled.vertices, "edges": self.compiled.edges}
        for name, columns in read.items():
            needed[name] |= {column for column in columns if column != ROW}
        for column in self._columns:
            if column.kind != "told":
                name, names_ = ("vertices", graph.vertices) if column.kind == "vertex" else ("edges", graph.edges)
                needed[name] |= set(names_ or ()) if column.field is None else {column.field}
        return {
            name: [column for column in names_ or () if column in needed[name]]
            for name, names_ in (("vertices", graph.vertices), ("edges", graph.edges))
        }

    def first(self) -> Result:
        """Return the matches in the initial tables; only once without ``is_kept``."""
        answers = self.program.step(self._first) if self._is_kept else self.program.answer(self._first)
        results = [(part, answers[part.relation]) for part in self.compiled.parts]
        return Result(MatchRows(self._columns, results, self._lookup()), self._session)

    def matches(self) -> Result:
        """Return all present matches.

        Examples
        --------
        >>> pairs = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
        >>> change = pairs.apply(edges={"src": [2], "dst": [1]})
        >>> pairs.matches().rows()
        [(1, 2), (2, 1)]
        """
        return Result(self._turns.run("reading the matches", self._matches), self._session)

    def _matches(self) -> MatchRows:
        results = [(part, self.program.relation(part.relation)) for part in self.compiled.parts]
        return MatchRows(self._columns, results, self._lookup())

    def count(self, name: str | None = None) -> int:
        """Return the number of matches, without listing them, or of the rows of the relation `name`.

        Examples
        --------
        >>> pairs = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
        >>> change = pairs.apply(edges={"src": [2], "dst": [1]})
        >>> pairs.count(), pairs.count("edges")
        (2, 2)
        """
        if name is not None:
            return self.program.count(name)
        parts = self.compiled.parts
        return self._turns.run("counting the matches", lambda: sum(self.program.count(part.relation) for part in parts))

    def apply(
        self, changes: Mapping[str, Any] | None = None, /, *, vertices: Any = None, edges: Any = None, **more: Any
    ) -> MatchChange:
        """Apply a change of the tables; return the change of the matches.

        Subscribers get it, too.

        Parameters
        ----------
        changes
            Changes by table name, as an alternative to the keyword arguments.
        vertices, edges
            Rows to insert, or to delete where a column ``weight`` (``_weight``, if the table has a column of that
            name) is below 0. A deletion matches rows by the requested or compared columns; other columns are not
            stored. To change a vertex, delete its old row and insert the new one.
        more
            Other names are an error.

        Returns
        -------
        Each changed row once, with its weight: the number of added matches, negative for removed ones.

        Raises
        ------
        GpuWcojError
            If the change is invalid, for example if it deletes a missing row. The state is as before then.

        Examples
        --------
        >>> pairs = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
        >>> pairs.apply(edges={"src": [2], "dst": [1]}).rows()
        [((1, 2), 1), ((2, 1), 1)]
        >>> pairs.apply(edges={"src": [1], "dst": [2], "weight": [-1]}).rows()
        [((1, 2), -1), ((2, 1), -1)]
        """
        for name in more:
            raise UsageError.unknown_name("table of a motif", name, ("vertices", "edges"))
        vertices, edges = _table_changes(changes, vertices, edges)
        return self._turns.run("taking a tick", lambda: self._apply(vertices, edges))

    def _apply(self, vertices: Any, edges: Any) -> MatchChange:
        answers, lookup = self._run_change(vertices, edges, self.program.step)
        results = [(part, answers[part.relation]) for part in self.compiled.parts]
        change = MatchChange(MatchRows(self._columns, results, lookup), self._session)
        if self.listeners and len(change):
            deliver([(self.listeners, change)])
        return change

    def apply_counted(
        self, changes: Mapping[str, Any] | None = None, /, *, vertices: Any = None, edges: Any = None
    ) -> int:
        """Apply a change as `apply` does; return only the net change of the number of matches."""
        vertices, edges = _table_changes(changes, vertices, edges)

        def counted() -> int:
            if self.listeners:
                return self._apply(vertices, edges).net
            counts, _ = self._run_change(vertices, edges, self.program.step_counts)
            return sum(counts[part.relation].net for part in self.compiled.parts)

        return self._turns.run("taking a tick", counted)

    def load(self, changes: Mapping[str, Any] | None = None, /, *, vertices: Any = None, edges: Any = None) -> None:
        """Apply a change as `apply` does; only subscribers need the change of the matches."""
        vertices, edges = _table_changes(changes, vertices, edges)

        def load() -> None:
            if self.listeners:
                self._apply(vertices, edges)
            else:
                self._run_change(vertices, edges, self.program.load)

        self._turns.run("taking a tick", load)

    def _run_change(self, vertices: Any, edges: Any, run: Callable[[Mapping[str, Any]], T]) -> tuple[T, Lookup]:
        """Run a change; return the program's answers and the rows before and after."""
        if vertices is not None and self._vertices is None:
            raise UsageError.wrong_state("a change of vertices", "vertices are the ends of the edges, without a table")
        vertex_change = None if vertices is None or self._vertices is None else self._vertices.apply_change(vertices)
        edge_change = None if edges is None else self._edges.apply_change(edges)
        changes = {}
        if vertex_change is not None and self.compiled.vertices:
            changes["vertices"] = vertex_change.to_input(self.program, self.compiled.vertices)
        if edge_change is not None and self.compiled.edges:
            changes["edges"] = edge_change.to_input(self.program, self.compiled.edges)
        answers = run(changes)
        lookup = self._lookup()
        if vertex_change is not None:
            self._vertices, lookup = vertex_change.after, replace(lookup, vertices=vertex_change.contents)
        if edge_change is not None:
            self._edges, lookup = edge_change.after, replace(lookup, edges=edge_change.contents)
        return answers, lookup

    def step(self, changes: Mapping[str, Any]) -> MatchChange:
        """Apply a change; the same as `apply`."""
        return self.apply(changes)

    def snapshot(self, name: str | None = None) -> Result:
        """Return all present matches, as `matches` does, or the relation `name`, as a table.

        Examples
        --------
        >>> pairs = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
        >>> change = pairs.apply(edges={"src": [2], "dst": [1]})
        >>> pairs.snapshot().rows()
        [(1, 2), (2, 1)]
        """
        return self.matches() if name is None else Result(self.program.relation(name))

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Store the motif and the tables of the graph; see `Program.checkpoint`.

        Tables have the columns that the motif needs. It takes as long as reading the tables.

        Raises
        ------
        UnsupportedTypeError
            If a stored column is nested.
        UsageError
            If ids are of a type that JSON does not have.

        Examples
        --------
        >>> pairs = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     pairs.checkpoint(folder)
        ...     again = Matcher.restore(folder)
        >>> again.apply(edges={"src": [2], "dst": [1]}).rows()
        [((1, 2), 1), ((2, 1), 1)]
        """

        def store() -> None:
            options = {name: getattr(self.motif_options, name) for name in MOTIF_OPTIONS}
            ids = options["ids"] or {}
            options["ids"] = {name: distinct_values(values, name).column(0).to_pylist() for name, values in ids.items()}
            tables = self.stored_rows()
            names = {name: list(columns) for name, (columns, _) in tables.items()}
            rows = {name: ZSet.from_arrow(table) for name, (_, table) in tables.items()}
            archive = self._archive or Program(_archive_rules(rows), bag=True)
            is_new = archive.last_tick.tick < 0
            archive.load({name: now if is_new else now.minus(archive.relation(name)) for name, now in rows.items()})
            motif = {"text": str(self.motif), "options": options, "names": names}
            archive.checkpoint(path, extra={_MOTIF: motif})
            self._archive = archive

        self.turns.run("storing the state", store)

    @classmethod
    def restore(cls, path: str | PathLike[str], **options: Any) -> Self:
        """Return the matcher of a checkpoint that `checkpoint` has written.

        The matches are computed again.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> pairs = Matcher("(a)-[e]->(b)", edges={"src": [1], "dst": [2], "n": [5]}, where="e.n > 4")
        >>> with TemporaryDirectory() as folder:
        ...     pairs.checkpoint(folder)
        ...     again = Matcher.restore(folder)
        >>> again.count()
        1
        """
        archive = Program.restore(path)
        if _MOTIF not in archive.stored_beside:
            raise CheckpointError.with_parts(
                f"the checkpoint '{path}' was not stored by a view of a motif", subject=str(path),
                remedy="Restore it as what it is: gpu_wcoj.Connection.restore, or Program.restore.",
            )  # fmt: skip
        stored = archive.stored_beside[_MOTIF]
        tables = {}
        for name, columns in stored["names"].items():
            rows = Result(archive.relation(name)).to_arrow()
            for column in columns:
                if column not in rows.column_names:
                    rows = rows.append_column(column, nulls(len(rows)))
            tables[name] = rows.select(columns)
        motif_options = MotifOptions(**stored["options"])
        program_options = ProgramOptions.for_restore(options)
        tables_of_graph = tables.get("vertices"), tables["edges"]
        made = cls.from_options(stored["text"], tables_of_graph, motif_options, program_options)
        made._archive = archive
        return made

    @property
    def turns(self) -> StateLock:
        """The lock of the ticks and of what they pass on."""
        return self._turns

    @property
    def is_closed(self) -> bool:
        """True after `close`."""
        return isinstance(self._turns, ClosedLock)

    def close(self) -> None:
        """Drop the matches and the subscriptions, and free their memory; it may be closed twice.

        Examples
        --------
        >>> pairs = Matcher("(a)-[]->(b); (b)-[]->(a)", edges={"src": [1], "dst": [2]}, columns=["a.id", "b.id"])
        >>> pairs.close()
        >>> pairs.is_closed
        True
        """
        self._turns = ClosedLock(self._turns.what, "Make another one.")
        self._program.close()
        self.listeners.clear()
        self._archive = None

    def _present(self) -> MatchChange:
        return MatchChange(self._matches(), self._session)

    def _lookup(self) -> Lookup:
        return Lookup(self._graph, None if self._vertices is None else self._vertices.contents, self._edges.contents)


def _archive_rules(tables: Mapping[str, ZSet]) -> Rules:
    """Return rules over tables that are only stored."""
    first, *_ = tables
    terms = tuple(Variable(f"_#{position}" if position else "key") for position in range(len(tables[first].names)))
    declarations = (Declaration(name, table.names, (None,) * len(table.names)) for name, table in tables.items())
    return Rules(
        (Rule(Atom("keys", terms[:1]), (Atom(first, terms),)),), tuple(declarations),
        directives=tuple(Directive("input", name) for name in tables),
    )  # fmt: skip


_MOTIF: Final = "motif"
"""The key of the description of a motif in a checkpoint."""


def refuse_options(names: Iterable[str]) -> None:
    """Raise for the first of these names, which are options that a motif does not have."""
    for name in names:
        raise UsageError.unsupported(f"the option '{name}' for a motif", remedy="Leave it out.")


def graph_of(vertices: Mapping[str, str] | None, edges: Mapping[str, str], options: MotifOptions) -> Graph:
    """Return the schema of a graph, from the families of the columns of its tables.

    Raises
    ------
    SchemaError
        If a key column is missing, or a column has a reserved name.
    """
    id, src, dst = options.id, options.src, options.dst  # noqa: A001  # the column is called so
    vertex_kinds = {id: edges.get(src, "")} if vertices is None else vertices
    _check_keys("edges", edges, {"src": src, "dst": dst})
    _check_keys("vertices", vertex_kinds, {"id": id})
    kinds = {("vertices", name): kind for name, kind in vertex_kinds.items()}
    kinds |= {("edges", name): kind for name, kind in edges.items()}
    return Graph(tuple(vertex_kinds), tuple(edges), vertices is not None, id, src, dst, kinds)


def tables_of(graph: Any, vertices: Any, edges: Any, scan: bool = False) -> tuple[Any, Any]:
    """Return the tables of a graph object or of a pair, or the tables passed separately.

    With `scan` and without any of them, they are tables in the variables ``vertices`` and ``edges`` of the caller.
    """
    if scan and graph is None and vertices is None and edges is None:
        found = tables_of_caller(("vertices", "edges"))
        vertices, edges = found.get("vertices"), found.get("edges")
    if graph is None:
        if edges is None:
            raise UsageError.missing(
                "a motif", "a table of edges", "Pass edges=..., and vertices=... if they have columns, or a GraphFrame."
            )
        return vertices, edges
    if vertices is not None or edges is not None:
        raise UsageError.conflict("a graph", "vertices= or edges=", "Pass the graph, or vertices and edges.")
    if isinstance(graph, (list, tuple)) and len(graph) == 2 and all(map(is_of_spark, graph)):
        return graph[0], graph[1]
    if isinstance(graph, (list, tuple)) or not hasattr(graph, "vertices") or not hasattr(graph, "edges"):
        raise UsageError.wrong_type(
            "the graph",
            graph,
            "an object with attributes 'vertices' and 'edges', or two DataFrames of Spark",
            "Or pass tables as vertices=... and edges=..."
            + " The edges of this graph are edges=graph.edges." * hasattr(graph, "edges"),
        )
    return graph.vertices, graph.edges


def _table_changes(changes: object, vertices: Any, edges: Any) -> tuple[Any, Any]:
    """Return the changes of the two tables, from a mapping or from keyword arguments."""
    if changes is None:
        return vertices, edges
    if not isinstance(changes, Mapping):
        raise UsageError.wrong_type(
            "the argument changes",
            changes,
            "a mapping from 'vertices' and 'edges' to rows",
            "Pass a table as edges=... or vertices=...",
        )
    for name in changes:
        if name not in ("vertices", "edges"):
            raise UsageError.unknown_name("table of a motif", name, ("vertices", "edges"))
    for name, rows in (("vertices", vertices), ("edges", edges)):
        if rows is not None and name in changes:
            raise UsageError.duplicate("the table", name, remedy="Pass it once.")
    return changes.get("vertices", vertices), changes.get("edges", edges)


def _check_keys(table: str, names: Collection[str], keys: Mapping[str, str]) -> None:
    for option, name in keys.items():
        if name not in names:
            raise SchemaError(
                f"the {table} need a column '{name}', which is missing: got {listed(names)}.{nearest(name, names)}\n"
                f"  Name it: {option}='...'."
            )
        if ROW in names:
            raise SchemaError(f"the {table} have a column '{ROW}', a name that is reserved.\n  Rename it.")


def _id_input(name: str, values: Any, program: Program) -> Incoming:
    """Return the distinct non-null ids of a list as an input of the program."""
    relation = f"ids#{name}"
    return read_change(
        relation, distinct_values(values, f"the ids of '{name}'"), 1, None, [None], program.dictionaries,
        reserves_weight=False,
    )  # fmt: skip


# ``gw.find``: the matches of a motif in a graph.


@entry_point
def find(
    motif: str | Motif,
    graph: Any = None,
    /,
    *,
    vertices: Any = None,
    edges: Any = None,
    where: str | None = None,
    semantics: Semantics = "homomorphism",
    columns: Sequence[str] | None = None,
    ids: Mapping[str, Any] | None = None,
    id: str = "id",  # noqa: A002  # the column is called so
    src: str = "src",
    dst: str = "dst",
    scan: bool = True,
    **options: Any,
) -> Result:
    """Find the matches of a motif in a graph.

    Parameters
    ----------
    motif
        Terms such as ``(a)-[e]->(b); !(b)-[]->(a)``; see `gpu_wcoj.query.motif.parse`.
    graph
        A GraphFrame, or any object with ``vertices`` and ``edges``, instead of these two arguments.
    vertices
        A table with a column ``id`` and any others, one row per vertex. Without it, vertices are the ends of the edges.
    edges
        A table with columns ``src`` and ``dst`` and any others, one row per edge. Equal rows are different edges. Pairs
        without names, such as the edges of a graph of networkx, are source and destination.
    where
        A condition on columns, as in SQL: ``"t.amount > 900 AND a.country IN ('CH', 'LI')"``. Conditions on a single
        element are applied before the join.
    semantics
        Elements that must differ: ``"homomorphism"``, none (as in GraphFrames and SQL); ``"edges-distinct"``, edges
        (as in Cypher); ``"nodes-distinct"``, vertices, and edges between the same vertices (networkx monomorphisms).
        Elements of the same name are always the same.
    columns
        Columns of the matches: elements, as structs of all their columns, or single columns, ``"a.id"``. By default
        all named elements, in order of first occurrence.
    ids
        Vertices restricted to lists of ids: ``{"a": [1, 2]}``.
    id, src, dst
        Names of the key columns.
    scan
        Whether tables in the variables ``vertices`` and ``edges`` of the calling function, or of its module, are the
        graph if none is passed.
    options
        Options of `gpu_wcoj.program.Program`, such as ``backend`` and ``threads``.

    Notes
    -----
    As in GraphFrames, there is a row per choice of edges, including unnamed edges: parallel edges give a row each.
    Unlike GraphFrames, a negated term only removes matches and never merges equal rows; terms may come in any order;
    and if several terms are undirected or ranges, their ``_hop``, ``_pattern`` and ``_direction`` are numbered:
    ``_direction1``, ``_direction2``.

    An undirected edge ``(a)-[e]-(b)`` is found once from either of its ends. At a loop these are one end, and the
    semantics decides: under ``"edges-distinct"`` and ``"nodes-distinct"`` the loop is one match, in the direction
    ``out``, as in Cypher (Neo4j, Memgraph), GQL, SQL/PGQ and networkx. Under ``"nodes-distinct"``, vertices of
    different names differ: ``(a)-[e]-(a)`` finds the loop, ``(a)-[e]-(b)`` does not. Under ``"homomorphism"`` it is two
    matches, ``out`` and ``in``, as in the union of both directions in GraphFrames. The same holds for undirected chains
    of loops.

    Raises
    ------
    MotifSyntaxError, UnsupportedError
        If the motif or the condition cannot be read or is not supported.
    ColumnError, SchemaError, UsageError
        If a name is unknown or a table has the wrong columns.

    Examples
    --------
    >>> transfers = {"src": ["x", "y", "z", "z"], "dst": ["y", "z", "x", "w"], "amount": [950, 990, 910, 5]}
    >>> rings = find("(a)-[t1]->(b); (b)-[t2]->(c); (c)-[t3]->(a)", edges=transfers, where="t1.amount < t2.amount",
    ...              semantics="nodes-distinct", columns=["a.id", "t1.amount", "t2.amount"])
    >>> rings.rows()
    [('x', 950, 990), ('z', 910, 950)]
    """
    validate_flag("scan", scan)
    vertices, edges = tables_of(graph, vertices, edges, scan)
    matcher = Matcher(
        motif, vertices=vertices, edges=edges, where=where, semantics=semantics, columns=columns, ids=ids,
        id=id, src=src, dst=dst, is_kept=False, **options,
    )  # fmt: skip
    return matcher.first()
