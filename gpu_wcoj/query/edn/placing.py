"""Clauses of one source each: default sources filled in, relations told from rules, lookup refs spelled out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gpu_wcoj.errors import TypeMismatchError, UnknownAttributeError, nearest
from gpu_wcoj.query.edn.clauses import (
    Blank,
    Branch,
    Call,
    Clause,
    Const,
    Lookup,
    Not,
    Or,
    Pattern,
    RuleSet,
    Term,
    Text,
    Var,
    variables_of,
)
from gpu_wcoj.query.edn.sources import TEXT, Datoms, Relation, Source, forward_attribute, source_of
from gpu_wcoj.query.edn.where import Clauses, inside
from gpu_wcoj.query.terms import Span

DEFAULT = "$"
IDENT = ":db/ident"


@dataclass(frozen=True)
class Placed:
    """The clauses of a query, and its rules by name and the source that they read.

    Attributes
    ----------
    unknown
        Sources and attributes of which no type is known.
    undeclared
        Attributes that neither the schema nor a datom of their source has, and a message for each.
    open
        The sources that patterns read with any attribute.
    reached
        Per rule, those that it calls, and that these call.
    """

    clauses: tuple[Clause, ...]
    rules: Mapping[str, RuleSet]
    unknown: frozenset[tuple[str, str]]
    undeclared: Mapping[str, str]
    open: frozenset[str]
    reached: Mapping[str, AbstractSet[str]]


def placed(
    text: Text,
    clauses: tuple[Clause, ...],
    rules: Mapping[str, RuleSet],
    sources: Mapping[str, Source],
    reader: Clauses,
    constants: Mapping[Var, Const],
) -> Placed:
    """A query and the rules that it reaches, with every source written down and constants in their places."""
    placing = _Placing(rules, sources, reader)
    bound = tuple(_with_constants(one, constants) for one in clauses)
    found = placing.clauses(text, bound, DEFAULT)
    done: dict[str, RuleSet] = {}
    while placing.waiting:
        key, (name, source) = placing.waiting.popitem()
        rule = rules[name]
        placing.here = key
        branches = tuple(
            Branch(one.head, placing.clauses(one.text, one.clauses, source), one.text, one.span)
            for one in rule.branches
        )
        done[key] = RuleSet(name, branches, rule.required)
    reached = _reached(done, placing.calls)
    _refuse_negation(done, placing.calls, reached)
    return Placed(found, done, frozenset(placing.unknown), placing.undeclared, frozenset(placing.open), reached)


def _with_constants(clause: Clause, constants: Mapping[Var, Const]) -> Clause:
    if not any(one in constants for one in variables_of(clause)):
        return clause
    return inside(clause, constants)


Calls = Mapping[str, Sequence[tuple[Text, Call, bool]]]


def _reached(rules: Mapping[str, RuleSet], calls: Calls) -> Mapping[str, AbstractSet[str]]:
    reached: dict[str, set[str]] = {}
    for name in rules:
        waiting, found = [name], set[str]()
        while waiting:
            for _, call, _ in calls.get(waiting.pop(), ()):
                if call.name not in found:
                    found.add(call.name)
                    waiting.append(call.name)
        reached[name] = found
    return reached


def _refuse_negation(rules: Mapping[str, RuleSet], calls: Calls, reached: Mapping[str, AbstractSet[str]]) -> None:
    """Raise for a rule that negates one which calls it."""
    for name, rule in rules.items():
        for text, call, is_negated in calls.get(name, ()):
            if is_negated and (call.name == name or name in reached[call.name]):
                what = (
                    f"negation through recursion is not supported: '{rule.name}' negates '{rules[call.name].name}',"
                    f" which needs '{rule.name}'"
                )
                raise text.unsupported(what, call.span)


class _Placing:
    def __init__(self, rules: Mapping[str, RuleSet], sources: Mapping[str, Source], reader: Clauses) -> None:
        self.rules, self.sources, self.reader = rules, sources, reader
        self.waiting: dict[str, tuple[str, str]] = {}
        self.known: set[str] = set()
        self.here = ""
        self.n_nots = 0
        self.calls: dict[str, list[tuple[Text, Call, bool]]] = {}
        self.unknown: set[tuple[str, str]] = set()
        self.undeclared: dict[str, str] = {}
        self.open: set[str] = set()

    def clauses(self, text: Text, clauses: tuple[Clause, ...], source: str) -> tuple[Clause, ...]:
        return tuple(one for clause in clauses for one in self.clause(text, clause, source))

    def clause(self, text: Text, clause: Clause, source: str) -> Iterator[Clause]:
        if isinstance(clause, Pattern):
            yield from self.pattern(text, clause, clause.source or source)
        elif isinstance(clause, Call):
            yield from self.call(text, clause, clause.source or source)
        elif isinstance(clause, Not):
            self.n_nots += 1
            inner = self.clauses(text, clause.clauses, clause.source or source)
            self.n_nots -= 1
            yield replace(clause, clauses=inner)
        elif isinstance(clause, Or):
            branches = tuple(self.clauses(text, one, clause.source or source) for one in clause.branches)
            yield replace(clause, branches=branches)
        else:
            yield clause

    def call(self, text: Text, clause: Call, source: str) -> Iterator[Clause]:
        if clause.name in self.rules:
            rule = self.rules[clause.name]
            if len(clause.terms) != len(rule.required):
                what = f"the rule '{clause.name}' takes {len(rule.required)} terms, and here are {len(clause.terms)}"
                raise text.error(what, clause.span)
            key = clause.name if source == DEFAULT else f"{clause.name}@{source}"
            if key not in self.known:
                self.known.add(key)
                self.waiting[key] = (clause.name, source)
            terms = tuple(self.reader.fresh("_") if isinstance(one, Blank) else one for one in clause.terms)
            placed = replace(clause, name=key, source=source, terms=terms)
            self.calls.setdefault(self.here, []).append((text, placed, self.n_nots > 0))
            yield placed
            return
        found = source_of(self.sources, clause.name)
        if isinstance(found, Relation) and clause.source is None:
            yield from self.pattern(text, Pattern(clause.name, clause.terms, clause.span), clause.name)
            return
        relations = [name.removeprefix("$") for name, one in self.sources.items() if isinstance(one, Relation)]
        known = sorted({*self.rules, *relations} - {""})
        listing = ", ".join(f"'{one}'" for one in known) or "none"
        what = f"there is no rule '{clause.name}'; known are {listing}.{nearest(clause.name, known)}"
        raise text.error(what, clause.span)

    def pattern(self, text: Text, clause: Pattern, name: str) -> Iterator[Clause]:
        source = source_of(self.sources, name)
        if source is None:
            known = sorted(self.sources)
            listing = ", ".join(f"'{one}'" for one in known) or "none"
            raise text.error(f"there is no source '{name}'; known are {listing}.{nearest(name, known)}", clause.span)
        terms = list(clause.terms)
        if isinstance(source, Relation):
            arity = len(source.columns)
            if arity and len(terms) > arity:
                what = f"'{name}' has {arity} column{'s' if arity > 1 else ''}, and here are {len(terms)} terms"
                raise text.error(what, clause.span)
            terms += [Blank()] * (arity - len(terms))
            for term in terms:
                if isinstance(term, Lookup):
                    raise text.error("a lookup ref needs a database of datoms", term.span)
            yield replace(clause, source=name, terms=tuple(terms))
            return
        if len(terms) > 3:
            what = "a pattern has an entity, an attribute and a value; transactions cannot be asked for"
            raise text.unsupported(what, clause.span)
        terms += [Blank()] * (3 - len(terms))
        yield from self.datoms(text, clause, name, source, terms)

    def datoms(self, text: Text, clause: Pattern, name: str, source: Datoms, terms: list[Term]) -> Iterator[Clause]:
        entity, key, value = terms
        if isinstance(key, Lookup):
            raise text.error("an attribute is a keyword or a variable", key.span)
        if isinstance(key, Const):
            if key.type not in ("keyword", TEXT) or not str(key.value).startswith(":"):
                raise text.error(f"an attribute is a keyword, as :name, and here is '{key}'", _place(key, clause))
            forward = _forward(source, str(key.value))
            if forward is not None:
                self.check_reversed(text, clause, source, key, forward)
                entity, key, value = value, replace(key, value=forward), entity
        if isinstance(entity, Const) and entity.type in ("keyword", TEXT):
            entity = self.ident(text, source, entity)
        if isinstance(key, Const):
            known = source.attributes.get(str(key.value))
            if known is None:
                self.note_unknown(text, name, source, str(key.value), _place(key, clause))
            if known and known.type == "ref" and isinstance(value, Const) and value.type in ("keyword", TEXT):
                value = self.ident(text, source, value)
            if isinstance(value, Lookup) and known and known.type != "ref":
                what = f"a lookup ref stands for an entity, and '{key.value}' holds values of type {known.type}"
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
            known = source.attributes.get(term.attribute)
            if _forward(source, term.attribute) is not None:
                what = (
                    f"a lookup ref needs a unique attribute, and '{term.attribute}' is reversed; write a clause for it"
                )
                raise text.error(what, term.span)
            if known is None:
                self.note_unknown(text, name, source, term.attribute, term.span)
            if known and not known.unique:
                what = f"a lookup ref needs a unique attribute, and '{term.attribute}' is not; write a clause for it"
                raise text.error(what, term.span)
            fresh = self.reader.fresh("?entity")
            attribute = Const(term.attribute, "keyword", term.span)
            inner: Term = term.value
            if known and known.type == "ref" and isinstance(inner, Const) and inner.type in ("keyword", TEXT):
                raise text.unsupported(
                    "an ident within a lookup ref is not supported; write a clause for it", term.span
                )
            yield Pattern(name, (fresh, attribute, inner), term.span, is_lookup=True)
            ends.append(fresh)
        yield replace(clause, source=name, terms=(ends[0], key, ends[1]))

    def check_reversed(self, text: Text, clause: Pattern, source: Datoms, key: Const, forward: str) -> None:
        """Raise for a reversed attribute where its forward one is no reference, or where one value is asked for."""
        known = source.attributes.get(forward)
        if known is not None and known.type != "ref":
            what = (
                f"'{key.value}' reads '{forward}' in reverse, which only attributes of type ref can be, and '{forward}'"
                f" is of type {known.type}; write [?x {forward} ?e], or declare it as :db.type/ref"
            )
            raise TypeMismatchError(text.pointed(what, _place(key, clause)))
        if clause.caller:
            what = (
                f"'{clause.caller}' reads one value, and any number of entities can refer to one by '{forward}'; write"
                f" [?x {forward} ?e] for those that do, and [(missing? $ ?e {key.value})] for none"
            )
            raise text.unsupported(what, _place(key, clause))

    def note_unknown(self, text: Text, name: str, source: Datoms, attribute: str, place: Span) -> None:
        """Keep an attribute of which no type is known; one that is not declared either is refused or noted.

        Raises
        ------
        UnknownAttributeError
            If it is not declared, and the schema is strict.
        """
        self.unknown.add((name, attribute))
        declared = {*source.attributes, *source.untyped}
        if attribute in declared:
            return
        if source.is_strict:
            where = text.pointed(f"attribute '{attribute}' is not in the schema, which is strict", place)
            raise UnknownAttributeError(attribute, declared, where)
        if declared:  # else there is nothing yet that it could be a misspelling of
            where = text.pointed(f"attribute '{attribute}' is in no datom and not in the schema", place)
            hint = "Declare it with Database.define if it gets values later."
            self.undeclared.setdefault(attribute, f"{where}\n  {hint}{nearest(attribute, declared)}")

    def ident(self, text: Text, source: Datoms, constant: Const) -> Lookup:
        if IDENT not in source.attributes:
            what = (
                f"'{constant}' names an entity by {IDENT}, and no entity of this database has one;"
                " write the entity's number, or a lookup ref [:attribute value]"
            )
            raise text.error(what, constant.span)
        return Lookup(IDENT, Const(constant.value, "keyword", constant.span), constant.span)


def _forward(source: Datoms, attribute: str) -> str | None:
    """Return what a reversed attribute reads; None for another one, and for one that is declared under that name."""
    is_declared = attribute in source.attributes or attribute in source.untyped
    return None if is_declared else forward_attribute(attribute)


def _place(constant: Const, clause: Pattern) -> Span:
    return constant.span if constant.span.line else clause.span
