"""Scopes of names, branches of future rules, the state of the compiler, and literals."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

from gpu_wcoj.data.schema import DataType, decimal_of, digits_of, integer_of
from gpu_wcoj.errors import ColumnError, UnknownRelationError, UnsupportedError, UnsupportedTypeError
from gpu_wcoj.query.constant_folding import holds, simplified_call
from gpu_wcoj.query.ir import (
    AGGREGATES,
    FALSE,
    FUNCTIONS,
    MIRRORED,
    NEVER,
    NULL,
    NULL_AWARE,
    TRUE,
    Atom,
    Call,
    Comparison,
    ComputedGroups,
    Constant,
    Expression,
    FirstRows,
    Rule,
    Sorting,
    Variable,
    valued_variables,
    variables_of,
)
from gpu_wcoj.query.sql.source import Place, check_parts, describe_node, written_name
from gpu_wcoj.user_functions import Function

if TYPE_CHECKING:
    from sqlglot.expressions import Column as ColumnNode
    from sqlglot.expressions import Expr as Node


class OuterReferenceError(UnsupportedError):
    """A query names a column outside that its scope refuses, for the reason `outer_refused`."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Source:
    """A relation of FROM: its name, and its columns with their numbers."""

    name: str
    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Scope:
    """Meaning of the names in an expression.

    Attributes
    ----------
    sources
        The relations of FROM.
    visible
        The columns of ``*``, among which a column without a relation is looked up; columns that USING and NATURAL merge
        occur once.
    around
        The scope of the outer query, for a query that may refer to it.
    outer_refused
        The reason why names of the outer query cannot be used, if so, and a replacement in a second line.
    """

    sources: tuple[Source, ...] = ()
    visible: tuple[tuple[str, int], ...] = ()
    parent: Scope | None = None
    outer_refused: str = ""

    def column(self, node: ColumnNode, place: Place) -> int:
        """Return the number of a column.

        Raises
        ------
        ColumnError, UnknownRelationError
            If there is no such column, or there are several.
        OuterReferenceError
            If it is a column of the outer query that cannot be used.
        """
        for part in ("db", "catalog", "join_mark"):
            if node.args.get(part):
                owner = node.args.get("db") and self.source(node.args["db"], place)
                remedy = f"Write the field as {node.db}.{node.table}['{node.name}']." if owner else ""
                raise place.refused("names of more than relation and column are not supported", node, remedy)
        scope: Scope | None = self
        refused = ""
        while scope is not None:
            column_number = scope.resolve_local(node, place)
            if column_number is not None:
                if refused:
                    what, _, instead = refused.partition("\n")
                    raise OuterReferenceError(str(place.refused(what, node, instead)), refused)
                return column_number
            refused = refused or scope.outer_refused
            scope = scope.parent
        raise self.unknown(node, place)

    def resolve_local(self, node: ColumnNode, place: Place) -> int | None:
        """Return the number of a column of FROM; None if there is none."""
        name, is_quoted = node.this.this, bool(node.this.args.get("quoted"))
        columns: Sequence[tuple[str, int]] = self.visible
        source = None
        if node.args.get("table"):
            source = self.source(node.args["table"], place)
            if source is None:
                return None
            columns = source.columns
        names = place.names.matching(name, is_quoted, (column_name for column_name, _ in columns))
        numbers = list(dict.fromkeys(column_number for column_name, column_number in columns if column_name in names))
        if len(numbers) > 1:
            within = [source] if source is not None else self.sources
            for candidate in within:
                matches = [column_name for column_name, column_number in candidate.columns if column_number in numbers]
                if len(matches) > 1:
                    raise place.ambiguous("column", node.this, matches)
            owners = [
                source.name
                for source in self.sources
                if any(column_number in numbers for _, column_number in source.columns)
            ]
            how = f"{owners[0]}.{name}" if owners else "another name with AS"
            raise place.wrong(f"the column '{name}' stands for several; write which, as {how}", node)
        if source is not None and not numbers:
            raise place.marked(
                ColumnError(source.name, name, [column_name for column_name, _ in source.columns]), node.this
            )
        return numbers[0] if numbers else None

    def source(self, node: Node, place: Place) -> Source | None:
        """Return the relation of FROM that a name refers to."""
        names = place.names.matching(node.this, bool(node.args.get("quoted")), (source.name for source in self.sources))
        return next((source for source in self.sources if source.name in names), None)

    def unknown(self, node: ColumnNode, place: Place) -> ColumnError | UnknownRelationError | UnsupportedError:
        """Return the error for an unknown column."""
        sources: list[Source] = []
        columns: list[str] = []
        scope: Scope | None = self
        while scope is not None:
            sources += scope.sources
            columns += [column_name for column_name, _ in scope.visible]
            scope = scope.parent
        name = node.this.this
        if node.args.get("table"):
            table = node.args["table"]
            if place.names.matching(table.this, bool(table.args.get("quoted")), columns):
                remedy = f"Write {table.name}['{name}']."
                return place.refused(f"the field '{name}' of the column '{table.name}' is not supported", node, remedy)
            return place.unknown(table, [source.name for source in sources], UnknownRelationError.IN_REACH)
        if place.names.matching(name, bool(node.this.args.get("quoted")), [source.name for source in sources]):
            return place.refused(f"the relation '{name}' as a value is not supported", node, "Name its columns.")
        error: ColumnError
        is_text = bool(node.this.args.get("quoted")) and place.text_of(node).startswith('"')
        remedy = f"\n  A text stands in single quotes: '{name}'." if is_text else ""
        if len(sources) == 1:
            error = ColumnError(sources[0].name, name, columns)
            error.args = (f"{error}{remedy}",)
            return place.marked(error, node)
        error = ColumnError("", name, dict.fromkeys(columns))
        remaining_lines = str(error).split("\n", 1)[1]
        reach = (
            f" in reach ({', '.join(source.name for source in sources)})" if sources else ", as the query has no FROM"
        )
        error.args = (f"unknown column '{name}'{reach}.\n{remaining_lines}{remedy}",)
        return place.marked(error, node)


