"""Checks of a program that need no data: declarations, arities, safety, constants, strata."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable
from decimal import Decimal

from gpu_wcoj.errors import (
    ArityError,
    SchemaError,
    TypeMismatchError,
    UnknownRelationError,
    UnsafeRuleError,
    UnsupportedError,
    pointed,
)
from gpu_wcoj.query.ir import (
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Rule,
    Rules,
    Span,
    Variable,
    variables_of,
)
from gpu_wcoj.query.safety import (
    bound_variables,
    check_nulls,
    inner_aggregates,
    keys_of,
    standing,
)
from gpu_wcoj.query.stratify import check_stratified
from gpu_wcoj.user_functions import Function

_MAX_TEXT_LENGTH = 200
"""Longest excerpt of a rule or atom in a message, in characters."""
_Point = Callable[[str, Span], str]
_TYPE_WORDS = {int: "an integer", float: "a float", Decimal: "a decimal", bool: "a boolean", str: "a text"}


def check(rules: Rules, *, source: str = "<text>") -> None:
    """Raise for the first mistake in `rules`.

    Raises
    ------
    UnsupportedError
        For relations without columns, for a function as a condition, for an unsupported use of null (see
        `gpu_wcoj.query.safety`), and for negation or aggregation through recursion (the message names the cycle).
    SchemaError
        If a relation is declared twice, a declaration names a column twice, or rules of one head aggregate differently.
    ArityError
        If a relation is used with two numbers of columns.
    UnknownRelationError
        If a declaration or an ``.input`` line names a relation that no rule uses, or an output that no rule defines.
    UnsafeRuleError
        If a variable is bound neither by a relation nor by equality with an expression of bound variables.
    TypeMismatchError
        If two constants of different types are compared, or if a variable is compared with (or a column of a head
        holds) constants that no single type can hold, such as a number and a text.
    """

    def point(what: str, span: Span) -> str:
        return pointed(what, rules.text, span.line, span.column, span.width, source) if rules.text else what

    _check_columns(rules, point)
    _check_like(rules, point)
    _check_declarations(rules, point)
    _check_arities(rules, point)
    _check_outputs(rules)
    check_inputs(rules, (directive.relation for directive in rules.directives if directive.kind == "input"))
    for rule in rules.rules:
        _check_safe(rule, point)
        check_nulls(rule, point)
        _check_constants(rule, point)
    _check_head_constants(rules, point)
    check_stratified(rules, point)


def check_inputs(rules: Rules, names: Iterable[str]) -> None:
    """Raise if a name on an ``.input`` line is not a relation of `rules`.

    Raises
    ------
    UnknownRelationError
        If there is no such relation.
    """
    for name in names:
        if name not in rules.inputs and name not in rules.heads:
            raise UnknownRelationError(name, rules.inputs, "inputs")


def unnamed_inputs(rules: Rules) -> tuple[str, ...]:
    """Return the inputs of rules that no declaration or ``.input`` line names.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> unnamed_inputs(parse(".decl edge(a, b) path(a, c) :- edge(a, b), edgee(b, c)."))
    ('edgee',)
    """
    named = _named(rules)
    return tuple(name for name in rules.inputs if name not in named)


def _named(rules: Rules) -> set[str]:
    """Return the relations that declarations and ``.input`` lines name."""
    return {declaration.relation for declaration in rules.declarations} | {
        directive.relation for directive in rules.directives
    }


def check_required(
    rules: Rules,
    required: Iterable[str],
    available: Collection[str],
    remedy: str,
    functions: Iterable[Function] = (),
) -> None:
    """Raise for the first relation of `required` that is not available.

    Parameters
    ----------
    required
        Relations that rules read and no rule defines.
    available
        Relations that have rows, or are declared to have none yet.
    remedy
        The advice of the caller that takes the relations; ``{}`` stands for the relation.
    functions
        Python functions that the text may call; a name may be a misspelled one.

    Raises
    ------
    UnknownRelationError
        At the first atom that reads the relation; with the nearest of the heads, declared and available relations, and
        functions.
    """
    for name in required:
        if name in available:
            continue
        subject, where = f"unknown relation '{name}'", ""
        uses = ((rule, atom) for rule in rules.rules for atom in rule.read if atom.relation == name)
        for rule, atom in itertools.islice(uses, 1):  # a relation on an .input line may have no rule that reads it
            where = f"{subject}, in '{_short(rule)}'."
            if rules.text and atom.span.line:
                span = atom.span
                where = pointed(subject, rules.text, span.line, span.column, span.width)
        candidates, what = {*rules.heads, *available, *_named(rules)}, "relations given or defined"
        if names := {function.name for function in functions}:
            candidates, what = candidates | names, f"{what}, and the functions"
        raise UnknownRelationError(name, candidates - {name}, what, where=where, remedy=remedy.format(name))


def _check_columns(rules: Rules, point: _Point) -> None:
    what = "relation '{}' has no columns; relations without columns are not supported"
    for rule in rules.rules:
        for atom in (rule.head, *rule.read):
            if not atom.terms:
                raise UnsupportedError(point(what.format(atom.relation), atom.span))
    for declaration in rules.declarations:
        if not declaration.columns:
            raise UnsupportedError(point(what.format(declaration.relation), declaration.span))


def _check_like(rules: Rules, point: _Point) -> None:
    """Refuse ``like(x, "a%")`` as a condition: it would read an undeclared relation 'like'."""
    named = _named(rules)
    if "like" not in rules.inputs or "like" in named:
        return
    for atom in (atom for rule in rules.rules for atom in rule.read if atom.relation == "like"):
        if any(isinstance(term, Constant) and isinstance(term.value, str) for term in atom.terms[1:]):
            what = f"'{atom}' asks a relation for a row, which has to be declared; the function is '{atom} = true'"
            raise UnsupportedError(point(what, atom.span))


def _check_declarations(rules: Rules, point: _Point) -> None:
    used = {atom.relation for rule in rules.rules for atom in (rule.head, *rule.read)}
    used.update(rules.inputs)
    declared = set()
    for declaration in rules.declarations:
        name = declaration.relation
        if name in declared:
            raise SchemaError(point(f"relation '{name}' is declared twice", declaration.span))
        declared.add(name)
        twice = [column for column in declaration.columns if declaration.columns.count(column) > 1]
        if twice:
            raise SchemaError(point(f"relation '{name}' has two columns '{twice[0]}'", declaration.span))
        if name not in used:
            raise UnknownRelationError(name, used)


def _check_arities(rules: Rules, point: _Point) -> None:
    uses: list[tuple[str, int, Declaration | Atom]] = [
        (declaration.relation, len(declaration.columns), declaration) for declaration in rules.declarations
    ]
    for rule in rules.rules:
        uses += [(atom.relation, len(atom.terms), atom) for atom in (rule.head, *rule.read)]
    first: dict[str, tuple[int, Declaration | Atom]] = {}
    for relation, arity, use in uses:
        first_arity, first_use = first.setdefault(relation, (arity, use))
        if first_arity != arity:
            there = first_use.span
            place = f" (line {there.line}, column {there.column})" if there.line else ""
            left, right = (
                f"{_columns(first_arity)} in '{_short(first_use)}'{place}",
                f"{_columns(arity)} in '{_short(use)}'",
            )
            raise ArityError(point(f"relation '{relation}' has {left}, but {right}", use.span))


def _columns(n: int) -> str:
    return f"{n} column" + ("s" if n > 1 else "")


def _check_outputs(rules: Rules) -> None:
    for name in rules.outputs:
        if name in rules.inputs and name not in rules.heads:
            raise UnsupportedError.unsupported(
                f"'.output {name}'",
                f"'{name}' is an input, and only relations that rules define can be outputs",
                "Write a rule that copies it, and name its head in '.output'.",
            )
        if name not in rules.heads:
            raise UnknownRelationError(name, rules.heads, "heads of rules")


def _check_safe(rule: Rule, point: _Point) -> None:
    outside = set(standing(rule))
    bound = bound_variables(rule, outside)
    for aggregate in inner_aggregates(rule):
        _check_aggregate_safe(aggregate, outside, bound, rule, point)
    _refuse_unbound(rule.head.variables, bound, "the head", rule.head, rule, point)
    _check_body_safe(rule, bound, rule, point)


def _check_body_safe(body: Rule | Aggregate, bound: Collection[Variable], rule: Rule, point: _Point) -> None:
    for atom in body.atoms:
        for term in atom.terms:
            if isinstance(term, Call):
                _refuse_unbound(variables_of([term]), bound, "the argument '{}'", term, rule, point)
    for comparison in body.comparisons:
        _refuse_unbound(comparison.variables, bound, "the comparison '{}'", comparison, rule, point)
    for atom in body.negated:
        named = [variable for variable in atom.variables if not variable.is_wildcard or variable not in atom.terms]
        _refuse_unbound(named, bound, "the negated '!{}'", atom, rule, point)


def _check_aggregate_safe(
    aggregate: Aggregate,
    outside: Collection[Variable],
    bound: Collection[Variable],
    rule: Rule,
    point: _Point,
) -> None:
    """Check an aggregate of a body whose bound variables are `bound`."""
    keys = keys_of(aggregate, outside)
    _refuse_unbound(keys, bound, "the aggregate '{}'", aggregate, rule, point)
    inner_outside = {*outside, *standing(aggregate)}
    inner_bound = bound_variables(aggregate, inner_outside, keys)
    _check_body_safe(aggregate, inner_bound, rule, point)
    if aggregate.value is not None:
        _refuse_unbound(variables_of([aggregate.value]), inner_bound, "the aggregate '{}'", aggregate, rule, point)
    for inner in inner_aggregates(aggregate):
        _check_aggregate_safe(inner, inner_outside, inner_bound, rule, point)


def _refuse_unbound(
    variables: Iterable[Variable],
    bound: Collection[Variable],
    place: str,
    part: Atom | Comparison | Aggregate | Call,
    rule: Rule,
    point: _Point,
) -> None:
    """Raise for a variable that is not bound; the place is a template for the text of the part."""
    for variable in variables:
        if variable not in bound:
            name, where = str(variable), place.format(_short(part))
            counterpart = name.removesuffix("?") if name.endswith("?") else f"{name}?"
            missing = counterpart if Variable(counterpart) in bound else None
            raise UnsafeRuleError(name, where, _short(rule), missing, lambda what: point(what, part.span))


def _check_constants(rule: Rule | Aggregate, point: _Point) -> None:
    for aggregate in inner_aggregates(rule):
        _check_constants(aggregate, point)
    comparisons = [comparison for comparison in rule.comparisons if not comparison.is_null_test]
    for comparison in comparisons:
        left, right = comparison.left, comparison.right
        if isinstance(left, Constant) and isinstance(right, Constant) and not _compare(left, right):
            what = f"'{_short(comparison)}' compares {_kind(left)} with {_kind(right)}; they do not compare"
            raise TypeMismatchError(point(what, comparison.span))

    compared: dict[Variable, Constant] = {}
    for comparison in comparisons:
        for variable, constant in ((comparison.left, comparison.right), (comparison.right, comparison.left)):
            if isinstance(variable, Variable) and isinstance(constant, Constant):
                previous = compared.setdefault(variable, constant)
                if _group(previous) != _group(constant):
                    before = f"'{variable}' is compared with {_kind(previous)}, {_short(previous)}"
                    raise TypeMismatchError(point(f"{before}, and here with {_kind(constant)}", comparison.span))


def _check_head_constants(rules: Rules, point: _Point) -> None:
    first: dict[tuple[str, int], Constant] = {}
    for head in (rule.head for rule in rules.rules):
        for column, term in enumerate(head.terms):
            if isinstance(term, Constant) and term != NULL:
                previous = first.setdefault((head.relation, column), term)
                if _group(previous) != _group(term):
                    place = f"column {column} of '{head.relation}'"
                    what = f"{place} is {_kind(previous)}, {_short(previous)}, in another rule, and here {_kind(term)}"
                    raise TypeMismatchError(point(what, head.span))


def _group(constant: Constant) -> str:
    return "a number" if type(constant.value) in (int, float, Decimal) else _kind(constant)


def _compare(left: Constant, right: Constant) -> bool:
    """Return whether two constants have the same type, or are a decimal and an integer."""
    kinds = {type(left.value), type(right.value)}
    return len(kinds) == 1 or kinds == {int, Decimal}


def _kind(constant: Constant) -> str:
    return _TYPE_WORDS[type(constant.value)]


def _short(piece: object) -> str:
    text = str(piece)
    return text if len(text) <= _MAX_TEXT_LENGTH else f"{text[:_MAX_TEXT_LENGTH]}..."
