"""EDN queries to rules: the steps, and ``:find`` with its aggregates."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gpu_wcoj.errors import TypeMismatchError, UnsupportedError
from gpu_wcoj.query.checks import check
from gpu_wcoj.query.edn.answer import Query
from gpu_wcoj.query.edn.asked import Asked, asked
from gpu_wcoj.query.edn.clauses import Const, Found, Var
from gpu_wcoj.query.edn.compiler import Compiler
from gpu_wcoj.query.edn.functions import AGGREGATES
from gpu_wcoj.query.edn.kinds import NUMBERS, UNORDERED, Env, Kinds, Set, join
from gpu_wcoj.query.edn.names import distinct
from gpu_wcoj.query.edn.pieces import ZERO
from gpu_wcoj.query.edn.placing import placed
from gpu_wcoj.query.edn.scopes import Scopes
from gpu_wcoj.query.edn.sources import ENGINE, OPAQUE, TEXT, Source
from gpu_wcoj.query.rules import Declaration, Rule, Rules
from gpu_wcoj.query.terms import Atom, Call, Comparison, Constant, Expression, Variable

NOTHING = "nothing#1"
"""An input without rows, for queries to which nothing that is known can be an answer."""


def parse(query: Any, sources: Mapping[str, Source], *, arguments: Sequence[Any] = (), source: str = "<text>") -> Query:
    """The rules that a query in EDN becomes.

    Parameters
    ----------
    query
        A query as Datomic and DataScript have it, as EDN text or as Python's data: ``{:find [...] :where [...]}`` or
        ``[:find ... :where ...]``. Beside their parts, ``:rules [...]`` may hold rules.
    sources
        What the query reads, by the names ``$``, ``$name`` or ``name``. A plain relation is read by patterns
        ``[$name ?a ?b]`` or ``(name ?a ?b)``.
    arguments
        What ``:in`` binds, in order; sources may be among them, too, if they do not stand in `sources`.
    source
        What messages call the text, for example the name of its file.

    Raises
    ------
    EdnSyntaxError
        If the text cannot be read, or is no query; if something is not bound.
    UnsupportedError
        For what Datomic has and this has not.
    TypeMismatchError
        If values of two types meet, or a column of the answer would hold them.

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
    read = asked(query, sources, arguments, source)
    try:
        return _Compiled(read).query()
    except _SharedError:
        return _Compiled(read, is_separate=True).query()


class _SharedError(Exception):
    """What one caller asks a rule with hangs on what another negates."""


