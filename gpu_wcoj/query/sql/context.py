"""State shared by all parts of the SQL compiler, and the interface between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from gpu_wcoj.query.ir import NULL, NULL_AWARE, Atom, Call, Constant, Expression, Variable, variables_of
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.query.sql.branch import Branch, Values
from gpu_wcoj.query.sql.known import has_query
from gpu_wcoj.query.sql.place import Place
from gpu_wcoj.query.sql.scope import Scope
from gpu_wcoj.query.sql.writing import rule

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

MAX_BRANCHES = 128
"""Most rules of one query."""
MAX_CASES = 32
"""Most branches for the values of one row; beyond it, the values become null-aware calls in one branch."""
MAX_INLINED_ATOMS = 16
"""Most atoms of a query that is inlined into its reader; a longer one becomes a relation."""
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


class Context(ABC):
    """State of the compiler, and the methods that its parts call of each other.

    Attributes
    ----------
    recursing
        The relations that the recursion being compiled derives, and the node that names it.
    """

    def __init__(self, place: Place, dialect: str) -> None:
        self.place = place
        self.dialect = dialect
        self.rules: list[Rule] = []
        self.kinds: dict[Variable, str | None] = {}
        self.heads: dict[int, tuple[Derived, str]] = {}
        self.n_fresh = 0
        self.recursing: dict[str, Node] = {}
        self.n_helpers = 0
        self.n_columns = 0
        self.has_unit = False

    @abstractmethod
    def query(self, node: Node, scope: Scope | None) -> Derived:
        """Compile a query; `scope` holds the names of the outer query."""

    @abstractmethod
    def truth(self, node: Node, truth_value: str, scope: Scope, branch: Branch) -> list[Branch]:
        """Return disjoint branches in which a condition has a truth value ``T``, ``F`` or ``U``."""

    @abstractmethod
    def cases(self, node: Node, scope: Scope, branch: Branch) -> list[Case]:
        """Return disjoint branches with the values of an expression."""

    @abstractmethod
    def formula(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return an expression as one null-aware call; see `formulas`.

        The expression has no EXISTS and no IN of a query.
        """

    @abstractmethod
    def value(self, node: Node, scope: Scope, branch: Branch) -> Case:
        """Return an expression as the value of a column, which keeps rows in which it is null."""

    @abstractmethod
    def leaf(self, node: Node, scope: Scope, branch: Branch) -> Case | None:
        """Return the value of a column, key, aggregate or one-row query, else None."""

    @abstractmethod
    def select_within(self, node: Node, scope: Scope, branch: Branch) -> list[tuple[Branch, Values]]:
        """Return the rows of a query in a condition, joined with a row of the outer query."""

    @abstractmethod
    def unify_rows(
        self, rows: Sequence[tuple[Branch, Values]], nodes: Sequence[Node] = ()
    ) -> list[tuple[Branch, Values]]:
        """Convert rows of the same columns to common types.

        `nodes` are the expressions of the columns of a relation.
        """

    @abstractmethod
    def relation(self, node: Node) -> Derived:
        """Return the table, view or common table expression that a name refers to."""

    @abstractmethod
    def literal(self, node: Node) -> Expression | None:
        """Return the value of a literal; None for any other node."""

    @abstractmethod
    def unify_pair(self, left: Expression, right: Expression, node: Node) -> tuple[Expression, Expression]:
        """Convert two non-null values to types that compare."""

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
    return "decimal" if any(kind is not None and kind.startswith("decimal") for kind in kinds) else None
