"""What is chosen once for a program on cells, and then kept in its checkpoint: layout, cells, shares, heavy values.

Whether rows have to be exchanged at all is the lookup plan's word (`gpu_wcoj.planner.exchanges`). Where it needs none,
rows go by one hash to one cell each. Else there is one exchange nevertheless, before all lookups: rows are copied to
the cells of a grid over the variables that atoms share, so that no prefix ever travels.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gpu_wcoj.errors import CheckpointMismatchError, UnsupportedError, UsageError, listed
from gpu_wcoj.planner.exchanges import Exchanges
from gpu_wcoj.planner.lookups import Arranged
from gpu_wcoj.query.rules import Rule, Rules
from gpu_wcoj.spark.cells.shares import MAX_CELLS, Shares, best_shares, even_shares, shares_of

Layout = Literal["auto", "hypercube", "replicated"]
Value = int | str
Heavy = Mapping[str, Sequence[Value]]
"""Per variable of a rule, values that so many rows have that one part would be too large."""
Names = tuple[str, ...]

MAX_CELL_FRACTION = 0.5
"""If cells of a grid would hold more than this part of the rows, every cell holds all of them instead."""

MAX_HEAVY_VARIABLES = 3
"""So many variables of a rule may have heavy values: each doubles the ways that rows take."""


@dataclass(frozen=True)
class CellLayout:
    """The layout of a program over cells.

    Attributes
    ----------
    layout
        ``"hypercube"``: each cell holds the rows that agree with it. ``"replicated"``: each holds all, and works on
        its share of every change.
    cells
        How many.
    parts
        Per rule, for each way that its bindings are split into by heavy values, the parts of each variable that is
        hashed by itself. Bit i of a way's number is set where the i-th variable with heavy values has one of them.
    heavy
        Per rule, the heavy values of its variables.
    reason
        Why, for people.
    shared
        Per rule and way, variables that all atoms have and whose common hash names the cell, where lookups need no
        exchange: then nothing has parts of its own. Empty in checkpoints of before there were such.
    moved
        Per rule, for people, by which variables lookups would have to be exchanged.
    """

    layout: Literal["hypercube", "replicated"]
    cells: int
    parts: tuple[tuple[Mapping[str, int], ...], ...]
    heavy: tuple[Heavy, ...]
    reason: str = field(default="", compare=False)
    shared: tuple[tuple[Names, ...], ...] = ()
    moved: tuple[tuple[Names, ...], ...] = field(default=(), compare=False)

    def is_shared(self, rule: int, way: int = 0) -> bool:
        """Whether lookups need no exchange in one way of a rule."""
        return bool(self.shared and self.shared[rule][way])

    def coordinates(self, rule: int, way: int = 0) -> tuple[tuple[Names, int], ...]:
        """What is hashed in one way of a rule: variables that are hashed together, and into how many parts."""
        if self.is_shared(rule, way):
            return ((self.shared[rule][way], self.cells),)
        return tuple(((name,), parts) for name, parts in self.parts[rule][way].items())

    def parts_of(self, rule: int, variable: str) -> int:
        """Into how many parts a variable is hashed, alone or with others, where nothing is heavy."""
        return next((parts for names, parts in self.coordinates(rule) if variable in names), 1)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        content: dict[str, Any] = {
            "layout": self.layout,
            "cells": self.cells,
            "parts": [[dict(way) for way in ways] for ways in self.parts],
            "heavy": [{name: list(values) for name, values in values_of.items()} for values_of in self.heavy],
            "reason": self.reason,
        }
        if self.shared:
            content["shared"] = [[list(names) for names in ways] for ways in self.shared]
        if self.moved:
            content["moved"] = [[list(names) for names in moves] for moves in self.moved]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> CellLayout:
        """What `to_json` gave."""
        return cls(
            content["layout"],
            int(content["cells"]),
            tuple(tuple(dict(way) for way in ways) for ways in content["parts"]),
            tuple({name: tuple(values) for name, values in values_of.items()} for values_of in content["heavy"]),
            str(content["reason"]),
            tuple(tuple(map(tuple, ways)) for ways in content.get("shared", ())),
            tuple(tuple(map(tuple, moves)) for moves in content.get("moved", ())),
        )

    def check(self, path: object, layout: Layout, cells: int | None) -> None:
        """Raise `CheckpointMismatchError` if other than this is asked for."""
        if layout not in ("auto", self.layout):
            raise CheckpointMismatchError(path, "layout", self.layout, layout)
        if cells not in (None, self.cells):
            raise CheckpointMismatchError(path, "number of cells", self.cells, cells)


def choose(
    rules: Rules,
    layout: Layout,
    cells: int,
    sizes: Mapping[str, float] | None = None,
    heavy: Mapping[int, Heavy] | None = None,
) -> CellLayout:
    """The layout with the least work, and its shares.

    Parameters
    ----------
    layout
        ``"auto"`` for the cheaper one.
    cells
        How many cells. More cells than tasks that run at a time even the load out.
    sizes
        Rows of relations, as far as they are known; all others count as the mean of these.
    heavy
        Per number of a rule, the heavy values of its variables.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> text = "triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c)."
    >>> choose(parse(text), "auto", 8).parts
    (({'a': 2, 'b': 2, 'c': 2},),)
    >>> choose(parse("both(a, b) :- r(a, b), s(a, b)."), "auto", 8).coordinates(0)
    ((('a', 'b'), 8),)
    """
    if layout not in ("auto", "hypercube", "replicated"):
        raise UsageError(f"layout='{layout}' is not allowed; it must be 'auto', 'hypercube' or 'replicated'.")
    if type(cells) is not int or not 1 <= cells <= MAX_CELLS:
        raise UsageError(f"cells={cells!r} is not allowed; it must be a number from 1 to {MAX_CELLS}.")
    heavy_of = {rule_index: _validate_heavy(rules, rule_index, values) for rule_index, values in (heavy or {}).items()}
    known_sizes = dict(sizes or {})
    mean = sum(known_sizes.values()) / len(known_sizes) if known_sizes else 1.0
    rows = {name: known_sizes.get(name, mean or 1.0) for name in (*rules.inputs, *rules.heads)}
    plans = _planned(rules, rows if known_sizes else {})
    parts, shared = [], []
    for rule_index, plan in enumerate(plans):
        heavy_names = list(heavy_of.get(rule_index, {}))
        ways, together = [], []
        for way in range(1 << len(heavy_names)):
            fixed = {name for bit, name in enumerate(heavy_names) if way >> bit & 1}
            one_key = tuple(name for name in plan.shared if name not in fixed and cells > 1)
            ways.append({} if one_key else dict(best_shares(_hashable_variables(plan, rows, fixed), cells).parts))
            together.append(one_key)
        parts.append(tuple(ways))
        shared.append(tuple(together))
    grid = CellLayout("hypercube", cells, tuple(parts), (), "", tuple(shared))
    fraction = max((shares.fraction for shares in shares_in(rules, grid, sizes)), default=0.0)
    chosen: Literal["hypercube", "replicated"]
    if layout == "auto":
        chosen = "replicated" if fraction > MAX_CELL_FRACTION and cells > 1 else "hypercube"
        reason = (
            f"on a grid a cell would hold {fraction:.0%} of a rule's rows, "
            f"{'more than' if fraction > MAX_CELL_FRACTION else 'at most'} {MAX_CELL_FRACTION:.0%}"
        )
    else:
        chosen, reason = layout, "as asked for"
    if chosen == "replicated":
        if heavy_of:
            raise UsageError("heavy values have no meaning with layout='replicated': its work is split by rows.")
        parts, shared = [({},) for _ in parts], []
    moved = tuple(plan.moved for plan in plans)
    return CellLayout(
        chosen, cells, tuple(parts), tuple(heavy_of.get(i, {}) for i in range(len(parts))), reason, tuple(shared), moved
    )


def shares_in(rules: Rules, chosen: CellLayout, sizes: Mapping[str, float] | None = None) -> list[Shares]:
    """Per rule, what its shares cost, heavy values left aside."""
    known_sizes = dict(sizes or {})
    mean = sum(known_sizes.values()) / len(known_sizes) if known_sizes else 1.0
    shares = []
    for rule_index, rule in enumerate(rules.rules):
        atoms = _atom_sizes(rule, known_sizes, mean or 1.0)
        if chosen.is_shared(rule_index):
            shares.append(even_shares(atoms, chosen.shared[rule_index][0], chosen.cells))
        else:
            shares.append(shares_of(atoms, chosen.parts[rule_index][0]))
    return shares


def _planned(rules: Rules, rows: Mapping[str, float]) -> list[Exchanges]:
    """The lookups of each rule; where rows can go as they go for a rule before, they do."""
    plans: list[Exchanges] = []
    existing: list[Arranged] = []
    for rule in rules.rules:
        plans.append(Exchanges.of(rule, rows, existing))
        existing += plans[-1].plan.made
    return plans


def _hashable_variables(
    plan: Exchanges, rows: Mapping[str, float], fixed: Collection[str]
) -> list[tuple[float, list[str]]]:
    """Per atom its rows, and what the grid may hash of it.

    A variable of one atom is not worth it: one that this atom shares divides its rows, too, and copies fewer of others.
    That fails only where an atom shares nothing, or nothing that is left.
    """
    usable = [variable.name for variable in plan.rule.variables] if fixed or plan.crosses else plan.joined
    names = {name for name in usable if name not in fixed}
    return [(n, [name for name in atom_names if name in names]) for n, atom_names in _atom_sizes(plan.rule, rows, 1.0)]


def _atom_sizes(rule: Rule, sizes: Mapping[str, float], mean: float) -> list[tuple[float, list[str]]]:
    return [(sizes.get(atom.relation, mean), [variable.name for variable in atom.variables]) for atom in rule.atoms]


def _validate_heavy(rules: Rules, rule_index: int, heavy: Heavy) -> Heavy:
    if not 0 <= rule_index < len(rules.rules):
        raise UsageError(f"heavy values are given for rule {rule_index}; the rules are 0 to {len(rules.rules) - 1}.")
    names = [variable.name for variable in rules.rules[rule_index].variables]
    if len(heavy) > MAX_HEAVY_VARIABLES:
        raise UnsupportedError(
            f"rule {rule_index} has heavy values of {len(heavy)} variables; {MAX_HEAVY_VARIABLES} are supported.\n"
            "  Leave some out, or use layout='replicated'."
        )
    validated: dict[str, Sequence[Value]] = {}
    for name, values in heavy.items():
        if name not in names:
            raise UsageError(f"rule {rule_index} has no variable '{name}'; it has {listed(names)}.")
        for value in values:
            if type(value) not in (int, str):
                raise UnsupportedError(f"the heavy value {value!r} of '{name}' is neither an integer nor a text.")
        validated[name] = tuple(dict.fromkeys(values))
    return validated
