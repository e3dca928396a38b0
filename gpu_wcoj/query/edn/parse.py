"""Parser of clauses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC

from gpu_wcoj.errors import nearest
from gpu_wcoj.query.edn.ast import (
    Blank,
    Clause,
    Const,
    Function,
    FunctionCall,
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
from gpu_wcoj.query.ir import Span

MAX_NESTING = 30
"""The largest nesting depth of clauses."""

MAX_CLAUSES = 1_000
"""The largest number of clauses of a query and its rules."""

Row = tuple[object, ...]


class ClauseReader:
    """Parser of clauses; collects the rows of their inputs.

    Attributes
    ----------
    input_rows
        Rows of ``ground`` and of arguments, by the relation that holds them.
    """

    def __init__(self) -> None:
        self.input_rows: dict[str, tuple[Row, ...]] = {}
        self.scopes = itertools.count(1)
        self.n_clauses = 0

    def read(self, text: Text, forms: Iterable[Form], depth: int = 0) -> tuple[Clause, ...]:
        """Parse forms to clauses; ``and`` becomes its clauses."""
        return tuple(clause for form in forms for clause in self._clause(text, form, depth))

    def add_rows(self, rows: Sequence[Row]) -> str:
        """Add an input relation with these rows; return its name."""
        name = f"given#{len(self.input_rows) + 1}"
        self.input_rows[name] = tuple(dict.fromkeys(rows))
        return name

    def fresh(self, name: str) -> Var:
        """Return a new variable that cannot be written in a text."""
        return Var(name, next(self.scopes))

    def _clause(self, text: Text, form: Form, depth: int) -> Iterator[Clause]:
        self.n_clauses += 1
        if self.n_clauses > MAX_CLAUSES:
            raise text.error(f"a query has at most {MAX_CLAUSES:,} clauses", form.span)
        if depth > MAX_NESTING:
            raise text.error(f"clauses nest more than {MAX_NESTING} deep; make a part of them a rule", form.span)
        if form.kind not in ("vector", "list"):
            what = "a clause is a vector such as [?e :attribute ?v], or a list such as (not ...) or (rule ?x)"
            raise text.error(f"expected a clause, got '{form}'; {what}", form.span)
        if not form.value:
            raise text.error("this clause is empty", form.span)
        if form.kind == "vector":
            yield from self._vector(text, form)
        else:
            yield from self._list(text, form, depth)

    def _vector(self, text: Text, form: Form) -> Iterator[Clause]:
        first, *remaining = form.value
        if first.kind == "list":
            yield from self._expression(text, form)
            return
        source = None
        items = form.value
        if first.is_source:
            source, items = first.value, tuple(remaining)
            if items and items[0].kind == "list":
                raise text.error("a predicate or function takes its source as an argument", first.span)
            if not items:
                raise text.error(f"the pattern of '{first}' has no terms", form.span)
        yield Pattern(source, tuple(self.term(text, item) for item in items), form.span)

    def _list(self, text: Text, form: Form, depth: int) -> Iterator[Clause]:
        first, *arguments = form.value
        source = None
        if first.is_source and arguments:
            source, (first, *arguments) = first.value, arguments
        if first.kind != "symbol" or first.is_variable or first.is_blank or first.is_source:
            what = f"expected {', '.join(CLAUSES)} or the name of a rule, got '{first}'"
            raise text.error(what, first.span)
        name = first.value
        if name in CLAUSES:
            yield from self._connective(text, form, name, source, arguments, depth)
            return
        if name.removeprefix(CORE) in (*PREDICATES, *FUNCTIONS):
            raise text.error(
                f"'{name}' must be in a vector: [{form}] as a predicate, [{form} ?x] as a function", form.span
            )
        yield FunctionCall(
            source, name, tuple(self.term(text, argument, in_pattern=False) for argument in arguments), form.span
        )

    def _connective(
        self, text: Text, form: Form, name: str, source: str | None, operands: Sequence[Form], depth: int
    ) -> Iterator[Clause]:
        variables: tuple[Var, ...] | None = None
        required: tuple[Var, ...] = ()
        if name in ("or-join", "not-join"):
            variables, required = self.join_variables(text, name, operands[0] if operands else form)
            if name == "not-join" and required:
                raise text.error("'not-join' takes variables, without a vector of them inside", operands[0].span)
            operands = operands[1:]
        if not operands:
            raise text.error(f"'{name}' has no clauses", form.span)
        if name in ("not", "not-join"):
            clauses = self.read(text, operands, depth + 1)
            self._refuse_unused(text, name, variables, clauses)
            yield self.rename_local(Not(source, variables, clauses, form.span))
            return
        if name == "and":
            if source is not None:
                raise text.error("'and' takes no source; give it to the clauses", form.span)
            yield from self.read(text, operands, depth + 1)
            return
        branches = tuple(self.read(text, [operand], depth + 1) for operand in operands)
        if variables is None:
            variable_sets = [
                frozenset(variable for clause in branch for variable in variables_of(clause)) for branch in branches
            ]
            for variable_set, written in zip(variable_sets, operands, strict=True):
                if variable_set != variable_sets[0]:
                    (odd, *_) = sorted(map(str, variable_set ^ variable_sets[0]))
                    what = (
                        f"all clauses of an 'or' must have the same variables, but only some have '{odd}';"
                        " write or-join with the variables that join: (or-join [?x] ...)"
                    )
                    raise text.error(what, written.span)
        else:
            for branch in branches:
                self._refuse_unused(text, name, variables, branch)
        yield self.rename_local(Or(source, variables, required, branches, form.span))

    def join_variables(self, text: Text, name: str, form: Form) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """Parse ``[?x ...]`` or ``[[?required ...] ?x ...]``; return all and the required ones."""
        if form.kind != "vector" or not form.value:
            raise text.error(f"'{name}' takes a vector of variables first: ({name} [?x ?y] ...)", form.span)
        return self.head_variables(text, form.value)

    def head_variables(self, text: Text, forms: Sequence[Form]) -> tuple[tuple[Var, ...], tuple[Var, ...]]:
        """Parse variables; return all, and those in a leading vector, which must be bound."""
        required: list[Var] = []
        variables: list[Var] = []
        for position, form in enumerate(forms):
            inner = form.value if position == 0 and form.kind == "vector" else (form,)
            for item in inner:
                if not item.is_variable:
                    raise text.error(f"expected a variable such as ?x, got '{item}'", item.span)
                variable = Var(item.value, span=item.span)
                if variable in variables:
                    raise text.error(f"the variable '{variable}' is given twice", item.span)
                variables.append(variable)
                if inner is form.value:
                    required.append(variable)
        return tuple(variables), tuple(required)

    def _refuse_unused(self, text: Text, name: str, variables: Sequence[Var] | None, clauses: Sequence[Clause]) -> None:
        used = {variable for clause in clauses for variable in variables_of(clause)}
        for variable in variables or ():
            if variable not in used:
                raise text.error(f"the clauses of '{name}' do not use '{variable}'", variable.span)

    def rename_local(self, clause: Not | Or) -> Not | Or:
        """Return an ``or-join`` or ``not-join`` with its local variables renamed."""
        if clause.variables is None:
            return clause
        inner = (
            clause.clauses
            if isinstance(clause, Not)
            else [branch_clause for branch in clause.branches for branch_clause in branch]
        )
        used = {variable for inner_clause in inner for variable in variables_of(inner_clause)}
        scope = next(self.scopes)
        replacements = {
            variable: replace(variable, scope=scope) for variable in used if variable not in clause.variables
        }
        renamed = substitute(clause, replacements)
        assert isinstance(renamed, (Not, Or))
        return renamed

    def _expression(self, text: Text, form: Form) -> Iterator[Clause]:
        call, *results = form.value
        if len(results) > 1:
            raise text.error("expected [(predicate ...)] or [(function ...) ?result]", form.span)
        if not call.value or call.value[0].kind != "symbol":
            raise text.error("expected a function or predicate after '('", call.span)
        head, *arguments = call.value
        name = head.value.removeprefix(CORE)
        names = (*PREDICATES, *FUNCTIONS)
        if name not in names:
            what = f"'{head}' is not supported: expected one of {', '.join(names)}.{nearest(name, names)}"
            raise text.unsupported(what, head.span)
        min_arguments, max_arguments = ARGUMENTS[name]
        if len(arguments) < min_arguments or (max_arguments is not None and len(arguments) > max_arguments):
            expected_count = (
                f"{min_arguments}"
                if min_arguments == max_arguments
                else f"{min_arguments} or more"
                if max_arguments is None
                else f"{min_arguments} to {max_arguments}"
            )
            plural = "s" if expected_count != "1" else ""
            what = f"'{name}' takes {expected_count} argument{plural}: got {len(arguments)}"
            raise text.error(what, call.span)
        if name in ("missing?", "get-else"):
            yield from self._attribute_function(text, form, name, arguments, results)
            return
        if name == "ground":
            yield from self._ground(text, form, arguments[0], results)
            return
        if not results:
            if name not in PREDICATES:
                raise text.error(f"'{name}' is a function; bind its result: [{call} ?x]", form.span)
            yield self._predicate(name, self._arguments(text, arguments), form.span)
            return
        result = self._result(text, results[0])
        terms = self._arguments(text, arguments)
        if name in PREDICATES:
            yield from self._truth(self._predicate(name, terms, form.span), result, form)
            return
        if name in ("+", "*") and len(terms) == 1:
            name = "identity"
        yield Function(name, terms, result, form.span)

    def _predicate(self, name: str, terms: tuple[Var | Const, ...], span: Span) -> Predicate | Not:
        """Return a predicate; ``not=`` of three or more terms becomes the negation of ``=``."""
        if name != "not=" or len(terms) == 2:
            return Predicate(name, terms, span)
        equal = Predicate("=", terms, span)
        return Not(None, tuple(dict.fromkeys(variables_of(equal))), (equal,), span)

    def _truth(self, predicate: Predicate | Not, result: Var | Const, form: Form) -> Iterator[Clause]:
        """Yield ``[(< ?a ?b) ?c]`` as an ``or`` over the predicate and its negation."""
        span = form.span
        yes = Function("identity", (Const(True, "boolean", span),), result, span)
        no = Function("identity", (Const(False, "boolean", span),), result, span)
        variables = tuple(dict.fromkeys(variables_of(predicate)))
        negated = Not(None, None, (predicate,), span)
        joins = (*variables, result) if isinstance(result, Var) and result not in variables else variables
        yield Or(None, joins, variables, ((predicate, yes), (negated, no)), span)

    def _arguments(self, text: Text, forms: Sequence[Form]) -> tuple[Var | Const, ...]:
        terms: list[Var | Const] = []
        for form in forms:
            term = self.term(text, form, in_pattern=False)
            if isinstance(term, Blank):
                raise text.error("'_' has no value, but an argument needs one", form.span)
            assert not isinstance(term, Lookup)
            terms.append(term)
        return tuple(terms)

    def _result(self, text: Text, form: Form) -> Var | Const:
        if form.is_variable:
            return Var(form.value, span=form.span)
        if form.is_blank:
            return self.fresh("?_")
        if form.kind in ("vector", "list"):
            what = "this function has a single value; bind its result as ?x"
            raise text.unsupported(what, form.span)
        raise text.error(f"expected a variable for the result, got '{form}'", form.span)

    def _attribute_function(
        self, text: Text, form: Form, name: str, arguments: Sequence[Form], results: Sequence[Form]
    ) -> Iterator[Clause]:
        """Yield the clauses of ``[(missing? $ ?e :a)]`` or ``[(get-else $ ?e :a default) ?v]``."""
        source, entity, attribute, *default = arguments
        if not source.is_source:
            raise text.error(f"'{name}' takes a source such as $ first: got '{source}'", source.span)
        if attribute.kind != "keyword":
            raise text.error(f"'{name}' takes an attribute such as :name: got '{attribute}'", attribute.span)
        if (name == "get-else") != bool(results):
            what = "is a predicate; it binds nothing" if results else "is a function; bind its result: [(...) ?x]"
            raise text.error(f"'{name}' {what}", form.span)
        about = self.term(text, entity)
        if isinstance(about, Blank):
            raise text.error("'_' has no value, but an argument needs one", entity.span)
        key = self.term(text, attribute)
        caller = name if default else ""
        present = Pattern(source.value, (about, key, Blank()), form.span, caller=caller)
        none = Not(None, None, (present,), form.span)
        if not default:
            yield none
            return
        (default_form,) = default
        value = self.term(text, default_form, in_pattern=False)
        if isinstance(value, Blank):
            raise text.error("'_' has no value, but an argument needs one", default_form.span)
        assert not isinstance(value, Lookup)
        result = self._result(text, results[0])
        there = replace(present, terms=(about, key, result))
        fallback = Function("identity", (value,), result, form.span)
        needed = tuple(
            dict.fromkeys(
                variable for variable in (*variables_of(there), *variables_of(fallback)) if variable != result
            )
        )
        joins = (*needed, result) if isinstance(result, Var) else needed
        yield Or(None, joins, needed, ((there,), (none, fallback)), form.span)

    def _ground(self, text: Text, form: Form, value: Form, results: Sequence[Form]) -> Iterator[Clause]:
        if not results:
            raise text.error("'ground' is a function; bind its result: [(ground 5) ?x]", form.span)
        yield from self.bind(text, results[0], value)

    def bind(self, text: Text, binding: Form, value: Form) -> Iterator[Clause]:
        """Yield the clauses by which a binding destructures a literal value."""
        from gpu_wcoj.query.edn.binding import bind

        yield from bind(self, text, binding, value)

    def term(self, text: Text, form: Form, in_pattern: bool = True) -> Term:
        """Parse a variable, a constant, ``_``, or in patterns a lookup ref."""
        if form.is_variable:
            return Var(form.value, span=form.span)
        if form.is_blank:
            return Blank(form.span)
        if form.kind == "vector" and in_pattern:
            if len(form.value) != 2 or form.value[0].kind != "keyword":
                raise text.error("a vector here is a lookup ref, [:attribute value]", form.span)
            key, value = form.value
            lookup_value = self.term(text, value, in_pattern=False)
            if isinstance(lookup_value, Blank):
                raise text.error("a lookup ref needs a value: got '_'", value.span)
            assert not isinstance(lookup_value, Lookup)
            return Lookup(key.value, lookup_value, form.span)
        return constant(text, form)


def constant(text: Text, form: Form) -> Const:
    """Return the constant of a form."""
    kinds = {"int": "long", "float": "double", "string": "string", "bool": "boolean", "keyword": "keyword"}
    if form.kind in kinds:
        return Const(form.value, kinds[form.kind], form.span)
    if form.kind == "inst":
        value = form.value.astimezone(UTC)
        return Const(value.isoformat(timespec="microseconds").replace("+00:00", "Z"), "instant", form.span)
    if form.kind == "uuid":
        return Const(str(form.value), "uuid", form.span)
    if form.kind == "nil":
        raise text.error("nil is not a value: a missing value has no datom; use missing? or get-else", form.span)
    if form.kind == "char":
        raise text.unsupported("characters are not supported; write a string", form.span)
    if form.kind == "symbol":
        near = f"; did you mean '?{form.value}'?" if not form.is_source else ""
        raise text.error(f"expected a variable, a constant or '_', got the symbol '{form}'{near}", form.span)
    raise text.error(f"expected a variable, a constant or '_', got '{form}'", form.span)


def substitute(clause: Clause, replacements: Mapping[Var, Var | Const]) -> Clause:
    """Return a clause with variables replaced by other variables or by constants."""
    if not replacements:
        return clause

    def value(term: Var | Const) -> Var | Const:
        return replace(replacements[term], span=term.span) if isinstance(term, Var) and term in replacements else term

    def substituted(term: Term) -> Term:
        if isinstance(term, Blank):
            return term
        return replace(term, value=value(term.value)) if isinstance(term, Lookup) else value(term)

    if isinstance(clause, Not):
        variables = None if clause.variables is None else _variables(map(value, clause.variables))
        return replace(
            clause,
            variables=variables,
            clauses=tuple(substitute(inner_clause, replacements) for inner_clause in clause.clauses),
        )
    if isinstance(clause, Or):
        variables = None if clause.variables is None else _variables(map(value, clause.variables))
        required = _variables(map(value, clause.required))
        branches = tuple(
            tuple(substitute(inner_clause, replacements) for inner_clause in branch) for branch in clause.branches
        )
        return replace(clause, variables=variables, required=required, branches=branches)
    if isinstance(clause, Function):
        return replace(clause, terms=tuple(map(value, clause.terms)), result=value(clause.result))
    if isinstance(clause, Predicate):
        return replace(clause, terms=tuple(map(value, clause.terms)))
    if isinstance(clause, Rows):
        rows = tuple(term if isinstance(term, Blank) else value(term) for term in clause.terms)
        return replace(clause, terms=rows)
    return replace(clause, terms=tuple(map(substituted, clause.terms)))


def _variables(terms: Iterable[Term]) -> tuple[Var, ...]:
    return tuple(dict.fromkeys(term for term in terms if isinstance(term, Var)))
