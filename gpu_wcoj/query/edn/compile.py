"""Compiler from ordered clauses to rules.

Clauses become one rule body for each assignment of types to their variables. An ``or`` becomes a helper head with one
rule per branch, a ``not`` a negated helper head, and each rule a head per combination of argument types. A branch
inherits the atoms that bind its free variables from the enclosing rule. A rule that needs its callers' values reads a
head that they fill (``asked#``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

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
from gpu_wcoj.query.edn.names import Names, datalog_name
from gpu_wcoj.query.edn.parse import ClauseReader
from gpu_wcoj.query.edn.pieces import ZERO, Body, Piece, piece_of, to_comparisons, to_expression
from gpu_wcoj.query.edn.resolve import Env, TypeInference, meet, value_type
from gpu_wcoj.query.edn.sources import OPAQUE, Datoms, Relation, Source, source_of
from gpu_wcoj.query.ir import Atom, Comparison, Constant, Expression, Variable
from gpu_wcoj.query.rules import Rule

MAX_RULES = 10_000
"""The largest number of rules that a query may become."""

_INVERSE = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Read:
    """The attributes that a query reads of a relation of datoms; None for all."""

    source: str
    type: str
    attributes: frozenset[str] | None


Instance = tuple[str, tuple[str | None, ...], int]
"""A rule, its argument types, and the call site (0 where callers share the rule)."""


class Compiler:
    """Compiler of clauses to rules.

    Parameters
    ----------
    is_separate
        True if each caller of a rule that needs its values gets a copy, because a caller may negate another's
        arguments.

    Attributes
    ----------
    reads, columns
        The relations of datoms, and the plain relations, that the rules read.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        rules: Mapping[str, RuleSet],
        kinds: TypeInference,
        needs: Mapping[str, frozenset[int]],
        reader: ClauseReader,
        reached: Mapping[str, AbstractSet[str]],
        is_separate: bool = False,
    ) -> None:
        self.sources, self.rule_sets, self.kinds, self.needs, self.reader = sources, rules, kinds, needs, reader
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
        """Add a rule; return its id."""
        if len(self.rules) >= MAX_RULES:
            raise text.unsupported(f"the query becomes more than {MAX_RULES:,} rules", self.place)
        rule_id = self.n_rules = self.n_rules + 1
        self.rules[rule_id] = rule
        return rule_id

    def finish(self, head: str) -> None:
        """Write the called rules; drop rules that derive nothing or that `head` does not need."""
        while self.waiting:
            self._write_instance(self.waiting.pop(0))
        empty = set(self.names.helpers)
        live: dict[int, Rule] = {}
        while True:
            derived = {
                rule_id: rule
                for rule_id, rule in self.rules.items()
                if not any(atom.relation in empty for atom in rule.atoms)
            }
            if len(derived) == len(live):
                break
            live = derived
            empty -= {rule.head.relation for rule in live.values()}
        self.rules = live
        for rule_id, rule in self.rules.items():
            negated = tuple(atom for atom in rule.negated if atom.relation not in empty)
            self.rules[rule_id] = replace(rule, negated=negated)
        read: dict[str, set[str]] = {}
        for rule in self.rules.values():
            read.setdefault(rule.head.relation, set()).update(atom.relation for atom in rule.read)
        waiting, used = [head], {head}
        while waiting:
            new = read.get(waiting.pop(), set()) - used
            used |= new
            waiting += new
        self.rules = {rule_id: rule for rule_id, rule in self.rules.items() if rule.head.relation in used}

    def bodies(
        self, text: Text, clauses: Sequence[Clause], env: Env, outer: tuple[Piece, ...] = ()
    ) -> Iterator[tuple[Body, Env]]:
        """Yield a body of the clauses for each assignment of types to their variables."""
        for typing in self.kinds.assignments(text, clauses, env):
            body = Body(outer)
            for clause in clauses:
                self._add_clause(text, clause, typing, body)
            yield body, typing

    def write(self, text: Text, head: Atom, body: Body) -> int:
        """Add a rule with a head and a body; return its id."""
        pieces = body.rule_pieces(head.variables)
        atoms = dict.fromkeys(atom for piece in pieces for atom in piece.atoms)
        comparisons = dict.fromkeys(comparison for piece in pieces for comparison in piece.comparisons)
        negated = dict.fromkeys(atom for piece in pieces for atom in piece.negated)
        return self.add(text, Rule(head, tuple(atoms), tuple(comparisons), tuple(negated)))

    def _add_clause(self, text: Text, clause: Clause, env: Env, body: Body) -> None:
        """Add a clause to a body; an unsatisfiable clause reads a helper without rules."""
        self.place = clause.span
        if isinstance(clause, Pattern):
            body.pieces.append(piece_of([self._pattern(text, clause, env)]))
        elif isinstance(clause, Rows):
            self.rows[clause.relation] = clause
            is_empty = not self.reader.input_rows[clause.relation]
            name = self.names.helper("none") if is_empty else clause.relation
            body.pieces.append(piece_of([Atom(name, tuple(map(self.names.term_or_blank, clause.terms)))]))
        elif isinstance(clause, FunctionCall):
            self._call(text, clause, env, body)
        elif isinstance(clause, Predicate):
            body.pieces.append(piece_of(comparisons=to_comparisons(self.names, clause, env)))
        elif isinstance(clause, Function):
            self._function(text, clause, env, body)
        elif isinstance(clause, Or):
            self._or(text, clause, env, body)
        else:
            self._not(text, clause, env, body)

    def _function(self, text: Text, clause: Function, env: Env, body: Body) -> None:
        result = self.names.term(clause.result)
        (*_, argument) = clause.terms
        if clause.op == "identity" and isinstance(argument, Const) and argument.type == "instant":
            from datetime import datetime

            rows = Rows(
                self.reader.add_rows([(datetime.fromisoformat(str(argument.value)),)]), (clause.result,), ("instant",)
            )
            self.rows[rows.relation] = rows
            body.pieces.append(piece_of([Atom(rows.relation, (result,))]))
            return
        value = to_expression(self.names, text, clause, env)
        bound = result if isinstance(result, Variable) else None
        body.pieces.append(piece_of(comparisons=[Comparison("=", result, value)], result=bound))

    def _pattern(self, text: Text, clause: Pattern, env: Env) -> Atom:
        assert clause.source is not None
        source = source_of(self.sources, clause.source)
        if isinstance(source, Relation):
            arity = self.arity.setdefault(source.name, len(clause.terms))
            if arity != len(clause.terms):
                what = (
                    f"the patterns of '{clause.source}' differ in their numbers of terms:"
                    f" got {len(clause.terms)}, expected {arity}"
                )
                raise text.error(what, clause.span)
            self.columns[source.name] = source
            return Atom(source.name, tuple(map(self.names.term_or_blank, self._terms(clause))))
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
        terms = tuple(map(self.names.term_or_blank, (entity, key, value)))
        if len(relations) == 1:
            return Atom(relations[0], terms)
        shared = tuple(dict.fromkeys(term for term in terms if isinstance(term, Variable) and not term.is_wildcard))
        name = self.names.helper("any")
        for relation in relations:
            self.add(text, Rule(Atom(name, shared or (ZERO,)), (Atom(relation, terms),)))
        return Atom(name, shared or (ZERO,))

    def _terms(self, clause: Pattern) -> list[Var | Const | Blank]:
        return [term for term in clause.terms if isinstance(term, (Var, Const, Blank))]

    def _types(self, text: Text, clause: Pattern, source: Datoms, value: Term, env: Env) -> Sequence[str]:
        """Return the types of the relations that can match a pattern."""
        assert clause.source is not None
        key = clause.terms[1]
        kinds = self.kinds.types(value, env)
        if isinstance(key, Const):
            declared = source.attributes.get(str(key.value))
            if declared is None:
                return []
            if clause.is_lookup and not declared.unique:
                what = (
                    f"a lookup ref needs a unique attribute: got '{key.value}', which is not unique;"
                    " write a clause instead"
                )
                raise text.error(what, clause.span)
            return [value_type(declared.type)]
        present = list(dict.fromkeys(value_type(attribute.type) for attribute in source.attributes.values()))
        if isinstance(value, Blank) or kinds is None:
            return present
        if OPAQUE in kinds and len(present) > 1:
            what = (
                f"the type of '{value}' is not known, but the attributes have {len(present)} types; name the attribute"
            )
            raise text.unsupported(what, clause.span)
        return [type_ for type_ in present if meet(kinds, frozenset({type_}))]

    def _call(self, text: Text, clause: FunctionCall, env: Env, body: Body) -> None:
        places = self.kinds.places[clause.name]
        choices: list[Sequence[str | None]] = []
        terms: list[Variable | Constant] = []
        for term, place in zip(clause.terms, places, strict=True):
            types = meet(self.kinds.types(term, env), place)
            choices.append([None] if types is None else sorted(types))
            assert isinstance(term, (Var, Const))
            terms.append(self.names.term(term))
        site = self._site(clause.name)
        atoms = [
            Atom(self._instance_name(clause.name, types, site), tuple(terms)) for types in itertools.product(*choices)
        ]
        needed_terms = [terms[place] for place in sorted(self.needs[clause.name])]
        if needed_terms:
            for atom in atoms:
                self.names.helpers.add(f"asked#{atom.relation}")
                head = Atom(f"asked#{atom.relation}", tuple(needed_terms))
                self.write(text, head, Body((), body.binding_pieces(head.variables)))
        if len(atoms) > 1:  # a text argument may be a string or a keyword
            shared = tuple(dict.fromkeys(term for term in terms if isinstance(term, Variable))) or (ZERO,)
            either = Atom(self.names.helper("any"), shared)
            for atom in atoms:
                self.add(text, Rule(either, (atom,)))
            atoms = [either]
        body.pieces.append(piece_of(atoms, is_plain=False))

    def _instance_name(self, name: str, types: tuple[str | None, ...], site: int) -> str:
        key = name, types, site
        if key not in self.instances:
            self.instances[key] = self.names.helper(datalog_name(self.rule_sets[name].name))
            self.waiting.append(key)
        return self.instances[key]

    def _site(self, name: str) -> int:
        """Return the call site that selects the copy of a rule, 0 for a shared rule."""
        if not self.is_separate or not self.needs[name]:
            return 0
        caller, site = self.here
        if caller and name in self.reached[caller] and caller in self.reached[name]:
            return site
        self.n_sites += 1
        return self.n_sites

    def _write_instance(self, instance: Instance) -> None:
        name, types, site = instance
        self.here = name, site
        head = self.instances[instance]
        needed_places = sorted(self.needs[name])
        for branch in self.rule_sets[name].branches:
            env: Env = {
                variable: None if kind is None else frozenset({kind})
                for variable, kind in zip(branch.head, types, strict=True)
            }
            terms = tuple(map(self.names.term, branch.head))
            outer = (
                (piece_of([Atom(f"asked#{head}", tuple(terms[place] for place in needed_places))]),)
                if needed_places
                else ()
            )
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
        if self._add_inverted(text, clause, env, body):
            return
        bodies = list(self.bodies(text, clause.clauses, env, body.available))
        if not bodies:
            return
        terms: tuple[Variable | Constant, ...] = tuple(map(self.names.term, clause.variables))
        atom = self._negated_atom(bodies, terms)
        if atom is None:
            atom = Atom(self.names.helper("not"), terms or (ZERO,))
            for inner, _ in bodies:
                self.write(text, atom, inner)
        body.pieces.append(Piece(negated=(atom,), needs=frozenset(terms) & frozenset(atom.variables)))  # type: ignore[arg-type]  # variables

    def _negated_atom(self, bodies: Sequence[tuple[Body, Env]], terms: Sequence[Expression]) -> Atom | None:
        """Return the negated atom, with ``_`` for local variables, if the body is one atom."""
        if len(bodies) != 1 or len(bodies[0][0].pieces) != 1:
            return None
        (piece,) = bodies[0][0].pieces
        if len(piece.atoms) != 1 or piece.comparisons or piece.negated or piece.needs:
            return None
        (atom,) = piece.atoms
        local_variables = [term for term in atom.terms if isinstance(term, Variable) and term not in terms]
        if len(set(local_variables)) != len(local_variables) or not set(terms) <= set(atom.terms):
            return None
        return Atom(
            atom.relation, tuple(self.names.blank() if term in local_variables else term for term in atom.terms)
        )

    def _add_inverted(self, text: Text, clause: Not, env: Env, body: Body) -> bool:
        """Add the inverse of a negated single comparison; return False if that is not exact.

        For doubles only ``=`` and ``!=`` have an inverse, because comparisons with NaN are false.
        """
        if len(clause.clauses) != 1 or not isinstance(clause.clauses[0], Predicate):
            return False
        predicate = clause.clauses[0]
        if self.kinds.infer(text, clause.clauses, env) != env:
            return False
        comparisons = to_comparisons(self.names, predicate, env)
        kinds = [self.kinds.types(term, env) for term in predicate.terms]
        is_exact = all(kind is not None and "double" not in kind for kind in kinds)
        if len(comparisons) != 1 or (comparisons[0].op not in ("=", "!=") and not is_exact):
            return False
        (comparison,) = comparisons
        body.pieces.append(
            piece_of(comparisons=[Comparison(_INVERSE[comparison.op], comparison.left, comparison.right)])
        )
        return True
