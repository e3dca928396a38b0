"""Whether a program can be evaluated stratum by stratum, and what heads that aggregate may do.

Negation and aggregation see relations that are complete, so they cannot go through recursion. The least or greatest
value of a head may, where no derivation is lost when a value gets better: see `_check_monotone`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gpu_wcoj.errors import SchemaError, UnsupportedError
from gpu_wcoj.query.binding import applied, bound_variables, definitions, inner_aggregates, within
from gpu_wcoj.query.rules import DEMAND, Rule, Rules
from gpu_wcoj.query.strata import components, reads_of, way
from gpu_wcoj.query.terms import (
    NEVER,
    NULL,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Span,
    Variable,
    aggregates_of,
    variables_of,
)

EXTREMES = ("min", "max")
"""The aggregates of heads that may go through recursion."""

_HELPERS = ("any", "each", "in", "keys", "none", "not", "null", "once", "or", "rows")
"""What compilers call heads that stand for a part of a rule, before the ``#``."""

_At = Callable[[str, Span], str]


def check_stratified(rules: Rules, at: _At) -> None:
    """Raise for negation or aggregation through recursion, and for heads that aggregate in more than one way.

    Parameters
    ----------
    at
        Puts a message and a place together.

    Raises
    ------
    UnsupportedError, SchemaError
    """
    extremes = _check_heads(rules, at)
    rules = guarded(rules)
    loops = loops_of(rules)
    check_settled(rules, loops, at)
    for rule in rules.rules:
        loop = loops.get(rule.head.relation, ())
        if loop:
            _check_monotone(rule, loop, extremes, at)


def check_settled(rules: Rules, loops: Mapping[str, Collection[str]], at: _At = lambda what, _: what) -> None:
    """Raise for negation or aggregation through recursion; `loops` are those of the rules.

    Raises
    ------
    UnsupportedError
        With the heads from one to the next; helpers of the compilers are left out.
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
                back = way(atom.relation, head, loop, reads) if atom.relation != head else [head]
                names = _of_the_text([head, *back])
                cycle = " reads ".join(f"'{one}'" for one in _shorter(names[1:] or names))
                raise UnsupportedError(
                    at(f"{what} through recursion is not supported: '{names[0]}' {verb} {cycle}", atom.span)
                )


def guarded(rules: Rules) -> Rules:
    """Take negation out of recursion where the head that is negated reads the recursion only for the rows it is asked.

    Such a head says which rows of the recursion have a match in relations that are settled before it. Its copy reads
    the rows of a relation that holds what the negating rule asks for; see `gpu_wcoj.query.rules.Rules.demands`.

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
        step = next((step for rule in rules.rules if (step := _step(rule, rules, loops, len(copied) + 1))), None)
        if step is None:
            break
        name, rules = step
        copied.append(name)
    read = {*rules.outputs, *(atom.relation for rule in rules.rules for atom in rule.read)}
    gone = {name for name in copied if "#" in name and name not in read}
    return replace(rules, rules=tuple(one for one in rules.rules if one.head.relation not in gone)) if gone else rules


def _step(rule: Rule, rules: Rules, loops: Mapping[str, Collection[str]], number: int) -> tuple[str, Rules] | None:
    """Take one negation of a rule out of its recursion: the head that it negates, and the rules after that."""
    loop = loops.get(rule.head.relation, ())
    for atom in (one for one in rule.negated if one.relation in loop):
        copied = _copied(atom, rule, rules.rules, loop, f"{atom.relation}#{number}")
        if copied is None:
            continue
        guard, keys, settled = copied
        there = replace(guard, relation=settled[0].head.relation, span=atom.span)
        negated = tuple(there if one is atom else one for one in rule.negated)
        after = replace(rule, atoms=(*rule.atoms, guard), negated=negated)
        others = (after if one is rule else one for one in rules.rules)
        return atom.relation, replace(rules, rules=(*others, keys, recursive_rule(keys.head), *settled))
    return None


def recursive_rule(head: Atom) -> Rule:
    """A rule that derives nothing, by which a head is a set of bags too, made of the rows of positive weight."""
    terms = tuple(Variable(f"c{i}") for i in range(len(head.terms)))
    return Rule(Atom(head.relation, terms), (Atom(head.relation, terms),), (NEVER,))


