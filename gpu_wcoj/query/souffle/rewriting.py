"""Rewriting of records, branches, functors of several types and equivalences to core rules.

A record in a head, or whose parts other conditions bind, is packed into a text; elsewhere the text is taken apart, and
its parts bind variables. ``range`` becomes a relation of intervals that are halved until they hold one number. An
equivalence relation gets the rules of its closure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, TypeGuard

from gpu_wcoj.errors import TypeMismatchError, UnsupportedError
from gpu_wcoj.query.ir import (
    NULL,
    NULL_AWARE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Directive,
    Expression,
    Rule,
    Rules,
    Span,
    Variable,
    variables_of,
)
from gpu_wcoj.query.safety import bound_variables, expressions, occurrences, rewritten, standing
from gpu_wcoj.query.souffle import records
from gpu_wcoj.query.souffle.functors import SPELLED, functor
from gpu_wcoj.query.souffle.types import RECORD, Definition, TypeTable, family, format_type

Point = Callable[[str, Span], str]
"""Returns a message with the place that it points at."""
Columns = Mapping[str, Sequence[str | None]]
"""Per declared relation, the full name of the type of each column."""
TypeOf = dict[Variable, str]

RECORD_TERM: Final = "[]"
"""The operator of a call that stands for a record until it is rewritten."""
NIL_TERM: Final = "nil"
MAX_LISTED: Final = 10_000
"""Most numbers of a range of constants that become facts; longer ranges are halved by rules."""

_INTEGERS = ("integer",)
_FLOATS = ("float32", "float64")
_TEXT_FUNCTIONS = ("cat", "substr", "lower", "upper", "downcase", "upcase")
_AGGREGATES = ("count", "sum", "min", "max", "mean")
FITTED: Final = {"float": "narrow_float", "uint64": "unsigned_of_number"}
"""Types of columns that do not hold all results of calculations, and the functors that convert these or fail."""
_INFIX = ("+", "-", "*", "/", "%")


def is_open(call: Call) -> bool:
    """Return whether a call stands for one that is chosen by the types of its arguments.

    Examples
    --------
    >>> x = Variable("x")
    >>> is_open(Call("to_string", (x,))), is_open(Call("[]", (x,))), is_open(Call("+", (x, x)))
    (True, True, False)
    """
    if call.function is not None:
        return False
    is_functor = call.op in ("min", "max") and len(call.arguments) > 1
    return is_functor or call.op in (*SPELLED, "^", RECORD_TERM, NIL_TERM) or call.op.startswith("$")


def _is_aggregate(expression: Expression) -> TypeGuard[Call]:
    """Return whether a term of a head is an aggregate of the rows of its rule."""
    return isinstance(expression, Call) and expression.op in _AGGREGATES and not is_open(expression)


def _is_record(expression: Expression) -> bool:
    return isinstance(expression, Call) and (expression.op in (RECORD_TERM, NIL_TERM) or expression.op.startswith("$"))


@dataclass
class _Body:
    """The parts of a body while it is rewritten."""

    atoms: list[Atom] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    negated: list[Atom] = field(default_factory=list)

    def bound(self, already_bound: Iterable[Variable]) -> set[Variable]:
        """Return the variables that the body binds."""
        rule = Rule(Atom("", ()), tuple(self.atoms), tuple(self.comparisons))
        return bound_variables(rule, (), already_bound)


class Rewriting:
    """Rewriting of the rules of one program.

    Parameters
    ----------
    types, columns
        The declared types, and those of the columns of relations.
    is_checked
        Whether mixed types are mistakes here; the planner finds those of Arrow's types.
    reserved
        Names of relations that are taken.
    """

    def __init__(self, types: TypeTable, columns: Columns, point: Point, reserved: Iterable[str]) -> None:
        self.types, self.columns, self.point = types, columns, point
        self.reserved = set(reserved)
        self.helpers: list[Rule] = []
        self._aggregated: dict[str, str] = {}

    def rule(self, rule: Rule) -> Rule:
        """Return a rule without open calls; `helpers` gets the rules that it needs beside it."""
        return numbered(_RuleRewriting(self, rule).rewritten())

    def aggregated(self, head: Atom, functors: Mapping[int, str]) -> Atom:
        """Return the head of an aggregate whose results functors convert for their column."""
        relation = head.relation
        if relation not in self._aggregated:
            name = self._aggregated[relation] = self.helper_name(relation)
            variables = [Variable(f"c{i}") for i in range(len(head.terms))]
            terms: list[Expression] = list(variables)
            for i, stem in functors.items():
                terms[i] = Call(stem, (variables[i],), head.span, functor(stem))
            self.helpers.append(Rule(Atom(relation, tuple(terms), head.span), (Atom(name, tuple(variables)),)))
        return replace(head, relation=self._aggregated[relation])

    def with_stored(self, rules: Sequence[Rule], inputs: Iterable[Declaration]) -> list[Rule]:
        """Return rules that read records of inputs in their stored spelling, whatever users wrote.

        Parameters
        ----------
        inputs
            The declarations of inputs that have columns of records.
        """
        result = list(rules)
        for declaration in inputs:
            relation = declaration.relation
            if not any(atom.relation == relation for rule in result for atom in rule.read):
                continue
            name = self.helper_name(relation)
            result = [renamed_reads(rule, relation, name) for rule in result]
            arity = len(declaration.columns)
            given = [Variable(f"c{i}") for i in range(arity)]
            stored = [Variable(f"stored{i}") if i in declaration.records else given[i] for i in range(arity)]
            comparisons = []
            for i in declaration.records:
                kind = self.column(relation, i, arity)
                assert kind is not None
                arguments = (given[i], Constant(kind), Constant(self.types.fields(kind)))
                call = Call("stored_record", arguments, function=functor("stored_record"))
                comparisons.append(Comparison("=", stored[i], call))
            body = (Atom(relation, tuple(given)),)
            result.append(Rule(Atom(name, tuple(stored)), body, tuple(comparisons)))
        return result

    def helper_name(self, stem: str) -> str:
        """Return an unused name of a relation."""
        suffix, name = 1, f"{stem}_1"
        while name in self.reserved:
            suffix += 1
            name = f"{stem}_{suffix}"
        self.reserved.add(name)
        return name

    def column(self, relation: str, index: int, arity: int) -> str | None:
        """Return the type of a column; None if it is not declared."""
        kinds = self.columns.get(relation, ())
        return kinds[index] if len(kinds) == arity else None


def _packed_parts(body: _Body, value: Variable, branch: str) -> tuple[Expression, ...] | None:
    """Return the parts of which a body makes a record of a branch; None if it does not."""
    for comparison in body.comparisons:
        made = comparison.right
        is_record = isinstance(made, Call) and made.op.startswith("pack_") and made.arguments[0] == Constant(branch)
        if is_record and comparison.op == "=" and comparison.left == value:
            assert isinstance(made, Call)
            return made.arguments[1:]
    return None


class _RuleRewriting:
    """Rewriting of one rule."""

    def __init__(self, program: Rewriting, rule: Rule) -> None:
        self.program, self.types, self.rule = program, program.types, rule
        self.names = {variable.name for variable in occurrences(rule)}
        self.ranges: list[tuple[Variable, Call]] = []

    def rewritten(self) -> Rule:
        rule = self.rule
        types: TypeOf = {}
        body = self.body(rule, types, ())
        terms = tuple(self.head_term(rule.head, i, term, types) for i, term in enumerate(rule.head.terms))
        self.place_ranges(body)
        head = replace(rule.head, terms=terms)
        results = {
            i: stem for i, term in enumerate(rule.head.terms)
            if _is_aggregate(term) and (stem := self.fitting(term, self.head_column(rule.head, i), types))
        }  # fmt: skip
        if results and sum(map(_is_aggregate, rule.head.terms)) == 1:
            head = self.program.aggregated(head, results)
        return without_unread_records(Rule(head, tuple(body.atoms), tuple(body.comparisons), tuple(body.negated)))

    def head_term(self, head: Atom, index: int, term: Expression, types: TypeOf) -> Expression:
        column = self.head_column(head, index)
        if isinstance(term, Call) and _is_aggregate(term):
            kind = column if term.op in ("min", "max") else None
            return replace(term, arguments=tuple(self.fitted(value, kind, types) for value in term.arguments))
        if column is not None and self.types:
            self.check_head(head, term, column, types)
        return self.fitted(term, column, types)

    def head_column(self, head: Atom, index: int) -> str | None:
        """Return the type of a column of a head; None if it is not declared."""
        return self.program.column(head.relation, index, len(head.terms))

    def fitted(self, term: Expression, column: str | None, types: TypeOf) -> Expression:
        """Return a term of a head without open calls, as a value of the type of its column."""
        result = self.expression(term, types, column)
        stem = None if isinstance(term, Constant) else self.fitting(term, column, types)
        return result if stem is None else self.called(stem, (result,), term)

    def fitting(self, term: Expression, column: str | None, types: TypeOf) -> str | None:
        """Return the functor that makes a term a value of its column; None if none is needed."""
        kind = None if column is None else self.types.kind(column)
        if kind not in FITTED or (_is_aggregate(term) and term.op in ("count", "min", "max")):
            return None
        found = self.type_of(term, types)
        if found is None:
            return None
        if kind == "uint64" and (not variables_of((term,)) or self.is_unsigned(term, types)):
            return None  # the range of a constant is checked for every column
        return FITTED[kind] if self.types.kind(found) == {"float": "double", "uint64": "int64"}[kind] else None

    def is_unsigned(self, term: Expression, types: TypeOf) -> bool:
        """Return whether an integer term is never negative."""
        if isinstance(term, Constant):
            return isinstance(term.value, int) and term.value >= 0
        if isinstance(term, Variable):
            return term in types and self.types.kind(types[term]) == "uint64"
        if isinstance(term, Aggregate):
            inner = dict(types)
            self.infer(term, inner)
            return term.value is None or self.is_unsigned(term.value, inner)
        if term.op in ("strlen", "to_unsigned") or (term.function and term.function.returns.name == "uint64"):
            return True
        keeps_sign = (*_AGGREGATES, "+", "*", "/", "%", "^", "band", "bor", "bxor", "bshr", "land", "lor", "lxor")
        return term.op in keeps_sign and all(self.is_unsigned(part, types) for part in term.arguments)

    def check_head(self, head: Atom, term: Expression, column: str, types: TypeOf) -> None:
        """Raise if a term of a head has values that its column has not."""
        kind = self.type_of(term, types)
        if kind is None or _is_record(term):
            return
        self.check_kinds(term, kind, column, head)
        if isinstance(term, Variable) and not self.types.is_subtype(kind, column) and self.is_strict(kind, column):
            upper = format_type(column)
            what = (
                f"'{term}' is of type '{format_type(kind)}', which is not a subtype of '{upper}', the type of its "
                f"column in '{head.relation}'; write as({term}, {upper}) if it is one"
            )
            raise TypeMismatchError(self.program.point(what, head.span))

    def is_strict(self, *names: str) -> bool:
        """Return whether one of these types is declared by the program: then subtypes count."""
        return any(name in self.types.definitions for name in names)

    def check_kinds(self, term: Expression, kind: str, column: str, atom: Atom) -> None:
        """Raise if a term and its column are of different families."""
        left, right = (family(self.types.kind(name)) for name in (kind, column))
        is_number = isinstance(term, Constant) and not isinstance(term.value, (str, bool))
        if left == right or (is_number and right in ("integer", "decimal", "wide", *_FLOATS)):
            return
        if isinstance(term, Constant) and left == "string" and right not in (RECORD, "integer", "bool", *_FLOATS):
            return  # dates and the like are written as texts
        if left in _FLOATS and right in _FLOATS:
            return
        what = (
            f"'{term}' in '{atom}' is of type '{format_type(kind)}', and its column is of type '{format_type(column)}'"
        )
        raise TypeMismatchError(self.program.point(what, atom.span))

    def fresh(self, stem: str) -> Variable:
        suffix, name = 1, f"{stem}_1"
        while name in self.names:
            suffix += 1
            name = f"{stem}_{suffix}"
        self.names.add(name)
        return Variable(name)

    # Types of variables

    def learn(self, expression: Expression, kind: str, types: TypeOf, span: Span, where: object) -> None:
        """Note that an expression has values of a type."""
        if isinstance(expression, Variable) and not expression.is_wildcard:
            known = types.get(expression)
            common = kind if known is None else self.types.meet(known, kind)
            if common is None and known is not None:
                left, right = (family(self.types.kind(name)) for name in (known, kind))
                if self.types and (left != right or self.is_strict(known, kind)):
                    what = (
                        f"'{expression}' is of type '{format_type(known)}', and here in '{where}' of type "
                        f"'{format_type(kind)}'; no value is both"
                    )
                    raise TypeMismatchError(self.program.point(what, span))
                common = known
            assert common is not None
            types[expression] = common
        elif isinstance(expression, Call) and _is_record(expression) and expression.op != NIL_TERM:
            _, parts = self.branch_of(expression, kind)
            for part, part_kind in zip(expression.arguments, parts, strict=True):
                self.learn(part, part_kind, types, span, where)
        elif self.types and (found := self.type_of(expression, types)) is not None:
            self.check_kinds(expression, found, kind, where if isinstance(where, Atom) else Atom("", (), span))

    def infer(self, body: Rule | Aggregate, types: TypeOf) -> None:
        """Note the types of a body's variables."""
        for atom in body.atoms:
            for i, term in enumerate(atom.terms):
                kind = self.program.column(atom.relation, i, len(atom.terms))
                if kind is not None:
                    self.learn(term, kind, types, atom.span, atom)
        n_known = -1
        while n_known < len(types):
            n_known = len(types)
            for comparison in body.comparisons:
                for side, opposite in (
                    (comparison.left, comparison.right),
                    (comparison.right, comparison.left),
                ):
                    kind = self.type_of(side, types)
                    if kind is None or comparison.op != "=":
                        continue
                    if _is_record(opposite) or (isinstance(opposite, Variable) and opposite not in types):
                        self.learn(opposite, kind, types, comparison.span, comparison)

    def type_of(self, expression: Expression, types: TypeOf) -> str | None:
        """Return the name of the type of an expression; None if it is unknown."""
        if isinstance(expression, Variable):
            return types.get(expression)
        if isinstance(expression, Constant):
            return {int: "int64", float: "double", str: "string", bool: "bool"}.get(type(expression.value))
        if isinstance(expression, Aggregate):
            inner = dict(types)
            self.infer(expression, inner)
            kind = None if expression.value is None else self.type_of(expression.value, inner)
            return self.type_of_aggregate(expression.op, kind)
        return self.type_of_call(expression, types)

    def type_of_aggregate(self, op: str, kind: str | None) -> str | None:
        """Return the type of an aggregate of values of a type."""
        if op in ("count", "mean"):
            return "int64" if op == "count" else "double"
        return "double" if op == "sum" and kind is not None and family(self.types.kind(kind)) in _FLOATS else kind

    def type_of_call(self, call: Call, types: TypeOf) -> str | None:
        if call.function is not None:
            return call.function.returns.name
        op = call.op
        if _is_aggregate(call):
            return self.type_of_aggregate(op, self.type_of(call.arguments[0], types) if call.arguments else None)
        if op.startswith("$"):
            sums = self.types.branches.get(op[1:], [])
            return sums[0] if len(sums) == 1 else None
        if op == "as":
            return call.arguments[1].name if isinstance(call.arguments[1], Variable) else None
        if op in ("to_string", *_TEXT_FUNCTIONS):
            return "string"
        if op in ("to_number", "ord", "strlen", "year", "month", "day"):
            return "int64"
        if op in ("to_float", "double", "to_unsigned"):
            return "uint64" if op == "to_unsigned" else "double"
        if op in NULL_AWARE or op in (RECORD_TERM, NIL_TERM):
            return None
        kinds = [kind for part in call.arguments if (kind := self.type_of(part, types)) is not None]
        families = {family(self.types.kind(kind)) for kind in kinds}
        if families & {*_FLOATS}:
            return "double"
        if families == {"integer"}:
            return "int64"
        return "string" if op in ("min", "max") and families == {"string"} else None

    # Bodies

    def body(self, body: Rule | Aggregate, types: TypeOf, outside: Iterable[Variable]) -> _Body:
        """Return a body without open calls; `types` gets the types of its variables."""
        self.infer(body, types)
        result = _Body()
        pending: list[tuple[Variable, Call, str | None, Span]] = []
        for atom in body.atoms:
            terms: list[Expression] = []
            for i, term in enumerate(atom.terms):
                kind = self.program.column(atom.relation, i, len(atom.terms))
                if isinstance(term, Call) and _is_record(term) and term.op != NIL_TERM:
                    variable = self.fresh("record")
                    pending.append((variable, term, kind, atom.span))
                    terms.append(variable)
                else:
                    terms.append(self.expression(term, types, kind))
            result.atoms.append(replace(atom, terms=tuple(terms)))
        for comparison in body.comparisons:
            self.comparison(comparison, types, result, pending)
        self.place_records(pending, types, result, tuple(outside))
        for atom in map(self.without_open_parts, body.negated):
            kinds = [self.program.column(atom.relation, i, len(atom.terms)) for i in range(len(atom.terms))]
            terms = [self.expression(term, types, kind) for term, kind in zip(atom.terms, kinds, strict=True)]
            result.negated.append(replace(atom, terms=tuple(terms)))
        return result

    def without_open_parts(self, atom: Atom) -> Atom:
        """Return a negated atom without ``_`` in records.

        A helper relation has its other variables.
        """
        records_of_atom = [term for term in atom.terms if isinstance(term, Call) and _is_record(term)]
        if not any(variable.is_wildcard for variable in variables_of(records_of_atom)):
            return atom
        variables = dict.fromkeys(variable for variable in variables_of(atom.terms) if not variable.is_wildcard)
        head = Atom(self.program.helper_name(atom.relation), tuple(variables) or (Constant(0),), atom.span)
        self.program.helpers.append(self.program.rule(Rule(head, (atom,))))
        return head

    def comparison(
        self, comparison: Comparison, types: TypeOf, body: _Body,
        pending: list[tuple[Variable, Call, str | None, Span]],
    ) -> None:  # fmt: skip
        """Rewrite a comparison; records that may bind their parts are left to `pending`."""
        left, right = comparison.left, comparison.right
        if self.types and comparison.op not in ("=", "!="):
            for side in (left, right):
                kind = self.type_of(side, types)
                if _is_record(side) or (kind is not None and self.types.kind(kind) == RECORD):
                    what = f"'{comparison}' compares records, which have no order; compare their parts"
                    raise UnsupportedError(self.program.point(what, comparison.span))
        if comparison.op == "=" and _is_record(left) and _is_record(right):
            variable = self.fresh("record")
            kind = self.type_of(left, types) or self.type_of(right, types)
            pending += [(variable, side, kind, comparison.span) for side in (left, right) if isinstance(side, Call)]
            return
        if comparison.op == "=" and _is_record(left):
            left, right = right, left
        if (
            comparison.op == "=" and isinstance(right, Call) and _is_record(right) and right.op != NIL_TERM
            and isinstance(left, Variable)
        ):  # fmt: skip
            pending.append((left, right, types.get(left) or self.type_of(right, types), comparison.span))
            return
        kinds = [self.type_of(side, types) for side in (left, right)]
        left_term, right_term = self.expression(left, types, kinds[1]), self.expression(right, types, kinds[0])
        body.comparisons.append(replace(comparison, left=left_term, right=right_term))

    def place_records(
        self, pending: list[tuple[Variable, Call, str | None, Span]], types: TypeOf, body: _Body,
        outside: tuple[Variable, ...],
    ) -> None:  # fmt: skip
        """Pack each record whose parts are bound, and take apart those whose value is bound."""
        while pending:
            bound = body.bound(outside)
            chosen = next((item for item in pending if bound.issuperset(variables_of((item[1],)))), None)
            if chosen is None:
                opened = next((item for item in pending if item[0] in bound), None)
                if opened is not None:
                    pending.remove(opened)
                    self.take_apart(opened, types, body, pending)
                    continue
                chosen = pending[0]
            pending.remove(chosen)
            variable, call, kind, span = chosen
            packed = self.packed(call, types, kind, span)
            body.comparisons.append(Comparison("=", variable, packed, span))

    def take_apart(
        self, item: tuple[Variable, Call, str | None, Span], types: TypeOf, body: _Body,
        pending: list[tuple[Variable, Call, str | None, Span]],
    ) -> None:  # fmt: skip
        """Bind the parts of a record whose value is bound."""
        value, call, kind, span = item
        branch, kinds = self.branch_of(call, kind)
        name = Constant(branch)
        made = _packed_parts(body, value, branch)
        if made is None:
            test = self.called("is_branch", (value, name), call)
            body.comparisons.append(Comparison("=", test, Constant(True), span))
        for index, (part, part_kind) in enumerate(zip(call.arguments, kinds, strict=True)):
            if isinstance(part, Variable) and part.is_wildcard:
                continue
            letter = self.types.letter(part_kind)
            if made is not None and letter not in ("f", "g"):  # to pack a float may round it
                taken = made[index]
            else:
                taken = self.called(f"unpack_{letter}", (value, name, Constant(index), Constant(len(kinds))), call)
            if isinstance(part, Call) and _is_record(part) and part.op != NIL_TERM:
                inner = self.fresh("record")
                body.comparisons.append(Comparison("=", inner, taken, span))
                pending.append((inner, part, part_kind, span))
            else:
                term = self.expression(part, types, part_kind)
                body.comparisons.append(Comparison("=", term, taken, span))

    def branch_of(self, call: Call, kind: str | None) -> tuple[str, tuple[str, ...]]:
        """Return the branch of a record, empty for a record type, and the types of its parts."""
        branch = "" if call.op == RECORD_TERM else call.op[1:]
        definition: Definition | None = None if kind is None else self.types.shape(kind)
        if definition is None and branch:
            sums = self.types.branches.get(branch, [])
            if len(sums) > 1:
                what = (
                    f"branch '{branch}' is in several types, {', '.join(sums)}, and none of them is meant by the place"
                )
                raise TypeMismatchError(self.program.point(f"{what}; declare the column that holds it", call.span))
            definition = self.types.definitions[sums[0]] if sums else None
        if definition is None:
            what = f"'{_text(call)}' has no type here: no declared column or variable of a record type is equal to it"
            if kind is not None:
                what = f"'{_text(call)}' is a record, and its place is of type '{format_type(kind)}'"
            raise TypeMismatchError(self.program.point(what, call.span))
        parts = definition.branches.get(branch)
        if parts is None:
            known = ", ".join(name or "a record" for name in definition.branches)
            what = f"'{_text(call)}' is not of type '{format_type(str(kind))}', which has {known}"
            raise TypeMismatchError(self.program.point(what, call.span))
        if len(parts) != len(call.arguments):
            what = f"'{_text(call)}' has {len(call.arguments)} parts: expected {len(parts)}"
            raise TypeMismatchError(self.program.point(what, call.span))
        return branch, parts

    # Expressions

    def expression(self, expression: Expression, types: TypeOf, expected: str | None = None) -> Expression:
        """Return an expression without open calls."""
        if isinstance(expression, Aggregate):
            return self.aggregate(expression, types)
        if not isinstance(expression, Call):
            return expression
        call = expression
        if _is_record(call):
            if call.op == NIL_TERM:
                return Constant(records.NIL)
            return self.packed(call, types, expected or self.type_of(call, types), call.span)
        if is_open(call):
            return self.chosen(call, types, expected)
        arguments = tuple(self.expression(part, types) for part in call.arguments)
        return call if arguments == call.arguments else replace(call, arguments=arguments)

    def aggregate(self, aggregate: Aggregate, types: TypeOf) -> Aggregate:
        """Return an aggregate without open calls; variables of the rule may be bound outside of it."""
        inner = dict(types)
        n_ranges = len(self.ranges)
        body = self.body(aggregate, inner, (*types, *standing(self.rule)))
        value = None if aggregate.value is None else self.expression(aggregate.value, inner)
        if len(self.ranges) > n_ranges:
            self.place_ranges(body, n_ranges)
        return replace(
            aggregate, value=value, atoms=tuple(body.atoms), comparisons=tuple(body.comparisons),
            negated=tuple(body.negated),
        )  # fmt: skip

    def packed(self, call: Call, types: TypeOf, kind: str | None, span: Span) -> Expression:
        """Return the call that makes the text of a record."""
        branch, kinds = self.branch_of(call, kind)
        letters = "".join(str(self.types.letter(part)) for part in kinds)
        arguments: list[Expression] = [Constant(branch)]
        for part, part_kind, letter in zip(call.arguments, kinds, letters, strict=True):
            if isinstance(part, Variable) and part.is_wildcard:
                what = f"'_' in '{_text(call)}' stands for a value that nothing binds; name the part"
                raise UnsupportedError(self.program.point(what, span))
            found = self.type_of(part, types)
            if found is not None and not _is_record(part):
                self.check_kinds(part, found, part_kind, Atom(_text(call), (), span))
            term = self.expression(part, types, part_kind)
            if isinstance(term, Constant) and letter in "fg" and isinstance(term.value, (int, Decimal)):
                term = Constant(float(term.value))
            arguments.append(term)
        return self.called(f"pack_{letters}", arguments, call)

    def called(self, name: str, arguments: Sequence[Expression], call: Expression) -> Expression:
        """Return the call of a functor; of constants, its value."""
        function = functor(name)
        assert function is not None, name
        span = call.span if isinstance(call, (Call, Aggregate)) else Span()
        result = Call(name, tuple(arguments), span, function)
        values = [argument.value for argument in arguments if isinstance(argument, Constant)]
        if len(values) < len(arguments) or function.arrays or None in values:
            return result
        try:
            value = function.call(*values)
        except (ValueError, ArithmeticError) as error:
            raise TypeMismatchError(self.program.point(f"'{_text(call)}' has no value: {error}", span)) from None
        return Constant(value) if type(value) in (int, str, bool) else result

    def chosen(self, call: Call, types: TypeOf, expected: str | None) -> Expression:
        """Return the functor for the types of the arguments of an open call."""
        if call.op == "range":
            return self.range(call, types)
        if call.op == "autoinc":
            what = "autoinc() numbers rows in the order in which they are derived, which changes cannot keep"
            raise UnsupportedError(self.program.point(f"{what}; derive a number from the row, as ord(x)", call.span))
        if call.op == "as":
            return self.cast(call, types)
        parts = [self.expression(part, types, expected) for part in call.arguments]
        kinds = [self.type_of(part, types) for part in call.arguments]
        families = [None if kind is None else family(self.types.kind(kind)) for kind in kinds]
        first = families[0]
        if call.op in ("min", "max"):
            known = {found for found in families if found is not None}
            stem = "lesser" if call.op == "min" else "greater"
            ending = "_text" if "string" in known else "_float" if known & {*_FLOATS} else ""
            result = parts[0]
            for part in parts[1:]:
                result = self.called(f"{stem}{ending}", (result, part), call)
            return result
        if call.op == "^":
            return self.called("power_float" if {*families} & {*_FLOATS} else "power", parts, call)
        (part,) = parts
        if first == RECORD and call.op == "to_string":
            return part
        word = "text" if first == "string" else "float" if first in _FLOATS else "number"
        if first not in ("string", "integer", None, *_FLOATS):
            found = f"'{call.arguments[0]}' is of type '{format_type(str(kinds[0]))}'"
            what = f"'{call.op}' takes a number, a float or a text, and {found}"
            raise TypeMismatchError(self.program.point(what, call.span))
        if first is None and call.op != "to_string":
            word = "text"  # numbers need no conversion
        if call.op == "ord":
            return self.called("ordinal", (part,), call) if word == "text" else part
        if call.op == "to_float" and word == "number":
            return Call("double", (part,), call.span)
        target = {"to_string": "text", "to_number": "number", "to_unsigned": "unsigned", "to_float": "float"}[call.op]
        return part if target == word else self.called(f"{target}_of_{word}", (part,), call)

    def cast(self, call: Call, types: TypeOf) -> Expression:
        """Return the value of ``as(x, type)``, whose type must be of the same family."""
        value, name = call.arguments
        assert isinstance(name, Variable)
        kind = self.type_of(value, types)
        families = {family(self.types.kind(found)) for found in (kind or name.name, name.name)}
        if kind is not None and len(families) > 1 and not families <= {*_FLOATS}:
            what = (
                f"'{_text(call)}' reads a value of type '{format_type(kind)}' as bits of type "
                f"'{format_type(name.name)}'; convert it by to_number(x), to_string(x) or to_float(x)"
            )
            raise UnsupportedError(self.program.point(what, call.span))
        return self.fitted(value, name.name, types)

    # Ranges

    def range(self, call: Call, types: TypeOf) -> Variable:
        """Return a new variable for the values of a range."""
        variable = self.fresh("value")
        arguments = tuple(self.expression(part, types) for part in call.arguments)
        kinds = [self.type_of(part, types) for part in call.arguments]
        is_float = any(kind is not None and family(self.types.kind(kind)) in _FLOATS for kind in kinds)
        self.ranges.append((variable, replace(call, op="range_float" if is_float else "range", arguments=arguments)))
        types[variable] = "double" if is_float else "int64"
        return variable

    def place_ranges(self, body: _Body, start: int = 0) -> None:
        """Add an atom for each range to a body, and the rules of its relation to the program."""
        ranges, self.ranges[start:] = self.ranges[start:], []
        for variable, call in ranges:
            is_float = call.op == "range_float"
            ending = "_float" if is_float else ""
            first, end, *rest = call.arguments
            step = rest[0] if rest else self.called(f"range_step{ending}", (first, end), call)
            relation = self.program.helper_name("range")
            if all(isinstance(part, Constant) for part in (first, end, step)) and self.listed(
                relation, first, end, step
            ):
                body.atoms.append(Atom(relation, (variable,), call.span))
                continue
            keys = tuple(self.fresh(stem) for stem in ("first", "end", "step"))
            given = [Comparison("=", key, part, call.span) for key, part in zip(keys, (first, end, step), strict=True)]
            self.halved(relation, keys, [*given], body, ending)
            low, high = self.fresh("low"), self.fresh("high")
            offset = Call("*", (keys[2], Call("double", (low,)) if is_float else low))
            body.atoms.append(Atom(relation, (*keys, low, high), call.span))
            body.comparisons += given
            body.comparisons.append(Comparison("=", high, Call("+", (low, Constant(1)))))
            body.comparisons.append(Comparison("=", variable, Call("+", (keys[0], offset)), call.span))

    def listed(self, relation: str, first: Expression, end: Expression, step: Expression) -> bool:
        """Add the numbers of a range of constants as facts; return whether they are few enough."""
        values = [part.value for part in (first, end, step) if isinstance(part, Constant)]
        begin, stop, by = values
        if not all(type(value) is int for value in values):
            return False
        assert isinstance(begin, int)
        assert isinstance(stop, int)
        assert isinstance(by, int)
        numbers: Sequence[int] = range(begin, stop, by) if by else [begin] * (begin != stop)
        if len(numbers) > MAX_LISTED:
            return False
        self.program.helpers += [Rule(Atom(relation, (Constant(number),)), ()) for number in numbers]
        if not numbers:
            never = Comparison("!=", Constant(0), Constant(0))
            self.program.helpers.append(Rule(Atom(relation, (Constant(begin),)), (), (never,)))
        return True

    def halved(
        self, relation: str, keys: tuple[Variable, ...], bindings: list[Comparison], body: _Body, ending: str
    ) -> None:
        """Add the rules of a relation of intervals, halved until each holds one position."""
        low, high, middle = (self.fresh(stem) for stem in ("low", "high", "middle"))
        size = self.called(f"range_size{ending}", keys, Call("range", keys))
        whole = (*bindings, Comparison("=", high, size), Comparison(">", high, Constant(0)))
        bound = body.bound(())
        ready = [comparison for comparison in body.comparisons if bound.issuperset(comparison.variables)]
        head = Atom(relation, (*keys, Constant(0), high))
        self.program.helpers.append(numbered(Rule(head, tuple(body.atoms), (*ready, *whole))))
        long = Comparison(">", Call("-", (high, low)), Constant(1))
        half = Comparison("=", middle, Call("+", (low, Call("/", (Call("-", (high, low)), Constant(2))))))
        interval = Atom(relation, (*keys, low, high))
        for ends in ((low, middle), (middle, high)):
            self.program.helpers.append(Rule(Atom(relation, (*keys, *ends)), (interval,), (long, half)))


