"""Auxiliary relations: stored joins of two inputs over one column.

The name of an auxiliary relation describes its content, selections of its sides included, so two plans share a relation
if they share its name: ``person[1, 0]*city[0, 1]`` joins the rows of `person` and `city` over the columns that are
named first, and keeps the other columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.planner.body import Body, BodyAtom, Shape
from gpu_wcoj.planner.facts import Facts
from gpu_wcoj.planner.ir import CatalogReader
from gpu_wcoj.query.ir import Atom, Variable
from gpu_wcoj.query.rules import Rule

JOINED = "v"
"""Name of the joined column in the rule; the columns that are kept are numbered."""


@dataclass(frozen=True)
class Side:
    """The rows of a relation that one of the two atoms leaves.

    Attributes
    ----------
    joined
        Stored column of the join.
    kept
        Stored columns that are kept.
    atom
        The atom with ascending columns and variables named after them, so that equivalent atoms are equal.
    """

    joined: int
    kept: tuple[int, ...]
    atom: BodyAtom

    @classmethod
    def from_atom(cls, atom: BodyAtom, joined: str, kept_names: Sequence[str]) -> Side:
        """Return the side for an atom of a body that shares one variable with the other side."""
        column_of = dict(zip(atom.variables, atom.columns, strict=True))
        columns = tuple(sorted(atom.columns))
        plain = BodyAtom(
            atom.relation,
            columns,
            tuple(map(str, columns)),
            tuple(sorted(atom.constants)),
            tuple(sorted(atom.equal)),
            tuple(sorted(atom.compared, key=str)),
        )
        return cls(column_of[joined], tuple(column_of[name] for name in kept_names), plain)

    def __str__(self) -> str:
        atom, name = self.atom, self.atom.relation
        where = [f"#{column} = {code}" for column, code in atom.constants]
        where += [f"#{left} = #{right}" for left, right in atom.equal]
        where += [f"#{left} {op} {code if right is None else f'#{right}'}" for left, op, right, code in atom.compared]
        if where or "*" in name:
            name = f"({name} where {', '.join(where)})" if where else f"({name})"
        return f"{name}{[self.joined, *self.kept]}"


@dataclass(frozen=True)
class Auxiliary:
    """Join of two inputs; the columns kept of the first side come before those of the second."""

    sides: tuple[Side, Side]

    @cached_property
    def name(self) -> str:
        """Name of the relation."""
        return "*".join(map(str, self.sides))

    @property
    def relations(self) -> tuple[str, str]:
        """Names of the two joined relations."""
        return self.sides[0].atom.relation, self.sides[1].atom.relation

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Per column, the relation and stored column it comes from."""
        return [(side.atom.relation, column) for side in self.sides for column in side.kept]

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Return its stored columns; null flags are columns like any other."""
        families = [
            shapes[relation].family(column) if column < len(shapes[relation].nullable) else ""
            for relation, column in self.columns
        ]
        return Shape(self.name, (False,) * len(families), tuple(families))

    def body(self) -> Body:
        """Return the rule that derives it."""
        atoms, head, positive = [], [], []
        for side_index, side in enumerate(self.sides):
            variable_of = {column: f"{'xy'[side_index]}{column}" for column in side.atom.columns}
            variable_of[side.joined] = JOINED
            names = tuple(variable_of[column] for column in side.atom.columns)
            atom = side.atom
            atoms.append(BodyAtom(atom.relation, atom.columns, names, atom.constants, atom.equal, atom.compared))
            head += [variable_of[column] for column in side.kept]
            positive.append(Atom(atom.relation, tuple(map(Variable, names))))
        rule = Rule(Atom(self.name, tuple(map(Variable, head))), tuple(positive))
        return Body(rule, tuple(head), tuple(atoms), ())

    def facts(self, catalog: CatalogReader) -> Facts | None:
        """Estimate its rows, or return None if a side has no statistics.

        The joined column is assumed to be a key of one side.
        """
        rows, values = [], []
        for side in self.sides:
            levels = catalog.levels(side.atom, side.atom.variables)
            joined_values = catalog.values(side.atom, str(side.joined))
            if levels is None or joined_values is None:
                return None
            rows.append(levels.distinct[-1])
            values.append(max(joined_values, 1.0))
        n_rows = rows[0] * rows[1] / max(values)
        counts = [catalog.values(side.atom, str(column)) for side in self.sides for column in side.kept]
        return Facts(
            n_rows, {(column,): min(count, n_rows) for column, count in enumerate(counts) if count is not None}
        )
