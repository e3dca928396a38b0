"""Desugaring of one rule of a program to core form."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gpu_wcoj.errors import CalculationError
from gpu_wcoj.query.constant_folding import evaluate, holds, simplified_call
from gpu_wcoj.query.ir import (
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Term,
    Variable,
    aggregates_of,
    is_total,
)
from gpu_wcoj.query.rules import Computed, Rule
from gpu_wcoj.query.safety import definitions, keys_of, needed, standing

UNIT = "unit#facts"
"""Name of an input of one row."""
ZERO = Constant(0)


class Helpers(Protocol):
    """Helper relations of a program, for conditions that a rule in core form cannot express."""

    def grouped(self, aggregate: Aggregate, keys: tuple[Variable, ...], context: Variant) -> tuple[int, Atom | None]:
        """Return the number of the helpers of an aggregate of the partly converted rule `context`.

        If the aggregate is computed only for keys that the recursion needs, also return the atom of these keys.
        """
        ...

    def projected(self, atom: Atom) -> Atom:
        """Return the atom without its wildcards."""
        ...


class Variant:
    """Converter of one rule to core form; expressions become variables.

    Attributes
    ----------
    choices
        For each of the first counts and sums, whether it is of nothing; later counts and sums are not.
    taken
        The choices made so far.
    value
        The terms that equalities give to variables that no relation binds.
    compared
        The variables that replace other variables by equality, and so must not be null.
    term_of
        The terms of expressions that have been converted.
    """

    def __init__(self, program: Helpers, choices: Sequence[bool], rule: Rule) -> None:
        self.program = program
        self.choices = choices
        self.rule = rule
        self.taken: tuple[bool, ...] = ()
        self.atoms: list[Atom] = []
        self.negated: list[Atom] = []
        self.computed: list[Computed] = []
        self.comparisons: list[Comparison] = []
        self.value: dict[Variable, Term] = {}
        self.compared: dict[Variable, None] = {}
        self.term_of: dict[Expression, Term] = {}
        self.outside = set(standing(rule))
        self.bound: set[Variable] = set()
        self.n_fresh = 0
        self.fails = False

    def lower(self) -> Rule | None:
        """Return the rule in core form, a fact if it has no atoms; None if it can derive nothing."""
        rule = self.rule
        equalities = [Comparison("=", computed.variable, computed.call) for computed in rule.computed]
        waiting = [*self._positive(), *equalities, *rule.comparisons]
        while waiting:
            waiting = self._place_ready(waiting)
        head = replace(rule.head, terms=tuple(map(self._term, rule.head.terms)))
        self.negated += [*self._negated_atoms()]
        if self.fails:
            return None
        if self.negated and not self.atoms:
            self.atoms.append(Atom(UNIT, (Variable("_#1"),)))
        places = [term for atom in (*self.atoms, *self.negated) for term in atom.terms]
        for variable in self.compared:
            if places.count(variable) == 1:  # a second occurrence excludes null already
                self.comparisons.append(Comparison("!=", variable, NULL))
        return Rule(head, tuple(self.atoms), tuple(self.comparisons), tuple(self.negated), tuple(self.computed))

    def keys_rule(self, head: Atom, aggregate: Aggregate) -> Rule:
        """Return the rule of the keys of an aggregate, from the conditions converted so far.

        A binding stays if a value that the keys do not depend on is undefined: the rule itself decides, by the
        aggregate too, whether that is an error. If the keys or the braces may be undefined themselves, the keys are
        only those of bindings for which all conditions that do not need the aggregate are true.
        """
        partial = self._partial()
        comparisons, negated = self.comparisons, self.negated
        if is_total(aggregate) and partial.isdisjoint(head.variables):
            comparisons = [comparison for comparison in comparisons if partial.isdisjoint(comparison.variables)]
            negated = [atom for atom in negated if partial.isdisjoint(atom.variables)]
        else:
            bound = self.bound | set(self.value)
            negated = [*negated, *self._negated_atoms(bound)]
            partial = set()
        parts: list[Atom | Comparison] = [head, *self.atoms, *negated, *comparisons]
        used = {variable for part in parts for variable in part.variables}
        computed: list[Computed] = []
        for definition in reversed(self.computed):
            if definition.variable in used and definition.variable not in partial:
                used.update(definition.call.variables)
                computed.insert(0, definition)
        return Rule(head, tuple(self.atoms), tuple(comparisons), tuple(negated), tuple(computed))

    def _partial(self) -> set[Variable]:
        """Return the calculated variables that may have no value."""
        partial: set[Variable] = set()
        for computed in self.computed:
            if not is_total(computed.call) or not partial.isdisjoint(computed.call.variables):
                partial.add(computed.variable)
        return partial

    def _negated_atoms(self, bound: Container[Variable] | None = None) -> Iterator[Atom]:
        """Yield the converted negated atoms.

        With `bound`, only those of bound variables without calculations.
        """
        for atom in self.rule.negated:
            if bound is not None and not all(
                isinstance(term, Constant) or is_wildcard(term) or (isinstance(term, Variable) and term in bound)
                for term in atom.terms
            ):
                continue
            terms = tuple(term if is_wildcard(term) else self._term(term) for term in atom.terms)
            yield self.program.projected(replace(atom, terms=terms))

    def _positive(self) -> Iterator[Comparison]:
        """Convert the positive atoms; yield an equality for each calculation in them."""
        for atom in self.rule.atoms:
            terms: list[Term] = []
            for term in atom.terms:
                if isinstance(term, (Variable, Constant)):
                    terms.append(term)
                    continue
                terms.append(self._fresh())
                yield Comparison("=", terms[-1], term)
            self.bound.update(term for term in terms if isinstance(term, Variable))
            self.atoms.append(replace(atom, terms=tuple(terms)))

    def _place_ready(self, waiting: list[Comparison]) -> list[Comparison]:
        """Convert the ready comparisons and return the others.

        All ready comparisons without aggregates are converted at once; if there are none, one comparison with an
        aggregate. Comparisons without aggregates come first because they restrict the keys of the aggregates.
        """
        ranks = list(map(self._rank, waiting))
        remaining = [
            comparison
            for comparison, rank in zip(waiting, ranks, strict=True)
            if rank > 0 or not self._try_place(comparison)
        ]
        if len(remaining) < len(waiting):
            return remaining
        for position in sorted(range(len(waiting)), key=ranks.__getitem__):
            if ranks[position] > 0 and self._try_place(waiting[position]):
                return [*waiting[:position], *waiting[position + 1 :]]
        raise AssertionError(f"'{self.rule}' is not safe")

    def _rank(self, comparison: Comparison) -> int:
        """Return the conversion order of a comparison.

        0 without aggregates, 2 if an aggregate or its keys may be undefined, else 1.
        """
        aggregates = [*aggregates_of((comparison.left, comparison.right))]
        if not aggregates:
            return 0
        partial = self._partial()
        keys = {
            self.value.get(key, key)
            for aggregate in aggregates
            for key in keys_of(aggregate, self.outside | self.bound)
        }
        return 1 if all(map(is_total, aggregates)) and partial.isdisjoint(keys) else 2

    def _try_place(self, comparison: Comparison) -> bool:
        """Convert a comparison if its variables are bound or it binds one; return whether it did."""
        for variable, expression in definitions([comparison]):
            if not self._is_bound([variable]) and self._is_bound(needed(expression, self.outside)):
                self._define(variable, expression)
                return True
        if not self._is_bound(needed(comparison.left, self.outside) | needed(comparison.right, self.outside)):
            return False
        if comparison.is_null_test:
            tested = comparison.left if comparison.right == NULL else comparison.right
            if isinstance(tested, Call) and tested.takes_nulls:
                test = Comparison("=", Call("isnull", (tested,)), Constant(comparison.op == "="), comparison.span)
                return self._try_place(test)
        left, right = self._term(comparison.left), self._term(comparison.right)
        if isinstance(left, Constant) and isinstance(right, Constant):
            self.fails = self.fails or not holds(comparison.op, left, right)
        else:
            self.comparisons.append(Comparison(comparison.op, left, right, comparison.span))
        return True

    def _is_bound(self, variables: Sequence[Variable] | set[Variable]) -> bool:
        return all(variable in self.bound or variable in self.value for variable in variables)

    def _define(self, variable: Variable, expression: Expression) -> None:
        term = self._term(expression, variable)
        if term != variable:
            self.value[variable] = term
        if isinstance(expression, Variable) and isinstance(term, Variable):
            self.compared[term] = None

    def _term(self, expression: Expression, name: Variable | None = None) -> Term:
        """Return the term of an expression; a calculation gets the variable `name` or a new one."""
        if isinstance(expression, Constant):
            return expression
        if isinstance(expression, Variable):
            return self.value.get(expression, expression)
        if isinstance(expression, Aggregate):
            expression = _substituted(expression, self.value)
            if expression not in self.term_of:
                self.term_of[expression] = self._aggregated(expression, name or self._fresh())
            return self.term_of[expression]
        if expression.takes_nulls:
            nested = self._nested(expression)
            return self._calculated(nested, name) if isinstance(nested, Call) else self._term(nested)
        arguments = [self._term(argument) for argument in expression.arguments]
        while len(arguments) > 2 and expression.op == "cat":
            arguments[:2] = [self._calculated(Call("cat", tuple(arguments[:2])), None)]
        return self._calculated(Call(expression.op, tuple(arguments)), name)

    def _nested(self, call: Call) -> Expression:
        """Return a null-aware call with variables and aggregates replaced by terms.

        Its other arguments stay expressions.
        """
        arguments = (
            self._nested(argument) if isinstance(argument, Call) else self._term(argument)
            for argument in call.arguments
        )
        return simplified_call(call.op, *arguments)

    def _calculated(self, call: Call, name: Variable | None) -> Term:
        if call not in self.term_of:
            self.term_of[call] = self._constant(call) or name or self._fresh()
            variable = self.term_of[call]
            if isinstance(variable, Variable):
                self.computed.append(Computed(variable, call))
                self.bound.add(variable)
        return self.term_of[call]

    def _constant(self, call: Call) -> Constant | None:
        """Return the value of a call of constants, or None to leave it to the ticks.

        A tick that needs the value fails.

        That is the case for an undefined call with a count or sum of nothing, such as a division by it; an undefined
        call of constants of the text raises.
        """
        constants = [argument for argument in call.arguments if isinstance(argument, Constant)]
        if len(constants) < len(call.arguments):
            return None
        try:
            return evaluate(call, constants)
        except CalculationError:
            if any(self.taken):
                return None
            raise

    def _aggregated(self, aggregate: Aggregate, result: Variable) -> Term:
        keys = keys_of(aggregate, self.outside | self.bound)
        helper_number, demand = self.program.grouped(aggregate, keys, self)
        if aggregate.op in ("count", "sum"):
            position = len(self.taken)
            self.taken = (*self.taken, position < len(self.choices) and self.choices[position])
            if self.taken[-1]:
                self.negated.append(Atom(f"has#{helper_number}", keys or (ZERO,)))
                self.atoms += [] if demand is None else [demand]
                return ZERO
        self.atoms.append(Atom(f"agg#{helper_number}", (*keys, result)))
        self.bound.add(result)
        return result

    def _fresh(self) -> Variable:
        self.n_fresh += 1
        return Variable(f"#{self.n_fresh}")


def is_wildcard(term: Expression) -> bool:
    """Return whether a term is ``_``."""
    return isinstance(term, Variable) and term.is_wildcard


def _substituted(aggregate: Aggregate, value: Mapping[Variable, Term]) -> Aggregate:
    """Return an aggregate with variables replaced by terms."""
    if not any(key in value for key in keys_of(aggregate, value)):
        return aggregate

    def replaced(expression: Expression) -> Expression:
        if isinstance(expression, Variable):
            return value.get(expression, expression)
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(replaced, expression.arguments)))
        return _substituted(expression, value) if isinstance(expression, Aggregate) else expression

    def atoms(originals: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(replace(atom, terms=tuple(map(replaced, atom.terms))) for atom in originals)

    return replace(
        aggregate,
        value=None if aggregate.value is None else replaced(aggregate.value),
        atoms=atoms(aggregate.atoms),
        comparisons=tuple(
            replace(comparison, left=replaced(comparison.left), right=replaced(comparison.right))
            for comparison in aggregate.comparisons
        ),
        negated=atoms(aggregate.negated),
    )
