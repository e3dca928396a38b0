"""Compiler from ordered clauses to rules.

Clauses become one rule body for each assignment of types to their variables. An ``or`` becomes a helper head with one
rule per branch, a ``not`` a negated helper head, and each rule a head per combination of argument types. A branch
inherits the atoms that bind its free variables from the enclosing rule. A rule that needs its callers' values reads a
head that they fill (``asked#``).
"""

from __future__ import annotations

import functools
import itertools
import re
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from gpu_wcoj.errors import TypeMismatchError, UnsupportedError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.edn.ast import (
    AGGREGATES,
    ARITHMETIC,
    COMPARISONS,
    ENGINE,
    OPAQUE,
    PARITY,
    TESTS,
    TEXT,
    TEXT_FUNCTIONS,
    Blank,
    Clause,
    Const,
    Datoms,
    FindSpec,
    Function,
    FunctionCall,
    Not,
    Or,
    Pattern,
    Predicate,
    PullPattern,
    Relation,
    Rows,
    RuleSet,
    Source,
    Term,
    Text,
    Var,
    source_of,
)
from gpu_wcoj.query.edn.parse import ClauseReader, ParsedQuery, Shape, parse_query
from gpu_wcoj.query.edn.reader import Symbol
from gpu_wcoj.query.edn.resolve import (
    DOUBLE,
    LONG,
    NUMBERS,
    UNORDERED,
    Env,
    Scopes,
    Set,
    TypeInference,
    join,
    meet,
    resolve_sources,
    value_type,
)
from gpu_wcoj.query.ir import (
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Expression,
    Rule,
    Rules,
    Variable,
    unique_names,
    variables_of,
)

# Names of variables and helpers in the rules that a query becomes.


class Names:
    """Allocator of names of variables and helper relations."""

    def __init__(self) -> None:
        self.variables: dict[Var, Variable] = {}
        self.used: set[str] = {"true", "false", "null", "not"}
        self.n_blanks = 0
        self.n_helpers: dict[str, int] = {}
        self.helpers: set[str] = set()

    def term(self, term: Var | Const) -> Variable | Constant:
        """Return the engine's variable or constant for a term."""
        if isinstance(term, Const):
            return Constant(term.value)
        if term not in self.variables:
            name = datalog_name(term.name)
            suffix = 1
            while name in self.used:
                suffix += 1
                name = f"{datalog_name(term.name)}_{suffix}"
            self.used.add(name)
            self.variables[term] = Variable(name)
        return self.variables[term]

    def term_or_blank(self, term: Var | Const | Blank) -> Variable | Constant:
        """Return the engine's term; each ``_`` becomes a new variable."""
        return self.blank() if isinstance(term, Blank) else self.term(term)

    def blank(self) -> Variable:
        """Return a new blank variable."""
        self.n_blanks += 1
        return Variable(f"_#{self.n_blanks}")

    def helper(self, kind: str) -> str:
        """Return a new relation name that cannot be written in a text."""
        self.n_helpers[kind] = self.n_helpers.get(kind, 0) + 1
        name = f"{kind}#{self.n_helpers[kind]}"
        self.helpers.add(name)
        return name


def datalog_name(name: str) -> str:
    """Return a variable's name as a valid Datalog identifier.

    Examples
    --------
    >>> datalog_name("?first-name"), datalog_name("?1st"), datalog_name("?x?")
    ('first_name', 'v1st', 'x_')
    """
    cleaned = re.sub(r"\W", "_", name.removeprefix("?"))
    return cleaned if re.match(r"[A-Za-z]", cleaned) else f"v{cleaned}"


# Translation of clauses to parts of a rule body.


ZERO = Constant(0)


