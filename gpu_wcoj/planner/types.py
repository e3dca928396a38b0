"""Type inference of columns, by equality classes and the types of inputs and declarations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import TypeMismatchError
from gpu_wcoj.planner.results import aggregate_of, kind_of, type_of_constants
from gpu_wcoj.query.ir import COMPARING, NULL, Call, Constant, Expression, Variable, plain
from gpu_wcoj.query.rules import Computed, Rule, Rules
from gpu_wcoj.query.stratify import loops_of

Place = tuple[str, int]
"""Relation and index of one of its columns."""


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
        self._constants: dict[Place, list[tuple[Rule | None, object]]] = {}  # with the rule; facts have none
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
        for head, demand in rules.demands.items():
            for column in range(rules.arity[demand]):
                self._link((head, column), (demand, column))
        for facts in rules.facts:
            for column, values in enumerate(zip(*facts.rows, strict=True)):
                said = [(None, value) for value in values if value is not None]
                self._constants.setdefault((facts.relation, column), []).extend(said)
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

    def _check_range(self, declared: Mapping[Place, DataType]) -> None:
        """Raise for a constant outside the integers of its column's declared type."""
        for place, kind in declared.items():
            if kind.family == "integer":
                lowest, highest = kind.code_range
                for rule, value in self._constants.get(place, ()):
                    if type(value) is int and not lowest <= value <= highest:
                        says = "a fact of the text" if rule is None else f"'{rule}'"
                        raise TypeMismatchError.with_parts(
                            f"{self._label(place)} is declared as '{kind.name}', {lowest} to {highest}, and {says} has "
                            f"{value}",
                            subject=place[0],
                            got=value,
                            remedy="Declare another type.",
                        )

    def _type_constant_columns(self, typed: Iterable[Place]) -> None:
        """Give head columns of constants a default type, unless `typed` columns join them.

        Columns that a calculation or an aggregate reaches get one too, unless the constants are numbers.
        """
        reached = {self._root(place) for place in typed}
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
        self._worked_out = {}
        for is_last in (False, True):
            while self._derive_once(is_last):
                pass
        for rule, left, right in self._compared:
            kinds = [self.type_of(*left), self.type_of(*right)]
            typed = [kind for kind in kinds if kind is not None]
            families = {kind.family for kind in typed}
            if len(families) == 2 and families != {"integer", "decimal"}:
                raise TypeMismatchError.with_parts(
                    f"the rule '{rule}' compares a value of type '{typed[0].name}' with a value of type "
                    f"'{typed[1].name}'",
                    subject=str(rule),
                    remedy="Cast a column, so that both are of one type.",
                )

    def _derive_once(self, is_last: bool) -> bool:
        changed = False
        for rule, homes, computed, place in self._calculated:
            variables = computed.call.variables
            kinds = [self.type_of(*homes[term.name]) if term.name in homes else None for term in variables]
            cached = self._results.get((place, is_last))
            if cached is None or cached[0] != kinds:
                kind_by_variable = dict(zip(variables, kinds, strict=True))
                cached = kinds, kind_of(computed.call, kind_by_variable.__getitem__, rule, is_last)
                self._results[place, is_last] = cached
            changed |= self._show(place, cached[1])
        for grouping in self._rules.groupings:
            value = None if grouping.op == "count" else self.type_of(grouping.source, grouping.keys)
            place = (grouping.relation, grouping.keys)
            name = partial(self._where, grouping.relation)
            changed |= self._show(place, aggregate_of(grouping.op, value, name))
        return changed

    def _show(self, place: Place, kind: DataType | None) -> bool:
        """Store an inferred type; return True if it is new."""
        root = self._root(place)
        inferred = self._worked_out.setdefault(root, {})
        if kind is None or kind == inferred.pop(place, None):
            if kind is not None:
                inferred[place] = kind
            return False
        self._check_others(root, place, kind, None, is_worked_out=True)
        inferred[place] = kind
        self._check_constants(root, place, None)
        return True

    def kinds(self, rule: Rule) -> Mapping[str, DataType | None]:
        """Return the type of every variable of a rule, by name, None while unknown.

        Examples
        --------
        >>> from gpu_wcoj.query.core import desugar
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
        copy._constants = self._constants
        copy._said = self._said
        copy._homes = self._homes
        copy._calculated = self._calculated
        copy._results = dict(self._results)
        copy._compared = self._compared
        copy._linked_by = self._linked_by
        copy._rules = self._rules
        copy._seen = {root: dict(seen) for root, seen in self._seen.items()}
        copy._worked_out = {root: dict(seen) for root, seen in self._worked_out.items()}
        return copy

    def type_of(self, relation: str, column: int) -> DataType | None:
        """Return the common type of a column's class; None while unknown."""
        common: DataType | None = None
        root = self._root((relation, column))
        for kind in self._seen.get(root, {}).values():
            common = kind if common is None else common.common(kind)
        for kind in self._worked_out.get(root, {}).values():
            common = kind if common is None else common.common(kind, is_computed=True)
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

    def snapshot(self) -> dict[Place, DataType | None]:
        """Return the type of every column."""
        return {place: self.type_of(*place) for place in self._parent}

    def bound_types(self) -> list[tuple[str, int, DataType]]:
        """Return the types from inputs and declarations; binding them again gives the same types."""
        return [(*place, kind) for seen in self._seen.values() for place, kind in seen.items()]

    def bind(self, relation: str, kinds: Sequence[DataType | None], names: Sequence[str] | None = None) -> None:
        """Add the types of a relation's columns from an input or declaration; None where not given.

        Raises
        ------
        TypeMismatchError
            If a column joins a column of another type, or a constant that does not fit its type; or if a calculation
            from it does.
        """
        self._worked_out = {}
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
            self._check_constants(root, place, name)

    def _check_others(self, root: Place, place: Place, kind: DataType, name: str | None, is_worked_out: bool) -> None:
        """Raise if a type is incompatible with the known types of its class."""
        for kinds in (self._seen, self._worked_out):
            for other_place, other_kind in kinds.get(root, {}).items():
                try:
                    kind.common(other_kind, is_worked_out or kinds is self._worked_out)
                except TypeMismatchError as error:
                    said = self._join_words(place, other_place)
                    what = f"{self._label(place, name)} is of type '{kind.name}', and {said}"
                    why = str(error).splitlines()[-1].strip()
                    raise TypeMismatchError.with_parts(
                        f"{what} of type '{other_kind.name}'", subject=place[0], got=kind.name, remedy=why
                    ) from None

    def _join_words(self, place: Place, other_place: Place) -> str:
        if place == other_place:
            return "was declared or has been so far"
        there = self._label(other_place)
        rule = str(self._linked_by.get(frozenset((place, other_place)), "#"))
        return f"joins {there}" if "#" in rule else f"the rule '{rule}' compares it with {there},"

    def _check_constants(self, root: Place, shown_place: Place, name: str | None) -> None:
        common = self.type_of(*root)
        assert common is not None
        for place in self._said.get(root, ()):
            for rule, value in self._constants[place]:
                if not fits(value, common):
                    says = "a fact of the text gives it" if rule is None else f"the rule '{rule}' compares it with"
                    raise TypeMismatchError.with_parts(
                        f"{self._label(shown_place, name)} is of type '{common.name}', and {says} {value!r}",
                        subject=shown_place[0],
                        got=value,
                        remedy="Write a constant of that type.",
                    )

    def _label(self, place: Place, name: str | None = None) -> str:
        from gpu_wcoj.query.told import describe_column  # rarely needed

        return describe_column(self._rules, *place, name)

    def _where(self, relation: str) -> str:
        from gpu_wcoj.query.told import describe_place

        return describe_place(self._rules, relation, "of")

    def _root(self, place: Place) -> Place:
        self._parent.setdefault(place, place)
        while self._parent[place] != place:
            place = self._parent[place]
        return place

    def _link(self, left: Place, right: Place) -> None:
        left, right = self._root(left), self._root(right)
        if left != right:
            self._parent[right] = left


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
        return family in ("integer", "float32", "float64", "decimal")
    if isinstance(value, float):
        return family in ("float32", "float64", "decimal")
    return family in ("string", "date", "timestamp", "zoned")


def names_of(rules: Rules) -> Mapping[str, tuple[str, ...]]:
    """Return the distinct column names of each relation, from declarations or heads."""
    named: dict[str, tuple[str, ...]] = {}
    for rule in rules.rules:
        if rule.head.relation not in named:
            raw = [term.name if isinstance(term, Variable) else f"c{i}" for i, term in enumerate(rule.head.terms)]
            named[rule.head.relation] = _distinct(raw)
    for declaration in rules.declarations:
        named[declaration.relation] = declaration.columns
    return named


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    taken: list[str] = []
    for name in names:
        unique, suffix = name, 1
        while unique in taken:
            suffix += 1
            unique = f"{name}_{suffix}"
        taken.append(unique)
    return tuple(taken)
