"""The compiled query, and its answer in the shape that ``:find`` requests."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gpu_wcoj.query.edn.asked import Shape
from gpu_wcoj.query.edn.compile import Read
from gpu_wcoj.query.edn.forms import Symbol
from gpu_wcoj.query.rules import Rules

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Query:
    """A query compiled to rules.

    Attributes
    ----------
    rules
        The program's rules; `output` is the head that holds the answer.
    shape
        The form of ``:find``: a relation, ``[?x ...]`` (collection), ``[?x ?y]`` (tuple) or ``?x .`` (scalar).
    columns
        Names of the answer's columns: those of ``:keys``, ``:strs`` or ``:syms``, or of the variables.
    labels
        ``"keys"``, ``"strs"`` or ``"syms"`` if rows become maps; else None.
    types
        Attribute types of the answer's columns; None where the type is not yet known.
    given
        Rows of arguments and of ``ground``, per input relation of the rules; insert them with the first tick.
    reads
        The relations of datoms among the rules' inputs.
    unknown
        Sources and attributes whose type is not known. Their patterns match nothing; compile the query again when a
        type becomes known.
    undeclared
        The attributes of `unknown` that occur neither in the schema nor in a datom, with a message for each.
    open
        Sources read by patterns whose attribute is a variable. Compile the query again when a value of a new type
        arrives.
    """

    rules: Rules
    output: str
    shape: Shape
    columns: tuple[str, ...]
    labels: Literal["keys", "strs", "syms"] | None
    types: tuple[str | None, ...]
    input_rows: Mapping[str, tuple[Row, ...]]
    reads: Mapping[str, Read]
    unknown: frozenset[tuple[str, str]]
    undeclared: Mapping[str, str]
    open: frozenset[str]

    def shape_answer(self, rows: Iterable[Row]) -> Any:
        """Return rows of the answer in the shape of ``:find``.

        A relation is a list of tuples or maps, a collection a list. A tuple or a scalar is taken from the first row;
        it is None if the answer is empty.
        """
        answers = [self._row(row) for row in rows]
        if self.shape == "collection":
            return [row[0] for row in answers]
        if self.shape == "scalar":
            return answers[0][0] if answers else None
        labelled = [self._label(row) for row in answers]
        if self.shape == "tuple":
            return labelled[0] if labelled else None
        return labelled

    def _row(self, row: Row) -> Row:
        if "uuid" not in self.types:
            return tuple(row)
        return tuple(uuid.UUID(value) if kind == "uuid" else value for kind, value in zip(self.types, row, strict=True))

    def _label(self, row: Row) -> Row | dict[str, Any]:
        if self.labels is None:
            return row
        if self.labels == "keys":
            names = [f":{column}" for column in self.columns]
        else:
            names = [Symbol(column) if self.labels == "syms" else column for column in self.columns]
        return dict(zip(names, row, strict=True))
