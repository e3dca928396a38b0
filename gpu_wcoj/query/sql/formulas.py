"""Null-aware calls of SQL expressions and conditions: one value for every row.

A condition other than a conjunction of comparisons becomes a filter, ``istrue(any(...)) = true``. The common conditions
of all sides of an OR are factored out first, so that equalities among them still join. An OR is split into branches
only if each side joins relations that no other condition joins: a filter would be evaluated on all pairs of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.query.constant_folding import equality_key, fold_constants, negated, simplified_call
from gpu_wcoj.query.ir import (
    COMPARING,
    FALSE,
    MIRRORED,
    NULL,
    NULL_AWARE,
    TRUE,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Variable,
    valued_variables,
    variables_of,
)
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.alike import unify_values
from gpu_wcoj.query.sql.branch import Branch
from gpu_wcoj.query.sql.coercion import function
from gpu_wcoj.query.sql.context import Context
from gpu_wcoj.query.sql.known import check_parts
from gpu_wcoj.query.sql.literals import as_text, is_date
from gpu_wcoj.query.sql.scope import Scope

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

MAX_SPLIT = 8
"""Most sides of an OR that is split into branches because each side joins relations."""
BACKSLASH = ("postgres", "redshift", "spark", "databricks", "bigquery", "materialize", "risingwave")
"""Dialects in which a backslash is an escape in LIKE by default."""
_OPERATORS = {op: name for name, op in COMPARING.items()}

Valued = tuple[Branch, Expression]
"""A branch, to which one-row subqueries may have been joined, and the value of an expression in it."""


def formula(context: Context, node: Node, scope: Scope, branch: Branch) -> Valued:
    """Return the value of an expression without subqueries for every row of a branch.

    Subqueries here are EXISTS and IN of a query; the value may be null.
    """
    formulas = _Formulas(context, scope, branch)
    value = formulas.value(node)
    return formulas.branch, value


def nullable(branch: Branch, value: Expression) -> Expression:
    """Return the value of an expression as a call that keeps rows in which it is null."""
    if isinstance(value, Call) and not value.takes_nulls and not is_date(value):
        empty = [variable for variable in value.variables if branch.may_be_null(variable)]
        if empty:
            return Call(
                "case",
                (simplified_call("all", *(negated(simplified_call("isnull", variable)) for variable in empty)), value),
            )
    return value


class _Formulas:
    """Converter of one expression to a null-aware call."""

    def __init__(self, context: Context, scope: Scope, branch: Branch) -> None:
        self.context = context
        self.scope = scope
        self.branch = branch

    def value(self, node: Node) -> Expression:
        from sqlglot import expressions as exp

        context, place = self.context, self.context.place
        constant = context.literal(node)
        if constant is not None:
            return constant
        if isinstance(node, (exp.Paren, exp.Alias)):
            check_parts(node, place, "this", "alias")
            return self.value(node.this)
        leaf = context.leaf(node, self.scope, self.branch)
        if leaf is not None:
            self.branch, leaf_value = leaf
            return leaf_value
        if isinstance(node, exp.Not):
            check_parts(node, place, "this")
            return negated(self.condition(node.this))
        if isinstance(node, (exp.And, exp.Or)):
            check_parts(node, place, "this", "expression")
            return simplified_call("all" if isinstance(node, exp.And) else "any", *map(self.condition, node.flatten()))
        operators: dict[type, str] = {
            exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
        }  # fmt: skip
        if type(node) in operators:
            check_parts(node, place, "this", "expression")
            return self.compared(operators[type(node)], node.this, node.expression, node)
        if isinstance(node, exp.Between):
            check_parts(node, place, "this", "low", "high")
            low, high = (
                self.compared(op, node.this, node.args[bound], node) for bound, op in (("low", ">="), ("high", "<="))
            )
            return simplified_call("all", low, high)
        if isinstance(node, exp.Is):
            return self.tested(node)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            check_parts(node, place, "this", "expression")
            same = self.same(self.value(node.this), self.value(node.expression), node)
            return same if isinstance(node, exp.NullSafeEQ) else negated(same)
        if isinstance(node, exp.In):
            return self.listed(node)
        if isinstance(node, (exp.Like, exp.Escape)):
            return self.like(node)
        if isinstance(node, (exp.Case, exp.If)):
            return self.case(node)
        if isinstance(node, exp.Coalesce):
            check_parts(node, place, "this", "expressions")
            values = unify_values(
                self.context, [self.value(operand) for operand in (node.this, *node.expressions)], node
            )
            pairs = [
                part
                for value in values[:-1]
                for part in (simplified_call("eq", simplified_call("isnull", value), FALSE), value)
            ]
            return simplified_call("case", *pairs, values[-1])
        if isinstance(node, exp.Nullif):
            check_parts(node, place, "this", "expression")
            equal = self.compared("=", node.this, node.expression, node)
            return simplified_call("case", equal, NULL, self.value(node.this))
        return self.calculated(node)

    def condition(self, node: Node) -> Expression:
        """Return an expression that is true, false or unknown."""
        value = self.value(node)
        kind = self.context.kind(value)
        if value != NULL and kind not in (None, "bool"):
            raise self.context.place.mistyped(f"a condition must be a boolean: got type '{kind}'", node)
        return value

    def compared(self, op: str, left: Node, right: Node, node: Node) -> Expression:
        from sqlglot import expressions as exp

        if not isinstance(left, exp.Tuple) and not isinstance(right, exp.Tuple):
            return self.pair(op, self.value(left), self.value(right), node)
        if op not in ("=", "!="):
            raise self.context.place.refused("rows are only compared by = and <>", node)
        sides = [side.expressions if isinstance(side, exp.Tuple) else [side] for side in (left, right)]
        if len(sides[0]) != len(sides[1]):
            what = f"a row of {len(sides[0])} is compared with one of {len(sides[1])}"
            raise self.context.place.wrong(what, node)
        equal = self.same if self.context.dialect == "duckdb" else self.equal
        result = simplified_call(
            "all", *(equal(self.value(a), self.value(b), node) for a, b in zip(*sides, strict=True))
        )
        return result if op == "=" else negated(result)

    def pair(self, op: str, left: Expression, right: Expression, node: Node) -> Expression:
        """Return the comparison of two values, converted to types that compare."""
        if NULL in (left, right):
            return NULL
        left, right = self.context.unify_pair(left, right, node)
        if isinstance(left, Constant) and not isinstance(right, Constant):
            return self.pair(MIRRORED[op], right, left, node)
        return simplified_call(_OPERATORS[op], left, right)

    def equal(self, left: Expression, right: Expression, node: Node) -> Expression:
        return self.pair("=", left, right, node)

    def same(self, left: Expression, right: Expression, node: Node) -> Expression:
        """Return IS NOT DISTINCT FROM."""
        both = simplified_call(
            "all", simplified_call("isnull", as_text(left)), simplified_call("isnull", as_text(right))
        )
        return simplified_call("any", simplified_call("istrue", self.equal(left, right, node)), both)

    def tested(self, node: Node) -> Expression:
        """Return IS NULL, IS TRUE or IS FALSE."""
        from sqlglot import expressions as exp

        check_parts(node, self.context.place, "this", "expression")
        right = node.expression
        if isinstance(right, exp.Boolean):
            condition = self.condition(node.this)
            return simplified_call("istrue", condition if right.this else negated(condition))
        if not isinstance(right, exp.Null):
            raise self.context.place.refused("IS is supported with NULL, TRUE and FALSE", node)
        return simplified_call("isnull", as_text(self.value(node.this)))

    def listed(self, node: Node) -> Expression:
        """Return IN with a list."""
        from sqlglot import expressions as exp

        check_parts(node, self.context.place, "this", "expressions")
        if not node.expressions:
            raise self.context.place.wrong("the list of IN is empty", node)
        if isinstance(node.this, exp.Tuple):
            return simplified_call("any", *(self.compared("=", node.this, row, node) for row in node.expressions))
        value = self.value(node.this)
        equal = [self.pair("=", value, self.value(element), node) for element in node.expressions]
        return simplified_call("any", *equal)

    def like(self, node: Node) -> Expression:
        context = self.context
        text, pattern, is_negated = like_parts(context, node)
        value = self.value(text)
        if value == NULL:
            return NULL
        call = simplified_call("like", value, *pattern)
        return negated(call) if is_negated else call

    def case(self, node: Node) -> Expression:
        """Return CASE: conditions and values in turn, and the value of ELSE."""
        from sqlglot import expressions as exp

        check_parts(node, self.context.place, "this", "ifs", "default", "true", "false")
        conditions: list[Expression] = []
        values: list[Expression] = []
        if isinstance(node, exp.If):
            conditions.append(self.condition(node.this))
            values.append(self.value(node.args["true"]))
        subject = node.this if isinstance(node, exp.Case) else None
        for arm in node.args.get("ifs") or ():
            check_parts(arm, self.context.place, "this", "true")
            if subject is None:
                conditions.append(self.condition(arm.this))
            else:
                conditions.append(self.compared("=", subject, arm.this, arm))
            values.append(self.value(arm.args["true"]))
        default = node.args.get("default") or node.args.get("false")
        values.append(NULL if default is None else self.value(default))
        values = unify_values(self.context, values, node)
        pairs = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
        return simplified_call("case", *pairs, values[-1])

    def calculated(self, node: Node) -> Expression:
        """Return arithmetic or a function call, which is null if an argument is null."""
        arguments, make = function(self.context, node)
        values = [self.value(argument) for argument in arguments]
        if NULL in values:
            return NULL
        for value in values:
            if is_date(value):
                what = "a date literal can only be compared, or moved by an interval"
                raise self.context.place.refused(what, node)
        return fold_constants(make(values))


def like_parts(context: Context, node: Node) -> tuple[Node, tuple[Expression, ...], bool]:
    """Return the text of a LIKE, its pattern and escape, and whether it is NOT LIKE."""
    from sqlglot import expressions as exp

    place = context.place
    escape: tuple[Expression, ...] = (Constant("\\"),) if context.dialect in BACKSLASH else ()
    like = node
    if isinstance(node, exp.Escape):
        check_parts(node, place, "this", "expression")
        like = node.this
        char = context.literal(node.expression)
        is_char = isinstance(char, Constant) and isinstance(char.value, str) and len(char.value) == 1
        if not isinstance(like, exp.Like) or char is None or not is_char:
            raise place.refused("ESCAPE is supported behind LIKE, with a character", node)
        escape = (char,)
    check_parts(like, place, "this", "expression", "negate")
    pattern = context.literal(like.expression)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise place.refused("LIKE is supported with a constant pattern", like)
    return like.this, (pattern, *escape), bool(like.args.get("negate"))


def where_true(context: Context, branch: Branch, condition: Expression) -> list[Branch]:
    """Return the branches where a condition is true: mostly one."""
    if isinstance(condition, Constant):
        return [branch] if condition == TRUE else []
    if isinstance(condition, Variable):
        return _as_list(branch.compared("=", condition, TRUE))
    assert isinstance(condition, Call)
    op, arguments = condition.op, condition.arguments
    if op == "all":
        return _conjunction(context, branch, arguments)
    if op == "any":
        return _any(context, branch, condition)
    if op in COMPARING and not any(isinstance(argument, Call) and argument.takes_nulls for argument in arguments):
        return _as_list(branch.compared(COMPARING[op], *arguments))
    if op == "among" and isinstance(arguments[0], Variable):
        is_double = context.kind(arguments[0]) == "double"
        distinct = {
            equality_key(argument, is_double=is_double): argument for argument in arguments[1:] if argument != NULL
        }
        return listed(context, branch, arguments[:1], [(constant,) for constant in distinct.values()])
    if op not in NULL_AWARE and not condition.takes_nulls:
        return _as_list(branch.compared("=", condition, TRUE))
    return _as_list(filtered(branch, condition))


def _as_list(branch: Branch | None) -> list[Branch]:
    return [] if branch is None else [branch]


def filtered(branch: Branch, condition: Expression) -> Branch | None:
    """Return the branch with a filter, or None if it never holds."""
    test = simplified_call("istrue", condition)
    if isinstance(test, Constant):
        return branch if test == TRUE else None
    comparison = Comparison("=", test, TRUE)
    required = branch.required(_valued(condition) - branch.non_null)
    return (
        required
        if comparison in required.comparisons
        else replace(required, comparisons=(*required.comparisons, comparison))
    )


def _valued(condition: Expression, truth: Constant = TRUE) -> frozenset[Variable]:
    """Return the variables that are not null wherever a condition is true, or false."""
    if isinstance(condition, Variable):
        return frozenset((condition,))
    if not isinstance(condition, Call):
        return frozenset()
    op, arguments = condition.op, condition.arguments
    if op == "eq" and arguments[1] == FALSE:
        return _valued(arguments[0], FALSE if truth == TRUE else TRUE)
    if op in ("all", "any"):
        parts = [_valued(argument, truth) for argument in arguments]
        return frozenset.union(*parts) if (op == "all") == (truth == TRUE) else frozenset.intersection(*parts)
    if op == "istrue":
        return _valued(arguments[0]) if truth == TRUE else frozenset()
    if op == "isnull":
        value = arguments[0]
        return frozenset(valued_variables([value])) if truth == FALSE else frozenset()
    if op == "case":
        return frozenset()
    return frozenset(valued_variables(arguments[:1] if op == "among" else arguments)).union(
        *(_needed(argument) for argument in arguments if isinstance(argument, Call))
    )


def _needed(value: Call) -> frozenset[Variable]:
    """Return the variables that make a value null if they are null."""
    if value.op in ("case", "istrue", "isnull", "all", "any"):
        return frozenset()
    return frozenset(argument for argument in value.arguments if isinstance(argument, Variable)).union(
        *(_needed(argument) for argument in value.arguments if isinstance(argument, Call))
    )


def filtered_each(context: Context, branch: Branch, parts: Sequence[Expression]) -> list[Branch]:
    """Return the branches where all conditions are true.

    Conditions on the same variables become one filter.
    """
    groups: dict[frozenset[Variable], list[Expression]] = {}
    for part in parts:
        groups.setdefault(frozenset(variables_of([part])), []).append(part)
    branches: list[Branch] = [branch]
    for conditions in groups.values():
        if len(conditions) == 1:
            branches = [after for before in branches for after in where_true(context, before, conditions[0])]
        else:
            branches = [
                after
                for before in branches
                if (after := filtered(before, simplified_call("all", *conditions))) is not None
            ]
    return branches


def _conjunction(context: Context, branch: Branch, parts: Iterable[Expression]) -> list[Branch]:
    """Return the branches where all conditions are true; those that may split come last."""
    ordered = sorted(parts, key=lambda part: isinstance(part, Call) and part.op == "any")
    numbers = context.numbered(len(ordered))
    branches = [branch.with_values(dict(zip(numbers, ordered, strict=True)))]
    for column in numbers:
        branches = [after for before in branches for after in where_true(context, before, before.values[column])]
    return [
        replace(candidate, values={key: value for key, value in candidate.values.items() if key not in numbers})
        for candidate in branches
    ]


def listed(
    context: Context, branch: Branch, values: Sequence[Expression], rows: Sequence[tuple[Expression, ...]],
    is_negated: bool = False,
) -> list[Branch]:  # fmt: skip
    """Return the branches where values are a row of a list, stored as a relation."""
    if not rows:
        return [branch] if is_negated else []
    name = context.helper("in")
    context.rules += [Rule(Atom(name, row), ()) for row in rows]
    if is_negated:
        return [replace(branch, negated=(*branch.negated, Atom(name, tuple(values))))]
    terms = tuple(context.fresh("value", context.kind(value)) for value in values)
    joined = branch.joined(Branch((Atom(name, terms),), non_null=frozenset(terms)))
    return context.equated(joined, list(zip(values, terms, strict=True)))


def _any(context: Context, branch: Branch, condition: Call) -> list[Branch]:
    """Return the branches where at least one condition is true."""
    sides = [_conjuncts(argument) for argument in condition.arguments]
    common = [conjunct for conjunct in sides[0] if all(conjunct in side for side in sides[1:])]
    if common:
        remainders = [
            simplified_call("all", *(conjunct for conjunct in side if conjunct not in common)) for side in sides
        ]
        return _conjunction(context, branch, [*common, simplified_call("any", *remainders)])
    if len(sides) <= MAX_SPLIT and all(any(_joins(branch, conjunct) for conjunct in side) for side in sides):
        return _split(context, branch, condition.arguments)
    for implied in _implied(branch, sides):
        branch = filtered(branch, implied) or branch.never()
    return _as_list(filtered(branch, condition))


def _conjuncts(condition: Expression) -> tuple[Expression, ...]:
    return condition.arguments if isinstance(condition, Call) and condition.op == "all" else (condition,)


def _joins(branch: Branch, condition: Expression) -> bool:
    """Return whether a condition joins relations of a branch that nothing joins so far."""
    if not isinstance(condition, Call) or condition.op != "eq":
        return False
    left, right = condition.arguments
    if not isinstance(left, Variable) or not isinstance(right, Variable) or left in branch.fixed | {right}:
        return False
    reached = {left}
    waiting = [set(variables_of(atom.terms)) for atom in branch.atoms]
    while True:
        joined = [atom_variables for atom_variables in waiting if reached & atom_variables]
        if not joined:
            return right not in reached
        waiting = [atom_variables for atom_variables in waiting if atom_variables not in joined]
        reached.update(*joined)


def _split(context: Context, branch: Branch, sides: Sequence[Expression]) -> list[Branch]:
    """Return disjoint branches, one for each side of an OR.

    In a branch its side is true and no earlier one is, so that a bag has each row once.
    """
    numbers = context.numbered(len(sides))
    branch = branch.with_values(dict(zip(numbers, sides, strict=True)))
    branches = []
    for position, column in enumerate(numbers):
        for side_branch in where_true(context, branch, branch.values[column]):
            before = [negated(simplified_call("istrue", side_branch.values[earlier])) for earlier in numbers[:position]]
            branches += _conjunction(context, side_branch, before)
    return [
        replace(result, values={key: value for key, value in result.values.items() if key not in numbers})
        for result in branches
    ]


def _implied(branch: Branch, sides: Sequence[Sequence[Expression]]) -> Iterator[Expression]:
    """Yield conditions on single relations that an OR over several implies.

    They are checked earlier than the OR.
    """
    atoms = [frozenset(variables_of(atom.terms)) for atom in branch.atoms]
    everything = {variable for side in sides for part in side for variable in variables_of([part])}
    for atom_variables in dict.fromkeys(atoms):
        if everything <= atom_variables:
            continue
        parts = [
            [
                condition
                for condition in side
                if _is_plain(condition) and set(variables_of([condition])) <= atom_variables
            ]
            for side in sides
        ]
        if all(parts):
            yield simplified_call("any", *(simplified_call("all", *part) for part in parts))


def _is_plain(condition: Expression) -> bool:
    """Return whether a condition has no calculation, and so a result for every row."""
    if isinstance(condition, Call):
        return condition.op in NULL_AWARE and all(map(_is_plain, condition.arguments))
    return True
