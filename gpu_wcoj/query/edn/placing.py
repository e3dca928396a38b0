"""Source resolution: explicit sources, relations and rules, expanded lookup refs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gpu_wcoj.errors import TypeMismatchError, UnknownAttributeError, nearest
from gpu_wcoj.query.edn.ast import (
    Blank,
    Branch,
    Clause,
    Const,
    FunctionCall,
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
from gpu_wcoj.query.edn.parse import ClauseReader, substitute
from gpu_wcoj.query.edn.sources import TEXT, Datoms, Relation, Source, forward_attribute, source_of
from gpu_wcoj.query.ir import Span

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
                what = f"the rule '{clause.name}' takes {len(rule.required)} terms: got {len(clause.terms)}"
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
        raise text.error(what, clause.span)

    def pattern(self, text: Text, clause: Pattern, name: str) -> Iterator[Clause]:
        source = source_of(self.sources, name)
        if source is None:
            names = sorted(self.sources)
            listing = ", ".join(f"'{name_}'" for name_ in names) or "none"
            raise text.error(f"unknown source '{name}': expected one of {listing}.{nearest(name, names)}", clause.span)
        terms = list(clause.terms)
        if isinstance(source, Relation):
            arity = len(source.columns)
            if arity and len(terms) > arity:
                what = f"'{name}' has {arity} column{'s' if arity > 1 else ''}: got {len(terms)} terms"
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
