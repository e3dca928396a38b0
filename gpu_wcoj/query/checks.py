"""What can be said against a program before any data is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpu_wcoj.errors import (
    ArityError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsafeRuleError,
    UnsupportedError,
    pointed,
)
from gpu_wcoj.query.terms import Atom, Constant, Rule, Rules, Span, Variable

_SHOWN = 200
_At = Callable[[str, Span], str]
_TYPE_WORDS = {int: "an integer", float: "a float", bool: "a boolean", str: "a text"}


def check(rules: Rules, *, source: str = "<text>") -> None:
    """Raise for the first thing that is wrong with `rules`; see the errors below.

    Raises
    ------
    UnsupportedError
        For facts, bodies without a relation, relations without columns, and recursion (the cycle is named).
    SchemaError
        If a relation is declared twice, or a declaration names a column twice.
    ArityError
        If a relation is used with two numbers of columns.
    UnknownRelationError
        If a declaration names a relation that no rule uses, or an output that no rule defines.
    UnsafeRuleError
        If a variable of a head or a comparison is bound neither by a relation nor by equality with what is bound.
    TypeMismatchError
        If two constants of different types are compared, or a variable is compared with, or a column of a head is,
        a number and a text, or another two that no type holds both of.
    """

    def at(what: str, span: Span) -> str:
        return pointed(what, rules.text, span.line, span.column, span.width, source)

    _check_supported(rules, at)
    _check_declarations(rules, at)
    _check_arities(rules, at)
    _check_outputs(rules)
    for rule in rules.rules:
        _check_safe(rule)
        _check_constants(rule, at)
    _check_head_constants(rules, at)
    _check_recursion(rules, at)


def check_inputs(rules: Rules, names: Iterable[str]) -> None:
    """Raise if one of the `names` that ``.input`` lines give is not an input of `rules`.

    Raises
    ------
    UnknownRelationError
        If there is no such relation.
    SchemaError
        If rules define it.
    """
    for name in names:
        if name in rules.heads:
            raise SchemaError(f"'{name}' is defined by rules, so it cannot be an input.\n  Remove '.input {name}'.")
        if name not in rules.inputs:
            raise UnknownRelationError(name, rules.inputs, "inputs")


def bound_variables(rule: Rule) -> set[Variable]:
    """The variables that the relations of the body bind, or equality with a constant or with a bound variable.

    Examples
    --------
    >>> from gpu_wcoj.query.terms import Comparison
    >>> x, y = Variable("x"), Variable("y")
    >>> rule = Rule(Atom("h", (x, y)), (Atom("r", (x,)),), (Comparison("=", y, Constant(5)),))
    >>> sorted(map(str, bound_variables(rule)))
    ['x', 'y']
    """
    bound = set(rule.variables)
    equal: dict[Variable, list[Variable]] = {}
    for comparison in rule.comparisons:
        if comparison.op == "=":
            sides = comparison.variables
            bound.update(
                sides if isinstance(comparison.left, Constant) or isinstance(comparison.right, Constant) else ()
            )
            for one, other in zip(sides, reversed(sides), strict=True):
                equal.setdefault(one, []).append(other)
    reached = list(bound)
    while reached:
        new = [other for other in equal.get(reached.pop(), ()) if other not in bound]
        bound.update(new)
        reached += new
    return bound


def _check_supported(rules: Rules, at: _At) -> None:
    for rule in rules.rules:
        if not rule.atoms:
            what = (
                f"'{_short(rule)}' has no relation in its body; facts are not supported, feed rows as changes"
                if rule.comparisons
                else f"facts such as '{_short(rule.head)}.' are not supported; feed rows as changes of an input"
            )
            raise UnsupportedError(at(what, rule.head.span))
        for atom in (rule.head, *rule.atoms):
            if not atom.terms:
                what = f"relation '{atom.relation}' has no columns; relations without columns are not supported"
                raise UnsupportedError(at(what, atom.span))
    for declaration in rules.declarations:
        if not declaration.columns:
            what = f"relation '{declaration.relation}' has no columns; relations without columns are not supported"
            raise UnsupportedError(at(what, declaration.span))


def _check_declarations(rules: Rules, at: _At) -> None:
    used = {atom.relation for rule in rules.rules for atom in (rule.head, *rule.atoms)}
    declared = set()
    for declaration in rules.declarations:
        name = declaration.relation
        if name in declared:
            raise SchemaError(at(f"relation '{name}' is declared twice", declaration.span))
        declared.add(name)
        twice = [column for column in declaration.columns if declaration.columns.count(column) > 1]
        if twice:
            raise SchemaError(at(f"relation '{name}' has two columns '{twice[0]}'", declaration.span))
        if name not in used:
            raise UnknownRelationError(name, used)


def _check_arities(rules: Rules, at: _At) -> None:
    uses = [(found.relation, len(found.columns), str(found), found.span) for found in rules.declarations]
    for rule in rules.rules:
        uses += [(atom.relation, len(atom.terms), str(atom), atom.span) for atom in (rule.head, *rule.atoms)]
    first: dict[str, tuple[int, str, Span]] = {}
    for relation, arity, text, span in uses:
        known, where, there = first.setdefault(relation, (arity, text, span))
        if known != arity:
            place = f" (line {there.line}, column {there.column})" if there.line else ""
            left, right = f"{_columns(known)} in '{_short(where)}'{place}", f"{_columns(arity)} in '{_short(text)}'"
            raise ArityError(at(f"relation '{relation}' has {left}, but {right}", span))


def _columns(number: int) -> str:
    return f"{number} column" + ("s" if number > 1 else "")


def _check_outputs(rules: Rules) -> None:
    for name in rules.outputs:
        if name in rules.inputs:
            raise UnsupportedError(
                f"'.output {name}': '{name}' is an input, and only what rules define is put out.\n"
                f"  Write a rule that copies it, and put that out."
            )
        if name not in rules.heads:
            raise UnknownRelationError(name, rules.heads, "heads of rules")


def _check_safe(rule: Rule) -> None:
    bound = bound_variables(rule)
    for variable in rule.head.variables:
        if variable not in bound:
            raise UnsafeRuleError(str(variable), "the head", _short(rule))
    for comparison in rule.comparisons:
        for variable in comparison.variables:
            if variable not in bound:
                raise UnsafeRuleError(str(variable), f"the comparison '{_short(comparison)}'", _short(rule))


def _check_constants(rule: Rule, at: _At) -> None:
    for comparison in rule.comparisons:
        left, right = comparison.left, comparison.right
        if isinstance(left, Constant) and isinstance(right, Constant) and type(left.value) is not type(right.value):
            what = f"'{_short(comparison)}' compares {_kind(left)} with {_kind(right)}; they do not compare"
            raise TypeMismatchError(at(what, comparison.span))

    compared: dict[Variable, Constant] = {}
    for comparison in rule.comparisons:
        for variable, other in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
            if isinstance(variable, Variable) and isinstance(other, Constant):
                known = compared.setdefault(variable, other)
                if _group(known) != _group(other):
                    what = (
                        f"'{variable}' is compared with {_kind(known)}, {_short(known)}, and here with {_kind(other)}"
                    )
                    raise TypeMismatchError(at(what, comparison.span))


def _check_head_constants(rules: Rules, at: _At) -> None:
    first: dict[tuple[str, int], Constant] = {}
    for head in (rule.head for rule in rules.rules):
        for column, term in enumerate(head.terms):
            if isinstance(term, Constant):
                known = first.setdefault((head.relation, column), term)
                if _group(known) != _group(term):
                    place = f"column {column} of '{head.relation}'"
                    what = f"{place} is {_kind(known)}, {_short(known)}, in another rule, and here {_kind(term)}"
                    raise TypeMismatchError(at(what, head.span))


def _group(constant: Constant) -> str:
    return "a number" if type(constant.value) in (int, float) else _kind(constant)


def _kind(constant: Constant) -> str:
    return _TYPE_WORDS[type(constant.value)]


def _check_recursion(rules: Rules, at: _At) -> None:
    heads = set(rules.heads)
    reads: dict[str, dict[str, Atom]] = {name: {} for name in rules.heads}
    for rule in rules.rules:
        for atom in rule.atoms:
            if atom.relation in heads:
                reads[rule.head.relation].setdefault(atom.relation, atom)
    done: set[str] = set()
    for start, read in reads.items():
        path, ahead = [start], [iter(read.items())]
        on_path = {start}
        while path:
            read_next = next(ahead[-1], None)
            if read_next is None:
                done.add(path[-1])
                on_path.discard(path.pop())
                ahead.pop()
                continue
            name, atom = read_next
            if name in on_path:
                cycle = " reads ".join(f"'{step}'" for step in _shorter([*path[path.index(name) :], name]))
                raise UnsupportedError(at(f"recursion is not supported yet: {cycle}", atom.span))
            if name not in done:
                path.append(name)
                on_path.add(name)
                ahead.append(iter(reads[name].items()))


def _shorter(names: list[str]) -> list[str]:
    return names if len(names) <= 12 else [*names[:6], "...", *names[-5:]]


def _short(piece: object) -> str:
    text = str(piece)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