def _copied(
    negated: Atom, rule: Rule, rules: Sequence[Rule], loop: Collection[str], name: str
) -> tuple[Atom, Rule, list[Rule]] | None:
    """The atom that holds what a rule asks for, the rule of that, and the rules of the negated head's copy.

    None if a rule of the head says of the loop what the negating rule does not say as well.
    """
    settled = []
    for own in (one for one in rules if one.head.relation == negated.relation):
        kept = _apart(own, negated, rule, loop)
        if kept is None:
            return None
        guard = Atom(f"{DEMAND}{name}", own.head.terms)
        settled.append(replace(kept, head=replace(own.head, relation=name), atoms=(guard, *kept.atoms)))
    said = [one for one in rule.comparisons if not any(aggregates_of((one.left, one.right)))]
    bound = bound_variables(replace(rule, comparisons=tuple(said)))
    if not bound.issuperset(variables_of(negated.terms)) or any(one.is_wildcard for one in negated.variables):
        return None
    said = [one for one in said if bound.issuperset(one.variables)]
    keys = Rule(Atom(f"keys#{name}", negated.terms), rule.atoms, tuple(said), (), rule.computed)
    return Atom(f"{DEMAND}{name}", negated.terms), keys, settled


def _apart(own: Rule, negated: Atom, rule: Rule, loop: Collection[str]) -> Rule | None:
    """A rule of the negated head without what it says of the loop, if the negating rule says all of that; else None.

    What it says of the loop are the atoms of the loop, and those and the comparisons that share a variable with them
    which the head does not have.
    """
    head = set(variables_of(own.head.terms))
    if len(head) < len(own.head.terms) or own.computed:
        return None
    said: list[Atom] = [atom for atom in own.atoms if atom.relation in loop]
    compared: list[Comparison] = []
    if len(said) < sum(atom.relation in loop for atom in own.read):
        return None
    while True:
        parts: list[Atom | Comparison] = [*said, *compared]
        shared = {one for part in parts for one in part.variables if not one.is_wildcard} - head
        more = [one for one in own.atoms if one not in said and shared.intersection(one.variables)]
        also = [one for one in own.comparisons if one not in compared and shared.intersection(_all_in(one))]
        if not more and not also:
            break
        said, compared = said + more, compared + also
    if any(shared.intersection(atom.variables) for atom in own.negated):
        return None
    places = Counter(variable for atom in said for variable in atom.terms)
    places.update(variable for one in compared for variable in _all_in(one))
    for row in _images(said, rule.atoms, dict(zip(own.head.terms, negated.terms, strict=True))):
        joins = (row[one] for one, n in places.items() if n > 1 and isinstance(one, Variable) and not one.is_null_safe)
        may_be_null = any(one == NULL or (isinstance(one, Variable) and one.is_null_safe) for one in joins)
        there = (
            replace(one, left=row.get(one.left, one.left), right=row.get(one.right, one.right)) for one in compared
        )
        if not may_be_null and all(one in rule.comparisons for one in there):
            atoms = tuple(one for one in own.atoms if one not in said)
            return replace(own, atoms=atoms, comparisons=tuple(one for one in own.comparisons if one not in compared))
    return None


def _all_in(comparison: Comparison) -> set[Variable]:
    """The variables of a comparison, those in braces too."""
    inner = (one for aggregate in aggregates_of((comparison.left, comparison.right)) for one in within(aggregate))
    return {*comparison.variables, *inner}


def _images(
    atoms: Sequence[Atom], others: Sequence[Atom], row: dict[Expression, Expression]
) -> Iterator[dict[Expression, Expression]]:
    """The ways to let terms stand for the variables of `atoms` by which each is one of the `others`."""
    if not atoms:
        yield row
        return
    for other in (one for one in others if one.relation == atoms[0].relation):
        found = dict(row)
        for one, there in zip(atoms[0].terms, other.terms, strict=True):
            if isinstance(one, Variable):
                if found.setdefault(one, there) != there and not one.is_wildcard:
                    break
            elif one != there:
                break
        else:
            yield from _images(atoms[1:], others, found)


