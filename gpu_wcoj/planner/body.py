"""Normalise a rule: substitute equalities, turn constants into selections, add null flags.

Each nullable column has a column of flags after the relation's own columns (1 where the value is null, with code 0). A
variable that joins, is compared or repeated restricts rows to non-null values, and so does a variable of a calculation
or of a negated atom. A variable that occurs once is kept with its flag, so that nulls that are only copied survive, and
a null-safe variable is kept with its flag everywhere.

Examples
--------
>>> from gpu_wcoj.query.datalog import parse
>>> rule = parse("h(x, y) :- r(x, 1, x), s(x, y), y < 5.").rules[0]
>>> shapes = {name: Shape(name, (False,) * arity) for name, arity in {"r": 3, "s": 2, "h": 2}.items()}
>>> body = normalise(rule, shapes, {}, lambda relation, column, value: int(value))
>>> body.atoms[0].constants, body.atoms[0].equal, body.conditions[0].operand
(((1, 1),), ((0, 2),), 5)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from gpu_wcoj.data.column import without_zero_signs
from gpu_wcoj.data.schema import INT64, NO_DECIMAL, DataType
from gpu_wcoj.function_calls import BoundGroups
from gpu_wcoj.functions import Calculation, Formula, PythonFunction
from gpu_wcoj.join.plan import Condition
from gpu_wcoj.planner.types import BOOL, STRING, decimal_kind, result_of
from gpu_wcoj.query.constant_folding import is_spelled
from gpu_wcoj.query.ir import (
    COMPARING,
    MIRRORED,
    NULL,
    Atom,
    Call,
    Computed,
    Constant,
    Expression,
    Rule,
    Term,
    Variable,
    plain,
)
from gpu_wcoj.trace.arrangement import COMPARE, ComparedColumns
from gpu_wcoj.user_functions import GroupFunctions, SqlFunction, TypedFunction

# Substitutions of variables by the equalities of a rule.


Resolve = Callable[[Expression], Term]
"""Return the term that replaces a term."""


def resolver(rule: Rule) -> Resolve | None:
    """Return the substitution by equalities; None if two different constants would be equal.

    A calculated variable keeps its name and is compared with variables of atoms. Null tests do not substitute.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> resolve = resolver(parse("h(x) :- r(x, y), z = y, s(z), x = 5.").rules[0])
    >>> [str(resolve(Variable(name))) for name in "xyz"]
    ['5', 'y', 'y']
    """
    value = _substitution(rule)
    if not value:
        return None if value is None else plain
    return lambda term: _resolved(term, value)


def standing_for(names: Sequence[str], rule: Rule) -> list[str]:
    """Return the variables that replace these after substitution, each once.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> standing_for(["z", "x", "y"], parse("h(x) :- r(x, y), z = y, s(z).").rules[0])
    ['y', 'x']
    """
    value = _substitution(rule) if names else None
    if not value:
        return list(dict.fromkeys(names))
    terms = [_resolved(Variable(name), value) for name in names]
    return list(dict.fromkeys(term.name for term in terms if isinstance(term, Variable)))


def _substitution(rule: Rule) -> dict[Variable, Term] | None:
    value: dict[Variable, Term] = {}
    equalities = [comparison for comparison in rule.comparisons if comparison.op == "=" and not comparison.is_null_test]
    if not equalities:
        return value
    calculated = {computed.variable for computed in rule.computed}
    bound = {variable for atom in rule.atoms for variable in atom.variables}
    for comparison in equalities:
        left, right = _resolved(comparison.left, value), _resolved(comparison.right, value)
        if left == right:
            continue
        if right in calculated:
            left, right = right, left
        if left in calculated:
            if isinstance(right, Variable) and right not in calculated and right not in bound:
                value[right] = left
        elif isinstance(left, Variable):
            value[left] = right
            if left in bound and isinstance(right, Variable):
                bound.add(right)
        elif isinstance(right, Variable):
            value[right] = left
        elif left.value != right.value:
            return None
    return value


def _resolved(term: Expression, value: Mapping[Variable, Term]) -> Term:
    while isinstance(term, Variable) and term in value:
        term = value[term]
    return plain(term)


# Nullable variables of a rule, by the null columns of its relations.
#
# A variable that occurs once in a body, or is null-safe and occurs only in nullable columns, is copied with its flag.
# Any other variable has a value. The result of a null-aware call, or of a Python function, may be null and is copied
# with its flag, unless its value is needed: then rows in which it is null are dropped. A variable that a rule requires
# to be null becomes a constant; a rule that requires null of a column without null, or of a variable with a value,
# derives nothing.


Nullable = Mapping[str, Sequence[bool]]
"""Per relation, one mask of the columns that may hold null."""


@dataclass(frozen=True)
class Nulls:
    """Nullable variables of a rule.

    Attributes
    ----------
    asked
        The variables that are null in every row: null replaces them.
    flags
        Per variable that may be null, by name, the variable of its flag.
    dropped
        Per result of a null-aware call whose value is needed, the variable of its flag, which has to be 0.
    """

    asked: frozenset[Variable]
    flags: Mapping[str, str]
    dropped: Mapping[str, str] = field(default_factory=dict)

    def term(self, term: Term) -> Term:
        """Return NULL for a variable that is required to be null, else the term."""
        return NULL if term in self.asked else term


def nulls_of(
    rule: Rule,
    resolve: Resolve,
    nullable: Nullable,
    kept_column: int | None = None,
    requirement: Mapping[Variable, bool] | None = None,
) -> Nulls | None:
    """Return the nullable variables of a rule; None if it requires a null that never occurs.

    Parameters
    ----------
    kept_column
        The column of the head that has a value in every row.
    requirement
        Variables that have to be null or not null, in addition to the null tests of the rule.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rule = parse("h(x, y?, z) :- r(x, y?, z), s(y?, z).").rules[0]
    >>> nulls_of(rule, lambda term: term, {"r": (True, True, True), "s": (True, True)}).flags
    {'x': 'x?', 'y?': 'y??'}
    >>> nulls_of(rule, lambda term: term, {"r": (True, True, True), "s": (False, False)}).flags
    {'x': 'x?'}
    """
    calls = [computed for computed in rule.computed if computed.call.may_be_null]
    if not (requirement or calls or rule.says_null or any(any(nullable[atom.relation]) for atom in rule.atoms)):
        return Nulls(frozenset(), {})
    places = _places(rule, resolve)
    strict, single = _uses(rule, resolve, kept_column)
    null: set[Variable] = set()
    valued: set[Variable] = set()
    for term, is_null in _tests(rule, requirement or {}):
        tested = resolve(term)
        if isinstance(tested, Variable) and (tested in places or not is_null):
            (null if is_null else valued).add(tested)
        elif is_null:
            return None
    for variable in null:
        if variable in valued or variable in strict or not (variable.is_null_safe or variable in single):
            return None
    is_asked = frozenset(null)
    for atom in rule.atoms:
        for column, argument in enumerate(atom.terms):
            term = resolve(argument)
            if (term == NULL or term in is_asked) and not nullable[atom.relation][column]:
                return None
    if kept_column is not None and resolve(rule.head.terms[kept_column]) in (NULL, *is_asked):
        return None
    taken = {place_variable.name for place_variable in places}
    flags: dict[str, str] = {}
    for variable, columns in places.items():
        carries = variable not in null | valued | strict and (variable.is_null_safe or variable in single)
        if carries and all(nullable[relation][column] for relation, column in columns):
            flag = f"{variable.name}?"
            while flag in taken:
                flag += "?"
            taken.add(flag)
            flags[variable.name] = flag
    needed: set[Expression] = {*strict, *valued}
    if calls:
        needed |= {resolve(term) for atom in (*rule.atoms, *rule.negated) for term in atom.terms}
    dropped: dict[str, str] = {}
    for call in calls:
        tested = resolve(call.variable)
        null_names = {*flags, *(asked_variable.name for asked_variable in is_asked)}
        if isinstance(tested, Variable) and may_be_null(call.call, resolve, null_names):
            (dropped if tested in needed else flags)[tested.name] = f"{tested.name}?"
    return Nulls(is_asked, flags, dropped)


def may_be_null(expression: Expression, resolve: Resolve, names: Collection[str]) -> bool:
    """Return whether an expression can be null where the variables of these names can."""
    if not isinstance(expression, Call):
        term = resolve(expression)
        return term == NULL or (isinstance(term, Variable) and term.name in names)
    if expression.op in ("isnull", "istrue"):
        return False
    if expression.function is not None:
        return True
    parts = expression.arguments
    if expression.op == "case":
        if len(parts) % 2 == 0:
            return True
        parts = (*parts[1::2], parts[-1])
    return any(may_be_null(part, resolve, names) for part in parts)


def cases(rule: Rule, nullable: Nullable, kept_column: int | None = None) -> list[dict[Variable, bool]]:
    """Return the null requirements of each body of a rule; mostly one empty requirement.

    There are several if a variable that may be null occurs in a negated atom, in a column without null: no row of that
    atom is null there, whatever its other columns hold.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rule = parse("h(x?) :- r(x?), !s(x?).").rules[0]
    >>> for case in cases(rule, {"r": (True,), "s": (False,)}):
    ...     print({str(variable): is_null for variable, is_null in case.items()})
    {'x?': False}
    {'x?': True}
    """
    resolve = resolver(rule) if rule.negated else None
    if resolve is None:
        return [{}]
    waiting: list[dict[Variable, bool]] = [{}]
    decided = []
    while waiting:
        requirement = waiting.pop()
        nulls = nulls_of(rule, resolve, nullable, kept_column, requirement)
        undecided = None if nulls is None else _undecided(rule, resolve, nullable, nulls)
        if undecided is None:
            decided.append(requirement)
        else:
            waiting += [{**requirement, undecided: True}, {**requirement, undecided: False}]
    return decided


def _undecided(rule: Rule, resolve: Resolve, nullable: Nullable, nulls: Nulls) -> Variable | None:
    """Return a nullable variable in a column without null of a negated atom, or None."""
    for atom in rule.negated:
        if never_holds(atom, lambda term: nulls.term(resolve(term)), nullable):
            continue
        for column, argument in enumerate(atom.terms):
            term = resolve(argument)
            if isinstance(term, Variable) and term.name in nulls.flags and not nullable[atom.relation][column]:
                return term
    return None


def never_holds(atom: Atom, resolve: Resolve, nullable: Nullable) -> bool:
    """Return True if an atom requires null in a column without null."""
    return any(resolve(term) == NULL and not nullable[atom.relation][column] for column, term in enumerate(atom.terms))


def null_columns(rule: Rule, resolve: Resolve, nullable: Nullable, kept_column: int | None) -> list[int]:
    """Return the columns of the head that a rule may set to null."""
    nulls = nulls_of(rule, resolve, nullable, kept_column)
    if nulls is None:
        return []
    terms = [nulls.term(resolve(term)) for term in rule.head.terms]
    return [
        column
        for column, term in enumerate(terms)
        if term == NULL or (isinstance(term, Variable) and term.name in nulls.flags)
    ]


def _places(rule: Rule, resolve: Resolve) -> dict[Variable, list[tuple[str, int]]]:
    """Return, per variable of positive atoms, the columns it occurs in."""
    places: dict[Variable, list[tuple[str, int]]] = {}
    for atom in rule.atoms:
        for column, argument in enumerate(atom.terms):
            term = resolve(argument)
            if isinstance(term, Variable):
                places.setdefault(term, []).append((atom.relation, column))
    return places


def _uses(rule: Rule, resolve: Resolve, kept_column: int | None) -> tuple[set[Variable], set[Variable]]:
    """Return the variables whose values are needed, and those that occur once in the body."""
    valued: list[Expression] = []
    for computed in rule.computed:
        valued += [] if computed.call.takes_nulls else computed.call.arguments
    valued += [
        term
        for comparison in rule.comparisons
        if not comparison.is_null_test
        for term in (comparison.left, comparison.right)
    ]
    if kept_column is not None:
        valued.append(rule.head.terms[kept_column])
    strict = {term for term in map(resolve, valued) if isinstance(term, Variable)}
    count: dict[Variable, int] = {}
    for argument in (term for atom in (*rule.atoms, *rule.negated) for term in atom.terms):
        term = resolve(argument)
        if isinstance(term, Variable):
            count[term] = count.get(term, 0) + 1
    return strict, {variable for variable, uses in count.items() if uses == 1 and variable not in strict}


def _tests(rule: Rule, requirement: Mapping[Variable, bool]) -> Iterator[tuple[Expression, bool]]:
    """Yield what is tested for null, and the required result."""
    for comparison in rule.comparisons:
        if comparison.is_null_test:
            yield (comparison.right if comparison.left == NULL else comparison.left), comparison.op == "="
    yield from requirement.items()


# Calculations of rules on codes: types of arguments and results, encoded constants.


class EncodeValue(Protocol):
    """Encoder of constants in a column of a type."""

    def __call__(self, kind: DataType | None, value: object, op: str = "", /) -> int:
        """Return the code; with `op`, a code that gives the same comparison."""
        ...


BindGroups = Callable[[GroupFunctions, tuple[DataType, ...], tuple[DataType | None, ...]], BoundGroups]


@dataclass(frozen=True)
class Kinds:
    """Types of variables and of columns.

    Attributes
    ----------
    of
        Map a rule to the known types of its variables, by name.
    encode
        Map (type, value) to the code of the value; see `EncodeValue`.
    column
        Map (relation, column) to the type of the column.
    signed
        Map a rule to the names of its variables that keep the sign of a zero.
    bind
        Map a function to the same function within the program; None if there are none.
    bind_groups
        Map functions of groups, the types of the rows and those of the results, which may be unknown, to the same
        within the program; None if there are none.
    """

    of: Callable[[Rule], Mapping[str, DataType | None]]
    encode: EncodeValue
    column: Callable[[str, int], DataType | None]
    signed: Callable[[Rule], Collection[str]] = lambda _: ()
    bind: Callable[[TypedFunction], PythonFunction] | None = None
    bind_groups: BindGroups | None = None


def _whole_number(kind: DataType | None, value: object, op: str = "", /) -> int:  # noqa: ARG001  # as it is called
    assert isinstance(value, int)
    return int(value)


INTEGERS = Kinds(lambda _: {}, _whole_number, lambda _, __: None)
"""Types of a program in which every column is an integer."""


def calculation_of(
    computed: Computed,
    terms: Sequence[Term],
    types: Mapping[str, DataType | None],
    kinds: Kinds,
    equated: Collection[str | int],
    signed: Collection[str] = (),
) -> Calculation:
    """Return a calculation on codes.

    Parameters
    ----------
    terms
        Terms that the call's arguments resolve to.
    types
        Types of variables, by name.
    equated
        The names of variables that the rule compares by ``=`` with uncalculated variables.
    signed
        The names of variables that keep the sign of a zero.
    """
    name, call = computed.variable.name, computed.call
    arguments: list[str | int] = []
    of_arguments: list[DataType] = []
    result = types.get(name) or INT64
    for term in terms:
        if isinstance(term, Variable):
            kind = types.get(term.name) or INT64
            arguments.append(term.name)
        else:
            kind = _kind_of_constant(term.value, result)
            arguments.append(kinds.encode(kind, term.value))
        of_arguments.append(kind)
    drops = name in equated and result.family == "integer" and call.op in ("+", "-", "*")
    families = tuple(kind.family for kind in of_arguments)
    return Calculation(
        name,
        call.op,
        tuple(arguments),
        families,
        result.family,
        drops,
        scales=tuple(map(_scale_of, of_arguments)) if "decimal" in (*families, result.family) else (),
        scale=_scale_of(result),
        max_code=result.code_range[1] if result.family == "decimal" else 0,
        per_day=of_arguments[0].per_day if call.op in ("year", "month", "day") else 1,
        keeps_zero_sign=name in signed,
    )


def formula_of(
    computed: Computed,
    resolve: Resolve,
    nulls: Nulls,
    types: Mapping[str, DataType | None],
    kinds: Kinds,
    signed: Collection[str] = (),
) -> list[Calculation]:
    """Return a calculation that may be null, on codes, and that of its null flag if needed.

    Parameters
    ----------
    resolve
        Map a variable of the call to its term; null where the rule requires null.
    signed
        The names of variables that keep the sign of a zero.
    """
    name = computed.variable.name
    translation = _Translation(resolve, nulls, types, kinds)
    result = types.get(name) or INT64
    formula = translation.scaled(computed.call, result)
    arguments = tuple(translation.arguments)
    made = Calculation(
        name, "formula", arguments, ("integer",) * len(arguments), result.family, formula=formula, text=computed.call,
        keeps_zero_sign=name in signed,
    )  # fmt: skip
    flag = nulls.flags.get(name) or nulls.dropped.get(name)
    return [made] if flag is None else [made, replace(made, variable=flag, op="flag", family="integer")]


class _Translation:
    """Translate expressions to formulas over arguments that are read once each."""

    def __init__(self, resolve: Resolve, nulls: Nulls, types: Mapping[str, DataType | None], kinds: Kinds) -> None:
        self.resolve = resolve
        self.nulls = nulls
        self.types = types
        self.kinds = kinds
        self.arguments: dict[str, int] = {}
        self._of_calls: dict[int, tuple[Expression, DataType | None]] = {}  # by id(), as a hash reads the whole call

    def term(self, expression: Expression) -> Expression:
        """Return the expression, or the term that a variable resolves to."""
        return expression if isinstance(expression, Call) else self.resolve(expression)

    def kind(self, expression: Expression) -> DataType | None:
        """Return the type of an expression; None if it takes the type of its context."""
        if is_spelled(expression):
            return None
        if isinstance(expression, Variable):
            term = self.resolve(expression)
            return self.types.get(expression.name) if term != NULL else None
        return self._of_value(expression)

    def _of_value(self, value: Expression) -> DataType | None:
        """Return the type of a value, by the types of its variables; that of a call is cached."""
        if isinstance(value, Variable):
            return self.types.get(value.name) or INT64
        if not isinstance(value, Call):
            return None
        cached = self._of_calls.get(id(value))
        if cached is None:
            cached = value, result_of(value, list(map(self._of_value, value.arguments)), "")
            self._of_calls[id(value)] = cached
        return cached[1]

    def known_kind(self, expression: Expression) -> DataType:
        """Return the type of an expression without context."""
        if is_spelled(expression):
            return STRING
        of_variable = self.types.get(expression.name) if isinstance(expression, Variable) else None
        return self.kind(expression) or of_variable or INT64  # a variable may resolve to a constant or null

    def formula(self, expression: Expression, expected: DataType, op: str = "") -> Formula:
        """Return the formula of an expression; constants are encoded in the expected type for `op`."""
        term = self.term(expression)
        if isinstance(term, Constant):
            code = None if term == NULL else self.kinds.encode(expected, term.value, op)
            return Formula("constant", code=code)
        if isinstance(term, Variable):
            flag = self.nulls.flags.get(term.name)
            return Formula(
                "column", place=self._place(term.name), flag=-1 if flag is None else self._place(flag)
            )  # fmt: skip
        assert isinstance(term, Call)
        if term.op in COMPARING:
            return self._compared(term)
        if term.op == "among":
            return self._among(term)
        if term.op in ("all", "any", "istrue"):
            return Formula(term.op, tuple(self.formula(argument, BOOL) for argument in term.arguments))
        if term.op == "isnull":
            (value,) = term.arguments
            return Formula(term.op, (self.formula(value, self.known_kind(value)),))
        if term.op == "case":
            n_paired = len(term.arguments) // 2 * 2
            return Formula("case", tuple(
                self.formula(argument, BOOL) if i % 2 == 0 and i < n_paired else self.scaled(argument, expected)
                for i, argument in enumerate(term.arguments)
            ))  # fmt: skip
        if term.op == "cat" and len(term.arguments) > 2:
            first = Call("cat", term.arguments[:2])
            return self.formula(Call("cat", (first, *term.arguments[2:])), expected)
        return self._calculated(term) if term.function is None else self._called(term, term.function)

    def _place(self, name: str) -> int:
        return self.arguments.setdefault(name, len(self.arguments))

    def _calculated(self, call: Call) -> Formula:
        """Return the formula of a calculation whose arguments are not null where it is evaluated."""
        result = self.kind(call) or INT64
        names = [Variable(f"#{i}") for i in range(len(call.arguments))]
        types: dict[str, DataType | None] = {"#": result}
        terms: list[Term] = []
        parts = []
        for name, argument in zip(names, call.arguments, strict=True):
            term = self.term(argument)
            if term == NULL:
                return Formula("constant")
            if isinstance(term, Constant):
                terms.append(term)
                kind = _kind_of_constant(term.value, result)
            else:
                terms.append(name)
                kind = types[name.name] = self.known_kind(argument)
            parts.append(self.formula(argument, kind))
        made = calculation_of(Computed(Variable("#"), call), terms, types, self.kinds, (), ("#",))
        return Formula("call", tuple(parts), calculation=made)

    def _called(self, call: Call, function: TypedFunction) -> Formula:
        """Return the formula of a call of a function."""
        kinds = [
            parameter if isinstance(self.term(argument), Constant) else self.kind(argument) or parameter
            for argument, parameter in zip(call.arguments, function.parameters, strict=True)
        ]
        parts = tuple(self.formula(argument, kind) for argument, kind in zip(call.arguments, kinds, strict=True))
        if isinstance(function, SqlFunction):
            function = replace(function, parameters=tuple(kinds))
        assert self.kinds.bind is not None
        made = Calculation(
            "#", call.op, tuple(f"#{i}" for i in range(len(parts))), tuple(kind.family for kind in kinds),
            function.returns.family, function=self.kinds.bind(function), kinds=tuple(kinds),
        )  # fmt: skip
        return Formula("call", parts, calculation=made)

    def _compared(self, call: Call) -> Formula:
        left, right = call.arguments
        if NULL in (self.term(left), self.term(right)):
            return Formula("constant")
        op = COMPARING[call.op]
        kinds = [self.kind(left), self.kind(right)]
        known = left if is_spelled(left) or isinstance(left, Variable) else right
        common = _common(kinds) if any(kinds) else self.known_kind(known)
        family = common.dictionary if op not in ("=", "!=") else ""
        parts = []
        for side, mirrored in ((left, MIRRORED[op]), (right, op)):
            is_constant = isinstance(self.term(side), Constant) or is_spelled(side)
            part = self.formula(side, common, mirrored) if is_constant else self.scaled(side, common, "scale")
            parts.append(_with_one_zero(part, common))
        return Formula(op, tuple(parts), family=family)

    def _among(self, call: Call) -> Formula:
        value, *listed = call.arguments
        terms = [self.term(value) for value in listed]
        constants = [term for term in terms if isinstance(term, Constant)]
        if len(constants) < len(terms) or isinstance(self.term(value), Constant):
            return self.formula(Call("any", tuple(Call("eq", (value, choice)) for choice in listed)), BOOL)
        kind = self.known_kind(value)
        codes = [self.kinds.encode(kind, constant.value, "=") for constant in constants if constant != NULL]
        if kind.family.startswith("float"):
            codes = without_zero_signs(np.array(codes, np.int64)).tolist()
        part = _with_one_zero(self.formula(value, kind), kind)
        return Formula("among", (part,), codes=tuple(sorted(set(codes))), has_null=NULL in constants)

    def scaled(self, expression: Expression, expected: DataType, op: str = "+") -> Formula:
        """Return the formula of an expression in the scale or unit of the expected type.

        A value that int64 does not hold there has no result; with `op` ``scale`` it is the largest or smallest one.
        """
        formula = self.formula(expression, expected)
        term = self.term(expression)
        kind = None if isinstance(term, Constant) else self.kind(expression)
        if kind is None or expected.scale is None or _scale_of(kind) == _scale_of(expected):
            return formula
        if isinstance(term, Call) and term.op == "case":  # whose values are in this scale
            return formula
        parts = (formula,) if op == "scale" else (formula, Formula("constant", code=0))
        made = Calculation(
            "#", op, ("#0", "#1")[: len(parts)], (kind.family, "integer")[: len(parts)], "decimal",
            scales=(_scale_of(kind), 0)[: len(parts)], scale=_scale_of(expected),
            max_code=expected.code_range[1] if op != "scale" else _MOST,
        )  # fmt: skip
        return Formula("call", parts, calculation=made)


def _with_one_zero(part: Formula, kind: DataType) -> Formula:
    """Return the operand of a comparison with -0.0 replaced by 0.0."""
    if not kind.family.startswith("float") or part.op == "column":
        return part
    if part.op == "constant":
        return part if part.code is None else replace(part, code=int(without_zero_signs(np.array([part.code]))[0]))
    return Formula("call", (part,), calculation=Calculation("#", "double", ("#0",), (kind.family,), kind.family))


def _common(kinds: Sequence[DataType | None]) -> DataType:
    """Return the type in which two values are compared."""
    typed = [kind for kind in kinds if kind is not None]
    if len(typed) < 2:
        return typed[0] if typed else INT64
    return max(typed, key=_scale_of)


def comparable(
    left: str, right: str, types: Mapping[str, DataType | None], calculations: list[Calculation]
) -> tuple[str, str]:
    """Return the names of two operands, the coarser decimal or time in the scale of the finer.

    Examples
    --------
    >>> types = {"x": DataType("decimal128(5, 2)"), "y": INT64}
    >>> more = []
    >>> comparable("x", "y", types, more), *map(str, more)
    (('x', 'y*10^2'), 'y*10^2 = scale(y)')
    """
    kinds = [types.get(left) or INT64, types.get(right) or INT64]
    scales = list(map(_scale_of, kinds))
    names = [left, right]
    finest = max(scales)
    for i, (scale, kind) in enumerate(zip(scales, kinds, strict=True)):
        if scale == finest:
            continue
        finer = f"{names[i]}*10^{finest - scale}"
        if all(calculation.variable != finer for calculation in calculations):
            calculations.append(
                Calculation(
                    finer,
                    "scale",
                    (names[i],),
                    (kind.family,),
                    "decimal",
                    scales=(scale,),
                    scale=finest,
                    max_code=_MOST,
                )
            )
        names[i] = finer
    return names[0], names[1]


_MOST = (1 << 63) - 1
"""Largest int64 code."""


def _scale_of(kind: DataType) -> int:
    return kind.scale or 0


def _kind_of_constant(value: object, result: DataType) -> DataType:
    """Return the type of a constant; a number takes the result's type if that is a float."""
    if isinstance(value, str):
        return DataType("string")
    if result.family.startswith("float"):
        return result
    if isinstance(value, (float, Decimal)):
        return decimal_kind(value) if result.family == "decimal" else DataType("double")
    return INT64


