"""Checks of stratification, and of heads that aggregate.

Negation and aggregation read complete relations, so they cannot go through recursion. The minimum or maximum of a head
may, if no derivation is lost when a value improves: see `_check_monotone`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from gpu_wcoj.errors import SchemaError, UnsupportedError
from gpu_wcoj.query.ir import (
    DEMAND,
    NEVER,
    NULL,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Rule,
    Rules,
    Span,
    Variable,
    aggregates_of,
    variables_of,
)
from gpu_wcoj.query.safety import applied, bound_variables, definitions, inner_aggregates, within

_T = TypeVar("_T", bound=Hashable)

# Strata: sets of heads that are evaluated together, in order of evaluation.


def components(reads: Mapping[_T, Collection[_T]]) -> list[tuple[_T, ...]]:
    """Return strongly connected components of heads, each after those that it reads.

    The algorithm is Tarjan's, doi:10.1137/0201010.

    Parameters
    ----------
    reads
        Per head the relations that it reads; relations that are not heads are ignored.

    Examples
    --------
    >>> components({"a": ["b", "edge"], "b": ["c"], "c": ["b"], "d": []})
    [('b', 'c'), ('a',), ('d',)]
    """
    index: dict[_T, int] = {}
    lowest: dict[_T, int] = {}
    open_heads: dict[_T, None] = {}
    result: list[tuple[_T, ...]] = []

    def begin(name: _T) -> tuple[_T, Iterator[_T]]:
        index[name] = lowest[name] = len(index)
        open_heads[name] = None
        return name, iter([successor for successor in reads[name] if successor in reads])

    for start in reads:
        if start in index:
            continue
        path = [begin(start)]
        while path:
            name, ahead = path[-1]
            member = next(ahead, None)
            if member is not None:
                if member not in index:
                    path.append(begin(member))
                elif member in open_heads:
                    lowest[name] = min(lowest[name], index[member])
                continue
            path.pop()
            if path:
                above = path[-1][0]
                lowest[above] = min(lowest[above], lowest[name])
            if lowest[name] == index[name]:
                members = [head for head in open_heads if index[head] >= index[name]]
                for member in members:
                    del open_heads[member]
                result.append(tuple(sorted(members, key=list(reads).index) if len(members) > 1 else members))
    return result


def cycle(start: _T, members: Collection[_T], reads: Mapping[_T, Collection[_T]]) -> list[_T]:
    """Return a shortest path from a head of a component back to itself, both ends included.

    Empty if there is none.

    Examples
    --------
    >>> cycle("b", ["b", "c"], {"b": ["c", "edge"], "c": ["b"]})
    ['b', 'c', 'b']
    """
    return shortest_path(start, start, members, reads)


def shortest_path(start: _T, goal: _T, members: Collection[_T], reads: Mapping[_T, Collection[_T]]) -> list[_T]:
    """Return a shortest path between two heads of a component, both ends included."""
    paths = [[start]]
    seen: set[_T] = set()
    for path in paths:  # the list grows during the loop
        for successor in reads[path[-1]]:
            if successor == goal:
                return [*path, goal]
            if successor in members and successor not in seen:
                seen.add(successor)
                paths.append([*path, successor])
    return []


def reads_of(rules: Rules) -> dict[str, list[str]]:
    """Return for each head the relations that its rules read."""
    reads: dict[str, list[str]] = {name: [] for name in rules.heads}
    for rule in rules.rules:
        reads[rule.head.relation].extend(atom.relation for atom in rule.read)
    for helper in rules.helpers:
        reads[helper.relation].append(helper.source)
    return reads


def unread(rules: Rules) -> tuple[str, ...]:
    """Return the heads that are read by no rule outside of their own recursion.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> unread(parse("p(x, y) :- e(x, y). p(x, z) :- p(x, y), e(y, z). s(x) :- e(x, _). t(x) :- s(x)."))
    ('p', 't')
    """
    reads = reads_of(rules)
    loop_of = {name: members for members in components(reads) for name in members}
    read = {relation for name, relations in reads.items() for relation in relations if relation not in loop_of[name]}
    return tuple(name for name in rules.heads if name not in read)


EXTREMES = ("min", "max")
"""Aggregates of heads that may go through recursion."""

_HELPERS = ("any", "each", "in", "keys", "none", "not", "null", "once", "or", "rows")
"""Names before the ``#`` that compilers give to heads for a part of a rule."""

