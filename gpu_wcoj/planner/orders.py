"""Choose the order in which each delta path binds its variables, and the arrangements that follow from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.join.path import Absent, AtomUse, Calculation, Check, Condition, DeltaPath, DeltaQuery, Step, names_of
from gpu_wcoj.planner.body import Body, BodyAtom
from gpu_wcoj.trace.arrangement import ArrangementKey


def delta_query(body: Body, sizes: Mapping[str, int] | None = None) -> DeltaQuery:
    """Plan one delta path per atom, negated ones first.

    A path binds its seed's variables, then, one by one, the variable that most atoms already reach (the most
    constrained), of these one that the head keeps, of these one in the smallest relation, of these the first in the
    body. Every atom that holds a variable takes part in binding it. What is calculated is found as soon as its
    arguments are bound, and reaches a variable that it is equal to as an atom would; a negated atom is asked as soon as
    all of its variables are bound.

    Parameters
    ----------
    body
        The rule.
    sizes
        Rows of each relation, where known.
    """
    rows = sizes or {}
    paths = [_path(body, number, rows) for number in range(-len(body.negated), len(body.atoms))]
    shared = _share_seeds(body, [_looked_up(path, paths) for path in paths] if body.negated else paths)
    held = {key for path in shared for key in (*(use.key for use in path.seeds), *path.keys)}
    paths = [_with_variants(body, path, rows, held) for path in shared]
    return DeltaQuery(str(body.rule), body.head, tuple(paths), body.calculations)


def path_from(
    body: Body, seed: int, sizes: Mapping[str, int] | None = None, held: Collection[ArrangementKey] = ()
) -> DeltaPath:
    """The one path that starts with the rows of atom `seed`, which may be a relation of its own.

    Of the orders that begin with a variable that as many atoms reach, one that needs the fewest arrangements that are
    not `held` anyway.
    """
    path = _path(body, seed, sizes or {})
    others = [_path(body, seed, sizes or {}, name) for name in _as_constrained(path)]
    return min((path, *others), key=lambda one: len(set(one.keys).difference(held)))


def _as_constrained(path: DeltaPath) -> list[str]:
    """The later variables that as many atoms reach from the seed as reach the first, if there are any."""
    if len(path.steps) < 2:
        return []
    bound = set(path.seed.variables)

    def reached(name: str) -> int:
        holding = [use for use in path.others if name in use.variables]
        return sum(bool(bound & set(use.variables)) for use in holding)

    first = path.steps[0].variable
    return [step.variable for step in path.steps[1:] if reached(step.variable) == reached(first) > 0]


def _with_variants(body: Body, path: DeltaPath, sizes: Mapping[str, int], held: set[ArrangementKey]) -> DeltaPath:
    """The path with its variants: other first variables that as many atoms reach, over arrangements that are there."""
    if any(step.variable not in body.head for step in path.steps):
        return path
    variants = []
    for name in _as_constrained(path):
        other = _path(body, path.seed.atom, sizes, name)
        if all(key in held for key in other.keys):
            variants.append(replace(other, seeds=path.seeds, sort_first=path.sort_first))
    return replace(path, variants=tuple(variants))


def _path(body: Body, seed: int, sizes: Mapping[str, int], begin_with: str | None = None) -> DeltaPath:
    start = _atom(body, seed)
    order = list(start.variables)
    rest = [name for name in body.variables if name not in order]
    others = [(number, atom) for number, atom in enumerate(body.atoms) if number != seed]
    if begin_with is not None:
        rest.remove(begin_with)
        order.append(begin_with)
    while rest:
        bound = set(order)
        known = _calculable(body.calculations, bound)

        def preference(
            name: str, bound: set[str] = bound, known: set[str] = known, rest: list[str] = rest
        ) -> tuple[int, bool, int, int]:
            holding = [atom for _, atom in others if name in atom.variables]
            reached = sum(bool(bound & set(atom.variables)) for atom in holding)
            reached += sum(_is_fixed(condition, name, known) for condition in body.conditions)
            if body.calculations:
                reached += _inverse(body, name, bound) is not None
            smallest = min(sizes.get(atom.relation, 0) for atom in holding)
            return -reached, name not in body.head, smallest, rest.index(name)

        chosen = min(rest, key=preference)
        rest.remove(chosen)
        order.append(chosen)
    place = {name: i for i, name in enumerate(order)}
    uses = tuple(_use(number, atom, place) for number, atom in others)
    n_seed = len(start.variables)
    plans = _checks(body, seed, {name: max(0, i + 1 - n_seed) for name, i in place.items()}, len(order) - n_seed)
    steps = tuple(
        Step(name, tuple(number for number, atom in others if name in atom.variables), *plans[i])
        for i, name in enumerate(order[n_seed:], 1)
    )
    seed_use = _use(seed, start, place)
    sort_first = _sort_first(seed_use.variables, uses, steps)
    return DeltaPath((seed_use,), uses, plans[0][0], steps, sort_first, seed_checks=plans[0][1])


def _atom(body: Body, number: int) -> BodyAtom:
    """Negated atoms are numbered from ``-len(body.negated)`` to -1."""
    return body.atoms[number] if number >= 0 else body.negated[number]


def _calculable(calculations: Sequence[Calculation], bound: Collection[str]) -> set[str]:
    """What is calculated from bound variables."""
    known = set(bound)
    for one in calculations:
        if known.issuperset(names_of(one)):
            known.add(one.variable)
    return known.difference(bound)


def _is_fixed(condition: Condition, name: str, known: Collection[str]) -> bool:
    """Whether the condition says that a variable is equal to one of these."""
    sides = (condition.variable, condition.other)
    return condition.op == "=" and name in sides and any(side in known for side in sides)


def _inverse(body: Body, name: str, bound: Collection[str]) -> Calculation | None:
    """What solves a sum or difference of integers for a variable, where its result and other argument are bound."""
    for one in body.calculations:
        if one.family != "integer" or one.op not in ("+", "-") or one.arguments.count(name) != 1:
            continue
        rest = [argument for argument in one.arguments if argument != name]
        result = one.variable if one.variable in bound else _equal_to(one.variable, body.conditions, bound)
        if result is None or not all(isinstance(argument, int) or argument in bound for argument in rest):
            continue
        if one.op == "-" and one.arguments[0] == name and rest:
            op, arguments = "+", (result, *rest)
        elif one.op == "-":
            op, arguments = "-", (*rest, result)
        else:
            op, arguments = "-", (result, *rest)
        families = ("integer",) * len(arguments)
        return Calculation(f"{name}~", op, arguments, families, "integer", is_inverse=True)
    return None


def _equal_to(name: str, conditions: Sequence[Condition], bound: Collection[str]) -> str | int | None:
    """A bound variable or a code that conditions say is equal to a variable."""
    for one in conditions:
        if one.op == "=" and name in (one.variable, one.other):
            other = one.other if one.variable == name else one.variable
            if isinstance(other, int) or other in bound:
                return other
    return None


def _checks(
    body: Body, seed: int, depth: dict[str, int], n_steps: int
) -> list[tuple[tuple[Condition, ...], tuple[Check, ...]]]:
    """Per depth (0 for the seed, then one a step) the conditions that bound it, and what follows.

    Parameters
    ----------
    depth
        Of each variable of the atoms; those that are calculated are added.
    """
    atoms_depth = dict(depth)
    calculations: list[Calculation] = []
    waiting: list[Condition | Absent] = list(body.conditions)
    atoms = enumerate(body.negated, -len(body.negated))
    waiting += [_absent(number, atom) for number, atom in atoms if number != seed]
    for one in body.calculations:
        if one.variable in depth:  # the seed has it: both must agree
            drops = one.family == "integer" and one.op in ("+", "-", "*")
            again = replace(one, variable=f"{one.variable}'", drops=drops)
            waiting.append(Condition(again.variable, "=", one.variable))
            one = again
        depth[one.variable] = max((depth[name] for name in names_of(one)), default=0)
        calculations.append(one)
    for name, level in atoms_depth.items() if calculations else ():
        inverse = _inverse(body, name, [other for other, at in atoms_depth.items() if at < level]) if level else None
        if inverse is not None:
            depth[inverse.variable] = max((depth[other] for other in names_of(inverse)), default=0)
            calculations.append(inverse)
            waiting.append(Condition(name, "=", inverse.variable))
    found: list[tuple[tuple[Condition, ...], tuple[Check, ...]]] = []
    for level in range(n_steps + 1):
        own = [one for one in calculations if depth[one.variable] == level]
        late = {one.variable for one in own}
        ready = [one for one in waiting if all(depth[name] <= level for name in names_of(one))]
        waiting = [one for one in waiting if one not in ready]
        early = [one for one in ready if not late.intersection(names_of(one))]
        conditions = [one for one in early if isinstance(one, Condition)]
        if level:
            (variable,) = (name for name, at in depth.items() if at == level and name not in late)
            conditions = [_facing(one, variable) for one in conditions]
        checks: list[Check] = [one for one in early if isinstance(one, Absent)]
        ready = [one for one in ready if one not in early]
        for one in own:
            checks.append(one)
            late.remove(one.variable)
            checks += [check for check in ready if not late.intersection(names_of(check))]
            ready = [check for check in ready if late.intersection(names_of(check))]
        found.append((tuple(conditions), tuple(checks)))
    return found


def _absent(number: int, atom: BodyAtom) -> Absent:
    """The atom in the order of its relation's columns; one of constants only is looked up by the first of them."""
    use = _use(number, atom, dict(zip(atom.variables, atom.columns, strict=True)))
    codes = dict(atom.constants)
    is_constant = atom.variables == (f"atom#{number}",)
    return Absent(use, (codes[use.key.order[0]],) if is_constant else use.variables)


