"""Plans of delta joins as lookups: per changed table, which tables its change is joined with, in which order and how.

With the tables numbered A1 ... An, the lookups of Aj's change see Ai as it is after the tick where i < j, written
``Ai*``, and as it was before where i > j: a star belongs to a table's number, not to its place in the path. The sum of
all paths' outputs, taken in the order of the numbers, is the change of the join.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_wcoj.planner.joingraph import Column, Filter


@dataclass(frozen=True)
class Arranged:
    """A relation by the columns that it is looked up by.

    Attributes
    ----------
    relation
        Its relation.
    order
        Columns, outermost first. Rows can be looked up by any of its prefixes.
    spread
        The columns whose hash, in this order, names the partition of a row; empty if every partition has all rows;
        None for all of `order`.
    """

    relation: str
    order: tuple[int, ...]
    spread: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shown = f"{self.relation}[{', '.join(map(str, self.order))}]"
        if not self.by:
            return f"{shown} everywhere"
        return shown if self.by == self.order else f"{shown} by {', '.join(map(str, self.by))}"

    @property
    def by(self) -> tuple[int, ...]:
        """The columns that it is spread by; none if every partition has all rows."""
        return self.order if self.spread is None else self.spread


@dataclass(frozen=True)
class Lookup:
    """One lookup of a path.

    Attributes
    ----------
    table
        What is looked up.
    sees
        The state with (``after``) or without (``before``) this tick's change.
    arrangement
        Where.
    key
        (column of the table, equal to): what it is looked up by. Columns are the first of the arrangement.
    checks
        (column of the table, equal to): what is compared in the rows that are found.
    filters
        What is compared then; all tables of these are bound.
    exchange
        The columns by whose hash rows change their partitions before; None if they stay.
    rows
        Expected rows of the path behind it.
    """

    table: str
    sees: Literal["before", "after"]
    arrangement: Arranged
    key: tuple[tuple[int, Column], ...]
    checks: tuple[tuple[int, Column], ...] = ()
    filters: tuple[Filter, ...] = ()
    exchange: tuple[Column, ...] | None = None
    rows: float = 0.0

    def __str__(self) -> str:
        return f"{self.table}*" if self.sees == "after" else self.table

    @property
    def predicates(self) -> tuple[tuple[int, Column], ...]:
        """All equalities, looked up by or compared."""
        return (*self.key, *self.checks)

    def described(self) -> str:
        """What it does, in words."""
        parts = [f"{self} in {self.arrangement}"]
        parts += [f"{self.table}.{column} = {other[0]}.{other[1]}" for column, other in self.predicates]
        parts += map(str, self.filters)
        moved = ", ".join(f"{table}.{column}" for table, column in self.exchange or ())
        return (f"exchange by {moved}; " if self.exchange is not None else "") + ", ".join(parts)


@dataclass(frozen=True)
class LookupPath:
    """A table's change and the lookups that join it with the others.

    Attributes
    ----------
    table
        Whose change it is.
    lookups
        In their order.
    spread
        The columns whose hash names the partition that a changed row begins in; empty if any will do.
    checks
        Pairs of the table's columns that have to agree.
    filters
        On the table alone.
    cost
        Expected, per tick; see `Costs`.

    Examples
    --------
    >>> path = LookupPath("b", (Lookup("a", "after", Arranged("a", (0,)), ((0, ("b", 1)),)),), (1,))
    >>> print(path)
    b -> a*
    """

    table: str
    lookups: tuple[Lookup, ...]
    spread: tuple[int, ...]
    checks: tuple[tuple[int, int], ...] = ()
    filters: tuple[Filter, ...] = ()
    cost: float = 0.0

    def __str__(self) -> str:
        return " -> ".join([self.table, *map(str, self.lookups)])

    @property
    def order(self) -> tuple[str, ...]:
        """The tables that are looked up."""
        return tuple(lookup.table for lookup in self.lookups)

    @property
    def exchanges(self) -> int:
        """How often rows change their partitions on the way."""
        return sum(lookup.exchange is not None for lookup in self.lookups)


@dataclass(frozen=True)
class LookupPlan:
    """The delta join.

    Attributes
    ----------
    numbering
        The tables by number.
    paths
        One per table that changes, by number: their outputs are combined in this order.
    arrangements
        Those that lookups use, each once.
    made
        Those of them that were not there.
    considered
        Orders of lookups that were looked at.
    """

    numbering: tuple[str, ...]
    paths: tuple[LookupPath, ...]
    arrangements: tuple[Arranged, ...]
    made: tuple[Arranged, ...]
    considered: int

    def __str__(self) -> str:
        return "\n".join(map(str, self.paths))

    @property
    def cost(self) -> float:
        """Expected, per tick."""
        return sum(path.cost for path in self.paths)

    def path(self, table: str) -> LookupPath:
        """The path of a table's change."""
        return next(path for path in self.paths if path.table == table)

    def described(self) -> str:
        """The plan for a person to read."""
        lines = []
        for path in self.paths:
            by = f" by {', '.join(f'{path.table}.{column}' for column in path.spread)}" if path.spread else ""
            lines.append(f"{path}   (cost {path.cost:.3g})")
            lines.append(f"  change of {path.table}{by}")
            lines.extend(f"  {lookup.described()}" for lookup in path.lookups)
        lines.append("arrangements")
        lines.extend(f"  {one}{' (new)' if one in self.made else ''}" for one in self.arrangements)
        return "\n".join(lines)
