"""Expressions that the engine does not calculate itself, as calls that DuckDB evaluates.

The largest such expression becomes one call. Its arguments are the columns, keys, aggregates and one-row queries in it.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING

from gpu_wcoj.arrow import sql_expressions
from gpu_wcoj.data.schema import INT64, DataType
from gpu_wcoj.errors import GpuWcojError, TypeMismatchError, UnsupportedError
from gpu_wcoj.query.ir import NULL, Call, Constant, Expression, variables_of
from gpu_wcoj.query.sql.coercion import CLOCK, INSTEAD, Coercion, group_of, sql_call
from gpu_wcoj.query.sql.scope import DATE, TIMES, Branch, Case, GroupedScope, Scope, as_text, digits_of_constant
from gpu_wcoj.query.sql.source import describes_columns

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


NOT_NATIVE = (UnsupportedError, TypeMismatchError)
"""Errors of an expression that the engine does not calculate itself."""


@lru_cache(maxsize=4096)
def _binding(expression: str, kinds: tuple[DataType, ...], text: str, is_window: bool) -> sql_expressions.Binding:
    return sql_expressions.bind(expression, kinds, text, is_window)


def _bound(expression: str, kinds: tuple[DataType, ...], text: str, is_window: bool = False) -> sql_expressions.Binding:
    """Return what DuckDB says of an expression; it is remembered while DuckDB is there."""
    sql_expressions.require_duckdb(f"'{text}'")
    return _binding(expression, kinds, text, is_window)


def _is_of_one_atom(branch: Branch, values: Iterable[Expression]) -> bool:
    """Return whether the variables of values are in one atom."""
    variables = set(variables_of(values))
    return not variables or any(variables.issubset(atom.terms) for atom in branch.atoms)


_TARGETS = {"number": ("number", ("HUGEINT", "DOUBLE")), "time": ("date or a time", ("TIMESTAMPTZ", "TIME"))}
"""Per group of types, what its values are, and the types of which one takes a text that is one."""


class DuckDBCalls(Coercion):
    """Calls of expressions that DuckDB evaluates.

    Attributes
    ----------
    is_operand
        Whether the expression that is compiled is part of a larger one, which then becomes the call.
    """

    is_operand: bool = False

    @contextmanager
    def operands(self, is_operand: bool = True) -> Generator[None]:
        """Context in which expressions are parts of a larger one, or are not."""
        around, self.is_operand = self.is_operand, is_operand
        try:
            yield
        finally:
            self.is_operand = around

    def by_duckdb(
        self, node: Node, scope: Scope, branch: Branch, error: GpuWcojError, is_condition: bool = False
    ) -> Case:
        """Return the value of an expression as a call that DuckDB evaluates.

        A condition over values of different types joins no relations: all pairs of rows would have to be compared.

        Raises
        ------
        GpuWcojError
            `error`, which says what the engine does not do, if DuckDB does not do it either; or DuckDB's reason.
        """
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Tuple, exp.Collate)):  # what compares a text has its collation
            raise error
        if error is self.place.refused_part or (error is self.place.of_dialect and self.dialect != "duckdb"):
            raise error  # what the dialect means by it may be lost in the translation
        arguments: dict[tuple[Expression, DataType], str] = {}
        is_of_columns = describes_columns(node, self.functions)

        def argument(piece: Node) -> Node | None:
            nonlocal branch
            if self.is_native_part(piece):
                with self.operands():
                    branch, value = self.formula(piece, scope, branch)
            else:
                case = self.leaf(piece, scope, branch)
                if case is None:
                    if isinstance(piece, (exp.AggFunc, exp.Filter, exp.Window)):
                        raise error
                    return None
                branch, value = case
            if is_of_columns and not self._is_stored(value, branch):
                what = f"'{self.place.text_of(node)}' asks for the type of a value that is calculated"
                raise self.place.refused(what, node, "Ask for the types of columns of tables.")
            kind = self._type_of_null(piece, scope) if value == NULL else self._type_of(value, piece, node)
            if kind is None:
                return exp.Null()
            name = arguments.setdefault((value, kind), sql_expressions.column_name(len(arguments)))
            return exp.column(name, quoted=True)

        expression = self.translated(node, argument, error)
        values, kinds = tuple(value for value, _ in arguments), tuple(kind for _, kind in arguments)
        is_join = is_condition and not isinstance(scope, GroupedScope) and not _is_of_one_atom(branch, values)
        if is_join and isinstance(error, TypeMismatchError):
            raise error
        self._check_texts(node, kinds)
        shown = self.place.text_of(node)
        binding = _bound(expression, kinds, shown)
        if binding.problem:
            raise self._refused(node, binding, error)
        if binding.kind is None:
            return branch, NULL
        if not arguments:
            constant = self._constant(expression, binding.kind, node)
            if constant is not None:
                return branch, constant
        return branch, sql_call(expression, tuple(map(as_text, values)), kinds, binding.kind)

    def _is_stored(self, value: Expression, branch: Branch) -> bool:
        """Return whether a value is that of a column of a table, which has DuckDB's type."""
        return any(atom.relation in self.tables and value in atom.terms for atom in branch.atoms)

    def _check_texts(self, node: Node, kinds: Iterable[DataType]) -> None:
        """Raise if a text is compared with columns of numbers or times, and is not one."""
        from sqlglot import expressions as exp

        groups = {group_of(kind.name) for kind in kinds}
        target = _TARGETS.get(min(groups)) if len(groups) == 1 else None
        if target is None or not isinstance(node, exp.Predicate):
            return
        parts = list(node.iter_expressions())
        texts = [part for part in parts if isinstance(part, exp.Literal) and part.is_string]
        if not all(part in texts or isinstance(part, exp.Column) for part in parts):
            return
        what, types = target
        for text in (part.sql("duckdb") for part in texts):
            tried = " AND ".join(f"TRY_CAST({text} AS {kind}) IS NULL" for kind in types)
            if sql_expressions.constant(tried):
                error = self.place.mistyped(f"the text {text} is not a {what}", node)
                error.args = (f"{error}\n  Compare the column with a {what}.",)
                raise error

    def bound_group(
        self, expression: str, kinds: Sequence[str | None], node: Node, is_window: bool = False
    ) -> DataType:
        """Return the type of an aggregate or a window over columns of these types.

        Raises
        ------
        UnsupportedError
            If a type is not known, or DuckDB does not compute it.
        """
        shown = self.place.text_of(node)
        used = {int(number) for number in re.findall(r'"\$(\d+)"', expression)}
        if any(kinds[number] in (None, "decimal") for number in used):
            what = f"'{shown}' needs the types of its columns, and one of them is not known"
            raise self.place.refused(what, node, "Declare the types of columns.")
        known = (DataType(DataType(kind).value_name if kind and kind != "decimal" else "int64") for kind in kinds)
        binding = _bound(expression, tuple(known), shown, is_window)
        if binding.problem or binding.kind is None:
            what = f"'{shown}' cannot be computed: {binding.problem or 'it is always null'}"
            raise self.place.refused(what, node, "COUNT, SUM, MIN, MAX and AVG can." * binding.is_unknown)
        return binding.kind

    def constant_of_no_rows(self, expression: str, kinds: Sequence[str | None]) -> Constant:
        """Return the value of an aggregate of no rows."""
        known = [DataType(kind) if kind and kind != "decimal" else INT64 for kind in kinds]
        value = sql_expressions.value_of_no_rows(expression, known)
        return Constant(value) if isinstance(value, (int, float, str)) else NULL

    def is_native_part(self, node: Node) -> bool:
        """Return whether an expression is an argument of a call as a whole, though it is calculated."""
        from sqlglot import expressions as exp

        # what other dialects divide has their types
        is_quotient = self.dialect != "duckdb" and isinstance(node, (exp.Div, exp.IntDiv, exp.Mod))
        return is_quotient or self.python_function(node) is not None

    def translated(self, node: Node, argument: Callable[[Node], Node | None], error: GpuWcojError) -> str:
        """Return an expression in DuckDB's dialect.

        `argument` returns what stands for a part, and None for one of which the parts are looked at.

        Raises
        ------
        GpuWcojError
            `error`, if it contains a query or cannot be translated.
        """
        from sqlglot import expressions as exp
        from sqlglot.errors import ErrorLevel
        from sqlglot.errors import UnsupportedError as UntranslatedError

        def replaced(piece: Node) -> Node:
            is_several = isinstance(piece, exp.Star) and not isinstance(piece.parent, exp.Count)
            if is_several or isinstance(piece, exp.Columns):
                raise self.place.refused("several columns in an expression are not supported", piece, "Name them.")
            if isinstance(piece, (exp.Lambda, exp.Star)):
                return piece
            if isinstance(piece, (exp.Any, exp.All)) and piece.find(exp.Query) is not None:
                raise error
            found = argument(piece)
            is_query = isinstance(piece, (exp.Query, exp.SubqueryPredicate)) or piece.args.get("query") is not None
            if found is None and (is_query or isinstance(piece, (exp.Placeholder, exp.Parameter))):
                raise error
            return piece if found is None else found

        self.place.check_meaning(node, self.dialect)
        with self.operands(is_operand=False):
            tree = node.unalias().transform(replaced)
        try:
            return tree.sql(dialect="duckdb", comments=False, unsupported_level=ErrorLevel.RAISE)
        except UntranslatedError:
            raise error from None

    def _refused(self, node: Node, binding: sql_expressions.Binding, error: GpuWcojError) -> GpuWcojError:
        """Return the error for an expression that DuckDB does not evaluate."""
        if binding.is_unknown or isinstance(error, TypeMismatchError) or type(node).__name__ in INSTEAD:
            return error
        instead = CLOCK if "other results" in binding.problem else ""
        return self.place.refused(
            f"'{self.place.text_of(node)}' cannot be calculated: {binding.problem}", node, instead
        )

    def _type_of_null(self, piece: Node, scope: Scope) -> DataType | None:
        """Return the type of a column that is null in a branch; None if it is unknown."""
        from sqlglot import expressions as exp

        if not isinstance(piece, exp.Column) or isinstance(scope, GroupedScope):
            return None
        number = piece.args.get("number")
        kind = self.column_kinds.get(scope.column(piece, self.place) if number is None else number)
        return None if kind is None or kind == "decimal" else DataType(DataType(kind).value_name)

    def _type_of(self, value: Expression, piece: Node, node: Node) -> DataType:
        """Return the type of an argument."""
        if isinstance(value, Constant) and isinstance(value.value, Decimal):
            precision, scale = digits_of_constant(value.value)
            return DataType(f"decimal128({precision}, {scale})")
        name = self.kind(as_text(value))
        if name is None or name == "decimal":
            shown = self.place.text_of(node)
            what = f"'{shown}' needs the types of its columns, and that of '{piece.sql()}' is not known"
            raise self.place.refused(what, piece, "Declare the types of columns.")
        return DataType(DataType(name).value_name)

    def _constant(self, expression: str, kind: DataType, node: Node) -> Expression | None:
        """Return the value of an expression without columns; None if no constant can hold it."""
        from sqlglot import expressions as exp

        try:
            value = sql_expressions.constant(expression)
        except ValueError as error:
            if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
                what, target = str(error), node.to.sql()
                if target in TIMES:
                    form = ("date", "") if target == "DATE" else ("time", " 23:59:59")
                    what = f"'{node.this.this}' is not a valid {form[0]}; write it as 2026-01-31{form[1]}"
                raise self.place.wrong(what, node) from None
            return None  # it may fail only where its row counts
        if value is None:
            return NULL
        if kind.name in ("timestamp[us]", "timestamp[us, tz=UTC]") and isinstance(value, dt.datetime):
            zone = dt.UTC if value.tzinfo is not None else None
            moment = value.astimezone(zone) if zone is not None else value
            return Call(DATE, (Constant(moment.isoformat(sep=" ")),))
        if kind.family == "date" and isinstance(value, dt.date):
            return Call(DATE, (Constant(value.isoformat()),))
        is_number = type(value) is int and -(2**63) <= value < 2**63 and kind.family == "integer"
        is_number = is_number or (type(value) is float and math.isfinite(value) and kind.family == "float64")
        is_number = is_number or (isinstance(value, Decimal) and kind.family == "decimal")
        if is_number or type(value) is bool or (type(value) is str and kind.family == "string"):
            return Constant(value)
        return None
