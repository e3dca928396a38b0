"""What runs on cells, as stages: which cells each row goes to, and what each cell computes; see `planning`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpu_wcoj.query.rules import Rules
from gpu_wcoj.spark.cells.chosen import CellLayout, Names, Value, shares_in

OWNER_SALT = 1 << 20
"""By what a row's own hash differs from those of its columns' variables."""


@dataclass(frozen=True)
class Hashed:
    """Columns whose common hash, modulo `parts`, is one coordinate of a cell; the grid's `stride` is its weight."""

    columns: tuple[int, ...]
    salt: int
    parts: int
    stride: int


@dataclass(frozen=True)
class Route:
    """Where rows of a relation go for one role.

    Attributes
    ----------
    stage, role
        The stage's number and the number of its role.
    hashed
        The coordinates that a row determines; it goes to all cells of the grid that have these.
    cells
        Cells of the grid.
    chosen
        Columns whose value must be (True) or must not be (False) among these values.
    """

    stage: int
    role: int
    hashed: tuple[Hashed, ...]
    cells: int
    chosen: tuple[tuple[int, tuple[Value, ...], bool], ...] = ()

    def coordinate(self, cell: int) -> int:
        """What the hashed coordinates of a row must add up to for it to go to that cell."""
        return sum((cell // coordinate.stride) % coordinate.parts * coordinate.stride for coordinate in self.hashed)

    def is_first(self, cell: int) -> bool:
        """Whether a cell is the first of those that rows go to, for some rows; each row has one such cell."""
        return self.coordinate(cell) == cell


@dataclass(frozen=True)
class Travelling:
    """A relation whose rows go to cells.

    Attributes
    ----------
    number
        Its own.
    name
        Of the relation that its columns are of.
    routes
        Where they go, stage by stage.
    is_part
        Whether these are changes of derivations, for the owners of the rows.
    """

    index: int
    name: str
    routes: tuple[Route, ...] = ()
    is_part: bool = False


@dataclass(frozen=True)
class Result:
    """What a stage gives of one head.

    Attributes
    ----------
    name
        What the cell's program calls it.
    head
        Of the rules.
    width
        Its columns; the cell's program may have more behind these.
    is_summed
        Whether rows are to be summed over what they have beyond `width`.
    goes_to
        Relations that its rows travel as.
    is_output
        Whether they are an answer.
    """

    name: str
    head: str
    width: int
    is_summed: bool
    goes_to: tuple[int, ...]
    is_output: bool


@dataclass(frozen=True)
class Stage:
    """One exchange and what cells do after it.

    Attributes
    ----------
    kind
        ``"join"`` or ``"owner"``.
    program
        The text of a cell's program; an owner's is evaluated over bags, and counts derivations.
    roles
        Per role, the relation that travels there; role i is the input ``in{i}``.
    equated
        Relations and columns of the cell's program in which -0.0 is 0.0, as the whole program compares their values.
    """

    index: int
    kind: Literal["join", "owner"]
    program: str
    roles: tuple[int, ...]
    results: tuple[Result, ...]
    equated: tuple[tuple[str, int], ...] = ()

    def roles_of(self, relation: int) -> list[int]:
        """The roles that rows of a relation can be routed to; bit i of a mask stands for the i-th."""
        return [role for role, role_relation in enumerate(self.roles) if role_relation == relation]


@dataclass(frozen=True)
class CellPlan:
    """How a program runs on cells.

    Attributes
    ----------
    finals
        Per head, for people, where its rows are counted.
    held
        Per relation whose rows cells hold, routes that each of its rows takes just one of: together, the cells that
        are the first of their kind there (see `is_first`) hold it once. What no output needs is not held.
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
        """How it runs, for people."""
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
        """What the lookups of a rule ask for."""
        chosen = self.chosen
        if chosen.is_shared(rule_index):
            return ["lookups need no exchange: what joins is in one cell"]
        moves = chosen.moved[rule_index] if chosen.moved else ()
        columns = ", ".join(map(_format_names, moves))
        return [f"lookups would be exchanged by {columns}: rows are copied instead"] if moves else []


def _format_names(names: Names) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"
