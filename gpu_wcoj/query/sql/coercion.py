"""Types of values that are compared or share a column, arithmetic and functions of SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING

from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.arrow.constants import is_value
from gpu_wcoj.data.schema import FULL, INT64, INTERVAL, MAX_DIGITS, MAX_WIDE_DIGITS, UUID, DataType
from gpu_wcoj.errors import counted
from gpu_wcoj.query.constant_folding import is_spelled
from gpu_wcoj.query.ir import CHECKED, NULL, TRUE, Call, Constant, Expression, Variable
from gpu_wcoj.query.sql.scope import DATE, Branch, RuleWriter, Values, as_text, digits_of_constant, is_date, literal
from gpu_wcoj.query.sql.source import check_parts, describe_node
from gpu_wcoj.user_functions import SQL_CALL, Function, SqlFunction

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


def _common(families: set[str]) -> str:
    """Return the common type of number types; empty if no conversion is needed."""
    if len(families & {"integer", "decimal", "float", "double"}) < 2:
        return ""
    return "decimal" if families <= {"integer", "decimal", "constant"} else "double"


def group_of(kind: str) -> str:
    """Return the group of types that a type compares with: number, text, bool or time.

    Examples
    --------
    >>> group_of("decimal128(9, 2)"), group_of("timestamp[us]")
    ('number', 'time')
    """
    if kind.startswith(("int", "uint", "decimal", "double", "float")):
        return "number"
    if kind.startswith(("date", "timestamp")):
        return "time"
    return "text" if "string" in kind or kind == UUID or kind.startswith(_WRITTEN_AS_TEXT) else kind


def is_long(kind: str) -> bool:
    """Return whether a type has numbers of more digits than the engine calculates with.

    Examples
    --------
    >>> is_long("decimal128(30, 2)"), is_long("decimal128(18, 2)"), is_long("uint64")
    (True, False, False)
    """
    return kind != "decimal" and group_of(kind) == "number" and DataType(kind).digits[0] > MAX_DIGITS


_WRITTEN_AS_TEXT = ("time32", "time64", "duration", INTERVAL)
"""Types, other than dates and timestamps, whose constants are texts."""
DOUBLE_QUOTIENTS = ("spark", "databricks", "bigquery")
"""Dialects in which ``/`` of integers is a double, as in DuckDB, but ``/`` of decimals is not."""
INFINITE = ("duckdb", "trino", "presto", "athena")
"""Dialects in which a double divided by 0 is infinite or NaN; in all other dialects it is an error."""
BY_CHARACTER = ("duckdb", "trino", "presto", "athena")
"""Dialects in which UPPER and LOWER map each character to one character; others are assumed to map as Java does.

