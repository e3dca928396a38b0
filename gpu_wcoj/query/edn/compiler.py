"""From a query whose clauses are in order to rules.

Clauses become the body of one rule for each way to give its variables types. An ``or`` becomes a helper head with one
rule per branch, a ``not`` a helper head that is negated, and each rule a head for each combination of types that it is
called with. What a branch needs bound and does not bind itself, it takes over from the rule around it; a rule that
needs its callers' values reads a head that they fill (``asked#``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

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
from gpu_wcoj.query.edn.kinds import Env, Kinds, meet, value_type
from gpu_wcoj.query.edn.names import Names, spelled
from gpu_wcoj.query.edn.pieces import ZERO, Body, Piece, calculated, compared, piece_of
from gpu_wcoj.query.edn.sources import OPAQUE, Datoms, Relation, Source, source_of
from gpu_wcoj.query.edn.where import Clauses
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.terms import Atom, Comparison, Constant, Expression, Variable

MOST_RULES = 10_000
"""How many rules a query may become."""

_INVERSE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Read:
    """What a query reads of a relation of datoms: the attributes, or None for all that it holds."""

    source: str
    type: str
    attributes: frozenset[str] | None


Instance = tuple[str, tuple[str | None, ...], int]
"""A rule, the types that it is called with, and by whom, if that matters."""


class Compiler:
    """Writes rules down.

    Parameters
    ----------
    is_separate
        Whether callers of a rule that needs their values have a copy each: one may negate what another asks with.

    Attributes
    ----------
    reads, columns
        The relations of datoms and the plain ones that the rules read.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        rules: Mapping[str, RuleSet],
        kinds: Kinds,
        needs: Mapping[str, frozenset[int]],
        reader: Clauses,
        reached: Mapping[str, AbstractSet[str]],
        is_separate: bool = False,
    ) -> None:
        self.sources, self.set, self.kinds, self.needs, self.reader = sources, rules, kinds, needs, reader
        self.names = Names()
        self.rules: dict[int, Rule] = {}
        self.n_rules = 0
        self.reads: dict[str, Read] = {}
        self.columns: dict[str, Relation] = {}
        self.arity: dict[str, int] = {}
        self.rows: dict[str, Rows] = {}
        self.reached, self.is_separate = reached, is_separate
        self.instances: dict[Instance, str] = {}
        self.waiting: list[Instance] = []
        self.here = ("", 0)
        self.n_sites = 0

    def add(self, text: Text, rule: Rule) -> int:
        """Write a rule down; its number."""
        if len(self.rules) >= MOST_RULES:
            raise text.unsupported(f"the query becomes more than {MOST_RULES:,} rules", self.place)
        number = self.n_rules = self.n_rules + 1
        self.rules[number] = rule
        return number

    def finish(self, head: str) -> None:
        """Write down the rules that have been called; leave out what nothing derives, and what `head` does not need."""
        while self.waiting:
            self._instance(self.waiting.pop(0))
        empty = set(self.names.helpers)
        found: dict[int, Rule] = {}
        while True:
            met = {at: one for at, one in self.rules.items() if not any(atom.relation in empty for atom in one.atoms)}
            if len(met) == len(found):
                break
            found = met
            empty -= {rule.head.relation for rule in found.values()}
        self.rules = found
        for number, rule in self.rules.items():
            negated = tuple(atom for atom in rule.negated if atom.relation not in empty)
            self.rules[number] = replace(rule, negated=negated)
        read: dict[str, set[str]] = {}
        for rule in self.rules.values():
            read.setdefault(rule.head.relation, set()).update(atom.relation for atom in rule.read)
        waiting, used = [head], {head}
        while waiting:
            new = read.get(waiting.pop(), set()) - used
            used |= new
            waiting += new
        self.rules = {number: rule for number, rule in self.rules.items() if rule.head.relation in used}

    def bodies(
        self, text: Text, clauses: Sequence[Clause], env: Env, outer: tuple[Piece, ...] = ()
    ) -> Iterator[tuple[Body, Env]]:
        """The bodies of clauses, one for each way to give their variables types."""
        for found in self.kinds.assigned(text, clauses, env):
            body = Body(outer)
            for clause in clauses:
                self._take(text, clause, found, body)
            yield body, found

    def write(self, text: Text, head: Atom, body: Body) -> int:
        """Write down a rule with a head and a body; its number."""
        pieces = body.taken(head.variables)
        atoms = dict.fromkeys(atom for piece in pieces for atom in piece.atoms)
        comparisons = dict.fromkeys(one for piece in pieces for one in piece.comparisons)
        negated = dict.fromkeys(atom for piece in pieces for atom in piece.negated)
        return self.add(text, Rule(head, tuple(atoms), tuple(comparisons), tuple(negated)))

    def _take(self, text: Text, clause: Clause, env: Env, body: Body) -> None:
        """Add a clause to a body; one that nothing satisfies reads a helper that nothing derives."""
        self.place = clause.span
        if isinstance(clause, Pattern):
            body.pieces.append(piece_of([self._pattern(text, clause, env)]))
        elif isinstance(clause, Rows):
            self.rows[clause.relation] = clause
            is_empty = not self.reader.given[clause.relation]
            name = self.names.helper("none") if is_empty else clause.relation
            body.pieces.append(piece_of([Atom(name, tuple(map(self.names.any, clause.terms)))]))
        elif isinstance(clause, Call):
            self._call(text, clause, env, body)
        elif isinstance(clause, Predicate):
            body.pieces.append(piece_of(comparisons=compared(self.names, clause, env)))
        elif isinstance(clause, Function):
            self._function(text, clause, env, body)
        elif isinstance(clause, Or):
            self._or(text, clause, env, body)
        else:
            self._not(text, clause, env, body)

    def _function(self, text: Text, clause: Function, env: Env, body: Body) -> None:
        result = self.names.term(clause.result)
        (*_, last) = clause.terms
        if clause.op == "identity" and isinstance(last, Const) and last.type == "instant":
            from datetime import datetime

            rows = Rows(self.reader.rows([(datetime.fromisoformat(str(last.value)),)]), (clause.result,), ("instant",))
            self.rows[rows.relation] = rows
            body.pieces.append(piece_of([Atom(rows.relation, (result,))]))
            return
        value = calculated(self.names, text, clause, env)
        bound = result if isinstance(result, Variable) else None
        body.pieces.append(piece_of(comparisons=[Comparison("=", result, value)], result=bound))

    def _pattern(self, text: Text, clause: Pattern, env: Env) -> Atom:
        assert clause.source is not None
        source = source_of(self.sources, clause.source)
        if isinstance(source, Relation):
            known = self.arity.setdefault(source.name, len(clause.terms))
            if known != len(clause.terms):
                what = f"'{clause.source}' has {known} terms elsewhere, and {len(clause.terms)} here"
                raise text.error(what, clause.span)
            self.columns[source.name] = source
            return Atom(source.name, tuple(map(self.names.any, self._terms(clause))))
        assert isinstance(source, Datoms)
        entity, key, value = self._terms(clause)
        types = self._types(text, clause, source, value, env)
        attributes = frozenset({str(key.value)}) if isinstance(key, Const) else None
        relations = []
        for kind in types:
            name = source.relations[kind]
            relations.append(name)
            known_read = self.reads.get(name)
            old = frozenset[str]() if known_read is None else known_read.attributes
            every = None if old is None or attributes is None else old | attributes
            self.reads[name] = Read(clause.source, kind, every)
        terms = tuple(map(self.names.any, (entity, key, value)))
        if len(relations) == 1:
            return Atom(relations[0], terms)
        shared = tuple(dict.fromkeys(one for one in terms if isinstance(one, Variable) and not one.is_wildcard))
        name = self.names.helper("any")
        for one in relations:
            self.add(text, Rule(Atom(name, shared or (ZERO,)), (Atom(one, terms),)))
        return Atom(name, shared or (ZERO,))

    def _terms(self, clause: Pattern) -> list[Var | Const | Blank]:
        return [one for one in clause.terms if isinstance(one, (Var, Const, Blank))]

    def _types(self, text: Text, clause: Pattern, source: Datoms, value: Term, env: Env) -> Sequence[str]:
        """The types of the relations that hold what a pattern asks for."""
        assert clause.source is not None
        key = clause.terms[1]
        kinds = self.kinds.types(value, env)
        if isinstance(key, Const):
            known = source.attributes.get(str(key.value))
            if known is None:
                return []
            if clause.is_lookup and not known.unique:
                what = f"a lookup ref needs a unique attribute, and '{key.value}' is not; write a clause for it"
                raise text.error(what, clause.span)
            return [value_type(known.type)]
        present = list(dict.fromkeys(value_type(one.type) for one in source.attributes.values()))
        if isinstance(value, Blank) or kinds is None:
            return present
        if OPAQUE in kinds and len(present) > 1:
            what = f"the type of '{value}' is not known, and the attributes have {len(present)}; name the attribute"
            raise text.unsupported(what, clause.span)
        return [one for one in present if meet(kinds, frozenset({one}))]

    def _call(self, text: Text, clause: Call, env: Env, body: Body) -> None:
        places = self.kinds.places[clause.name]
        choices: list[Sequence[str | None]] = []
        terms: list[Variable | Constant] = []
        for term, place in zip(clause.terms, places, strict=True):
            own = meet(self.kinds.types(term, env), place)
            choices.append([None] if own is None else sorted(own))
            assert isinstance(term, (Var, Const))
            terms.append(self.names.term(term))
        site = self._site(clause.name)
        atoms = [Atom(self._called(clause.name, types, site), tuple(terms)) for types in itertools.product(*choices)]
        asked = [terms[at] for at in sorted(self.needs[clause.name])]
        if asked:
            for atom in atoms:
                self.names.helpers.add(f"asked#{atom.relation}")
                head = Atom(f"asked#{atom.relation}", tuple(asked))
                self.write(text, head, Body((), body.asking(head.variables)))
        if len(atoms) > 1:  # an argument that is a text from outside may be a string or a keyword
            shared = tuple(dict.fromkeys(one for one in terms if isinstance(one, Variable))) or (ZERO,)
            either = Atom(self.names.helper("any"), shared)
            for atom in atoms:
                self.add(text, Rule(either, (atom,)))
            atoms = [either]
        body.pieces.append(piece_of(atoms, is_plain=False))

    def _called(self, name: str, types: tuple[str | None, ...], site: int) -> str:
        key = name, types, site
        if key not in self.instances:
            self.instances[key] = self.names.helper(spelled(self.set[name].name))
            self.waiting.append(key)
        return self.instances[key]

    def _site(self, name: str) -> int:
        """Which copy of a rule a call means: of those that their callers ask, each caller may have one."""
        if not self.is_separate or not self.needs[name]:
            return 0
        caller, site = self.here
        if caller and name in self.reached[caller] and caller in self.reached[name]:
            return site
        self.n_sites += 1
        return self.n_sites

    def _instance(self, instance: Instance) -> None:
        name, types, site = instance
        self.here = name, site
        head = self.instances[instance]
        asked = sorted(self.needs[name])
        for branch in self.set[name].branches:
            env: Env = {
                one: None if kind is None else frozenset({kind}) for one, kind in zip(branch.head, types, strict=True)
            }
            terms = tuple(map(self.names.term, branch.head))
            outer = (piece_of([Atom(f"asked#{head}", tuple(terms[at] for at in asked))]),) if asked else ()
            for body, _ in self.bodies(branch.text, branch.clauses, env, outer):
                self.write(branch.text, Atom(head, terms), body)

    def _or(self, text: Text, clause: Or, env: Env, body: Body) -> None:
        assert clause.variables is not None
        terms = tuple(map(self.names.term, clause.variables)) or (ZERO,)
        name = self.names.helper("or")
        for branch in clause.branches:
            for inner, _ in self.bodies(text, branch, env, body.available):
                self.write(text, Atom(name, terms), inner)
        body.pieces.append(piece_of([Atom(name, terms)], is_plain=False))

    def _not(self, text: Text, clause: Not, env: Env, body: Body) -> None:
        assert clause.variables is not None
        if self._inverted(text, clause, env, body):
            return
        found = list(self.bodies(text, clause.clauses, env, body.available))
        if not found:
            return
        terms: tuple[Variable | Constant, ...] = tuple(map(self.names.term, clause.variables))
        atom = self._negatable(found, terms)
        if atom is None:
            atom = Atom(self.names.helper("not"), terms or (ZERO,))
            for inner, _ in found:
                self.write(text, atom, inner)
        body.pieces.append(Piece(negated=(atom,), needs=frozenset(terms) & frozenset(atom.variables)))  # type: ignore[arg-type]  # variables

    def _negatable(self, found: Sequence[tuple[Body, Env]], terms: Sequence[Expression]) -> Atom | None:
        """The one atom that is negated, if that is all; what it has of its own is ``_``."""
        if len(found) != 1 or len(found[0][0].pieces) != 1:
            return None
        (piece,) = found[0][0].pieces
        if len(piece.atoms) != 1 or piece.comparisons or piece.negated or piece.needs:
            return None
        (atom,) = piece.atoms
        own = [one for one in atom.terms if isinstance(one, Variable) and one not in terms]
        if len(set(own)) != len(own) or not set(terms) <= set(atom.terms):
            return None
        return Atom(atom.relation, tuple(self.names.blank() if one in own else one for one in atom.terms))

    def _inverted(self, text: Text, clause: Not, env: Env, body: Body) -> bool:
        """Whether it is one comparison, which is turned round instead; of doubles, where NaN compares as nothing."""
        if len(clause.clauses) != 1 or not isinstance(clause.clauses[0], Predicate):
            return False
        predicate = clause.clauses[0]
        if self.kinds.infer(text, clause.clauses, env) != env:
            return False
        found = compared(self.names, predicate, env)
        kinds = [self.kinds.types(one, env) for one in predicate.terms]
        is_exact = all(kind is not None and "double" not in kind for kind in kinds)
        if len(found) != 1 or (found[0].op not in ("=", "!=") and not is_exact):
            return False
        (one,) = found
        body.pieces.append(piece_of(comparisons=[Comparison(_INVERSE[one.op], one.left, one.right)]))
        return True
