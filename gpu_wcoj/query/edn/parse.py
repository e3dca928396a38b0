"""Parser of clauses."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from gpu_wcoj.data.rows import as_python
from gpu_wcoj.errors import UsageError, counted, nearest
from gpu_wcoj.query.edn.ast import (
    AGGREGATES,
    ARGUMENTS,
    CLAUSES,
    CORE,
    FUNCTIONS,
    PREDICATES,
    TEXT,
    Blank,
    Branch,
    Clause,
    Const,
    Datoms,
    FindSpec,
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
    source_of,
    variables_of,
)
from gpu_wcoj.query.edn.pull import read_pattern
from gpu_wcoj.query.edn.reader import Form, read, to_form
from gpu_wcoj.query.ir import Span

MAX_NESTING = 30
"""Maximum levels of nested clauses."""

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


# Bindings ``?x``, ``[?x ?y]``, ``[?x ...]`` and ``[[?x ?y]]`` of ``:in`` and ``ground``.


def bind(reader: ClauseReader, text: Text, binding: Form, value: Form, is_data: bool = False) -> Iterator[Clause]:
    """Yield the clauses by which a binding destructures a value.

    Parameters
    ----------
    is_data
        True if the value comes from Python, where a keyword is a text.
    """
    if binding.kind != "vector":
        yield from _scalar(text, binding, value, is_data)
        return
    items = binding.value
    if not items:
        raise text.error("this binding is empty", binding.span)
    if len(items) == 2 and items[1].is_symbol("..."):
        if items[0].kind == "vector":
            items = (items[0],)
        else:
            singles = [(element,) for element in _elements(text, binding, value, "a collection")]
            yield _rows(reader, text, binding, (items[0],), singles, is_data)
            return
    if len(items) == 1 and items[0].kind == "vector":
        columns = items[0].value
        rows = []
        for element in _elements(text, binding, value, "a relation, a collection of tuples"):
            rows.append(tuple(_elements(text, binding, element, "a relation, a collection of tuples", ordered=True)))
            if len(rows[-1]) != len(columns):
                what = f"'{items[0]}' binds {counted(len(columns), 'value')}, but '{element}' has {len(rows[-1])}"
                raise text.error(what, binding.span)
        if not columns:
            raise text.error("this binding is empty", binding.span)
        yield _rows(reader, text, binding, columns, rows, is_data)
        return
    values = _elements(text, binding, value, "a tuple", ordered=True)
    if len(values) < len(items):
        raise text.error(
            f"'{binding}' binds {counted(len(items), 'value')}, but '{value}' has {len(values)}", binding.span
        )
    for item, element in zip(items, values, strict=False):
        if item.kind == "vector":
            raise text.unsupported("bindings within tuples are not supported; bind variables", item.span)
        yield from _scalar(text, item, element, is_data)


def _scalar(text: Text, binding: Form, value: Form, is_data: bool) -> Iterator[Clause]:
    if binding.is_blank:
        return
    if not binding.is_variable:
        what = f"expected a binding such as ?x, [?x ?y], [?x ...] or [[?x ?y]], got '{binding}'"
        raise text.error(what, binding.span)
    yield Function(
        "identity", (_constant(text, binding, value, is_data),), Var(binding.value, span=binding.span), binding.span
    )


def _constant(text: Text, binding: Form, value: Form, is_data: bool) -> Const:

    if value.kind in ("vector", "list", "map", "set", "nil", "char", "symbol"):
        raise text.error(f"'{binding}' binds a single value: got '{value}'", binding.span)
    const = constant(text, value)
    return replace(const, type=TEXT) if is_data and const.type == "string" else const


def _elements(text: Text, binding: Form, value: Form, what: str, ordered: bool = False) -> Sequence[Form]:
    if value.kind == "map" and not ordered:
        pairs = zip(value.value[::2], value.value[1::2], strict=True)
        return [Form("vector", pair, value.span) for pair in pairs]
    if value.kind not in (("list", "vector") if ordered else ("list", "vector", "set")):
        raise text.error(f"'{binding}' binds {what}: got '{value}'", binding.span)
    return value.value  # type: ignore[no-any-return]  # forms, as it is a collection


def _rows(
    reader: ClauseReader,
    text: Text,
    binding: Form,
    columns: Sequence[Form],
    rows: Sequence[Sequence[Form]],
    is_data: bool,
) -> Rows:
    terms: list[Var | Blank] = []
    for column in columns:
        if not column.is_variable and not column.is_blank:
            raise text.error(f"expected a variable or '_' in a binding, got '{column}'", column.span)
        terms.append(Var(column.value, span=column.span) if column.is_variable else Blank(column.span))
    types: list[str | None] = [None] * len(columns)
    input_rows = []
    for row in rows:
        constants = [_constant(text, binding, element, is_data) for element in row]
        for column_index, value in enumerate(constants):
            type_ = types[column_index] = types[column_index] or value.type
            if type_ != value.type:
                what = (
                    f"'{columns[column_index]}' would bind values of type {type_} and of type {value.type}, as {value}"
                )
                raise text.error(what, binding.span)
        input_rows.append(tuple(_row_value(const) for const in constants))
    return Rows(reader.add_rows(input_rows), tuple(terms), tuple(types), binding.span)


def _row_value(constant: Const) -> Any:
    """Return the value that a constant has in a row of an input."""
    if constant.type == "instant":
        return datetime.fromisoformat(str(constant.value))
    return constant.value


def data_form(data: Any, depth: int = 0) -> Form:
    """Convert an argument to a form; strings are always texts.

    Raises
    ------
    ValueError
        If the value cannot be used in a query; the message names its type.
    """
    if isinstance(data, Form):
        return data
    if depth > 3:
        raise ValueError("it nests deeper than a binding can (3 levels)")
    if data is None:
        raise ValueError("None is not a value; remove such rows")
    data = as_python(data)
    data_type = type(data)  # not subclasses: of an enumeration or another library's time, a part would be lost
    if data_type is bool:
        return Form("bool", data)
    if data_type is int:
        if not -(2**63) <= data < 2**63:
            raise ValueError(f"integer {data} is outside int64, -2^63 to 2^63-1")
        return Form("int", data)
    if data_type is float:
        if not math.isfinite(data):
            raise ValueError(f"{data} is not a finite number")
        return Form("float", data)
    if data_type is str:
        if any(0xD800 <= ord(char) < 0xE000 for char in data):
            raise ValueError(f"{data!r:.80} contains an unpaired surrogate")
        return Form("string", data)
    if data_type is datetime:
        if data.utcoffset() is None:
            raise ValueError(f"{data.isoformat()} has no time zone")
        return Form("inst", data.astimezone(UTC))
    if isinstance(data, uuid.UUID):
        return Form("uuid", data)
    if isinstance(data, Mapping):
        items = [data_form(item, depth + 1) for pair in data.items() for item in pair]
        return Form("map", tuple(items), Span())
    if isinstance(data, (set, frozenset)):
        return Form("set", tuple(data_form(item, depth + 1) for item in data), Span())
    if isinstance(data, (list, tuple)):
        return Form("vector", tuple(data_form(item, depth + 1) for item in data), Span())
    raise ValueError(f"a value of type '{type(data).__name__}' cannot be used in a query: {data!r:.80}")


# Parser of a query's form: ``:find``, ``:with``, ``:in``, ``:where`` and rules.


Shape = Literal["relation", "collection", "tuple", "scalar"]

LABELS = (":keys", ":strs", ":syms")
PARTS = (":find", *LABELS, ":with", ":in", ":where", ":rules")
EXAMPLE = "[:find ?x :where [?x :name]]"


@dataclass(frozen=True)
class ParsedQuery:
    """A parsed query with its arguments.

    Attributes
    ----------
    constants
        The variables that ``:in`` binds to a single value.
    sources
        The sources, by the name that the text uses.
    """

    text: Text
    shape: Shape
    find: tuple[FindSpec, ...]
    labels: tuple[str, tuple[str, ...]] | None
    with_: tuple[Var, ...]
    constants: Mapping[Var, Const]
    clauses: tuple[Clause, ...]
    rules: Mapping[str, RuleSet]
    sources: Mapping[str, Source]
    input_rows: Mapping[str, tuple[tuple[object, ...], ...]]
    reader: ClauseReader


def parse_query(query: Any, sources: Mapping[str, Source], arguments: Sequence[Any], source: str) -> ParsedQuery:
    """Parse a query in EDN, as text or as Python data."""
    text = Text(query if isinstance(query, str) else "", source)
    form = read(query, source=source) if isinstance(query, str) else _form_of_data(query, "a query")
    return _QueryParser(text, form, sources, arguments).read()


def _form_of_data(data: Any, what: str) -> Form:
    try:
        return to_form(data)
    except ValueError as error:
        raise UsageError(f"{what} cannot be read: {error}.") from None


class _QueryParser:
    """Parser of one query."""

    def __init__(self, text: Text, form: Form, sources: Mapping[str, Source], arguments: Sequence[Any]) -> None:
        self.text, self.form = text, form
        self.sources = dict(sources)
        self.arguments = list(arguments)
        self.reader = ClauseReader()
        self.rules: dict[str, RuleSet] = {}
        self.bound: list[Clause] = []
        self.constants: dict[Var, Const] = {}

    def read(self) -> ParsedQuery:
        parts = self.parts()
        shape, find = self.find(parts)
        labels = self.labels(parts, shape, find)
        with_ = self.with_(parts)
        self.inputs(parts.get(":in"))
        self._check_pulls(find)
        if ":rules" in parts:
            self.add_rules(self.text, self.rules_form(parts, ":rules"))
        where = parts.get(":where", ())
        clauses = self.reader.read(self.text, where)
        input_rows = self.reader.input_rows
        return ParsedQuery(
            self.text, shape, find, labels, with_, self.constants, (*self.bound, *clauses), self.rules, self.sources,
            input_rows, self.reader,
        )  # fmt: skip

    def parts(self) -> dict[str, tuple[Form, ...]]:
        """Return the forms that follow each keyword."""
        form, text = self.form, self.text
        parts: dict[str, tuple[Form, ...]] = {}
        if form.kind == "map":
            for key, value in zip(form.value[::2], form.value[1::2], strict=True):
                name = self.part_name(key)
                if not value.is_sequence:
                    raise text.error(f"'{name}' takes a vector: got '{value}'", value.span)
                parts[name] = value.value
        elif form.is_sequence:
            name = ""
            for item in form.value:
                if item.kind == "keyword" and (not name or name != ":rules"):
                    name = self.part_name(item)
                    if name in parts:
                        raise text.error(f"'{name}' is given twice", item.span)
                    parts[name] = ()
                elif not name:
                    raise text.error(f"a query begins with :find, as {EXAMPLE}: got '{item}'", item.span)
                else:
                    parts[name] = (*parts[name], item)
        else:
            raise text.error(f"a query is a map or a vector, as {EXAMPLE}: got '{form}'", form.span)
        if ":find" not in parts:
            raise text.error(f"the query has no :find; write one as {EXAMPLE}", form.span)
        if not parts.get(":where") and not parts.get(":in"):
            raise text.error(f"the query has no :where; write one as {EXAMPLE}", form.span)
        return parts

    def part_name(self, key: Form) -> str:
        if key.kind != "keyword" or key.value not in PARTS:
            what = (
                f"unknown part '{key}' of a query: expected one of {', '.join(PARTS)}.{nearest(str(key.value), PARTS)}"
            )
            raise self.text.error(what, key.span)
        return str(key.value)

    def rules_form(self, parts: Mapping[str, tuple[Form, ...]], name: str) -> Form:
        """Return the vector of rules; the map form of a query may omit it."""
        items = parts[name]
        if len(items) == 1 and items[0].is_sequence and items[0].value and items[0].value[0].is_sequence:
            first = items[0].value[0]
            if first.value and first.value[0].is_sequence:
                return items[0]
        span = items[0].span if items else self.form.span
        return Form("vector", items, span)

    def find(self, parts: Mapping[str, tuple[Form, ...]]) -> tuple[Shape, tuple[FindSpec, ...]]:
        items, text = parts[":find"], self.text
        if not items:
            raise text.error("':find' finds nothing; write the variables to find", self.form.span)
        first = items[0]
        if len(items) == 2 and items[1].is_symbol("."):
            return "scalar", (self.find_spec(first),)
        if first.kind == "vector":
            if len(items) > 1:
                raise text.error("':find' with a vector cannot have further elements", items[1].span)
            inner = first.value
            if len(inner) == 2 and inner[1].is_symbol("..."):
                return "collection", (self.find_spec(inner[0]),)
            if not inner:
                raise text.error("':find' finds nothing; write the variables to find", first.span)
            return "tuple", tuple(map(self.find_spec, inner))
        return "relation", tuple(map(self.find_spec, items))

    def find_spec(self, form: Form) -> FindSpec:
        text = self.text
        if form.is_variable:
            return FindSpec(Var(form.value, span=form.span), None, form.span)
        if form.kind != "list" or not form.value:
            what = "as a column of the result" if not form.is_symbol(".", "...") else "here"
            raise text.error(
                f"expected a variable or an aggregate in ':find'; '{form}' is not allowed {what}", form.span
            )
        head, *arguments = form.value
        name = str(head.value) if head.kind == "symbol" else str(head)
        if name == "pull":
            return self.pull_spec(form, arguments)
        if name not in AGGREGATES:
            allowed = ", ".join(AGGREGATES)
            what = f"the aggregate '{name}' is not supported: expected one of {allowed}.{nearest(name, AGGREGATES)}"
            raise text.unsupported(what, head.span)
        if len(arguments) == 2 and arguments[0].kind == "int":
            raise text.unsupported(f"'{name}' of the first {arguments[0]} values is not supported", form.span)
        if len(arguments) != 1 or not arguments[0].is_variable:
            raise text.error(f"'{name}' takes one variable: ({name} ?x)", form.span)
        return FindSpec(Var(arguments[0].value, span=arguments[0].span), name, form.span)

    def pull_spec(self, form: Form, arguments: Sequence[Form]) -> FindSpec:
        """Read ``(pull ?e [...])`` or ``(pull $source ?e [...])``."""
        source = "$"
        if arguments and arguments[0].is_source:
            source, arguments = arguments[0].value, arguments[1:]
        if len(arguments) != 2 or not arguments[0].is_variable:
            raise self.text.error("'pull' takes a variable and a pattern: (pull ?e [:name])", form.span)
        variable, pattern = arguments
        pulled = read_pattern(self.text, pattern)
        return FindSpec(Var(variable.value, span=variable.span), None, form.span, pulled, source)

    def _check_pulls(self, find: Sequence[FindSpec]) -> None:
        """Raise if a pattern is pulled from another source than a database of datoms."""
        for spec in find:
            source = None if spec.pull is None else source_of(self.sources, spec.source)
            if spec.pull is not None and not isinstance(source, Datoms):
                what = f"'pull' reads a database of datoms, and '{spec.source}' is not one"
                raise self.text.unsupported(f"{what}; name the columns that are found", spec.span)

    def labels(
        self, parts: Mapping[str, tuple[Form, ...]], shape: Shape, find: Sequence[FindSpec]
    ) -> tuple[str, tuple[str, ...]] | None:
        named = [name for name in LABELS if name in parts]
        if not named:
            return None
        items = parts[named[0]]
        span = items[0].span if items else self.form.span
        if len(named) > 1:
            raise self.text.error(
                f"{' and '.join(named)} cannot be combined: a query has at most one of {', '.join(LABELS)}", span
            )
        if shape not in ("relation", "tuple"):
            raise self.text.error(f"'{named[0]}' names columns, but this ':find' returns bare values", span)
        for item in items:
            if item.kind != "symbol":
                raise self.text.error(f"'{named[0]}' takes symbols: got '{item}'", item.span)
        names = tuple(str(item.value) for item in items)
        if len(names) != len(find):
            what = f"'{named[0]}' has the wrong number of names: got {len(names)}, expected {len(find)}, as in ':find'"
            raise self.text.error(what, span)
        for item in items:
            if names.count(item.value) > 1:
                raise self.text.error(f"'{named[0]}' has '{item}' twice", item.span)
        return named[0], names

    def with_(self, parts: Mapping[str, tuple[Form, ...]]) -> tuple[Var, ...]:
        variables = []
        for form in parts.get(":with", ()):
            if not form.is_variable:
                raise self.text.error(f"':with' takes variables: got '{form}'", form.span)
            variables.append(Var(form.value, span=form.span))
        if ":with" in parts and not variables:
            raise self.text.error("':with' has no variables", self.form.span)
        return tuple(dict.fromkeys(variables))

    def inputs(self, forms: Sequence[Form] | None) -> None:
        if forms is None:
            values = [argument for argument in self.arguments if not isinstance(argument, (Datoms, Relation))]
            if "$" not in self.sources and self.arguments and not values:
                self.sources["$"] = self.arguments.pop(0)
            if self.arguments:
                what = f"the query has no ':in' and takes no arguments: got {len(self.arguments)}"
                raise self.text.error(what, self.form.span)
            return
        waiting = list(self.arguments)
        seen: set[str] = set()
        names = [str(form) for form in forms if not (form.is_source and source_of(self.sources, form.value))]
        if len(names) != len(waiting):
            takes = f"{counted(len(names), 'argument')} ({', '.join(names)})" if names else "no arguments"
            first = forms[0].span if forms else self.form.span
            missing = next((name[1:] for name in names if name.startswith("$")), "")
            raise self.text.error(f"':in' takes {takes}: got {len(waiting)}", first, missing=missing)
        for form in forms:
            if form.kind == "symbol":
                if form.value in seen:
                    raise self.text.error(f"'{form}' is given twice in ':in'", form.span)
                seen.add(form.value)
            if form.is_source:
                if source_of(self.sources, form.value):
                    continue
                argument = waiting.pop(0)
                if not isinstance(argument, (Datoms, Relation)):
                    what = f"the argument of the source '{form}' has the wrong type: got '{type(argument).__name__}'"
                    raise self.text.error(what, form.span)
                self.sources[form.value] = argument
            elif form.is_symbol("%"):
                self.rule_argument(waiting.pop(0), form)
            else:
                self.argument(form, waiting.pop(0))

    def rule_argument(self, rules: Any, place: Form) -> None:
        if isinstance(rules, str):
            self.add_rules(Text(rules, "the rules"), read(rules, source="the rules"))
            return
        try:
            self.add_rules(self.text if isinstance(rules, Form) else Text("", "the rules"), to_form(rules))
        except ValueError as error:
            raise self.text.error(f"these rules cannot be read: {error}", place.span) from None

    def argument(self, form: Form, data: Any) -> None:
        if isinstance(data, (Datoms, Relation)):
            raise self.text.error(
                f"'{form}' binds values, but its argument is a source; name the source $name", form.span
            )
        try:
            value = data_form(data)
        except ValueError as error:
            raise self.text.error(f"the argument for '{form}' cannot be used: {error}", form.span) from None
        for clause in bind(self.reader, self.text, form, value, is_data=not isinstance(data, Form)):
            if isinstance(clause, Function) and isinstance(clause.result, Var):
                if clause.result in self.constants:
                    raise self.text.error(f"'{clause.result}' is bound twice in ':in'", form.span)
                assert isinstance(clause.terms[0], Const)
                self.constants[clause.result] = replace(clause.terms[0], span=Span())
            else:
                self.bound.append(clause)

    def add_rules(self, text: Text, form: Form) -> None:
        if not form.is_sequence:
            raise text.error(f"rules are a vector of [(name ?x ...) clause ...]: got '{form}'", form.span)
        for rule in form.value:
            self.add_rule(text, rule)

    def add_rule(self, text: Text, form: Form) -> None:
        if not form.is_sequence or not form.value or form.value[0].kind != "list":
            raise text.error(f"a rule is [(name ?x ...) clause ...]: got '{form}'", form.span)
        head, *body = form.value
        if not head.value or head.value[0].kind != "symbol":
            raise text.error("a rule needs a name: [(name ?x ...) clause ...]", head.span)
        name = str(head.value[0].value)
        if name in CLAUSES or name in PREDICATES or name in FUNCTIONS or not name[:1].isidentifier():
            raise text.error(f"'{name}' cannot be the name of a rule", head.value[0].span)
        if len(head.value) == 1:
            raise text.error(f"the rule '{name}' has no variables", head.span)
        variables, required = self.reader.head_variables(text, head.value[1:])
        if not body:
            raise text.error(f"the rule '{name}' has no clauses", form.span)
        clauses = self.reader.read(text, body)
        used = {variable for clause in clauses for variable in variables_of(clause)}
        for variable in variables:
            if variable not in used:
                raise text.error(f"the clauses of '{name}' do not use '{variable}'", variable.span)
        places = tuple(variable in required for variable in variables)
        branch = Branch(variables, clauses, text, form.span)
        rule_set = self.rules.get(name)
        if rule_set is None:
            self.rules[name] = RuleSet(name, (branch,), places)
            return
        if len(rule_set.required) != len(places):
            what = (
                f"the branches of the rule '{name}' differ in their numbers of variables:"
                f" got {len(places)}, expected {len(rule_set.required)}"
            )
            raise text.error(what, head.span)
        if rule_set.required != places:
            raise text.error(f"the branches of the rule '{name}' require different variables", head.span)
        self.rules[name] = replace(rule_set, branches=(*rule_set.branches, branch))