_Point = Callable[[str, Span], str]


def check_stratified(rules: Rules, point: _Point) -> None:
    """Raise for negation or aggregation through recursion, and for inconsistent aggregates.

    Parameters
    ----------
    point
        Returns a message with the place that it points at.

    Raises
    ------
    UnsupportedError, SchemaError
    """
    extremes = _check_heads(rules, point)
    rules = guarded(rules)
    loops = loops_of(rules)
    check_settled(rules, loops, point)
    for rule in rules.rules:
        loop = loops.get(rule.head.relation, ())
        if loop:
            _check_monotone(rule, loop, extremes, point)


def check_settled(rules: Rules, loops: Mapping[str, Collection[str]], point: _Point = lambda what, _: what) -> None:
    """Raise for negation or aggregation through one of the recursions `loops`.

    Raises
    ------
    UnsupportedError
        With the heads of the cycle in order, without helpers of the compilers.
    """
    reads = reads_of(rules)
    for rule in rules.rules:
        head = rule.head.relation
        loop = loops.get(head, ())
        if not loop:
            continue
        for verb, atom in _seen_complete(rule):
            if atom.relation in loop:
                what = "negation" if verb == "negates" else "aggregation"
                back = shortest_path(atom.relation, head, loop, reads) if atom.relation != head else [head]
                names = _user_heads([head, *back])
                cycle = " reads ".join(f"'{name}'" for name in _shorter(names[1:] or names))
                said = f"{what} through recursion is not supported: '{names[0]}' {verb} {cycle}"
                remedy = f"Derive what '{names[0]}' {verb} by rules that do not read '{names[0]}'."
                raise UnsupportedError(f"{point(said, atom.span)}\n  {remedy}")


def guarded(rules: Rules) -> Rules:
    """Move negation out of recursion if the negated head only looks up rows of it.

    Such a head tells which rows of the recursion have a match in relations of earlier strata. A copy of the head reads
    instead a relation of the rows that the negating rule looks up; see `gpu_wcoj.query.ir.Rules.demands`.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> text = "o(x) :- s(x). o(y) :- o(x), e(x, y), !met(x). met(x) :- o(x), b(z), z < x."
    >>> print(guarded(parse(text)))
    o(x) :- s(x).
    o(y) :- o(x), e(x, y), demand#met#1(x), !met#1(x).
    met(x) :- o(x), b(z), z < x.
    keys#met#1(x) :- o(x), e(x, y).
    keys#met#1(c0) :- keys#met#1(c0), 0 != 0.
    met#1(x) :- demand#met#1(x), b(z), z < x.
    """
    copied: list[str] = []
    while True:
        loops = loops_of(rules) if any(rule.negated for rule in rules.rules) else {}
        step = next(
            (step for rule in rules.rules if (step := _without_negation(rule, rules, loops, len(copied) + 1))), None
        )
        if step is None:
            break
        name, rules = step
        copied.append(name)
    read = {*rules.outputs, *(atom.relation for rule in rules.rules for atom in rule.read)}
    gone = {name for name in copied if "#" in name and name not in read}
    return (
        replace(rules, rules=tuple(rule for rule in rules.rules if rule.head.relation not in gone)) if gone else rules
    )


