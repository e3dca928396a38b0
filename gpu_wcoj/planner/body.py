"""Normalise a rule: substitute equalities, turn constants into selections, add null flags.

Each nullable column has a column of flags after the relation's own columns (1 where the value is null, with code 0). A
variable that joins, is compared or repeated restricts rows to non-null values, and so does a variable of a calculation
or of a negated atom. A variable that occurs once is kept with its flag, so that nulls that are only copied survive, and
a null-safe variable is kept with its flag everywhere; see `gpu_wcoj.planner.nulls`.

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import NamedTuple

from gpu_wcoj.data.schema import NO_DECIMAL, DataType
from gpu_wcoj.join.plan import Calculation, Condition
from gpu_wcoj.planner.calculations import INTEGERS, Kinds, calculation_of, comparable, formula_of
from gpu_wcoj.planner.equalities import Resolve, resolver
from gpu_wcoj.planner.nulls import Nulls, never_holds, nulls_of
from gpu_wcoj.query.ir import MIRRORED, NULL, Atom, Constant, Expression, Term, Variable
from gpu_wcoj.query.rules import Rule
from gpu_wcoj.trace.arrangement import COMPARE, ComparedColumns

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
        Variables that have to be null or not null; the bodies of all `gpu_wcoj.planner.nulls.cases` form the rule.
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
            family = kind.family if kind is not None and kind.has_dictionary else ""
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
        if computed.call.takes_nulls:
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
    """Return True if the constant may have more digits than the type it is compared with."""
    return kind is not None and (kind.family == "decimal" or isinstance(constant.value, Decimal))


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