def _use(number: int, atom: BodyAtom, place: Mapping[str, int]) -> AtomUse:
    levels = sorted(range(len(atom.variables)), key=lambda i: place[atom.variables[i]])
    key = ArrangementKey(
        atom.relation, tuple(atom.columns[i] for i in levels), atom.constants, atom.equal, atom.compared
    )
    return AtomUse(number, key, tuple(atom.variables[i] for i in levels))


def _facing(condition: Condition, name: str) -> Condition:
    """The condition with `name` on its left."""
    if condition.variable == name:
        return condition
    mirrored = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}[condition.op]
    return replace(condition, variable=name, op=mirrored, other=condition.variable)


def _looked_up(path: DeltaPath, paths: Sequence[DeltaPath]) -> DeltaPath:
    """The path with its negated atoms looked up in arrangements that positive ones need anyway, whatever the order."""
    held: dict[tuple[object, ...], ArrangementKey] = {}
    for key in (use.key for other in paths for use in other.others):
        held.setdefault(key.selection, key)

    def over(checks: Sequence[Check]) -> tuple[Check, ...]:
        return tuple(through(check) if isinstance(check, Absent) else check for check in checks)

    def through(check: Absent) -> Absent:
        key = held.get(check.use.key.selection, check.use.key)
        place = [check.use.key.order.index(column) for column in key.order]
        use = AtomUse(check.use.atom, key, tuple(check.use.variables[i] for i in place))
        return Absent(use, tuple(check.terms[i] for i in place))

    steps = tuple(replace(step, checks=over(step.checks)) for step in path.steps)
    return replace(path, steps=steps, seed_checks=over(path.seed_checks))