def _without_negation(
    rule: Rule, rules: Rules, loops: Mapping[str, Collection[str]], copy_number: int
) -> tuple[str, Rules] | None:
    """Move one negation out of its recursion; return the negated head and the rules."""
    loop = loops.get(rule.head.relation, ())
    for atom in (atom for atom in rule.negated if atom.relation in loop):
        copied = _copied(atom, rule, rules.rules, loop, f"{atom.relation}#{copy_number}")
        if copied is None:
            continue
        guard, keys, settled = copied
        there = replace(guard, relation=settled[0].head.relation, span=atom.span)
        negated = tuple(there if negated_atom is atom else negated_atom for negated_atom in rule.negated)
        after = replace(rule, atoms=(*rule.atoms, guard), negated=negated)
        rewritten = (after if candidate is rule else candidate for candidate in rules.rules)
        return atom.relation, replace(rules, rules=(*rewritten, keys, recursive_rule(keys.head), *settled))
    return None


def recursive_rule(head: Atom) -> Rule:
    """Return a rule that derives nothing and makes a head recursive, hence a set.

    The set holds the rows of positive weight.
    """
    terms = tuple(Variable(f"c{i}") for i in range(len(head.terms)))
    return Rule(Atom(head.relation, terms), (Atom(head.relation, terms),), (NEVER,))


def _copied(
    negated: Atom, rule: Rule, rules: Sequence[Rule], loop: Collection[str], name: str
) -> tuple[Atom, Rule, list[Rule]] | None:
    """Return the atom of the rows that a rule looks up, and the rules that use it.

    These are the rule that derives the rows, and the rules of the copy of the negated head.

    None if a rule of the head has a condition on the loop that the negating rule does not have.
    """
    settled = []
    for head_rule in (rule for rule in rules if rule.head.relation == negated.relation):
        independent_rule = _apart(head_rule, negated, rule, loop)
        if independent_rule is None:
            return None
        guard = Atom(f"{DEMAND}{name}", head_rule.head.terms)
        settled.append(
            replace(
                independent_rule, head=replace(head_rule.head, relation=name), atoms=(guard, *independent_rule.atoms)
            )
        )
    said = [
        comparison for comparison in rule.comparisons if not any(aggregates_of((comparison.left, comparison.right)))
    ]
    bound = bound_variables(replace(rule, comparisons=tuple(said)))
    if not bound.issuperset(variables_of(negated.terms)) or any(variable.is_wildcard for variable in negated.variables):
        return None
    said = [comparison for comparison in said if bound.issuperset(comparison.variables)]
    keys = Rule(Atom(f"keys#{name}", negated.terms), rule.atoms, tuple(said), (), rule.computed)
    return Atom(f"{DEMAND}{name}", negated.terms), keys, settled


def _apart(head_rule: Rule, negated: Atom, rule: Rule, loop: Collection[str]) -> Rule | None:
    """Return a rule of the negated head without its conditions on the loop, or None.

    The conditions on the loop are the atoms of the loop, and all atoms and comparisons that share with them a variable
    that is not in the head. None if the negating rule lacks one of them.
    """
    head = set(variables_of(head_rule.head.terms))
    if len(head) < len(head_rule.head.terms) or head_rule.computed:
        return None
    said: list[Atom] = [atom for atom in head_rule.atoms if atom.relation in loop]
    compared: list[Comparison] = []
    if len(said) < sum(atom.relation in loop for atom in head_rule.read):
        return None
    while True:
        parts: list[Atom | Comparison] = [*said, *compared]
        shared = {variable for part in parts for variable in part.variables if not variable.is_wildcard} - head
        more = [atom for atom in head_rule.atoms if atom not in said and shared.intersection(atom.variables)]
        also = [
            comparison
            for comparison in head_rule.comparisons
            if comparison not in compared and shared.intersection(_all_in(comparison))
        ]
        if not more and not also:
            break
        said, compared = said + more, compared + also
    if any(shared.intersection(atom.variables) for atom in head_rule.negated):
        return None
    places = Counter(variable for atom in said for variable in atom.terms)
    places.update(variable for comparison in compared for variable in _all_in(comparison))
    for row in _images(said, rule.atoms, dict(zip(head_rule.head.terms, negated.terms, strict=True))):
        joins = (
            row[term] for term, n in places.items() if n > 1 and isinstance(term, Variable) and not term.is_null_safe
        )
        may_be_null = any(term == NULL or (isinstance(term, Variable) and term.is_null_safe) for term in joins)
        there = (
            replace(
                comparison,
                left=row.get(comparison.left, comparison.left),
                right=row.get(comparison.right, comparison.right),
            )
            for comparison in compared
        )
        if not may_be_null and all(_says(rule, comparison) for comparison in there):
            atoms = tuple(atom for atom in head_rule.atoms if atom not in said)
            return replace(
                head_rule,
                atoms=atoms,
                comparisons=tuple(comparison for comparison in head_rule.comparisons if comparison not in compared),
            )
    return None