@dataclass(frozen=True)
class GroupedScope(Scope):
    """Scope after GROUP BY: numbers of keys and aggregates, and named items of SELECT."""

    column_numbers: Mapping[object, int] = field(default_factory=dict)
    named: Mapping[str, Node] = field(default_factory=dict)

    @property
    def plain(self) -> Scope:
        """The scope before GROUP BY."""
        return Scope(self.sources, self.visible, self.parent, self.outer_refused)


def column_name(item: Node, position: int, scope: Scope, place: Place) -> str:
    """Return the name of a column without an alias: of the column or function."""
    from sqlglot import expressions as exp

    while isinstance(item, exp.Paren):
        item = item.this
    if isinstance(item, exp.Column):
        column_number = scope.resolve_local(item, place)
        columns = [*scope.visible, *(column for source in scope.sources for column in source.columns)]
        return next((name for name, candidate in columns if candidate == column_number), str(item.name))
    return calculation_name(item, position, place)


def calculation_name(item: Node, position: int, place: Place) -> str:
    """Return the name of a calculation: of its function, or ``column`` and the position."""
    from sqlglot import expressions as exp

    while isinstance(item, (exp.Paren, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        item = item.this
    if isinstance(item, (exp.Anonymous, exp.AnonymousAggFunc)):
        return str(item.name).lower()
    if isinstance(item, exp.Func) and not isinstance(item, (exp.Connector, exp.Predicate, exp.Cast)):
        return written_name(item, place)
    return f"column{position}"


# A guarded conjunction: atoms and conditions of a future rule, and column values.
#
# A variable that occurs once may be null. A condition on its value excludes null: a comparison, a second place in an
# atom, a calculation. Columns that are joined so that null equals null are recorded as `safe`, and get a variable
# ``x?`` if they may be null in the final rule.


Values = tuple[Expression, ...]


class Conjunction(tuple[Comparison, ...]):
    """Comparisons that all hold, in the order of the text; members are found by their hash."""

    @cached_property
    def _members(self) -> frozenset[Comparison]:
        return frozenset(self)

    def __contains__(self, comparison: object) -> bool:
        return comparison in self._members

    def with_member(self, comparison: Comparison) -> Conjunction:
        """Return the comparisons with one more at the end."""
        longer = Conjunction((*self, comparison))
        longer.__dict__["_members"] = self._members | {comparison}
        return longer


@dataclass(frozen=True)
class Branch:
    """A conjunction of atoms and conditions, with the values of columns under it.

    Attributes
    ----------
    solid
        Variables that must not be null here.
    known
        Variables that cannot be null in any branch.
    safe
        Variables whose joins treat null as equal to null.
    fixed
        Variables of the outer query, which are never replaced.
    values
        The value of each column in scope, by the number of the column.
    """

    atoms: tuple[Atom, ...] = ()
    negated: tuple[Atom, ...] = ()
    comparisons: Conjunction = field(default_factory=Conjunction)
    solid: frozenset[Variable] = frozenset()
    non_null: frozenset[Variable] = frozenset()
    safe: frozenset[Variable] = frozenset()
    fixed: frozenset[Variable] = frozenset()
    values: Mapping[int, Expression] = field(default_factory=dict)

    def may_be_null(self, value: Expression) -> bool:
        """Return whether a value can be null here; of calls, only null-aware ones can."""
        if isinstance(value, Variable):
            return value not in self.solid and value not in self.non_null
        if isinstance(value, Call) and value.takes_nulls:
            return value.op not in ("istrue", "isnull")
        return value == NULL

    @property
    def variables(self) -> frozenset[Variable]:
        """All variables of the atoms and conditions."""
        terms = [term for atom in (*self.atoms, *self.negated) for term in atom.terms]
        for comparison in self.comparisons:
            terms += [comparison.left, comparison.right]
        return frozenset(variables_of(terms))

    def joined(self, right: Branch) -> Branch:
        """Return the conjunction of both branches."""
        return Branch(
            (*self.atoms, *right.atoms),
            (*self.negated, *right.negated),
            Conjunction((*self.comparisons, *right.comparisons)),
            self.solid | right.solid,
            self.non_null | right.non_null,
            self.safe | right.safe,
            self.fixed | right.fixed,
            {**self.values, **right.values},
        )

    def never(self) -> Branch:
        """Return the branch with a condition that never holds."""
        return self.restricted(NEVER)

    def with_values(self, values: Mapping[int, Expression]) -> Branch:
        """Return the branch with more columns."""
        return replace(self, values={**self.values, **values})

    def replaced(self, names: Mapping[Variable, Expression]) -> Branch:
        """Return the branch with variables replaced by terms."""
        return Branch(
            tuple(_in_atom(atom, names) for atom in self.atoms),
            tuple(_in_atom(atom, names) for atom in self.negated),
            Conjunction(
                replace(
                    comparison, left=substituted(comparison.left, names), right=substituted(comparison.right, names)
                )
                for comparison in self.comparisons
            ),
            _in_set(self.solid, names),
            _in_set(self.non_null, names),
            _in_set(self.safe, names),
            self.fixed,
            {key: substituted(value, names) for key, value in self.values.items()},
        )

    def not_null(self, value: Expression) -> Branch | None:
        """Return the branch restricted to a value that is not null, or None."""
        if value == NULL:
            return None
        if isinstance(value, Call) and value.takes_nulls:
            return self._tested(value, FALSE)
        return self.required(variables_of([value]))

    def _tested(self, value: Call, is_null: Constant) -> Branch | None:
        """Return the branch restricted to a null-aware call that is null, or is not null."""
        test = simplified_call("isnull", value)
        if isinstance(test, Constant):
            return self if test == is_null else None
        return self.restricted(Comparison("=", test, is_null))

    def required(self, variables: Iterable[Variable]) -> Branch:
        """Return the branch restricted to variables that are not null."""
        missing = frozenset(variables) - self.solid
        return replace(self, solid=self.solid | missing) if missing else self

    def restricted(self, comparison: Comparison) -> Branch:
        """Return the branch restricted by a comparison, which it has once."""
        if comparison in self.comparisons:
            return self
        return replace(self, comparisons=self.comparisons.with_member(comparison))

    def null(self, value: Expression) -> Branch | None:
        """Return the branch restricted to a value that is null, or None."""
        if not self.may_be_null(value):
            return None
        if isinstance(value, Variable):
            if value not in self.fixed:
                return self.replaced({value: NULL})
            return self.restricted(Comparison("=", value, NULL))
        if isinstance(value, Call):
            return self._tested(value, TRUE)
        return self

    def compared(self, op: str, left: Expression, right: Expression) -> Branch | None:
        """Return the branch restricted by a comparison, or None; null never compares."""
        if NULL in (left, right):
            return None
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self if holds(op, left, right) else None
        if isinstance(left, Constant):
            left, right, op = right, left, MIRRORED[op]
        fixed = self.fixed.intersection(valued_variables([left, right]))  # null has replaced all other null variables
        if any(Comparison("=", variable, NULL) in self.comparisons for variable in fixed):
            return None
        required = self.required(valued_variables([left, right]))
        if left == right and isinstance(left, Variable):
            return required if op in ("=", "<=", ">=") else None
        if op == "=" and isinstance(left, Variable) and isinstance(right, Variable):
            if right not in self.fixed:
                return required.replaced({right: left})
            if left not in self.fixed:
                return required.replaced({left: right})
        return required.restricted(Comparison(op, left, right))

    def same(self, left: Expression, right: Expression) -> Iterable[Branch]:
        """Return the branches in which two values are equal or both null."""
        if not self.may_be_null(left) or not self.may_be_null(right):
            equal = self.compared("=", left, right)
            return () if equal is None else (equal,)
        pair = [value for value in (left, right) if isinstance(value, Variable)]
        if len(pair) == 2 and pair[0] == pair[1]:
            return (self,)
        if len(pair) == 2 and not all(variable in self.fixed for variable in pair):
            representative, gone = pair if pair[1] not in self.fixed else pair[::-1]
            return (replace(self, safe=self.safe | {representative}).replaced({gone: representative}),)
        branches = [self.compared("=", left, right)]
        both = self.null(left)
        branches.append(both and both.null(right if right != left else NULL))
        return tuple(branch for branch in branches if branch is not None)


def substituted(value: Expression, names: Mapping[Variable, Expression]) -> Expression:
    """Return an expression with variables replaced by terms."""
    if isinstance(value, Variable):
        return names.get(value, value)
    if isinstance(value, Call):
        arguments = tuple(substituted(argument, names) for argument in value.arguments)
        if value.takes_nulls and value.function is None:
            return simplified_call(value.op, *arguments)
        if NULL in arguments and not value.takes_nulls:
            return NULL
        return replace(value, arguments=arguments)
    return value


def _in_atom(atom: Atom, names: Mapping[Variable, Expression]) -> Atom:
    return replace(atom, terms=tuple(substituted(term, names) for term in atom.terms))


def _in_set(variables: frozenset[Variable], names: Mapping[Variable, Expression]) -> frozenset[Variable]:
    return frozenset(variables_of(substituted(variable, names) for variable in variables))


# Branches to rules: names of variables, and tests for null.


_RESERVED = {*AGGREGATES, *FUNCTIONS, "not", "true", "false", "null"}


def rule(head: str, values: Values, branch: Branch, columns: Sequence[str] = ()) -> Rule:
    """Return the rule that derives `head` from a branch.

    Variables are named after `columns`, if there are any.

    Examples
    --------
    >>> x, y, z = Variable("a#1"), Variable("b#1"), Variable("b#2")
    >>> branch = Branch((Atom("r", (x, y)), Atom("s", (z,)))).restricted(Comparison("=", y, Constant(3)))
    >>> print(rule("h", (x, z), branch.required([z])))
    h(a, b) :- r(a, 3), s(b), b != null.
    """
    atoms, comparisons = _with_constants(branch, values)
    tested = frozenset(
        valued_variables(part for comparison in comparisons for part in (comparison.left, comparison.right))
    )
    calculated = frozenset(valued_variables(value for value in values if isinstance(value, Call)))
    standing = Counter(term for atom in atoms for term in atom.terms)
    negated = {term for atom in branch.negated for term in atom.terms}
    solid = branch.solid | branch.non_null
    for variable in sorted(branch.solid - branch.non_null - tested - calculated, key=str):
        if standing[variable] and (standing[variable] == 1 and variable not in negated):
            comparisons = (*comparisons, Comparison("!=", variable, NULL))
    used = {
        *variables_of([*values, *(part for comparison in comparisons for part in (comparison.left, comparison.right))]),
        *negated,
    }
    preferred_names: dict[Variable, str] = {}
    for value, name in zip(values, columns, strict=False):
        if isinstance(value, Variable):
            _ = preferred_names.setdefault(value, name)
    names = _names(
        atoms, {variable for variable in standing if variable in used or standing[variable] > 1}, preferred_names
    )
    for variable in branch.safe - solid:
        if variable in names and not variable.is_wildcard:
            names[variable] = Variable(f"{names[variable].name}?")

    def renamed(atom: Atom) -> Atom:
        return replace(atom, terms=tuple(substituted(term, names) for term in atom.terms))

    return Rule(
        Atom(head, tuple(substituted(value, names) for value in values)),
        tuple(map(renamed, atoms)),
        tuple(
            replace(comparison, left=substituted(comparison.left, names), right=substituted(comparison.right, names))
            for comparison in comparisons
        ),
        tuple(map(renamed, branch.negated)),
    )


def _with_constants(branch: Branch, values: Values) -> tuple[tuple[Atom, ...], tuple[Comparison, ...]]:
    """Return atoms and comparisons with single-use variables replaced by constants."""
    places = Counter(term for atom in (*branch.atoms, *branch.negated) for term in atom.terms)
    for comparison in branch.comparisons:
        places.update(variables_of([comparison.left, comparison.right]))
    value_variables = frozenset(variables_of(values))
    constants: dict[Variable, Constant] = {}
    comparisons = []
    for comparison in branch.comparisons:
        left, right = comparison.left, comparison.right
        is_alone = isinstance(left, Variable) and places[left] == 2 and left not in value_variables
        stands = is_alone and any(left in atom.terms for atom in branch.atoms)
        if (
            comparison.op == "="
            and stands
            and isinstance(left, Variable)
            and isinstance(right, Constant)
            and right != NULL
        ):
            constants[left] = right
            continue
        comparisons.append(comparison)
    atoms = tuple(
        replace(
            atom, terms=tuple(constants.get(term, term) if isinstance(term, Variable) else term for term in atom.terms)
        )
        for atom in branch.atoms
    )
    return atoms, tuple(comparisons)


def _names(
    atoms: tuple[Atom, ...], used: Collection[Expression], preferred_names: Mapping[Variable, str]
) -> dict[Variable, Variable]:
    """Return for each variable a legal and unused name, preferably of its column."""
    names: dict[Variable, Variable] = {}
    taken: set[str] = set()
    n_wildcards = 0
    standing = variables_of(term for atom in atoms for term in atom.terms)
    for variable in sorted(standing, key=lambda variable: variable not in preferred_names):
        if variable not in used:
            n_wildcards += 1
            names[variable] = Variable(f"_#{n_wildcards}")
            continue
        base = re.sub(r"\W", "_", preferred_names.get(variable) or variable.name.split("#")[0])
        if not re.match(r"[^\W\d]", base) or base in _RESERVED:
            base = f"c{base}"
        suffix, name = 1, base
        while name in taken:
            suffix += 1
            name = f"{base}_{suffix}"
        taken.add(name)
        names[variable] = Variable(name)
    return names


# State of the compiler, and the rules that it writes.


MAX_BRANCHES = 128
"""Most rules of one query."""
MAX_CASES = 32
"""Most branches for the values of one row; beyond it, the values become null-aware calls in one branch."""
MAX_INLINED_ATOMS = 16
"""Most atoms of a query that is inlined into its reader; a longer one becomes a relation."""
ANSWER = "answer"
"""Name of the relation of a SELECT without CREATE VIEW."""
UNIT = "one#"
"""Name of a relation of one row."""

DATE = "#date"
"""Name of the call that holds a date or time literal until it is compared."""

Case = tuple[Branch, Expression]


@dataclass(frozen=True, eq=False)
class Derived:
    """Result of a query: columns, and disjoint branches that produce its rows.

    Attributes
    ----------
    head
        For a recursion, the relation that holds the rows instead of `branches`.
    kinds
        The types of the columns of that relation.
    """

    columns: tuple[str, ...]
    branches: tuple[tuple[Branch, Values], ...]
    head: str = ""
    kinds: tuple[str | None, ...] = ()


class RuleWriter(ABC):
    """State of the compiler, and the rules that it has written.

    The compiler is one class. Each file adds the methods of a clause to those of the file below it: `RuleWriter`,
    `Coercion`, `Conditions`, `Expressions`, `FromClause`, `Queries`, `Compiler`. The abstract methods here are those
    that a file calls of a file above it, because conditions, expressions and queries contain each other.

    Attributes
    ----------
    views
        The results of the statements so far, by name.
    named_here
        The common table expressions of each query around the current one.
    applied
        The conditions of WHERE that were applied before a join, by the identity of their nodes.
    ordered, sorting
        The query whose order is kept, if there is one, and that order.
    column_kinds
        The types of the columns of FROM, by number.
    recursing
        The relations that the recursion being compiled derives, and the node that names it.
    functions
        The Python functions that the text may call, by their names in lower case.
    """

    def __init__(
        self,
        place: Place,
        dialect: str,
        tables: Mapping[str, Mapping[str, str | None]],
        functions: Mapping[str, Function],
    ) -> None:
        self.place = place
        self.functions = functions
        self.dialect = dialect
        self.tables = tables
        self.views: dict[str, Derived] = {}
        self.named_here: list[dict[str, Derived]] = []
        self.rules: list[Rule] = []
        self.first_rows: list[FirstRows] = []
        self.computed_groups: list[ComputedGroups] = []
        self.applied: dict[int, Node] = {}
        self.ordered: Node | None = None
        self.sorting: Sorting | None = None
        self.kinds: dict[Variable, str | None] = {}
        self.column_kinds: dict[int, str | None] = {}
        self.heads: dict[int, tuple[Derived, str]] = {}
        self.n_fresh = 0
        self.recursing: dict[str, Node] = {}
        self.n_helpers = 0
        self.n_columns = 0
        self.has_unit = False

    @abstractmethod
    def cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """Return disjoint branches with the values of an expression."""

    @abstractmethod
    def leaf(self, node: Node, scope: Scope, branch: Branch) -> Case | None:
        """Return the value of an expression that has no operands."""

    @abstractmethod
    def formula(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return the value of an expression without subqueries for every row of a branch."""

    @abstractmethod
    def column(self, node: ColumnNode, scope: Scope, branch: Branch) -> Expression:
        """Return the value of a column."""

    @abstractmethod
    def single(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return the value of a query as a value."""

    @abstractmethod
    def query(self, node: Node, scope: Scope | None) -> Derived:
        """Compile a query."""

    @abstractmethod
    def select_within(self, node: Node, scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        """Return the rows of a query in a condition."""

    def equated(self, branch: Branch, pairs: Sequence[tuple[Expression, Expression]]) -> list[Branch]:
        """Return the branch in which the two values of each pair are equal, if there is one."""
        numbers = self.numbered(2 * len(pairs))
        result: Branch | None = branch.with_values(
            dict(zip(numbers, (value for pair in pairs for value in pair), strict=True))
        )
        for left, right in zip(numbers[::2], numbers[1::2], strict=True):
            result = result and result.compared("=", result.values[left], result.values[right])
        return [] if result is None else [result]

    def fresh(self, name: str, kind: str | None = None) -> Variable:
        """Return a new variable, named after `name` in the text of rules."""
        self.n_fresh += 1
        made = Variable(f"{name}#{self.n_fresh}")
        self.kinds[made] = kind
        return made

    def helper(self, what: str) -> str:
        """Return the name of a new relation, which no text can spell."""
        self.n_helpers += 1
        return f"{what}#{self.n_helpers}"

    def numbered(self, n: int) -> range:
        """Return the numbers of new columns."""
        self.n_columns += n
        return range(self.n_columns - n, self.n_columns)

    def unit(self) -> Branch:
        """Return a branch of one row and no columns."""
        if not self.has_unit:
            self.has_unit = True
            self.rules.append(Rule(Atom(UNIT, (Constant(0),)), ()))
        return Branch((Atom(UNIT, (self.fresh("_"),)),))

    def write(self, head: str, branch: Branch, values: Sequence[Expression], columns: Sequence[str] = ()) -> None:
        """Add the rule that derives `head` of a branch."""
        if not branch.atoms:
            branch = branch.joined(self.unit())
        self.rules.append(rule(head, tuple(values), branch, columns))

    def write_nothing(self, head: str, n_columns: int) -> None:
        """Add a rule that derives `head` and never has a row."""
        _ = self.unit()
        self.rules.append(Rule(Atom(head, (NULL,) * n_columns), (Atom(UNIT, (Constant(1),)),)))

    def named(self, derived: Derived, what: str = "part", head: str = "") -> str:
        """Return the head that holds a query result; the first call adds its rules."""
        if derived.head:
            return derived.head
        entry = self.heads.get(id(derived))
        if entry is None:
            entry = self.heads[id(derived)] = derived, head or self.helper(what)
            for branch, values in derived.branches:
                self.write(entry[1], branch, values, derived.columns)
            if not derived.branches:
                self.write_nothing(entry[1], len(derived.columns))
        return entry[1]

    def read(self, derived: Derived) -> tuple[Branch, Values]:
        """Return a branch that reads a query result, with new variables.

        A single short branch is inlined, any other result becomes a relation.
        """
        is_short = len(derived.branches) == 1 and len(derived.branches[0][0].atoms) <= MAX_INLINED_ATOMS
        if is_short and not derived.head:
            branch, values = derived.branches[0]
            names: dict[Variable, Expression] = {
                variable: self.fresh(variable.name.split("#")[0], self.kinds.get(variable))
                for variable in (*branch.variables, *variables_of(values))
                if variable not in branch.fixed
            }
            renamed = branch.with_values(dict(enumerate(values))).replaced(names)
            inlined = tuple(renamed.values[i] for i in range(len(values)))
            return Branch(
                renamed.atoms, renamed.negated, renamed.comparisons, renamed.solid, renamed.non_null, renamed.safe
            ), inlined
        return self.reading(self.named(derived), derived)

    def reading(self, head: str, derived: Derived) -> tuple[Branch, Values]:
        """Return a branch of one atom that reads the head of a query result."""
        if derived.head:
            made = tuple(map(self.fresh, derived.columns, derived.kinds))
            return Branch((Atom(head, made),)), made
        terms = []
        non_null = []
        for column, name in enumerate(derived.columns):
            terms.append(self.fresh(name, self.kind_of_column(values[column] for _, values in derived.branches)))
            if derived.branches and not any(branch.may_be_null(values[column]) for branch, values in derived.branches):
                non_null.append(terms[-1])
        return Branch((Atom(head, tuple(terms)),), non_null=frozenset(non_null)), tuple(terms)

    def kind(self, value: Expression) -> str | None:
        """Return the type of a value in Arrow's spelling; None if it is unknown."""
        if isinstance(value, Variable):
            return self.kinds.get(value)
        if isinstance(value, Constant):
            names = {int: "int64", float: "double", bool: "bool", str: "string", Decimal: "decimal"}
            return names.get(type(value.value))
        if isinstance(value, Call):
            return _kind_of_call(value, [self.kind(argument) for argument in value.arguments])
        return None

    def kind_of_column(self, values: Iterable[Expression]) -> str | None:
        """Return the type of a column with these values, ignoring nulls."""
        kinds = {self.kind(value) for value in values if value != NULL}
        return kinds.pop() if len(kinds) == 1 else None

    def limited(self, branches: list[Branch], node: Node) -> list[Branch]:
        """Return the branches, or raise if there are too many."""
        if len(branches) > MAX_BRANCHES:
            raise self.place.refused(
                f"this splits into more than {MAX_BRANCHES} rules",
                node,
                "Write a part of it as a view of its own, or as UNION ALL.",
            )
        return branches


def _kind_of_call(call: Call, kinds: list[str | None]) -> str | None:
    if call.function is not None:
        return call.function.returns.name
    if call.op in ("cat", "substr", "lower", "upper", "downcase", "upcase"):
        return "string"
    if call.op in ("strlen", "year", "month", "day"):
        return "int64"
    if call.op == "double":
        return "double"
    if call.op == "case":
        values = [*zip(call.arguments[1::2], kinds[1::2], strict=False)]
        values += [(call.arguments[-1], kinds[-1])] if len(kinds) % 2 else []
        types = {kind for value, kind in values if not isinstance(value, Constant)} or {
            k for value, k in values if value != NULL
        }
        if len(types) > 1 and None not in types and all("decimal" in str(kind) for kind in types):
            return "decimal"
        return types.pop() if len(types) == 1 else None
    if call.op == "like" or call.op in NULL_AWARE:
        return "bool"
    if all(kind is not None and "int" in kind for kind in kinds):
        return "int64"
    if "double" in kinds and None not in kinds:
        return "double"
    is_decimal = any(kind is not None and kind.startswith("decimal") for kind in kinds)
    return _decimal_of(call, kinds) if is_decimal else None


def _decimal_of(call: Call, kinds: Sequence[str | None]) -> str:
    """Return the type of a calculated decimal; "decimal" if its digits are not known."""
    digits = []
    for argument, kind in zip(call.arguments, kinds, strict=True):
        if isinstance(argument, Constant) and isinstance(argument.value, (int, Decimal)):
            digits.append(digits_of_constant(argument.value))
        elif kind is None or kind == "decimal":
            return "decimal"
        else:
            digits.append(DataType(kind).digits)
    precisions, scales = zip(*digits, strict=True)
    if call.op == "*":
        return decimal_of(sum(precisions), sum(scales)).name
    scale = max(scales)
    n_before = max(precision - behind for precision, behind in digits)
    return decimal_of(n_before + scale + (call.op in "+-" and len(digits) > 1), scale).name


def digits_of_constant(value: int | Decimal) -> tuple[int, int]:
    """Return precision and scale of the narrowest decimal, or of those of the narrowest integer.

    Examples
    --------
    >>> digits_of_constant(Decimal("12.50")), digits_of_constant(300)
    ((4, 2), (5, 0))
    """
    return integer_of(value).digits if isinstance(value, int) else digits_of(value)


# Literals: numbers, texts, dates, and constant date arithmetic.


def literal(node: Node, place: Place) -> Expression | None:
    """Return the value of a literal; None for any other node."""
    from sqlglot import expressions as exp

    if isinstance(node, exp.Null):
        return NULL
    if isinstance(node, exp.Boolean):
        return Constant(bool(node.this))
    if isinstance(node, exp.Literal):
        return Constant(node.this) if node.is_string else parse_number(node, place)
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return parse_number(node.this, place, "-")
    moment = _moment(node, place)
    if moment is None:
        return None
    return Call(DATE, (Constant(moment.isoformat(sep=" ") if isinstance(moment, dt.datetime) else moment.isoformat()),))


def parse_number(node: Node, place: Place, sign: str = "") -> Constant:
    """Return the number of a literal: an integer, a decimal, or a double with an exponent."""
    text = sign + str(node.this)
    try:
        if "e" in text.lower():
            return Constant(float(text))
        return Constant(Decimal(text) if "." in text else int(text))
    except UnsupportedTypeError as error:
        raise place.refused(str(error).split("\n")[0].removesuffix("."), node) from None
    except (ValueError, ArithmeticError) as error:
        raise place.wrong(str(error).split("\n")[0], node) from None


def is_date(value: Expression) -> bool:
    """Return whether a value is a date or time literal, or a CASE of them."""
    if not isinstance(value, Call):
        return False
    if value.op != "case":
        return value.op == DATE
    return any(map(is_date, values_of(value)))


def values_of(case: Call) -> tuple[Expression, ...]:
    """Return the values of a CASE without null."""
    parts = case.arguments
    values = (*parts[1::2], parts[-1]) if len(parts) % 2 else parts[1::2]
    return tuple(value for value in values if value != NULL)


def as_text(value: Expression) -> Expression:
    """Return a date literal as the text constant that it compares as; other values unchanged."""
    if not isinstance(value, Call) or not is_date(value):
        return value
    if value.op == DATE:
        return value.arguments[0]
    return replace(value, arguments=tuple(map(as_text, value.arguments)))


TIMES = ("DATE", "TIMESTAMP", "DATETIME", "TIMESTAMPNTZ")
"""Types of casts that make a date or time literal of a text."""
_TIMES_FROM_INTERVALS = ("duckdb", "postgres", "redshift", "materialize", "risingwave")
"""Dialects in which a date and an interval add up to a timestamp, also for days and months."""


def _moment(node: Node, place: Place) -> dt.date | None:
    from sqlglot import expressions as exp

    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        kind = node.to.this.name if hasattr(node.to.this, "name") else str(node.to.this)
        if kind in TIMES and not isinstance(node, exp.TryCast):
            check_parts(node, place, "this", "to")
            return _parse_moment(node.this.this, kind, node, place)
        return None
    if isinstance(node, (exp.Date, exp.TsOrDsToDate)) and isinstance(node.this, exp.Literal) and node.this.is_string:
        check_parts(node, place, "this")
        return _parse_moment(node.this.this, "DATE", node, place)
    if isinstance(node, (exp.Add, exp.Sub)) and isinstance(node.expression, exp.Interval):
        start = _moment(node.this, place)
        if start is None:
            return None
        if place.names.dialect in _TIMES_FROM_INTERVALS and not isinstance(start, dt.datetime):
            start = dt.datetime.combine(start, dt.time())
        sign = 1 if isinstance(node, exp.Add) else -1
        return _moved(start, sign * _amount(node.expression, place), _unit(node.expression, place), node, place)
    return None


def _parse_moment(text: str, kind: str, node: Node, place: Place) -> dt.date | None:
    """Return the value of a date or time literal; None for forms that only DuckDB reads."""
    try:
        if kind == "DATE":
            return dt.date.fromisoformat(text.strip())
        moment = dt.datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if moment.tzinfo is not None:
        raise place.refused("times with a zone are not supported as literals", node)
    return moment


def _amount(interval: Node, place: Place) -> int:
    from sqlglot import expressions as exp

    value = interval.this
    sign = 1
    while isinstance(value, (exp.Neg, exp.Paren)):
        sign = -sign if isinstance(value, exp.Neg) else sign
        value = value.this
    if not isinstance(value, exp.Literal) or not str(value.this).strip().lstrip("-").isdecimal():
        raise place.refused("only intervals of a whole number are supported", interval, "Write INTERVAL '3' MONTH.")
    return sign * int(value.this)


def _unit(interval: Node, place: Place) -> str:
    unit = interval.args.get("unit")
    name = unit.name.upper().removesuffix("S") if unit is not None else ""
    if name not in ("DAY", "WEEK", "MONTH", "YEAR", "HOUR", "MINUTE", "SECOND"):
        what = f"the unit '{name.lower()}'" if name else f"this {describe_node(interval).lower()}"
        raise place.refused(
            f"{what} is not supported",
            interval,
            "Write INTERVAL '3' MONTH; YEAR, WEEK, DAY, HOUR, MINUTE and SECOND are, too.",
        )
    return name


def _moved(start: dt.date, amount: int, unit: str, node: Node, place: Place) -> dt.date:
    try:
        if unit in ("MONTH", "YEAR"):
            months = start.year * 12 + start.month - 1 + amount * (12 if unit == "YEAR" else 1)
            year, month = months // 12, months % 12 + 1
            return start.replace(year=year, month=month, day=min(start.day, calendar.monthrange(year, month)[1]))
        if unit in ("HOUR", "MINUTE", "SECOND") and not isinstance(start, dt.datetime):
            start = dt.datetime.combine(start, dt.time())
        return start + dt.timedelta(**{f"{unit.lower()}s": amount})
    except (ValueError, OverflowError):
        raise place.wrong("invalid date: expected a year from 1 to 9999", node) from None
