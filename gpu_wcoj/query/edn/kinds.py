"""Types of a query's variables: a set for each that is still possible, narrowed clause by clause.

A column of the engine has one type, and the store has one relation per type of value, so a pattern whose attribute is
a variable is written down once for each type that its value can have. None stands for any type: that of a column or an
attribute of which nothing is known yet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.edn.clauses import (
    Blank,
    Call,
    Clause,
    Const,
    Function,
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
from gpu_wcoj.query.terms import Span

Set = frozenset[str] | None
Env = dict[Var, Set]

LONG, DOUBLE = frozenset({"long"}), frozenset({"double"})
NUMBERS = LONG | DOUBLE
WORDS = frozenset({"string", "keyword"})
UNORDERED = {"keyword", "boolean", "uuid", "bytes"}
UNEQUAL = ("!=", "not=")
MOST = 64
"""How many combinations of types the variables of one scope may have."""


def meet(left: Set, right: Set) -> Set:
    """The types that both allow."""
    if left is None or right is None:
        return right if left is None else left
    for one, other in ((left, right), (right, left)):
        if OPAQUE in one and other:
            return other if len(other) == 1 else frozenset({OPAQUE})
    found = left & right
    if TEXT in left:
        found |= right & WORDS
    if TEXT in right:
        found |= left & WORDS
    return found - {TEXT} if found & WORDS else found


def join(left: Set, right: Set) -> Set:
    """The types that one of them allows."""
    if left is None or right is None:
        return None
    found = left | right
    if OPAQUE in found:
        return frozenset({OPAQUE})
    return found - WORDS if TEXT in found else found


def value_type(kind: str) -> str:
    """The type of values of an attribute of some type."""
    return "long" if kind == "ref" else kind


class Kinds:
    """Works types out.

    Attributes
    ----------
    is_wide
        Whether values of any attribute may have any type; else only those types that attributes have now.
    places
        Per rule, the types that its places can have.
    """

    def __init__(self, sources: Mapping[str, Source], rules: Mapping[str, RuleSet], is_wide: bool = False) -> None:
        self.sources, self.rules, self.is_wide = sources, rules, is_wide
        self.places: dict[str, list[Set]] = {name: [frozenset() for _ in rule.required] for name, rule in rules.items()}
        self.reason: str | None = None
        self.known: dict[tuple[int, tuple[Set, ...]], tuple[Sequence[Clause], Env | None]] = {}
        changed = True
        ways = itertools.cycle((list(rules.items()), list(rules.items())[::-1]))
        while changed:
            changed = False
            for name, rule in next(ways):
                for branch in rule.branches:
                    found = self.infer(branch.text, branch.clauses, {})
                    if found is None:
                        continue
                    for at, variable in enumerate(branch.head):
                        wider = join(self.places[name][at], found.get(variable))
                        if wider != self.places[name][at]:
                            self.places[name][at] = wider
                            self.known.clear()
                            changed = True

    def check(self, text: Text, clauses: Sequence[Clause], env: Env) -> Env:
        """The types of the variables of a scope.

        Raises
        ------
        TypeMismatchError
            If no types fit, here or in an ``or`` or ``not`` inside, so that nothing can ever match.
        """
        self.reason = None
        self.known.clear()  # what is known has its reasons no more
        found = self.infer(text, clauses, env)
        if found is None:
            raise TypeMismatchError(self._noted() or text.pointed("no types fit these clauses", Span()))
        for clause in clauses:
            if isinstance(clause, Predicate) and clause.op in UNEQUAL:
                left, right = (self.types(term, found) for term in clause.terms)
                if not _comparable(left, right, "="):
                    raise TypeMismatchError(self._compares(text, clause, (left, right), is_ordered=False))
            elif isinstance(clause, Or):
                for branch in clause.branches:
                    _ = self.check(text, branch, _within(clause, found))
            elif isinstance(clause, Not):
                _ = self.check(text, clause.clauses, _within(clause, found))
        return found

    def _noted(self) -> str | None:
        return self.reason

    def check_rules(self) -> None:
        """As `check`, of all rules."""
        for name, rule in self.rules.items():
            if any(one == frozenset() for one in self.places[name]):
                first = rule.branches[0]
                what = f"no clause gives '{rule.name}' a value: each of its branches needs another that has one"
                for branch in rule.branches:
                    self.reason = None
                    self.known.clear()
                    if self.infer(branch.text, branch.clauses, {}) is None and self.reason:
                        raise TypeMismatchError(self.reason)
                raise TypeMismatchError(first.text.pointed(what, first.span))
            for branch in rule.branches:
                _ = self.check(branch.text, branch.clauses, {})

    def assigned(self, text: Text, clauses: Sequence[Clause], env: Env) -> Iterator[Env]:
        """The ways to give each variable of a scope one type."""
        waiting: list[Env] = [env]
        number = 0
        while waiting:
            found = self.infer(text, clauses, waiting.pop())
            if found is None:
                continue
            open_ = next((one for one, types in found.items() if types is not None and len(types) > 1), None)
            if open_ is None:
                number += 1
                if number > MOST:
                    what = f"the variables can have more than {MOST} combinations of types; name attributes"
                    raise text.unsupported(what, clauses[0].span)
                yield found
                continue
            types = found[open_]
            assert types is not None
            waiting += [{**found, open_: frozenset({one})} for one in sorted(types, reverse=True)]

    def infer(self, text: Text, clauses: Sequence[Clause], env: Env) -> Env | None:
        """The types that fit all clauses; None if there are none."""
        found = dict(env)
        ways = itertools.cycle((clauses, clauses[::-1]))  # what one clause says may concern those before it
        while True:
            before = dict(found)
            for clause in next(ways):
                if not self._narrow(text, clause, found):
                    return None
            if found == before:
                return found

    def _narrow(self, text: Text, clause: Clause, env: Env) -> bool:
        if isinstance(clause, Pattern):
            return all(
                self._meet(text, env, term, types, clause.span)
                for term, types in zip(clause.terms, self.columns(clause), strict=True)
            )
        if isinstance(clause, Call):
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
        """Per term of a pattern, the types that its column can have."""
        assert clause.source is not None
        source = source_of(self.sources, clause.source)
        if isinstance(source, Relation):
            types = source.types or (None,) * len(clause.terms)
            return [frozenset({type_of_column(one)}) for one in types]
        assert isinstance(source, Datoms)
        _, key, value = clause.terms
        if isinstance(key, Const):
            known = source.attributes.get(str(key.value))
            kinds = None if known is None else frozenset({value_type(known.type)})
        elif isinstance(value, Const):
            kinds = None
        elif self.is_wide:
            kinds = frozenset(map(value_type, TYPES))
        else:
            kinds = frozenset(value_type(one.type) for one in source.attributes.values()) or None
        return [LONG, frozenset({"keyword"}), kinds]

    def types(self, term: Term, env: Env) -> Set:
        """The types that a term can have."""
        if isinstance(term, Const):
            return frozenset({term.type})
        return env.get(term) if isinstance(term, Var) else None

    def _meet(self, text: Text, env: Env, term: Term, types: Set, span: Span) -> bool:
        if isinstance(term, Blank):
            return types != frozenset()
        known = self.types(term, env)
        found = meet(known, types)
        if found == frozenset():
            if known and types:
                place = term.span if term.span.line else span
                what = f"'{term}' is {_words(known)}, and here stands {_words(types)}, so nothing can match"
                if isinstance(term, Const) and known == LONG and types == DOUBLE:
                    what += f"; write {term}.0"
                self._note(text.pointed(what, place))
            return False
        if isinstance(term, Var):
            env[term] = found
        return True

    def _note(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _or(self, text: Text, clause: Or, env: Env) -> bool:
        assert clause.variables is not None
        total: dict[Var, Set] | None = None
        for branch in clause.branches:
            key = id(branch), tuple(env.get(one) for one in clause.variables)
            if key not in self.known:
                self.known[key] = branch, self.infer(text, branch, _within(clause, env))
            found = self.known[key][1]
            if found is None:
                continue
            own = {one: found.get(one) for one in clause.variables}
            total = own if total is None else {one: join(total[one], own[one]) for one in own}
        if total is None:
            return False
        env.update(total)
        return True

    def _predicate(self, text: Text, clause: Predicate, env: Env) -> bool:
        sets = [self.types(term, env) for term in clause.terms]
        op = clause.op
        if op in TESTS or op in PARITY:
            wanted = NUMBERS if op in TESTS else LONG
            return self._meet(text, env, clause.terms[0], wanted, clause.span)
        if op in UNEQUAL:  # values of two types are so
            return True
        is_ordered = op not in ("=", "==")
        changed = True
        while changed:
            changed = False
            for at, own in enumerate(sets):
                narrowed = own
                for other in sets:
                    narrowed = _comparable(narrowed, other, op)
                if is_ordered and narrowed is not None:
                    narrowed -= UNORDERED
                if narrowed == frozenset():
                    if all(sets):
                        self._note(self._compares(text, clause, sets, is_ordered))
                    return False
                changed = changed or narrowed != own
                sets[at] = narrowed
        for term, types in zip(clause.terms, sets, strict=True):
            if isinstance(term, Var):
                env[term] = types
        return True

    def _compares(self, text: Text, clause: Predicate, sets: Sequence[Set], is_ordered: bool) -> str:
        words = " and ".join(dict.fromkeys(_words(one) for one in sets))
        if is_ordered and any(one is not None and one <= UNORDERED for one in sets):
            what = f"'{clause.op}' puts {words} in order; numbers, strings and instants have one"
        elif clause.op in ("=", *UNEQUAL) and all(one is not None and one <= NUMBERS for one in sets):
            what = f"'{clause.op}' compares {words}, which are never equal; compare with '==', or write 5.0 for 5"
        else:
            what = f"'{clause.op}' compares {words}"
        return text.pointed(what, clause.span)

    def _function(self, text: Text, clause: Function, env: Env) -> bool:
        op, terms, result, span = clause.op, clause.terms, clause.result, clause.span
        if op == "identity":
            types = meet(self.types(terms[0], env), self.types(result, env))
            return all(self._meet(text, env, one, types, span) for one in (result, terms[0]))
        if op == "count":
            return self._meet(text, env, terms[0], frozenset({"string"}), span) and self._meet(
                text, env, result, LONG, span
            )
        if op == "str":
            given = (self._meet(text, env, one, WORDS, span) for one in terms if isinstance(one, Var))
            return all(given) and self._meet(text, env, result, frozenset({"string"}), span)
        wanted = LONG if op in ("quot", "rem", "mod") else NUMBERS
        if not all(self._meet(text, env, one, wanted, span) for one in terms):
            return False
        sets = [self.types(one, env) for one in terms]
        if any(one is not None and OPAQUE in one for one in sets):
            return self._meet(text, env, result, frozenset({OPAQUE}), span)
        if op == "/" and all(one == LONG for one in sets):
            what = "'/' of longs is a ratio in Clojure, which has no type here; use quot, or divide doubles"
            self._note(text.pointed(what, span))
            return False
        if op == "/":
            return self._meet(text, env, result, DOUBLE, span)
        can_be: Set = DOUBLE if DOUBLE in sets else LONG if all(one == LONG for one in sets) else NUMBERS
        if not self._meet(text, env, result, can_be, span):
            return False
        if self.types(result, env) == LONG:
            return all(self._meet(text, env, one, LONG, span) for one in terms)
        return True


def _within(clause: Or | Not, env: Env) -> Env:
    assert clause.variables is not None
    return {one: env.get(one) for one in clause.variables}


def _comparable(own: Set, other: Set, op: str) -> Set:
    """The types of `own` that compare with one of `other`."""
    if other is None or OPAQUE in other:
        return own
    if op == "=":
        return meet(own, other)
    wanted: frozenset[str] = other
    if other & NUMBERS:
        wanted |= NUMBERS
    if op == "==":
        wanted &= NUMBERS
    return meet(own, wanted)


_NAMES = {"long": "a long", "double": "a double", TEXT: "a text", "instant": "an instant", "uuid": "a uuid"}


def _words(types: Set) -> str:
    if types is None or OPAQUE in types:
        return "a value of any type"
    return " or ".join(_NAMES.get(one, f"a {one}") for one in sorted(types))
