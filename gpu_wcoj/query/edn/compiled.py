"""Compilation of EDN queries to rules, with the aggregates of ``:find``."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpu_wcoj.errors import TypeMismatchError, UnsupportedError
from gpu_wcoj.query.check import check
from gpu_wcoj.query.edn.answer import Query
from gpu_wcoj.query.edn.asked import ParsedQuery, parse_query
from gpu_wcoj.query.edn.ast import Const, FindSpec, Var
from gpu_wcoj.query.edn.compile import Compiler
from gpu_wcoj.query.edn.functions import AGGREGATES
from gpu_wcoj.query.edn.names import unique_names
from gpu_wcoj.query.edn.pieces import ZERO
from gpu_wcoj.query.edn.placing import resolve_sources
from gpu_wcoj.query.edn.resolve import NUMBERS, UNORDERED, Env, Set, TypeInference, join
from gpu_wcoj.query.edn.scopes import Scopes
from gpu_wcoj.query.edn.sources import ENGINE, OPAQUE, TEXT, Source
from gpu_wcoj.query.ir import Atom, Call, Comparison, Constant, Expression, Variable
from gpu_wcoj.query.rules import Declaration, Rule, Rules

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
    >>> from gpu_wcoj.query.edn.sources import Relation
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
        names = labels[1] if labels else unique_names(dict(enumerate(map(_column_name, query.find))))
        written = (*self.compiler.rules.values(), *self._unread())
        used = Rules(written).inputs
        rules = Rules(
            written,
            (
                *self._declarations(used),
                Declaration(output, unique_names(dict(enumerate(names))), (None,) * len(names)),
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
            self.placed.open,
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
                columns = unique_names(dict(enumerate(relation.columns)))
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