Encode = Callable[[str, int, object], int]
"""Map (relation, column, value) to the code of the value in that column's type."""


@dataclass(frozen=True)
class Shape:
    """Stored columns of a relation: its own columns, then a flag column per nullable column."""

    relation: str
    nullable: tuple[bool, ...]
    textual: tuple[str, ...] = ()
    """Per column, the dictionary's family for text and bytes, else an empty string; empty if there is none."""

    @property
    def width(self) -> int:
        """Number of stored columns."""
        return len(self.nullable) + sum(self.nullable)

    def flag(self, column: int) -> int | None:
        """Return the stored column of a column's null flags, or None."""
        return len(self.nullable) + sum(self.nullable[:column]) if self.nullable[column] else None

    def family(self, column: int) -> str:
        """Return the dictionary's family of a column, or an empty string."""
        return self.textual[column] if self.textual else ""


class BodyAtom(NamedTuple):
    """Atom over stored columns with distinct variables."""

    relation: str
    columns: tuple[int, ...]
    variables: tuple[str, ...]
    constants: tuple[tuple[int, int], ...] = ()
    equal: tuple[tuple[int, int], ...] = ()
    compared: tuple[ComparedColumns, ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.relation}({', '.join(self.variables)})"]
        parts += [f"#{column} = {code}" for column, code in self.constants]
        parts += [f"#{left} = #{right}" for left, right in self.equal]
        return " where ".join(parts) if len(parts) < 3 else f"{parts[0]} where {', '.join(parts[1:])}"


