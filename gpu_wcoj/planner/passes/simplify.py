"""Push constant bounds down to every variable that they restrict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, permutations
from math import prod

from gpu_wcoj.errors import UnsafeRuleError
from gpu_wcoj.join.plan import Condition, DeltaQuery, check_variables
from gpu_wcoj.planner.body import Alias, Body, BodyAtom, alias_of, cases, normalise
from gpu_wcoj.planner.ir import Draft, RuleDraft
from gpu_wcoj.planner.statistics import Columns, Counts, Facts
from gpu_wcoj.planner.symmetry import sorted_atoms
from gpu_wcoj.query.ir import Rule, Variable, body_signature, numbered_variables
from gpu_wcoj.query.stratify import components
from gpu_wcoj.trace.arrangement import ComparedColumns

_MIN_CODE, _MOST = -(1 << 63), (1 << 63) - 1


def push_down_predicates(draft: Draft) -> Draft:
    """Propagate constant bounds through comparisons; drop rules with contradictory bounds.

    Equality with a constant is a selection already. Bounds are on codes, which have the order of the values; text is
    compared through ranks, which change, so text and calculations give no bounds. Implied bounds are not added, and of
    two bounds of one variable only the tighter one is kept.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> text = "h(x) :- r(x, y), x < y, y < 5, y < 9. h(x) :- r(x, y), x < y, y < x."
    >>> before = draft_program(text, [normalise_rules])
    >>> print(before)
    h: h(x) :- r(x, y), x < y, y < 5, y < 9.
      0: r(x, y)
      x < y
      y < 5
      y < 9
    h: h(x) :- r(x, y), x < y, y < x.
      0: r(x, y)
      x < y
      y < x
    >>> print(push_down_predicates(before))
    h: h(x) :- r(x, y), x < y, y < 5, y < 9.
      0: r(x, y)
      x < y
      y < 5
      x <= 3
    """
    rules = []
    for rule_draft in draft.rules:
        conditions = _push_down(rule_draft.normalised) if rule_draft.normalised.conditions else ()
        if conditions == rule_draft.normalised.conditions:
            rules.append(rule_draft)
        elif conditions is not None:
            rules.append(replace(rule_draft, body=replace(rule_draft.normalised, conditions=conditions)))
    return draft.with_rules(rules)


def _push_down(body: Body) -> tuple[Condition, ...] | None:
    """Return the conditions with all bounds; None if no values satisfy them."""
    calculated = {calculation.variable for calculation in body.calculations}
    names = {name for atom in body.atoms for name in atom.variables} - calculated
    result: list[Condition] = []
    bounding: set[Condition] = set()
    existing: dict[tuple[str, str, int], Condition] = {}
    lower: dict[str, int] = {}
    upper: dict[str, int] = {}
    links: list[tuple[str, str, int]] = []
    """(x, y, d): x + d <= y."""
    for condition in dict.fromkeys(body.conditions):
        is_plain = condition.variable in names and not condition.textual
        if is_plain and isinstance(condition.operand, int) and condition.op not in ("!=", "="):
            code = condition.operand
            if condition.op in ("<", ">") and code == (_MIN_CODE if condition.op == "<" else _MOST):
                return None
            if condition.op[0] == "<":
                bound = code - (condition.op == "<")
                upper[condition.variable] = min(upper.get(condition.variable, bound), bound)
                existing.setdefault((condition.variable, "<=", bound), condition)
            else:
                bound = code + (condition.op == ">")
                lower[condition.variable] = max(lower.get(condition.variable, bound), bound)
                existing.setdefault((condition.variable, ">=", bound), condition)
            result.append(condition)
            bounding.add(condition)
            continue
        result.append(condition)
        if is_plain and isinstance(condition.operand, str) and condition.operand in names:
            links.extend(_links(condition))
    for _ in names:  # a bound passes each variable once; more rounds than variables mean an unsatisfiable cycle
        if not _propagate(links, lower, upper):
            break
    else:
        if links:
            return None
    if (
        any(bound > upper.get(name, _MOST) for name, bound in lower.items())
        or min(upper.values(), default=0) < _MIN_CODE
    ):
        return None
    if any(left == right and distance > 0 for left, right, distance in _close(links)):
        return None
    bounds = [(name, ">=", lower[name]) for name in body.variables if name in lower]
    bounds += [(name, "<=", upper[name]) for name in body.variables if name in upper]
    tight = [existing.get(bound_key, Condition(*bound_key)) for bound_key in bounds]
    loose = bounding.difference(tight)
    return (*(final for final in result if final not in loose), *(final for final in tight if final not in result))


def _links(condition: Condition) -> Iterator[tuple[str, str, int]]:
    assert isinstance(condition.operand, str)
    if condition.op in ("<", "<=", "="):
        yield condition.variable, condition.operand, int(condition.op == "<")
    if condition.op in (">", ">=", "="):
        yield condition.operand, condition.variable, int(condition.op == ">")


def _propagate(links: list[tuple[str, str, int]], lower: dict[str, int], upper: dict[str, int]) -> bool:
    """Propagate bounds along all links once; return True if a bound has become tighter."""
    changed = False
    for left, right, distance in links:
        if right in upper and upper[right] - distance < upper.get(left, _MOST + 1):
            upper[left] = upper[right] - distance
            changed = True
        if left in lower and lower[left] + distance > lower.get(right, _MIN_CODE - 1):
            lower[right] = lower[left] + distance
            changed = True
    return changed


def _close(links: list[tuple[str, str, int]]) -> set[tuple[str, str, int]]:
    """Return the transitive closure of the links, distances clipped to 1."""
    closure = {(left, right, min(distance, 1)) for left, right, distance in links}
    while True:
        more = {(a, d, max(m, n)) for a, b, m in closure for c, d, n in closure if b == c} - closure
        if not more:
            return closure
        closure |= more


# Remove atoms that other atoms imply, under set semantics.


def drop_redundant_atoms(draft: Draft) -> Draft:
    """Drop atoms that another atom implies.

    An atom is implied if the variables that occur nowhere else can be replaced to give the other atom (Chandra and
    Merlin, "Optimal implementation of conjunctive queries in relational data bases", 1977, doi:10.1145/800105.803397,
    for one atom at a time). In bag semantics every atom counts, and so it does where derivations are aggregated.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> before = draft_program("h(x) :- r(x, y), r(x, u), s(y, 3), s(y, z), r(x, y).", [normalise_rules])
    >>> print(before)
    h: h(x) :- r(x, y), r(x, u), s(y, 3), s(y, z), r(x, y).
      0: r(x, y)
      1: r(x, u)
      2: s(y) where #1 = 3
      3: s(y, z)
      4: r(x, y)
    >>> print(drop_redundant_atoms(before))
    h: h(x) :- r(x, y), r(x, u), s(y, 3), s(y, z), r(x, y).
      0: r(x, y)
      1: s(y) where #1 = 3
    """
    if draft.setting.bag:
        return draft
    counted = draft.setting.derivation_sources
    return draft.over(lambda one: one if one.head in counted else replace(one, body=_drop_atoms(one.normalised)))


# Select rows and columns of each atom before joining, in a single tick.


def select_before_joining(draft: Draft) -> Draft:
    """Move conditions on one atom into its selection, and drop columns that nothing else reads.

    For a single tick: otherwise each selection is one more arrangement to maintain, and rows without some of their
    columns have to be counted. In other programs, only an order of variables that makes all atoms of a body the same
    selection is moved, as in a clique: its arrangements replace those of the whole relation.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> before = draft_program("h(x) :- r(x, y, u, w), s(y, z), z < 5, u < w.", [normalise_rules])
    >>> before = replace(before, setting=replace(before.setting, single_tick=True))
    >>> body = select_before_joining(before).rules[0].normalised
    >>> [(atom.relation, atom.columns, atom.compared) for atom in body.atoms]
    [('r', (0, 1), ((2, '<', 3, None),)), ('s', (0,), ((1, '<', None, 5),))]
    >>> triangle = draft_program("h(a, b, c) :- r(a, b), r(b, c), r(a, c), a < b, b < c.", [normalise_rules])
    >>> body = select_before_joining(triangle).rules[0].normalised
    >>> {atom.compared for atom in body.atoms}, body.conditions
    ({((0, '<', 1, None),)}, ())
    """
    setting = draft.setting
    if not setting.single_tick:
        return draft.over(lambda one: replace(one, body=_select_order(one.normalised)))
    keeps_columns = setting.is_load and not setting.bag  # rows that agree in the columns read are derivations each

    def select(rule_draft: RuleDraft) -> RuleDraft:
        selected = _select(_select_order(rule_draft.normalised))
        keeps = keeps_columns or rule_draft.head in setting.derivation_sources
        return replace(rule_draft, body=selected if keeps else _without_unread(selected))

    return draft.over(select)


def sort_atoms(draft: Draft) -> Draft:
    """Order the atoms of each body independently of the text.

    So ties between plans do not depend on it either. For a single tick, whose only path sees all rows of the other
    atoms: in other programs, the order of atoms says which paths see the rows of a tick.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> before = draft_program("h(x) :- s(y, z), r(x, y).", [normalise_rules])
    >>> before = replace(before, setting=replace(before.setting, single_tick=True))
    >>> [str(atom) for atom in sort_atoms(before).rules[0].normalised.atoms]
    ['r(x, y)', 's(y, z)']
    """
    if not draft.setting.single_tick:
        return draft
    rows = draft.setting.known.rows
    return draft.over(lambda one: replace(one, body=replace(one.normalised, atoms=sorted_atoms(one.normalised, rows))))


def _select(body: Body) -> Body:
    atoms, left = list(body.atoms), list[Condition]()
    for condition in body.conditions:
        is_selection = False
        for index, atom in enumerate(atoms):
            column_of = dict(zip(atom.variables, atom.columns, strict=True))
            column, operand = column_of.get(condition.variable), condition.operand
            if condition.textual or column is None:
                continue
            compared: ComparedColumns
            if isinstance(operand, int):
                compared = column, condition.op, None, operand
            elif operand in column_of:
                compared = column, condition.op, column_of[operand], None
            else:
                continue
            is_selection = True
            atoms[index] = atom._replace(compared=(*atom.compared, compared))
        if not is_selection:
            left.append(condition)
    return body if len(left) == len(body.conditions) else replace(body, atoms=tuple(atoms), conditions=tuple(left))


def _select_order(body: Body) -> Body:
    """Select rows of the atoms by the order of their variables, if all become one selection."""
    if len(body.atoms) < 2 or len({atom.relation for atom in body.atoms}) > 1 or body.calculations:
        return body
    strict = [condition for condition in body.conditions if condition.op in ("<", ">") and not condition.textual]
    links = [link for condition in strict if isinstance(condition.operand, str) for link in _links(condition)]
    ascending = {(left, right) for left, right, _ in _close(links)}
    atoms = [atom._replace(compared=(*atom.compared, *_ordered_columns(atom, ascending))) for atom in body.atoms]
    selections = {(atom.constants, atom.equal, atom.compared) for atom in atoms}
    if len(selections) > 1 or atoms[0].compared == body.atoms[0].compared:
        return body
    selected = {pair for atom in atoms for pair in permutations(atom.variables, 2)} & ascending
    left = [
        condition
        for condition in body.conditions
        if condition not in strict
        or not isinstance(condition.operand, str)
        or selected.isdisjoint((name, other) for name, other, _ in _links(condition))
    ]
    return replace(body, atoms=tuple(atoms), conditions=tuple(left))


def _ordered_columns(atom: BodyAtom, ascending: Collection[tuple[str, str]]) -> list[ComparedColumns]:
    """Return the comparisons of columns that an order of variables makes, lower column first."""
    places = sorted(zip(atom.columns, atom.variables, strict=True))
    return [
        (low, "<" if (name, other) in ascending else ">", high, None)
        for (low, name), (high, other) in combinations(places, 2)
        if (name, other) in ascending or (other, name) in ascending
    ]


def _without_unread(body: Body) -> Body:
    atoms = list(body.atoms)
    for index, atom in enumerate(atoms):
        unread = _private_variables(atom, [*atoms[:index], *atoms[index + 1 :]], body)
        places = [place for place, name in enumerate(atom.variables) if name not in unread] or [0]
        if len(places) < len(atom.variables):
            columns = tuple(atom.columns[place] for place in places)
            atoms[index] = atom._replace(columns=columns, variables=tuple(atom.variables[place] for place in places))
    return replace(body, atoms=tuple(atoms))


def _drop_atoms(body: Body) -> Body:
    atoms = list(body.atoms)
    for atom_index in range(len(atoms) - 1, -1, -1):
        other_atoms = [atom for i, atom in enumerate(atoms) if i != atom_index]
        private = _private_variables(atoms[atom_index], other_atoms, body)
        if any(_implies(atom, atoms[atom_index], private) for atom in other_atoms):
            del atoms[atom_index]
    return body if len(atoms) == len(body.atoms) else replace(body, atoms=tuple(atoms))


def _private_variables(atom: BodyAtom, other_atoms: list[BodyAtom], body: Body) -> set[str]:
    """Return the variables of an atom that occur nowhere else."""
    read = {name for atom_read in (*other_atoms, *body.negated) for name in atom_read.variables}
    read.update(
        name for checks in (body.conditions, body.calculations) for check in checks for name in check_variables(check)
    )
    read.update(calculation.variable for calculation in body.calculations)
    return set(atom.variables).difference(read, (term for term in body.head if isinstance(term, str)))


def _implies(candidate: BodyAtom, atom: BodyAtom, private: set[str]) -> bool:
    """Return True if rows of `candidate` are rows of `atom` for any values of private variables."""
    if candidate.relation != atom.relation or not set(atom.constants) <= set(candidate.constants):
        return False
    if not set(atom.equal) <= set(candidate.equal) or not set(atom.compared) <= set(candidate.compared):
        return False
    variable_of = dict(zip(candidate.columns, candidate.variables, strict=True))
    return all(
        name in private or variable_of.get(column) == name
        for name, column in zip(atom.variables, atom.columns, strict=True)
    )


# Heads that hold the same rows up to the names and order of columns.


def same_rows(by_head: Mapping[str, Sequence[Rule]]) -> dict[str, Alias]:
    """Return aliases of heads whose only rule equals an earlier head's only rule.

    Rules that read such a head read the earlier head, so that its rows are stored once. Heads of loops are unchanged.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = parse("h(x, z) :- r(x, y), s(y, z). g(c, a) :- r(a, b), s(b, c). f(a, b) :- r(a, b), s(b, c).").rules
    >>> same_rows({rule.head.relation: [rule] for rule in rules})
    {'g': Alias(relation='h', columns=(1, 0), compared=())}
    """
    sizes = Counter(len(rules[0].atoms) for rules in by_head.values() if len(rules) == 1)
    if max(sizes.values(), default=0) < 2:
        return {}
    reads = {name: {atom.relation for rule in rules for atom in rule.read} for name, rules in by_head.items()}
    looped = {name for members in components(reads) for name in members if len(members) > 1 or name in reads[name]}
    first: dict[Hashable, tuple[str, dict[int, int]]] = {}
    result = {}
    for name, rules in by_head.items():
        head_terms = rules[0].head.terms
        if len(rules) != 1 or name in looped or not rules[0].atoms or sizes[len(rules[0].atoms)] < 2:
            continue
        if len(set(head_terms)) < len(head_terms) or not all(isinstance(term, Variable) for term in head_terms):
            continue
        numbers = numbered_variables(rules[0])
        leader, place = first.setdefault(
            (body_signature(rules[0], numbers), frozenset(numbers[term] for term in head_terms)),
            (name, {numbers[term]: column for column, term in enumerate(head_terms)}),
        )
        if leader != name:
            result[name] = Alias(leader, tuple(place[numbers[term]] for term in head_terms))
    return result


# Normalise rules over stored columns and drop rules that never hold.
#
# See `gpu_wcoj.planner.body`.


def normalise_rules(draft: Draft) -> Draft:
    """Check that rules are safe and give each its body, with aliases resolved.

    Constants and repeated variables become selections of atoms, equalities are substituted. The statistics get
    estimates of heads.

    Examples
    --------
    >>> from tests.planner.examples import draft_program
    >>> before = draft_program("h(x) :- r(x, y, x), y = 5, x < 9. h(x) :- r(x, x, x), 1 > 2.")
    >>> print(before)
    h: h(x) :- r(x, y, x), y = 5, x < 9.
    h: h(x) :- r(x, x, x), 1 > 2.
    >>> print(normalise_rules(before))
    h: h(x) :- r(x, y, x), y = 5, x < 9.
      0: r(x) where #1 = 5, #0 = #2
      x < 9
    """
    setting = draft.setting
    by_head: dict[str, list[Rule]] = {}
    for rule_draft in draft.rules:
        by_head.setdefault(rule_draft.head, []).append(rule_draft.rule)
    alias_by_head = aliases(
        {name: head_rules for name, head_rules in by_head.items() if name not in setting.best}, setting.textual
    )
    nullable = {name: shape.nullable for name, shape in setting.shapes.items()}
    rules = []
    for rule_draft in draft.rules:
        bodies = [rule_draft.body] if rule_draft.body is not None else []
        if rule_draft.body is None:
            kept_column = setting.best.get(rule_draft.head)
            for requirement in cases(rule_draft.rule, nullable, kept_column):
                body = normalise(
                    rule_draft.rule,
                    setting.shapes,
                    alias_by_head,
                    setting.encode,
                    setting.kinds,
                    kept_column,
                    requirement,
                )
                bodies.append(body)
        for body in bodies:
            if not body.never:
                _check_safe(body)
                rules.append(replace(rule_draft, body=body))
    changed = replace(draft, rules=tuple(rules), aliases={**alias_by_head, **draft.aliases})
    return _estimate_heads(changed, by_head)


def _estimate_heads(draft: Draft, heads: Collection[str]) -> Draft:
    """Add estimates of heads that other rules read, if these have no statistics.

    Those that they read must have statistics. Columns are taken as independent, and the values of one side of a join as
    among those of the other (Selinger and others, "Access path selection in a relational database management system",
    1979, doi:10.1145/582095.582099).
    """
    setting = draft.setting
    bodies: dict[str, list[Body]] = {name: [] for name in heads}
    for rule in draft.rules:
        bodies.setdefault(rule.head, []).append(rule.normalised)
    groupings = {grouping.relation: grouping for grouping in setting.groupings}
    reads = {name: [atom.relation for body in own for atom in body.atoms] for name, own in bodies.items()}
    sources = {
        name: draft.aliases.get(grouping.source, Alias(grouping.source, tuple(range(grouping.keys))))
        for name, grouping in groupings.items()
    }
    reads.update({name: [alias.relation] for name, alias in sources.items()})
    negated = {atom.relation for own in bodies.values() for body in own for atom in body.negated}
    read = negated.union(*reads.values())
    found: dict[str, Facts] = {}

    def look_up(atom: BodyAtom) -> Facts | None:
        facts = found.get(atom.relation)
        return setting.known.facts(atom) if facts is None else facts.selected(facts.selectivity(atom))

    for members in components(reads):
        (name, *others) = members
        if others or name in reads[name] or name not in read or setting.known.rows(name) is not None:
            continue
        if name not in negated and any(len(body.atoms) > 1 for body in bodies.get(name, ())):
            continue  # its columns are too dependent to order other atoms by
        if name in groupings:
            columns = sources[name].columns[: groupings[name].keys]
            source = look_up(BodyAtom(sources[name].relation, columns, tuple(map(str, columns))))
            facts = None if source is None else source.projected(columns)
        else:
            facts = _facts_of_union([_facts_of(_select(body), look_up) for body in bodies[name]])
        if facts is not None:
            found[name] = facts
    return replace(draft, setting=replace(setting, known=setting.known.expecting(found))) if found else draft


def _facts_of(body: Body, look_up: Callable[[BodyAtom], Facts | None]) -> Facts | None:
    """Estimate the rows of a rule; None if an atom has no statistics."""
    rows, counts = 1.0, dict[str, list[float]]()
    for atom in body.atoms:
        facts = look_up(atom)
        if facts is None:
            return None
        if len(body.atoms) == 1 and all(isinstance(name, str) and name in atom.variables for name in body.head):
            return facts.projected([atom.columns[atom.variables.index(str(name))] for name in body.head])
        rows *= facts.rows
        for column, variable in zip(atom.columns, atom.variables, strict=True):
            counts.setdefault(variable, []).append(facts.values([column]))
    for own in counts.values():
        rows /= prod(sorted(own)[1:])
    distinct: dict[tuple[int, ...], float] = {
        (column,): 1.0 if isinstance(term, int) else min(rows, *counts[term])
        for column, term in enumerate(body.head)
        if isinstance(term, int) or term in counts
    }
    if len(distinct) == len(body.head):
        rows = min(rows, prod(distinct.values()))
    return Facts(rows, distinct)


def _facts_of_union(parts: Sequence[Facts | None]) -> Facts | None:
    """Estimate the rows of a head from those of its rules; None if one of them is not known."""
    known = [facts for facts in parts if facts is not None]
    if len(known) < len(parts):
        return None
    if not known:
        return Facts(0.0)
    if len(known) == 1:
        return known[0]
    columns = set.intersection(*(set(facts.distinct) for facts in known))

    def count(key: Columns) -> Counts | None:
        counts = [facts.known_values(key) for facts in known]
        n_values = [n for n in counts if n is not None]
        return (sum(n_values),) if len(n_values) == len(counts) else None

    return Facts(
        sum(facts.rows for facts in known),
        {key: sum(facts.distinct[key] for facts in known) for key in columns},
        count=count,
    )


def _check_safe(body: Body) -> None:
    """Raise if the body or the head reads an unbound variable."""
    bound = {*body.variables, *(calculation.variable for calculation in body.calculations)}
    said = [(term, "the head") for term in body.head if isinstance(term, str)]
    for checks, what in ((body.conditions, "the comparison"), (body.calculations, "the calculation")):
        said += [(name, f"{what} '{check}'") for check in checks for name in check_variables(check)]
    constants = {f"atom#{atom_index}" for atom_index in range(-len(body.negated), 0)}  # of atoms without variables
    said += [(name, f"the negated '!{atom}'") for atom in body.negated for name in atom.variables]
    for name, where in said:
        if name not in bound and name not in constants:
            raise UnsafeRuleError(name, where, str(body.rule))


def aliases(by_head: Mapping[str, Sequence[Rule]], textual: Callable[[str, int], bool]) -> dict[str, Alias]:
    """Return heads whose only rule renames or selects; of a cycle, all but one.

    The result includes heads that hold the same rows as an earlier head.
    """
    result: dict[str, Alias] = {}
    for name, head_rules in by_head.items():
        alias = alias_of(head_rules[0], textual) if len(head_rules) == 1 else None
        if alias is None:
            continue
        end = alias.relation
        while end in result and end != name:
            end = result[end].relation
        if end != name:
            result[name] = alias
    return {
        **same_rows({name: rules_of_head for name, rules_of_head in by_head.items() if name not in result}),
        **result,
    }


# Executable queries of rules.


def to_delta_queries(draft: Draft) -> Draft:
    """Make a delta query of each rule, from which `gpu_wcoj.planner.lower` makes the circuit.

    Examples
    --------
    >>> from gpu_wcoj.planner.passes.arrange import assign_arrangements
    >>> from tests.planner.examples import draft_program
    >>> from gpu_wcoj.planner.passes.simplify import normalise_rules
    >>> from gpu_wcoj.planner.join_order import order_variables
    >>> before = draft_program("h(a, c) :- r(a, b), s(b, c).", [normalise_rules, order_variables, assign_arrangements])
    >>> before.rules[0].query
    >>> to_delta_queries(before).rules[0].query.head
    ('a', 'c')
    """
    sources = draft.setting.derivation_sources
    return draft.over(lambda one: _to_delta_query(one, one.head in sources))


def _to_delta_query(rule_draft: RuleDraft, counts_derivations: bool) -> RuleDraft:
    body = rule_draft.normalised
    query = DeltaQuery(
        str(body.rule), body.head, rule_draft.paths, body.calculations, counts_derivations=counts_derivations
    )
    return replace(rule_draft, query=query)
