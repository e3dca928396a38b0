"""Placement of predicates, calculations and negated atoms at the earliest possible level."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.functions import Calculation
from gpu_wcoj.join.plan import Absent, AtomUse, Check, Condition, DeltaPath, Step, check_variables, split_independent
from gpu_wcoj.planner.body import Body, BodyAtom, inverse_of
from gpu_wcoj.planner.cost import in_turn
from gpu_wcoj.planner.ir import Draft, Order, RuleDraft
from gpu_wcoj.query.ir import MIRRORED
from gpu_wcoj.trace.arrangement import ArrangementKey

# Arrangements of the atoms of delta paths, with columns in binding order.


Uses = dict[tuple[int, tuple[str, ...]], AtomUse]
"""Arrangement uses of one body, by atom index and variables in the order of the levels."""


def assign_arrangements(draft: Draft) -> Draft:
    """Give every atom of every path the arrangement that the path's order asks for.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> from gpu_wcoj.planner.join_order import order_variables
    >>> before = draft_program("h(a, c) :- r(a, b), s(b, c).", [normalise_rules, order_variables])
    >>> print(before)
    h: h(a, c) :- r(a, b), s(b, c).
      0: r(a, b)
      1: s(b, c)
      change of 0: c
      change of 1: a
    >>> print(assign_arrangements(before))
    h: h(a, c) :- r(a, b), s(b, c).
      0: r(a, b)
      1: s(b, c)
      change of 0, r[0, 1]
        c: look up 1 by s[0, 1]
      change of 1, s[0, 1]
        a: look up 0 by r[1, 0]
    """
    return draft.over(_assign)


def _assign(rule_draft: RuleDraft) -> RuleDraft:
    uses: Uses = {}
    return replace(
        rule_draft, paths=tuple([path_along(rule_draft.normalised, orders[0], uses) for orders in rule_draft.orders])
    )


def path_along(body: Body, order: Order, uses: Uses | None = None) -> DeltaPath:
    """Return the path that binds variables in this order, all atoms of a variable at once.

    `uses` are arrangement uses of the same body.
    """
    uses = {} if uses is None else uses
    start = body.atom(order.seed)
    place = {name: i for i, name in enumerate((*start.variables, *order.variables))}
    holding: dict[str, list[int]] = {name: [] for name in order.variables}
    other_uses = []
    for atom_index, atom in enumerate(body.atoms):
        if atom_index != order.seed:
            other_uses.append(use_of(atom_index, atom, place, uses))
            for name in atom.variables:
                if name in holding:
                    holding[name].append(atom_index)
    steps = tuple([Step(name, tuple(numbers)) for name, numbers in holding.items()])
    return DeltaPath((use_of(order.seed, start, place, uses),), tuple(other_uses), (), steps)


def use_of(atom_index: int, atom: BodyAtom, place: Mapping[str, int], uses: Uses) -> AtomUse:
    """Return the atom with levels in the order of `place`, from `uses` or added to them."""
    variables = tuple(sorted(atom.variables, key=place.__getitem__))
    use = uses.get((atom_index, variables))
    if use is None:
        column = dict(zip(atom.variables, atom.columns, strict=True))
        columns = tuple(map(column.__getitem__, variables))
        key = ArrangementKey(atom.relation, columns, atom.constants, atom.equal, atom.compared)
        use = uses[atom_index, variables] = AtomUse(atom_index, key, variables)
    return use


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
    >>> from gpu_wcoj.planner.passes.arrange import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> from gpu_wcoj.planner.join_order import order_variables
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
    return _look_up_by(check, key)


def _look_up_by(check: Absent, key: ArrangementKey) -> Absent:
    """Return a negated atom looked up in an arrangement of another order."""
    place = [check.use.key.order.index(column) for column in key.order]
    use = AtomUse(check.use.atom, key, tuple(check.use.variables[i] for i in place))
    return Absent(use, tuple(check.terms[i] for i in place))


def with_last_variable_last(path: DeltaPath) -> DeltaPath:
    """Return the path that looks a negated atom of its last step up by the variable at last.

    Then the step need not list the values of its variable to count them. The arrangement belongs to this path alone.
    """
    if not path.steps or len(path.steps[-1].checks) != 1:
        return path
    *steps, step = path.steps
    (check,) = step.checks
    if not isinstance(check, Absent) or check.terms.count(step.variable) != 1:
        return path
    key = check.use.key
    newest = key.order[check.terms.index(step.variable)]
    order = (*(column for column in key.order if column != newest), newest)
    absent = _look_up_by(check, key._replace(order=order))
    return replace(path, steps=(*steps, replace(step, checks=(absent,))))


# Reuse arrangements: for seeds, and for variant orders that need no further arrangement.


def reuse_arrangements(draft: Draft) -> Draft:
    r"""Take seeds from needed arrangements, and add variant orders over these.

    Equal arrangements are shared by all paths and rules of the program.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrange import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> from gpu_wcoj.planner.join_order import order_variables
    >>> text = "h(a, b, c, d) :- r(a, b), r(b, c), r(c, d), r(a, d)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements])
    >>> print("\n".join(str(before).splitlines()[5:8]))
      change of 0, r[0, 1]
        c: intersect 1 by r[0, 1] with 2 by r[0, 1]
        d: intersect 2 by r[0, 1] with 3 by r[0, 1]
    >>> print("\n".join(str(reuse_arrangements(before)).splitlines()[5:9]))
      change of 0, r[0, 1] or r[1, 0]
        c: intersect 1 by r[0, 1] with 2 by r[0, 1]
        d: intersect 2 by r[0, 1] with 3 by r[0, 1]
        or d, c
    """
    return draft.over(_reuse)


def _reuse(rule_draft: RuleDraft) -> RuleDraft:
    body = rule_draft.normalised
    paths = _with_seeds(body, rule_draft.paths)
    if max(map(len, rule_draft.orders), default=1) == 1:
        return replace(rule_draft, paths=tuple(paths))
    existing = {key for path in paths for key in (*(use.key for use in path.seeds), *path.keys)}
    with_variants = [
        _with_variants(body, path, orders[1:], existing) for path, orders in zip(paths, rule_draft.orders, strict=True)
    ]
    return replace(rule_draft, paths=tuple(with_variants))


def _with_seeds(body: Body, paths: Collection[DeltaPath]) -> list[DeltaPath]:
    """Return the paths with seeds from the arrangements that other paths need."""
    keys_of: dict[tuple[object, ...], list[ArrangementKey]] = {}
    for path in paths:
        for key in path.keys:
            keys = keys_of.setdefault(key.selection, [])
            if key not in keys:
                keys.append(key)
    result = []
    for path in paths:
        seed_key = path.seed.key
        keys = keys_of.setdefault(seed_key.selection, [seed_key])
        atom = body.atom(path.seed.atom)
        variable = dict(zip(atom.columns, atom.variables, strict=True))
        seeds = [AtomUse(path.seed.atom, key, tuple(map(variable.__getitem__, key.order))) for key in keys]
        seeds.sort(key=lambda use: use.key.order != seed_key.order)
        result.append(replace(path, seeds=tuple(seeds)))
    return result


def _with_variants(
    body: Body, path: DeltaPath, orders: Collection[Order], existing: Collection[ArrangementKey]
) -> DeltaPath:
    """Return the path with variants: other orders over existing arrangements.

    Steps that depend only on the seed do the same work in any order.
    """
    if any(step.variable not in body.head for step in path.steps):
        return path
    together = {step.variable for step in split_independent(path.steps)[0]} if path.steps else set()
    variants = []
    for order in (order for order in orders if order.variables[0] in together):
        variant = path_along(body, order)
        variant = with_checks(body, variant, arrangements_of([path]) if body.negated else None)
        if all(key in existing for key in variant.keys):
            variants.append(replace(variant, seeds=path.seeds))
    return replace(path, variants=tuple(variants)) if variants else path


# Sort orders of the seeds of paths.


def sort_seeds(draft: Draft) -> Draft:
    r"""Sort seeds by the variables whose ranges later steps search.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrange import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> from gpu_wcoj.planner.join_order import order_variables
    >>> text = "h(a, b, c, d) :- r(a, b), r(b, c), r(a, c), r(c, d), r(a, d)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements])
    >>> print("\n".join(str(before).splitlines()[6:9]))
      change of 0, r[0, 1]
        c: intersect 1 by r[0, 1] with 2 by r[0, 1] with 3 by r[0, 1]
        d: intersect 3 by r[0, 1] with 4 by r[0, 1]
    >>> print("\n".join(str(sort_seeds(before)).splitlines()[6:9]))
      change of 0, r[0, 1], sorted by a
        c: intersect 1 by r[0, 1] with 2 by r[0, 1] with 3 by r[0, 1]
        d: intersect 3 by r[0, 1] with 4 by r[0, 1]
    """
    return draft.over(lambda one: replace(one, paths=tuple(map(with_sorting, one.paths))))


def with_sorting(path: DeltaPath) -> DeltaPath:
    """Return the path with seeds sorted by variables of shared ranges; deeper steps weigh more."""
    first = _sort_first(path)
    if first == path.sort_first:  # the variants have the same
        return path
    variants = tuple(replace(variant, sort_first=first) for variant in path.variants)
    return replace(path, sort_first=first, variants=variants)


def _sort_first(path: DeltaPath) -> tuple[str, ...]:
    # The order of the variables in the atom, whatever arrangement its change comes from.
    seed = path.seed.variables
    if len(seed) < 2:
        return ()
    by_number = {use.atom: use for use in path.other_atoms}
    bound = set(seed)
    score = dict.fromkeys(seed, 0)
    for depth, step in enumerate(path.steps, 1):
        if len(step.atoms) > 1:
            for atom_index in step.atoms:
                reached = bound.intersection(by_number[atom_index].variables)
                if len(reached) == 1 and not reached.isdisjoint(seed):
                    score[reached.pop()] += 4**depth
        bound.add(step.variable)
    best = max(score.values())
    return tuple([name for name in seed if score[name] == best]) if best else ()


# Replace intersections by lookups where one atom proposes values.


def fuse_lookups(draft: Draft) -> Draft:
    r"""Let a named atom propose a variable's values, and look the other atoms up afterwards.

    A level with one atom already is a lookup; see `gpu_wcoj.planner.cost`.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrange import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> from gpu_wcoj.planner.join_order import order_variables
    >>> text = "h(a, b, c) :- r(a, b), s(b, c), t(a, c), u(c, d), v(c, b)."
    >>> before = draft_program(text, [normalise_rules, order_variables, assign_arrangements], strategy="binary")
    >>> print("\n".join(str(before).splitlines()[6:9]))
      change of 0, r[0, 1]
        c: intersect 1 by s[0, 1] with 2 by t[0, 1] with 3 by u[0, 1] with 4 by v[1, 0]
        d: look up 3 by u[0, 1]
    >>> print("\n".join(str(fuse_lookups(before)).splitlines()[6:12]))
      change of 0, r[0, 1]
        c: look up 1 by s[0, 1]
        c: check 2 by t[0, 1]
        c: check 4 by v[1, 0]
        c: check 3 by u[0, 1]
        d: look up 3 by u[0, 1]
    """
    return draft.over(_fuse)


def _fuse(rule_draft: RuleDraft) -> RuleDraft:
    if all(orders[0].is_together for orders in rule_draft.orders):
        return rule_draft
    paths = [with_lookups(path, orders[0]) for path, orders in zip(rule_draft.paths, rule_draft.orders, strict=True)]
    return replace(rule_draft, paths=tuple(paths))


def with_lookups(path: DeltaPath, order: Order) -> DeltaPath:
    """Return the path with the other atoms of a variable after the atom that proposes it."""
    if order.is_together:
        return path
    return replace(path, steps=in_turn(path.steps, dict(zip(order.variables, order.via, strict=True))))
