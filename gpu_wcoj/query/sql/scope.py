"""Names in reach of an expression: relations of FROM with their columns, and those of the query around."""

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
    """A relation of FROM by the name that it goes by; its columns with their numbers."""

    name: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Scope:
    """What names mean.

    Attributes
    ----------
    sources
        The relations of FROM.
    visible
        What ``*`` stands for, and where a column without a relation is looked up: columns that USING and NATURAL merge
        stand once.
    around
        The query around, of one that refers to it.
    outer_refused
        Why the names of the query around are not in reach, if they are not; what to write instead in a second line.
    """

    sources: tuple[Source, ...] = ()
    visible: tuple[tuple[str, int], ...] = ()
    around: Scope | None = None
    outer_refused: str = ""

    def column(self, node: ColumnNode, place: Place) -> int:
        """The number of a column.

        Raises
        ------
        ColumnError, UnknownRelationError
            If there is none, or several.
        UnsupportedError
            If it is one of the query around, which is out of reach.
        """
        for part in ("db", "catalog", "join_mark"):
            if node.args.get(part):
                raise place.refused("names of more than relation and column are not supported", node)
        scope: Scope | None = self
        refused = ""
        while scope is not None:
            found = scope.own(node, place)
            if found is not None:
                if refused:
                    what, _, instead = refused.partition("\n")
                    raise place.refused(what, node, instead)
                return found
            refused = refused or scope.outer_refused
            scope = scope.around
        raise self.unknown(node, place)

    def own(self, node: ColumnNode, place: Place) -> int | None:
        """The number of a column of FROM; None if there is none."""
        name, is_quoted = node.this.this, bool(node.this.args.get("quoted"))
        columns: Sequence[tuple[str, int]] = self.visible
        source = None
        if node.args.get("table"):
            source = self.source(node.args["table"], place)
            if source is None:
                return None
            columns = source.columns
        names = place.names.matching(name, is_quoted, (one for one, _ in columns))
        numbers = list(dict.fromkeys(number for one, number in columns if one in names))
        if len(numbers) > 1:
            within = [source] if source is not None else self.sources
            for one in within:
                alike = [own for own, number in one.columns if number in numbers]
                if len(alike) > 1:
                    raise place.ambiguous("column", node.this, alike)
            owners = [one.name for one in self.sources if any(number in numbers for _, number in one.columns)]
            how = f"{owners[0]}.{name}" if owners else "another name with AS"
            raise place.wrong(f"the column '{name}' stands for several; write which, as {how}", node)
        if source is not None and not numbers:
            raise place.marked(ColumnError(source.name, name, [one for one, _ in source.columns]), node.this)
        return numbers[0] if numbers else None

    def source(self, node: Node, place: Place) -> Source | None:
        """The relation of FROM that a name means."""
        names = place.names.matching(node.this, bool(node.args.get("quoted")), (one.name for one in self.sources))
        return next((one for one in self.sources if one.name in names), None)

    def unknown(self, node: ColumnNode, place: Place) -> ColumnError | UnknownRelationError:
        """The error for a column that is not there."""
        sources: list[Source] = []
        columns: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            sources += scope.sources
            columns += [one for one, _ in scope.visible]
            scope = scope.around
        name = node.this.this
        if node.args.get("table"):
            table = node.args["table"]
            return place.unknown(table, [one.name for one in sources], "relations in reach")
        if len(sources) == 1:
            return place.marked(ColumnError(sources[0].name, name, columns), node)
        error = ColumnError("", name, dict.fromkeys(columns))
        rest = str(error).split("\n", 1)[1]
        reach = f" in reach ({', '.join(one.name for one in sources)})" if sources else ", as there is no FROM"
        error.args = (f"there is no column '{name}'{reach}.\n{rest}",)
        return place.marked(error, node)
