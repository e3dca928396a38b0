"""Values of SQL expressions, and the branches in which they have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant_folding import fold_constants
from gpu_wcoj.query.ir import NULL, Call, Constant, Expression
from gpu_wcoj.query.sql.conditions import FALSE_VALUE, TRUE_VALUE, UNKNOWN, Conditions, conditions, is_simple
from gpu_wcoj.query.sql.duckdb_calls import NOT_NATIVE
from gpu_wcoj.query.sql.scope import Branch, Case, GroupedScope, Scope, is_date, literal
from gpu_wcoj.query.sql.source import check_parts, has_query

if TYPE_CHECKING:
    from sqlglot.expressions import Column as ColumnNode
    from sqlglot.expressions import Expr as Node


def _is_split(node: Node) -> bool:
    """Return whether a CASE becomes a rule for each value.

    That pays for one comparison of a column, which selects rows by an index.
    """
    from sqlglot import expressions as exp

    if not isinstance(node, exp.Case) or node.this is not None:
        return False
    arms: Sequence[Node] = node.args.get("ifs") or ()
    return len(arms) == 1 and is_simple(arms[0].this)


class Expressions(Conditions):
    """Expressions, as branches with their values."""

    def cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """Return disjoint branches with the values of an expression, null included."""
        from sqlglot import expressions as exp

        if self.is_operand or isinstance(node, (exp.Paren, exp.Alias)):
            return self._native_cases(node, scope, branch)
        try:
            return self._native_cases(node, scope, branch)
        except NOT_NATIVE as error:
            return [self.by_duckdb(node, scope, branch, error)]

    def _native_cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """Return the values of an expression that the engine calculates."""
        from sqlglot import expressions as exp

        leaf = self.leaf(node, scope, branch)
        if leaf is not None:
            return [leaf]
        place = self.place
        constant = literal(node, place)
        if constant is not None:
            return [(branch, constant)]
        if isinstance(node, (exp.Paren, exp.Alias)):
            check_parts(node, place, "this", "alias")
            return self.cases(node.this, scope, branch)
        if isinstance(node, (exp.Column, exp.Star)):
            raise place.wrong("'*' stands for all columns; name one here", node)
        if isinstance(node, exp.Window):
            raise place.wrong("a window function cannot stand here; use it in SELECT or QUALIFY", node)
        if isinstance(node, (exp.AggFunc, exp.Filter)):
            raise place.wrong("an aggregate cannot stand here; use it in SELECT or HAVING", node)
        is_choice = isinstance(node, (*conditions(), exp.Case, exp.If, exp.Coalesce, exp.Nullif))
        is_choice = is_choice or self.python_function(node) is not None
        if is_choice and not _is_split(node) and not has_query(node):
            return [self.value(node, scope, branch)]
        if isinstance(node, conditions()):
            values = ((TRUE_VALUE, Constant(True)), (FALSE_VALUE, Constant(False)), (UNKNOWN, NULL))
            result: list[Case] = [
                (after, value)
                for truth_value, value in values
                for after in self.truth(node, truth_value, scope, branch)
            ]
            self.limited([after for after, _ in result], node)
            return result
        if isinstance(node, (exp.Case, exp.If)):
            return self._case(node, scope, branch)
        if isinstance(node, exp.Coalesce):
            check_parts(node, place, "this", "expressions")
            return self._coalesce([node.this, *node.expressions], scope, branch)
        if isinstance(node, exp.Nullif):
            check_parts(node, place, "this", "expression")
            equal = exp.EQ(this=node.this.copy(), expression=node.expression.copy())
            equal.parent = node
            result = [(after, NULL) for after in self.truth(equal, TRUE_VALUE, scope, branch)]
            for truth_value in (FALSE_VALUE, UNKNOWN):
                result += [
                    c
                    for after in self.truth(equal, truth_value, scope, branch)
                    for c in self.cases(node.this, scope, after)
                ]
            return result
        return self._calculated(node, scope, branch)

    # Columns, keys, aggregates and one-row queries.

    def leaf(self, node: Node, scope: Scope, branch: Branch) -> Case | None:
        """Return the value of a column, key, aggregate or one-row query, else None."""
        from sqlglot import expressions as exp

        if isinstance(scope, GroupedScope):
            case = self.grouped_case(node, scope, branch)
            if case is not None:
                return case
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            return branch, self.column(node, scope, branch)
        if isinstance(node, exp.Subquery):
            return self.single(node, scope, branch)
        return None

    def column(self, node: ColumnNode, scope: Scope, branch: Branch) -> Expression:
        """Return the value of a column, also of an outer query that groups by it."""
        column_number = node.args.get("number")
        if column_number is None:
            column_number = scope.column(node, self.place)
        reach: Scope | None = scope
        while reach is not None and column_number not in branch.values:
            if isinstance(reach, GroupedScope):
                column_number = reach.column_numbers.get(("column", column_number), column_number)
            reach = reach.parent
        if column_number not in branch.values:
            raise self.place.refused(
                f"the column '{node.name}' of the outer query cannot be used here", node, "Name it in WHERE."
            )
        return branch.values[column_number]

    def grouped_case(self, node: Node, scope: GroupedScope, branch: Branch) -> Case | None:
        """Return the value of a key or an aggregate; None for any other expression."""
        from sqlglot import expressions as exp

        if isinstance(node, (exp.Literal, exp.Alias, exp.Paren, exp.Null, exp.Boolean)):
            return None
        if isinstance(node, (exp.Subquery, exp.Query, exp.Exists)):
            return None
        plain = scope.plain
        if (
            isinstance(node, exp.Column)
            and node.args.get("number") is None
            and plain.resolve_local(node, self.place) is None
        ):
            item = None if node.args.get("table") else scope.named.get(self.place.names.key(node.name))
            return None if item is None else self.value(item, replace(scope, named={}), branch)
        column_number = scope.column_numbers.get(self.identity(node, plain))
        if column_number is not None:
            return branch, branch.values[column_number]
        if isinstance(node, exp.Column):
            raise self.place.wrong(
                f"the column '{node.name}' is neither grouped nor aggregated; name it in GROUP BY, or take its MIN",
                node,
            )
        return None

    def identity(self, node: Node, scope: Scope) -> object:
        """Return a key that equal expressions share.

        It holds the parts of the expression, the numbers of columns, and the texts of queries.
        """
        from sqlglot import expressions as exp

        if isinstance(node, exp.Query):  # its columns are not in this scope
            return "query", node.sql()
        if isinstance(node, exp.Paren):
            return self.identity(node.this, scope)
        if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
            column_number = node.args.get("number")
            return "column", column_number if column_number is not None else Scope.column(scope, node, self.place)
        parts = []
        for name, value in sorted(node.args.items()):
            values = value if isinstance(value, list) else [value]
            parts.append(
                (
                    name,
                    tuple(
                        self.identity(value, scope) if hasattr(value, "walk") else str(value)
                        for value in values
                        if value is not None and value is not False
                    ),
                )
            )
        return type(node).__name__, tuple(part for part in parts if part[1])

    # CASE, COALESCE and calculations.

    def operand_cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """Return the values of a part of an expression, which becomes one call as a whole."""
        with self.operands():
            return self.cases(node, scope, branch)

    def _case(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        from sqlglot import expressions as exp

        check_parts(node, self.place, "this", "ifs", "default", "true", "false")
        arms: list[tuple[Node, Node]] = []
        if isinstance(node, exp.If):
            arms.append((node.this, node.args["true"]))
        for arm in node.args.get("ifs") or ():
            check_parts(arm, self.place, "this", "true")
            arm_condition = arm.this
            if isinstance(node, exp.Case) and node.this is not None:
                arm_condition = exp.EQ(this=node.this.copy(), expression=arm.this.copy())
                arm_condition.parent = node
            arms.append((arm_condition, arm.args["true"]))
        default = node.args.get("default") or node.args.get("false")
        result: list[Case] = []
        remaining = [branch]
        for condition, value in arms:
            result += [
                case for where in remaining for after in self.truth(condition, TRUE_VALUE, scope, where)
                for case in self.operand_cases(value, scope, after)
            ]  # fmt: skip
            remaining = [
                after for where in remaining for truth_value in (FALSE_VALUE, UNKNOWN)
                for after in self.truth(condition, truth_value, scope, where)
            ]  # fmt: skip
            self.limited([*remaining, *(after for after, _ in result)], node)
        for where in remaining:
            result += [(where, NULL)] if default is None else self.operand_cases(default, scope, where)
        return [(after, value) for after, (value,) in self.unify_rows([(after, (value,)) for after, value in result])]

    def _coalesce(self, nodes: Sequence[Node], scope: Scope, branch: Branch) -> list[Case]:
        result: list[Case] = []
        remaining = [branch]
        for node in nodes:
            empty: list[Branch] = []
            for where in remaining:
                for there, value in self.operand_cases(node, scope, where):
                    if not there.may_be_null(value):
                        result.append((there, value))
                        continue
                    full, none = there.not_null(value), there.null(value)
                    result += [] if full is None else [(full, value)]
                    empty += [] if none is None else [none]
            remaining = empty
        result += [(after, NULL) for after in remaining]
        return [(after, value) for after, (value,) in self.unify_rows([(after, (value,)) for after, value in result])]

    def _calculated(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        arguments, make = self.function(node)
        function = self.python_function(node)
        with self.operands(is_operand=function is None):
            rows = self.each(arguments, scope, branch)
        if function is not None:
            takes_null = function.takes_nulls
            return [(where, make(values) if takes_null or NULL not in values else NULL) for where, values in rows]
        result: list[Case] = []
        for where, values in rows:
            nullable = [value for value in values if not isinstance(value, Call) and where.may_be_null(value)]
            if NULL in nullable[:1]:
                result.append((where, NULL))
                continue
            remaining: Branch | None = where
            numbers = self.numbered(len(values) if nullable else 0)
            if nullable:
                remaining = where.with_values(dict(zip(numbers, values, strict=True)))
            for column in numbers:
                assert remaining is not None
                value = remaining.values[column]
                if not remaining.may_be_null(value) or isinstance(value, Call):
                    continue
                none, remaining = remaining.null(value), remaining.not_null(value)
                result += [] if none is None else [(none, NULL)]
                if remaining is None:
                    break
            if remaining is not None:
                operands = tuple(remaining.values[column] for column in numbers) if nullable else values
                for operand in operands:
                    if is_date(operand):
                        raise self.place.refused("a date literal can only be compared, or moved by an interval", node)
                result.append((remaining, fold_constants(make(operands))))
        self.limited([after for after, _ in result], node)
        return result
