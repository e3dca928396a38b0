"""One rule of a program on its way to core form."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gpu_wcoj.errors import CalculationError
from gpu_wcoj.query.binding import definitions, keys_of, needed, standing
from gpu_wcoj.query.constant import calculated, called, holds
from gpu_wcoj.query.rules import Computed, Rule
from gpu_wcoj.query.terms import (
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

UNIT = "unit#facts"
"""An input of one row."""
ZERO = Constant(0)


class Helpers(Protocol):
    """The relations of a program that stand in for what a rule in core form cannot hold."""

    def grouped(self, aggregate: Aggregate, keys: tuple[Variable, ...], context: Variant) -> tuple[int, Atom | None]:
        """The number of the helpers of an aggregate, which stands in the rule that has come as far as `context`.

        If the aggregate is known at the keys only that the recursion has asked for, also the atom that holds those.
        """
        ...

    def projected(self, atom: Atom) -> Atom:
        """The atom without its wildcards."""
        ...


class Variant:
    """One rule on its way to core form: expressions become variables, in an order in which each can be worked out.

    Attributes
    ----------
    choices
        Of the first counts and sums, which are of nothing; later ones are not.
    taken
        The choices that were made.
    value
        What equality makes of variables that no relation binds.
    compared
        The variables that equality puts into the place of others, and so have a value.
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
        self.known: dict[Expression, Term] = {}
        self.outside = set(standing(rule))
        self.bound: set[Variable] = set()
        self.n_fresh = 0
        self.fails = False

    def lowered(self) -> Rule | None:
        """The rule; None if it can derive nothing. Without atoms it is a fact."""
        rule = self.rule
        equalities = [Comparison("=", computed.variable, computed.call) for computed in rule.computed]
        waiting = [*self._positive(), *equalities, *rule.comparisons]
        while waiting:
            waiting = self._without_taken(waiting)
        head = replace(rule.head, terms=tuple(map(self._term, rule.head.terms)))
        self.negated += [*self._negated_atoms()]
        if self.fails:
            return None
        if self.negated and not self.atoms:
            self.atoms.append(Atom(UNIT, (Variable("_#1"),)))
        places = [term for atom in (*self.atoms, *self.negated) for term in atom.terms]
        for variable in self.compared:
            if places.count(variable) == 1:  # else it has a value anyway
                self.comparisons.append(Comparison("!=", variable, NULL))
        return Rule(head, tuple(self.atoms), tuple(self.comparisons), tuple(self.negated), tuple(self.computed))

    def keys_rule(self, head: Atom, aggregate: Aggregate) -> Rule:
        """Return the rule of the keys of an aggregate: what the rule says beside the aggregate, as far as it has come.

        A binding that lacks a value which the keys are not made of is among them: whether it is an error is for the
        rule to say, by the aggregate too. If the keys or the braces may lack a value themselves, the keys are only
        those of bindings for which all that can be asked without the aggregate is true.
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
        """The calculated variables that may lack a value."""
        partial: set[Variable] = set()
        for computed in self.computed:
            if not is_total(computed.call) or not partial.isdisjoint(computed.call.variables):
                partial.add(computed.variable)
        return partial

    def _negated_atoms(self, bound: Container[Variable] | None = None) -> Iterator[Atom]:
        """The negated atoms of the text; with `bound`, only those of these variables, without what they calculate."""
        for atom in self.rule.negated:
            if bound is not None and not all(
                isinstance(term, Constant) or is_wildcard(term) or (isinstance(term, Variable) and term in bound)
                for term in atom.terms
            ):
                continue
            terms = tuple(term if is_wildcard(term) else self._term(term) for term in atom.terms)
            yield self.program.projected(replace(atom, terms=terms))

    def _positive(self) -> Iterator[Comparison]:
        """Take the positive atoms; what is calculated in them is compared with what stands in their place."""
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

    def _without_taken(self, waiting: list[Comparison]) -> list[Comparison]:
        """Take what can be taken: one comparison with an aggregate, or all without, which say more of the keys."""
        ranks = list(map(self._rank, waiting))
        remaining = [
            comparison
            for comparison, rank in zip(waiting, ranks, strict=True)
            if rank > 0 or not self._take(comparison)
        ]
        if len(remaining) < len(waiting):
            return remaining
        for position in sorted(range(len(waiting)), key=ranks.__getitem__):
            if ranks[position] > 0 and self._take(waiting[position]):
                return [*waiting[:position], *waiting[position + 1 :]]
        raise AssertionError(f"'{self.rule}' is not safe")

    def _rank(self, comparison: Comparison) -> int:
        """Return 0 for a comparison without aggregates; 2 if one of its aggregates may lack a value, or its keys."""
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

    def _take(self, comparison: Comparison) -> bool:
        """Take a comparison, if all that it needs is bound by now, or it binds a variable."""
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
                return self._take(test)
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
        """What stands for an expression: a variable or constant, or what is calculated, by that name or a new one."""
        if isinstance(expression, Constant):
            return expression
        if isinstance(expression, Variable):
            return self.value.get(expression, expression)
        if isinstance(expression, Aggregate):
            expression = _with(expression, self.value)
            if expression not in self.known:
                self.known[expression] = self._aggregated(expression, name or self._fresh())
            return self.known[expression]
        if expression.takes_nulls:
            nested = self._nested(expression)
            return self._calculated(nested, name) if isinstance(nested, Call) else self._term(nested)
        arguments = [self._term(argument) for argument in expression.arguments]
        while len(arguments) > 2 and expression.op == "cat":
            arguments[:2] = [self._calculated(Call("cat", tuple(arguments[:2])), None)]
        return self._calculated(Call(expression.op, tuple(arguments)), name)

    def _nested(self, call: Call) -> Expression:
        """A null-aware call, whose arguments stay expressions, with terms in the place of variables and aggregates."""
        arguments = (
            self._nested(argument) if isinstance(argument, Call) else self._term(argument)
            for argument in call.arguments
        )
        return called(call.op, *arguments)

    def _calculated(self, call: Call, name: Variable | None) -> Term:
        if call not in self.known:
            self.known[call] = self._constant(call) or name or self._fresh()
            variable = self.known[call]
            if isinstance(variable, Variable):
                self.computed.append(Computed(variable, call))
                self.bound.add(variable)
        return self.known[call]

    def _constant(self, call: Call) -> Constant | None:
        """The value of a call of constants; None where it is left to the ticks: those that derive something by it fail.

        So it is with a count or sum of nothing that is no divisor, which the text's own constants are not.
        """
        constants = [argument for argument in call.arguments if isinstance(argument, Constant)]
        if len(constants) < len(call.arguments):
            return None
        try:
            return calculated(call, constants)
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
    """Whether a term is ``_``."""
    return isinstance(term, Variable) and term.is_wildcard


def _with(aggregate: Aggregate, value: Mapping[Variable, Term]) -> Aggregate:
    """An aggregate with terms in the place of variables."""
    if not any(key in value for key in keys_of(aggregate, value)):
        return aggregate

    def replaced(expression: Expression) -> Expression:
        if isinstance(expression, Variable):
            return value.get(expression, expression)
        if isinstance(expression, Call):
            return replace(expression, arguments=tuple(map(replaced, expression.arguments)))
        return _with(expression, value) if isinstance(expression, Aggregate) else expression

    def atoms(given: Sequence[Atom]) -> tuple[Atom, ...]:
        return tuple(replace(atom, terms=tuple(map(replaced, atom.terms))) for atom in given)

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
