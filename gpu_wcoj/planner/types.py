"""Type inference of columns, by equality classes and the types of inputs and declarations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from gpu_wcoj.arrow.constants import encode_constant
from gpu_wcoj.data.schema import FULL, FULL_UINT64, INT64, MAX_DIGITS, DataType, decimal_of, digits_of, integer_of
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.query.constant_folding import is_spelled
from gpu_wcoj.query.ir import (
    CHECKED,
    COMPARING,
    NULL,
    NULL_AWARE,
    Call,
    Computed,
    ComputedGroups,
    Constant,
    Expression,
    FirstRows,
    Grouping,
    Rule,
    Rules,
    Span,
    Variable,
    plain,
    unique_names,
)
from gpu_wcoj.query.safety import describe_column, describe_place, served_relation
from gpu_wcoj.query.stratify import loops_of
from gpu_wcoj.user_functions import Function, TypedFunction, takes

# Types of calculations and aggregates, from the types of their arguments.


BOOL = DataType("bool")
DOUBLE = DataType("double")
STRING = DataType("string")

_NUMBERS = "Numbers are integers, decimals or floats; cast the column, or declare it as int64 or double."
_WIDE = (
    "Rules compare, group and sort numbers of more than 18 digits, and calculate with smaller ones. Declare the column "
    "as decimal(18, ...) or double, or cast it before you pass it."
)
_NUMBER_FAMILIES = ("integer", "decimal", "float32", "float64")
_OF_TEXT = {
    **dict.fromkeys(("cat", "substr", "lower", "upper", "downcase", "upcase"), STRING), "strlen": INT64,
    **dict.fromkeys(("like", "match", "contains"), BOOL),
}  # fmt: skip
_OF_TIME = ("year", "month", "day")
_WRITTEN_AS_TEXT = ("string", "date", "timestamp", "zoned", "time", "duration", "uuid", "enum")
"""Families whose constants are texts."""


def kind_of(
    expression: Expression,
    kinds: Callable[[Variable], DataType | None],
    rule: object = "",
    is_last: bool = True,
) -> DataType | None:
    """Return the type of an expression by those of its variables; None if unknown or constant.

    Examples
    --------
    >>> x = Variable("x")
    >>> kind_of(Call("case", (Call("gt", (x, Constant(1))), Call("double", (x,)))), lambda _: INT64).name
    'double'
    """
    if isinstance(expression, Variable):
        return kinds(expression)
    if not isinstance(expression, Call):
        return None
    of_arguments = [kind_of(argument, kinds, rule, is_last) for argument in expression.arguments]
    return result_of(expression, of_arguments, rule, is_last)


def result_of(call: Call, kinds: Sequence[DataType | None], rule: object, is_last: bool = True) -> DataType | None:
    """Return the type of a call by those of its arguments; None while unknown.

    Parameters
    ----------
    kinds
        Per argument, the type of a variable, or None if unknown; types of constants are ignored.
    rule
        Rule that messages name; only they convert it to text.
    is_last
        If True, arguments of unknown type adapt to the other arguments; otherwise the result is None unless it holds
        for any type of these arguments.

    Raises
    ------
    TypeMismatchError
        If the operation does not take such arguments.

    Examples
    --------
    >>> from gpu_wcoj.query.ir import Variable
    >>> x, y = Variable("x"), Variable("y")
    >>> result_of(Call("+", (x, y)), [None, DataType("int32")], "").name
    'int64'
    >>> result_of(Call("*", (x, Constant(2))), [DataType("double"), None], "").name
    'double'
    >>> result_of(Call("*", (x, y)), [DataType("decimal128(9, 2)"), DataType("decimal128(4, 1)")], "").name
    'decimal128(13, 3)'
    """
    if call.function is not None:
        _check_parameters(call, call.function, kinds, rule)
        return call.function.returns
    if call.op in NULL_AWARE:
        return _null_aware(call, kinds, rule, is_last)
    if call.op in _OF_TEXT:
        _check_text(call, kinds, rule)
        return _OF_TEXT[call.op]
    if call.op in _OF_TIME:
        _check_time(call, kinds, rule)
        return INT64
    types = _numbers(call, kinds, rule)
    if call.op == "double":
        return DOUBLE
    if len(types) < len(call.arguments) and not is_last:
        return None
    families = {kind.family for kind in types}
    if families & {"float32", "float64"}:
        return DOUBLE
    if "decimal" in families:
        return _decimal_of(call, types, rule) if len(types) == len(call.arguments) else None
    return INT64 if types else None


def _in(rule: object) -> str:
    """Return the words in a message that name a rule; none for the empty text."""
    return f" in '{text}'" if (text := str(rule)) else ""


def _check_parameters(call: Call, function: TypedFunction, kinds: Sequence[DataType | None], rule: object) -> None:
    """Raise for an argument of a Python function that is not of the declared type."""
    if not isinstance(function, Function):  # the types of an SQL expression are those of the columns
        return
    for argument, kind, parameter in zip(call.arguments, kinds, function.parameters, strict=True):
        if isinstance(argument, Constant):
            is_wrong = argument != NULL and not fits(argument.value, parameter)
            shown = "a constant of another type"
        elif kind is None or is_spelled(argument):
            continue
        else:
            is_wrong, shown = not takes(parameter, kind), f"of type '{kind}'"
        if is_wrong:
            raise TypeMismatchError.with_parts(
                f"the function '{function.name}' takes '{parameter}', and '{argument}'{_in(rule)} is {shown}",
                subject=str(argument),
                got=argument.value if isinstance(argument, Constant) else shown,
                remedy=f"Cast the column, or declare the function otherwise; it is {function.signature}.",
            )


def _null_aware(call: Call, kinds: Sequence[DataType | None], rule: object, is_last: bool) -> DataType | None:
    """Return the type of a call of three-valued logic; its operands have to be of one type."""
    pairs = list(zip(call.arguments, kinds, strict=True))
    if call.op in COMPARING or call.op == "among":
        _ = _together(call, pairs, rule)
        return BOOL
    if call.op == "isnull":
        return BOOL
    if call.op != "case":
        _check_conditions(call, pairs, rule)
        return BOOL
    _check_conditions(call, pairs[: len(pairs) // 2 * 2 : 2], rule)
    values = [*pairs[1::2], *(pairs[-1:] if len(pairs) % 2 else ())]
    is_open = any(kind is None and not isinstance(value, Constant) for value, kind in values)
    if is_open and not (is_last and any(kind is not None for _, kind in values)):
        return None
    return _together(call, values, rule)


def _check_conditions(call: Call, pairs: Sequence[tuple[Expression, DataType | None]], rule: object) -> None:
    for condition, kind in pairs:
        is_wrong = (
            condition.value not in (None, True, False) if isinstance(condition, Constant) else kind not in (None, BOOL)
        )
        if is_wrong or (isinstance(condition, Constant) and type(condition.value) in (int, float)):
            description = "a constant" if kind is None else f"of type '{kind}'"
            raise TypeMismatchError.with_parts(
                f"'{condition}'{_in(rule)} is {description}, and '{call.op}' takes conditions",
                subject=str(condition),
                expected="a condition",
                remedy="Compare it with a value.",
            )


def _together(call: Call, pairs: Sequence[tuple[Expression, DataType | None]], rule: object) -> DataType | None:
    """Return the common type of values compared with each other; constants adapt to it."""
    common: DataType | None = None
    for expression, kind in pairs:
        if kind is None or is_spelled(expression):
            continue
        if common is None or common.family == kind.family:
            common = kind if common is None else common.common(kind, is_computed=True)
        elif {common.family, kind.family} == {"integer", "decimal"} and call.op != "case":
            common = kind if kind.family == "decimal" else common
        elif {common.family, kind.family} in ({"wide", "integer"}, {"wide", "decimal"}):  # refused below
            common = kind if kind.family == "wide" else common
        else:
            raise TypeMismatchError.with_parts(
                f"'{call.op}'{_in(rule)} has '{expression}' of type '{kind}' beside a value of type '{common}'",
                subject=str(expression),
                got=kind.name,
                remedy="Cast a column, so that both are of one type.",
            )
    narrow = [kind for _, kind in pairs if kind is not None and kind.family in ("integer", "decimal")]
    if common is not None and common.family == "wide" and narrow:
        raise TypeMismatchError.with_parts(
            f"'{call.op}'{_in(rule)} has values of the types '{narrow[0]}' and '{common}'",
            subject=call.op,
            got=common.name,
            remedy=_WIDE,
        )
    constants = [value.value for value, _ in pairs if isinstance(value, Constant) and value.value is not None]
    constants += [constant for value, _ in pairs if isinstance(value, Call) and is_spelled(value) for constant in ("",)]
    if common is None:
        groups = {_group(type(value)) for value in constants}
        is_wrong = len(groups) > 1
    else:
        fitting = bool if common.family == "bool" else str if common.family in _WRITTEN_AS_TEXT else float
        is_wrong = any(_group(type(value)) is not fitting for value in constants)
    if is_wrong:
        beside = "" if common is None else f" beside a value of type '{common}'"
        raise TypeMismatchError.with_parts(
            f"'{call.op}'{_in(rule)} has the constants {', '.join(map(repr, constants[:5]))}{beside}",
            subject=call.op,
            got=tuple(constants),
            remedy="Write constants of one type.",
        )
    if call.op != "case":
        return common
    if common is None:
        return type_of_constants(constants) if constants else None
    if common.family == "decimal":
        for value in constants:
            exact = Decimal(value) if isinstance(value, int) else value
            assert isinstance(exact, (float, Decimal))
            common = common.common(decimal_kind(exact), is_computed=True)
    elif common.family == "wide":
        for value in constants:
            common = _holding(common, value)
    elif common.family == "integer" and any(isinstance(value, Decimal) for value in constants):
        return type_of_constants([*constants, 10 ** (MAX_DIGITS - max(map(_n_behind, constants))) - 1])
    elif common.family == "integer" and any(isinstance(value, float) for value in constants):
        raise TypeMismatchError.with_parts(
            f"'{call}'{_in(rule)} mixes an integer and a float",
            subject=str(call),
            remedy="Write double(...) around the integer.",
        )
    elif common.family == "integer" and constants:
        common = INT64
    return common


def _n_behind(value: object) -> int:
    """Return the number of digits after the decimal point."""
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _group(kind: type) -> type:
    """Return the Python type of a constant, float for all numbers."""
    return float if kind in (int, float, Decimal) else kind


def _numbers(call: Call, kinds: Sequence[DataType | None], rule: object) -> list[DataType]:
    """Return the known types of arguments; constants take the types of the other arguments."""
    of_variables: list[DataType] = []
    for argument, kind in zip(call.arguments, kinds, strict=True):
        if isinstance(argument, Constant):
            if type(argument.value) not in (int, float, Decimal):
                raise TypeMismatchError.with_parts(
                    f"'{argument}'{_in(rule)} is not a number, and '{call}' calculates with it",
                    subject=str(argument),
                    got=argument.value,
                    remedy="Write a number.",
                )
        elif kind is not None:
            if kind.family not in _NUMBER_FAMILIES:
                raise TypeMismatchError.with_parts(
                    f"'{argument}'{_in(rule)} is of type '{kind}', and '{call}' calculates with it",
                    subject=str(argument),
                    got=kind.name,
                    remedy=_WIDE if kind.family == "wide" else _NUMBERS,
                )
            of_variables.append(kind)
    is_float = [kind.family.startswith("float") for kind in of_variables]
    values = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
    is_fraction = any(isinstance(value, float) for value in values)
    if (any(is_float) and not all(is_float)) or (is_fraction and [kind.family for kind in of_variables] == ["integer"]):
        exact = "a decimal" if any(kind.family == "decimal" for kind in of_variables) else "an integer"
        raise TypeMismatchError.with_parts(
            f"'{call}'{_in(rule)} mixes {exact} and a float",
            subject=str(call),
            remedy="Give both columns one type: cast one of them, or declare it as int64 or double; or write "
            "double(...).",
        )
    if any(is_float):
        return [DOUBLE] * len(call.arguments) if len(of_variables) == len(kinds) - len(values) else [DOUBLE]
    if is_fraction and not of_variables:
        return [DOUBLE]
    return [*of_variables, *map(_kind_of_number, values)] if of_variables else []


def _kind_of_number(value: object) -> DataType:
    """Return the type of a constant beside integers and decimals, which keep their digits."""
    if isinstance(value, (float, Decimal)):
        return decimal_kind(value)
    assert isinstance(value, int)
    return integer_of(value)


def decimal_kind(value: float | Decimal) -> DataType:
    """Return the narrowest decimal type that holds a number, a float by its shortest text.

    Raises
    ------
    TypeMismatchError
        If it has more than 18 digits.

    Examples
    --------
    >>> decimal_kind(0.05).name, decimal_kind(Decimal("12.50")).name
    ('decimal128(2, 2)', 'decimal128(4, 2)')
    """
    precision, scale = digits_of(Decimal(repr(value)) if isinstance(value, float) else value)
    if precision > MAX_DIGITS:
        raise TypeMismatchError.with_parts(
            f"the constant {value} has {precision} digits, and decimals have at most {MAX_DIGITS}",
            subject="the constant",
            got=value,
            remedy="Write fewer digits, or calculate with doubles: double(x).",
        )
    return decimal_of(precision, scale)


def type_of_constant(value: object) -> DataType:
    """Return the default type of a constant; double for a decimal of too many digits.

    Examples
    --------
    >>> type_of_constant(True).name, type_of_constant("x").name
    ('bool', 'string')
    """
    if isinstance(value, bool):
        return BOOL
    if isinstance(value, str):
        return STRING
    if isinstance(value, Decimal):
        try:
            return decimal_kind(value)
        except TypeMismatchError:
            return DOUBLE
    return DOUBLE if isinstance(value, float) else INT64


def type_of_constants(values: Sequence[object]) -> DataType:
    """Return the default type of a column that holds these constants.

    Examples
    --------
    >>> type_of_constants([1, 0.5]).name, type_of_constants([Decimal("0.25"), 12]).name
    ('double', 'decimal128(4, 2)')
    """
    kinds = {type_of_constant(value) for value in values}
    families = {kind.family for kind in kinds}
    if len(kinds) == 1 or not families <= {"integer", "decimal", "float64"}:
        return type_of_constant(values[0])
    if "float64" in families:
        return DOUBLE
    scales = [kind.digits[1] for kind in kinds]
    wholes = [len(str(abs(int(value)))) for value in values if isinstance(value, (int, Decimal))]
    return decimal_of(max(wholes) + max(scales), max(scales)) if max(wholes) + max(scales) <= MAX_DIGITS else DOUBLE


def _decimal_of(call: Call, types: Sequence[DataType], rule: object) -> DataType:
    """Return the type of a decimal result: enough digits for all results, at most 18."""
    precisions, scales = zip(*(kind.digits for kind in types), strict=True)
    if CHECKED.get(call.op, call.op) == "/":
        instead = Call(call.op, tuple(Call("double", (argument,)) for argument in call.arguments))
        raise TypeMismatchError.with_parts(
            f"'{call}'{_in(rule)} divides decimals, which has no exact result",
            subject=str(call),
            remedy=f"Write {instead}.",
        )
    if call.op == "*":
        if sum(scales) > MAX_DIGITS:
            raise TypeMismatchError.with_parts(
                f"'{call}'{_in(rule)} has {sum(scales)} digits behind the point, and decimals have at most "
                f"{MAX_DIGITS} in all",
                subject=str(call),
                got=sum(scales),
                remedy="Calculate with doubles: double(x).",
            )
        return decimal_of(sum(precisions), sum(scales))
    scale = max(scales)
    n_integral = max(
        precision - scale_of_argument for precision, scale_of_argument in zip(precisions, scales, strict=True)
    )
    return decimal_of(n_integral + scale + (call.op in "+-" and len(types) > 1), scale)


def _check_text(call: Call, kinds: Sequence[DataType | None], rule: object) -> None:
    families = ("string", "integer", "integer") if call.op == "substr" else ("string",) * len(kinds)
    for argument, kind, family in zip(call.arguments, kinds, families, strict=True):
        if isinstance(argument, Constant):
            family_of_argument = {int: "integer", str: "string"}.get(type(argument.value), "another type")
        elif kind is not None:
            family_of_argument = kind.family
        else:
            continue
        if family_of_argument != family:
            word = "a text" if family == "string" else "an integer"
            description = "a constant of another type" if kind is None else f"of type '{kind}'"
            raise TypeMismatchError.with_parts(
                f"'{call.op}' takes {word}, and '{argument}'{_in(rule)} is {description}",
                subject=str(argument),
                got=family_of_argument if kind is None else kind.name,
                remedy="Cast the column, or leave it out.",
            )


def _check_time(call: Call, kinds: Sequence[DataType | None], rule: object) -> None:
    (argument,), (kind,) = call.arguments, kinds
    if isinstance(argument, Constant):
        raise TypeMismatchError.with_parts(
            f"'{call.op}' takes a column of dates or timestamps, and '{call}'{_in(rule)} has a constant",
            subject=str(call),
            got=argument.value,
            remedy="Write the result in its place.",
        )
    if kind is None or kind.family in ("date", "timestamp"):
        return
    if kind.family == "zoned" and kind.value_name.endswith("tz=UTC]"):
        return
    if kind.family == "zoned":
        raise TypeMismatchError.with_parts(
            f"'{argument}'{_in(rule)} is of type '{kind}', and '{call.op}' supports no time zone except UTC",
            subject=str(argument),
            got=kind.name,
            remedy="Cast the column to local timestamps without a time zone.",
        )
    raise TypeMismatchError.with_parts(
        f"'{call.op}' takes a date or a timestamp, and '{argument}'{_in(rule)} is of type '{kind}'",
        subject=str(argument),
        got=kind.name,
        remedy="Cast the column, or leave it out.",
    )


def aggregate_of(op: str, kind: DataType | None, place: Callable[[], str]) -> DataType | None:
    """Return the type of an aggregate; None while unknown, or if it is that of the values.

    Parameters
    ----------
    place
        Return the words in a message that name the aggregate's head.

    Raises
    ------
    TypeMismatchError
        If such values have no such aggregate.

    Examples
    --------
    >>> aggregate_of("mean", DataType("int32"), lambda: "of 'h'").name
    'double'
    >>> aggregate_of("sum", DataType("decimal128(5, 2)"), lambda: "of 'h'").name
    'decimal128(18, 2)'
    """
    if op == "count":
        return INT64
    if op in ("min", "max"):
        return None
    if kind is not None and kind.family not in _NUMBER_FAMILIES:
        raise TypeMismatchError.with_parts(
            f"the {op} {place()} aggregates values of type '{kind}'"
            + (", some of more than 18 digits" if kind.family == "wide" else ", which are not numbers"),
            subject=op,
            got=kind.name,
            remedy=_WIDE if kind.family == "wide" else _NUMBERS,
        )
    if op == "mean":
        return DOUBLE
    if kind is not None and kind.family == "decimal":
        return decimal_of(MAX_DIGITS, kind.digits[1])
    return None if kind is None else INT64 if kind.family == "integer" else DOUBLE


Place = tuple[str, int]
"""Relation and index of one of its columns."""


def _holding(kind: DataType, value: object) -> DataType:
    """Return a type of numbers that holds a constant, too.

    Examples
    --------
    >>> [_holding(DataType(name), -1).name for name in ("uint8", "uint64[full]", "decimal128(4, 2)")]
    ['int64', 'decimal128(20, 0)[full]', 'decimal128(4, 2)']
    >>> _holding(DataType("decimal128(4, 2)"), Decimal("100.125")).name
    'decimal128(6, 3)'
    """
    if type(value) is int and (kind.family == "integer" or kind.name == FULL_UINT64):
        lowest, highest = kind.code_range if kind.family == "integer" else (0, 2**64 - 1)
        return kind if lowest <= value <= highest else kind.common(INT64)
    if not isinstance(value, (int, Decimal)) or type(value) is bool or kind.family == "integer":
        return kind
    (precision, scale), (held, held_scale) = digits_of(value), kind.digits
    if scale <= held_scale and precision - scale <= held - held_scale:
        return kind
    return kind.common(DataType(f"decimal128({precision}, {scale}){FULL * (precision > MAX_DIGITS)}"))


class Types:
    """Classes of columns that share a variable, with the types shown by inputs and declarations.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> types = Types(parse("h(x) :- r(x, y), s(y)."))
    >>> types.bind("r", [DataType("int32"), DataType("int64")])
    >>> types.type_of("h", 0), types.type_of("s", 0)
    (DataType(name='int32'), DataType(name='int64'))
    """

    def __init__(self, rules: Rules, bag: bool = False) -> None:
        self._parent: dict[Place, Place] = {}
        self._seen: dict[Place, dict[Place, DataType]] = {}
        self._worked_out: dict[Place, dict[Place, DataType]] = {}
        self._common: dict[Place, DataType | None] = {}  # types of the classes that have been asked for, by root
        self._constants: dict[Place, list[tuple[Rule | None, object]]] = {}  # with the rule; facts have none
        self._stored: dict[Place, list[tuple[Rule | None, object]]] = {}  # those of heads and facts
        self._homes: dict[Rule, dict[str, Place]] = {}
        self._calculated: list[tuple[Rule, Mapping[str, Place], Computed, Place]] = []
        self._results: dict[tuple[Place, bool], tuple[list[DataType | None], DataType | None]] = {}
        self._compared: list[tuple[Rule, Place, Place]] = []
        self._linked_by: dict[frozenset[Place], Rule] = {}  # the rule that compares the two
        self._rules = rules
        self._equated: frozenset[Place] | None = frozenset()  # roots of classes; None is all
        for rule_index, rule in enumerate(rules.rules):
            self._read(rule_index, rule)
        for grouping in rules.groupings:
            self._parent.setdefault((grouping.relation, grouping.keys), (grouping.relation, grouping.keys))
            linked = grouping.keys + (grouping.op in ("min", "max"))
            for column in range(linked):
                self._link((grouping.source, column), (grouping.relation, column))
        for first in rules.first_rows:
            for column in range(rules.arity[first.source]):
                self._link((first.source, column), (first.relation, column))
        for groups in rules.computed_groups:
            for column in range(groups.n_passed):
                self._link((groups.source, column), (groups.relation, column))
            for column in range(groups.n_passed, rules.arity[groups.relation]):
                self._parent.setdefault((groups.relation, column), (groups.relation, column))
        for head, demand in rules.demands.items():
            for column in range(rules.arity[demand]):
                self._link((head, column), (demand, column))
        for facts in rules.facts:
            for column, values in enumerate(zip(*facts.rows, strict=True)):
                said = [(None, value) for value in values if value is not None]
                self._constants.setdefault((facts.relation, column), []).extend(said)
                self._stored.setdefault((facts.relation, column), []).extend(said)
        self._said: dict[Place, list[Place]] = {}
        for place in self._constants:
            self._said.setdefault(self._root(place), []).append(place)
        declared = {
            (declaration.relation, column): DataType(kind)
            for declaration in rules.declarations
            for column, kind in enumerate(declaration.types)
            if kind is not None
        }
        self._equated = frozenset(map(self._root, self._equated_places(bag)))
        self._ordered = tuple(dict.fromkeys(self._ordered_places()))
        self._check_range(declared)
        inputs = {name for name in rules.inputs if not name.endswith("#facts")}
        self._type_constant_columns([*declared, *(place for place in self._parent if place[0] in inputs)])
        self._derive()

    def _read(self, rule_index: int, rule: Rule) -> None:
        """Link the columns that share a variable of a rule; a calculation has a column of its own."""
        home: dict[Variable, Place] = {}
        homes: dict[str, Place] = {}
        literal: list[tuple[Place, Constant]] = []
        for computed in rule.computed:
            place = (f"{rule_index}#{computed.variable.name}", 0)
            self._parent.setdefault(place, place)
            self._calculated.append((rule, homes, computed, place))
            home[computed.variable] = place
        for atom in (*rule.atoms, *rule.negated, rule.head):
            for column, term in enumerate(map(plain, atom.terms)):
                place = (atom.relation, column)
                self._parent.setdefault(place, place)
                if term == NULL:
                    continue
                if isinstance(term, Constant):
                    literal.append((place, term))
                    if atom is rule.head:
                        self._stored.setdefault(place, []).append((rule, term.value))
                elif term in home:
                    self._link(home[term], place)
                else:
                    home[term] = place
        calculated = {calculation.variable for calculation in rule.computed}
        compared = [
            (plain(comparison.left), plain(comparison.right))
            for comparison in rule.comparisons
            if not comparison.is_null_test
        ]
        compared += [
            (plain(left), plain(right))
            for calculation in rule.computed
            for left, right in _compared_in(calculation.call)
            if not isinstance(left, Call) and not isinstance(right, Call)
        ]
        for left, right in compared:
            if isinstance(left, Variable) and isinstance(right, Variable):
                if left in home and right in home:
                    if left in calculated or right in calculated:
                        self._compared.append((rule, home[left], home[right]))
                    else:
                        self._link(home[left], home[right])
                        self._linked_by[frozenset((home[left], home[right]))] = rule
                continue
            for variable, operand in ((left, right), (right, left)):
                is_literal = isinstance(operand, Constant) and operand != NULL
                if isinstance(variable, Variable) and isinstance(operand, Constant) and is_literal and variable in home:
                    literal.append((home[variable], operand))
        for place, constant in literal:
            self._constants.setdefault(place, []).append((rule, constant.value))
        homes.update({variable.name: place for variable, place in home.items()})
        self._homes[rule] = homes

    def _equated_places(self, bag: bool) -> Iterator[Place]:
        """Yield columns and calculations whose values some rule compares or orders.

        All other values are only copied to heads, or used in calculations.
        """
        rules = self._rules
        sets = {*loops_of(rules), *(extreme.relation for extreme in rules.extremes)}
        if not bag:
            n_rules = Counter(rule.head.relation for rule in rules.rules)
            drops = {rule.head.relation for rule in rules.rules if not set(rule.head.terms).issuperset(rule.variables)}
            sets |= drops.union(name for name, n in n_rules.items() if n > 1)
        for rule in rules.rules:
            homes = self._homes[rule]
            joined = Counter(computed.variable for computed in rule.computed)
            joined.update(term for atom in rule.atoms for term in atom.terms if isinstance(term, Variable))
            compared = {variable for variable, n in joined.items() if n > 1}
            compared.update(term for atom in rule.negated for term in atom.variables)
            compared.update(
                term for comparison in rule.comparisons if not comparison.is_null_test for term in comparison.variables
            )
            for computed in rule.computed:
                compared.update(
                    variable for sides in _compared_in(computed.call) for side in sides for variable in _passed(side)
                )
            yield from (homes[variable.name] for variable in compared if variable.name in homes)
            for atom in (*rule.atoms, *rule.negated):
                fixed = (isinstance(term, Constant) and term != NULL for term in atom.terms)
                yield from ((atom.relation, i) for i, is_fixed in enumerate(fixed) if is_fixed)
            if rule.head.relation in sets:
                yield from ((rule.head.relation, i) for i in range(len(rule.head.terms)))
        arity = rules.arity
        for grouping in rules.groupings:  # equal rows cancel each other, and sums have no -0.0
            yield from ((grouping.source, i) for i in range(arity[grouping.source]))
            yield from ((grouping.relation, i) for i in range(grouping.keys + 1))
        helpers: tuple[FirstRows | ComputedGroups, ...] = (*rules.first_rows, *rules.computed_groups)
        for helper in helpers:
            yield from ((helper.source, i) for i in range(arity[helper.source]))
            yield from ((helper.relation, i) for i in range(arity[helper.relation]))

    def _ordered_places(self) -> Iterator[Place]:
        """Yield columns and calculations whose values some rule compares by their order."""
        rules = self._rules
        for rule in rules.rules:
            homes = self._homes[rule]
            sides = [
                side
                for comparison in rule.comparisons
                if comparison.op not in ("=", "!=")
                for side in (comparison.left, comparison.right)
            ]
            sides += [side for computed in rule.computed for side in _ordered_in(computed.call)]
            terms = (plain(side) for side in sides if not isinstance(side, Call))
            yield from (homes[term.name] for term in terms if isinstance(term, Variable) and term.name in homes)
        for grouping in rules.groupings:
            if grouping.op in ("min", "max"):
                yield grouping.source, grouping.keys
        yield from ((extreme.relation, extreme.column) for extreme in rules.extremes)
        yield from ((first.source, key.column) for first in rules.first_rows for key in first.keys)
        if rules.sorting is not None:
            yield from ((rules.sorting.relation, key.column) for key in rules.sorting.keys)

    def _check_order(self) -> None:
        """Raise if values that are compared by their order have none."""
        for place in self._ordered:
            kind = self.type_of(*place)
            if kind is not None and kind.family == "nested":
                raise TypeMismatchError.with_parts(
                    f"{self._label(place)} is of type '{kind}', and a rule orders or compares its values",
                    subject=place[0],
                    got=kind.name,
                    remedy="Lists, structs and maps can be passed on, grouped and compared by '='. Pass a field as a "
                    "column of its own.",
                )

    def _check_range(self, declared: Mapping[Place, DataType]) -> None:
        """Raise for a constant of a head or fact that its column's declared type does not hold."""
        for place, kind in declared.items():
            if kind.family in ("integer", "decimal"):
                low, high = (Decimal(code).scaleb(-(kind.scale or 0)) for code in kind.code_range)
                for rule, value in self._stored.get(place, ()):
                    if _holding(kind, value) != kind:
                        says = "a fact of the text" if rule is None else f"'{rule}'"
                        raise TypeMismatchError.with_parts(
                            f"{self._label(place)} is declared as '{kind}', {low} to {high}, and {says} has {value}",
                            subject=place[0],
                            got=value,
                            remedy="Declare another type.",
                        )

    def _type_constant_columns(self, typed: Iterable[Place]) -> None:
        """Give head columns of constants a default type, unless `typed` columns join them.

        Columns that a calculation or an aggregate reaches get one too, unless the constants are numbers, or the result
        has a type of its own.
        """
        reached = {self._root(place) for place in typed}
        reached |= {self._root(place) for *_, computed, place in self._calculated if computed.call.function is not None}
        reached |= {
            self._root((groups.relation, column))
            for groups in self._rules.computed_groups
            for column in range(groups.n_passed, self._rules.arity[groups.relation])
        }
        results = [place for *_, place in self._calculated]
        results += [
            (grouping.relation, grouping.keys)
            for grouping in self._rules.groupings
            if grouping.op not in ("min", "max")
        ]
        derived = {self._root(place) for place in results}
        for place in self._constants:
            root = self._root(place)
            kind = self.assumed(*place)
            is_number = kind is not None and kind.family in ("integer", "decimal", "float64")
            if root not in reached and not (root in derived and is_number):
                self._bind(place[0], [None] * place[1] + [kind])

    def _derive(self) -> None:
        """Infer the types of calculations and aggregates from the known types.

        All of them are inferred again, as fewer known types may have given another type. In cycles of rules, an unknown
        argument adapts to the known ones.
        """
        self._worked_out, self._common = {}, {}
        for is_last in (False, True):
            if is_last:
                self._show_constants()
            while self._derive_once(is_last):
                pass
        self._check_order()
        for rule, left, right in self._compared:
            kinds = [self.type_of(*left), self.type_of(*right)]
            typed = [kind for kind in kinds if kind is not None]
            families = {kind.family for kind in typed}
            if len(families) == 2 and families != {"integer", "decimal"}:
                span = self._span_between(rule, left, right)
                subject = "a condition" if self._is_in_text(span) else f"the rule '{rule}'"
                is_long = families in ({"wide", "integer"}, {"wide", "decimal"})
                error = TypeMismatchError.with_parts(
                    f"{subject} compares a value of type '{typed[0]}' with a value of type '{typed[1]}'",
                    subject=str(rule),
                    remedy=_WIDE if is_long else "Cast a column, so that both are of one type.",
                )
                raise self._pointed(error, span)

    def _show_constants(self) -> None:
        """Infer the types of head columns of numbers that only calculations with them would give."""
        arity = self._rules.arity
        of_inputs = {self._root((name, column)) for name in self._rules.inputs for column in range(arity[name])}
        for place in self._constants:
            kind = self.assumed(*place)
            is_unknown = self.type_of(*place) is None and self._root(place) not in of_inputs
            if is_unknown and kind is not None and kind.family in ("decimal", "float64"):
                self._show(place, kind)

    def _derive_once(self, is_last: bool) -> bool:
        changed = False
        for rule, homes, computed, place in self._calculated:
            variables = computed.call.variables
            kinds = [self.type_of(*homes[term.name]) if term.name in homes else None for term in variables]
            cached = self._results.get((place, is_last))
            if cached is None or cached[0] != kinds:
                kind_by_variable = dict(zip(variables, kinds, strict=True))
                span = computed.call.span
                try:
                    where = "" if self._is_in_text(span) else rule
                    cached = kinds, kind_of(computed.call, kind_by_variable.__getitem__, where, is_last)
                except TypeMismatchError as error:
                    raise self._pointed(error, span) from None
                self._results[place, is_last] = cached
            changed |= self._show(place, cached[1])
        for grouping in self._rules.groupings:
            value = None if grouping.op == "count" else self.type_of(grouping.source, grouping.keys)
            place = (grouping.relation, grouping.keys)
            try:
                of_values = aggregate_of(grouping.op, value, partial(self._where, grouping.relation))
            except TypeMismatchError as error:
                raise self._pointed(error, self._span_of_aggregate(grouping)) from None
            changed |= self._show(place, of_values)
        for groups in self._rules.computed_groups:
            for column, returned in enumerate(groups.returns, groups.n_passed):
                changed |= self._show((groups.relation, column), DataType(returned))
        return changed

    def _show(self, place: Place, kind: DataType | None) -> bool:
        """Store an inferred type; return True if it is new."""
        root = self._root(place)
        inferred = self._worked_out.setdefault(root, {})
        if kind is None or kind == inferred.pop(place, None):
            if kind is not None:
                inferred[place] = kind
            return False
        self._common.pop(root, None)
        self._check_others(root, place, kind, None, is_worked_out=True)
        inferred[place] = kind
        common = self.type_of(*root)
        if common is not None and common.family == "wide" and kind.family != "wide":
            raise TypeMismatchError.with_parts(
                f"{self._label(place)} is calculated, of type '{kind}', and shares a column with '{common}'",
                subject=place[0],
                got=common.name,
                remedy=_WIDE,
            )
        self._check_constants(root, place, None)
        return True

    def kinds(self, rule: Rule) -> Mapping[str, DataType | None]:
        """Return the type of every variable of a rule, by name, None while unknown.

        Examples
        --------
        >>> from gpu_wcoj.query.desugar import desugar
        >>> from gpu_wcoj.query.datalog import parse
        >>> rules = desugar(parse("h(y) :- r(x), y = strlen(x)."))
        >>> {name: kind and kind.name for name, kind in Types(rules).kinds(rules.rules[0]).items()}
        {'y': 'int64', 'x': None}
        """
        return {name: self.type_of(*place) for name, place in self._homes[rule].items()}

    def keeps_zero_signs(self, relation: str, column: int) -> bool:
        """Return True if the column's values are only passed on, or calculated with.

        Such a column distinguishes -0.0 from 0.0 and returns it unchanged. In any other column, where a rule joins,
        compares, groups, aggregates, orders or deduplicates by its values, -0.0 equals 0.0 and is replaced by it.

        Examples
        --------
        >>> from gpu_wcoj.query.datalog import parse
        >>> types = Types(parse("h(x, y) :- r(x, y), s(y)."))
        >>> types.keeps_zero_signs("r", 0), types.keeps_zero_signs("r", 1)
        (True, False)
        """
        return self._equated is not None and self._root((relation, column)) not in self._equated

    def signed_results(self, rule: Rule) -> Collection[str]:
        """Return the names of variables that keep the sign of a zero; see `keeps_zero_signs`."""
        return {name for name, place in self._homes[rule].items() if self.keeps_zero_signs(*place)}

    def equate_zeros(self, places: Iterable[Place] | None = None) -> None:
        """Let -0.0 become 0.0 in these columns and all columns linked to them; None for all columns."""
        if places is None:
            self._equated = None
        elif self._equated is not None:
            self._equated |= frozenset(map(self._root, places))

    @property
    def tells_zeros_apart(self) -> bool:
        """Return True if columns may keep -0.0; False in the state of an older checkpoint."""
        return self._equated is not None

    def copy(self) -> Types:
        """Return a copy that can be extended separately."""
        copy = object.__new__(Types)
        copy._parent = self._parent
        copy._equated = self._equated
        copy._ordered = self._ordered
        copy._constants = self._constants
        copy._stored = self._stored
        copy._said = self._said
        copy._homes = self._homes
        copy._calculated = self._calculated
        copy._results = dict(self._results)
        copy._compared = self._compared
        copy._linked_by = self._linked_by
        copy._rules = self._rules
        copy._seen = {root: dict(seen) for root, seen in self._seen.items()}
        copy._worked_out = {root: dict(seen) for root, seen in self._worked_out.items()}
        copy._common = dict(self._common)
        return copy

    def type_of(self, relation: str, column: int) -> DataType | None:
        """Return the common type of a column's class; None while unknown."""
        root = self._root((relation, column))
        if root in self._common:
            return self._common[root]
        common: DataType | None = None
        for kind in self._seen.get(root, {}).values():
            common = kind if common is None else common.common(kind)
        for kind in self._worked_out.get(root, {}).values():
            common = kind if common is None else common.common(kind, is_computed=True)
        if common is not None and common.family in ("integer", "decimal", "wide"):
            stored = [value for place in self._said.get(root, ()) for _, value in self._stored.get(place, ())]
            for value in stored:
                common = _holding(common, value)
        self._common[root] = common
        return common

    def assumed(self, relation: str, column: int) -> DataType | None:
        """Return the type of a column; if unknown, that of the constants in its class."""
        kind, root = self.type_of(relation, column), self._root((relation, column))
        if kind is not None:
            return kind
        values = [value for place in self._said.get(root, ()) for _, value in self._constants[place]]
        if not values:
            return None
        return type_of_constants(values)

    def used_as(self, relation: str, column: int) -> DataType | None:
        """Return the type of a column that calculations need; None if they take several types."""
        root = self._root((relation, column))
        for _, homes, computed, _ in self._calculated:
            waiting: list[Call] = [computed.call]
            for call in waiting:
                waiting += [argument for argument in call.arguments if isinstance(argument, Call)]
                variables = [argument for argument in call.arguments if isinstance(argument, Variable)]
                if not any(self._root(homes[term.name]) == root for term in variables if term.name in homes):
                    continue
                values = [argument.value for argument in call.arguments if isinstance(argument, Constant)]
                if call.op in _OF_TEXT or (call.op in NULL_AWARE and any(isinstance(value, str) for value in values)):
                    return STRING
                if call.op in _OF_TIME:
                    return DataType("date32[day]")
        return None

    def snapshot(self) -> dict[Place, DataType | None]:
        """Return the type of every column."""
        return {place: self.type_of(*place) for place in self._parent}

    def bound_types(self) -> list[tuple[str, int, DataType]]:
        """Return the types from inputs and declarations; see `bind_again`."""
        return [(*place, kind) for seen in self._seen.values() for place, kind in seen.items()]

    def bind_again(self, bound: Iterable[tuple[str, int, DataType]]) -> None:
        """Add the result of `bound_types`, of the same rules."""
        self.bind_all((relation, [*[None] * column, kind], None) for relation, column, kind in bound)

    def bind(self, relation: str, kinds: Sequence[DataType | None], names: Sequence[str] | None = None) -> None:
        """Add the types of a relation's columns; see `bind_all`."""
        self.bind_all([(relation, kinds, names)])

    def bind_all(self, bound: Iterable[tuple[str, Sequence[DataType | None], Sequence[str] | None]]) -> None:
        """Add the types of relations' columns from inputs or declarations; None where not given.

        Types of calculations follow from all of them: some must be long decimals together.

        Raises
        ------
        TypeMismatchError
            If a column joins a column of another type, or a constant that does not fit its type; or if a calculation
            from it does.
        """
        self._worked_out, self._common = {}, {}
        for relation, kinds, names in bound:
            self._bind(relation, kinds, names)
        self._derive()

    def _bind(self, relation: str, kinds: Sequence[DataType | None], names: Sequence[str] | None = None) -> None:
        for column, kind in enumerate(kinds):
            if kind is None:
                continue
            place = (relation, column)
            root = self._root(place)
            seen = self._seen.setdefault(root, {})
            previous = seen.get(place)
            if previous == kind:
                continue
            name = names[column] if names else None
            self._check_others(root, place, kind, name, is_worked_out=False)
            seen[place] = kind if previous is None else previous.common(kind)
            self._common.pop(root, None)
            self._check_constants(root, place, name)

    def _check_others(self, root: Place, place: Place, kind: DataType, name: str | None, is_worked_out: bool) -> None:
        """Raise if a type is incompatible with the known types of its class."""
        for kinds in (self._seen, self._worked_out):
            compatible: list[DataType] = []
            for other_place, other_kind in kinds.get(root, {}).items():
                if other_kind in compatible:
                    continue
                compatible.append(other_kind)
                try:
                    kind.common(other_kind, is_worked_out or kinds is self._worked_out)
                    if (
                        place == other_place
                        and kind.family != other_kind.family
                        and "wide" not in (kind.family, other_kind.family)
                    ):
                        raise TypeMismatchError.with_parts("", remedy="Cast the column.")
                except TypeMismatchError as error:
                    rule = self._linked_by.get(frozenset((place, other_place)))
                    span = self._span_of_link(rule, place, other_place)
                    said = self._join_words(rule, place, other_place)
                    what = f"{self._label(place, name)} is of type '{kind}', and {said}"
                    why = str(error).splitlines()[-1].strip()
                    mismatch = TypeMismatchError.with_parts(
                        f"{what} of type '{other_kind}'", subject=place[0], got=kind.name, remedy=why
                    )
                    raise self._pointed(mismatch, span) from None

    def _join_words(self, rule: Rule | None, place: Place, other_place: Place) -> str:
        if place == other_place:
            return "was declared or has been so far"
        there = self._label(other_place)
        return f"joins {there}" if rule is None or "#" in str(rule) else f"the rule '{rule}' compares it with {there},"

    def _check_constants(self, root: Place, shown_place: Place, name: str | None) -> None:
        common = self.type_of(*root)
        assert common is not None
        for place in self._said.get(root, ()):
            for rule, value in self._constants[place]:
                misspelled = _misspelled(value, common, rule) if fits(value, common) else None
                if misspelled is not None or not fits(value, common):
                    span = self._span_of_constant(rule, place, value)
                    says = (
                        "a fact of the text gives it" if rule is None
                        else "is compared with" if self._is_in_text(span)
                        else f"the rule '{rule}' compares it with"
                    )  # fmt: skip
                    what = f"{self._label(shown_place, name)} is of type '{common}', and {says} {value!r}"
                    error = misspelled or TypeMismatchError.with_parts(
                        what,
                        subject=shown_place[0],
                        got=value,
                        remedy="Write a constant of that type.",
                    )
                    raise self._pointed(error, span)

    # Places in the text, for messages.

    def _is_in_text(self, span: Span) -> bool:
        """Return True if messages can show the place."""
        return bool(self._rules.text and span.line)

    def _pointed(self, error: TypeMismatchError, span: Span) -> TypeMismatchError:
        """Return the error with its place, if the text has it."""
        if not self._is_in_text(span):
            return error
        return error.at_place(self._rules.text, span.line, span.column, span.width, self._rules.source)

    def _span_of_constant(self, rule: Rule | None, place: Place, value: object) -> Span:
        """Return the place where a constant meets a column; line 0 if it is unknown."""
        if rule is None:
            name = served_relation(self._rules, place[0])
            facts = (fact.head for fact in (self._rules.written or self._rules).rules if not fact.atoms)
            terms = ((head.span, head.terms[place[1]]) for head in facts if head.relation == name)
            return next((span for span, term in terms if isinstance(term, Constant) and term.value == value), Span())
        for atom in (*rule.atoms, *rule.negated, rule.head):
            term = atom.terms[place[1]] if atom.relation == place[0] else None
            if isinstance(term, Constant) and term.value == value:
                return atom.span
        for comparison in rule.comparisons:
            if any(isinstance(side, Constant) and side.value == value for side in (comparison.left, comparison.right)):
                return comparison.span
        return rule.head.span

    def _span_between(self, rule: Rule, left: Place, right: Place) -> Span:
        """Return the place of a comparison of two columns within a rule."""
        homes = self._homes[rule]
        sides = [
            (comparison.span, comparison.left, comparison.right)
            for comparison in rule.comparisons
        ] + [
            (computed.call.span, *pair) for computed in rule.computed for pair in _compared_in(computed.call)
        ]  # fmt: skip
        for span, *operands in sides:
            if {homes.get(str(operand)) for operand in operands} == {left, right}:
                return span
        return rule.head.span

    def _span_of_link(self, rule: Rule | None, place: Place, other_place: Place) -> Span:
        """Return the place where a rule joins or compares two columns, or of an atom that does."""
        if rule is not None:
            return self._span_between(rule, place, other_place)
        for relation, column in (place, other_place):
            calls = (computed.call for *_, computed, home in self._calculated if home == (relation, column))
            if (call := next(calls, None)) is not None and call.span.line:
                return call.span
            for candidate in self._rules.rules:
                for atom in (*candidate.atoms, *candidate.negated, candidate.head):
                    term = atom.terms[column] if atom.relation == relation else None
                    if isinstance(term, Variable) and candidate.occurrences[term] > 1 and atom.span.line:
                        return atom.span
        return Span()

    def _span_of_aggregate(self, grouping: Grouping) -> Span:
        """Return the place of an aggregate of that operation, of the head that the grouping serves."""
        head = served_relation(self._rules, grouping.relation)
        for rule in (self._rules.written or self._rules).rules:
            if rule.head.relation == head:
                for aggregate in rule.aggregates:
                    if aggregate.op == grouping.op:
                        return aggregate.span
                calls = (term for term in rule.head.terms if isinstance(term, Call) and term.op == grouping.op)
                return next((call.span for call in calls if call.span.line), rule.head.span)
        return Span()

    def _label(self, place: Place, name: str | None = None) -> str:
        return describe_column(self._rules, *place, name)

    def _where(self, relation: str) -> str:
        return describe_place(self._rules, relation, "of")

    def _root(self, place: Place) -> Place:
        parent = self._parent
        above = parent.setdefault(place, place)
        while above != place:
            parent[place] = place = parent[above]  # halves the paths of later calls
            above = parent[place]
        return place

    def _link(self, left: Place, right: Place) -> None:
        left, right = self._root(left), self._root(right)
        if left != right:
            self._parent[right] = left