def _says(rule: Rule, comparison: Comparison) -> bool:
    """Return whether a rule has a comparison, or joins the variable that must not be null."""
    if comparison in rule.comparisons:
        return True
    name = comparison.left
    if not isinstance(name, Variable) or name.is_null_safe or (comparison.op, comparison.right) != ("!=", NULL):
        return False
    return sum(atom.terms.count(name) for atom in rule.atoms) > 1


def _all_in(comparison: Comparison) -> set[Variable]:
    """Return the variables of a comparison, those in braces included."""
    inner = (
        variable for aggregate in aggregates_of((comparison.left, comparison.right)) for variable in within(aggregate)
    )
    return {*comparison.variables, *inner}


def _images(
    atoms: Sequence[Atom], candidates: Sequence[Atom], row: dict[Expression, Expression]
) -> Iterator[dict[Expression, Expression]]:
    """Yield the substitutions that map each of `atoms` to one of `candidates`."""
    if not atoms:
        yield row
        return
    for image in (candidate for candidate in candidates if candidate.relation == atoms[0].relation):
        mapping = dict(row)
        for term, image_term in zip(atoms[0].terms, image.terms, strict=True):
            if isinstance(term, Variable):
                if mapping.setdefault(term, image_term) != image_term and not term.is_wildcard:
                    break
            elif term != image_term:
                break
        else:
            yield from _images(atoms[1:], candidates, mapping)


def loops_of(rules: Rules) -> dict[str, tuple[str, ...]]:
    """Return for each recursive head all heads of its recursion.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> loops_of(parse("p(x, z) :- p(x, y), e(y, z). p(x, y) :- e(x, y). s(x) :- p(x, _)."))
    {'p': ('p',)}
    """
    reads = reads_of(rules)
    loops: dict[str, tuple[str, ...]] = {}
    for members in components(reads):
        if len(members) > 1 or any(name in reads[name] for name in members):
            loops.update(dict.fromkeys(members, members))
    return loops


def extremes_of(rules: Rules) -> dict[str, tuple[int, str]]:
    """Return for each head that keeps a minimum or maximum its column and aggregate."""
    extremes = {}
    for rule in rules.rules:
        for column, call in applied(rule.head):
            if call.op in EXTREMES:
                extremes[rule.head.relation] = column, call.op
    return extremes


def _seen_complete(rule: Rule) -> Iterator[tuple[str, Atom]]:
    """Yield the atoms whose relations must be complete before the rule, with the reason."""
    for atom in rule.negated:
        yield "negates", atom
    positive = [id(atom) for atom in (*rule.atoms, *rule.negated)]
    for atom in rule.read:
        if id(atom) not in positive:
            yield "aggregates", atom
    if any(call.op not in EXTREMES for _, call in applied(rule.head)):
        for atom in rule.atoms:
            yield "aggregates", atom


