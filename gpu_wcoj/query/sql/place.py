"""Source positions of the nodes of an SQL text, and errors that point at them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from gpu_wcoj.errors import (
    GpuWcojError,
    SqlSyntaxError,
    TypeMismatchError,
    UnknownRelationError,
    UnsupportedError,
    pointed,
)
from gpu_wcoj.query.sql.names import Names

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_Error = TypeVar("_Error", bound=GpuWcojError)


class Place:
    r"""An SQL text with its name in messages.

    Examples
    --------
    >>> from sqlglot import parse_one
    >>> text = "SELECT a,\n  b + c FROM r"
    >>> place = Place(text, "<text>")
    >>> place.span_of(parse_one(text).expressions[1])
    (2, 3, 5)
    """

    def __init__(self, text: str, source: str, dialect: str = "duckdb") -> None:
        self.text = text
        self.source = source
        self.names = Names(dialect)

    def span_of(self, node: Node | None) -> tuple[int, int, int]:
        """Return line, column and width of a node, or of the nearest ancestor with a token."""
        while node is not None:
            spans = [
                (piece.meta["start"], piece.meta["end"])
                for piece in node.walk()
                if "start" in piece.meta and "end" in piece.meta
            ]
            if spans:
                start, end = self._closed(min(begin for begin, _ in spans), max(stop for _, stop in spans) + 1)
                return self.span_at(start, end - start)
            node = node.parent
        return 1, 1, 1

    def _closed(self, start: int, end: int) -> tuple[int, int]:
        """Extend a piece of text to the parentheses that it opens or closes.

        Nodes do not record the positions of parentheses.
        """
        depth = min_depth = 0
        for char in self.text[start:end]:
            depth += (char == "(") - (char == ")")
            min_depth = min(min_depth, depth)
        for _ in range(depth - min_depth):
            position = self.text.find(")", end)
            end = end if position < 0 else position + 1
        for _ in range(-min_depth):
            position = self.text.rfind("(", 0, start)
            start = start if position < 0 else position
        return start, end

    def span_at(self, start: int, width: int) -> tuple[int, int, int]:
        """Return line, column and width of a piece of the text, cut at the end of its line."""
        line = self.text.count("\n", 0, start) + 1
        column = start - self.text.rfind("\n", 0, start)
        end = self.text.find("\n", start)
        return line, column, max(1, min(width, (len(self.text) if end < 0 else end) - start))

    def pointed(self, what: str, node: Node | None) -> str:
        """Return the message with line, column and the marked text."""
        return pointed(what, self.text, *self.span_of(node), self.source)

    def word_before(self, node: Node) -> str:
        """Return the last ``,``, ``JOIN`` or ``FROM`` before a relation of FROM."""
        line, column, _ = self.span_of(node)
        start = sum(len(text_line) + 1 for text_line in self.text.split("\n")[: line - 1]) + column - 1
        words = re.findall(r",|\bjoin\b|\bfrom\b", self.text[:start], re.IGNORECASE)
        return words[-1].upper() if words else ""

    def refused(self, what: str, node: Node | None, instead: str = "") -> UnsupportedError:
        """Return the error for an unsupported feature, and its replacement."""
        message = self.pointed(what, node)
        return UnsupportedError(f"{message}\n  {instead}" if instead else message)

    def mistyped(self, what: str, node: Node | None) -> TypeMismatchError:
        """Return the error for types that do not fit."""
        return TypeMismatchError(self.pointed(what, node))

    def wrong(self, what: str, node: Node | None) -> SqlSyntaxError:
        """Return the error for invalid SQL."""
        return SqlSyntaxError(what, self.text, *self.span_of(node), self.source)

    def ambiguous(self, what: str, node: Node, matches: Iterable[str]) -> SqlSyntaxError:
        """Return the error for a name with several matches that the dialect equates."""
        names = " and ".join(f"'{name}'" for name in matches)
        dialect = self.names.dialect
        instead = "Quote the one that is meant" if self.names.has_case else "Rename one of them"
        why = f"which the dialect '{dialect}' does not tell apart" if not self.names.has_case else "and is neither"
        return self.wrong(f"the {what} '{node.name}' stands for {names}, {why}. {instead}", node)

    def unknown(self, node: Node, available: Iterable[str], what: str) -> UnknownRelationError:
        """Return the error for an unknown relation."""
        names = list(available)
        return self.marked(UnknownRelationError(node.name, names, what), node)

    def marked(self, error: _Error, node: Node | None) -> _Error:
        """Return the error with the place in its first line."""
        first, *lines = str(error).split("\n")
        error.args = ("\n".join([self.pointed(first, node), *lines]),)
        return error
