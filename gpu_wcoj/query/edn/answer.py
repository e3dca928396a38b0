"""A query as rules, and its answer in the shape that it asks for."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_wcoj.query.edn.asked import Shape
from gpu_wcoj.query.edn.compiler import Read
from gpu_wcoj.query.edn.forms import Symbol
from gpu_wcoj.query.rules import Rules

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Query:
    """A query as rules.

    Attributes
    ----------
    rules
        What a `Program` takes; `output` is the head with the answer.
    shape
        Whether ``:find`` asks for a relation, ``[?x ...]``, ``[?x ?y]`` or ``?x .``
    columns
        Names of the answer's columns: those of ``:keys`` and its kin, or of the variables.
    labels
        ``"keys"``, ``"strs"`` or ``"syms"`` if rows are to be maps; else None.
    types
        Types of the answer's columns, as attributes have them; None where nothing says it yet.
    given
        Rows that arguments and ``ground`` give, per input relation of the rules, to be fed with the first tick.
    reads
        The relations of datoms among the rules' inputs.
    unknown
        Sources and attributes of which no type is known: their patterns match nothing, and the query is to be compiled
        again when one arrives.
    undeclared
        Those attributes among them that neither the schema nor a datom has, and a message for each.
    open
        Sources that patterns read with any attribute: the query is to be compiled again when a type of values arrives
        that no attribute had.
    """

    rules: Rules
    output: str
    shape: Shape
    columns: tuple[str, ...]
    labels: Literal["keys", "strs", "syms"] | None
    types: tuple[str | None, ...]
    given: Mapping[str, tuple[Row, ...]]
    reads: Mapping[str, Read]
    unknown: frozenset[tuple[str, str]]
    undeclared: Mapping[str, str]
    open: frozenset[str]

    def shaped(self, rows: Iterable[Row]) -> Any:
        """Rows of the answer as ``:find`` asks for them.

        A relation is a list of tuples, or of maps; a collection a list; a tuple and a scalar are those of the first
        row, or None if there is none.
        """
        found = [self._row(row) for row in rows]
        if self.shape == "collection":
            return [row[0] for row in found]
        if self.shape == "scalar":
            return found[0][0] if found else None
        labelled = [self._labelled(row) for row in found]
        if self.shape == "tuple":
            return labelled[0] if labelled else None
        return labelled

    def _row(self, row: Row) -> Row:
        if "uuid" not in self.types:
            return tuple(row)
        return tuple(uuid.UUID(value) if kind == "uuid" else value for kind, value in zip(self.types, row, strict=True))

    def _labelled(self, row: Row) -> Row | dict[str, Any]:
        if self.labels is None:
            return row
        if self.labels == "keys":
            names = [f":{one}" for one in self.columns]
        else:
            names = [Symbol(one) if self.labels == "syms" else one for one in self.columns]
        return dict(zip(names, row, strict=True))