def _check_heads(rules: Rules, point: _Point) -> dict[str, tuple[int, str]]:
    """Check that all rules of a head aggregate alike or not at all; return the extremes."""
    forms: dict[str, list[tuple[Rule, list[tuple[int, Call]]]]] = {}
    for rule in rules.rules:
        forms.setdefault(rule.head.relation, []).append((rule, applied(rule.head)))
    named = {directive.relation for directive in rules.directives if directive.kind == "input"}
    for name, head_rules in forms.items():
        first = next((calls for _, calls in head_rules if calls), None)
        if first is None:
            continue
        column, op = first[0][0], first[0][1].op
        for rule, calls in head_rules:
            if len(calls) > 1:
                what = f"the head '{name}' has two aggregates; write a head for each, and a rule that joins them"
                raise UnsupportedError(point(what, rule.head.span))
            if not calls or (calls[0][0], calls[0][1].op) != (column, op):
                form = f"{calls[0][1].op} in column {calls[0][0]}" if calls else "no aggregate"
                what = f"the head '{name}' has {op} in column {column} in another rule, and here {form}"
                terms = list[Expression](rule.head.terms)
                terms[column : column + 1] = [Call(op, (term,)) for term in terms[column : column + 1]]
                example = "" if calls else f", as in '{name}({', '.join(map(str, terms))})'"
                raise SchemaError(point(f"{what}; give all its rules the same{example}", rule.head.span))
        if len(head_rules) > 1 and op not in EXTREMES:
            what = f"'{name}' is the {op} over one body; derive the rows of all its rules in a relation, and use that"
            raise UnsupportedError(point(what, head_rules[1][0].head.span))
        if name in named:
            what = f"'{name}' aggregates, so it cannot be an input; name another relation, and read that in a rule"
            raise SchemaError(point(what, head_rules[0][0].head.span))
    return extremes_of(rules)


def _check_monotone(rule: Rule, loop: Collection[str], extremes: Mapping[str, tuple[int, str]], point: _Point) -> None:
    """Check that a rule of a loop loses no derivation when an extreme of the loop improves.

    The body may calculate with such a value and compare it, if a better value also passes; the result may only be the
    value of an extreme of the same kind in the head. Then a worse value may stay until the loop ends: its derivations
    are never better than those of the better value.
    """
    kinds = {extremes[atom.relation][1] for atom in rule.atoms if atom.relation in loop and atom.relation in extremes}
    if not kinds:
        return
    head = rule.head
    extreme = extremes.get(head.relation)
    if extreme is not None:
        kinds.add(extreme[1])
    if len(kinds) > 1:
        what = f"the recursion of '{head.relation}' has min and max in it; only one of them may go through recursion"
        raise UnsupportedError(point(what, head.span))
    (op,) = kinds
    better = _Better(op)
    for atom in rule.atoms:
        if atom.relation in loop and atom.relation in extremes:
            value = atom.terms[extremes[atom.relation][0]]
            if not isinstance(value, Variable):
                raise UnsupportedError(point(_not_monotone(op, atom, f"'{value}' is asked of it"), atom.span))
            better.values[value] = 1
    places = [term for atom in rule.atoms for term in atom.terms]
    for value in better.values:
        if places.count(value) > 1:
            raise UnsupportedError(point(_not_monotone(op, value, "it joins"), head.span))
    defining = _defined(rule, better)
    for comparison in rule.comparisons:
        if comparison not in defining and not better.is_kept(comparison):
            raise UnsupportedError(point(_not_monotone(op, comparison, "a better value may fail it"), comparison.span))
    for atom in (*rule.atoms, *rule.negated):
        for term in atom.terms:
            if (isinstance(term, Call) or atom in rule.negated) and better.way(term) != 0:
                raise UnsupportedError(point(_not_monotone(op, atom, "a better value may fail it"), atom.span))
    for aggregate in inner_aggregates(rule):
        if any(variable in better.values for variable in within(aggregate)):
            raise UnsupportedError(point(_not_monotone(op, aggregate, "it is aggregated"), aggregate.span))
    for column, term in enumerate(head.terms):
        is_own = extreme is not None and column == extreme[0]
        if is_own and isinstance(term, Call) and term.op in EXTREMES:
            if better.way(term.arguments[0]) not in (0, 1):
                raise UnsupportedError(point(_not_monotone(op, term, "a better value may make it worse"), head.span))
        elif better.way(term) != 0:
            what = f"'{term}' stands in the head, and only the best value is kept"
            raise UnsupportedError(point(_not_monotone(op, head, what), head.span))


