"""Plans of delta joins as sequences of lookups, one per changed table.

With the tables numbered A1 ... An, the lookups of Aj's change read Ai after the tick if i < j, written ``Ai*``, and
before the tick if i > j: the star depends on the table's number, not on its position in the path. The sum of all paths'
outputs, in the order of the numbers, is the change of the join.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gpu_wcoj.planner.joingraph import Column, Filter


@dataclass(frozen=True)
class Arranged:
    """Relation indexed by the columns that it is looked up by.

    Attributes
    ----------
    relation
        Name of the relation.
    order
        Columns, outermost first. Rows can be looked up by any prefix of them.
    spread
        The columns whose hash, in this order, determines the partition of a row; empty if every partition has all rows;
        None for all of `order`.
    """

    relation: str
    order: tuple[int, ...]
    spread: tuple[int, ...] | None = None

    def __str__(self) -> str:
        text = f"{self.relation}[{', '.join(map(str, self.order))}]"
        if not self.by:
            return f"{text} everywhere"
        return text if self.by == self.order else f"{text} by {', '.join(map(str, self.by))}"

    @property
    def by(self) -> tuple[int, ...]:
        """Columns that it is partitioned by; none if every partition has all rows."""
        return self.order if self.spread is None else self.spread


@dataclass(frozen=True)
class Lookup:
    """Lookup of a path.

    Attributes
    ----------
    table
        Name of the table.
    sees
        The state with (``after``) or without (``before``) this tick's change.
    arrangement
        Arrangement that is read.
    key
        (column of the table, bound column): equalities of the lookup, over the first columns of the arrangement.
    checks
        (column of the table, bound column): equalities that are checked in the matching rows.
    filters
        Filters that are applied afterwards; all of their tables are bound.
    exchange
        The columns by whose hash rows are exchanged before the lookup; None if they stay.
    rows
        Expected rows of the path after the lookup.
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
        """All equalities, by key or by comparison."""
        return (*self.key, *self.checks)

    def described(self) -> str:
        """Describe the lookup in words."""
        parts = [f"{self} in {self.arrangement}"]
        parts += [
            f"{self.table}.{column} = {bound_column[0]}.{bound_column[1]}" for column, bound_column in self.predicates
        ]
        parts += map(str, self.filters)
        moved = ", ".join(f"{table}.{column}" for table, column in self.exchange or ())
        return (f"exchange by {moved}; " if self.exchange is not None else "") + ", ".join(parts)


@dataclass(frozen=True)
class LookupPath:
    """Change of a table and the lookups that join it with the others.

    Attributes
    ----------
    table
        Name of the changed table.
    lookups
        Lookups, in order.
    spread
        The columns whose hash determines the partition that a changed row starts in; empty for any partition.
    checks
        Pairs of the table's columns that have to agree.
    filters
        Filters that read only this table.
    cost
        Expected cost per tick; see `Costs`.

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
        """Names of the tables that are looked up."""
        return tuple(lookup.table for lookup in self.lookups)

    @property
    def exchanges(self) -> int:
        """Number of times that rows change their partitions."""
        return sum(lookup.exchange is not None for lookup in self.lookups)


@dataclass(frozen=True)
class LookupPlan:
    """Plan of a delta join.

    Attributes
    ----------
    numbering
        The tables by number.
    paths
        One per table that changes, by number: their outputs are combined in this order.
    arrangements
        Arrangements that lookups use, each once.
    made
        Those of the arrangements that did not exist.
    considered
        Number of orders of lookups that were compared.
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
        """Expected cost per tick."""
        return sum(path.cost for path in self.paths)

    def path(self, table: str) -> LookupPath:
        """Return the path of a table's change."""
        return next(path for path in self.paths if path.table == table)

    def described(self) -> str:
        """Describe the plan for a person."""
        lines = []
        for path in self.paths:
            by = f" by {', '.join(f'{path.table}.{column}' for column in path.spread)}" if path.spread else ""
            lines.append(f"{path}   (cost {path.cost:.3g})")
            lines.append(f"  change of {path.table}{by}")
            lines.extend(f"  {lookup.described()}" for lookup in path.lookups)
        lines.append("arrangements")
        lines.extend(
            f"  {arrangement}{' (new)' if arrangement in self.made else ''}" for arrangement in self.arrangements
        )
        return "\n".join(lines)
