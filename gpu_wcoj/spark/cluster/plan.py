"""The plan of a program on cells: routes of rows and work of cells, in stages.

See `planning`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_wcoj.query.rules import Rules
from gpu_wcoj.spark.cluster.layout import CellLayout, Names, Value, shares_in

OWNER_SALT = 1 << 20
"""The salt of a row's hash as a whole, different from the salts of its columns' variables."""


@dataclass(frozen=True)
class Hashed:
    """Columns whose common hash, modulo `parts`, is one coordinate of a cell.

    `stride` is the weight of this coordinate in the index of a cell.
    """

    columns: tuple[int, ...]
    salt: int
    parts: int
    stride: int


@dataclass(frozen=True)
class Route:
    """The route of a relation's rows to one role.

    Attributes
    ----------
    stage, role
        The indices of the stage and of its role.
    hashed
        The coordinates that a row determines; it is sent to all cells of the grid with these coordinates.
    cells
        Number of cells of the grid.
    chosen
        Columns whose value must be (True) or must not be (False) among these values.
    """

    stage: int
    role: int
    hashed: tuple[Hashed, ...]
    cells: int
    chosen: tuple[tuple[int, tuple[Value, ...], bool], ...] = ()

    def coordinate(self, cell: int) -> int:
        """Return the sum of hashed coordinates that sends a row to this cell."""
        return sum((cell // coordinate.stride) % coordinate.parts * coordinate.stride for coordinate in self.hashed)

    def is_first(self, cell: int) -> bool:
        """Return whether the cell is the first one of some row; each row has exactly one such cell."""
        return self.coordinate(cell) == cell


@dataclass(frozen=True)
class Travelling:
    """A relation whose rows are sent to cells.

    Attributes
    ----------
    number
        Its index in the plan.
    name
        Name of the relation that has its columns.
    routes
        The routes of its rows, stage by stage.
    is_part
        Whether the rows are changes of derivation counts, for the owners of the rows.
    """

    index: int
    name: str
    routes: tuple[Route, ...] = ()
    is_part: bool = False


@dataclass(frozen=True)
class Result:
    """The result of a stage for one head.

    Attributes
    ----------
    name
        Its name in the cell's program.
    head
        Its name in the rules.
    width
        Number of its columns; the cell's program may have further columns after these.
    is_summed
        Whether rows are to be summed over their columns beyond `width`.
    goes_to
        Relations of the plan as which its rows are sent on.
    is_output
        Whether the rows are an answer.
    """

    name: str
    head: str
    width: int
    is_summed: bool
    goes_to: tuple[int, ...]
    is_output: bool


@dataclass(frozen=True)
class Stage:
    """One exchange and the work of the cells after it.

    Attributes
    ----------
    kind
        ``"join"`` or ``"owner"``.
    program
        The text of a cell's program; an owner's is evaluated over bags, and counts derivations.
    roles
        Per role, the relation that is sent to it; role i is the input ``in{i}``.
    equated
        Relations and columns of the cell's program in which -0.0 equals 0.0, as the program compares their values.
    """

    index: int
    kind: Literal["join", "owner"]
    program: str
    roles: tuple[int, ...]
    results: tuple[Result, ...]
    equated: tuple[tuple[str, int], ...] = ()

    def roles_of(self, relation: int) -> list[int]:
        """Return the roles that a relation's rows can be routed to; bit i of a mask is the i-th."""
        return [role for role, role_relation in enumerate(self.roles) if role_relation == relation]


@dataclass(frozen=True)
class CellPlan:
    """The plan of a program on cells.

    Attributes
    ----------
    finals
        Per head, a description of where its rows are counted, for people.
    held
        Per relation in the cells' state, routes of which each row takes exactly one: the first cells of these routes
        (see `is_first`) together hold each row once. Relations that no output needs are not in the state.
    """

    rules: Rules
    bag: bool
    outputs: tuple[str, ...]
    chosen: CellLayout
    stages: tuple[Stage, ...]
    travelling: tuple[Travelling, ...]
    finals: Mapping[str, str] = field(default_factory=dict)
    state_routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return a description of the plan for people."""
        chosen = self.chosen
        lines = [f"layout {chosen.layout}, {chosen.cells} cells: {chosen.reason}"]
        if chosen.layout == "hypercube":
            for rule_index, (rule, cost) in enumerate(
                zip(self.rules.rules, shares_in(self.rules, chosen), strict=True)
            ):
                lines.append(f"  {rule}")
                lines.append(f"    {cost}")
                lines.extend(f"    {line}" for line in self._exchanges(rule_index))
                for way in range(1, len(chosen.parts[rule_index])):
                    who = [name for bit, name in enumerate(chosen.heavy[rule_index]) if way >> bit & 1]
                    hashed = chosen.coordinates(rule_index, way)
                    grid = " x ".join(f"{_format_names(names)}:{parts}" for names, parts in hashed) or "one cell"
                    lines.append(f"    where {' and '.join(who)} is heavy: {grid}")
        else:
            lines.append("  every cell holds all rows and works on its share of each change, by the rows' hash")
        for stage in self.stages:
            doing = "joins" if stage.kind == "join" else "counts derivations of"
            heads = ", ".join(dict.fromkeys(result.head for result in stage.results))
            lines.append(f"stage {stage.index + 1}: {doing} {heads}")
        lines.extend(f"  {head}: {how}" for head, how in self.finals.items())
        return "\n".join(lines)

    def _exchanges(self, rule_index: int) -> list[str]:
        """Return a description of the exchanges that the lookups of a rule need."""
        chosen = self.chosen
        if chosen.is_shared(rule_index):
            return ["lookups need no exchange: what joins is in one cell"]
        moves = chosen.moved[rule_index] if chosen.moved else ()
        columns = ", ".join(map(_format_names, moves))
        return [f"lookups would be exchanged by {columns}: rows are copied instead"] if moves else []


def _format_names(names: Names) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
