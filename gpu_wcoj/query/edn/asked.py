"""What a query asks, from its form: ``:find``, ``:with``, ``:in``, ``:where`` and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from gpu_wcoj.errors import UsageError, nearest
from gpu_wcoj.query.edn.binding import bound, data_form
from gpu_wcoj.query.edn.clauses import Branch, Clause, Const, Found, Function, RuleSet, Text, Var, variables_of
from gpu_wcoj.query.edn.forms import Form, form_of
from gpu_wcoj.query.edn.functions import AGGREGATES, CLAUSES, FUNCTIONS, PREDICATES
from gpu_wcoj.query.edn.reader import read
from gpu_wcoj.query.edn.sources import Datoms, Relation, Source, source_of
from gpu_wcoj.query.edn.where import Clauses
from gpu_wcoj.query.terms import Span

Shape = Literal["relation", "collection", "tuple", "scalar"]

LABELS = (":keys", ":strs", ":syms")
PARTS = (":find", *LABELS, ":with", ":in", ":where", ":rules")
EXAMPLE = "[:find ?x :where [?x :name]]"


@dataclass(frozen=True)
class Asked:
    """A query, read, with its arguments.

    Attributes
    ----------
    constants
        The variables of ``:in`` that stand for one value.
    sources
        Per name of the text, what it is.
    """

    text: Text
    shape: Shape
    find: tuple[Found, ...]
    labels: tuple[str, tuple[str, ...]] | None
    with_: tuple[Var, ...]
    constants: Mapping[Var, Const]
    clauses: tuple[Clause, ...]
    rules: Mapping[str, RuleSet]
    sources: Mapping[str, Source]
    given: Mapping[str, tuple[tuple[object, ...], ...]]
    reader: Clauses


def asked(query: Any, sources: Mapping[str, Source], arguments: Sequence[Any], source: str) -> Asked:
    """Read a query; see `gpu_wcoj.query.edn.parse`."""
    text = Text(query if isinstance(query, str) else "", source)
    form = read(query, source=source) if isinstance(query, str) else _data(query, "a query")
    return _Query(text, form, sources, arguments).read()


def _data(data: Any, what: str) -> Form:
    try:
        return form_of(data)
    except ValueError as error:
        raise UsageError(f"this cannot be {what}: {error}.") from None


class _Query:
    """A query that is being read."""

    def __init__(self, text: Text, form: Form, sources: Mapping[str, Source], arguments: Sequence[Any]) -> None:
        self.text, self.form = text, form
        self.sources = dict(sources)
        self.arguments = list(arguments)
        self.reader = Clauses()
        self.rules: dict[str, RuleSet] = {}
        self.bound: list[Clause] = []
        self.constants: dict[Var, Const] = {}

    def read(self) -> Asked:
        parts = self.parts()
        shape, find = self.find(parts)
        labels = self.labels(parts, shape, find)
        with_ = self.with_(parts)
        self.inputs(parts.get(":in"))
        if ":rules" in parts:
            self.add_rules(self.text, self.one(parts, ":rules"))
        where = parts.get(":where", ())
        clauses = self.reader.read(self.text, where)
        given = self.reader.given
        return Asked(
            self.text, shape, find, labels, with_, self.constants, (*self.bound, *clauses), self.rules, self.sources,
            given, self.reader,
        )  # fmt: skip

    def parts(self) -> dict[str, tuple[Form, ...]]:
        """What stands behind each keyword."""
        form, text = self.form, self.text
        found: dict[str, tuple[Form, ...]] = {}
        if form.kind == "map":
            for key, value in zip(form.value[::2], form.value[1::2], strict=True):
                name = self.part(key)
                if not value.is_sequence:
                    raise text.error(f"'{name}' takes a vector, and here is '{value}'", value.span)
                found[name] = value.value
        elif form.is_sequence:
            name = ""
            for one in form.value:
                if one.kind == "keyword" and (not name or name != ":rules"):
                    name = self.part(one)
                    if name in found:
                        raise text.error(f"'{name}' is there twice", one.span)
                    found[name] = ()
                elif not name:
                    raise text.error(f"a query begins with :find, as {EXAMPLE}, and here is '{one}'", one.span)
                else:
                    found[name] = (*found[name], one)
        else:
            raise text.error(f"a query is a map or a vector, as {EXAMPLE}, and here is '{form}'", form.span)
        if ":find" not in found:
            raise text.error(f"the query has no :find; write one as {EXAMPLE}", form.span)
        if not found.get(":where") and not found.get(":in"):
            raise text.error(f"the query has no :where; write one as {EXAMPLE}", form.span)
        return found

    def part(self, key: Form) -> str:
        if key.kind != "keyword" or key.value not in PARTS:
            what = f"'{key}' is no part of a query; {', '.join(PARTS)} are.{nearest(str(key.value), PARTS)}"
            raise self.text.error(what, key.span)
        return str(key.value)

    def one(self, parts: Mapping[str, tuple[Form, ...]], name: str) -> Form:
        """Rules stand in a vector of their own, which the map form leaves out."""
        items = parts[name]
        if len(items) == 1 and items[0].is_sequence and items[0].value and items[0].value[0].is_sequence:
            first = items[0].value[0]
            if first.value and first.value[0].is_sequence:
                return items[0]
        span = items[0].span if items else self.form.span
        return Form("vector", items, span)

    def find(self, parts: Mapping[str, tuple[Form, ...]]) -> tuple[Shape, tuple[Found, ...]]:
        items, text = parts[":find"], self.text
        if not items:
            raise text.error("':find' finds nothing; write the variables to find", self.form.span)
        first = items[0]
        if len(items) == 2 and items[1].is_symbol("."):
            return "scalar", (self.element(first),)
        if first.kind == "vector":
            if len(items) > 1:
                raise text.error("behind a vector in ':find' nothing more can stand", items[1].span)
            inner = first.value
            if len(inner) == 2 and inner[1].is_symbol("..."):
                return "collection", (self.element(inner[0]),)
            if not inner:
                raise text.error("':find' finds nothing; write the variables to find", first.span)
            return "tuple", tuple(map(self.element, inner))
        return "relation", tuple(map(self.element, items))

    def element(self, form: Form) -> Found:
        text = self.text
        if form.is_variable:
            return Found(Var(form.value, span=form.span), None, form.span)
        if form.kind != "list" or not form.value:
            what = "as a column of the result" if not form.is_symbol(".", "...") else "here"
            raise text.error(f"expected a variable or an aggregate in ':find'; '{form}' cannot stand {what}", form.span)
        head, *arguments = form.value
        name = str(head.value) if head.kind == "symbol" else str(head)
        if name == "pull":
            what = "'pull' is not supported; find the entity, and ask its attributes with clauses"
            raise text.unsupported(what, form.span)
        if name not in AGGREGATES:
            what = f"the aggregate '{name}' is not supported; {', '.join(AGGREGATES)} are.{nearest(name, AGGREGATES)}"
            raise text.unsupported(what, head.span)
        if len(arguments) == 2 and arguments[0].kind == "int":
            raise text.unsupported(f"'{name}' of the {arguments[0]} first is not supported", form.span)
        if len(arguments) != 1 or not arguments[0].is_variable:
            raise text.error(f"'{name}' takes one variable: ({name} ?x)", form.span)
        return Found(Var(arguments[0].value, span=arguments[0].span), name, form.span)

    def labels(
        self, parts: Mapping[str, tuple[Form, ...]], shape: Shape, find: Sequence[Found]
    ) -> tuple[str, tuple[str, ...]] | None:
        named = [name for name in LABELS if name in parts]
        if not named:
            return None
        items = parts[named[0]]
        span = items[0].span if items else self.form.span
        if len(named) > 1:
            raise self.text.error(f"a query has only one of {', '.join(LABELS)}", span)
        if shape not in ("relation", "tuple"):
            raise self.text.error(f"'{named[0]}' names columns, and this ':find' asks for bare values", span)
        for one in items:
            if one.kind != "symbol":
                raise self.text.error(f"'{named[0]}' takes symbols, and here is '{one}'", one.span)
        names = tuple(str(one.value) for one in items)
        if len(names) != len(find):
            what = f"'{named[0]}' has {len(names)} names, and ':find' finds {len(find)}"
            raise self.text.error(what, span)
        for one in items:
            if names.count(one.value) > 1:
                raise self.text.error(f"'{named[0]}' has '{one}' twice", one.span)
        return named[0], names

    def with_(self, parts: Mapping[str, tuple[Form, ...]]) -> tuple[Var, ...]:
        found = []
        for form in parts.get(":with", ()):
            if not form.is_variable:
                raise self.text.error(f"':with' takes variables, and here is '{form}'", form.span)
            found.append(Var(form.value, span=form.span))
        if ":with" in parts and not found:
            raise self.text.error("':with' has no variables", self.form.span)
        return tuple(dict.fromkeys(found))

    def inputs(self, forms: Sequence[Form] | None) -> None:
        if forms is None:
            left = [one for one in self.arguments if not isinstance(one, (Datoms, Relation))]
            if "$" not in self.sources and self.arguments and not left:
                self.sources["$"] = self.arguments.pop(0)
            if self.arguments:
                what = f"the query has no ':in', and so takes no arguments; here are {len(self.arguments)}"
                raise self.text.error(what, self.form.span)
            return
        waiting = list(self.arguments)
        seen: set[str] = set()
        names = [str(form) for form in forms if not (form.is_source and source_of(self.sources, form.value))]
        if len(names) != len(waiting):
            takes = f"{len(names)} arguments ({', '.join(names)})" if names else "no arguments"
            first = forms[0].span if forms else self.form.span
            raise self.text.error(f"':in' takes {takes}, and here are {len(waiting)}", first)
        for form in forms:
            if form.kind == "symbol":
                if form.value in seen:
                    raise self.text.error(f"'{form}' is there twice in ':in'", form.span)
                seen.add(form.value)
            if form.is_source:
                if source_of(self.sources, form.value):
                    continue
                given = waiting.pop(0)
                if not isinstance(given, (Datoms, Relation)):
                    what = f"'{form}' is a source, and its argument is of type '{type(given).__name__}'"
                    raise self.text.error(what, form.span)
                self.sources[form.value] = given
            elif form.is_symbol("%"):
                self.rule_argument(waiting.pop(0), form)
            else:
                self.argument(form, waiting.pop(0))

    def rule_argument(self, given: Any, place: Form) -> None:
        if isinstance(given, str):
            self.add_rules(Text(given, "the rules"), read(given, source="the rules"))
            return
        try:
            self.add_rules(self.text if isinstance(given, Form) else Text("", "the rules"), form_of(given))
        except ValueError as error:
            raise self.text.error(f"these rules cannot be read: {error}", place.span) from None

    def argument(self, form: Form, given: Any) -> None:
        if isinstance(given, (Datoms, Relation)):
            raise self.text.error(f"'{form}' binds values, and its argument is a source; name it $name", form.span)
        try:
            value = data_form(given)
        except ValueError as error:
            raise self.text.error(f"the argument for '{form}' cannot be used: {error}", form.span) from None
        for clause in bound(self.reader, self.text, form, value, is_data=not isinstance(given, Form)):
            if isinstance(clause, Function) and isinstance(clause.result, Var):
                if clause.result in self.constants:
                    raise self.text.error(f"'{clause.result}' is bound twice in ':in'", form.span)
                assert isinstance(clause.terms[0], Const)
                self.constants[clause.result] = replace(clause.terms[0], span=Span())
            else:
                self.bound.append(clause)

    def add_rules(self, text: Text, form: Form) -> None:
        if not form.is_sequence:
            raise text.error(f"rules are a vector of [(name ?x ...) clause ...], and here is '{form}'", form.span)
        for one in form.value:
            self.add_rule(text, one)

    def add_rule(self, text: Text, form: Form) -> None:
        if not form.is_sequence or not form.value or form.value[0].kind != "list":
            raise text.error(f"a rule is [(name ?x ...) clause ...], and here is '{form}'", form.span)
        head, *body = form.value
        if not head.value or head.value[0].kind != "symbol":
            raise text.error("a rule has a name: [(name ?x ...) clause ...]", head.span)
        name = str(head.value[0].value)
        if name in CLAUSES or name in PREDICATES or name in FUNCTIONS or not name[:1].isidentifier():
            raise text.error(f"'{name}' cannot be the name of a rule", head.value[0].span)
        if len(head.value) == 1:
            raise text.error(f"the rule '{name}' has no variables", head.span)
        variables, required = self.reader.heads(text, head.value[1:])
        if not body:
            raise text.error(f"the rule '{name}' has no clauses", form.span)
        clauses = self.reader.read(text, body)
        used = {one for clause in clauses for one in variables_of(clause)}
        for one in variables:
            if one not in used:
                raise text.error(f"the clauses of '{name}' do not use '{one}'", one.span)
        places = tuple(one in required for one in variables)
        branch = Branch(variables, clauses, text, form.span)
        known = self.rules.get(name)
        if known is None:
            self.rules[name] = RuleSet(name, (branch,), places)
            return
        if len(known.required) != len(places):
            what = f"the rule '{name}' has {len(known.required)} variables elsewhere, and {len(places)} here"
            raise text.error(what, head.span)
        if known.required != places:
            raise text.error(f"the rule '{name}' requires other variables elsewhere", head.span)
        self.rules[name] = replace(known, branches=(*known.branches, branch))
