"""Columns in scope after a FROM, and their names."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.helpers.sql_tables import Column


@dataclass(frozen=True)
class Source:
    """A relation that FROM can name."""

    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Visible:
    """A column that is seen.

    Attributes
    ----------
    owner
        The alias before its dot; None if it must be called without one, as USING merged it.
    listed
        Whether ``*`` has it.
    """

    name: str
    kind: str
    owner: str | None
    listed: bool = True


@dataclass
class Scope:
    """Columns in scope of a FROM or a part of it.

    Attributes
    ----------
    wanted
        Conditions that WHERE should hold.
    lost
        Names of merged columns that cannot be called, as another column has the name, too.
    """

    columns: list[Visible] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    lost: frozenset[str] = frozenset()

    @property
    def owned(self) -> list[Visible]:
        """Columns with an owner, whose meaning does not depend on other relations."""
        return [column for column in self.columns if column.owner is not None]

    @property
    def is_one(self) -> bool:
        """Return whether all columns are of one relation; products of more would be large."""
        return len({column.owner for column in self.columns}) <= 1

    @staticmethod
    def of(alias: str, columns: Sequence[Column]) -> Scope:
        """One relation under an alias."""
        return Scope([Visible(column.name, column.kind, alias) for column in columns])

    def beside(self, other: Scope) -> Scope:
        """Both, as a cross join has them; what is merged and ambiguous now can no longer be called."""
        return self._with(other, [*self.columns, *other.columns])

    def _with(self, other: Scope, columns: Sequence[Visible]) -> Scope:
        listed = [column.name for column in columns if column.listed]
        found = [column for column in columns if column.owner is not None or listed.count(column.name) == 1]
        return Scope(
            found,
            [*self.wanted, *other.wanted],
            self.lost | other.lost | {column.name for column in columns if column not in found},
        )

    def shared(self, other: Scope) -> list[str]:
        """Names that USING may take: each once on either side, and of the same kind."""
        if self.lost or other.lost:
            return []
        mine, yours = (
            {column.name: column.kind for column in scope.columns if column.listed} for scope in (self, other)
        )
        return [
            name for name in mine
            if name in yours and mine[name] == yours[name] != "mean" and self._once(name) and other._once(name)
        ]  # fmt: skip

    def may_be_natural(self, other: Scope) -> bool:
        """Return whether all names that both scopes have can be merged."""
        mine, yours = ({column.name for column in scope.columns if column.listed} for scope in (self, other))
        return not (self.lost or other.lost) and mine & yours == set(self.shared(other))

    def _once(self, name: str) -> bool:
        return sum(column.name == name and column.listed for column in self.columns) == 1

    def merged(self, other: Scope, names: Sequence[str], kind: str) -> Scope:
        """Return both scopes, with one column for each of `names`.

        The two columns of a name can still be named with their owner.
        """
        found = []
        for column in self.columns:
            if column.name in names and column.listed:
                found.append(Visible(column.name, column.kind, None))
                if column.owner is not None:
                    found.append(Visible(column.name, column.kind, column.owner, listed=False))
            else:
                found.append(column)
        for column in other.columns:
            if column.name in names and column.listed:
                if column.owner is not None:
                    found.append(Visible(column.name, column.kind, column.owner, listed=False))
            else:
                found.append(column)
        return self._with(other, found)

    def star(self) -> tuple[Column, ...] | None:
        """The columns of ``*``; None if two have one name."""
        listed = [column for column in self.columns if column.listed]
        if self.lost or not listed or len({column.name for column in listed}) < len(listed):
            return None
        return tuple(Column(column.name, column.kind) for column in listed)

    def part(self, chance: random.Random) -> Scope:
        """The columns of one relation of it."""
        owners = sorted({column.owner for column in self.columns if column.owner is not None})
        if not owners:
            return self
        owner = chance.choice(owners)
        return Scope([column for column in self.columns if column.owner == owner])

    def text(self, column: Visible, chance: random.Random) -> str:
        """What calls it, without its owner where that is clear and chance has it."""
        alone = self._once(column.name) and column.name not in self.lost
        if column.owner is None or (column.listed and alone and chance.random() < 0.3):
            return column.name
        return self.qualified(column, chance)

    def qualified(self, column: Visible, chance: random.Random) -> str:
        """What calls it wherever it stands."""
        if column.owner is None:
            return column.name
        name = column.name.upper() if chance.random() < 0.03 else column.name
        return f"{column.owner}.{name}"
