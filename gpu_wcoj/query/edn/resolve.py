"""Type inference: the possible types of each variable, narrowed clause by clause.

A column of the engine has one type, and the store has one relation per type of value, so a pattern whose attribute is
a variable is compiled once for each type that its value can have. None stands for any type: the type of a column or
an attribute that is not yet known.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gpu_wcoj.errors import TypeMismatchError, UnknownAttributeError, counted, nearest
from gpu_wcoj.query.edn.ast import (
    OPAQUE,
    PARITY,
    TESTS,
    TEXT,
    TEXT_FUNCTIONS,
    TEXT_TESTS,
    TYPES,
    Blank,
    Branch,
    Clause,
    Const,
    Datoms,
    Function,
    FunctionCall,
    Lookup,
    Not,
    Or,
    Pattern,
    Predicate,
    Relation,
    Rows,
    RuleSet,
    Source,
    Term,
    Text,
    Var,
    forward_attribute,
    source_of,
    type_of_column,
    variables_of,
)
from gpu_wcoj.query.edn.parse import ClauseReader, substitute
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
        if op in TEXT_TESTS:
            return all(self._meet(text, env, term, frozenset({"string"}), clause.span) for term in clause.terms)
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
        if op in TEXT_FUNCTIONS:
            of_result = LONG if op == "count" else frozenset({"string"})
            return self._meet(text, env, terms[0], frozenset({"string"}), span) and self._meet(
                text, env, result, of_result, span
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


# Source resolution: explicit sources, relations and rules, expanded lookup refs.


DEFAULT = "$"
IDENT = ":db/ident"


@dataclass(frozen=True)
class ResolvedQuery:
    """A query with resolved sources; rules are keyed by name and source.

    Attributes
    ----------
    unknown
        Sources and attributes whose type is not known.
    undeclared
        Attributes that occur neither in the schema nor in a datom of their source, with a message for each.
    open
        The sources read by patterns whose attribute is a variable.
    reached
        Per rule, the rules that it calls directly or indirectly.
    """

    clauses: tuple[Clause, ...]
    rules: Mapping[str, RuleSet]
    unknown: frozenset[tuple[str, str]]
    undeclared: Mapping[str, str]
    open: frozenset[str]
    reached: Mapping[str, AbstractSet[str]]


def resolve_sources(
    text: Text,
    clauses: tuple[Clause, ...],
    rules: Mapping[str, RuleSet],
    sources: Mapping[str, Source],
    reader: ClauseReader,
    constants: Mapping[Var, Const],
) -> ResolvedQuery:
    """Resolve the sources of a query and its reachable rules, and substitute constants."""
    placing = _SourceResolver(rules, sources, reader)
    bound = tuple(_with_constants(clause, constants) for clause in clauses)
    placed_clauses = placing.clauses(text, bound, DEFAULT)
    done: dict[str, RuleSet] = {}
    while placing.waiting:
        key, (name, source) = placing.waiting.popitem()
        rule = rules[name]
        placing.here = key
        branches = tuple(
            Branch(branch.head, placing.clauses(branch.text, branch.clauses, source), branch.text, branch.span)
            for branch in rule.branches
        )
        done[key] = RuleSet(name, branches, rule.required)
    reached = _reachable_rules(done, placing.calls)
    _refuse_negation(done, placing.calls, reached)
    return ResolvedQuery(
        placed_clauses, done, frozenset(placing.unknown), placing.undeclared, frozenset(placing.open), reached
    )


def _with_constants(clause: Clause, constants: Mapping[Var, Const]) -> Clause:
    if not any(variable in constants for variable in variables_of(clause)):
        return clause
    return substitute(clause, constants)


Calls = Mapping[str, Sequence[tuple[Text, FunctionCall, bool]]]


def _reachable_rules(rules: Mapping[str, RuleSet], calls: Calls) -> Mapping[str, AbstractSet[str]]:
    reached: dict[str, set[str]] = {}
    for name in rules:
        waiting, reachable = [name], set[str]()
        while waiting:
            for _, call, _ in calls.get(waiting.pop(), ()):
                if call.name not in reachable:
                    reachable.add(call.name)
                    waiting.append(call.name)
        reached[name] = reachable
    return reached


def _refuse_negation(rules: Mapping[str, RuleSet], calls: Calls, reached: Mapping[str, AbstractSet[str]]) -> None:
    """Raise for negation through recursion."""
    for name, rule in rules.items():
        for text, call, is_negated in calls.get(name, ()):
            if is_negated and (call.name == name or name in reached[call.name]):
                what = (
                    f"negation through recursion is not supported: '{rule.name}' negates '{rules[call.name].name}',"
                    f" which needs '{rule.name}'"
                )
                raise text.unsupported(what, call.span)


class _SourceResolver:
    def __init__(self, rules: Mapping[str, RuleSet], sources: Mapping[str, Source], reader: ClauseReader) -> None:
        self.rules, self.sources, self.reader = rules, sources, reader
        self.waiting: dict[str, tuple[str, str]] = {}
        self.seen: set[str] = set()
        self.here = ""
        self.n_nots = 0
        self.calls: dict[str, list[tuple[Text, FunctionCall, bool]]] = {}
        self.unknown: set[tuple[str, str]] = set()
        self.undeclared: dict[str, str] = {}
        self.open: set[str] = set()

    def clauses(self, text: Text, clauses: tuple[Clause, ...], source: str) -> tuple[Clause, ...]:
        return tuple(resolved for clause in clauses for resolved in self.clause(text, clause, source))

    def clause(self, text: Text, clause: Clause, source: str) -> Iterator[Clause]:
        if isinstance(clause, Pattern):
            yield from self.pattern(text, clause, clause.source or source)
        elif isinstance(clause, FunctionCall):
            yield from self.call(text, clause, clause.source or source)
        elif isinstance(clause, Not):
            self.n_nots += 1
            inner = self.clauses(text, clause.clauses, clause.source or source)
            self.n_nots -= 1
            yield replace(clause, clauses=inner)
        elif isinstance(clause, Or):
            branches = tuple(self.clauses(text, branch, clause.source or source) for branch in clause.branches)
            yield replace(clause, branches=branches)
        else:
            yield clause

    def call(self, text: Text, clause: FunctionCall, source: str) -> Iterator[Clause]:
        if clause.name in self.rules:
            rule = self.rules[clause.name]
            if len(clause.terms) != len(rule.required):
                what = f"the rule '{clause.name}' takes {counted(len(rule.required), 'term')}: got {len(clause.terms)}"
                raise text.error(what, clause.span)
            key = clause.name if source == DEFAULT else f"{clause.name}@{source}"
            if key not in self.seen:
                self.seen.add(key)
                self.waiting[key] = (clause.name, source)
            terms = tuple(self.reader.fresh("_") if isinstance(term, Blank) else term for term in clause.terms)
            placed = replace(clause, name=key, source=source, terms=terms)
            self.calls.setdefault(self.here, []).append((text, placed, self.n_nots > 0))
            yield placed
            return
        source_value = source_of(self.sources, clause.name)
        if isinstance(source_value, Relation) and clause.source is None:
            yield from self.pattern(text, Pattern(clause.name, clause.terms, clause.span), clause.name)
            return
        relations = [name.removeprefix("$") for name, source_ in self.sources.items() if isinstance(source_, Relation)]
        candidates = sorted({*self.rules, *relations} - {""})
        listing = ", ".join(f"'{name}'" for name in candidates) or "none"
        what = f"unknown rule '{clause.name}': expected one of {listing}.{nearest(clause.name, candidates)}"
        raise text.error(what, clause.span, missing=clause.name)

    def pattern(self, text: Text, clause: Pattern, name: str) -> Iterator[Clause]:
        source = source_of(self.sources, name)
        if source is None:
            names = sorted(self.sources)
            listing = ", ".join(f"'{name_}'" for name_ in names) or "none"
            what = f"unknown source '{name}': expected one of {listing}.{nearest(name, names)}"
            if name == "$" and any(names):
                what += f" Name the table of a clause: [${names[0].removeprefix('$')} ?a ...]."
            raise text.error(what, clause.span, missing=name.removeprefix("$"))
        terms = list(clause.terms)
        if isinstance(source, Relation):
            arity = len(source.columns)
            if arity and len(terms) > arity:
                what = f"'{name}' has {counted(arity, 'column')}: got {counted(len(terms), 'term')}"
                raise text.error(what, clause.span)
            terms += [Blank()] * (arity - len(terms))
            for term in terms:
                if isinstance(term, Lookup):
                    raise text.error("a lookup ref needs a database of datoms", term.span)
            yield replace(clause, source=name, terms=tuple(terms))
            return
        if len(terms) > 3:
            what = "a pattern has an entity, an attribute and a value; transactions cannot be queried"
            raise text.unsupported(what, clause.span)
        terms += [Blank()] * (3 - len(terms))
        yield from self.datoms(text, clause, name, source, terms)

    def datoms(self, text: Text, clause: Pattern, name: str, source: Datoms, terms: list[Term]) -> Iterator[Clause]:
        entity, key, value = terms
        if isinstance(key, Lookup):
            raise text.error("an attribute is a keyword or a variable", key.span)
        if isinstance(key, Const):
            if key.type not in ("keyword", TEXT) or not str(key.value).startswith(":"):
                raise text.error(f"an attribute is a keyword such as :name: got '{key}'", _place(key, clause))
            forward = _forward(source, str(key.value))
            if forward is not None:
                self.check_reversed(text, clause, source, key, forward)
                entity, key, value = value, replace(key, value=forward), entity
        if isinstance(entity, Const) and entity.type in ("keyword", TEXT):
            entity = self.ident(text, source, entity)
        if isinstance(key, Const):
            declared = source.attributes.get(str(key.value))
            if declared is None:
                self.note_unknown(text, name, source, str(key.value), _place(key, clause))
            if declared and declared.type == "ref" and isinstance(value, Const) and value.type in ("keyword", TEXT):
                value = self.ident(text, source, value)
            if isinstance(value, Lookup) and declared and declared.type != "ref":
                what = f"a lookup ref denotes an entity, but '{key.value}' holds values of type {declared.type}"
                raise TypeMismatchError(text.pointed(what, value.span))
        elif isinstance(value, Lookup):
            raise text.error("a lookup ref as a value needs an attribute that is a ref", value.span)
        if not isinstance(key, Const):
            self.open.add(name)
        ends: list[Term] = []
        for term in (entity, value):
            if not isinstance(term, Lookup):
                ends.append(term)
                continue
            declared = source.attributes.get(term.attribute)
            if _forward(source, term.attribute) is not None:
                what = (
                    f"a lookup ref needs a unique attribute: got '{term.attribute}', which is reversed;"
                    " write a clause instead"
                )
                raise text.error(what, term.span)
            if declared is None:
                self.note_unknown(text, name, source, term.attribute, term.span)
            if declared and not declared.unique:
                what = (
                    f"a lookup ref needs a unique attribute: got '{term.attribute}', which is not unique;"
                    " write a clause instead"
                )
                raise text.error(what, term.span)
            fresh = self.reader.fresh("?entity")
            attribute = Const(term.attribute, "keyword", term.span)
            inner: Term = term.value
            if declared and declared.type == "ref" and isinstance(inner, Const) and inner.type in ("keyword", TEXT):
                raise text.unsupported(
                    "an ident within a lookup ref is not supported; write a clause instead", term.span
                )
            yield Pattern(name, (fresh, attribute, inner), term.span, is_lookup=True)
            ends.append(fresh)
        yield replace(clause, source=name, terms=(ends[0], key, ends[1]))

    def check_reversed(self, text: Text, clause: Pattern, source: Datoms, key: Const, forward: str) -> None:
        """Raise for a reversed attribute that is not of type ref, or of a single-value function."""
        declared = source.attributes.get(forward)
        if declared is not None and declared.type != "ref":
            what = (
                f"'{key.value}' reads '{forward}' in reverse, which needs an attribute of type ref, but '{forward}'"
                f" is of type {declared.type}; write [?x {forward} ?e], or declare it as :db.type/ref"
            )
            raise TypeMismatchError(text.pointed(what, _place(key, clause)))
        if clause.caller:
            what = (
                f"'{clause.caller}' reads one value, and any number of entities can refer to one by '{forward}'; write"
                f" [?x {forward} ?e] for those that do, and [(missing? $ ?e {key.value})] for none"
            )
            raise text.unsupported(what, _place(key, clause))

    def note_unknown(self, text: Text, name: str, source: Datoms, attribute: str, place: Span) -> None:
        """Record an attribute of unknown type; raise or warn if it is not declared.

        Raises
        ------
        UnknownAttributeError
            If the attribute is not declared, and the schema is strict.
        """
        self.unknown.add((name, attribute))
        declared = {*source.attributes, *source.untyped}
        if attribute in declared:
            return
        if source.is_strict:
            where = text.pointed(f"attribute '{attribute}' is not in the schema, which is strict", place)
            raise UnknownAttributeError(attribute, declared, where)
        if declared:  # an empty database has no names to compare with
            where = text.pointed(f"attribute '{attribute}' occurs neither in a datom nor in the schema", place)
            hint = "Declare it with Database.define if it gets values later."
            self.undeclared.setdefault(attribute, f"{where}\n  {hint}{nearest(attribute, declared)}")

    def ident(self, text: Text, source: Datoms, constant: Const) -> Lookup:
        if IDENT not in source.attributes:
            what = (
                f"'{constant}' names an entity by {IDENT}, but no entity of this database has an ident;"
                " write the entity's number, or a lookup ref [:attribute value]"
            )
            raise text.error(what, constant.span)
        return Lookup(IDENT, Const(constant.value, "keyword", constant.span), constant.span)


def _forward(source: Datoms, attribute: str) -> str | None:
    """Return the attribute read by an undeclared reversed name; None for other names."""
    is_declared = attribute in source.attributes or attribute in source.untyped
    return None if is_declared else forward_attribute(attribute)


def _place(constant: Const, clause: Pattern) -> Span:
    return constant.span if constant.span.line else clause.span


# Scoping: an evaluation order of clauses, and the variables on which they join.
#
# A clause binds its variables (a pattern, a rule), or needs some of them bound (a predicate, a function's arguments,
# the variables that an ``or`` or ``not`` only tests). The order of clauses in the text does not matter.


Vars = frozenset[Var]


@dataclass(frozen=True)
class _Order:
    """An evaluation order of clauses, as far as their variables can be bound.

    Attributes
    ----------
    steps
        The clauses that can be evaluated, in order.
    bound
        The variables that are bound after all steps.
    waiting
        The other clauses, with their unbound variables.
    """

    steps: tuple[Clause, ...]
    bound: Vars
    waiting: tuple[tuple[Clause, Vars], ...]


class Scopes:
    """Resolver of scopes: orders clauses, and renames local variables.

    Attributes
    ----------
    needs
        Per rule, the arguments that its clauses do not bind and its callers must bind.
    """

    def __init__(self, rules: Mapping[str, RuleSet], reader: ClauseReader) -> None:
        self.rules, self.reader = rules, reader
        self.needs: dict[str, frozenset[int]] = dict.fromkeys(rules, frozenset())
        self.memo: dict[tuple[int, Vars], tuple[tuple[Clause, ...], _Order]] = {}
        changed = True
        orders = itertools.cycle((list(rules.items()), list(rules.items())[::-1]))
        while changed:
            changed = False
            for name, rule in next(orders):
                unbound = frozenset(place for branch in rule.branches for place in self._unbound_places(branch))
                if not unbound <= self.needs[name]:
                    self.needs[name] |= unbound
                    self.memo.clear()
                    changed = True

    def resolve(self, text: Text, clauses: tuple[Clause, ...], outer: Vars = frozenset()) -> tuple[Clause, ...]:
        """Return clauses in evaluation order, recursively within ``or`` and ``not``."""
        order = self._order(clauses, outer)
        self._refuse_waiting(text, order)
        return tuple(self._resolve_clause(text, step, order.bound) for step in order.steps)

    def rule(self, name: str) -> RuleSet:
        """Return a rule with its clauses in evaluation order."""
        rule = self.rules[name]
        branches = []
        for branch in rule.branches:
            needed = frozenset(
                variable
                for place, variable in enumerate(branch.head)
                if rule.required[place] or place in self.needs[name]
            )
            order = self._order(branch.clauses, needed)
            self._refuse_waiting(branch.text, order)
            clauses = tuple(self._resolve_clause(branch.text, step, order.bound) for step in order.steps)
            branches.append(replace(branch, clauses=clauses))
        return replace(rule, branches=tuple(branches))

    def bound(self, clauses: tuple[Clause, ...]) -> Vars:
        """Return the variables that clauses bind."""
        return self._order(clauses, frozenset()).bound

    def _unbound_places(self, branch: Branch) -> Iterable[int]:
        """Return the positions in a rule's head that a branch needs bound."""
        bound: Vars = frozenset()
        while True:
            order = self._order(branch.clauses, bound)
            missing = frozenset(variable for _, each in order.waiting for variable in each) | (
                set(branch.head) - order.bound
            )
            needed = frozenset(branch.head) & missing - bound
            if not needed:
                return [place for place, variable in enumerate(branch.head) if variable in bound]
            bound |= needed - _bindable(order) or needed

    def _order(self, clauses: tuple[Clause, ...], outer: Vars) -> _Order:
        key = id(clauses), outer
        if key not in self.memo:
            preliminary = self._compute_order(clauses, outer, frozenset())
            self.memo[key] = clauses, self._compute_order(clauses, outer, preliminary.bound)
        return self.memo[key][1]

    def _compute_order(self, clauses: tuple[Clause, ...], outer: Vars, final: Vars) -> _Order:
        """Compute the order, given that the variables of `final` will be bound at the end."""
        bound = set(outer)
        steps: list[Clause] = []
        ready: deque[int] = deque()  # calls and ``or`` come last, when their arguments are restricted
        deferred = deque(position for position, clause in enumerate(clauses) if isinstance(clause, (FunctionCall, Or)))
        ready.extend(
            position for position, clause in enumerate(clauses) if not isinstance(clause, (FunctionCall, Or, Not))
        )
        missing: dict[int, Vars] = {}
        asking: dict[Var, list[int]] = {}
        while ready or deferred:
            position = ready.popleft() if ready else deferred.popleft()
            needed, provided = self._links(clauses[position], bound, final)
            missing[position] = needed - bound
            if missing[position]:
                for variable in missing[position]:
                    asking.setdefault(variable, []).append(position)
                continue
            del missing[position]
            steps.append(clauses[position])
            for variable in provided - bound:
                bound.add(variable)
                for dependent in asking.pop(variable, ()):
                    queue = deferred if isinstance(clauses[dependent], (FunctionCall, Or)) else ready
                    if dependent in missing and dependent not in queue:
                        queue.append(dependent)
        for position, clause in enumerate(clauses):
            if isinstance(clause, Not):
                needed, _ = self._links(clause, bound, final)
                if needed - bound:
                    missing[position] = needed - bound
                else:
                    steps.append(clause)
        waiting = tuple((clauses[position], missing[position]) for position in sorted(missing))
        return _Order(tuple(steps), frozenset(bound), waiting)

    def _links(self, clause: Clause, bound: AbstractSet[Var], final: Vars) -> tuple[Vars, Vars]:
        """Return the variables that a clause needs, and the variables that it binds."""
        used = frozenset(variables_of(clause))
        if isinstance(clause, Predicate):
            return used, frozenset()
        if isinstance(clause, Function):
            arguments = frozenset(term for term in clause.terms if isinstance(term, Var))
            return arguments, used
        if isinstance(clause, FunctionCall):
            unbound_places = self.needs[clause.name]
            required = self.rules[clause.name].required
            needed = frozenset(
                term
                for place, term in enumerate(clause.terms)
                if isinstance(term, Var) and (place in unbound_places or required[place])
            )
            return needed, used
        if isinstance(clause, Or):
            effect = self._or(clause, used & bound)
            weak = used & final - effect.provided
            return effect.missing | weak, effect.provided
        if isinstance(clause, Not):
            order = self._order(clause.clauses, used & bound)
            missing = frozenset(variable for _, each in order.waiting for variable in each)
            if clause.variables is not None or not used & bound:
                missing |= used
            return missing, frozenset()
        return frozenset(), used

    def _or(self, clause: Or, bound: Vars) -> _Or:
        used = frozenset(variables_of(clause))
        orders = [self._order(branch, bound) for branch in clause.branches]
        missing = frozenset(variable for order in orders for _, each in order.waiting for variable in each)
        ends = [order.bound & used for order in orders]
        some = frozenset(variable for end in ends for variable in end)
        every = frozenset(variable for variable in some if all(variable in end for end in ends))
        missing |= some - every
        missing |= frozenset(clause.required) - bound
        if clause.variables is not None:
            missing |= used - every
        return _Or(missing, every)

    def _resolve_clause(self, text: Text, clause: Clause, bound: Vars) -> Clause:
        """Return a clause for a scope that binds `bound`, with its local variables renamed."""
        if not isinstance(clause, (Not, Or)):
            return clause
        used = tuple(dict.fromkeys(variables_of(clause)))
        joins = tuple(variable for variable in used if variable in bound)
        scope = next(self.reader.scopes)
        replacements = {variable: replace(variable, scope=scope) for variable in used if variable not in bound}
        if isinstance(clause, Not):
            inner = tuple(substitute(inner_clause, replacements) for inner_clause in clause.clauses)
            return replace(clause, variables=joins, clauses=self.resolve(text, inner, frozenset(joins)))
        branches = []
        joined = frozenset(joins)
        for branch in clause.branches:
            inner = tuple(substitute(inner_clause, replacements) for inner_clause in branch)
            branches.append(self.resolve(text, inner, joined))
        return replace(clause, variables=joins, branches=tuple(branches))

    def _refuse_waiting(self, text: Text, order: _Order) -> None:
        for clause, missing in order.waiting:
            if isinstance(clause, Not) and not missing & frozenset(variables_of(clause)):
                self._refuse_waiting(text, self._order(clause.clauses, order.bound))
            elif isinstance(clause, Or) and not missing & frozenset(variables_of(clause)):
                for branch in clause.branches:
                    self._refuse_waiting(text, self._order(branch, order.bound))
            names = list(dict.fromkeys(map(str, sorted(missing - _bindable(order) or missing, key=str))))
            listing = ", ".join(f"'{name}'" for name in names)
            what = f"insufficient bindings: {listing} {'is' if len(names) == 1 else 'are'} not bound by another clause"
            raise text.error(what, clause.span)


def _bindable(order: _Order) -> Vars:
    """Return the variables that the waiting clauses would bind."""
    variables: set[Var] = set()
    for clause, missing in order.waiting:
        if isinstance(clause, Function):
            variables |= {clause.result} - set(clause.terms) if isinstance(clause.result, Var) else set()
        elif isinstance(clause, (FunctionCall, Or)):
            variables |= set(variables_of(clause)) - missing
    return frozenset(variables)


@dataclass(frozen=True)
class _Or:
    """The variables that an ``or`` needs, and the variables that it binds."""

    missing: Vars
    provided: Vars