@dataclass(frozen=True)
class Piece:
    """Part of a rule body.

    Attributes
    ----------
    needs
        The variables that another part must bind.
    is_plain
        True if it reads no helper relation.
    """

    atoms: tuple[Atom, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    negated: tuple[Atom, ...] = ()
    binds: frozenset[Variable] = frozenset()
    needs: frozenset[Variable] = frozenset()
    is_plain: bool = False


@dataclass
class Body:
    """The body of a rule under construction.

    Attributes
    ----------
    outer
        Parts of the enclosing rules that may be copied where they bind a variable that this body needs.
    """

    outer: tuple[Piece, ...]
    pieces: list[Piece] = field(default_factory=list)

    @property
    def available(self) -> tuple[Piece, ...]:
        """The parts that a nested body may copy."""
        return (*self.outer, *self.pieces)

    def binding_pieces(self, variables: Iterable[Variable]) -> list[Piece]:
        """Return the parts that bind and restrict the arguments of a rule, without other rules.

        Without the restricting parts, a rule that counts down to 0 would be called with all numbers below.
        """
        available = self.available
        chosen = pieces_that_bind(available, variables)
        remaining = [piece for piece in available if piece.is_plain and piece not in chosen]
        while True:
            bound = {variable for piece in chosen for variable in piece.binds}
            joined = [piece for piece in remaining if piece.needs <= bound and (piece.binds | piece.needs) & bound]
            if not joined:
                return [piece for piece in available if piece in chosen]
            chosen += joined
            remaining = [piece for piece in remaining if piece not in joined]

    def rule_pieces(self, variables: Iterable[Variable] = ()) -> list[Piece]:
        """Return the parts of this body, and the outer parts that bind its free variables."""
        bound = {variable for piece in self.pieces for variable in piece.binds}
        missing = {*variables, *(variable for piece in self.pieces for variable in piece.needs)} - bound
        return [*pieces_that_bind(self.outer, missing), *self.pieces]


def pieces_that_bind(pieces: Sequence[Piece], variables: Iterable[Variable]) -> list[Piece]:
    """Return the parts that bind `variables`, with their dependencies and comparisons.

    A comparison may protect a calculation, for example from a division by zero.
    """
    waiting = list(dict.fromkeys(variables))
    bound: set[Variable] = set()
    chosen: set[int] = set()
    while waiting:
        variable = waiting.pop()
        if variable in bound:
            continue
        index = next(index for index, piece in enumerate(pieces) if variable in piece.binds)
        chosen.add(index)
        bound |= pieces[index].binds
        waiting += pieces[index].needs - bound
    if chosen:
        chosen |= {
            index
            for index, piece in enumerate(pieces)
            if piece.comparisons and not piece.binds and piece.needs <= bound
        }
    return [pieces[index] for index in sorted(chosen)]


def to_comparisons(names: Names, clause: Predicate, env: Env) -> list[Comparison]:
    """Return the comparisons of a predicate, all of which must hold."""
    terms = [names.term(term) for term in clause.terms]
    if clause.op in TESTS:
        return [Comparison(TESTS[clause.op], terms[0], ZERO)]
    if clause.op in PARITY:
        return [Comparison(PARITY[clause.op], Call("%", (terms[0], Constant(2))), ZERO)]
    if clause.op == "clojure.string/includes?":
        return [Comparison("=", Call("contains", (terms[1], terms[0])), Constant(True))]
    if clause.op == "clojure.string/starts-with?":
        start = Call("substr", (terms[0], ZERO, Call("strlen", (terms[1],))))
        return [Comparison("=", start, terms[1])]
    op = COMPARISONS[clause.op]
    if op == "!=":
        first, second = (frozenset({term.type}) if isinstance(term, Const) else env.get(term) for term in clause.terms)
        if meet(first, second) == frozenset():
            return []  # values of two types are unequal
    comparisons = []
    for left, right in zip(clause.terms, clause.terms[1:], strict=False):
        left_term, right_term = unify_numbers(names, (left, right), env)
        comparisons.append(Comparison("=" if op == "==" else op, left_term, right_term))
    return comparisons


def unify_numbers(names: Names, terms: Sequence[Var | Const], env: Env) -> list[Expression]:
    """Return terms with numbers of one type; longs beside doubles become doubles."""
    types = [frozenset({term.type}) if isinstance(term, Const) else env.get(term) for term in terms]
    mixed = DOUBLE in types and LONG in types
    unified: list[Expression] = []
    for operand, kind in zip(terms, types, strict=True):
        term = names.term(operand)
        if mixed and kind == LONG:
            unified.append(
                Constant(float(term.value)) if isinstance(term, Constant) else Call("double", (term,))  # type: ignore[arg-type]  # an int
            )
        else:
            unified.append(term)
    return unified


def to_expression(names: Names, text: Text, clause: Function, env: Env) -> Expression:
    """Return the value of a function as an expression."""
    op, terms = clause.op, clause.terms
    if op == "identity":
        return names.term(terms[0])
    if op in TEXT_FUNCTIONS:
        return Call(TEXT_FUNCTIONS[op], (names.term(terms[0]),))
    if op == "str":
        return _text(names, text, clause)
    numbers = unify_numbers(names, terms, env)
    if op in ("inc", "dec"):
        return Call("+" if op == "inc" else "-", (numbers[0], Constant(1)))
    if op == "mod":
        remainder = Call("%", (numbers[0], numbers[1]))
        return Call("%", (Call("+", (remainder, numbers[1])), numbers[1]))
    symbol = ARITHMETIC[op]
    if len(numbers) == 1:
        return Call(symbol, (numbers[0],))
    value = numbers[0]
    for operand in numbers[1:]:
        value = Call(symbol, (value, operand))
    return value


def _text(names: Names, text: Text, clause: Function) -> Expression:
    parts: list[Expression] = []
    for operand in clause.terms:
        if isinstance(operand, Var):
            parts.append(names.term(operand))
        elif operand.type in ("double", "instant"):
            raise text.unsupported(f"'str' of {operand} is not supported; write the text", clause.span)
        else:
            value = ("true" if operand.value else "false") if operand.type == "boolean" else str(operand.value)
            parts.append(Constant(value))
    if len(parts) == 1:
        return parts[0]
    return Call("cat", tuple(parts))


def piece_of(
    atoms: Sequence[Atom] = (),
    comparisons: Sequence[Comparison] = (),
    result: Variable | None = None,
    is_plain: bool = True,
) -> Piece:
    """Return a part whose atoms bind their variables and whose comparisons bind `result`."""
    binds = frozenset(variable for atom in atoms for variable in atom.variables)
    used = frozenset(variable for comparison in comparisons for variable in comparison.variables)
    if result is not None:
        used = frozenset(variable for comparison in comparisons for variable in variables_of([comparison.right]))
        return Piece(tuple(atoms), tuple(comparisons), (), binds | ({result} - used), used, is_plain)
    return Piece(tuple(atoms), tuple(comparisons), (), binds, used - binds, is_plain)


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


# The compiled query, and its answer in the shape that ``:find`` requests.


Row = tuple[Any, ...]


@dataclass(frozen=True)
class Query:
    """A query compiled to rules.

    Attributes
    ----------
    rules
        The program's rules; `output` is the head that holds the answer.
    shape
        The form of ``:find``: a relation, ``[?x ...]`` (collection), ``[?x ?y]`` (tuple) or ``?x .`` (scalar).
    columns
        Names of the answer's columns: those of ``:keys``, ``:strs`` or ``:syms``, or of the variables.
    labels
        ``"keys"``, ``"strs"`` or ``"syms"`` if rows become maps; else None.
    types
        Attribute types of the answer's columns; None where the type is not yet known.
    given
        Rows of arguments and of ``ground``, per input relation of the rules; insert them with the first tick.
    reads
        The relations of datoms among the rules' inputs.
    unknown
        Sources and attributes whose type is not known. Their patterns match nothing; compile the query again when a
        type becomes known.
    undeclared
        The attributes of `unknown` that occur neither in the schema nor in a datom, with a message for each.
    open
        Sources read by patterns whose attribute is a variable. Compile the query again when a value of a new type
        arrives.
    pulls
        Per column of the answer, the database and the pattern that is pulled of its entities, or None.
    """

    rules: Rules
    output: str
    shape: Shape
    columns: tuple[str, ...]
    labels: Literal["keys", "strs", "syms"] | None
    types: tuple[str | None, ...]
    input_rows: Mapping[str, tuple[Row, ...]]
    reads: Mapping[str, Read]
    unknown: frozenset[tuple[str, str]]
    undeclared: Mapping[str, str]
    open: frozenset[str]
    pulls: tuple[tuple[Datoms, PullPattern] | None, ...] = ()

    def shape_answer(self, rows: Iterable[Row], pulled: Callable[[Datoms, PullPattern, int], Any] | None = None) -> Any:
        """Return rows of the answer in the shape of ``:find``.

        `pulled` reads the patterns of ``pull``.

        A relation is a list of tuples or maps, a collection a list. A tuple or a scalar is taken from the first row;
        it is None if the answer is empty.
        """
        answers = [self._row(row) for row in rows]
        if pulled is not None and any(self.pulls):
            answers = [
                tuple(
                    value if pull is None else pulled(*pull, value) for pull, value in zip(self.pulls, row, strict=True)
                )
                for row in answers
            ]
        if self.shape == "collection":
            return [row[0] for row in answers]
        if self.shape == "scalar":
            return answers[0][0] if answers else None
        labelled = [self._label(row) for row in answers]
        if self.shape == "tuple":
            return labelled[0] if labelled else None
        return labelled

    def _row(self, row: Row) -> Row:
        if "uuid" not in self.types:
            return tuple(row)
        return tuple(uuid.UUID(value) if kind == "uuid" else value for kind, value in zip(self.types, row, strict=True))

    def _label(self, row: Row) -> Row | dict[str, Any]:
        if self.labels is None:
            return row
        if self.labels == "keys":
            names = [f":{column}" for column in self.columns]
        else:
            names = [Symbol(column) if self.labels == "syms" else column for column in self.columns]
        return dict(zip(names, row, strict=True))


# Compilation of EDN queries to rules, with the aggregates of ``:find``.


EMPTY_INPUT = "nothing#1"
"""Name of an input without rows, read by queries whose answer is provably empty for now."""


def parse(query: Any, sources: Mapping[str, Source], *, arguments: Sequence[Any] = (), source: str = "<text>") -> Query:
    """Compile a query in EDN to rules.

    Parameters
    ----------
    query
        A Datomic or DataScript query, as EDN text or as Python data: ``{:find [...] :where [...]}`` or
        ``[:find ... :where ...]``. An additional part ``:rules [...]`` may hold rules.
    sources
        The sources that the query reads, by the names ``$``, ``$name`` or ``name``. Patterns ``[$name ?a ?b]`` or
        ``(name ?a ?b)`` read a plain relation.
    arguments
        The arguments that ``:in`` binds, in order; they may include sources that are not in `sources`.
    source
        Name of the text in messages, for example its file name.

    Raises
    ------
    EdnSyntaxError
        If the text cannot be read or is not a query, or a variable is not bound.
    UnsupportedError
        For features of Datomic that are not supported.
    TypeMismatchError
        If values of two types are compared, or would share a column of the answer.

    Examples
    --------
    >>> from gpu_wcoj.query.edn.ast import Relation
    >>> found = parse("[:find ?a ?c :where [$to ?a ?b] [$to ?b ?c] (not [$to ?a ?c])]", {"to": Relation("to")})
    >>> print(found.rules)
    .decl find(a, c)
    find(a, c) :- to(a, b), to(b, c), !to(a, c).
    .output find
    >>> found.shape, found.columns
    ('relation', ('a', 'c'))
    """
    read = parse_query(query, sources, arguments, source)
    try:
        return _QueryCompiler(read).query()
    except _SharedError:
        return _QueryCompiler(read, is_separate=True).query()


class _SharedError(Exception):
    """Signals that the shared arguments of a rule depend on their own negation."""


class _QueryCompiler:
    """Compiler of one query.

    Attributes
    ----------
    types
        Types of the columns of the answer, or of the rows that are aggregated.
    envs
        The types of variables, per rule of the answer.
    derived
        True if a rule derives the answer.
    """

    def __init__(self, query: ParsedQuery, is_separate: bool = False) -> None:
        self.parsed, self.is_separate = query, is_separate
        text = query.text
        resolved = resolve_sources(text, query.clauses, query.rules, query.sources, query.reader, query.constants)
        scopes = Scopes(resolved.rules, query.reader)
        rules = {name: scopes.rule(name) for name in resolved.rules}
        self.clauses = scopes.resolve(text, resolved.clauses)
        self._refuse_unbound(scopes.bound(resolved.clauses))
        wide = TypeInference(query.sources, rules, is_wide=True)
        wide.check_rules()
        _ = wide.check(text, self.clauses, {})
        self.placed = resolved
        kinds = TypeInference(query.sources, rules)
        self.compiler = Compiler(
            query.sources, rules, kinds, scopes.needs, query.reader, resolved.reached, is_separate=is_separate
        )
        self.names = self.compiler.names
        self.types: dict[Var, Set] = {}
        self.envs: dict[int, Env] = {}
        self.derived = False

    def _refuse_unbound(self, bound: frozenset[Var]) -> None:
        text, constants = self.parsed.text, self.parsed.constants
        for place, variables in ((":find", [spec.variable for spec in self.parsed.find]), (":with", self.parsed.with_)):
            for variable in variables:
                if variable not in bound and variable not in constants:
                    listing = ", ".join(sorted(f"'{each}'" for each in bound)) or "none"
                    what = f"'{variable}' in '{place}' is not bound by ':where' or ':in'; bound are {listing}"
                    raise text.error(what, variable.span)

    def query(self) -> Query:
        query = self.parsed
        output = "find" if not self._is_taken("find") else "find#1"
        aggregates = [spec for spec in query.find if spec.op]
        if query.with_ and not aggregates:
            what = "':with' needs an aggregate in ':find', which is missing; add its variables to ':find' instead"
            raise query.text.unsupported(what, query.with_[0].span)
        columns = tuple(dict.fromkeys([*(spec.variable for spec in query.find), *query.with_]))
        head = output if not aggregates else self.names.helper("rows")
        self._write(head, columns if aggregates else tuple(spec.variable for spec in query.find))
        self.compiler.finish(head)
        self._check_columns(columns)
        if aggregates and self.derived:
            self._aggregate(output, head, columns)
        if not self.derived:
            terms = tuple(Variable(f"c{column_index}") for column_index in range(len(query.find)))
            self.compiler.rules = {1: Rule(Atom(output, terms), (Atom(EMPTY_INPUT, terms),))}
        types = tuple(map(self._type, query.find))
        labels = query.labels
        names = labels[1] if labels else unique_names(map(_column_name, query.find))
        written = (*self.compiler.rules.values(), *self._unread())
        used = Rules(written).inputs
        rules = Rules(
            written,
            (
                *self._declarations(used),
                Declaration(output, unique_names(names), (None,) * len(names)),
            ),
            (output,),
        )
        try:
            check(rules)
        except UnsupportedError:
            if self.is_separate or not any(self.compiler.needs.values()):
                raise
            raise _SharedError from None
        reads = {name: read for name, read in self.compiler.reads.items() if name in used}
        input_rows = {name: query.input_rows[name] for name in self.compiler.rows if name in used}
        return Query(
            rules, output, query.shape, names, labels and labels[0].removeprefix(":"), types,  # type: ignore[arg-type]  # one of `LABELS`
            input_rows if self.derived else {EMPTY_INPUT: ()}, reads, self.placed.unknown, self.placed.undeclared,
            self.placed.open, tuple(map(self._pull, query.find)),
        )  # fmt: skip

    def _unread(self) -> list[Rule]:
        """Return rules without results that declare the unread plain relations as inputs."""
        used = Rules(tuple(self.compiler.rules.values())).inputs
        never = Comparison("=", Constant(0), Constant(1))
        return [
            Rule(
                Atom("unread#1", (ZERO,)),
                (Atom(name, tuple(Variable(f"_#{column_index}") for column_index in range(arity))),),
                (never,),
            )
            for name, arity in self.compiler.arity.items()
            if name not in used
        ]

    def _is_taken(self, name: str) -> bool:
        return any(getattr(source, "name", None) == name for source in self.parsed.sources.values())

    def _term(self, variable: Var) -> Var | Const:
        return self.parsed.constants.get(variable, variable)

    def _write(self, head: str, columns: Sequence[Var]) -> None:
        terms = tuple(self.names.term(self._term(column)) for column in columns)
        for body, env in self.compiler.bodies(self.parsed.text, self.clauses, {}):
            self.envs[self.compiler.write(self.parsed.text, Atom(head, terms), body)] = env

    def _check_columns(self, columns: Sequence[Var]) -> None:
        """Record the types of columns; raise for a column of several types."""
        envs = [env for rule_id, env in self.envs.items() if rule_id in self.compiler.rules]
        self.derived = bool(envs)
        for column in columns:
            term = self._term(column)
            types: list[Set] = [frozenset({term.type}) if isinstance(term, Const) else env.get(term) for env in envs]
            joined = functools.reduce(join, types) if types else None
            if joined is not None and len(joined) > 1:
                words = f"{', '.join(sorted(joined)[:-1])} and {max(joined)}"
                what = (
                    f"the column '{column}' would hold values of the types {words}, but a column has a single type;"
                    f" name attributes of the same type, or add a clause that only one of the types satisfies"
                )
                raise TypeMismatchError(self.parsed.text.pointed(what, column.span))
            self.types[column] = joined

    def _aggregate(self, output: str, rows: str, columns: Sequence[Var]) -> None:
        """Write the aggregates of ``:find``, joined on the columns without an aggregate."""
        read: dict[Var, Variable] = {column: self._column(column) for column in columns}
        terms = tuple(read[column] for column in columns)
        keys = tuple(dict.fromkeys(read[spec.variable] for spec in self.parsed.find if not spec.op))
        atoms: dict[tuple[str, Var], Atom] = {}
        head: list[Expression] = []
        for spec in self.parsed.find:
            if not spec.op:
                head.append(read[spec.variable])
                continue
            self._check_aggregate(spec)
            key = (spec.op, spec.variable) if spec.op != "count" else (spec.op, columns[0])
            if key not in atoms:
                atoms[key] = self._add_aggregate(
                    spec, Atom(rows, terms), keys, read[spec.variable], self._column(self.parsed.reader.fresh("?n"))
                )
            head.append(atoms[key].terms[-1])
        group_atoms = tuple(atoms.values())
        if len(group_atoms) == 1 and tuple(head) == group_atoms[0].terms:
            _, only_rule = self.compiler.rules.popitem()
            self.compiler.add(self.parsed.text, Rule(Atom(output, only_rule.head.terms), only_rule.atoms))
            return
        self.compiler.add(self.parsed.text, Rule(Atom(output, tuple(head)), group_atoms))

    def _column(self, variable: Var) -> Variable:
        term = self.names.term(variable)
        assert isinstance(term, Variable)
        return term

    def _add_aggregate(
        self, spec: FindSpec, rows: Atom, keys: tuple[Variable, ...], value: Variable, result: Variable
    ) -> Atom:
        assert spec.op is not None
        op = AGGREGATES[spec.op]
        if spec.op == "count-distinct":
            grouped = tuple(dict.fromkeys((*keys, value)))
            name = self.names.helper("distinct")
            self.compiler.add(self.parsed.text, Rule(Atom(name, grouped), (_project(rows, grouped, self.names.blank),)))
            rows = Atom(name, grouped)
        call = Call(op, () if op == "count" else (value,))
        name = self.names.helper(op)
        self.compiler.add(self.parsed.text, Rule(Atom(name, (*keys, call)), (rows,)))
        return Atom(name, (*keys, result))

    def _check_aggregate(self, spec: FindSpec) -> None:
        types = self.types.get(spec.variable)
        if types is None or OPAQUE in types:
            return
        (kind,) = types
        if spec.op in ("sum", "avg") and kind not in NUMBERS:
            what = f"'{spec.op}' takes numbers: got '{spec.variable}' of type {kind}"
            raise TypeMismatchError(self.parsed.text.pointed(what, spec.span))
        if spec.op in ("min", "max") and kind in UNORDERED:
            what = f"'{spec.op}' takes values that have an order: got '{spec.variable}' of type {kind}"
            raise TypeMismatchError(self.parsed.text.pointed(what, spec.span))

    def _pull(self, spec: FindSpec) -> tuple[Datoms, PullPattern] | None:
        """Return the database and the pattern of an element; None if nothing is pulled."""
        if spec.pull is None:
            return None
        types = self.types.get(spec.variable)
        if types is not None and not types & {"long", "ref", OPAQUE}:
            what = f"'pull' takes an entity: got '{spec.variable}' of type {next(iter(types))}"
            raise TypeMismatchError(self.parsed.text.pointed(what, spec.span))
        source = source_of(self.parsed.sources, spec.source)
        assert isinstance(source, Datoms)
        return source, spec.pull

    def _type(self, spec: FindSpec) -> str | None:
        if spec.op in ("count", "count-distinct"):
            return "long"
        if spec.op == "avg":
            return "double"
        types = self.types.get(spec.variable)
        return None if types is None or OPAQUE in types else "string" if TEXT in types else next(iter(types))

    def _declarations(self, used: Collection[str]) -> list[Declaration]:
        """Return the declarations of the relations in `used`."""
        declarations = []
        compiler = self.compiler
        for name, read in compiler.reads.items():
            declarations.append(Declaration(name, ("e", "a", "v"), ("int64", "string", ENGINE[read.type])))
        for name, relation in compiler.columns.items():
            if relation.columns:
                types = relation.types or (None,) * len(relation.columns)
                columns = unique_names(relation.columns)
                declarations.append(Declaration(name, columns, types, is_binding=False))
        for name, rows in compiler.rows.items():
            kinds = tuple(None if kind is None else ENGINE[kind] for kind in rows.types)
            declarations.append(
                Declaration(name, tuple(f"c{column_index}" for column_index in range(len(kinds))), kinds)
            )
        return [declaration for declaration in declarations if declaration.relation in used]


def _column_name(spec: FindSpec) -> str:
    name = spec.variable.name.removeprefix("?")
    return f"{spec.op}-{name}" if spec.op else name


def _project(atom: Atom, variables: Sequence[Variable], blank: Any) -> Atom:
    return Atom(atom.relation, tuple(term if term in variables else blank() for term in atom.terms))