def loops_of(rules: Rules) -> dict[str, tuple[str, ...]]:
    """Per head that is derived from itself, all heads of its recursion.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> loops_of(parse("p(x, z) :- p(x, y), e(y, z). p(x, y) :- e(x, y). s(x) :- p(x, _)."))
    {'p': ('p',)}
    """
    reads = reads_of(rules)
    found: dict[str, tuple[str, ...]] = {}
    for members in components(reads):
        if len(members) > 1 or any(name in reads[name] for name in members):
            found.update(dict.fromkeys(members, members))
    return found


def extremes_of(rules: Rules) -> dict[str, tuple[int, str]]:
    """Per head that keeps the least or greatest of a column, the column and the aggregate."""
    found = {}
    for rule in rules.rules:
        for column, call in applied(rule.head):
            if call.op in EXTREMES:
                found[rule.head.relation] = column, call.op
    return found


def _seen_complete(rule: Rule) -> Iterator[tuple[str, Atom]]:
    """The atoms whose relations must be complete before the rule is evaluated, and why."""
    for atom in rule.negated:
        yield "negates", atom
    positive = [id(atom) for atom in (*rule.atoms, *rule.negated)]
    for atom in rule.read:
        if id(atom) not in positive:
            yield "aggregates", atom
    if any(call.op not in EXTREMES for _, call in applied(rule.head)):
        for atom in rule.atoms:
            yield "aggregates", atom


def _check_heads(rules: Rules, at: _At) -> dict[str, tuple[int, str]]:
    """Check that the rules of a head aggregate in one way or not at all; the extremes."""
    forms: dict[str, list[tuple[Rule, list[tuple[int, Call]]]]] = {}
    for rule in rules.rules:
        forms.setdefault(rule.head.relation, []).append((rule, applied(rule.head)))
    named = {one.relation for one in rules.directives if one.kind == "input"}
    for name, own in forms.items():
        first = next((calls for _, calls in own if calls), None)
        if first is None:
            continue
        column, op = first[0][0], first[0][1].op
        for rule, calls in own:
            if len(calls) > 1:
                what = f"the head '{name}' has two aggregates; write a head for each, and a rule that joins them"
                raise UnsupportedError(at(what, rule.head.span))
            if not calls or (calls[0][0], calls[0][1].op) != (column, op):
                shown = f"{calls[0][1].op} in column {calls[0][0]}" if calls else "no aggregate"
                what = f"the head '{name}' has {op} in column {column} in another rule, and here {shown}"
                raise SchemaError(at(f"{what}; give all its rules the same", rule.head.span))
        if len(own) > 1 and op not in EXTREMES:
            what = f"'{name}' is the {op} over one body; derive the rows of all its rules in a relation, and use that"
            raise UnsupportedError(at(what, own[1][0].head.span))
        if name in named:
            what = f"'{name}' aggregates, so it cannot be an input; name another relation, and read that in a rule"
            raise SchemaError(at(what, own[0][0].head.span))
    return extremes_of(rules)