One difference is known: Trino, Presto and Athena keep 'ß', which becomes 'ẞ' here, as in DuckDB.
"""
FUNCTION_NAMES = (
    "ABS", "LOWER", "UPPER", "LENGTH", "SUBSTRING", "YEAR", "MONTH", "DAY", "EXTRACT", "COALESCE", "NULLIF", "COUNT",
    "SUM", "MIN", "MAX", "AVG",
)  # fmt: skip
"""Names of the supported functions."""
CLOCK = "A view does not follow the clock; compare with a date, as DATE '2026-01-31', or with a column."
INSTEAD = {
    "Any": "Write x IN (SELECT ...), or EXISTS.",
    "All": "Write NOT EXISTS with the opposite condition.",
    "Rand": "A view of something random cannot be kept.",
    "CurrentDate": CLOCK,
    "CurrentTimestamp": CLOCK,
    "Now": CLOCK,
    "Placeholder": "Write the value into the text.",
    "Parameter": "Write the value into the text.",
    "Tuple": "Name its columns one by one.",
}
"""Advice for unsupported syntax, by class of node."""
_TAKEN = {
    "abs": ("integer", "decimal", "float32", "float64"),
    **dict.fromkeys(("year", "month", "day"), ("date", "timestamp", "zoned")),
}
"""Families of the values that functions take; those that are missing take texts."""
_MOMENT, _ZONED = DataType("timestamp[us]"), DataType("timestamp[us, tz=UTC]")
"""Types that dates and times have where they are compared with others."""
Make = Callable[[Sequence[Expression]], Expression]


def sql_call(expression: str, arguments: tuple[Expression, ...], kinds: tuple[DataType, ...], to: DataType) -> Call:
    """Return the call of an SQL expression, with an argument that it need not read."""
    if not arguments:
        arguments, kinds = (Constant(0),), (INT64,)
    return Call(SQL_CALL, arguments, function=SqlFunction(SQL_CALL, kinds, to, expression))


def is_zoned(value: Expression) -> bool:
    """Return whether a value is a literal of a time with a zone, which is written in UTC."""
    text = as_text(value) if isinstance(value, Call) and value.op == DATE else value
    return text is not value and str(text).endswith('+00:00"')


def _kind_of_digits(value: Expression) -> str | None:
    """Return the narrowest decimal type of a constant; None for other values, and for floats."""
    if not isinstance(value, Constant) or not isinstance(value.value, (int, Decimal)) or type(value.value) is bool:
        return None
    precision, scale = digits_of_constant(value.value)
    return f"decimal128({precision}, {scale})" if precision <= MAX_WIDE_DIGITS else None


def label(kind: str | None) -> str:
    """Return the name of a type for people, in quotes."""
    return f"'{'decimal' if kind == 'decimal' else DataType(kind).label if kind else 'unknown'}'"


def nearest_function(name: str, python_names: Iterable[str]) -> str:
    """Return `nearest` among the functions that queries may call, whatever their case."""
    names = {known.upper(): known.upper() for known in (*FUNCTION_NAMES, *sql_expressions.function_names())}
    names |= {known.upper(): known for known in python_names}
    close = get_close_matches(name.upper(), sorted(names), n=1)
    return f" Did you mean '{names[close[0]]}'?" if close else ""


def date_call(value: Expression) -> Expression:
    """Return a date literal as a value that a column can have; other values unchanged."""
    if not isinstance(value, Call) or value.op != DATE:
        return value
    (constant,) = value.arguments
    assert isinstance(constant, Constant)
    text = str(constant.value)
    word, kind = ("TIMESTAMP", "timestamp[us]") if " " in text else ("DATE", "date32[day]")
    word, kind = ("TIMESTAMPTZ", "timestamp[us, tz=UTC]") if is_zoned(value) else (word, kind)
    return sql_call(f"{word} '{text}'", (), (), DataType(kind))


class Coercion(RuleWriter):
    """Conversion of values to common types, and the calculations on values."""

    def unify_pair(self, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
        """Convert two non-null values to types that compare.

        Numbers become decimals or doubles if they differ in type, dates become texts.
        """
        if is_date(left) and is_date(right):
            return as_text(left), as_text(right)
        for side, opposite in ((left, right), (right, left)):
            kind = self.kind(opposite)
            if is_date(side) and kind is not None and not kind.startswith(("date", "timestamp")):
                raise self.place.mistyped(f"a date is compared with a value of type {label(kind)}", node)
            if is_zoned(side) and kind is not None and "tz=" not in kind:
                raise self.place.mistyped(f"a time with a zone is compared with a value of type {label(kind)}", node)
        left, right = self._as_common(as_text(left), as_text(right))
        self._check_groups(left, right, node)
        self._check_times(left, right, node)
        families = [self._family(value) for value in (left, right)]
        is_float = any(isinstance(value, Constant) and isinstance(value.value, float) for value in (left, right))
        target = "double" if is_float and "integer" in families else _common(set(families))
        return self._converted(left, target), self._converted(right, target)

    def _as_common(self, *values: Expression, is_column: bool = False) -> tuple[Expression, ...]:
        """Convert dates and times of several types, or numbers beside long decimals, to one type.

        With `is_column` they are the values of a column, which has room for the digits of constants, too.
        """
        kinds = [self.kind(value) for value in values]
        if is_column and any(kind is not None and kind.startswith("decimal1") for kind in kinds):
            kinds = [_kind_of_digits(value) or kind for value, kind in zip(values, kinds, strict=True)]
        known = [DataType(DataType(kind).value_name) for kind in kinds if kind is not None and kind != "decimal"]
        to = self._common_time(known) or self._common_long(known) if "decimal" not in kinds else None
        if to is None:
            return values
        word = "DOUBLE" if to.name == "double" else f"DECIMAL{to.digits}" if to.family == "wide" else "TIMESTAMP"
        cast = f'CAST("{sql_expressions.column_name(0)}" AS {word}{"TZ" * (to == _ZONED)})'
        return tuple(
            value
            if kind is None
            or DataType(kind) == to
            or DataType(kind).family == to.family != "wide"
            or (is_column and isinstance(value, Constant))
            else sql_call(cast, (value,), (DataType(DataType(kind).value_name),), to)
            for value, kind in zip(values, kinds, strict=True)
        )

    @staticmethod
    def _common_time(kinds: Sequence[DataType]) -> DataType | None:
        """Return the common type of several types of dates and times; None for others."""
        families = {kind.family for kind in kinds}
        is_needed = len(families) > 1 and families <= {"date", "timestamp", "zoned"}
        return (_ZONED if "zoned" in families else _MOMENT) if is_needed else None

    @staticmethod
    def _common_long(kinds: Sequence[DataType]) -> DataType | None:
        """Return the common type of several types of numbers, one of more than 18 digits; or None."""
        decimals = [kind for kind in kinds if kind.name.startswith("decimal")]
        if len(set(kinds)) < 2 or not any(is_long(kind.name) for kind in decimals):
            return None
        if any(kind.family.startswith("float") for kind in kinds):
            return DataType("double")
        precisions, scales = zip(*(kind.digits for kind in kinds), strict=True)
        n_before = max(precision - scale for precision, scale in zip(precisions, scales, strict=True))
        precision = min(n_before + max(scales), MAX_WIDE_DIGITS)
        return DataType(f"decimal128({precision}, {max(scales)}){FULL}")

    def _converted(self, value: Expression, target: str, scale: int = 0) -> Expression:
        """Convert a non-null value to a double or a decimal; constants stay as they are."""
        family = self._family(value)
        if not target or family in (target, "constant") or family not in ("integer", "decimal", "float"):
            return value
        return (
            Call("double", (value,))
            if target == "double"
            else Call("*", (value, Constant(Decimal(1).quantize(Decimal(1).scaleb(-scale)))))
        )

    def _check_groups(self, left: Expression, right: Expression, node: Node) -> None:
        from sqlglot import expressions as exp

        kinds = [self.kind(value) for value in (left, right)]
        groups = {group_of(kind) for kind in kinds if kind is not None}
        is_text = any(map(is_spelled, (left, right)))
        if len(groups) > 1 and not (is_text and groups == {"text", "time"}):
            raise self.place.mistyped(
                f"values of the types {label(kinds[0])} and {label(kinds[1])} do not compare", node
            )
        is_constant = any(isinstance(value, Constant) for value in (left, right))
        is_join = isinstance(node, exp.EQ) and all(isinstance(value, Variable) for value in (left, right))
        is_wide = kinds[0] != kinds[1] and any(kind is not None and is_long(kind) for kind in kinds)
        if any(kind == INTERVAL and isinstance(value, Call) for value, kind in zip((left, right), kinds, strict=True)):
            raise self.place.refused("a comparison of intervals, which may have months, is not supported", node)
        if is_wide and not is_constant and not is_join:
            raise self.place.mistyped(
                f"values of the types {label(kinds[0])} and {label(kinds[1])} do not compare", node
            )

    def _check_times(self, left: Expression, right: Expression, node: Node) -> None:
        """Raise if a text is compared with times of a type that it has no value of."""
        for side, opposite in ((left, right), (right, left)):
            kind = self.kind(opposite)
            text = side.value if isinstance(side, Constant) and isinstance(side.value, str) else None
            if (
                text is not None
                and kind
                and group_of(kind) == "time"
                and not is_value(text, DataType(kind), is_compared=True)
            ):
                raise self.place.mistyped(f"the text '{text}' is not a value of type {label(kind)}", node)

    def _family(self, value: Expression) -> str:
        if value == NULL or (isinstance(value, Constant) and isinstance(value.value, (int, float, Decimal))):
            return "constant"
        kind = self.kind(value) or ""
        return "integer" if kind.lstrip("u").startswith("int") else kind.split("(")[0].rstrip("0123456789")

    def unify_rows(
        self, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
    ) -> list[tuple[Branch, Values]]:
        """Convert the columns of rows: integers to decimals, numbers to doubles, as needed.

        A date literal is a date if other rows have dates in its column. Columns of date literals only are dates if
        `nodes`, the expressions of the columns of a relation, are given; otherwise the literals stay as they are.
        """
        result = list(rows)
        for column in range(len(rows[0][1]) if rows else 0):
            united = self._as_common(*(values[column] for _, values in result), is_column=True)
            result = [
                (branch, (*values[:column], value, *values[column + 1 :]))
                for (branch, values), value in zip(result, united, strict=True)
            ]
            families = {self._family(values[column]) for _, values in result}
            constants = [
                value.value for value in (values[column] for _, values in result) if isinstance(value, Constant)
            ]
            scales = [-int(constant.as_tuple().exponent) for constant in constants if isinstance(constant, Decimal)]
            families |= {"double" for constant in constants if isinstance(constant, float)} | {
                "decimal" for _ in scales
            }
            target = _common(families)
            if target:
                scale = max([0, *scales])
                result = [
                    row for branch, values in result for row in self._column_as(branch, values, column, target, scale)
                ]
            if any(is_date(values[column]) for _, values in result):
                kinds = [self.kind(values[column]) or "" for _, values in result]
                if any(kind.startswith(("date", "timestamp")) for kind in kinds):
                    result = [
                        (branch, (*values[:column], as_text(values[column]), *values[column + 1 :]))
                        for branch, values in result
                    ]
                elif nodes:
                    result = [
                        (branch, (*values[:column], date_call(values[column]), *values[column + 1 :]))
                        for branch, values in result
                    ]
        return result

    def unify_values(self, values: Sequence[Expression], node: Node) -> list[Expression]:
        """Convert the values of one column, as `unify_rows` does; null stays null."""
        values = self._as_common(*values, is_column=True)
        families = {self._family(value) for value in values}
        constants = [value.value for value in values if isinstance(value, Constant)]
        scales = [-int(constant.as_tuple().exponent) for constant in constants if isinstance(constant, Decimal)]
        families |= {"double" for constant in constants if isinstance(constant, float)} | {"decimal" for _ in scales}
        target = _common(families)
        converted = [self._converted(value, target, max([0, *scales])) for value in values] if target else list(values)
        if any(map(is_date, converted)) and not all(is_date(value) or value == NULL for value in converted):
            for kind in (self.kind(value) for value in converted if not is_date(value) and value != NULL):
                if kind is not None and not kind.startswith(("date", "timestamp")):
                    raise self.place.mistyped(f"a date cannot be combined with a value of type {label(kind)}", node)
            converted = [as_text(value) for value in converted]
        return converted

    def _column_as(
        self, branch: Branch, values: Values, position: int, target: str, scale: int
    ) -> Iterator[tuple[Branch, Values]]:
        """Yield a row with one of its columns as a double or a decimal, or null."""
        if self._converted(values[position], target) == values[position]:
            yield branch, values
            return
        value = values[position]
        if isinstance(value, Call) and value.takes_nulls:
            yield branch, (*values[:position], self._converted(value, target, scale), *values[position + 1 :])
            return
        numbers = self.numbered(len(values))
        branch = branch.with_values(dict(zip(numbers, values, strict=True)))
        empty, full = branch.null(values[position]), branch.not_null(values[position])
        for case_branch in (empty, full):
            if case_branch is not None:
                made = [case_branch.values[column] for column in numbers]
                made[position] = NULL if case_branch is empty else self._converted(made[position], target, scale)
                yield case_branch, tuple(made)

    def function(self, node: Node) -> tuple[list[Node], Make]:
        """Return the argument nodes of a calculation, and a function from their values to its value.

        The function gets non-null values.

        Raises
        ------
        UnsupportedError
            If the core has no such function, or the function differs there.
        """
        from sqlglot import expressions as exp

        place = self.place
        plain: dict[type, str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
        if type(node) in plain:
            check_parts(node, place, "this", "expression")
            op = next(op for kind, op in plain.items() if isinstance(node, kind))
            return [node.this, node.expression], lambda values: Call(op, self._numbers(values, node))
        if isinstance(node, exp.Mod):
            check_parts(node, place, "this", "expression")
            return [node.this, node.expression], lambda values: self._divided("%", self._numbers(values, node))
        if isinstance(node, exp.Neg):
            check_parts(node, place, "this")
            return [node.this], lambda values: Call("-", self._numbers(values, node))
        if isinstance(node, exp.Div):
            return self._division(node)
        if isinstance(node, exp.IntDiv):
            check_parts(node, place, "this", "expression")
            return [node.this, node.expression], lambda values: Call("/", self._integers(values, node))
        if isinstance(node, exp.DPipe):
            check_parts(node, place, "this", "expression", "safe")
            return [node.this, node.expression], lambda values: Call("cat", self._texts(values, node))
        single: dict[type, str] = {
            exp.Abs: "abs",
            exp.Lower: "downcase" if self.dialect in BY_CHARACTER else "lower",
            exp.Upper: "upcase" if self.dialect in BY_CHARACTER else "upper",
            exp.Year: "year",
            exp.Month: "month",
            exp.Day: "day",
        }
        if type(node) in single:
            check_parts(node, place, "this")
            operand = node.this
            if isinstance(node, (exp.Year, exp.Month, exp.Day)) and isinstance(operand, exp.TsOrDsToDate):
                check_parts(operand, place, "this")  # Spark's, which takes texts too
                operand = operand.this
            return [operand], self._call_of(next(op for kind, op in single.items() if isinstance(node, kind)), node)
        if isinstance(node, exp.Length):
            check_parts(node, place, "this", "binary")  # counts bytes of binary values only, which are not texts
            return [node.this], self._call_of("strlen", node)
        if isinstance(node, exp.Extract):
            check_parts(node, place, "this", "expression")
            part = node.this.name.lower()
            if part not in ("year", "month", "day"):
                raise place.refused(f"EXTRACT of '{part}' is not supported", node, "YEAR, MONTH and DAY are.")
            return [node.expression], self._call_of(part, node)
        if isinstance(node, exp.Substring):
            return self._substring(node)
        if isinstance(node, exp.Cast):
            return self._cast(node)
        python_function = self.python_function(node)
        if python_function is not None:
            return self._python_call(node, python_function)
        if isinstance(node, exp.Anonymous):
            python_names = [function.name for function in self.functions.values()]
            what = f"unknown function '{node.name}'.{nearest_function(node.name, python_names)}"
            others = f", or {', '.join(python_names)}" if python_names else ""
            raise place.refused(what, node, f"Write a function of DuckDB{others}.")
        instead = INSTEAD.get(type(node).__name__, "")
        what = f"'{place.text_of(node)}'" if isinstance(node, exp.Func) and not instead else describe_node(node)
        raise place.refused(f"{what} is not supported", node, instead)

    def python_function(self, node: Node) -> Function | None:
        """Return the Python function that a node calls; None for any other node."""
        from sqlglot import expressions as exp

        return self.functions.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None

    def _python_call(self, node: Node, function: Function) -> tuple[list[Node], Make]:
        """Return a call of a Python function: within CASE, it is null where an argument is null."""
        check_parts(node, self.place, "this", "expressions")
        if len(node.expressions) != len(function.parameters):
            what = f"'{node.name}' is {function.signature}: got {counted(len(node.expressions), 'argument')}"
            raise self.place.wrong(what, node)

        def made(values: Sequence[Expression]) -> Expression:
            call = Call(function.name, tuple(map(as_text, values)), function=function)
            return call if function.takes_nulls else Call("case", (TRUE, call))

        return list(node.expressions), made

    def _texts(self, values: Sequence[Expression], node: Node) -> tuple[Expression, ...]:
        for value in values:
            kind = self.kind(value)
            if kind is not None and DataType(kind).family != "string":
                raise self.place.mistyped(f"'||' needs texts: got a value of type '{kind}'", node)
        return tuple(values)

    def _call_of(self, op: str, node: Node, *constants: Constant) -> Make:
        """Return a function from a value to a call, for the types that the engine calls it with."""

        def made(values: Sequence[Expression]) -> Expression:
            (value,) = values
            kind = self.kind(value)
            family = None if kind is None or kind == "decimal" else DataType(kind).family
            is_other = kind is not None and (is_long(kind) or (family == "zoned" and not kind.endswith("tz=UTC]")))
            if is_other or (family is not None and family not in _TAKEN.get(op, ("string",))):
                raise self.place.mistyped(f"'{node.sql(self.dialect)}' has a value of type {label(kind)}", node)
            return Call(op, (value, *constants))

        return made

    def _numbers(self, values: Sequence[Expression], node: Node) -> tuple[Expression, ...]:
        """Return numbers as they are, or all as doubles if one is a double."""
        from sqlglot import expressions as exp

        kinds = [self.kind(value) for value in values]
        exact = [_kind_of_digits(value) or kind for value, kind in zip(values, kinds, strict=True)]
        for kind in exact:
            if kind is not None and (group_of(kind) != "number" or is_long(kind)):
                raise self.place.mistyped(f"this calculates with a value of type '{kind}'", node)
        scales = [DataType(kind).digits[1] for kind in exact if kind is not None and kind.startswith("decimal1")]
        if isinstance(node, exp.Mul) and sum(scales) > MAX_DIGITS:
            raise self.place.mistyped(f"this calculates a value of {sum(scales)} digits behind the point", node)
        numbers = {kind for value, kind in zip(values, kinds, strict=True) if not isinstance(value, Constant)}
        if "float" in numbers and len(numbers) > 1 and None not in kinds:
            raise self.place.mistyped("this calculates with floats of 32 bits and other numbers", node)
        if "double" not in kinds or None in kinds:
            return tuple(values)
        return tuple(self._double(value) for value in values)

    def _integers(self, values: Sequence[Expression], node: Node) -> tuple[Expression, ...]:
        for value in values:
            kind = self.kind(value)
            if kind is None or "int" not in kind:
                raise self.place.refused(
                    f"'//' is supported for integers only: got {kind or 'an unknown type'}",
                    node,
                    "Declare the types of columns.",
                )
        return tuple(values)

    def _division(self, node: Node) -> tuple[list[Node], Make]:
        """Return ``/`` of the dialect: of doubles, or of integers with truncation."""
        place = self.place
        check_parts(node, place, "this", "expression", "typed", "safe")
        is_typed = bool(node.args.get("typed"))

        def made(values: Sequence[Expression]) -> Expression:
            kinds = [self.kind(value) for value in values]
            for kind in kinds:
                if kind is not None and is_long(kind):
                    raise self.place.mistyped(f"this calculates with a value of type '{kind}'", node)
            are_integers = all(kind is not None and "int" in kind for kind in kinds)
            if not is_typed and (self.dialect == "duckdb" or (self.dialect in DOUBLE_QUOTIENTS and are_integers)):
                return self._divided("/", tuple(self._double(value) for value in values))
            if (are_integers and is_typed) or all(kind == "double" for kind in kinds):
                return self._divided("/", tuple(values))
            place.of_dialect = place.refused(
                f"'/' in the dialect '{self.dialect}' is not supported for operands of these types"
                f" ({', '.join(kind or 'not known' for kind in kinds)})",
                node,
                "Declare the types of columns, or cast both sides to DOUBLE.",
            )
            raise place.of_dialect

        return [node.this, node.expression], made

    def _divided(self, op: str, values: tuple[Expression, ...]) -> Call:
        """Return ``/`` or ``%``, as a checked function if division by 0 must be an error."""
        is_safe = isinstance(values[1], Constant) and values[1].value != 0
        are_exact = all((self.kind(value) or "").lstrip("u").startswith(("int", "decimal")) for value in values)
        if is_safe or are_exact or self.dialect in INFINITE:
            return Call(op, values)
        return Call(next(name for name, plain in CHECKED.items() if plain == op), values)

    def _double(self, value: Expression) -> Expression:
        if isinstance(value, Constant) and not isinstance(value.value, (bool, str)):
            return Constant(float(value.value))  # type: ignore[arg-type]  # null is excluded by the callers
        return value if self.kind(value) == "double" else Call("double", (value,))

    def _substring(self, node: Node) -> tuple[list[Node], Make]:
        place = self.place
        check_parts(node, place, "this", "start", "length", "zero_start")
        numbers = [
            literal(node.args[argument_name], self.place) if node.args.get(argument_name) is not None else None
            for argument_name in ("start", "length")
        ]
        start, length = (number.value if isinstance(number, Constant) else None for number in numbers)
        if type(start) is not int or start < 1 or type(length) is not int or length < 0:
            what = "SUBSTRING is supported with a constant start, from 1 on, and a constant length"
            error = place.refused(what, node, "Write SUBSTRING(text, 1, 2).")
            if type(start) is not int or start < 1 or (length is not None and type(length) is not int):
                place.of_dialect = error
            raise error
        return [node.this], self._call_of("substr", node, Constant(start - 1), Constant(length))

    def _cast(self, node: Node) -> tuple[list[Node], Make]:
        """Return a cast that keeps every value, so that TRY_CAST means the same."""
        place = self.place
        check_parts(node, place, "this", "to", "safe")
        target = node.args["to"].this.name if hasattr(node.args["to"].this, "name") else ""

        def made(values: Sequence[Expression]) -> Expression:
            (value,) = values
            kind = self.kind(value)
            if target == "DOUBLE":
                if kind == "double":
                    return value
                if kind is None or "int" in kind or kind.startswith(("decimal", "float")):
                    return self._double(value)
            widths = {"BIGINT": 64, "INT": 32, "SMALLINT": 16, "TINYINT": 8}
            if target in widths and kind is not None and kind.startswith("int") and int(kind[3:]) <= widths[target]:
                return value
            same = {"VARCHAR": "string", "TEXT": "string", "BOOLEAN": "bool", "DATE": "date32[day]"}
            if kind is not None and same.get(target) == kind:
                return value
            shown = node.args["to"].sql(self.dialect)
            if target == "USERDEFINED":
                raise place.refused(f"unknown type '{shown}'", node, "Write a type of DuckDB, such as BIGINT.")
            raise place.refused(
                f"a cast of {label(kind)} to {shown} is not supported", node,
                "DOUBLE of numbers, and wider integers of integers whose type is declared, are.",
            )  # fmt: skip

        return [node.this], made