@dataclass(frozen=True)
class Body:
    """A normalised rule.

    Attributes
    ----------
    head
        Per stored column of the head, a variable or a code.
    never
        True if it derives nothing: a comparison of constants fails, or a column without null has to be null.
    negated
        Negated atoms.
    calculations
        Calculations, each after those that it uses.
    """

    rule: Rule
    head: tuple[str | int, ...]
    atoms: tuple[BodyAtom, ...]
    conditions: tuple[Condition, ...]
    never: bool = False
    negated: tuple[BodyAtom, ...] = ()
    calculations: tuple[Calculation, ...] = ()

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Variables of the positive atoms, in order of first occurrence."""
        return tuple(dict.fromkeys(name for atom in self.atoms for name in atom.variables))

    def atom(self, atom_index: int) -> BodyAtom:
        """Return an atom; negated atoms are numbered from ``-len(negated)`` to -1."""
        return self.atoms[atom_index] if atom_index >= 0 else self.negated[atom_index]

    @property
    def keeps_all(self) -> bool:
        """True if the head keeps every variable, so that distinct bindings give distinct rows."""
        return set(self.variables) <= set(self.head)


@dataclass(frozen=True)
class Alias:
    """Head that only renames or selects from another relation.

    Attributes
    ----------
    columns
        Column i of the head is column ``columns[i]`` of the relation.
    compared
        Comparisons that its rows satisfy: (column, operator, column or None, constant or None) of the relation.
    """

    relation: str
    columns: tuple[int, ...]
    compared: tuple[tuple[int, str, int | None, Constant | None], ...] = ()


def normalise(
    rule: Rule,
    shapes: Mapping[str, Shape],
    aliases: Mapping[str, Alias],
    encode: Encode,
    kinds: Kinds = INTEGERS,
    kept_column: int | None = None,
    requirement: Mapping[Variable, bool] | None = None,
) -> Body:
    """Return the rule over stored columns; see the module's text.

    Parameters
    ----------
    kept_column
        The column of the head whose best value is kept: a variable there excludes nulls.
    requirement
        Variables that have to be null or not null; the bodies of all `cases` form the rule.
    """
    never = Body(rule, (), (), (), never=True)
    resolved = resolver(rule)
    if resolved is None:
        return never
    nullable = {name: shape.nullable for name, shape in shapes.items()}
    nulls = nulls_of(rule, resolved, nullable, kept_column, requirement)
    if nulls is None:
        return never

    def resolve(term: Expression) -> Term:
        return nulls.term(resolved(term))

    homes: dict[str, tuple[str, int]] = {}
    atoms = [
        through_aliases(
            _body_atom(atom_index, atom, shapes, resolve, nulls, homes, encode, kinds), aliases, shapes, encode, kinds
        )
        for atom_index, atom in enumerate(rule.atoms)
    ]
    absent = [atom for atom in rule.negated if not never_holds(atom, resolve, nullable)]
    negated = [
        through_aliases(
            _body_atom(atom_index - len(absent), atom, shapes, resolve, nulls, {}, encode, kinds),
            aliases,
            shapes,
            encode,
            kinds,
        )
        for atom_index, atom in enumerate(absent)
    ]
    if not all(map(_can_hold, atoms)):
        return never
    types = kinds.of(rule) if rule.comparisons or rule.computed else {}
    calculated = {computed.variable.name for computed in rule.computed}
    conditions: list[Condition] = []
    rescaled: list[Calculation] = []
    for comparison in rule.comparisons:
        if comparison.is_null_test:
            continue
        left, right = resolve(comparison.left), resolve(comparison.right)
        op = comparison.op
        if isinstance(left, Constant) and isinstance(right, Constant):
            if not COMPARE[op](left.value, right.value):
                return never
            continue
        if left == right:
            if op in ("!=", "<", ">"):
                return never
            continue
        if isinstance(left, Constant):
            left, right, op = right, left, MIRRORED[op]
        assert isinstance(left, Variable)
        home, kind = homes.get(left.name), types.get(left.name)
        if home is not None:
            family = shapes[home[0]].family(home[1])
        else:
            family = "" if kind is None else kind.dictionary
        name = left.name
        operand: str | int
        if isinstance(right, Variable):
            name, operand = comparable(name, right.name, types, rescaled)
        else:
            operand = kinds.encode(kind, right.value, op) if home is None else _code(encode, *home, right, kinds, op)
        ordered = op not in ("=", "!=")
        conditions.append(Condition(name, op, operand, textual=bool(family) and ordered, family=family))
    conditions += [Condition(flag, "=", 0) for flag in nulls.dropped.values()]
    calculations = []
    signed = kinds.signed(rule) if rule.computed else ()
    equated = {
        name
        for condition in conditions
        if condition.op == "=" and not {condition.variable, condition.operand}.issubset(calculated)
        for name in (condition.variable, condition.operand)
    }
    for computed in rule.computed:
        if computed.call.may_be_null:
            calculations += formula_of(computed, resolve, nulls, types, kinds, signed)
            continue
        terms = [resolve(argument) for argument in computed.call.arguments]
        calculations.append(calculation_of(computed, terms, types, kinds, equated, signed))
    return Body(
        rule,
        _head(rule, shapes, resolve, nulls, encode),
        tuple(atoms),
        tuple(conditions),
        negated=tuple(filter(_can_hold, negated)),
        calculations=(*calculations, *rescaled),
    )


def _body_atom(
    atom_index: int,
    atom: Atom,
    shapes: Mapping[str, Shape],
    resolve: Resolve,
    nulls: Nulls,
    homes: dict[str, tuple[str, int]],
    encode: Encode,
    kinds: Kinds,
) -> BodyAtom:
    shape = shapes[atom.relation]
    columns: list[int] = []
    variables: list[str] = []
    constants: list[tuple[int, int]] = []
    equal: list[tuple[int, int]] = []
    for column, argument in enumerate(atom.terms):
        term = resolve(argument)
        flag = shape.flag(column)
        if isinstance(term, Constant):
            code = _code(encode, atom.relation, column, term, kinds, "=")
            constants.append((column, code))
            if code == NO_DECIMAL and _is_scaled(kinds.column(atom.relation, column), term):
                constants.append((column, 0))  # two values, which no row has
            if flag is not None:
                constants.append((flag, int(term == NULL)))
            continue
        mark = nulls.flags.get(term.name)
        if term.name in variables:
            equal.append((columns[variables.index(term.name)], column))
        else:
            columns.append(column)
            variables.append(term.name)
            homes.setdefault(term.name, (atom.relation, column))
        if flag is None:
            assert mark is None, f"'{term}' may be null in '{atom}'"
        elif mark is None:
            constants.append((flag, 0))
        elif mark in variables:
            equal.append((columns[variables.index(mark)], flag))
        else:
            columns.append(flag)
            variables.append(mark)
    if not variables:
        columns.append(0)
        variables.append(f"atom#{atom_index}")
    return BodyAtom(atom.relation, tuple(columns), tuple(variables), tuple(constants), tuple(equal))


def _code(encode: Encode, relation: str, column: int, constant: Constant, kinds: Kinds = INTEGERS, op: str = "") -> int:
    """Return the code of a constant in a column, optionally as an operand of `op`; 0 for null."""
    if constant == NULL:
        return 0
    kind = kinds.column(relation, column)
    return (
        kinds.encode(kind, constant.value, op)
        if _is_scaled(kind, constant)
        else encode(relation, column, constant.value)
    )


def _is_scaled(kind: DataType | None, constant: Constant) -> bool:
    """Return True if a constant may have more digits, or a finer time, than values of a type."""
    return kind is not None and (kind.family in ("decimal", "date", "timestamp") or isinstance(constant.value, Decimal))


def _can_hold(atom: BodyAtom) -> bool:
    """Return True unless constants require two values of one column."""
    return not atom.constants or len({column for column, _ in atom.constants}) == len(set(atom.constants))


def _head(
    rule: Rule,
    shapes: Mapping[str, Shape],
    resolve: Resolve,
    nulls: Nulls,
    encode: Encode,
) -> tuple[str | int, ...]:
    shape = shapes[rule.head.relation]
    codes: list[str | int] = []
    marks: list[str | int] = []
    for column, argument in enumerate(rule.head.terms):
        term = resolve(argument)
        if isinstance(term, Variable):
            codes.append(term.name)
        else:
            codes.append(_code(encode, rule.head.relation, column, term))
        if shape.nullable[column]:
            marks.append(nulls.flags.get(term.name, 0) if isinstance(term, Variable) else int(term == NULL))
    return (*codes, *marks)


def through_aliases(
    atom: BodyAtom,
    aliases: Mapping[str, Alias],
    shapes: Mapping[str, Shape],
    encode: Encode,
    kinds: Kinds = INTEGERS,
) -> BodyAtom:
    """Return the atom over the relation that its own relation is an alias of."""
    while atom.relation in aliases:
        alias = aliases[atom.relation]
        above, below = shapes[atom.relation], shapes[alias.relation]
        place = dict(enumerate(alias.columns))
        for column, source in enumerate(alias.columns):
            flag, source_flag = above.flag(column), below.flag(source)
            if flag is not None and source_flag is not None:
                place[flag] = source_flag
        compared: list[ComparedColumns] = [
            (place[column], op, None if other is None else place[other], code)
            for column, op, other, code in atom.compared
        ]
        non_null: set[tuple[int, int]] = set()
        for column, op, other, constant in alias.compared:
            if constant != NULL:
                code = None if constant is None else _code(encode, alias.relation, column, constant, kinds, op)
                compared.append((column, op, other, code))
            flags = [below.flag(compared_column) for compared_column in (column, other) if compared_column is not None]
            non_null |= {(flag, 0) for flag in flags if flag is not None}
        constants = {(place[column], code) for column, code in atom.constants}
        atom = BodyAtom(
            alias.relation,
            tuple(place[column] for column in atom.columns),
            atom.variables,
            tuple(sorted(constants | non_null)),
            tuple(sorted((place[left], place[right]) for left, right in atom.equal)),
            tuple(dict.fromkeys(compared)),
        )
    return atom


def alias_of(rule: Rule, textual: Callable[[str, int], bool]) -> Alias | None:
    """Return the relation that the rule only renames or selects from, or None.

    Comparisons of order on text are not selections, since ranks change; `textual` returns True for text columns.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> alias_of(parse("e(b, a) :- edge(a, b).").rules[0], lambda relation, column: False)
    Alias(relation='edge', columns=(1, 0), compared=())
    """
    if len(rule.atoms) != 1 or rule.negated or rule.computed:
        return None
    terms = rule.atoms[0].terms
    names = [term for term in terms if isinstance(term, Variable)]
    if len(names) != len(terms) or len(set(names)) != len(names):
        return None
    if len(rule.head.terms) != len(terms) or set(rule.head.terms) != set(terms):
        return None
    relation = rule.atoms[0].relation
    compared: list[tuple[int, str, int | None, Constant | None]] = []
    for comparison in rule.comparisons:
        left, right, op = comparison.left, comparison.right, comparison.op
        if isinstance(left, Constant):
            left, right, op = right, left, MIRRORED[op]
        if op == "=" or isinstance(left, Constant) or left == right:
            return None
        column = terms.index(left)
        if op != "!=" and textual(relation, column):
            return None
        other = None if isinstance(right, Constant) else terms.index(right)
        compared.append((column, op, other, right if isinstance(right, Constant) else None))
    return Alias(relation, tuple(terms.index(term) for term in rule.head.terms), tuple(compared))


# Sums and differences of integers, solved for one of their arguments.


def solvable(calculation: Calculation) -> Iterator[str]:
    """Yield the arguments of an integer sum or difference, which it can be solved for."""
    if calculation.family == "integer" and calculation.op in ("+", "-"):
        for argument in calculation.arguments:
            if isinstance(argument, str) and calculation.arguments.count(argument) == 1:
                yield argument


def inverse_of(body: Body, name: str, bound: Collection[str]) -> Calculation | None:
    """Return the calculation that solves an integer sum or difference for a variable, or None.

    The result and the other argument have to be bound.
    """
    for calculation in body.calculations:
        if name not in solvable(calculation):
            continue
        operands = [argument for argument in calculation.arguments if argument != name]
        result = (
            calculation.variable
            if calculation.variable in bound
            else _equal_to(calculation.variable, body.conditions, bound)
        )
        if result is None or not all(isinstance(argument, int) or argument in bound for argument in operands):
            continue
        if calculation.op == "-" and calculation.arguments[0] == name and operands:
            op, arguments = "+", (result, *operands)
        elif calculation.op == "-":
            op, arguments = "-", (*operands, result)
        else:
            op, arguments = "-", (result, *operands)
        families = ("integer",) * len(arguments)
        return Calculation(f"{name}~", op, arguments, families, "integer", is_inverse=True)
    return None


def _equal_to(name: str, conditions: Sequence[Condition], bound: Collection[str]) -> str | int | None:
    """Return a bound variable or code that conditions equate with a variable, or None."""
    for condition in conditions:
        if condition.op == "=" and name in (condition.variable, condition.operand):
            operand = condition.operand if condition.variable == name else condition.variable
            if isinstance(operand, int) or operand in bound:
                return operand
    return None