def _check_monotone(rule: Rule, loop: Collection[str], extremes: Mapping[str, tuple[int, str]], at: _At) -> None:
    """Check that a rule of a loop loses nothing when a value of an extreme of the loop gets better.

    Its body may calculate with such a value, and ask whether it is better than something; the result may stand where
    the head keeps the best of the same kind, and nowhere else. Then a worse value can be left standing while the loop
    runs: what it derives is never better than what the better one derives.
    """
    kinds = {extremes[atom.relation][1] for atom in rule.atoms if atom.relation in loop and atom.relation in extremes}
    if not kinds:
        return
    head = rule.head
    own = extremes.get(head.relation)
    if own is not None:
        kinds.add(own[1])
    if len(kinds) > 1:
        what = f"the recursion of '{head.relation}' has min and max in it; only one of them may go through recursion"
        raise UnsupportedError(at(what, head.span))
    (op,) = kinds
    better = _Better(op)
    for atom in rule.atoms:
        if atom.relation in loop and atom.relation in extremes:
            value = atom.terms[extremes[atom.relation][0]]
            if not isinstance(value, Variable):
                raise UnsupportedError(at(_not_monotone(op, atom, f"'{value}' is asked of it"), atom.span))
            better.values[value] = 1
    places = [term for atom in rule.atoms for term in atom.terms]
    for value in better.values:
        if places.count(value) > 1:
            raise UnsupportedError(at(_not_monotone(op, value, "it joins"), head.span))
    defining = _defined(rule, better)
    for comparison in rule.comparisons:
        if comparison not in defining and not better.is_kept(comparison):
            raise UnsupportedError(at(_not_monotone(op, comparison, "a better value may fail it"), comparison.span))
    for atom in (*rule.atoms, *rule.negated):
        for term in atom.terms:
            if (isinstance(term, Call) or atom in rule.negated) and better.way(term) != 0:
                raise UnsupportedError(at(_not_monotone(op, atom, "a better value may fail it"), atom.span))
    for aggregate in inner_aggregates(rule):
        if any(one in better.values for one in within(aggregate)):
            raise UnsupportedError(at(_not_monotone(op, aggregate, "it is aggregated"), aggregate.span))
    for column, term in enumerate(head.terms):
        is_own = own is not None and column == own[0]
        if is_own and isinstance(term, Call) and term.op in EXTREMES:
            if better.way(term.arguments[0]) not in (0, 1):
                raise UnsupportedError(at(_not_monotone(op, term, "a better value may make it worse"), head.span))
        elif better.way(term) != 0:
            what = f"'{term}' stands in the head, and only the best value is kept"
            raise UnsupportedError(at(_not_monotone(op, head, what), head.span))


def _not_monotone(op: str, piece: object, why: str) -> str:
    return f"{op} through recursion cannot be kept here: '{piece}', {why}"


def _defined(rule: Rule, better: _Better) -> list[Comparison]:
    """The equalities that give a variable a value that depends on an extreme; it is noted how."""
    bound = {term for atom in rule.atoms for term in atom.terms if isinstance(term, Variable)}
    defining: list[Comparison] = []
    changed = True
    while changed:
        changed = False
        for comparison in rule.comparisons:
            if comparison in defining:
                continue
            for variable, expression in definitions([comparison]):
                known = set(variables_of([expression])) <= bound | set(better.values)
                if variable not in bound and variable not in better.values and known and better.way(expression) != 0:
                    better.values[variable] = better.way(expression)
                    defining.append(comparison)
                    changed = True
                    break
    return defining


class _Better:
    """How expressions move when the extremes that a body reads get better.

    Attributes
    ----------
    values
        Per variable that depends on them: 1 if it gets better too, -1 if it gets worse, None if that is not known.
    """

    def __init__(self, op: str) -> None:
        self.op = op
        self.values: dict[Variable, int | None] = {}

    def way(self, expression: Expression) -> int | None:
        """1, -1 or None as above; 0 if it does not depend on them."""
        if isinstance(expression, Variable):
            return self.values.get(expression, 0)
        if not isinstance(expression, Call):
            return 0
        ways = [self.way(one) for one in expression.arguments]
        if not any(one != 0 for one in ways):
            return 0
        if expression.op == "-":
            ways[-1] = None if ways[-1] is None else -ways[-1]
        elif expression.op in ("*", "/"):
            sign = _sign(expression.arguments[1])
            if ways[1] != 0:
                sign, ways = (_sign(expression.arguments[0]), ways[1:]) if expression.op == "*" else (0, ways)
            if sign == 0 or len([one for one in ways if one != 0]) > 1:
                return None
            ways = [one * sign if one else one for one in ways]
        elif expression.op != "+":
            return None
        moving = {one for one in ways if one != 0}
        return moving.pop() if len(moving) == 1 else None

    def is_kept(self, comparison: Comparison) -> bool:
        """Whether a comparison that holds goes on to hold when they get better."""
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
        return (expression.value > 0) - (expression.value < 0)  # type: ignore[operator]  # a number, as said before
    return 0


def _of_the_text(names: Sequence[str]) -> list[str]:
    """Heads as the text calls them, without the compilers' helpers, and none twice in a row."""
    told = [one.partition("#")[0] for one in names if "#" not in one or one.partition("#")[0] not in _HELPERS]
    return [one for one, before in zip(told, [None, *told], strict=False) if one != before]


def _shorter(names: list[str]) -> list[str]:
    return names if len(names) <= 12 else [*names[:6], "...", *names[-5:]]