def without_unread_records(rule: Rule) -> Rule:
    """Return a rule that packs no record which nothing reads: its parts must still not be null.

    Examples
    --------
    >>> x, record = Variable("x"), Variable("record")
    >>> packed = Call("pack_n", (Constant(""), x), function=functor("pack_n"))
    >>> print(without_unread_records(Rule(Atom("p", (x,)), (Atom("e", (x,)),), (Comparison("=", record, packed),))))
    p(x) :- e(x), x != null.
    """
    counts = Counter(occurrences(rule))
    comparisons: list[Comparison] = []
    for comparison in rule.comparisons:
        left = comparison.left
        is_unread = isinstance(left, Variable) and counts[left] == 1 and comparison.op == "="
        is_unread = is_unread and _is_packed(comparison.right)
        nulls = [Comparison("!=", part, NULL, comparison.span) for part in variables_of((comparison.right,))]
        comparisons += nulls if is_unread else [comparison]
    smaller = replace(rule, comparisons=tuple(comparisons))
    return rule if smaller == rule else without_unread_records(smaller)


def _is_packed(expression: Expression) -> bool:
    """Return whether an expression packs variables and constants, so that it always has a value."""
    if not (isinstance(expression, Call) and expression.op.startswith("pack_")):
        return False
    return all(not isinstance(part, (Call, Aggregate)) or _is_packed(part) for part in expression.arguments)


