"""Conditions as disjoint branches in which they are true, false or unknown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gpu_wcoj.arrow.constants import is_value
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import counted
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
    Rule,
    Variable,
    valued_variables,
    variables_of,
)
from gpu_wcoj.query.sql.coercion import group_of
from gpu_wcoj.query.sql.duckdb_calls import NOT_NATIVE, DuckDBCalls
from gpu_wcoj.query.sql.scope import MAX_CASES, Branch, Case, Conjunction, Scope, Values, as_text, is_date, literal
from gpu_wcoj.query.sql.source import check_parts, has_query
from gpu_wcoj.user_functions import SqlFunction

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


_ZERO = Constant(0)


def added_to(row: Branch, pair: Branch) -> Branch:
    """Return the atoms and conditions of a pair that the row does not have."""
    atoms = pair.atoms[len(row.atoms) :]
    negated = pair.negated[len(row.negated) :]
    comparisons = Conjunction(pair.comparisons[len(row.comparisons) :])
    return replace(pair, atoms=atoms, negated=negated, comparisons=comparisons)


def creation_order(variable: Variable) -> tuple[int, str]:
    """Return a key by which variables are sorted as they were made."""
    return int(variable.name.rsplit("#", 1)[-1]), variable.name


# Null-aware calls of SQL expressions and conditions: one value for every row.
#
# A condition other than a conjunction of comparisons becomes a filter, ``istrue(any(...)) = true``. The common
# conditions of all sides of an OR are factored out first, so that equalities among them still join. An OR is split into
# branches only if each side joins relations that no other condition joins: a filter would be evaluated on all pairs of
# rows.


MAX_SPLIT = 8
"""Most sides of an OR that is split into branches because each side joins relations."""
BACKSLASH = ("postgres", "redshift", "spark", "databricks", "bigquery", "materialize", "risingwave")
"""Dialects in which a backslash is an escape in LIKE by default."""
_OPERATORS = {op: name for name, op in COMPARING.items()}


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

    def __init__(self, compiler: Conditions, scope: Scope, branch: Branch) -> None:
        self.compiler = compiler
        self.scope = scope
        self.branch = branch

    def value(self, node: Node) -> Expression:
        """Return the value of an expression."""
        from sqlglot import expressions as exp

        compiler = self.compiler
        if compiler.is_operand or isinstance(node, (exp.Paren, exp.Alias)):
            return self.native(node)
        branch = self.branch
        try:
            return self.native(node)
        except NOT_NATIVE as error:
            self.branch, value = compiler.by_duckdb(node, self.scope, branch, error)
            return value

    def native(self, node: Node) -> Expression:
        """Return the value of an expression that the engine calculates."""
        from sqlglot import expressions as exp

        compiler, place = self.compiler, self.compiler.place
        constant = literal(node, place)
        if constant is not None:
            return constant
        if isinstance(node, (exp.Paren, exp.Alias)):
            check_parts(node, place, "this", "alias")
            return self.value(node.this)
        leaf = compiler.leaf(node, self.scope, self.branch)
        if leaf is not None:
            self.branch, leaf_value = leaf
            return leaf_value
        if isinstance(node, exp.Not):
            check_parts(node, place, "this")
            return negated(self.condition(node.this))
        if isinstance(node, (exp.And, exp.Or)):
            check_parts(node, place, "this", "expression")
            return simplified_call("all" if isinstance(node, exp.And) else "any", *map(self.condition, node.flatten()))
        operators = _operators()
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
            with compiler.operands():
                operands = [self.value(operand) for operand in (node.this, *node.expressions)]
            values = compiler.unify_values(operands, node)
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

    def operand(self, node: Node) -> Expression:
        """Return the value of a part of an expression, which becomes one call as a whole."""
        with self.compiler.operands():
            return self.value(node)

    def condition(self, node: Node) -> Expression:
        """Return an expression that is true, false or unknown."""
        with self.compiler.operands(is_operand=False):
            value = self.value(node)
        kind = self.compiler.kind(value)
        if value != NULL and kind not in (None, "bool"):
            raise self.compiler.place.mistyped(f"a condition must be a boolean: got type '{kind}'", node)
        return value

    def compared(self, op: str, left: Node, right: Node, node: Node) -> Expression:
        from sqlglot import expressions as exp

        if not isinstance(left, exp.Tuple) and not isinstance(right, exp.Tuple):
            with self.compiler.operands(is_operand=False):
                values = self.value(left), self.value(right)
            return self.pair(op, values[0], values[1], node)
        if op not in ("=", "!="):
            raise self.compiler.place.refused("rows are only compared by = and <>", node)
        rows = [side.expressions if isinstance(side, exp.Tuple) else [side] for side in (left, right)]
        if len(rows[0]) != len(rows[1]):
            what = f"a row of {len(rows[0])} is compared with one of {len(rows[1])}"
            raise self.compiler.place.wrong(what, node)
        equal = self.same if self.compiler.dialect == "duckdb" else self.equal
        result = simplified_call(
            "all", *(equal(self.value(a), self.value(b), node) for a, b in zip(*rows, strict=True))
        )
        return result if op == "=" else negated(result)

    def pair(self, op: str, left: Expression, right: Expression, node: Node) -> Expression:
        """Return the comparison of two values, converted to types that compare."""
        if NULL in (left, right):
            return NULL
        left, right = self.compiler.unify_pair(left, right, node)
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

        check_parts(node, self.compiler.place, "this", "expression")
        right = node.expression
        if isinstance(right, exp.Boolean):
            condition = self.condition(node.this)
            return simplified_call("istrue", condition if right.this else negated(condition))
        if not isinstance(right, exp.Null):
            raise self.compiler.place.refused("IS is supported with NULL, TRUE and FALSE", node)
        return simplified_call("isnull", as_text(self.value(node.this)))

    def listed(self, node: Node) -> Expression:
        """Return IN with a list."""
        from sqlglot import expressions as exp

        check_parts(node, self.compiler.place, "this", "expressions")
        if not node.expressions:
            raise self.compiler.place.wrong("the list of IN is empty", node)
        if isinstance(node.this, exp.Tuple):
            return simplified_call("any", *(self.compared("=", node.this, row, node) for row in node.expressions))
        value = self.value(node.this)
        equal = [self.pair("=", value, self.value(element), node) for element in node.expressions]
        return simplified_call("any", *equal)

    def like(self, node: Node) -> Expression:
        text, pattern, is_negated = self.compiler.like_parts(node)
        value = self.value(text)
        if value == NULL:
            return NULL
        call = simplified_call("like", value, *pattern)
        return negated(call) if is_negated else call

    def case(self, node: Node) -> Expression:
        """Return CASE: conditions and values in turn, and the value of ELSE."""
        from sqlglot import expressions as exp

        check_parts(node, self.compiler.place, "this", "ifs", "default", "true", "false")
        conditions: list[Expression] = []
        values: list[Expression] = []
        if isinstance(node, exp.If):
            conditions.append(self.condition(node.this))
            values.append(self.operand(node.args["true"]))
        subject = node.this if isinstance(node, exp.Case) else None
        for arm in node.args.get("ifs") or ():
            check_parts(arm, self.compiler.place, "this", "true")
            if subject is None:
                conditions.append(self.condition(arm.this))
            else:
                conditions.append(self.compared("=", subject, arm.this, arm))
            values.append(self.operand(arm.args["true"]))
        default = node.args.get("default") or node.args.get("false")
        values.append(NULL if default is None else self.operand(default))
        values = self.compiler.unify_values(values, node)
        pairs = [part for pair in zip(conditions, values[:-1], strict=True) for part in pair]
        return simplified_call("case", *pairs, values[-1])

    def calculated(self, node: Node) -> Expression:
        """Return arithmetic or a function call, which is null if an argument is null."""
        arguments, make = self.compiler.function(node)
        function = self.compiler.python_function(node)
        with self.compiler.operands(is_operand=function is None):
            values = [self.value(argument) for argument in arguments]
        if NULL in values and (function is None or not function.takes_nulls):
            return NULL
        for value in values:
            if is_date(value) and function is None:
                what = "a date literal can only be compared, or moved by an interval"
                raise self.compiler.place.refused(what, node)
        return fold_constants(make(values))


def _as_list(branch: Branch | None) -> list[Branch]:
    return [] if branch is None else [branch]


def filtered(branch: Branch, condition: Expression) -> Branch | None:
    """Return the branch with a filter, or None if it never holds."""
    test = simplified_call("istrue", condition)
    if isinstance(test, Constant):
        return branch if test == TRUE else None
    return branch.required(_valued(condition) - branch.non_null).restricted(Comparison("=", test, TRUE))


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
    if op == "case" or (condition.function is not None and condition.function.takes_nulls):
        return frozenset()
    return frozenset(valued_variables(arguments[:1] if op == "among" else arguments)).union(
        *(_needed(argument) for argument in arguments if isinstance(argument, Call))
    )


def _needed(value: Call) -> frozenset[Variable]:
    """Return the variables that make a value null if they are null."""
    is_called_for_null = value.function is not None and value.function.takes_nulls
    if is_called_for_null or value.op in ("case", "istrue", "isnull", "all", "any"):
        return frozenset()
    return frozenset(argument for argument in value.arguments if isinstance(argument, Variable)).union(
        *(_needed(argument) for argument in value.arguments if isinstance(argument, Call))
    )


def _strict(value: Expression) -> Expression:
    """Return a call of a Python function without its CASE, as comparisons need no null."""
    if isinstance(value, Call) and value.op == "case" and value.arguments[0] == TRUE and len(value.arguments) == 2:
        call = value.arguments[1]
        if isinstance(call, Call) and call.function is not None and not call.takes_nulls:
            return call
    return value


def _is_compared(side: Expression) -> bool:
    """Return whether a side of a comparison is calculated by itself, so that it can join."""
    if not isinstance(side, Call) or not side.takes_nulls:
        return True
    is_sql = isinstance(side.function, SqlFunction)
    return is_sql and not any(isinstance(argument, Call) and argument.takes_nulls for argument in side.arguments)


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


TRUE_VALUE, FALSE_VALUE, UNKNOWN = "T", "F", "U"
_OPPOSITE = {TRUE_VALUE: FALSE_VALUE, FALSE_VALUE: TRUE_VALUE, UNKNOWN: UNKNOWN}
MAX_INEQUALITIES = 8
"""Most constants of NOT IN that are compared one by one; a longer list becomes a relation."""
NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conditions() -> tuple[type, ...]:
    """Return the classes of nodes that are true, false or unknown."""
    from sqlglot import expressions as exp

    return (
        exp.Not, exp.And, exp.Or, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.Is,
        exp.NullSafeEQ, exp.NullSafeNEQ, exp.In, exp.Exists, exp.Like, exp.Escape,
    )  # fmt: skip


def _is_like(node: Node) -> bool:
    from sqlglot import expressions as exp

    return isinstance(node.unnest() if not isinstance(node, exp.Not) else node.this.unnest(), (exp.Like, exp.Escape))


def is_simple(node: Node) -> bool:
    """Return whether a condition compares a column with a column or a literal."""
    from sqlglot import expressions as exp

    if not isinstance(node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return False
    return all(isinstance(operand, (exp.Column, exp.Literal)) for operand in (node.this, node.expression))


def _has_choice(node: Node) -> bool:
    """Return whether an operand of a comparison is a CASE or similar, which would branch."""
    from sqlglot import expressions as exp

    if isinstance(node, (exp.Case, exp.If, exp.Coalesce, exp.Nullif)):
        return True
    if not isinstance(
        node, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)
    ):
        return False
    chosen = (exp.Case, exp.If, exp.Coalesce, exp.Nullif, *conditions())
    return any(isinstance(piece, chosen) for side in (node.this, node.expression) for piece in side.walk())


def _operators() -> dict[type, str]:
    """Return the operators of the nodes that compare two values."""
    from sqlglot import expressions as exp

    return {exp.EQ: "=", exp.NEQ: "!=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def _as_member(node: Node) -> Node | None:
    """Return a comparison with ANY or ALL of a query as IN with that operator; None for others.

    A value compares with all rows if the opposite comparison holds for none.
    """
    from sqlglot import expressions as exp

    op = _operators().get(type(node))
    if op is None or not isinstance(node.expression, (exp.Any, exp.All)):
        return None
    query = node.expression.this
    query = query.unnest() if isinstance(query, (exp.Subquery, exp.Paren)) else query
    if not isinstance(query, exp.Query):
        return None
    is_any = isinstance(node.expression, exp.Any)
    member: Node = exp.In(this=node.this.copy(), query=exp.Subquery(this=query.copy()))
    member.set("op", op if is_any else NEGATED[op])
    member.meta.update(node.meta)
    if not is_any:
        member = exp.Not(this=member)
    member.parent = node.parent
    return member


def _may_split(node: Node, truth_value: str) -> bool:
    """Return whether a condition is an OR, which is compiled after the other conditions.

    The joins of the other conditions decide whether it splits.
    """
    from sqlglot import expressions as exp

    while isinstance(node, (exp.Paren, exp.Not)):
        truth_value = _OPPOSITE[truth_value] if isinstance(node, exp.Not) else truth_value
        node = node.this
    return isinstance(node, exp.Or if truth_value == TRUE_VALUE else exp.And)


def _grouped(parts: list[Node], node: Node) -> list[Node]:
    """Return the operands of AND or OR, with those without queries merged into one filter."""
    plain = [part for part in parts if not has_query(part)]
    if len(plain) < 2:
        return sorted(parts, key=has_query)
    both = plain[0].copy()
    for part in plain[1:]:
        both = type(node)(this=both, expression=part.copy())
    both.parent = node
    return [both, *(part for part in parts if has_query(part))]


def _binding(pair: Branch, full_pair: Branch, row: Branch, needed: Collection[Variable]) -> Branch:
    """Return the atoms that a row lacks with those of the row that bind the needed variables.

    Atoms that only link these to the former are among them, so that there is no cross product. Of several links, the
    order of the text does not decide.
    """
    bound = {term for atom in pair.atoms for term in atom.terms}
    unbound = set(needed) - bound
    if not unbound:
        return pair
    taken: list[Atom] = []
    waiting = sorted(
        (atom for atom in full_pair.atoms if atom not in pair.atoms),
        key=lambda atom: (atom.relation, [(term in bound, term in unbound) for term in atom.terms]),  # as they are now
    )
    while unbound and waiting:
        for atom in _chain_to(unbound, bound, waiting):
            waiting.remove(atom)
            taken.append(atom)
            bound.update(atom.terms)
            unbound.difference_update(atom.terms)
    held = [
        comparison
        for comparison in full_pair.comparisons[: len(row.comparisons)]
        if bound.issuperset(comparison.variables) and comparison not in pair.comparisons
    ]
    atoms = tuple(atom for atom in full_pair.atoms if atom in taken or atom in pair.atoms)
    return replace(full_pair, atoms=atoms, comparisons=Conjunction((*held, *pair.comparisons)), negated=pair.negated)


def binding(row: Branch, needed: Collection[Variable]) -> Branch:
    """Return the atoms of a row that bind variables, with their comparisons: fewer joins."""
    nothing = replace(row, atoms=(), negated=(), comparisons=Conjunction())
    return _binding(nothing, row, row, needed)


def _chain_to(unbound: set[Variable], bound: Collection[Expression], waiting: Sequence[Atom]) -> list[Atom]:
    """Return a shortest chain of atoms from bound variables to one that has unbound variables.

    It is one atom that has most of them if no chain leads there.
    """
    chains: list[list[Atom]] = [[]]
    reached: list[Atom] = []
    for chain in chains:  # the list grows during the loop
        ends = bound if not chain else chain[-1].terms
        for atom in waiting:
            if atom not in reached and any(isinstance(term, Variable) and term in ends for term in atom.terms):
                reached.append(atom)
                chains.append([*chain, atom])
                if not unbound.isdisjoint(atom.terms):
                    return chains[-1]
    return [max(waiting, key=lambda atom: len(unbound.intersection(atom.terms)))]


class Conditions(DuckDBCalls):
    """Conditions, as branches or as one null-aware call."""

    # Semijoins and antijoins: rows with or without a match.

    def antijoin(self, row: Branch, base: Branch, pairs: Sequence[Branch]) -> list[Branch]:
        """Return the branch of rows of `row` that match none of `pairs`.

        `pairs` are branches that join `base`, an earlier state of `row`, with other relations.
        """
        if not pairs:
            return [row]
        head, keys, _ = self._match_keys(base, pairs)
        negated = Atom(head, keys or (_ZERO,))
        return [replace(row, negated=(*row.negated, negated), safe=row.safe | frozenset(variables_of(keys)))]

    def semijoin(self, row: Branch, base: Branch, pairs: Sequence[Branch]) -> list[Branch]:
        """Return the branch of rows of `row` that match one of `pairs`, with their weights."""
        if not pairs:
            return []
        head, keys, solid = self._match_keys(base, pairs)
        if head in self.recursing:  # a set, as all relations of a recursion are
            atom = Atom(head, keys or (self.fresh("_"),))
        else:
            once = self.distinct(head, len(keys) or 1)
            atom = Atom(once, (*(keys or (self.fresh("_"),)), self.fresh("_")))
        result = row.required(solid)
        return [replace(result, atoms=(*result.atoms, atom), safe=result.safe | frozenset(keys))]

    def distinct(self, head: str, n_columns: int) -> str:
        """Add a relation of the rows of a head, each once with its weight; return its name."""
        name = self.helper("once")
        terms = tuple(Variable(f"c{i}") for i in range(n_columns))
        self.rules.append(Rule(Atom(name, (*terms, Call("count", ()))), (Atom(head, terms),)))
        return name

    def _match_keys(
        self, row: Branch, pairs: Sequence[Branch]
    ) -> tuple[str, tuple[Variable, ...], frozenset[Variable]]:
        """Return the relation of the keys by which `pairs` match a row.

        The result is its name, the variables of the row, and those of them that are never null.

        The rule of a pair has the atoms that the row lacks, and those of the row that bind variables besides. The other
        conditions of the row hold wherever the keys are looked up.
        """
        row_variables = row.variables
        added = [added_to(row, pair) for pair in pairs]
        shared = {
            variable
            for pair in added
            for variable in (*pair.variables, *(pair.solid - row.solid - row.non_null))
            if variable in row_variables
        }
        keys = tuple(sorted(shared, key=creation_order))
        head = self.helper("keys")
        for pair, full_pair in zip(added, pairs, strict=True):
            needed = {*keys, *(variable for variable in pair.variables if variable in row_variables)}
            branch = _binding(pair, full_pair, row, needed)
            for name in (atom.relation for atom in branch.atoms if atom.relation in self.recursing):
                self.recursing[head] = self.recursing[name]
            self.write(head, replace(branch, values={}), keys or (_ZERO,))
        solid = frozenset(key for key in keys if all(key in pair.solid for pair in pairs))
        return head, keys, solid

    # Null-aware calls: one value for every row.

    def formula(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return the value of an expression without subqueries for every row of a branch.

        Subqueries here are EXISTS and IN of a query; the value may be null. One-row queries are joined to the branch.
        """
        formulas = _Formulas(self, scope, branch)
        value = formulas.value(node)
        return formulas.branch, value

    def value(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return an expression as the value of a column, which keeps rows in which it is null."""
        branch, value = self.formula(node, scope, branch)
        return branch, nullable(branch, value)

    def each(self, nodes: Sequence[Node], scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        """Return disjoint branches with the values of several expressions."""
        numbers = self.numbered(len(nodes))
        rows: list[tuple[Branch, Values]] = [(branch, ())]
        for column, node in zip(numbers, nodes, strict=True):
            is_rewritten = column != numbers[-1]  # later nodes may replace its variables
            rows = [
                (
                    there.with_values({column: value}) if is_rewritten and not isinstance(value, Constant) else there,
                    (*values, value),
                )
                for where, values in rows
                for there, value in self.cases(node, scope, where)
            ]
            if len(rows) > MAX_CASES and not any(map(has_query, nodes)):
                return self._calculated_each(nodes, scope, branch)
            _ = self.limited([there for there, _ in rows], node)
        return [
            (there, tuple(there.values.get(column, value) for column, value in zip(numbers, values, strict=True)))
            for there, values in rows
        ]

    def _calculated_each(self, nodes: Sequence[Node], scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        """Return one branch with the values of several expressions, which may be null."""
        numbers = self.numbered(len(nodes))
        for column, node in zip(numbers, nodes, strict=True):
            branch, value = self.value(node, scope, branch)
            branch = branch.with_values({column: value})
        return [(branch, tuple(branch.values[column] for column in numbers))]

    def like_parts(self, node: Node) -> tuple[Node, tuple[Expression, ...], bool]:
        """Return the text of a LIKE, its pattern and escape, and whether it is NOT LIKE."""
        from sqlglot import expressions as exp

        place = self.place
        escape: tuple[Expression, ...] = (Constant("\\"),) if self.dialect in BACKSLASH else ()
        like = node
        if isinstance(node, exp.Escape):
            check_parts(node, place, "this", "expression")
            like = node.this
            char = literal(node.expression, self.place)
            is_char = isinstance(char, Constant) and isinstance(char.value, str) and len(char.value) == 1
            if not isinstance(like, exp.Like) or char is None or not is_char:
                raise place.refused("ESCAPE is supported behind LIKE, with a character", node)
            escape = (char,)
        check_parts(like, place, "this", "expression", "negate")
        pattern = literal(like.expression, self.place)
        if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
            raise place.refused("LIKE is supported with a constant pattern", like)
        return like.this, (pattern, *escape), bool(like.args.get("negate"))

    # Branches in which a null-aware call is true.

    def where_true(self, branch: Branch, condition: Expression) -> list[Branch]:
        """Return the branches where a condition is true: mostly one."""
        if isinstance(condition, Constant):
            return [branch] if condition == TRUE else []
        if isinstance(condition, Variable):
            return _as_list(branch.compared("=", condition, TRUE))
        assert isinstance(condition, Call)
        op, arguments = condition.op, condition.arguments
        if op == "all":
            return self._conjunction(branch, arguments)
        if op == "any":
            return self._any(branch, condition)
        sides = tuple(map(_strict, arguments))
        if op in COMPARING and all(map(_is_compared, sides)):
            return _as_list(branch.compared(COMPARING[op], *sides))
        if op == "among" and isinstance(arguments[0], Variable):
            is_double = self.kind(arguments[0]) == "double"
            distinct = {
                equality_key(argument, is_double=is_double): argument for argument in arguments[1:] if argument != NULL
            }
            return self._in_relation(branch, arguments[:1], [(constant,) for constant in distinct.values()])
        if op not in NULL_AWARE and not condition.takes_nulls:
            return _as_list(branch.compared("=", condition, TRUE))
        return _as_list(filtered(branch, condition))

    def filtered_each(self, branch: Branch, parts: Sequence[Expression]) -> list[Branch]:
        """Return the branches where all conditions are true.

        Conditions on the same variables become one filter.
        """
        groups: dict[frozenset[Variable], list[Expression]] = {}
        for part in parts:
            groups.setdefault(frozenset(variables_of([part])), []).append(part)
        branches: list[Branch] = [branch]
        for conditions in groups.values():
            if len(conditions) == 1:
                branches = [after for before in branches for after in self.where_true(before, conditions[0])]
            else:
                branches = [
                    after
                    for before in branches
                    if (after := filtered(before, simplified_call("all", *conditions))) is not None
                ]
        return branches

    def _conjunction(self, branch: Branch, parts: Iterable[Expression]) -> list[Branch]:
        """Return the branches where all conditions are true; those that may split come last."""
        ordered = sorted(parts, key=lambda part: isinstance(part, Call) and part.op == "any")
        numbers = self.numbered(len(ordered))
        branches = [branch.with_values(dict(zip(numbers, ordered, strict=True)))]
        for column in numbers:
            branches = [after for before in branches for after in self.where_true(before, before.values[column])]
        return [
            replace(candidate, values={key: value for key, value in candidate.values.items() if key not in numbers})
            for candidate in branches
        ]

    def _in_relation(
        self,
        branch: Branch,
        values: Sequence[Expression],
        rows: Sequence[tuple[Expression, ...]],
        is_negated: bool = False,
    ) -> list[Branch]:
        """Return the branches where values are a row of a list, stored as a relation."""
        if not rows:
            return [branch] if is_negated else []
        name = self.helper("in")
        self.rules += [Rule(Atom(name, row), ()) for row in rows]
        if is_negated:
            return [replace(branch, negated=(*branch.negated, Atom(name, tuple(values))))]
        terms = tuple(self.fresh("value", self.kind(value)) for value in values)
        joined = branch.joined(Branch((Atom(name, terms),), non_null=frozenset(terms)))
        return self.equated(joined, list(zip(values, terms, strict=True)))

    def _any(self, branch: Branch, condition: Call) -> list[Branch]:
        """Return the branches where at least one condition is true."""
        sides = [_conjuncts(argument) for argument in condition.arguments]
        common = [conjunct for conjunct in sides[0] if all(conjunct in side for side in sides[1:])]
        if common:
            remainders = [
                simplified_call("all", *(conjunct for conjunct in side if conjunct not in common)) for side in sides
            ]
            return self._conjunction(branch, [*common, simplified_call("any", *remainders)])
        if len(sides) <= MAX_SPLIT and all(any(_joins(branch, conjunct) for conjunct in side) for side in sides):
            return self._split(branch, condition.arguments)
        for implied in _implied(branch, sides):
            branch = filtered(branch, implied) or branch.never()
        return _as_list(filtered(branch, condition))

    def _split(self, branch: Branch, sides: Sequence[Expression]) -> list[Branch]:
        """Return disjoint branches, one for each side of an OR.

        In a branch its side is true and no earlier one is, so that a bag has each row once.
        """
        numbers = self.numbered(len(sides))
        branch = branch.with_values(dict(zip(numbers, sides, strict=True)))
        branches = []
        for position, column in enumerate(numbers):
            for side_branch in self.where_true(branch, branch.values[column]):
                before = [
                    negated(simplified_call("istrue", side_branch.values[earlier])) for earlier in numbers[:position]
                ]
                branches += self._conjunction(side_branch, before)
        return [
            replace(result, values={key: value for key, value in result.values.items() if key not in numbers})
            for result in branches
        ]

    # Branches in which a condition of the text has a truth value.

    def truth(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return disjoint branches in which a condition has a truth value ``T``, ``F`` or ``U``."""
        return self.limited(self._truth(node, truth_value, scope, branch), node)

    def _truth(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches of `branch` in which a condition has a truth value."""
        from sqlglot import expressions as exp

        try:
            with self.operands(is_operand=False):
                return self._native_truth(node, truth_value, scope, branch)
        except NOT_NATIVE as error:
            if isinstance(node, (exp.Connector, exp.Not, exp.Paren)) or has_query(node):
                raise
            there, value = self.by_duckdb(node, scope, branch, error, is_condition=True)
            return self._of_values([(there, value)], node, truth_value)

    def _native_truth(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches of a condition that the engine evaluates, apart from its operands."""
        from sqlglot import expressions as exp

        operators = _operators()
        place = self.place
        if isinstance(node, exp.Paren):
            check_parts(node, place, "this")
            return self._truth(node.this, truth_value, scope, branch)
        if isinstance(node, exp.Not):
            check_parts(node, place, "this")
            return self._truth(node.this, _OPPOSITE[truth_value], scope, branch)
        if isinstance(node, (exp.And, exp.Or)):
            check_parts(node, place, "this", "expression")
            is_or = isinstance(node, exp.Or)
            if truth_value == (FALSE_VALUE if is_or else TRUE_VALUE):
                parts = sorted(node.flatten(), key=lambda part: (has_query(part), _may_split(part, truth_value)))
                likes = [part for part in parts if _is_like(part)]
                if len(likes) > 1:
                    other_parts = [part for part in parts if not _is_like(part)]
                    branches = self._all(
                        other_parts,
                        _OPPOSITE[truth_value] if is_or else truth_value,
                        scope,
                        branch,
                        node,
                        negated=is_or,
                    )
                    return [after for there in branches for after in self._likes(likes, truth_value, scope, there)]
            elif not has_query(node):
                return self._as_filter(node, truth_value, scope, branch)
            else:
                parts = _grouped(list(node.flatten()), node)
                if truth_value != UNKNOWN:
                    return self._one_of(parts, truth_value, scope, branch, node)
            return self._all(
                parts, _OPPOSITE[truth_value] if is_or else truth_value, scope, branch, node, negated=is_or
            )
        member = _as_member(node)
        if member is not None:
            return self._truth(member, truth_value, scope, branch)
        if ((truth_value == UNKNOWN and not is_simple(node)) or _has_choice(node)) and not has_query(node):
            return self._as_filter(node, truth_value, scope, branch)
        if type(node) in operators:
            check_parts(node, place, "this", "expression")
            return self._compared_nodes(
                operators[type(node)], node.this, node.expression, node, truth_value, scope, branch
            )
        if isinstance(node, exp.Between):
            check_parts(node, place, "this", "low", "high")
            low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
            high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
            both = exp.And(this=low, expression=high)
            both.parent = node.parent
            return self._truth(both, truth_value, scope, branch)
        if isinstance(node, exp.Is):
            return self._is(node, truth_value, scope, branch)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            check_parts(node, place, "this", "expression")
            return self._same(
                node, (truth_value == TRUE_VALUE) == isinstance(node, exp.NullSafeEQ), truth_value, scope, branch
            )
        if isinstance(node, exp.In):
            return self._in(node, truth_value, scope, branch)
        if isinstance(node, exp.Exists):
            check_parts(node, place, "this")
            return self.exists(node.this, truth_value, scope, branch)
        if isinstance(node, (exp.Like, exp.Escape)):
            return self._like(node, truth_value, scope, branch)
        return self._of_value(node, truth_value, scope, branch)

    def _all(
        self,
        parts: Sequence[Node],
        truth_value: str,
        scope: Scope,
        branch: Branch,
        node: Node,
        negated: bool = False,
    ) -> list[Branch]:
        """Return AND of `parts`, or of their opposites if `negated`."""

        def branches_of(part: Node, value: str, where: Branch) -> list[Branch]:
            return self._truth(part, _OPPOSITE[value] if negated else value, scope, where)

        true: list[Branch] = [branch]
        unknown: list[Branch] = []
        false: list[Branch] = []
        for part in parts:
            if truth_value == FALSE_VALUE:
                false += [after for where in (*true, *unknown) for after in branches_of(part, FALSE_VALUE, where)]
            if truth_value != TRUE_VALUE:
                more = [after for where in true for after in branches_of(part, UNKNOWN, where)]
                unknown = [
                    f for where in unknown for value in (TRUE_VALUE, UNKNOWN) for f in branches_of(part, value, where)
                ] + more
            true = [after for where in true for after in branches_of(part, TRUE_VALUE, where)]
            self.limited([*true, *unknown, *false], node)
        return {TRUE_VALUE: true, FALSE_VALUE: false, UNKNOWN: unknown}[truth_value]

    def _likes(self, parts: Sequence[Node], truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches in which all LIKEs of a conjunction have a truth value."""
        numbers = self.numbered(len(parts))
        values: dict[int, Expression] = {}
        for column, part in zip(numbers, parts, strict=True):
            branch, value = self.formula(part, scope, branch.with_values(values))
            values = {column: value if truth_value == TRUE_VALUE else negated(value)}
        branch = branch.with_values(values)
        return self.filtered_each(branch, [branch.values[column] for column in numbers])

    def _one_of(
        self, parts: Sequence[Node], truth_value: str, scope: Scope, branch: Branch, node: Node
    ) -> list[Branch]:
        """Return the branches in which a part has a truth value and no earlier part has it.

        That makes an OR true, or an AND false.
        """
        result: list[Branch] = []
        remaining = [branch]
        for part in parts:
            result += [after for there in remaining for after in self._truth(part, truth_value, scope, there)]
            remaining = [after for there in remaining for after in self._without(part, truth_value, scope, there)]
            _ = self.limited([*result, *remaining], node)
        return result

    def _without(self, node: Node, unwanted: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches in which a condition has not the truth value `unwanted`."""
        if has_query(node):
            other_values = [value for value in (TRUE_VALUE, FALSE_VALUE, UNKNOWN) if value != unwanted]
            return [after for value in other_values for after in self._truth(node, value, scope, branch)]
        joined, condition = self.formula(node, scope, branch)
        condition = condition if unwanted == TRUE_VALUE else negated(condition)
        return self.where_true(joined, negated(simplified_call("istrue", condition)))

    def _as_filter(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches in which a condition without queries has a truth value.

        The condition becomes a filter instead of being split into its parts.
        """
        joined, condition = self.formula(node, scope, branch)
        kind = self.kind(condition)
        if condition != NULL and kind not in (None, "bool"):
            raise self.place.mistyped(f"a condition must be a boolean: got type '{kind}'", node)
        if truth_value == UNKNOWN:
            return self.where_true(joined, simplified_call("isnull", condition))
        return self.where_true(joined, condition if truth_value == TRUE_VALUE else negated(condition))

    def _compared(
        self, op: str, left: Expression, right: Expression, node: Node, truth_value: str, branch: Branch
    ) -> list[Branch]:
        """Return the branches in which a comparison of two values has a truth value."""
        if truth_value == UNKNOWN:
            branches = [branch.null(left)]
            not_null = branch.not_null(left)
            branches.append(not_null and not_null.null(right))
        elif NULL in (left, right):
            branches = []
        else:
            op = op if truth_value == TRUE_VALUE else NEGATED[op]
            left, right = self.unify_pair(left, right, node)
            if any(isinstance(value, Call) and value.takes_nulls for value in (left, right)):
                name = next(name for name, operator in COMPARING.items() if operator == op)
                return self.where_true(branch, simplified_call(name, left, right))
            branches = [branch.compared(op, left, right)]
        return [branch for branch in branches if branch is not None]

    def _compared_nodes(
        self, op: str, left: Node, right: Node, node: Node, truth_value: str, scope: Scope, branch: Branch
    ) -> list[Branch]:
        from sqlglot import expressions as exp

        if isinstance(left, exp.Tuple) or isinstance(right, exp.Tuple):
            pairs = self._pairs(left, right, node)
            if op not in ("=", "!="):
                raise self.place.refused("rows are only compared by = and <>", node)
            parts: list[Node] = [self.equality()(this=a.copy(), expression=b.copy()) for a, b in pairs]
            for part in parts:
                part.parent = node
            return self._all(parts, truth_value if op == "=" else _OPPOSITE[truth_value], scope, branch, node)
        branches = []
        for where, (a, b) in self.each([left, right], scope, branch):
            branches += self._compared(op, a, b, node, truth_value, where)
        return self.limited(branches, node)

    def equality(self) -> type[Node]:
        """Return the comparison for columns of rows; DuckDB treats two nulls in them as equal."""
        from sqlglot import expressions as exp

        return exp.NullSafeEQ if self.dialect == "duckdb" else exp.EQ

    def _pairs(self, left: Node, right: Node, node: Node) -> list[tuple[Node, Node]]:
        from sqlglot import expressions as exp

        sides = [side.expressions if isinstance(side, exp.Tuple) else [side] for side in (left, right)]
        if len(sides[0]) != len(sides[1]):
            raise self.place.wrong(f"a row of {len(sides[0])} is compared with one of {len(sides[1])}", node)
        return list(zip(*sides, strict=True))

    def _is(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        from sqlglot import expressions as exp

        check_parts(node, self.place, "this", "expression")
        right = node.expression
        if isinstance(right, exp.Boolean):
            tested = TRUE_VALUE if right.this else FALSE_VALUE
            if truth_value == FALSE_VALUE and not has_query(node):
                return self._as_filter(node, truth_value, scope, branch)
            values = (
                [tested]
                if truth_value == TRUE_VALUE
                else [value for value in (TRUE_VALUE, FALSE_VALUE, UNKNOWN) if value != tested]
            )
            return (
                []
                if truth_value == UNKNOWN
                else [f for value in values for f in self._truth(node.this, value, scope, branch)]
            )
        if not isinstance(right, exp.Null):
            raise self.place.refused("IS is supported with NULL, TRUE and FALSE", node)
        if truth_value == UNKNOWN:
            return []
        branches: list[Branch] = []
        for where, value in self.cases(node.this, scope, branch):
            if isinstance(value, Call) and not is_date(value):  # which fails where it has no value
                is_null = simplified_call("isnull", nullable(where, value))
                branches += self.where_true(where, is_null if truth_value == TRUE_VALUE else negated(is_null))
                continue
            after = where.null(value) if truth_value == TRUE_VALUE else where.not_null(value)
            branches += [] if after is None else [after]
        return branches

    def _same(self, node: Node, is_same: bool, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        if truth_value == UNKNOWN:
            return []
        branches: list[Branch] = []
        for where, (a, b) in self.each([node.this, node.expression], scope, branch):
            unified = (a, b) if NULL in (a, b) else self.unify_pair(a, b, node)
            if is_same and unified == (a, b):
                branches += where.same(a, b)
                continue
            pair = [] if NULL in (a, b) else [where.compared("=" if is_same else "!=", *unified)]
            if is_same:
                empty = where.null(a)
                pair.append(empty and empty.null(b))
            else:
                pair += [
                    present and present.null(empty)
                    for empty, present in ((a, where.not_null(b)), (b, where.not_null(a)))
                ]
            branches += [result for result in pair if result is not None]
        return branches

    def _in(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        from sqlglot import expressions as exp

        place = self.place
        check_parts(node, place, "this", "expressions", "query", "op")
        if node.args.get("query") is not None:
            return self._in_query(node, truth_value, scope, branch)
        if not node.expressions:
            raise place.wrong("the list of IN is empty", node)
        parts: list[Node] = []
        rows = [self._constants(element) for element in node.expressions]
        columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        plain = [row for row in rows if row is not None]
        has_null = any(NULL in row for row in plain)
        if len(plain) == len(rows) and len(rows) > 1 and not (has_null and len(columns) > 1):
            if truth_value == TRUE_VALUE:
                return self._in_list(node, columns, plain, scope, branch)
            if truth_value == FALSE_VALUE and len(rows) > MAX_INEQUALITIES and len(columns) == 1:
                return [] if has_null else self._in_list(node, columns, plain, scope, branch, negated=True)
        if truth_value == TRUE_VALUE and len(rows) > 1:
            return self._as_filter(node, truth_value, scope, branch)
        for element in node.expressions:
            equal = exp.EQ(this=node.this.copy(), expression=element.copy())
            equal.parent = node
            parts.append(equal)
        return self._all(parts, _OPPOSITE[truth_value], scope, branch, node, negated=True)

    def _constants(self, node: Node) -> tuple[Expression, ...] | None:
        from sqlglot import expressions as exp

        values = [
            literal(element, self.place) for element in (node.expressions if isinstance(node, exp.Tuple) else [node])
        ]
        return None if None in values else tuple(value for value in values if value is not None)

    def _in_list(
        self,
        node: Node,
        columns: Sequence[Node],
        rows: Sequence[tuple[Expression, ...]],
        scope: Scope,
        branch: Branch,
        negated: bool = False,
    ) -> list[Branch]:
        """Return the branches for IN with a list of constants, stored as a relation."""
        for row_node, row in zip(node.expressions, rows, strict=True):
            if len(row) != len(columns):
                raise self.place.wrong(f"a row of {len(columns)} is compared with one of {len(row)}", row_node)
        for column in range(len(columns)):
            kinds = {self.kind(as_text(row[column])) for row in rows if row[column] != NULL}
            if "string" in kinds and len(kinds) > 1:
                raise self.place.mistyped("the values of IN are of different types", node)
        result: list[Branch] = []
        for here, values in self.each(columns, scope, branch):
            solid = [here]
            for value in values:
                solid = [result for result in (each.not_null(value) for each in solid) if result is not None]
            for there in solid:
                fitted = [
                    tuple(self.unify_pair(a, b, node)[1] for a, b in zip(values, row, strict=True)) for row in rows
                ]
                lefts = [self.unify_pair(a, b, node)[0] for a, b in zip(values, rows[0], strict=True)]
                distinct_rows = {
                    self._row_key(row, lefts): row
                    for row in fitted
                    if NULL not in row and all(map(self._may_equal, lefts, row))
                }
                if not distinct_rows:
                    result += [there] * negated
                elif all(isinstance(operand, Constant) for operand in lefts):
                    result += [there] if (self._row_key(lefts, lefts) in distinct_rows) != negated else []
                else:
                    result += self._in_relation(there, lefts, list(distinct_rows.values()), negated)
        return result

    def _may_equal(self, left: Expression, value: Expression) -> bool:
        """Return False for a constant that no value of a time's type equals."""
        kind = self.kind(left)
        if kind is None or group_of(kind) != "time" or not isinstance(value, Constant):
            return True
        return not isinstance(value.value, str) or is_value(value.value, DataType(kind))

    def _row_key(self, row: Sequence[Expression], compared: Sequence[Expression]) -> tuple[object, ...]:
        """Return a key that rows of constants share if they equal the same compared values."""
        are_doubles = [self.kind(value) == "double" for value in compared]
        return tuple(
            equality_key(value, is_double=is_double) for value, is_double in zip(row, are_doubles, strict=True)
        )

    def _in_query(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches in which ``x IN (SELECT ...)`` has a truth value, or ``x < ANY``.

        It is true if a row is equal, or compares so; it is unknown if none is and a row or x is null.
        """
        from sqlglot import expressions as exp

        query = node.args["query"]
        query = query.this if isinstance(query, exp.Subquery) else query
        columns = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        branches: list[Branch] = []
        op = str(node.args.get("op") or "=")
        if op != "=" and len(columns) > 1:
            raise self.place.refused("rows are only compared with ANY of a query by =", node)
        if truth_value != TRUE_VALUE and len(columns) > 1:
            raise self.place.refused(
                "NOT IN of rows and a query is not supported",
                node,
                "Write NOT EXISTS with the equalities in its WHERE.",
            )
        for where, operands in self.each(columns, scope, branch):
            rows = self.select_within(query, scope, where)
            if any(len(row) != len(operands) for _, row in rows):
                raise self.place.wrong(
                    f"a row of {counted(len(operands), 'column')} is compared with a query of {len(rows[0][1])}", node
                )
            if op == "=":
                equal = [
                    match
                    for pair, row in rows
                    for match in self.equated(
                        pair, [self.unify_pair(a, b, node) for a, b in zip(operands, row, strict=True)]
                    )
                ]
            else:
                equal = [
                    match
                    for pair, row in rows
                    for match in self._compared(op, operands[0], row[0], node, TRUE_VALUE, pair)
                ]
            if truth_value == TRUE_VALUE:
                branches += self.semijoin(where, where, equal)
                continue
            (value,) = operands
            empty, full = where.null(value), where.not_null(value)
            base = full and replace(full, comparisons=where.comparisons)  # the pairs lack a test for null
            nulls = [
                null_branch for null_branch in (pair.null(row[0]) for pair, row in rows) if null_branch is not None
            ]
            if truth_value == FALSE_VALUE:
                if empty is not None:
                    branches += self.exists(query, FALSE_VALUE, scope, empty)
                if full is not None and base is not None:
                    branches += [
                        f
                        for unmatched in self.antijoin(full, base, equal)
                        for f in self.antijoin(unmatched, base, nulls)
                    ]
            else:
                if empty is not None:
                    branches += self.exists(query, TRUE_VALUE, scope, empty)
                if full is not None and base is not None:
                    branches += [
                        f
                        for unmatched in self.antijoin(full, base, equal)
                        for f in self.semijoin(unmatched, base, nulls)
                    ]
        return branches

    def exists(self, query: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches in which a query has rows, or has none."""
        if truth_value == UNKNOWN:
            return []
        pairs = [pair for pair, _ in self.select_within(query, scope, branch)]
        return (self.semijoin if truth_value == TRUE_VALUE else self.antijoin)(branch, branch, pairs)

    def _like(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        text, pattern, is_negated = self.like_parts(node)
        branches: list[Branch] = []
        for there, value in self.cases(text, scope, branch):
            if value == NULL:
                continue
            is_like = simplified_call("like", value, *pattern)
            branches += self.where_true(
                there, negated(is_like) if is_negated == (truth_value == TRUE_VALUE) else is_like
            )
        return branches

    def _of_value(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return the branches for a column or other expression as a condition, a boolean."""
        return self._of_values(self.cases(node, scope, branch), node, truth_value)

    def _of_values(self, cases: Sequence[Case], node: Node, truth_value: str) -> list[Branch]:
        branches: list[Branch] = []
        for there, value in cases:
            kind = self.kind(value)
            if value != NULL and kind not in (None, "bool"):
                raise self.place.mistyped(f"a condition must be a boolean: got type '{kind}'", node)
            if truth_value == UNKNOWN:
                empty = there.null(value)
                branches += [] if empty is None else [empty]
            else:
                branches += self.where_true(there, value if truth_value == TRUE_VALUE else negated(value))
        return branches
