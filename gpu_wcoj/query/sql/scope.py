"""Names in scope of an expression: relations of FROM, and those of outer queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpu_wcoj.errors import ColumnError
from gpu_wcoj.query.sql.place import Place

if TYPE_CHECKING:
    from sqlglot.expressions import Column as ColumnNode
    from sqlglot.expressions import Expr as Node

    from gpu_wcoj.errors import UnknownRelationError


@dataclass(frozen=True)
class Source:
    """A relation of FROM: its name, and its columns with their numbers."""

    name: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Scope:
    """Meaning of the names in an expression.

    Attributes
    ----------
    sources
        The relations of FROM.
    visible
        The columns of ``*``, among which a column without a relation is looked up; columns that USING and NATURAL merge
        occur once.
    around
        The scope of the outer query, for a query that may refer to it.
    outer_refused
        The reason why names of the outer query cannot be used, if so, and a replacement in a second line.
    """

    sources: tuple[Source, ...] = ()
    visible: tuple[tuple[str, int], ...] = ()
    parent: Scope | None = None
    outer_refused: str = ""

    def column(self, node: ColumnNode, place: Place) -> int:
        """Return the number of a column.

        Raises
        ------
        ColumnError, UnknownRelationError
            If there is no such column, or there are several.
        UnsupportedError
            If it is a column of the outer query that cannot be used.
        """
        for part in ("db", "catalog", "join_mark"):
            if node.args.get(part):
                raise place.refused("names of more than relation and column are not supported", node)
        scope: Scope | None = self
        refused = ""
        while scope is not None:
            column_number = scope.resolve_local(node, place)
            if column_number is not None:
                if refused:
                    what, _, instead = refused.partition("\n")
                    raise place.refused(what, node, instead)
                return column_number
            refused = refused or scope.outer_refused
            scope = scope.parent
        raise self.unknown(node, place)

    def resolve_local(self, node: ColumnNode, place: Place) -> int | None:
        """Return the number of a column of FROM; None if there is none."""
        name, is_quoted = node.this.this, bool(node.this.args.get("quoted"))
        columns: Sequence[tuple[str, int]] = self.visible
        source = None
        if node.args.get("table"):
            source = self.source(node.args["table"], place)
            if source is None:
                return None
            columns = source.columns
        names = place.names.matching(name, is_quoted, (column_name for column_name, _ in columns))
        numbers = list(dict.fromkeys(column_number for column_name, column_number in columns if column_name in names))
        if len(numbers) > 1:
            within = [source] if source is not None else self.sources
            for candidate in within:
                matches = [column_name for column_name, column_number in candidate.columns if column_number in numbers]
                if len(matches) > 1:
                    raise place.ambiguous("column", node.this, matches)
            owners = [
                source.name
                for source in self.sources
                if any(column_number in numbers for _, column_number in source.columns)
            ]
            how = f"{owners[0]}.{name}" if owners else "another name with AS"
            raise place.wrong(f"the column '{name}' stands for several; write which, as {how}", node)
        if source is not None and not numbers:
            raise place.marked(
                ColumnError(source.name, name, [column_name for column_name, _ in source.columns]), node.this
            )
        return numbers[0] if numbers else None

    def source(self, node: Node, place: Place) -> Source | None:
        """Return the relation of FROM that a name refers to."""
        names = place.names.matching(node.this, bool(node.args.get("quoted")), (source.name for source in self.sources))
        return next((source for source in self.sources if source.name in names), None)

    def unknown(self, node: ColumnNode, place: Place) -> ColumnError | UnknownRelationError:
        """Return the error for an unknown column."""
        sources: list[Source] = []
        columns: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            sources += scope.sources
            columns += [column_name for column_name, _ in scope.visible]
            scope = scope.parent
        name = node.this.this
        if node.args.get("table"):
            table = node.args["table"]
            return place.unknown(table, [source.name for source in sources], "relations in reach")
        if len(sources) == 1:
            return place.marked(ColumnError(sources[0].name, name, columns), node)
        error = ColumnError("", name, dict.fromkeys(columns))
        remaining_lines = str(error).split("\n", 1)[1]
        reach = f" in reach ({', '.join(source.name for source in sources)})" if sources else ", as there is no FROM"
        error.args = (f"there is no column '{name}'{reach}.\n{remaining_lines}",)
        return place.marked(error, node)