def renamed_reads(rule: Rule, relation: str, name: str) -> Rule:
    """Return a rule that reads another relation instead of `relation`."""

    def read(atom: Atom) -> Atom:
        return replace(atom, relation=name) if atom.relation == relation else atom

    return rewritten(rule, lambda variable: variable, read)


def numbered(rule: Rule) -> Rule:
    """Return a rule whose wildcards are numbered in the order in which a text of it is read."""
    names: dict[Variable, Variable] = {}

    def assign_number(variable: Variable) -> Variable:
        if variable.is_wildcard:
            return names.setdefault(variable, Variable(f"_#{len(names) + 1}"))
        return variable

    return rewritten(rule, assign_number)


def _text(expression: Expression) -> str:
    """Return an expression as it is written."""
    if isinstance(expression, Call) and _is_record(expression):
        parts = ", ".join(map(_text, expression.arguments))
        if expression.op == RECORD_TERM:
            return f"[{parts}]"
        return expression.op if expression.op == NIL_TERM or not parts else f"{expression.op}({parts})"
    return str(expression)


def has_open_calls(rule: Rule) -> bool:
    """Return whether a rule has calls that `Rewriting` rewrites."""
    waiting = list(expressions(rule))
    while waiting:
        term = waiting.pop()
        if isinstance(term, Call):
            if is_open(term):
                return True
            waiting += term.arguments
        elif isinstance(term, Aggregate):
            waiting += expressions(term)
    return False