def _sort_first(seed: tuple[str, ...], uses: tuple[AtomUse, ...], steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The seed's variables by which later steps share ranges; deeper steps, which run more often, count more."""
    if len(seed) < 2:
        return ()
    by_number = {use.atom: use for use in uses}
    bound = set(seed)
    score = dict.fromkeys(seed, 0)
    for depth, step in enumerate(steps, 1):
        if len(step.atoms) > 1:
            for number in step.atoms:
                reached = bound & set(by_number[number].variables)
                if len(reached) == 1 and reached <= set(seed):
                    score[reached.pop()] += 4**depth
        bound.add(step.variable)
    best = max(score.values())
    return tuple(name for name in seed if score[name] == best) if best else ()


def _share_seeds(body: Body, paths: list[DeltaPath]) -> tuple[DeltaPath, ...]:
    """Let every path take its seeds from the arrangements that other paths need anyway."""
    held: dict[tuple[object, ...], list[ArrangementKey]] = {}
    for path in paths:
        for key in path.keys:
            keys = held.setdefault(key.selection, [])
            if key not in keys:
                keys.append(key)
    shared = []
    for path in paths:
        own = path.seed.key
        keys = held.setdefault(own.selection, [own])
        atom = _atom(body, path.seed.atom)
        variable = dict(zip(atom.columns, atom.variables, strict=True))
        seeds = [AtomUse(path.seed.atom, key, tuple(variable[column] for column in key.order)) for key in keys]
        seeds.sort(key=lambda use: use.key.order != own.order)
        shared.append(replace(path, seeds=tuple(seeds)))
    return tuple(shared)
