"""Clauses, from forms."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC

from gpu_wcoj.errors import nearest
from gpu_wcoj.query.edn.clauses import (
    Blank,
    Call,
    Clause,
    Const,
    Function,
    Lookup,
    Not,
    Or,
    Pattern,
    Predicate,
    Rows,
    Term,
    Text,
    Var,
    variables_of,
)
from gpu_wcoj.query.edn.forms import Form
from gpu_wcoj.query.edn.functions import (
    ARGUMENTS,
    CLAUSES,
    CORE,
    FUNCTIONS,
    PREDICATES,
)
from gpu_wcoj.query.terms import Span

NESTING = 30
"""How deep clauses may stand within each other."""

MOST_CLAUSES = 1_000
"""How many clauses a query and its rules may have."""

Row = tuple[object, ...]


class Clauses:
    """Reads clauses, and keeps what they need beside.

    Attributes
    ----------
    given
        Rows that ``ground`` and arguments give, by the relation that holds them.
    """

    def __init__(self) -> None:
        self.given: dict[str, tuple[Row, ...]] = {}
        self.scopes = itertools.count(1)
        self.n_clauses = 0

    def read(self, text: Text, forms: Iterable[Form], depth: int = 0) -> tuple[Clause, ...]:
        """The clauses that forms spell; ``and`` is the clauses in it."""
        return tuple(clause for form in forms for clause in self._clause(text, form, depth))

    def rows(self, rows: Sequence[Row]) -> str:
        """The relation that holds some rows."""
        name = f"given#{len(self.given) + 1}"
        self.given[name] = tuple(dict.fromkeys(rows))
        return name

    def fresh(self, name: str) -> Var:
        """A variable that no text has."""
        return Var(name, next(self.scopes))

    def _clause(self, text: Text, form: Form, depth: int) -> Iterator[Clause]:
        self.n_clauses += 1
        if self.n_clauses > MOST_CLAUSES:
            raise text.error(f"a query has at most {MOST_CLAUSES:,} clauses", form.span)
        if depth > NESTING:
            raise text.error(f"clauses nest more than {NESTING} deep; make a part of them a rule", form.span)
        if form.kind not in ("vector", "list"):
            what = "a clause is a vector such as [?e :attribute ?v], or a list such as (not ...) or (rule ?x)"
            raise text.error(f"expected a clause, and found '{form}'; {what}", form.span)
        if not form.value:
            raise text.error("this clause is empty", form.span)
        if form.kind == "vector":
            yield from self._vector(text, form)
        else:
            yield from self._list(text, form, depth)

    def _vector(self, text: Text, form: Form) -> Iterator[Clause]:
        first, *rest = form.value
        if first.kind == "list":
            yield from self._expression(text, form)
            return
        source = None
        items = form.value
        if first.is_source:
            source, items = first.value, tuple(rest)
            if items and items[0].kind == "list":
                raise text.error("a predicate or function takes its source as an argument", first.span)
            if not items:
                raise text.error(f"the pattern of '{first}' has no terms", form.span)
        yield Pattern(source, tuple(self.term(text, one) for one in items), form.span)

    def _list(self, text: Text, form: Form, depth: int) -> Iterator[Clause]:
        first, *rest = form.value
        source = None
        if first.is_source and rest:
            source, (first, *rest) = first.value, rest
        if first.kind != "symbol" or first.is_variable or first.is_blank or first.is_source:
            what = f"expected {', '.join(CLAUSES)} or the name of a rule, and found '{first}'"
            raise text.error(what, first.span)
        name = first.value
        if name in CLAUSES:
            yield from self._connected(text, form, name, source, rest, depth)
            return
        if name.removeprefix(CORE) in (*PREDICATES, *FUNCTIONS):
            raise text.error(
                f"'{name}' stands in a vector: [{form}] as a predicate, [{form} ?x] as a function", form.span
            )
        yield Call(source, name, tuple(self.term(text, one, in_pattern=False) for one in rest), form.span)

    def _connected(
        self, text: Text, form: Form, name: str, source: str | None, rest: Sequence[Form], depth: int
    ) -> Iterator[Clause]:
        variables: tuple[Var, ...] | None = None
        required: tuple[Var, ...] = ()
        if name in ("or-join", "not-join"):
            variables, required = self.joined(text, name, rest[0] if rest else form)
            if name == "not-join" and required:
                raise text.error("'not-join' takes variables, without a vector of them inside", rest[0].span)
            rest = rest[1:]
        if not rest:
            raise text.error(f"'{name}' has no clauses", form.span)
        if name in ("not", "not-join"):
            clauses = self.read(text, rest, depth + 1)
            self._refuse_unused(text, name, variables, clauses)
            yield self.closed(Not(source, variables, clauses, form.span))
            return
        if name == "and":
            if source is not None:
                raise text.error("'and' takes no source; give it to the clauses", form.span)
            yield from self.read(text, rest, depth + 1)
            return
        branches = tuple(self.read(text, [one], depth + 1) for one in rest)
        if variables is None:
            found = [frozenset(one for clause in branch for one in variables_of(clause)) for branch in branches]
            for other, written in zip(found, rest, strict=True):
                if other != found[0]:
                    (odd, *_) = sorted(map(str, other ^ found[0]))
                    what = (
                        f"all clauses of an 'or' must have the same variables, and only some have '{odd}';"
                        " write or-join with the variables that join: (or-join [?x] ...)"
                    )
                    raise text.error(what, written.span)
        else:
            for branch in branches:
                self._refuse_unused(text, name, variables, branch)
        yield self.closed(Or(source, variables, required, branches, form.span))

    def joined(self, text: Text, name: str, form: Form) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """The variables of ``[?x ...]`` or ``[[?required ...] ?x ...]``, and those that are required."""
        if form.kind != "vector" or not form.value:
            raise text.error(f"'{name}' takes a vector of variables first: ({name} [?x ?y] ...)", form.span)
        return self.heads(text, form.value)

    def heads(self, text: Text, forms: Sequence[Form]) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """Variables, and which of them stand in a vector in front, and so must be bound."""
        required: list[Var] = []
        variables: list[Var] = []
        for number, form in enumerate(forms):
            inner = form.value if number == 0 and form.kind == "vector" else (form,)
            for one in inner:
                if not one.is_variable:
                    raise text.error(f"expected a variable such as ?x, and found '{one}'", one.span)
                variable = Var(one.value, span=one.span)
                if variable in variables:
                    raise text.error(f"the variable '{variable}' is there twice", one.span)
                variables.append(variable)
                if inner is form.value:
                    required.append(variable)
        return tuple(variables), tuple(required)

    def _refuse_unused(self, text: Text, name: str, variables: Sequence[Var] | None, clauses: Sequence[Clause]) -> None:
        used = {one for clause in clauses for one in variables_of(clause)}
        for one in variables or ():
            if one not in used:
                raise text.error(f"the clauses of '{name}' do not use '{one}'", one.span)

    def closed(self, clause: Not | Or) -> Not | Or:
        """The clause with variables of its own renamed, where it says which ones join."""
        if clause.variables is None:
            return clause
        inner = clause.clauses if isinstance(clause, Not) else [one for branch in clause.branches for one in branch]
        used = {one for each in inner for one in variables_of(each)}
        scope = next(self.scopes)
        own = {one: replace(one, scope=scope) for one in used if one not in clause.variables}
        found = inside(clause, own)
        assert isinstance(found, (Not, Or))
        return found

    def _expression(self, text: Text, form: Form) -> Iterator[Clause]:
        call, *rest = form.value
        if len(rest) > 1:
            raise text.error("expected [(predicate ...)] or [(function ...) ?result]", form.span)
        if not call.value or call.value[0].kind != "symbol":
            raise text.error("expected a function or predicate behind '('", call.span)
        head, *arguments = call.value
        name = head.value.removeprefix(CORE)
        known = (*PREDICATES, *FUNCTIONS)
        if name not in known:
            what = f"'{head}' is not supported; {', '.join(known)} are{nearest(name, known).rstrip()}"
            raise text.unsupported(what, head.span)
        least, most = ARGUMENTS[name]
        if len(arguments) < least or (most is not None and len(arguments) > most):
            number = f"{least}" if least == most else f"{least} or more" if most is None else f"{least} to {most}"
            what = f"'{name}' takes {number} argument{'s' if number != '1' else ''}, and here are {len(arguments)}"
            raise text.error(what, call.span)
        if name in ("missing?", "get-else"):
            yield from self._about_attribute(text, form, name, arguments, rest)
            return
        if name == "ground":
            yield from self._ground(text, form, arguments[0], rest)
            return
        if not rest:
            if name not in PREDICATES:
                raise text.error(f"'{name}' is a function; bind its result: [{call} ?x]", form.span)
            yield self._predicate(name, self._arguments(text, arguments), form.span)
            return
        result = self._result(text, rest[0])
        terms = self._arguments(text, arguments)
        if name in PREDICATES:
            yield from self._truth(self._predicate(name, terms, form.span), result, form)
            return
        if name in ("+", "*") and len(terms) == 1:
            name = "identity"
        yield Function(name, terms, result, form.span)

    def _predicate(self, name: str, terms: tuple[Var | Const, ...], span: Span) -> Predicate | Not:
        """A predicate; that not all of three terms or more are equal is the negation of another."""
        if name != "not=" or len(terms) == 2:
            return Predicate(name, terms, span)
        equal = Predicate("=", terms, span)
        return Not(None, tuple(dict.fromkeys(variables_of(equal))), (equal,), span)

    def _truth(self, predicate: Predicate | Not, result: Var | Const, form: Form) -> Iterator[Clause]:
        """``[(< ?a ?b) ?c]``: an ``or`` of the predicate and true, and its negation and false."""
        span = form.span
        yes = Function("identity", (Const(True, "boolean", span),), result, span)
        no = Function("identity", (Const(False, "boolean", span),), result, span)
        variables = tuple(dict.fromkeys(variables_of(predicate)))
        negated = Not(None, None, (predicate,), span)
        joins = (*variables, result) if isinstance(result, Var) and result not in variables else variables
        yield Or(None, joins, variables, ((predicate, yes), (negated, no)), span)

    def _arguments(self, text: Text, forms: Sequence[Form]) -> tuple[Var | Const, ...]:
        found: list[Var | Const] = []
        for form in forms:
            term = self.term(text, form, in_pattern=False)
            if isinstance(term, Blank):
                raise text.error("'_' has no value, and an argument needs one", form.span)
            assert not isinstance(term, Lookup)
            found.append(term)
        return tuple(found)

    def _result(self, text: Text, form: Form) -> Var | Const:
        if form.is_variable:
            return Var(form.value, span=form.span)
        if form.is_blank:
            return self.fresh("?_")
        if form.kind in ("vector", "list"):
            what = "this function has one value, so its result is bound as ?x, not in pieces"
            raise text.unsupported(what, form.span)
        raise text.error(f"expected a variable for the result, and found '{form}'", form.span)

    def _about_attribute(
        self, text: Text, form: Form, name: str, arguments: Sequence[Form], rest: Sequence[Form]
    ) -> Iterator[Clause]:
        """``[(missing? $ ?e :a)]`` and ``[(get-else $ ?e :a default) ?v]``, by the clauses that they stand for."""
        source, entity, attribute, *default = arguments
        if not source.is_source:
            raise text.error(f"'{name}' takes a source first, as $, and here is '{source}'", source.span)
        if attribute.kind != "keyword":
            raise text.error(f"'{name}' takes an attribute such as :name, and here is '{attribute}'", attribute.span)
        if (name == "get-else") != bool(rest):
            what = "is a predicate; it binds nothing" if rest else "is a function; bind its result: [(...) ?x]"
            raise text.error(f"'{name}' {what}", form.span)
        about = self.term(text, entity)
        if isinstance(about, Blank):
            raise text.error("'_' has no value, and an argument needs one", entity.span)
        key = self.term(text, attribute)
        caller = name if default else ""
        held = Pattern(source.value, (about, key, Blank()), form.span, caller=caller)
        none = Not(None, None, (held,), form.span)
        if not default:
            yield none
            return
        (given,) = default
        value = self.term(text, given, in_pattern=False)
        if isinstance(value, Blank):
            raise text.error("'_' has no value, and an argument needs one", given.span)
        assert not isinstance(value, Lookup)
        result = self._result(text, rest[0])
        there = replace(held, terms=(about, key, result))
        other = Function("identity", (value,), result, form.span)
        needed = tuple(dict.fromkeys(one for one in (*variables_of(there), *variables_of(other)) if one != result))
        joins = (*needed, result) if isinstance(result, Var) else needed
        yield Or(None, joins, needed, ((there,), (none, other)), form.span)

    def _ground(self, text: Text, form: Form, value: Form, rest: Sequence[Form]) -> Iterator[Clause]:
        if not rest:
            raise text.error("'ground' is a function; bind its result: [(ground 5) ?x]", form.span)
        yield from self.bound(text, rest[0], value)

    def bound(self, text: Text, binding: Form, value: Form) -> Iterator[Clause]:
        """What a binding ``?x``, ``[?x ?y]``, ``[?x ...]`` or ``[[?x ?y]]`` makes of a value that is written down."""
        from gpu_wcoj.query.edn.binding import bound

        yield from bound(self, text, binding, value)

    def term(self, text: Text, form: Form, in_pattern: bool = True) -> Term:
        """A variable, a constant, ``_``, or in patterns a lookup ref."""
        if form.is_variable:
            return Var(form.value, span=form.span)
        if form.is_blank:
            return Blank(form.span)
        if form.kind == "vector" and in_pattern:
            if len(form.value) != 2 or form.value[0].kind != "keyword":
                raise text.error("a vector here is a lookup ref, [:attribute value]", form.span)
            key, value = form.value
            found = self.term(text, value, in_pattern=False)
            if isinstance(found, Blank):
                raise text.error("a lookup ref needs a value, and '_' has none", value.span)
            assert not isinstance(found, Lookup)
            return Lookup(key.value, found, form.span)
        return constant(text, form)


def constant(text: Text, form: Form) -> Const:
    """The constant that a form spells."""
    kinds = {"int": "long", "float": "double", "string": "string", "bool": "boolean", "keyword": "keyword"}
    if form.kind in kinds:
        return Const(form.value, kinds[form.kind], form.span)
    if form.kind == "inst":
        value = form.value.astimezone(UTC)
        return Const(value.isoformat(timespec="microseconds").replace("+00:00", "Z"), "instant", form.span)
    if form.kind == "uuid":
        return Const(str(form.value), "uuid", form.span)
    if form.kind == "nil":
        raise text.error("nil is no value: what is not there has no datom; see missing? and get-else", form.span)
    if form.kind == "char":
        raise text.unsupported("characters are not supported; write a string", form.span)
    if form.kind == "symbol":
        near = f"; did you mean '?{form.value}'?" if not form.is_source else ""
        raise text.error(f"expected a variable, a constant or '_', and found the symbol '{form}'{near}", form.span)
    raise text.error(f"expected a variable, a constant or '_', and found '{form}'", form.span)


def inside(clause: Clause, own: Mapping[Var, Var | Const]) -> Clause:
    """A clause with other variables, or constants, in the place of some."""
    if not own:
        return clause

    def value(term: Var | Const) -> Var | Const:
        return replace(own[term], span=term.span) if isinstance(term, Var) and term in own else term

    def of(term: Term) -> Term:
        if isinstance(term, Blank):
            return term
        return replace(term, value=value(term.value)) if isinstance(term, Lookup) else value(term)

    if isinstance(clause, Not):
        variables = None if clause.variables is None else _variables(map(value, clause.variables))
        return replace(clause, variables=variables, clauses=tuple(inside(one, own) for one in clause.clauses))
    if isinstance(clause, Or):
        variables = None if clause.variables is None else _variables(map(value, clause.variables))
        required = _variables(map(value, clause.required))
        branches = tuple(tuple(inside(one, own) for one in branch) for branch in clause.branches)
        return replace(clause, variables=variables, required=required, branches=branches)
    if isinstance(clause, Function):
        return replace(clause, terms=tuple(map(value, clause.terms)), result=value(clause.result))
    if isinstance(clause, Predicate):
        return replace(clause, terms=tuple(map(value, clause.terms)))
    if isinstance(clause, Rows):
        rows = tuple(one if isinstance(one, Blank) else value(one) for one in clause.terms)
        return replace(clause, terms=rows)
    return replace(clause, terms=tuple(map(of, clause.terms)))


def _variables(terms: Iterable[Term]) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(one for one in terms if isinstance(one, Var)))
