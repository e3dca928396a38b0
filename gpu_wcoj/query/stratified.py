"""Whether a program can be evaluated stratum by stratum, and what heads that aggregate may do.

Negation and aggregation see relations that are complete, so they cannot go through recursion. The least or greatest
value of a head may, where no derivation is lost when a value gets better: see `_check_monotone`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from gpu_wcoj.errors import SchemaError, UnsupportedError
from gpu_wcoj.query.binding import applied, definitions, inner_aggregates, within
from gpu_wcoj.query.rules import Rule, Rules
from gpu_wcoj.query.strata import components, reads_of, way
from gpu_wcoj.query.terms import Atom, Call, Comparison, Constant, Expression, Span, Variable, variables_of

EXTREMES = ("min", "max")
"""The aggregates of heads that may go through recursion."""

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
    reads = reads_of(rules)
    loops = loops_of(rules)
    for rule in rules.rules:
        head = rule.head.relation
        loop = loops.get(head, ())
        if not loop:
            continue
        for verb, atom in _seen_complete(rule):
            if atom.relation in loop:
                what = "negation" if verb == "negates" else "aggregation"
                back = way(atom.relation, head, loop, reads) if atom.relation != head else [head]
                cycle = " reads ".join(f"'{one}'" for one in _shorter(back))
                raise UnsupportedError(
                    at(f"{what} through recursion is not supported: '{head}' {verb} {cycle}", atom.span)
                )
        _check_monotone(rule, loop, extremes, at)


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


def _shorter(names: list[str]) -> list[str]:
    return names if len(names) <= 12 else [*names[:6], "...", *names[-5:]]
