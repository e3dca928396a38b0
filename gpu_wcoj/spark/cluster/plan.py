"""The plan of a program on cells: routes of rows and work of cells, in stages.

See `planning`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Literal

from gpu_wcoj.errors import UsageError
from gpu_wcoj.planner.types import Types
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import (
    Atom,
    Comparison,
    ComputedGroups,
    Expression,
    Extreme,
    FirstRows,
    Grouping,
    Rule,
    Rules,
    Variable,
)
from gpu_wcoj.query.stratify import loops_of
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
    width
        The number of its first columns that are sent; None for all. The weight of a row is then the number of rows with
        these values.
    """

    index: int
    name: str
    routes: tuple[Route, ...] = ()
    is_part: bool = False
    width: int | None = None


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
        ``"join"``, ``"group"`` or ``"owner"``.
    program
        The rules of a cell's program; an owner's is evaluated over bags, and counts derivations.
    roles
        Per role, the relation that is sent to it; role i is the input ``in{i}``.
    equated
        Relations and columns of the cell's program in which -0.0 equals 0.0, as the program compares their values.
    shares_work
        Whether each cell holds all rows and works on its share of every change.
    is_bag
        Whether the cell's program has bag semantics, as it groups rows that cells have summed, in a program over sets.
    """

    index: int
    kind: Literal["join", "owner", "group"]
    program: Rules
    roles: tuple[int, ...]
    results: tuple[Result, ...]
    equated: tuple[tuple[str, int], ...] = ()
    shares_work: bool = False
    is_bag: bool = False

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
    sources
        The relations whose rows come from outside, in the order of `travelling`: inputs, then facts of the text.
    inner
        The relations of the core form that the program does not name: facts, and heads.
    """

    rules: Rules
    bag: bool
    outputs: tuple[str, ...]
    chosen: CellLayout
    stages: tuple[Stage, ...]
    travelling: tuple[Travelling, ...]
    finals: Mapping[str, str] = field(default_factory=dict)
    state_routes: Mapping[str, tuple[Route, ...]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    inner: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return a description of the plan for people."""
        chosen = self.chosen
        lines = [f"layout {chosen.layout}, {chosen.cells} cells: {chosen.reason}"]
        if chosen.layout == "hypercube":
            for rule_index, (rule, cost) in enumerate(
                zip(desugar(self.rules).rules, shares_in(self.rules, chosen), strict=True)
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
            doing = {"join": "joins", "group": "groups", "owner": "counts derivations of"}[stage.kind]
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
# each row agrees with its cell on the variables of its atom, and every hashed variable is in some positive atom. The
# rows of a negated atom are routed in the same way, so the cell of a binding has all rows that can refute it. A head
# that only selects and projects rows of an input is evaluated by the cells that read it, after its input's rows have
# been routed by the columns that it keeps.
#
# A head is final in its cell if no two cells can derive the same row: it has one rule and keeps all hashed variables
# (on a grid), or all variables (in any layout). For other heads, cells send the changes of their derivations, summed by
# row, to an owner stage: the row's hash names the one cell that keeps its count. Rows of heads that other rules read
# are routed in the same way to the join stage of those rules, later in the same batch. In bags, what reads a head sums
# the changes of all cells itself, so that only answers and kept heads have owners.
#
# Heads that aggregate are computed in a group stage: the rows of a group are routed by the hash of its keys, summed
# over equal rows in the cell that sends them. All rules whose atoms agree in these keys are evaluated in the same
# stage: minima beside counts, conditions on groups, and outer joins of groups. The bindings of a group over sets are
# cut to the keys and the value if the group is only an answer: a cell sends each value once, with the number of
# bindings.
#
# A recursion is computed in a group stage, too. If its rules pass the value of a column on, from the recursive atoms to
# the head, rows with one value never meet those with another: its hash names the cell, and relations without the value
# are copied to all cells. Else one cell computes the recursion.


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


MAX_PIVOTED_HEADS = 3
"""Heads of a recursion whose columns are searched for one that all rules pass on; the search is exponential in them."""
Key = tuple[int, ...]
"""Columns of a relation whose hash names the cell of a row."""
Coordinates = Sequence[tuple[Names, int]]
"""Variables that are hashed together, and their parts."""


@dataclass(eq=False)
class _StageDraft:
    """A stage under construction.

    Attributes
    ----------
    role_of
        The role for each way to route a relation.
    relation_of
        Per role, the relation that is sent to it.
    projected
        The names of heads that the cells of this stage project from a role.
    """

    index: int
    kind: Literal["join", "owner", "group"]
    rules: list[Rule] = field(default_factory=list)
    helpers: list[Grouping | FirstRows | ComputedGroups] = field(default_factory=list)
    extremes: list[Extreme] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    role_of: dict[tuple[object, ...], int] = field(default_factory=dict)
    relation_of: list[int] = field(default_factory=list)
    projected: dict[tuple[str, int], str] = field(default_factory=dict)
    is_bag: bool = False

    def finished(self, shares_work: bool = False) -> Stage:
        """Return the stage."""
        program = Rules(
            tuple(self.rules),
            outputs=tuple(result.name for result in self.results),
            groupings=tuple(helper for helper in self.helpers if isinstance(helper, Grouping)),
            extremes=tuple(self.extremes),
            first_rows=tuple(helper for helper in self.helpers if isinstance(helper, FirstRows)),
            computed_groups=tuple(helper for helper in self.helpers if isinstance(helper, ComputedGroups)),
        )
        return Stage(
            self.index, self.kind, program, tuple(self.relation_of), tuple(self.results), shares_work=shares_work,
            is_bag=self.is_bag,
        )  # fmt: skip


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
    present: dict[str, int] = field(default_factory=dict)
    """Relations whose rows there are before the next stage, and their indices."""

    def __post_init__(self) -> None:
        self.core = desugar(self.rules)
        self.reads = self.core.read_by_head
        self.rules_of: dict[str, list[tuple[int, Rule]]] = {}
        for rule_index, rule in enumerate(self.core.rules):
            self.rules_of.setdefault(rule.head.relation, []).append((rule_index, rule))
        self.helper_of = {helper.relation: helper for helper in self.core.helpers}
        self.extreme_of = {extreme.relation: extreme for extreme in self.core.extremes}
        self.loops = loops_of(self.core)

    def planned(self) -> CellPlan:
        for name in self.rules.inputs:
            self.present[f"{name}#in" if name in self.core.heads else name] = self._new(name)
        for facts in self.core.facts:
            self.present[facts.relation] = self._new(facts.relation)
        self.sources = tuple(relation.name for relation in self.travelling)
        self.needed = needed = self._needed()
        self.projections = {
            name: rules[0][1] for name, rules in self.rules_of.items() if name in needed and self._is_projection(name)
        }
        self.summed_widths = dict(self._summed_widths())
        pending = [name for name in self.core.heads if name in needed and name not in self.projections]
        while pending:
            done = self._add_group_stage(pending) or self._add_join_stage(pending)
            pending = [name for name in pending if name not in done]
        inner = [*self.sources[len(self.rules.inputs) :], *self.core.heads]
        state_routes = {name: tuple(next(iter(atoms.values()))) for name, atoms in self.state_routes.items()}
        types = Types(self.core, self.bag)
        stages = [replace(stage, equated=tuple(self._equated(stage, types))) for stage in self.stages]
        return CellPlan(
            self.rules, self.bag, self.outputs, self.chosen, tuple(stages), tuple(self.travelling), self.finals,
            state_routes, self.sources, tuple(name for name in inner if name not in self.rules.heads),
        )  # fmt: skip

    def _equated(self, stage: Stage, types: Types) -> Iterator[tuple[str, int]]:
        """Yield columns of a stage's program in which -0.0 equals 0.0.

        The whole program compares their values somewhere, possibly in another stage.
        """
        arity = self.core.arity
        core_name = {relation: name for name, relation in self.present.items()}
        relation_of = [
            (f"in{role}", core_name.get(relation, self.travelling[relation].name))
            for role, relation in enumerate(stage.roles)
        ]
        relation_of += [(result.name, result.head) for result in stage.results]
        for name, relation in relation_of:
            for column in range(self.summed_widths.get(relation, arity[relation])):
                if not types.keeps_zero_signs(relation, column):
                    yield name, column

    def _needed(self) -> set[str]:
        """Return the heads that outputs and kept relations depend on."""
        needed = list(dict.fromkeys([*self.outputs, *self.keep]))
        for name in needed:
            needed.extend(read for read in self.reads[name] if read in self.reads and read not in needed)
        return set(needed)

    def _is_projection(self, name: str) -> bool:
        """Return whether a head only projects rows of a source, and only joins read it."""
        if name in self.outputs or name in self.keep or name in self.helper_of or len(self.rules_of[name]) > 1:
            return False
        if any(helper.source == name for helper in self.helper_of.values()):
            return False
        readers = [
            rule for rule in self.core.rules if any(atom.relation == name for atom in (*rule.atoms, *rule.negated))
        ]
        if any(len(rule.atoms) + len(rule.negated) == 1 for rule in readers):
            return False  # its rows, summed, may be far fewer than those of the source
        ((_, rule),) = self.rules_of[name]
        is_of_source = len(rule.atoms) == 1 and rule.atoms[0].relation in self.present
        terms = [term for term in rule.head.terms if isinstance(term, Variable)]
        is_projecting = len(set(terms)) == len(rule.head.terms) and set(terms) <= set(rule.variables)
        return is_of_source and is_projecting and not (rule.negated or rule.computed)

    def _summed_widths(self) -> Iterator[tuple[str, int]]:
        """Yield relations that one group reads, and the number of their first columns that it needs.

        Each of their rows is derived once, in one cell of a join stage, so that cells can count the rows with the same
        values in these columns, and send the counts only.
        """
        for helper in () if self.bag else self.helper_of.values():
            source = helper.relation if isinstance(helper, FirstRows | ComputedGroups) else helper.source
            rules = self.rules_of.get(source, [])
            readers = [name for name in self.needed if source in self.reads[name]]
            if (
                isinstance(helper, Grouping)
                and helper.relation in self.outputs
                and helper.relation not in self.keep
                and not self._is_read(helper.relation)
                and readers == [helper.relation]
                and source not in (*self.outputs, *self.keep, *self.loops, *self.extreme_of, *self.projections)
                and len(rules) == 1
                and self._keeps_all(rules[0][1])
            ):
                width = max(1, helper.keys + (helper.op != "count"))  # rows without columns have no number
                if width < self.core.arity[source]:
                    yield source, width

    def source_of(self, name: str) -> str:
        """Return the relation that a projection reads; other relations are returned as they are."""
        return self.projections[name].atoms[0].relation if name in self.projections else name

    def _is_read(self, head: str, within: Collection[str] = ()) -> bool:
        """Return whether something reads a head, other than these heads."""
        return any(head in self.reads[name] for name in self.needed if name not in within)

    # Stages that join.

    def _add_join_stage(self, pending: Sequence[str]) -> set[str]:
        """Add a stage for all rules that read only what there is; return its heads."""
        there = {*self.present, *self.projections}
        heads = [name for name in pending if name not in self.helper_of and self.reads[name] <= there]
        assert heads, f"nothing can be computed of {pending}"
        draft = _StageDraft(len(self.stages), "join")
        rules = [rule for name in heads for _, rule in self.rules_of[name]]
        shares_work = self.chosen.layout == "replicated" and all(map(self._shares_work, rules))
        parts: list[tuple[str, int, int]] = []
        for head in heads:
            final, why = self._is_final(head, shares_work)
            targets = self._targets(head, final, parts, [])
            self.finals[head] = why
            for rule_index, rule in self.rules_of[head]:
                for way in range(len(self.chosen.parts[rule_index])):
                    name = f"out{len(draft.results)}"
                    keeps_all = (final and why.startswith("counted")) or self._keeps_all(rule)
                    draft.rules.append(self._cell_rule(draft, rule, rule_index, way, name, not keeps_all, shares_work))
                    width = self.summed_widths.get(head, len(rule.head.terms))
                    is_summed = not final or head in self.summed_widths
                    draft.results.append(Result(name, head, width, is_summed, targets, final and head in self.outputs))
        self.stages.append(draft.finished(shares_work))
        if parts:
            self._add_owner(parts)
        return set(heads)

    def _shares_work(self, rule: Rule) -> bool:
        """Return whether engines that hold all rows can share the work on the changes of a rule."""
        is_projecting = any(atom.relation in self.projections or not atom.variables for atom in rule.atoms)
        is_null_safe = rule.says_null or any(variable.is_null_safe for variable in rule.variables)
        return not (rule.negated or rule.computed or is_projecting or is_null_safe)

    def _targets(
        self, head: str, final: bool, parts: list[tuple[str, int, int]], within: Collection[str]
    ) -> tuple[int, ...]:
        """Return the relations as which rows are sent on; add heads with owners to `parts`."""
        goes_on = self._is_read(head, within)
        is_stored = head in self.outputs or head in self.keep
        if final or (self.bag and not is_stored):
            return (self._emit(head),) if goes_on else ()
        part = self._new(head, is_part=True)
        parts.append((head, self.core.arity[head], part))
        return (part,)

    def _emit(self, head: str) -> int:
        self.present[head] = self._new(head, width=self.summed_widths.get(head))
        return self.present[head]

    def _add_owner(self, parts: Sequence[tuple[str, int, int]]) -> None:
        draft = _StageDraft(len(self.stages), "owner")
        for role, (head, width, part) in enumerate(parts):
            row = Hashed(tuple(range(width)), OWNER_SALT, self.chosen.cells, 1)
            route = Route(draft.index, role, (row,), self.chosen.cells)
            self._route(part, route)
            self.state_routes[head] = {(-1, -1): [route]}
            terms = tuple(Variable(f"v{i}") for i in range(width))
            draft.rules.append(Rule(Atom(f"out{role}", terms), (Atom(f"in{role}", terms),)))
            targets = (self._emit(head),) if self._is_read(head) else ()
            draft.results.append(Result(f"out{role}", head, width, False, targets, head in self.outputs))
            draft.relation_of.append(part)
        self.stages.append(draft.finished())

    def _is_final(self, head: str, shares_work: bool) -> tuple[bool, str]:
        """Return whether no two cells of a join stage can derive the same row, and the reason."""
        head_rules = self.rules_of[head]
        if head in self.keep:
            return False, "is kept: a row's derivations are counted by the cell that its hash names"
        if len(head_rules) > 1:
            return False, "has several rules: a row's derivations are counted by the cell that its hash names"
        ((rule_index, rule),) = head_rules
        if self._keeps_all(rule):
            return True, "keeps all variables: a row is derived in one cell, once"
        ways = [
            self._coordinates(rule, rule_index, way, shares_work) for way in range(len(self.chosen.parts[rule_index]))
        ]
        hashed = {name for grid, _ in ways for names, parts in grid if parts > 1 for name in names}
        hashed |= set(self.chosen.heavy[rule_index])
        head_names = {term.name for term in rule.head.terms if isinstance(term, Variable)}
        if not shares_work and hashed <= head_names:
            return True, "counted in the cell that derives it, as it keeps all hashed variables"
        return False, "drops variables: a row's derivations are counted by the cell that its hash names"

    @staticmethod
    def _keeps_all(rule: Rule) -> bool:
        return set(rule.variables) <= {term for term in rule.head.terms if isinstance(term, Variable)}

    def _coordinates(self, rule: Rule, rule_index: int, way: int, shares_work: bool) -> tuple[Coordinates, bool]:
        """Return the hashed variables of a rule, and whether lookups need no exchange.

        In a layout whose cells hold all rows, they share the work on the changes of a rule. If they cannot, the rows of
        one atom are distributed, and those of the others copied.
        """
        if self.chosen.layout == "hypercube":
            return self.chosen.coordinates(rule_index, way), self.chosen.is_shared(rule_index, way)
        if shares_work:
            return (), False
        names = next((tuple(variable.name for variable in atom.variables) for atom in rule.atoms if atom.variables), ())
        return (((names, self.chosen.cells),) if names else ()), True

    def _cell_rule(
        self, draft: _StageDraft, rule: Rule, rule_index: int, way: int, name: str, keep_all: bool, shares_work: bool
    ) -> Rule:
        """Return the rule as a cell evaluates it; add the roles of its atoms and their routes."""
        coordinates, is_shared = self._coordinates(rule, rule_index, way, shares_work)
        grid = self.chosen.cells if shares_work else prod(parts for _, parts in coordinates)
        heavy = list(self.chosen.heavy[rule_index].items())
        variables = _variables(rule)

        def read(position: int, atom: Atom) -> Atom:
            hashed = _hashed(atom, coordinates, variables, is_shared)
            restricted = []
            for variable in atom.variables:
                for bit, (heavy_name, values) in enumerate(heavy):
                    if heavy_name == variable.name:
                        column = atom.terms.index(variable)
                        restricted.append((column, tuple(values), bool(way >> bit & 1)))
            atom_names = {variable.name for variable in atom.variables}
            is_first_way = not any(
                way >> bit & 1 for bit, (heavy_name, _) in enumerate(heavy) if heavy_name not in atom_names
            )
            reader = (rule_index, position) if is_first_way else None
            return replace(atom, relation=self._role(draft, atom.relation, hashed, grid, tuple(restricted), reader))

        atoms = [read(position, atom) for position, atom in enumerate((*rule.atoms, *rule.negated))]
        return _completed(_with_atoms(rule, atoms), name, keep_all)

    def _role(
        self,
        draft: _StageDraft,
        relation: str,
        hashed: tuple[Hashed, ...],
        grid: int,
        restricted: tuple[tuple[int, tuple[Value, ...], bool], ...] = (),
        reader: tuple[int, int] | None = None,
    ) -> str:
        """Return the name of a relation that is routed in this way, in the cell's program.

        A projection of a source is made in the cell.

        Parameters
        ----------
        reader
            The rule and the atom for which the route takes each row once, if it does.
        """
        if relation in self.projections:
            projection = self.projections[relation]
            (source,) = projection.atoms
            column_of = [source.terms.index(term) for term in projection.head.terms]
            hashed = tuple(replace(one, columns=tuple(column_of[column] for column in one.columns)) for one in hashed)
            restricted = tuple((column_of[column], *rest) for column, *rest in restricted)  # type: ignore[misc]
            role = self._role(draft, source.relation, hashed, grid, restricted, reader)
            key = relation, int(role.removeprefix("in"))
            if key not in draft.projected:
                draft.projected[key] = f"projected{len(draft.projected)}"
                cell_rule = _with_atoms(projection, [replace(source, relation=role)])
                draft.rules.append(replace(cell_rule, head=replace(projection.head, relation=draft.projected[key])))
            return draft.projected[key]
        number = self.present[relation]
        route_key = (number, hashed, grid, restricted)
        is_new = route_key not in draft.role_of
        if is_new:
            draft.role_of[route_key] = len(draft.relation_of)
            draft.relation_of.append(number)
        role_index = draft.role_of[route_key]
        route = Route(draft.index, role_index, hashed, grid, restricted)
        if is_new:
            self._route(number, route)
        if reader is not None:
            self.state_routes.setdefault(self.travelling[number].name, {}).setdefault(reader, []).append(route)
        return f"in{role_index}"

    # Stages that group.

    def _add_group_stage(self, pending: Sequence[str]) -> set[str]:
        """Add a stage for groups and recursions, and for what follows; return its heads."""
        keys = _GroupKeys(self, pending).find()
        if not keys:
            return set()
        draft = _StageDraft(len(self.stages), "group")
        parts: list[tuple[str, int, int]] = []
        for head, key in keys.items():
            rules = self.rules_of.get(head, [])
            is_alone = len(rules) == 1 and self._keeps_all(rules[0][1])
            final = head not in self.keep and (key is not None or is_alone)
            is_result = head in self.outputs or head in self.keep or self._is_read(head, keys)
            self.finals[head] = (
                "is in the cell of its group's keys" if final
                else "is kept: a row's derivations are counted by the cell that its hash names" if head in self.keep
                else "drops the keys of its group: a row's derivations are counted by the cell that its hash names"
            )  # fmt: skip
            targets = self._targets(head, final, parts, keys) if is_result else ()
            width = self.core.arity[head]
            name = f"group.{head}"
            if head in self.extreme_of:
                draft.extremes.append(replace(self.extreme_of[head], relation=name))
            if helper := self.helper_of.get(head):
                source = self._grouped(draft, keys, helper.source, key)
                cell_helper = replace(helper, relation=name, source=source)
                if isinstance(cell_helper, Grouping) and helper.source in self.summed_widths.keys() - keys.keys():
                    cell_helper = replace(cell_helper, is_weighted=True)  # the weights are numbers of rows
                draft.helpers.append(cell_helper)
            elif final or key is not None:
                draft.rules += [self._group_rule(draft, keys, rule, name, False) for _, rule in rules]
            if helper or final:
                if is_result:
                    width, is_summed = self.summed_widths.get(head, width), head in self.summed_widths
                    draft.results.append(Result(name, head, width, is_summed, targets, final and head in self.outputs))
            else:
                for _, rule in rules:
                    name = f"out{len(draft.results)}"
                    draft.rules.append(self._group_rule(draft, keys, rule, name, not self._keeps_all(rule)))
                    draft.results.append(Result(name, head, width, True, targets, False))
        self.stages.append(draft.finished())
        if parts:
            self._add_owner(parts)
        return set(keys)

    def _grouped(self, draft: _StageDraft, keys: Mapping[str, Key | None], source: str, key: Key | None) -> str:
        """Return the name of the rows that a helper groups in the cell's program."""
        assert key is not None
        if source in keys:
            return f"group.{source}"
        role = self._role(draft, source, *self._by_key(key))
        draft.is_bag = draft.is_bag or source in self.summed_widths
        terms = tuple(Variable(f"c{i}") for i in range(self.summed_widths.get(source, self.core.arity[source])))
        copy = Rule(Atom(f"rows.{role}", terms), (Atom(role, terms),))
        if copy not in draft.rules:
            draft.rules.append(copy)
        return copy.head.relation

    def _by_key(self, key: Key) -> tuple[tuple[Hashed, ...], int]:
        """Return the hash of these columns, and the number of cells that rows are distributed over."""
        return ((Hashed(key, 0, self.chosen.cells, 1),), self.chosen.cells) if key else ((), 1)

    def _group_rule(
        self, draft: _StageDraft, keys: Mapping[str, Key | None], rule: Rule, name: str, keep_all: bool
    ) -> Rule:
        """Return a rule whose atoms agree in the keys of groups, as a cell evaluates it."""
        variables = key_variables(rule, keys)
        assert variables is not None
        atoms = []
        for position, atom in enumerate((*rule.atoms, *rule.negated)):
            if atom.relation in keys:
                atoms.append(replace(atom, relation=f"group.{atom.relation}"))
            else:
                has_key = set(variables) <= set(atom.variables)  # else all cells of the stage need the rows
                key = tuple(atom.terms.index(variable) for variable in variables) if has_key else ()
                hashed, grid = self._by_key(key) if has_key else ((), self.chosen.cells)
                reader = (self.core.rules.index(rule), position)
                atoms.append(replace(atom, relation=self._role(draft, atom.relation, hashed, grid, (), reader)))
        return _completed(_with_atoms(rule, atoms), name, keep_all)

    def _new(self, name: str, is_part: bool = False, width: int | None = None) -> int:
        self.travelling.append(Travelling(len(self.travelling), name, (), is_part, width))
        return len(self.travelling) - 1

    def _route(self, relation: int, route: Route) -> None:
        travelling = self.travelling[relation]
        self.travelling[relation] = replace(travelling, routes=(*travelling.routes, route))


@dataclass(eq=False)
class _GroupKeys:
    """The heads of a group stage, each with the columns whose hash names the cell of a row.

    Groups of few keys come first, as rows that agree in more columns agree in these too.
    """

    planner: _Planner
    pending: Sequence[str]
    keys: dict[str, Key | None] = field(default_factory=dict)
    entering: dict[str, list[Key]] = field(default_factory=dict)

    def find(self) -> dict[str, Key | None]:
        """Return the heads of the next stage; empty if nothing can be grouped yet."""
        there = {*self.planner.present, *self.planner.projections}
        for loop in dict.fromkeys(self.planner.loops[name] for name in self.pending if name in self.planner.loops):
            read = {read for name in loop for read in self.planner.reads[name]}
            if read <= {*there, *loop}:
                self.keys.update(self._pivot(loop))
                self._grow()
        helpers = [self.planner.helper_of[name] for name in self.pending if name in self.planner.helper_of]
        summed = [
            helper
            for helper in helpers
            if helper.source in self.planner.summed_widths and helper.source in self.planner.present
        ]
        if summed and not self.keys:  # a stage of their own, whose program is over bags
            for helper in summed:
                key = self._reach(helper.source, grouping_columns(helper), {})
                assert key is not None
                self.keys[helper.relation] = key
            return self.keys
        helpers = [helper for helper in helpers if helper not in summed]
        for helper in sorted(helpers, key=lambda helper: len(grouping_columns(helper))):
            if helper.relation not in self.keys:
                chain: dict[str, Key] = {}
                key = self._reach(helper.source, grouping_columns(helper), chain)
                if key is not None:
                    self.keys.update(chain)
                    self.keys[helper.relation] = key
                    self._grow()
        return self.keys

    def _pivot(self, loop: Sequence[str]) -> dict[str, Key]:
        """Return the column of each head that the rules of a recursion pass on.

        Cells then recurse on their own. Without such columns, a single cell computes the recursion.

        References
        ----------
        A. Shkapsky, M. Yang, M. Interlandi, H. Chiu, T. Condie and C. Zaniolo, "Big Data Analytics with Datalog Queries
        on Spark", SIGMOD 2016, doi:10.1145/2882903.2915229: decomposable plans.
        """
        planner = self.planner
        places = [range(planner.core.arity[name]) for name in loop]
        for columns in product(*places) if len(loop) <= MAX_PIVOTED_HEADS else ():
            column_of = dict(zip(loop, columns, strict=True))
            if all(self._passes_on(rule, column_of) for name in loop for _, rule in planner.rules_of[name]):
                return {name: (column,) for name, column in column_of.items()}
        return dict.fromkeys(loop, ())

    def _passes_on(self, rule: Rule, column_of: Mapping[str, int]) -> bool:
        """Return whether a rule keeps the value of these columns of its recursive atoms in its head."""
        column = column_of[rule.head.relation]
        extreme = self.planner.extreme_of.get(rule.head.relation)
        value = rule.head.terms[column]
        recursive = [atom for atom in (*rule.atoms, *rule.negated) if atom.relation in column_of]
        return (
            isinstance(value, Variable)
            and value in rule.variables
            and (extreme is None or extreme.column != column)
            and all(atom.terms[column_of[atom.relation]] == value for atom in recursive)
        )

    def _reach(self, source: str, columns: Key, chain: dict[str, Key]) -> Key | None:
        """Return the key of a relation among columns; None if these cannot route its rows.

        Heads between the relation and rows that there are, one atom a rule, are added to `chain`.
        """
        planner = self.planner
        if source in self.keys or source in chain:
            key = chain.get(source, self.keys.get(source))
            return key if key is not None and set(key) <= set(columns) else None
        if source in planner.present:
            if source in planner.sources or source.endswith("#in"):
                return None  # rows of one key, which may be many, are first summed by other cells
            known = self.entering.setdefault(source, [])
            key = next((key for key in known if set(key) <= set(columns) and bool(key) == bool(columns)), columns)
            if key not in known:
                known.append(key)
            return key
        if source not in self.pending or source in planner.helper_of:
            return None
        reached = set()
        for _, rule in planner.rules_of[source]:
            terms = rule.head.terms
            if len(rule.atoms) != 1 or rule.negated:
                return None
            (atom,) = rule.atoms
            if any(terms[column] not in atom.variables for column in columns):
                return None
            key = self._reach(atom.relation, tuple(atom.terms.index(terms[column]) for column in columns), chain)
            if key is None:
                return None
            reached.add(tuple(next(c for c in columns if atom.terms.index(terms[c]) == column) for column in key))
        if len(reached) != 1:
            return None
        chain[source] = reached.pop()
        return chain[source]

    def _grow(self) -> None:
        """Add the heads that read those of the stage by their keys."""
        size = -1
        while len(self.keys) > size:
            size = len(self.keys)
            for name in self.pending:
                if name in self.keys:
                    continue
                helper = self.planner.helper_of.get(name)
                if helper is not None:
                    key = self.keys.get(helper.source)
                    if key is not None and set(key) <= set(grouping_columns(helper)):
                        self.keys[name] = key
                elif all(self._fits(rule) for _, rule in self.planner.rules_of[name]):
                    kept = {self._kept_key(rule) for _, rule in self.planner.rules_of[name]}
                    self.keys[name] = kept.pop() if len(kept) == 1 else None

    def _fits(self, rule: Rule) -> bool:
        """Return whether all atoms of a rule agree in the keys of groups of this stage."""
        planner = self.planner
        keyed = [atom for atom in (*rule.atoms, *rule.negated) if atom.relation in self.keys]
        if not keyed or any(self.keys[atom.relation] is None for atom in keyed):
            return False
        variables = key_variables(rule, self.keys)
        if variables is None or not set(variables) <= set(rule.variables):
            return False
        if any(_terms_at(atom, self.keys[atom.relation] or ()) != variables for atom in keyed):
            return False
        for atom in (*rule.atoms, *rule.negated):
            if atom.relation in self.keys:
                continue
            source = planner.source_of(atom.relation)
            is_small = source in planner.sources and source not in planner.rules.inputs
            if atom.relation not in (*planner.present, *planner.projections) or not (variables or is_small):
                return False
            if not set(variables) <= set(atom.variables):
                return False
        return True

    def _kept_key(self, rule: Rule) -> Key | None:
        """Return the columns of the head that hold the keys; None if it drops one."""
        variables = key_variables(rule, self.keys)
        assert variables is not None
        terms = list(rule.head.terms)
        return tuple(map(terms.index, variables)) if set(variables) <= set(terms) else None


def grouping_columns(helper: Grouping | FirstRows | ComputedGroups) -> Key:
    """Return the columns of a helper's source whose values make a group."""
    return helper.groups if isinstance(helper, FirstRows) else tuple(range(helper.keys))


def key_variables(rule: Rule, keys: Mapping[str, Key | None]) -> tuple[Variable, ...] | None:
    """Return the variables of a rule that hold the keys of groups; None if a constant does.

    If no atom is of a head with keys, the head of the rule has them.
    """
    keyed = [atom for atom in (*rule.atoms, *rule.negated) if keys.get(atom.relation) is not None]
    atom = keyed[0] if keyed else rule.head
    terms = _terms_at(atom, keys[atom.relation] or ())
    names = [term for term in terms if isinstance(term, Variable) and not term.is_wildcard]
    return tuple(names) if len(set(names)) == len(terms) else None


def _terms_at(atom: Atom, columns: Key) -> tuple[Expression, ...]:
    return tuple(atom.terms[column] for column in columns)


def _with_atoms(rule: Rule, atoms: Sequence[Atom]) -> Rule:
    """Return a rule with other atoms, first the positive ones, then the negated ones."""
    n_positive = len(rule.atoms)
    return replace(rule, atoms=tuple(atoms[:n_positive]), negated=tuple(atoms[n_positive:]))


def _completed(rule: Rule, name: str, keep_all: bool) -> Rule:
    """Return a rule for a head of this name, which `keep_all` extends by all variables."""
    if not keep_all:
        return replace(rule, head=Atom(name, rule.head.terms))
    named = {variable: Variable(f"any#{i}#") for i, variable in enumerate(rule.variables) if variable.is_wildcard}

    def spelled(term: Expression) -> Expression:
        return named.get(term, term) if isinstance(term, Variable) else term

    atoms = tuple(replace(atom, terms=tuple(map(spelled, atom.terms))) for atom in rule.atoms)
    added = [variable for variable in map(spelled, rule.variables) if variable not in rule.head.terms]
    return replace(rule, head=Atom(name, (*rule.head.terms, *added)), atoms=atoms)


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