# Equivalence relations: the rules of their closure.


_X, _Y, _Z = map(Variable, "xyz")


def with_equivalences(program: Rules, relations: Iterable[str]) -> Rules:
    """Return a program in which these relations of two columns are closed to equivalences.

    What rules derive goes to a relation of pairs, which the closure follows in both directions: for a class of n
    elements with m pairs that takes n * m derivations. A relation that takes rows is joined with itself instead.

    Examples
    --------
    >>> x, y = map(Variable, "xy")
    >>> program = Rules((Rule(Atom("same", (x, y)), (Atom("edge", (x, y)),)),), outputs=("same",))
    >>> print(with_equivalences(program, ["same"]))
    same_pairs(x, y) :- edge(x, y).
    same(x, y) :- same_pairs(x, y).
    same(y, x) :- same_pairs(x, y).
    same(x, z) :- same(x, y), same_pairs(y, z).
    same(x, z) :- same(x, y), same_pairs(z, y).
    .output same
    """
    for relation in relations:
        taken = {*program.heads, *program.inputs, *program.arity}
        if relation in program.inputs or relation not in program.heads:
            closure: tuple[Rule, ...] = (
                Rule(Atom(relation, (_Y, _X)), (Atom(relation, (_X, _Y)),)),
                Rule(Atom(relation, (_X, _Z)), (Atom(relation, (_X, _Y)), Atom(relation, (_Y, _Z)))),
            )
            line = Directive("input", relation)
            is_named = any((one.kind, one.relation) == ("input", relation) for one in program.directives)
            directives = program.directives if is_named else (line, *program.directives)
            program = replace(program, rules=(*program.rules, *closure), directives=directives)
            continue
        suffix, pairs = 1, f"{relation}_pairs"
        while pairs in taken:
            suffix += 1
            pairs = f"{relation}_pairs_{suffix}"
        rules = [
            replace(rule, head=replace(rule.head, relation=pairs)) if rule.head.relation == relation else rule
            for rule in program.rules
        ]
        pair = Atom(pairs, (_X, _Y))
        closure = (
            Rule(Atom(relation, (_X, _Y)), (pair,)),
            Rule(Atom(relation, (_Y, _X)), (pair,)),
            Rule(Atom(relation, (_X, _Z)), (Atom(relation, (_X, _Y)), Atom(pairs, (_Y, _Z)))),
            Rule(Atom(relation, (_X, _Z)), (Atom(relation, (_X, _Y)), Atom(pairs, (_Z, _Y)))),
        )
        program = replace(program, rules=(*rules, *closure))
    return program
