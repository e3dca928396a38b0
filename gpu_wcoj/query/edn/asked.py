"""Parser of a query's form: ``:find``, ``:with``, ``:in``, ``:where`` and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpu_wcoj.errors import UsageError, nearest
from gpu_wcoj.query.edn.ast import Branch, Clause, Const, FindSpec, Function, RuleSet, Text, Var, variables_of
from gpu_wcoj.query.edn.binding import bind, data_form
from gpu_wcoj.query.edn.forms import Form, to_form
from gpu_wcoj.query.edn.functions import AGGREGATES, CLAUSES, FUNCTIONS, PREDICATES
from gpu_wcoj.query.edn.parse import ClauseReader
from gpu_wcoj.query.edn.reader import read
from gpu_wcoj.query.edn.sources import Datoms, Relation, Source, source_of
from gpu_wcoj.query.ir import Span

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
    """Parse a query; see `gpu_wcoj.query.edn.parse`."""
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
            what = "'pull' is not supported; find the entity, and read its attributes with clauses"
            raise text.unsupported(what, form.span)
        if name not in AGGREGATES:
            allowed = ", ".join(AGGREGATES)
            what = f"the aggregate '{name}' is not supported: expected one of {allowed}.{nearest(name, AGGREGATES)}"
            raise text.unsupported(what, head.span)
        if len(arguments) == 2 and arguments[0].kind == "int":
            raise text.unsupported(f"'{name}' of the first {arguments[0]} values is not supported", form.span)
        if len(arguments) != 1 or not arguments[0].is_variable:
            raise text.error(f"'{name}' takes one variable: ({name} ?x)", form.span)
        return FindSpec(Var(arguments[0].value, span=arguments[0].span), name, form.span)

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
            takes = f"{len(names)} arguments ({', '.join(names)})" if names else "no arguments"
            first = forms[0].span if forms else self.form.span
            raise self.text.error(f"':in' takes {takes}: got {len(waiting)}", first)
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
