"""Motifs as programs over a graph's tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gpu_wcoj.errors import SchemaError, UsageError, entry_point, listed, nearest
from gpu_wcoj.finding.matches import Lookup, Matches
from gpu_wcoj.finding.tables import Table, given
from gpu_wcoj.finding.wanted import elements_of, wanted_columns
from gpu_wcoj.incoming import Incoming, read_change
from gpu_wcoj.program import Program
from gpu_wcoj.query.motif.compiling import compiled
from gpu_wcoj.query.motif.form import ROW, Compiled, Graph, Semantics
from gpu_wcoj.query.motif.pattern import Motif
from gpu_wcoj.query.motif.reading import parse
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.turns import NotCopied, Turns

T = TypeVar("T")


@entry_point
class Matcher(NotCopied):
    """The matches of a motif in a graph that changes.

    Parameters
    ----------
    is_kept
        Whether there will be changes.
    others
        See `gpu_wcoj.finding.find`.

    Attributes
    ----------
    motif
        What is looked for.
    compiled
        Its rules.
    program
        What runs them.

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
        from gpu_wcoj.arrow.given import kinds_of
        from gpu_wcoj.arrow.table import is_of_spark

        vertices, edges = _tables(graph, vertices, edges)
        self.motif = motif if isinstance(motif, Motif) else parse(motif)
        for option in ("bag", "outputs"):
            if option in options:
                raise UsageError(f"the option '{option}' is not for motifs.\n  Leave it out.")
        edges = given(edges, "the edges")
        vertices = None if vertices is None else given(vertices, "the vertices")
        names = kinds_of(edges)
        vertex_names = {id: names.get(src, "")} if vertices is None else kinds_of(vertices)
        _check_keys("edges", names, {"src": src, "dst": dst})
        _check_keys("vertices", vertex_names, {"id": id})
        kinds = {("vertices", name): kind for name, kind in vertex_names.items()}
        kinds |= {("edges", name): kind for name, kind in names.items()}
        self._graph = Graph(tuple(vertex_names), tuple(names), vertices is not None, id, src, dst, kinds)
        self._wanted = wanted_columns(self.motif, columns, self._graph)
        by_rows = is_kept and vertices is not None
        self.compiled: Compiled = compiled(
            self.motif,
            where=where,
            semantics=semantics,
            asked=elements_of(self._wanted, self._graph, by_rows),
            ids=tuple(ids or ()),
            graph=self._graph,
        )
        self.program = Program(self.compiled.rules, bag=True, **options)
        self._turns = Turns("the matcher")
        needed = self._needed()
        self._edges = Table.of("edges", edges, (src, dst), needed["edges"])
        self._vertices = None
        if vertices is not None:
            self._vertices = Table.of("vertices", vertices, (id,), needed["vertices"])
        self._session = edges.sparkSession if is_of_spark(edges) else None
        changes = {"vertices": self._vertices, "edges": self._edges}
        self._first: dict[str, Incoming] = {
            name: table.whole(self.program, columns)
            for name, columns, table in (
                ("vertices", self.compiled.vertices, changes["vertices"]),
                ("edges", self.compiled.edges, changes["edges"]),
            )
            if columns and table is not None
        }
        for name, values in (ids or {}).items():
            self._first[f"ids#{name}"] = _ids(name, values, self.program)
        if is_kept:
            self.program.load(self._first)
            self._first = {}

    @property
    def rules(self) -> Rules:
        """The motif as rules."""
        return self.compiled.rules

    def _needed(self) -> dict[str, list[str]]:
        """The columns of the tables that are asked for or compared, in the order in which they came."""
        graph = self._graph
        needed = {"vertices": {graph.id}, "edges": {graph.src, graph.dst}}
        read = {"vertices": self.compiled.vertices, "edges": self.compiled.edges}
        for name, columns in read.items():
            needed[name] |= {one for one in columns if one != ROW}
        for one in self._wanted:
            if one.kind != "told":
                name, known = ("vertices", graph.vertices) if one.kind == "vertex" else ("edges", graph.edges)
                needed[name] |= set(known or ()) if one.field is None else {one.field}
        return {
            name: [one for one in known or () if one in needed[name]]
            for name, known in (("vertices", graph.vertices), ("edges", graph.edges))
        }

    def first(self) -> Matches:
        """The matches in the tables as they were given; of a matcher that is not kept, once."""
        answers = self.program.step(self._first)
        found = [(part, answers[part.relation]) for part in self.compiled.parts]
        return Matches(self._wanted, found, self._lookup(), _session=self._session)

    def matches(self) -> Matches:
        """All matches there are."""

        def read() -> Matches:
            found = [(part, self.program.relation(part.relation)) for part in self.compiled.parts]
            return Matches(self._wanted, found, self._lookup(), _session=self._session)

        return self._turns.run("reading the matches", read)

    def count(self) -> int:
        """How many there are; they are not listed."""
        parts = self.compiled.parts
        return self._turns.run("counting the matches", lambda: sum(self.program.count(one.relation) for one in parts))

    def apply(self, changes: Mapping[str, Any] | None = None, /, *, vertices: Any = None, edges: Any = None) -> Matches:
        """Take a change of the tables; return the change of the matches.

        Parameters
        ----------
        changes
            Those of both tables by their names, as an alternative to keywords.
        vertices, edges
            Rows that come, or, where a column ``weight`` (``_weight``, if the table has a column of that name) is
            below 0, go. A row goes by its values in the columns that are asked for or compared; others are not kept. A
            vertex changes by its old row going and its new one coming.

        Returns
        -------
        Each changed row once, with its weight: above 0 so many matches came, below 0 they went.

        Raises
        ------
        GpuWcojError
            If anything is wrong with the change, for example if a row is to go that is not there. Everything is as
            before then.
        """
        answers, lookup = self._take(changes, vertices, edges, self.program.step)
        found = [(part, answers[part.relation]) for part in self.compiled.parts]
        return Matches(self._wanted, found, lookup, is_change=True, _session=self._session)

    def apply_counted(
        self, changes: Mapping[str, Any] | None = None, /, *, vertices: Any = None, edges: Any = None
    ) -> int:
        """As `apply`, but only count: by how many the matches have become more."""
        counts, _ = self._take(changes, vertices, edges, self.program.step_counts)
        return sum(counts[part.relation].net for part in self.compiled.parts)

    def load(self, changes: Mapping[str, Any] | None = None, /, *, vertices: Any = None, edges: Any = None) -> None:
        """As `apply`, but do no more than the state needs."""
        self._take(changes, vertices, edges, self.program.load)

    def _take(
        self, changes: object, vertices: Any, edges: Any, run: Callable[[Mapping[str, Any]], T]
    ) -> tuple[T, Lookup]:
        """Give the program the changes of the tables, then make them; what came of it, and rows of before and after."""
        vertices, edges = _both(changes, vertices, edges)
        return self._turns.run("taking a tick", lambda: self._taken(vertices, edges, run))

    def _taken(self, vertices: Any, edges: Any, run: Callable[[Mapping[str, Any]], T]) -> tuple[T, Lookup]:
        if vertices is not None and self._vertices is None:
            raise UsageError("there is no table of vertices to change: they are the ends of the edges.")
        own = None if vertices is None or self._vertices is None else self._vertices.changed(vertices)
        other = None if edges is None else self._edges.changed(edges)
        changes = {}
        if own is not None and self.compiled.vertices:
            changes["vertices"] = own.incoming(self.program, self.compiled.vertices)
        if other is not None and self.compiled.edges:
            changes["edges"] = other.incoming(self.program, self.compiled.edges)
        answers = run(changes)
        lookup = self._lookup()
        if own is not None:
            self._vertices, lookup = own.after, replace(lookup, vertices=own.every)
        if other is not None:
            self._edges, lookup = other.after, replace(lookup, edges=other.every)
        return answers, lookup

    def step(self, changes: Mapping[str, Any]) -> Matches:
        """As `apply`."""
        return self.apply(changes)

    def snapshot(self) -> Matches:
        """As `matches`."""
        return self.matches()

    def explain(self, **options: Any) -> str:
        """How the rules run; see `gpu_wcoj.program.Program.explain`. A column ``_row`` numbers the rows of a table."""
        return self.program.explain(**options)

    def _lookup(self) -> Lookup:
        return Lookup(self._graph, None if self._vertices is None else self._vertices.held, self._edges.held)


