"""Which columns are seen behind a FROM, and how they are called."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.query.sql_tables import Column


@dataclass(frozen=True)
class Source:
    """What can stand in FROM by its name."""

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
    """What a FROM, or a part of it, lets see.

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
        """Those that are called by an owner, and so are the same one whatever stands beside them."""
        return [one for one in self.columns if one.owner is not None]

    @property
    def is_one(self) -> bool:
        """Whether it is one relation's; products of more would be large."""
        return len({one.owner for one in self.columns}) <= 1

    @staticmethod
    def of(alias: str, columns: Sequence[Column]) -> Scope:
        """One relation under an alias."""
        return Scope([Visible(one.name, one.kind, alias) for one in columns])

    def beside(self, other: Scope) -> Scope:
        """Both, as a cross join has them; what is merged and ambiguous now can no longer be called."""
        return self._with(other, [*self.columns, *other.columns])

    def _with(self, other: Scope, columns: Sequence[Visible]) -> Scope:
        listed = [one.name for one in columns if one.listed]
        found = [one for one in columns if one.owner is not None or listed.count(one.name) == 1]
        return Scope(
            found,
            [*self.wanted, *other.wanted],
            self.lost | other.lost | {one.name for one in columns if one not in found},
        )

    def shared(self, other: Scope) -> list[str]:
        """Names that USING may take: each once on either side, and of the same kind."""
        if self.lost or other.lost:
            return []
        mine, yours = ({one.name: one.kind for one in scope.columns if one.listed} for scope in (self, other))
        return [
            name for name in mine
            if name in yours and mine[name] == yours[name] != "mean" and self._once(name) and other._once(name)
        ]  # fmt: skip

    def may_be_natural(self, other: Scope) -> bool:
        """Whether all names that both have can be merged."""
        mine, yours = ({one.name for one in scope.columns if one.listed} for scope in (self, other))
        return not (self.lost or other.lost) and mine & yours == set(self.shared(other))

    def _once(self, name: str) -> bool:
        return sum(one.name == name and one.listed for one in self.columns) == 1

    def merged(self, other: Scope, names: Sequence[str], kind: str) -> Scope:
        """Both, with one column for each of these names; the two that it is made of can be called by their owner."""
        found = []
        for one in self.columns:
            if one.name in names and one.listed:
                found.append(Visible(one.name, one.kind, None))
                if one.owner is not None:
                    found.append(Visible(one.name, one.kind, one.owner, listed=False))
            else:
                found.append(one)
        for one in other.columns:
            if one.name in names and one.listed:
                if one.owner is not None:
                    found.append(Visible(one.name, one.kind, one.owner, listed=False))
            else:
                found.append(one)
        return self._with(other, found)

    def star(self) -> tuple[Column, ...] | None:
        """The columns of ``*``; None if two have one name."""
        listed = [one for one in self.columns if one.listed]
        if self.lost or not listed or len({one.name for one in listed}) < len(listed):
            return None
        return tuple(Column(one.name, one.kind) for one in listed)

    def part(self, chance: random.Random) -> Scope:
        """The columns of one relation of it."""
        owners = sorted({one.owner for one in self.columns if one.owner is not None})
        if not owners:
            return self
        owner = chance.choice(owners)
        return Scope([one for one in self.columns if one.owner == owner])

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
