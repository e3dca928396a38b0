"""The plan of a program on cells: routes of rows and work of cells, in stages.

See `planning`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Literal

from gpu_wcoj.errors import UsageError
from gpu_wcoj.planner.types import Types
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Atom, Comparison, Expression, Rule, Rules, Variable
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


# Compilation of rules to stages.
#
# In a join stage, a cell evaluates rules whose atoms read *roles*: inputs of the cell, one for each atom, or for atoms
# whose rows go to the same cells. A row is in a role only if it was routed for it. So a binding is produced in exactly
# one cell, the one that its hashed variables name, regardless of other rows in that cell. Nothing has to be filtered:
# each row agrees with its cell on the variables of its atom, and every hashed variable is in some atom.
#
# A head is final in its cell if no two cells can derive the same row: it has one rule and keeps all hashed variables
# (on a grid), or all variables (in any layout). For other heads, cells send the changes of their derivations, summed by
# row, to an owner stage: the row's hash names the one cell that keeps its count. Rows of heads that other rules read
# are routed in the same way to the join stage of those rules, later in the same batch.


def cell_plan(
    rules: Rules, outputs: Sequence[str], bag: bool, chosen: CellLayout, keep: Sequence[str] = ()
) -> CellPlan:
    """Plan a program on cells.

    Parameters
    ----------
    keep
        Heads whose rows are to be stored in the cells that their hashes name.

    Raises
    ------
    UsageError
        If there are no outputs.
    """
    if not outputs:
        raise UsageError.invalid_value(
            "outputs", [], "at least one output, as cells compute only these", "Name an output."
        )
    return _Planner(rules, tuple(outputs), bag, chosen, tuple(keep)).planned()


@dataclass(eq=False)
class _Planner:
    rules: Rules
    outputs: tuple[str, ...]
    bag: bool
    chosen: CellLayout
    keep: tuple[str, ...] = ()
    travelling: list[Travelling] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    finals: dict[str, str] = field(default_factory=dict)
    state_routes: dict[str, dict[tuple[int, int], list[Route]]] = field(default_factory=dict)

    def planned(self) -> CellPlan:
        for name in self.rules.inputs:
            self._new(name)
        needed = self._needed()
        levels = self._levels()
        for level in range(1, max(levels.values()) + 1):
            heads = [name for name in self.rules.heads if levels[name] == level and name in needed]
            if heads:
                self._add_level(heads)
        state_routes = {name: tuple(next(iter(atoms.values()))) for name, atoms in self.state_routes.items()}
        types = Types(desugar(self.rules), self.bag)
        stages = [replace(stage, equated=tuple(self._equated(stage, types))) for stage in self.stages]
        return CellPlan(
            self.rules, self.bag, self.outputs, self.chosen, tuple(stages), tuple(self.travelling), self.finals,
            state_routes,
        )  # fmt: skip

    def _equated(self, stage: Stage, types: Types) -> Iterator[tuple[str, int]]:
        """Yield columns of a stage's program in which -0.0 equals 0.0.

        The whole program compares their values somewhere, possibly in another stage.
        """
        arity = self.rules.arity
        relation_of = [(f"in{role}", self.travelling[relation_id].name) for role, relation_id in enumerate(stage.roles)]
        relation_of += [(result.name, result.head) for result in stage.results]
        for name, relation in relation_of:
            for column in range(arity[relation]):
                if not types.keeps_zero_signs(relation, column):
                    yield name, column

    def _needed(self) -> set[str]:
        """Return the heads that outputs and kept relations depend on."""
        needed = list(dict.fromkeys([*self.outputs, *self.keep]))
        for name in needed:
            for rule in self.rules.rules:
                if rule.head.relation == name:
                    needed.extend(
                        atom.relation
                        for atom in rule.atoms
                        if atom.relation in self.rules.heads and atom.relation not in needed
                    )
        return set(needed)

    def _levels(self) -> dict[str, int]:
        levels = dict.fromkeys(self.rules.inputs, 0)
        while len(levels) < len(self.rules.inputs) + len(self.rules.heads):
            for name in self.rules.heads:
                read = [a.relation for rule in self.rules.rules if rule.head.relation == name for a in rule.atoms]
                if name not in levels and all(atom_relation in levels for atom_relation in read):
                    levels[name] = 1 + max(levels[atom_relation] for atom_relation in read)
        return {name: levels[name] for name in self.rules.heads}

    def _add_level(self, heads: Sequence[str]) -> None:
        stage_index = len(self.stages)
        roles: dict[tuple[object, ...], int] = {}
        of_role: list[int] = []
        texts: list[str] = []
        results: list[Result] = []
        exchanged: list[tuple[str, int, int]] = []
        for head in heads:
            head_rules = [
                (rule_index, rule) for rule_index, rule in enumerate(self.rules.rules) if rule.head.relation == head
            ]
            width = len(head_rules[0][1].head.terms)
            final, why = self._is_final(head_rules)
            part = None if final else self._new(head, is_part=True)
            goes_on = self._read(head)
            if final:
                targets = (self._new(head),) if goes_on else ()
            else:
                assert part is not None
                targets = (part,)
                exchanged.append((head, width, part))
            self.finals[head] = why
            for rule_index, rule in head_rules:
                for way in range(len(self.chosen.parts[rule_index])):
                    name = f"out{len(results)}"
                    keeps_all = (final and why.startswith("counted")) or self._keeps_all(rule)
                    texts.append(
                        self._cell_rule(rule, rule_index, way, name, not keeps_all, stage_index, roles, of_role)
                    )
                    results.append(Result(name, head, width, not final, targets, final and head in self.outputs))
        self.stages.append(Stage(stage_index, "join", "\n".join(texts), tuple(of_role), tuple(results)))
        if exchanged:
            self._add_owner(exchanged)

    def _add_owner(self, exchanged: Sequence[tuple[str, int, int]]) -> None:
        stage_index = len(self.stages)
        texts, results = [], []
        for role, (head, width, part) in enumerate(exchanged):
            row = Hashed(tuple(range(width)), OWNER_SALT, self.chosen.cells, 1)
            route = Route(stage_index, role, (row,), self.chosen.cells)
            self._route(part, route)
            self.state_routes[head] = {(-1, -1): [route]}
            variables = ", ".join(f"v{i}" for i in range(width))
            texts.append(f"out{role}({variables}) :- in{role}({variables}).")
            targets = (self._new(head),) if self._read(head) else ()
            results.append(Result(f"out{role}", head, width, False, targets, head in self.outputs))
        roles = tuple(part for _, _, part in exchanged)
        self.stages.append(Stage(stage_index, "owner", "\n".join(texts), roles, tuple(results)))

    def _is_final(self, head_rules: Sequence[tuple[int, Rule]]) -> tuple[bool, str]:
        """Return whether no two cells can derive the same row of a head, and the reason."""
        if head_rules[0][1].head.relation in self.keep:
            return False, "is kept: a row's derivations are counted by the cell that its hash names"
        if len(head_rules) > 1:
            return False, "has several rules: a row's derivations are counted by the cell that its hash names"
        rule_index, rule = head_rules[0]
        if self._keeps_all(rule):
            return True, "keeps all variables: a row is derived in one cell, once"
        ways = [self.chosen.coordinates(rule_index, way) for way in range(len(self.chosen.parts[rule_index]))]
        hashed = {name for grid in ways for names, parts in grid if parts > 1 for name in names}
        hashed |= set(self.chosen.heavy[rule_index])
        head_names = {term.name for term in rule.head.terms if isinstance(term, Variable)}
        if self.chosen.layout == "hypercube" and hashed <= head_names:
            return True, "counted in the cell that derives it, as it keeps all hashed variables"
        return False, "drops variables: a row's derivations are counted by the cell that its hash names"

    @staticmethod
    def _keeps_all(rule: Rule) -> bool:
        head_variables = {term for term in rule.head.terms if isinstance(term, Variable)}
        return set(_variables(rule)) <= head_variables

    def _cell_rule(
        self,
        rule: Rule,
        rule_index: int,
        way: int,
        name: str,
        keep_all: bool,
        stage: int,
        roles: dict[tuple[object, ...], int],
        of_role: list[int],
    ) -> str:
        """Return the rule as a cell evaluates it; add the roles of its atoms and their routes."""
        variables = _variables(rule)
        renamed = {variable: f"v{i}" for i, variable in enumerate(variables)}

        def spelt(term: Expression) -> str:
            return renamed[term] if isinstance(term, Variable) else str(term)

        coordinates = self.chosen.coordinates(rule_index, way)
        grid = prod(parts for _, parts in coordinates) if self.chosen.layout == "hypercube" else self.chosen.cells
        heavy = list(self.chosen.heavy[rule_index].items())
        atoms = []
        for position, atom in enumerate(rule.atoms):
            hashed = _hashed(atom, coordinates, variables, self.chosen.is_shared(rule_index, way))
            restricted = []
            for variable in atom.variables:
                for bit, (heavy_name, values) in enumerate(heavy):
                    if heavy_name == variable.name:
                        column = atom.terms.index(variable)
                        restricted.append((column, tuple(values), bool(way >> bit & 1)))
            relation = self._number_of(atom.relation)
            key = (relation, hashed, grid, tuple(restricted))
            is_new = key not in roles
            if is_new:
                roles[key] = len(of_role)
                of_role.append(relation)
            route = Route(stage, roles[key], hashed, grid, tuple(restricted))
            if is_new:
                self._route(relation, route)
            atom_names = {variable.name for variable in atom.variables}
            if not any(way >> bit & 1 for bit, (heavy_name, _) in enumerate(heavy) if heavy_name not in atom_names):
                self.state_routes.setdefault(atom.relation, {}).setdefault((rule_index, position), []).append(route)
            atoms.append(f"in{roles[key]}({', '.join(map(spelt, atom.terms))})")
        head = [spelt(term) for term in rule.head.terms]
        if keep_all:
            head += [renamed[variable] for variable in variables if variable not in rule.head.terms]
        comparisons = [
            f"{spelt(comparison.left)} {comparison.op} {spelt(comparison.right)}" for comparison in rule.comparisons
        ]
        return f"{name}({', '.join(head)}) :- {', '.join([*atoms, *comparisons])}."

    def _read(self, head: str) -> bool:
        return any(atom.relation == head for rule in self.rules.rules for atom in rule.atoms)

    def _new(self, name: str, is_part: bool = False) -> int:
        self.travelling.append(Travelling(len(self.travelling), name, (), is_part))
        return len(self.travelling) - 1

    def _number_of(self, name: str) -> int:
        return next(
            travelling.index for travelling in self.travelling if travelling.name == name and not travelling.is_part
        )

    def _route(self, relation: int, route: Route) -> None:
        travelling = self.travelling[relation]
        self.travelling[relation] = replace(travelling, routes=(*travelling.routes, route))


def _variables(rule: Rule) -> list[Variable]:
    """Return all variables, including those that only comparisons bind."""
    variables: dict[Variable, None] = dict.fromkeys(rule.variables)
    for comparison in rule.comparisons:
        assert isinstance(comparison, Comparison)
        variables.update(dict.fromkeys(comparison.variables))
    variables.update(dict.fromkeys(rule.head.variables))
    return list(variables)


def _hashed(
    atom: Atom, coordinates: Sequence[tuple[Names, int]], variables: Sequence[Variable], is_shared: bool
) -> tuple[Hashed, ...]:
    """Return the cell coordinates that the rows of an atom determine by their columns.

    Each coordinate has a different salt, so that equal values do not always fall into the same parts. Coordinates that
    lookups share have the salt 0, regardless of the names of variables: rules that look up a relation by the same
    columns then share a role.
    """
    column_of = {variable.name: atom.terms.index(variable) for variable in atom.variables}
    place = {variable.name: i for i, variable in enumerate(variables)}
    hashed, stride = [], 1
    for names, parts in coordinates:
        if column_of.keys() >= set(names):
            columns = tuple(column_of[name] for name in names)
            hashed.append(Hashed(columns, 0 if is_shared else place[names[0]], parts, stride))
        stride *= parts
    return tuple(sorted(hashed, key=lambda coordinate: coordinate.columns))
