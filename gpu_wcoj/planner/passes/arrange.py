"""Placement of predicates, calculations and negated atoms at the earliest possible level."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.join.plan import Absent, AtomUse, Calculation, Check, Condition, DeltaPath, Step, check_variables
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.planner.inverses import inverse_of
from gpu_wcoj.planner.ir import Draft, RuleDraft
from gpu_wcoj.planner.passes.arrangements import use_of
from gpu_wcoj.query.ir import MIRRORED
from gpu_wcoj.trace.arrangement import ArrangementKey

Placed = list[tuple[tuple[Condition, ...], tuple[Check, ...]]]
"""Per level, the seed first, the conditions that bound its variable, and the later checks."""

ArrangementsBySelection = Mapping[tuple[object, ...], Sequence[ArrangementKey]]
"""Arrangements of each relation and selection."""


def place_predicates(draft: Draft) -> Draft:
    r"""Place conditions, calculations and negated atoms.

    A condition bounds the last bound of its variables. A calculation runs as soon as its arguments are bound. A sum or
    difference of integers is solved for the argument that is bound last, if the result is bound before. A negated atom
    is looked up as soon as all of its variables are bound, through an arrangement that positive atoms need anyway if
    there is one; preferably through one that ends with the variable bound last, so that a count can subtract its rows
    from a whole range.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrangements import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.normalise import normalise_rules
    >>> from gpu_wcoj.planner.passes.orders import order_variables
    >>> text = "h(a, b, c) :- r(a, b), r(b, c), a < c, b < 9, !r(a, c)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements])
    >>> print("\n".join(str(before).splitlines()[6:10]))
      change of -1, r[0, 1]
        b: intersect 0 by r[0, 1] with 1 by r[1, 0]
      change of 0, r[0, 1]
        c: look up 1 by r[0, 1]
    >>> print("\n".join(str(place_predicates(before)).splitlines()[6:10]))
      change of -1, r[0, 1] where a < c
        b: intersect 0 by r[0, 1] with 1 by r[1, 0] where b < 9
      change of 0, r[0, 1] where b < 9
        c: look up 1 by r[0, 1] where c > a then !r(a, c) by r[0, 1]
    """
    negates = any(rule_draft.normalised.negated for rule_draft in draft.rules)
    existing = arrangements_of(path for rule_draft in draft.rules for path in rule_draft.paths) if negates else None

    def place_in_rule(rule_draft: RuleDraft) -> RuleDraft:
        body = rule_draft.normalised
        if not (body.conditions or body.calculations or body.negated):
            return rule_draft
        return replace(rule_draft, paths=tuple([with_checks(body, path, existing) for path in rule_draft.paths]))

    return draft.over(place_in_rule)


def arrangements_of(paths: Iterable[DeltaPath]) -> ArrangementsBySelection:
    """Return the arrangements per relation and selection that atoms of paths use, each once."""
    keys_of: dict[tuple[object, ...], list[ArrangementKey]] = {}
    for path in paths:
        for use in path.other_atoms:
            keys = keys_of.setdefault(use.key.selection, [])
            if use.key not in keys:
                keys.append(use.key)
    return keys_of


def with_checks(body: Body, path: DeltaPath, existing: ArrangementsBySelection | None = None) -> DeltaPath:
    """Return the path with all checks placed; `existing` are existing arrangements."""
    variables = [step.variable for step in path.steps if not step.is_lookup]
    depth = dict.fromkeys(path.seed.variables, 0)
    depth.update({name: level for level, name in enumerate(variables, 1)})
    placed = _place(body, path.seed.atom, depth, len(variables))
    if existing:
        placed = [
            (conditions, tuple(_look_up_in_existing(existing, check, newest) for check in checks))
            for newest, (conditions, checks) in zip(("", *variables), placed, strict=True)
        ]
    steps: list[Step] = []
    level = 0
    for n_done, step in enumerate(path.steps, 1):
        conditions: tuple[Condition, ...] = ()
        if not step.is_lookup:
            level = depth[step.variable]
            conditions = placed[level][0]
        is_last = n_done == len(path.steps) or not path.steps[n_done].is_lookup
        checks = placed[level][1] if is_last else ()  # the fewest rows remain after the last lookup of a level
        steps.append(Step(step.variable, step.atoms, conditions, checks, step.is_lookup))
    return replace(path, steps=tuple(steps), seed_conditions=placed[0][0], seed_checks=placed[0][1])


def _place(body: Body, seed: int, depth: dict[str, int], n_levels: int) -> Placed:
    """Return, per depth, the conditions that bound the variable, and the later checks.

    Parameters
    ----------
    depth
        Depth of each variable of the atoms; calculated variables are added to a copy.
    """
    atoms_depth, depth = depth, dict(depth)
    calculations: list[Calculation] = []
    waiting: list[Condition | Absent] = list(body.conditions)
    atoms = enumerate(body.negated, -len(body.negated))
    waiting += [_absent(atom_index, atom) for atom_index, atom in atoms if atom_index != seed]
    for computed in body.calculations:
        if computed.variable in depth:  # the seed has it: both must agree
            drops = computed.family == "integer" and computed.op in ("+", "-", "*")
            again = replace(computed, variable=f"{computed.variable}'", drops=drops)
            waiting.append(Condition(again.variable, "=", computed.variable))
            computed = again
        depth[computed.variable] = max((depth[name] for name in check_variables(computed)), default=0)
        calculations.append(computed)
    for name, level in atoms_depth.items() if calculations else ():
        inverse = (
            inverse_of(
                body, name, [other_name for other_name, depth_of_other in atoms_depth.items() if depth_of_other < level]
            )
            if level
            else None
        )
        if inverse is not None:
            depth[inverse.variable] = max((depth[argument] for argument in check_variables(inverse)), default=0)
            calculations.append(inverse)
            waiting.append(Condition(name, "=", inverse.variable))
    own_at: list[list[Calculation]] = [[] for _ in range(n_levels + 1)]
    for calculation in calculations:
        own_at[depth[calculation.variable]].append(calculation)
    ready_at: list[list[Condition | Absent]] = [[] for _ in range(n_levels + 1)]
    for check in waiting:
        ready_at[max((depth[name] for name in check_variables(check)), default=0)].append(check)
    placed: Placed = []
    for level, (calculations_here, ready) in enumerate(zip(own_at, ready_at, strict=True)):
        rank = {calculation.variable: index for index, calculation in enumerate(calculations_here)}
        early: list[Condition | Absent] = []
        behind: list[list[Condition | Absent]] = [[] for _ in calculations_here]
        for check in ready:
            late = [rank[name] for name in check_variables(check) if name in rank]
            (behind[max(late)] if late else early).append(check)
        conditions = [check for check in early if isinstance(check, Condition)]
        if level and conditions:
            (variable,) = (name for name, depth_of_name in depth.items() if depth_of_name == level and name not in rank)
            conditions = [_facing(condition, variable) for condition in conditions]
        checks: list[Check] = [check for check in early if isinstance(check, Absent)]
        for calculation, following in zip(calculations_here, behind, strict=True):
            checks += [calculation, *following]
        placed.append((tuple(conditions), tuple(checks)))
    return placed


def _absent(atom_index: int, atom: BodyAtom) -> Absent:
    """Return the negated atom in column order; one of constants only is looked up by the first."""
    use = use_of(atom_index, atom, dict(zip(atom.variables, atom.columns, strict=True)), {})
    codes = dict(atom.constants)
    is_constant = atom.variables == (f"atom#{atom_index}",)
    return Absent(use, (codes[use.key.order[0]],) if is_constant else use.variables)


def _facing(condition: Condition, name: str) -> Condition:
    """Return the condition with `name` on its left."""
    if condition.variable == name:
        return condition
    return replace(condition, variable=name, op=MIRRORED[condition.op], operand=condition.variable)


def _look_up_in_existing(existing: ArrangementsBySelection, check: Check, newest: str) -> Check:
    """Return a negated atom looked up in an existing arrangement of any order."""
    if not isinstance(check, Absent):
        return check
    keys = existing.get(check.use.key.selection, [check.use.key])
    term_of = dict(zip(check.use.key.order, check.terms, strict=True))
    key = next((key for key in keys if term_of[key.order[-1]] == newest), keys[0])
    place = [check.use.key.order.index(column) for column in key.order]
    use = AtomUse(check.use.atom, key, tuple(check.use.variables[i] for i in place))
    return Absent(use, tuple(check.terms[i] for i in place))