def _not_monotone(op: str, piece: object, why: str) -> str:
    return f"{op} through recursion cannot be kept here: '{piece}', {why}"


def _defined(rule: Rule, better: _Better) -> list[Comparison]:
    """Return the equalities that define a variable by an extreme, and record its direction."""
    bound = {term for atom in rule.atoms for term in atom.terms if isinstance(term, Variable)}
    defining: list[Comparison] = []
    changed = True
    while changed:
        changed = False
        for comparison in rule.comparisons:
            if comparison in defining:
                continue
            for variable, expression in definitions([comparison]):
                is_known = set(variables_of([expression])) <= bound | set(better.values)
                if variable not in bound and variable not in better.values and is_known and better.way(expression) != 0:
                    better.values[variable] = better.way(expression)
                    defining.append(comparison)
                    changed = True
                    break
    return defining


class _Better:
    """Monotonicity of expressions in the extremes that a body reads.

    Attributes
    ----------
    values
        Per variable that depends on them: 1 if it improves with them, -1 if it gets worse, None if unknown.
    """

    def __init__(self, op: str) -> None:
        self.op = op
        self.values: dict[Variable, int | None] = {}

    def way(self, expression: Expression) -> int | None:
        """Return 1, -1 or None as in `values`, or 0 without dependence on the extremes."""
        if isinstance(expression, Variable):
            return self.values.get(expression, 0)
        if not isinstance(expression, Call):
            return 0
        directions = [self.way(argument) for argument in expression.arguments]
        if not any(direction != 0 for direction in directions):
            return 0
        if expression.op == "-":
            directions[-1] = None if directions[-1] is None else -directions[-1]
        elif expression.op in ("*", "/"):
            sign = _sign(expression.arguments[1])
            if directions[1] != 0:
                sign, directions = (
                    (_sign(expression.arguments[0]), directions[1:]) if expression.op == "*" else (0, directions)
                )
            if sign == 0 or len([direction for direction in directions if direction != 0]) > 1:
                return None
            directions = [direction * sign if direction else direction for direction in directions]
        elif expression.op not in ("+", "double", "narrow_float"):
            return None
        moving = {direction for direction in directions if direction != 0}
        return moving.pop() if len(moving) == 1 else None

    def is_kept(self, comparison: Comparison) -> bool:
        """Return whether a comparison that holds still holds when the extremes improve."""
        left, right = self.way(comparison.left), self.way(comparison.right)
        if left == right == 0:
            return True
        if comparison.op in ("=", "!="):
            return False
        left_falls = (comparison.op in ("<", "<=")) == (self.op == "min")
        good = 1 if left_falls else -1
        return left in (0, good) and right in (0, -good)


def _sign(expression: Expression) -> int:
    if isinstance(expression, Constant) and type(expression.value) in (int, float):
        return (expression.value > 0) - (expression.value < 0)  # type: ignore[operator]  # a number, as just checked
    return 0


def _user_heads(names: Sequence[str]) -> list[str]:
    """Return heads by their names in the text, without helpers and repetitions."""
    heads = [name.partition("#")[0] for name in names if "#" not in name or name.partition("#")[0] not in _HELPERS]
    return [head for head, before in zip(heads, [None, *heads], strict=False) if head != before]


def _shorter(names: list[str]) -> list[str]:
    return names if len(names) <= 12 else [*names[:6], "...", *names[-5:]]
