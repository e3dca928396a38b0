"""Auxiliary relations: two inputs joined over one column, which bodies read in the place of both.

What an auxiliary relation is called says all that it holds, selections of its sides too, so that two plans have the
same one if they have one of the same name: ``person[1, 0]*city[0, 1]`` joins the rows of `person` and `city` over the
columns that stand first, and keeps the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpu_wcoj.planner.body import Body, BodyAtom, Shape
from gpu_wcoj.planner.draft import KnownRelations
from gpu_wcoj.planner.facts import Facts
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import Atom, Variable

JOINED = "v"
"""What the joined column is called in the rule; columns that are kept are numbered."""


@dataclass(frozen=True)
class Side:
    """The rows of a relation that one of the two atoms leaves.

    Attributes
    ----------
    joined
        The stored column that is joined over.
    kept
        Those that are kept.
    atom
        The atom, its columns in order and its variables called by these, so that atoms that ask for the same are equal.
    """

    joined: int
    kept: tuple[int, ...]
    atom: BodyAtom

    @classmethod
    def of(cls, atom: BodyAtom, joined: str, kept: Sequence[str]) -> Side:
        """The side that an atom of a body is, which shares one variable with the other side."""
        at = dict(zip(atom.variables, atom.columns, strict=True))
        columns = tuple(sorted(atom.columns))
        plain = BodyAtom(
            atom.relation,
            columns,
            tuple(map(str, columns)),
            tuple(sorted(atom.constants)),
            tuple(sorted(atom.equal)),
            tuple(sorted(atom.compared, key=str)),
        )
        return cls(at[joined], tuple(at[name] for name in kept), plain)

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
    """Two inputs joined; the columns that the first one keeps stand before those of the second."""

    sides: tuple[Side, Side]

    @cached_property
    def name(self) -> str:
        """The relation's."""
        return "*".join(map(str, self.sides))

    @property
    def relations(self) -> tuple[str, str]:
        """What it joins."""
        return self.sides[0].atom.relation, self.sides[1].atom.relation

    @property
    def columns(self) -> list[tuple[str, int]]:
        """Of each column, from which stored column of which relation it is."""
        return [(side.atom.relation, column) for side in self.sides for column in side.kept]

    def shape(self, shapes: Mapping[str, Shape]) -> Shape:
        """Its stored columns: flags of nulls are columns as others are."""
        families = [
            shapes[relation].family(column) if column < len(shapes[relation].nullable) else ""
            for relation, column in self.columns
        ]
        return Shape(self.name, (False,) * len(families), tuple(families))

    def body(self) -> Body:
        """The rule that derives it."""
        atoms, head, shown = [], [], []
        for number, side in enumerate(self.sides):
            own = {column: f"{'xy'[number]}{column}" for column in side.atom.columns}
            own[side.joined] = JOINED
            names = tuple(own[column] for column in side.atom.columns)
            atom = side.atom
            atoms.append(BodyAtom(atom.relation, atom.columns, names, atom.constants, atom.equal, atom.compared))
            head += [own[column] for column in side.kept]
            shown.append(Atom(atom.relation, tuple(map(Variable, names))))
        rule = Rule(Atom(self.name, tuple(map(Variable, head))), tuple(shown))
        return Body(rule, tuple(head), tuple(atoms), ())

    def facts(self, known: KnownRelations) -> Facts | None:
        """What is to be expected of its rows, if something is known of both sides; a value of one of them is a key."""
        rows, values = [], []
        for side in self.sides:
            levels = known.levels(side.atom, side.atom.variables)
            own = known.values(side.atom, str(side.joined))
            if levels is None or own is None:
                return None
            rows.append(levels.distinct[-1])
            values.append(max(own, 1.0))
        found = rows[0] * rows[1] / max(values)
        kept = [known.values(side.atom, str(column)) for side in self.sides for column in side.kept]
        return Facts(found, {(at,): min(own, found) for at, own in enumerate(kept) if own is not None})
