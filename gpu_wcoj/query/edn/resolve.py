"""Type inference: the possible types of each variable, narrowed clause by clause.

A column of the engine has one type, and the store has one relation per type of value, so a pattern whose attribute is
a variable is compiled once for each type that its value can have. None stands for any type: the type of a column or
an attribute that is not yet known.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.edn.ast import (
    Blank,
    Clause,
    Const,
    Function,
    FunctionCall,
    Not,
    Or,
    Pattern,
    Predicate,
    Rows,
    RuleSet,
    Term,
    Text,
    Var,
)
from gpu_wcoj.query.edn.functions import PARITY, TESTS
from gpu_wcoj.query.edn.sources import OPAQUE, TEXT, TYPES, Datoms, Relation, Source, source_of, type_of_column
from gpu_wcoj.query.ir import Span

Set = frozenset[str] | None
Env = dict[Var, Set]

LONG, DOUBLE = frozenset({"long"}), frozenset({"double"})
NUMBERS = LONG | DOUBLE
WORDS = frozenset({"string", "keyword"})
UNORDERED = {"keyword", "boolean", "uuid", "bytes"}
UNEQUAL = ("!=", "not=")
MAX_ASSIGNMENTS = 64
"""The largest number of type combinations that the variables of a scope may have."""


def meet(left: Set, right: Set) -> Set:
    """Return the types that both sets allow."""
    if left is None or right is None:
        return right if left is None else left
    for opaque, types in ((left, right), (right, left)):
        if OPAQUE in opaque and types:
            return types if len(types) == 1 else frozenset({OPAQUE})
    common = left & right
    if TEXT in left:
        common |= right & WORDS
    if TEXT in right:
        common |= left & WORDS
    return common - {TEXT} if common & WORDS else common


def join(left: Set, right: Set) -> Set:
    """Return the types that at least one of the sets allows."""
    if left is None or right is None:
        return None
    types = left | right
    if OPAQUE in types:
        return frozenset({OPAQUE})
    return types - WORDS if TEXT in types else types


def value_type(kind: str) -> str:
    """Return the type of the values of an attribute of type `kind`."""
    return "long" if kind == "ref" else kind


class TypeInference:
    """Inference of the types of variables.

    Attributes
    ----------
    is_wide
        True if values of any attribute may have any type; else only the types of the present attributes.
    places
        Per rule, the possible types of its arguments.
    """

    def __init__(self, sources: Mapping[str, Source], rules: Mapping[str, RuleSet], is_wide: bool = False) -> None:
        self.sources, self.rules, self.is_wide = sources, rules, is_wide
        self.places: dict[str, list[Set]] = {name: [frozenset() for _ in rule.required] for name, rule in rules.items()}
        self.reason: str | None = None
        self.memo: dict[tuple[int, tuple[Set, ...]], tuple[Sequence[Clause], Env | None]] = {}
        changed = True
        orders = itertools.cycle((list(rules.items()), list(rules.items())[::-1]))
        while changed:
            changed = False
            for name, rule in next(orders):
                for branch in rule.branches:
                    env = self.infer(branch.text, branch.clauses, {})
                    if env is None:
                        continue
                    for place, variable in enumerate(branch.head):
                        wider = join(self.places[name][place], env.get(variable))
                        if wider != self.places[name][place]:
                            self.places[name][place] = wider
                            self.memo.clear()
                            changed = True

    def check(self, text: Text, clauses: Sequence[Clause], env: Env) -> Env:
        """Return the types of the variables of a scope.

        Raises
        ------
        TypeMismatchError
            If no types fit, here or in a nested ``or`` or ``not``, so that nothing can ever match.
        """
        self.reason = None
        self.memo.clear()  # the memo does not keep reasons
        typing = self.infer(text, clauses, env)
        if typing is None:
            raise TypeMismatchError(self._first_reason() or text.pointed("no types fit these clauses", Span()))
        for clause in clauses:
            if isinstance(clause, Predicate) and clause.op in UNEQUAL:
                left, right = (self.types(term, typing) for term in clause.terms)
                if not _narrow_comparable(left, right, "="):
                    raise TypeMismatchError(self._compares(text, clause, (left, right), is_ordered=False))
            elif isinstance(clause, Or):
                for branch in clause.branches:
                    _ = self.check(text, branch, _restrict(clause, typing))
            elif isinstance(clause, Not):
                _ = self.check(text, clause.clauses, _restrict(clause, typing))
        return typing

    def _first_reason(self) -> str | None:
        return self.reason

    def check_rules(self) -> None:
        """Check the types of all rules; see `check`."""
        for name, rule in self.rules.items():
            if any(types == frozenset() for types in self.places[name]):
                first = rule.branches[0]
                what = (
                    f"the rule '{rule.name}' never derives a row: each of its branches depends on a rule without rows"
                )
                for branch in rule.branches:
                    self.reason = None
                    self.memo.clear()
                    if self.infer(branch.text, branch.clauses, {}) is None and self.reason:
                        raise TypeMismatchError(self.reason)
                raise TypeMismatchError(first.text.pointed(what, first.span))
            for branch in rule.branches:
                _ = self.check(branch.text, branch.clauses, {})

    def assignments(self, text: Text, clauses: Sequence[Clause], env: Env) -> Iterator[Env]:
        """Yield each assignment of one type to every variable of a scope."""
        waiting: list[Env] = [env]
        n_assignments = 0
        while waiting:
            typing = self.infer(text, clauses, waiting.pop())
            if typing is None:
                continue
            open_ = next((variable for variable, types in typing.items() if types is not None and len(types) > 1), None)
            if open_ is None:
                n_assignments += 1
                if n_assignments > MAX_ASSIGNMENTS:
                    what = f"the variables can have more than {MAX_ASSIGNMENTS} combinations of types; name attributes"
                    raise text.unsupported(what, clauses[0].span)
                yield typing
                continue
            types = typing[open_]
            assert types is not None
            waiting += [{**typing, open_: frozenset({type_})} for type_ in sorted(types, reverse=True)]

    def infer(self, text: Text, clauses: Sequence[Clause], env: Env) -> Env | None:
        """Return the types that fit all clauses, or None if there are none."""
        typing = dict(env)
        orders = itertools.cycle((clauses, clauses[::-1]))  # a clause may narrow variables of earlier clauses
        while True:
            before = dict(typing)
            for clause in next(orders):
                if not self._narrow(text, clause, typing):
                    return None
            if typing == before:
                return typing

    def _narrow(self, text: Text, clause: Clause, env: Env) -> bool:
        if isinstance(clause, Pattern):
            return all(
                self._meet(text, env, term, types, clause.span)
                for term, types in zip(clause.terms, self.columns(clause), strict=True)
            )
        if isinstance(clause, FunctionCall):
            places = self.places[clause.name]
            return all(
                self._meet(text, env, term, types, clause.span)
                for term, types in zip(clause.terms, places, strict=True)
            )
        if isinstance(clause, Rows):
            return all(
                self._meet(text, env, term, None if kind is None else frozenset({kind}), clause.span)
                for term, kind in zip(clause.terms, clause.types, strict=True)
            )
        if isinstance(clause, Predicate):
            return self._predicate(text, clause, env)
        if isinstance(clause, Function):
            return self._function(text, clause, env)
        if isinstance(clause, Or):
            return self._or(text, clause, env)
        return True

    def columns(self, clause: Pattern) -> list[Set]:
        """Return the possible types of the column of each term of a pattern."""
        assert clause.source is not None
        source = source_of(self.sources, clause.source)
        if isinstance(source, Relation):
            types = source.types or (None,) * len(clause.terms)
            return [frozenset({type_of_column(column_type)}) for column_type in types]
        assert isinstance(source, Datoms)
        _, key, value = clause.terms
        if isinstance(key, Const):
            declared = source.attributes.get(str(key.value))
            kinds = None if declared is None else frozenset({value_type(declared.type)})
        elif isinstance(value, Const):
            kinds = None
        elif self.is_wide:
            kinds = frozenset(map(value_type, TYPES))
        else:
            kinds = frozenset(value_type(attribute.type) for attribute in source.attributes.values()) or None
        return [LONG, frozenset({"keyword"}), kinds]

    def types(self, term: Term, env: Env) -> Set:
        """Return the possible types of a term."""
        if isinstance(term, Const):
            return frozenset({term.type})
        return env.get(term) if isinstance(term, Var) else None

    def _meet(self, text: Text, env: Env, term: Term, types: Set, span: Span) -> bool:
        if isinstance(term, Blank):
            return types != frozenset()
        term_types = self.types(term, env)
        common = meet(term_types, types)
        if common == frozenset():
            if term_types and types:
                place = term.span if term.span.line else span
                what = (
                    f"'{term}' has the wrong type: got {_describe(term_types)}, expected {_describe(types)},"
                    " so nothing can match"
                )
                if isinstance(term, Const) and term_types == LONG and types == DOUBLE:
                    what += f"; write {term}.0"
                self._note(text.pointed(what, place))
            return False
        if isinstance(term, Var):
            env[term] = common
        return True

    def _note(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _or(self, text: Text, clause: Or, env: Env) -> bool:
        assert clause.variables is not None
        total: dict[Var, Set] | None = None
        for branch in clause.branches:
            key = id(branch), tuple(env.get(variable) for variable in clause.variables)
            if key not in self.memo:
                self.memo[key] = branch, self.infer(text, branch, _restrict(clause, env))
            typing = self.memo[key][1]
            if typing is None:
                continue
            branch_types = {variable: typing.get(variable) for variable in clause.variables}
            total = (
                branch_types
                if total is None
                else {variable: join(total[variable], branch_types[variable]) for variable in branch_types}
            )
        if total is None:
            return False
        env.update(total)
        return True

    def _predicate(self, text: Text, clause: Predicate, env: Env) -> bool:
        sets = [self.types(term, env) for term in clause.terms]
        op = clause.op
        if op in TESTS or op in PARITY:
            allowed = NUMBERS if op in TESTS else LONG
            return self._meet(text, env, clause.terms[0], allowed, clause.span)
        if op in UNEQUAL:  # values of two types are unequal
            return True
        is_ordered = op not in ("=", "==")
        changed = True
        while changed:
            changed = False
            for index, types in enumerate(sets):
                narrowed = types
                for operand in sets:
                    narrowed = _narrow_comparable(narrowed, operand, op)
                if is_ordered and narrowed is not None:
                    narrowed -= UNORDERED
                if narrowed == frozenset():
                    if all(sets):
                        self._note(self._compares(text, clause, sets, is_ordered))
                    return False
                changed = changed or narrowed != types
                sets[index] = narrowed
        for term, types in zip(clause.terms, sets, strict=True):
            if isinstance(term, Var):
                env[term] = types
        return True

    def _compares(self, text: Text, clause: Predicate, sets: Sequence[Set], is_ordered: bool) -> str:
        words = " and ".join(dict.fromkeys(_describe(types) for types in sets))
        if is_ordered and any(types is not None and types <= UNORDERED for types in sets):
            what = f"'{clause.op}' needs values that have an order: got {words}, expected numbers, strings or instants"
        elif clause.op in ("=", *UNEQUAL) and all(types is not None and types <= NUMBERS for types in sets):
            what = f"'{clause.op}' compares {words}, which are never equal; compare with '==', or write 5.0 for 5"
        else:
            what = f"'{clause.op}' compares {words}"
        return text.pointed(what, clause.span)

    def _function(self, text: Text, clause: Function, env: Env) -> bool:
        op, terms, result, span = clause.op, clause.terms, clause.result, clause.span
        if op == "identity":
            types = meet(self.types(terms[0], env), self.types(result, env))
            return all(self._meet(text, env, term, types, span) for term in (result, terms[0]))
        if op == "count":
            return self._meet(text, env, terms[0], frozenset({"string"}), span) and self._meet(
                text, env, result, LONG, span
            )
        if op == "str":
            conditions = (self._meet(text, env, term, WORDS, span) for term in terms if isinstance(term, Var))
            return all(conditions) and self._meet(text, env, result, frozenset({"string"}), span)
        allowed = LONG if op in ("quot", "rem", "mod") else NUMBERS
        if not all(self._meet(text, env, term, allowed, span) for term in terms):
            return False
        sets = [self.types(term, env) for term in terms]
        if any(types is not None and OPAQUE in types for types in sets):
            return self._meet(text, env, result, frozenset({OPAQUE}), span)
        if op == "/" and all(types == LONG for types in sets):
            what = "'/' of longs is a ratio in Clojure, which is not supported; use quot, or divide doubles"
            self._note(text.pointed(what, span))
            return False
        if op == "/":
            return self._meet(text, env, result, DOUBLE, span)
        can_be: Set = DOUBLE if DOUBLE in sets else LONG if all(types == LONG for types in sets) else NUMBERS
        if not self._meet(text, env, result, can_be, span):
            return False
        if self.types(result, env) == LONG:
            return all(self._meet(text, env, term, LONG, span) for term in terms)
        return True


def _restrict(clause: Or | Not, env: Env) -> Env:
    assert clause.variables is not None
    return {variable: env.get(variable) for variable in clause.variables}


def _narrow_comparable(types: Set, operand: Set, op: str) -> Set:
    """Return the part of `types` that compares with a type of `operand`."""
    if operand is None or OPAQUE in operand:
        return types
    if op == "=":
        return meet(types, operand)
    allowed: frozenset[str] = operand
    if operand & NUMBERS:
        allowed |= NUMBERS
    if op == "==":
        allowed &= NUMBERS
    return meet(types, allowed)


_NAMES = {"long": "a long", "double": "a double", TEXT: "a text", "instant": "an instant", "uuid": "a uuid"}


def _describe(types: Set) -> str:
    if types is None or OPAQUE in types:
        return "a value of any type"
    return " or ".join(_NAMES.get(type_, f"a {type_}") for type_ in sorted(types))