class _Compiled:
    """A query on its way to rules.

    Attributes
    ----------
    types
        Of the columns of the answer, or of the rows that are aggregated.
    written
        The types of variables, per rule of the answer.
    derived
        Whether anything derives an answer.
    """

    def __init__(self, query: Asked, is_separate: bool = False) -> None:
        self.asked, self.is_separate = query, is_separate
        text = query.text
        found = placed(text, query.clauses, query.rules, query.sources, query.reader, query.constants)
        scopes = Scopes(found.rules, query.reader)
        rules = {name: scopes.rule(name) for name in found.rules}
        self.clauses = scopes.resolved(text, found.clauses)
        self._refuse_unbound(scopes.bound(found.clauses))
        wide = Kinds(query.sources, rules, is_wide=True)
        wide.check_rules()
        _ = wide.check(text, self.clauses, {})
        self.placed = found
        kinds = Kinds(query.sources, rules)
        self.compiler = Compiler(
            query.sources, rules, kinds, scopes.needs, query.reader, found.reached, is_separate=is_separate
        )
        self.names = self.compiler.names
        self.types: dict[Var, Set] = {}
        self.written: dict[int, Env] = {}
        self.derived = False

    def _refuse_unbound(self, bound: frozenset[Var]) -> None:
        text, constants = self.asked.text, self.asked.constants
        for place, variables in ((":find", [one.variable for one in self.asked.find]), (":with", self.asked.with_)):
            for one in variables:
                if one not in bound and one not in constants:
                    known = ", ".join(sorted(f"'{each}'" for each in bound)) or "none"
                    what = f"'{one}' in '{place}' is not bound by ':where' or ':in'; bound are {known}"
                    raise text.error(what, one.span)

    def query(self) -> Query:
        query = self.asked
        output = "find" if not self._is_taken("find") else "find#1"
        aggregates = [one for one in query.find if one.op]
        if query.with_ and not aggregates:
            what = "':with' keeps rows apart for aggregates, and this ':find' has none; find its variables, too"
            raise query.text.unsupported(what, query.with_[0].span)
        columns = tuple(dict.fromkeys([*(one.variable for one in query.find), *query.with_]))
        head = output if not aggregates else self.names.helper("rows")
        self._write(head, columns if aggregates else tuple(one.variable for one in query.find))
        self.compiler.finish(head)
        self._judge(columns)
        if aggregates and self.derived:
            self._aggregate(output, head, columns)
        if not self.derived:
            terms = tuple(Variable(f"c{at}") for at in range(len(query.find)))
            self.compiler.rules = {1: Rule(Atom(output, terms), (Atom(NOTHING, terms),))}
        types = tuple(map(self._type, query.find))
        labels = query.labels
        names = labels[1] if labels else distinct(dict(enumerate(map(_name, query.find))))
        written = (*self.compiler.rules.values(), *self._unread())
        used = Rules(written).inputs
        rules = Rules(
            written,
            (*self._declarations(used), Declaration(output, distinct(dict(enumerate(names))), (None,) * len(names))),
            (output,),
        )
        try:
            check(rules)
        except UnsupportedError:
            if self.is_separate or not any(self.compiler.needs.values()):
                raise
            raise _SharedError from None
        reads = {name: one for name, one in self.compiler.reads.items() if name in used}
        given = {name: query.given[name] for name in self.compiler.rows if name in used}
        return Query(
            rules, output, query.shape, names, labels and labels[0].removeprefix(":"), types,  # type: ignore[arg-type]  # one of the three
            given if self.derived else {NOTHING: ()}, reads, self.placed.unknown, self.placed.undeclared,
            self.placed.open,
        )  # fmt: skip

    def _unread(self) -> list[Rule]:
        """Rules that derive nothing, and read the plain relations that no other reads: they are inputs all the same."""
        used = Rules(tuple(self.compiler.rules.values())).inputs
        never = Comparison("=", Constant(0), Constant(1))
        return [
            Rule(Atom("unread#1", (ZERO,)), (Atom(name, tuple(Variable(f"_#{at}") for at in range(arity))),), (never,))
            for name, arity in self.compiler.arity.items()
            if name not in used
        ]

    def _is_taken(self, name: str) -> bool:
        return any(getattr(one, "name", None) == name for one in self.asked.sources.values())

    def _term(self, variable: Var) -> Var | Const:
        return self.asked.constants.get(variable, variable)

    def _write(self, head: str, columns: Sequence[Var]) -> None:
        terms = tuple(self.names.term(self._term(one)) for one in columns)
        for body, env in self.compiler.bodies(self.asked.text, self.clauses, {}):
            self.written[self.compiler.write(self.asked.text, Atom(head, terms), body)] = env

    def _judge(self, columns: Sequence[Var]) -> None:
        """Keep the types of columns, and refuse a column of two."""
        envs = [env for number, env in self.written.items() if number in self.compiler.rules]
        self.derived = bool(envs)
        for one in columns:
            term = self._term(one)
            types: list[Set] = [frozenset({term.type}) if isinstance(term, Const) else env.get(term) for env in envs]
            found = functools.reduce(join, types) if types else None
            if found is not None and len(found) > 1:
                words = f"{', '.join(sorted(found)[:-1])} and {max(found)}"
                what = (
                    f"the column '{one}' would hold values of the types {words}, and a column has one;"
                    f" name attributes of one type, or add a clause that only one of them satisfies"
                )
                raise TypeMismatchError(self.asked.text.pointed(what, one.span))
            self.types[one] = found

    def _aggregate(self, output: str, rows: str, columns: Sequence[Var]) -> None:
        """The head of groups: an aggregate of each column that has one, joined by the columns that have none."""
        read: dict[Var, Variable] = {one: self._column(one) for one in columns}
        terms = tuple(read[one] for one in columns)
        keys = tuple(dict.fromkeys(read[one.variable] for one in self.asked.find if not one.op))
        atoms: dict[tuple[str, Var], Atom] = {}
        head: list[Expression] = []
        for one in self.asked.find:
            if not one.op:
                head.append(read[one.variable])
                continue
            self._check_aggregate(one)
            key = (one.op, one.variable) if one.op != "count" else (one.op, columns[0])
            if key not in atoms:
                atoms[key] = self._grouped(
                    one, Atom(rows, terms), keys, read[one.variable], self._column(self.asked.reader.fresh("?n"))
                )
            head.append(atoms[key].terms[-1])
        found = tuple(atoms.values())
        if len(found) == 1 and tuple(head) == found[0].terms:
            _, last = self.compiler.rules.popitem()
            self.compiler.add(self.asked.text, Rule(Atom(output, last.head.terms), last.atoms))
            return
        self.compiler.add(self.asked.text, Rule(Atom(output, tuple(head)), found))

    def _column(self, variable: Var) -> Variable:
        found = self.names.term(variable)
        assert isinstance(found, Variable)
        return found

    def _grouped(self, found: Found, rows: Atom, keys: tuple[Variable, ...], value: Variable, result: Variable) -> Atom:
        assert found.op is not None
        op = AGGREGATES[found.op]
        if found.op == "count-distinct":
            kept = tuple(dict.fromkeys((*keys, value)))
            name = self.names.helper("distinct")
            self.compiler.add(self.asked.text, Rule(Atom(name, kept), (_keeping(rows, kept, self.names.blank),)))
            rows = Atom(name, kept)
        call = Call(op, () if op == "count" else (value,))
        name = self.names.helper(op)
        self.compiler.add(self.asked.text, Rule(Atom(name, (*keys, call)), (rows,)))
        return Atom(name, (*keys, result))

    def _check_aggregate(self, found: Found) -> None:
        types = self.types.get(found.variable)
        if types is None or OPAQUE in types:
            return
        (kind,) = types
        if found.op in ("sum", "avg") and kind not in NUMBERS:
            what = f"'{found.op}' takes numbers, and '{found.variable}' is of type {kind}"
            raise TypeMismatchError(self.asked.text.pointed(what, found.span))
        if found.op in ("min", "max") and kind in UNORDERED:
            what = f"'{found.op}' takes values that have an order, and '{found.variable}' is of type {kind}"
            raise TypeMismatchError(self.asked.text.pointed(what, found.span))

    def _type(self, found: Found) -> str | None:
        if found.op in ("count", "count-distinct"):
            return "long"
        if found.op == "avg":
            return "double"
        types = self.types.get(found.variable)
        return None if types is None or OPAQUE in types else "string" if TEXT in types else next(iter(types))

    def _declarations(self, used: Collection[str]) -> list[Declaration]:
        """What is known of the columns of the relations that are used."""
        found = []
        compiler = self.compiler
        for name, read in compiler.reads.items():
            found.append(Declaration(name, ("e", "a", "v"), ("int64", "string", ENGINE[read.type])))
        for name, relation in compiler.columns.items():
            if relation.columns:
                types = relation.types or (None,) * len(relation.columns)
                columns = distinct(dict(enumerate(relation.columns)))
                found.append(Declaration(name, columns, types, is_binding=False))
        for name, rows in compiler.rows.items():
            kinds = tuple(None if kind is None else ENGINE[kind] for kind in rows.types)
            found.append(Declaration(name, tuple(f"c{at}" for at in range(len(kinds))), kinds))
        return [one for one in found if one.relation in used]


def _name(found: Found) -> str:
    name = found.variable.name.removeprefix("?")
    return f"{found.op}-{name}" if found.op else name


def _keeping(atom: Atom, kept: Sequence[Variable], blank: Any) -> Atom:
    return Atom(atom.relation, tuple(one if one in kept else blank() for one in atom.terms))