def _ordered_in(call: Call) -> Iterator[Expression]:
    """Yield the sides of comparisons by order within a null-aware call."""
    if COMPARING.get(call.op, "=") not in ("=", "!="):
        yield from call.arguments
    for part in call.arguments:
        if isinstance(part, Call):
            yield from _ordered_in(part)


def _compared_in(call: Call) -> Iterator[tuple[Expression, Expression]]:
    """Yield the pairs of expressions that are compared within a null-aware call."""
    if call.op in COMPARING or call.op == "among":
        first, *operands = call.arguments
        yield from ((first, operand) for operand in operands)
    for part in call.arguments:
        if isinstance(part, Call):
            yield from _compared_in(part)


def _passed(expression: Expression) -> Iterator[Variable]:
    """Yield the variables whose values an expression may return unchanged."""
    if isinstance(expression, Variable):
        yield expression
    elif isinstance(expression, Call) and expression.op == "case":
        n_paired = len(expression.arguments) // 2 * 2
        for i, argument in enumerate(expression.arguments):
            if i % 2 or i == n_paired:
                yield from _passed(argument)


def fits(value: object, kind: DataType) -> bool:
    """Return True if a constant of a program's text can be a value of the type.

    Examples
    --------
    >>> fits(5, DataType("double")), fits(2.5, DataType("int64"))
    (True, False)
    """
    family = kind.family
    if isinstance(value, bool):
        return family == "bool"
    if isinstance(value, (int, Decimal)):
        return family in ("integer", "float32", "float64", "decimal", "wide")
    if isinstance(value, float):
        return family in ("float32", "float64", "decimal", "wide")
    return family in _WRITTEN_AS_TEXT


def _misspelled(value: object, kind: DataType, rule: Rule | None) -> TypeMismatchError | None:
    """Return the error for a text that is not a value of a type of dates or times.

    A column of dates may be compared with a time of day.
    """
    if not isinstance(value, str) or kind.family not in ("date", "timestamp", "zoned", "time", "duration"):
        return None
    terms = () if rule is None else (*rule.head.terms, *(term for atom in rule.atoms for term in atom.terms))
    is_compared = rule is not None and Constant(value) not in terms
    try:
        _ = encode_constant(value, kind, "<" if is_compared else "")
    except TypeMismatchError as error:
        return error
    return None


def names_of(rules: Rules) -> Mapping[str, tuple[str, ...]]:
    """Return the distinct column names of each relation, from declarations or heads."""
    named: dict[str, tuple[str, ...]] = {}
    for rule in rules.rules:
        if rule.head.relation not in named:
            raw = [term.name if isinstance(term, Variable) else f"c{i}" for i, term in enumerate(rule.head.terms)]
            named[rule.head.relation] = unique_names(raw)
    for declaration in rules.declarations:
        named[declaration.relation] = declaration.columns
    return named