def _tables(graph: Any, vertices: Any, edges: Any) -> tuple[Any, Any]:
    """The tables of a GraphFrame, or of whatever has them, or those that were given apart."""
    if graph is None:
        if edges is None:
            raise UsageError(
                "a motif needs edges.\n  Pass edges=..., and vertices=... if they have columns, or a GraphFrame."
            )
        return vertices, edges
    if vertices is not None or edges is not None:
        raise UsageError("a graph has its vertices and edges already.\n  Pass the graph, or vertices and edges.")
    if not hasattr(graph, "vertices") or not hasattr(graph, "edges"):
        raise UsageError(
            f"an object of type '{type(graph).__name__}' is no graph: it has no 'vertices' and 'edges'.\n"
            "  Pass tables as vertices=... and edges=..."
        )
    return graph.vertices, graph.edges


def _both(changes: object, vertices: Any, edges: Any) -> tuple[Any, Any]:
    """The changes of the two tables, from a mapping or from keywords."""
    if changes is None:
        return vertices, edges
    if not isinstance(changes, Mapping):
        raise UsageError(
            f"the changes are of type '{type(changes).__name__}'; a mapping from 'vertices' and 'edges' to rows is "
            "allowed.\n  Pass a table as edges=... or vertices=..."
        )
    for name in changes:
        if name not in ("vertices", "edges"):
            raise UsageError(f"a motif's tables are 'vertices' and 'edges'; there is no '{name}'.")
    for name, rows in (("vertices", vertices), ("edges", edges)):
        if rows is not None and name in changes:
            raise UsageError(f"the table '{name}' is given twice.\n  Give it once.")
    return changes.get("vertices", vertices), changes.get("edges", edges)


def _check_keys(table: str, names: Collection[str], keys: Mapping[str, str]) -> None:
    for option, name in keys.items():
        if name not in names:
            raise SchemaError(
                f"the {table} have no column '{name}'.\n"
                f"  Their columns are: {listed(names)}.{nearest(name, names)} Name it: {option}='...'."
            )
        if ROW in names:
            raise SchemaError(f"the {table} have a column '{ROW}', which is used inside.\n  Rename it.")


def _ids(name: str, values: Any, program: Program) -> Incoming:
    """A list of ids as the program's input, each once; nulls are none."""
    from gpu_wcoj.arrow.given import distinct_values

    relation = f"ids#{name}"
    return read_change(
        relation, distinct_values(values, f"the ids of '{name}'"), 1, None, [None], program.dictionaries,
        reserves_weight=False,
    )  # fmt: skip
