"""Desugaring of one rule of a program to core form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gpu_wcoj.errors import CalculationError, UnsupportedError
from gpu_wcoj.query.constant_folding import evaluate, holds, simplified_call
from gpu_wcoj.query.ir import (
    NEVER,
    NULL,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Computed,
    Constant,
    Declaration,
    Expression,
    Extreme,
    Facts,
    Grouping,
    Rule,
    Rules,
    Term,
    Variable,
    aggregates_of,
    is_total,
)
from gpu_wcoj.query.safety import applied, bound_variables, definitions, keys_of, needed, rewritten, standing
from gpu_wcoj.query.stratify import EXTREMES, check_settled, guarded, loops_of, recursive_rule

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
        if (self.negated or self.computed) and not self.atoms:
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
            expression = rewritten(expression, lambda variable: self.value.get(variable, variable))
            if expression not in self.term_of:
                self.term_of[expression] = self._aggregated(expression, name or self._fresh())
            return self.term_of[expression]
        if expression.takes_nulls:
            nested = self._nested(expression)
            return self._calculated(nested, name) if isinstance(nested, Call) else self._term(nested)
        arguments = [self._term(argument) for argument in expression.arguments]
        while len(arguments) > 2 and expression.op == "cat":
            arguments[:2] = [self._calculated(Call("cat", tuple(arguments[:2])), None)]
        return self._calculated(replace(expression, arguments=tuple(arguments)), name)

    def _nested(self, call: Call) -> Expression:
        """Return a null-aware call with variables and aggregates replaced by terms.

        Its other arguments stay expressions.
        """
        arguments = (
            self._nested(argument) if isinstance(argument, Call) else self._term(argument)
            for argument in call.arguments
        )
        if call.function is not None:
            return replace(call, arguments=tuple(arguments))
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

        That is the case for a Python function, and for an undefined call with a count or sum of nothing, such as a
        division by it; an undefined call of constants of the text raises.
        """
        constants = [argument for argument in call.arguments if isinstance(argument, Constant)]
        if len(constants) < len(call.arguments) or call.function is not None:
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


# Desugaring: a program as it is written to its core form, the input of the planner.
#
# In core form the atoms and comparisons of a rule hold variables and constants only; calculations are listed
# separately, each null-aware call as one calculation. Everything else becomes helper relations, whose names no text can
# spell:
#
# - An aggregate in a body becomes a relation of the bindings that satisfy its braces (``rule#1``), a grouping of that
#   relation (``agg#1``), and an atom that reads the grouping. A count or a sum of nothing is 0: a second rule derives
#   it where the negated ``has#1`` finds no rows.
# - Keys of an aggregate that its braces do not bind come from the other conditions of the rule (``row#1``), each once
#   (``once#1``, ``keys#1``), also where rows have weights. If those conditions read the recursion of the rule, the
#   aggregate reads its keys from an input (``demand#1``), so that it belongs to a stratum before the recursion; each
#   tick derives the rows of that input, see `gpu_wcoj.circuit.circuit.Circuit.find_demanded_keys`.
# - A head that aggregates becomes a grouping, or an extreme if it goes through recursion.
# - A negated atom with wildcards is projected first (``some#1``).
# - A relation that is both input and head gets one more rule, which reads the input (``edge#in``).
# - An input that no rule reads, or only rules that derive nothing, is read by a rule that never holds
# (``edge#unread``).
# - Facts become an input (``edge#facts``), loaded with the first tick; a rule that binds nothing reads an input that
#   always has one row (``unit#facts``).


MAX_ZEROS = 6
"""Most counts and sums in one rule: the rule is written once for each choice of those that are 0."""


def desugar(rules: Rules) -> Rules:
    """Return the core form of a checked program; a program in core form is returned unchanged.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> print(desugar(parse("fanout(x, n) :- node(x), n = count : { edge(x, _) }.")))
    rule#1(x, any#1) :- edge(x, any#1).
    has#1(x) :- agg#1(x, _).
    fanout(x, n) :- node(x), agg#1(x, n).
    fanout(x, 0) :- node(x), !has#1(x).
    agg#1: count of rule#1 by its first column
    """
    is_core = rules.groupings or rules.extremes or rules.facts
    if not is_core:
        rules = guarded(rules)
        check_settled(rules, loops_of(rules))
    read = {atom.relation for rule in rules.rules for atom in rule.read}
    named = [name for name in rules.inputs if name in rules.heads]
    is_plain = not named and read.issuperset(rules.inputs) and all(_is_plain(rule) for rule in rules.rules)
    if is_core or is_plain:
        return rules
    return _Core(rules).lower_all(named)


def check_limits(core: Rules, loops: Mapping[str, Collection[str]]) -> None:
    """Raise if a recursion with a limit of size has helpers, which add to its iterations.

    Parameters
    ----------
    loops
        The recursions of the program as it is written.
    """
    loops_now = loops_of(core)
    for limit in core.limits:
        if helpers := set(loops_now[limit.relation]).difference(loops[limit.relation]):
            stem = min(helpers).split("#")[0]
            raise UnsupportedError.unsupported(
                f"'{limit}'",
                f"the recursion of '{limit.relation}' needs a relation of its own for '{stem}'",
                "Move the aggregate or range into a relation outside of the recursion, or bound the recursion by a "
                "condition such as x < 100.",
            )


def _is_plain(rule: Rule) -> bool:
    """Return whether a rule is already in core form."""
    parts: list[Expression] = [*rule.head.terms]
    for atom in (*rule.atoms, *rule.negated):
        parts += atom.terms
    for comparison in rule.comparisons:
        parts += [comparison.left, comparison.right]
    for computed in rule.computed:
        if not computed.call.takes_nulls:
            parts += computed.call.arguments
    bound = {*rule.variables, *(computed.variable for computed in rule.computed)}
    negated = [term for atom in rule.negated for term in atom.variables]
    are_plain = all(isinstance(part, (Variable, Constant)) for part in parts)
    return (
        bool(rule.atoms) and are_plain and all(variable in bound and not variable.is_wildcard for variable in negated)
    )


class _Core:
    """Builder of the core form of a program: the rules and helpers written so far."""

    def __init__(self, rules: Rules) -> None:
        self.source = rules
        self.loops = loops_of(rules)
        self.n_rules = Counter(rule.head.relation for rule in rules.rules)
        self.columns = {declaration.relation: declaration.columns for declaration in rules.declarations}
        self.rules: list[Rule] = []
        self.groupings: list[Grouping] = []
        self.extremes: dict[str, Extreme] = {}
        self.facts: dict[str, dict[tuple[Constant, ...], None]] = {}
        self.arity: dict[str, int] = {}
        self.n_helpers = 0
        self.of_head: dict[str, str] = {}
        self.of_aggregate: dict[tuple[object, ...], tuple[int, Atom | None]] = {}
        self.of_negated: dict[tuple[str, tuple[bool, ...]], str] = {}

    def lower_all(self, named: Sequence[str]) -> Rules:
        for rule in self.source.rules:
            self.add(rule)
        for name in named:
            self.add_copy_rule(f"{name}#in", name)
        read = {atom.relation for rule in self.rules for atom in rule.read}
        for name in [name for name in self.source.inputs if name not in read and name not in named]:
            self.add_unread_rule(name)
        derived = {rule.head.relation for rule in self.rules} | {grouping.relation for grouping in self.groupings}
        derived |= {helper.relation for helper in self.source.helpers}
        facts = []
        for name in self.arity:
            if name in self.facts or name not in derived:
                self.add_copy_rule(f"{name}#facts", name)
                rows = tuple(tuple(constant.value for constant in row) for row in self.facts.get(name, ()))
                facts.append(Facts(f"{name}#facts", rows))
        if any(atom.relation == UNIT for rule in self.rules for atom in rule.atoms):
            facts.append(Facts(UNIT, ((0,),)))
        core = replace(
            self.source,
            rules=tuple(self.rules),
            declarations=(*self.source.declarations, *self.declarations(named, facts)),
            written=self.source,
            groupings=tuple(self.groupings),
            extremes=tuple(self.extremes.values()),
            directives=self.source.limits,
            facts=tuple(facts),
        )
        if core.limits:
            check_limits(core, self.loops)
        return core

    def declarations(self, named: Sequence[str], facts: Sequence[Facts]) -> Iterator[Declaration]:
        """Yield the declarations of the helper inputs, copied from their relations."""
        inputs = {f"{name}#in" for name in named} | {fact.relation for fact in facts}
        for declaration in self.source.declarations:
            for suffix in ("#in", "#facts"):
                if declaration.relation + suffix in inputs:
                    yield replace(declaration, relation=declaration.relation + suffix)

    def add_copy_rule(self, source: str, target: str) -> None:
        names = self.columns.get(target) or tuple(f"c{i}" for i in range(self.arity_of(target)))
        terms = tuple(map(Variable, names))
        self.rules.append(Rule(Atom(target, terms), (Atom(source, terms),)))

    def add_unread_rule(self, name: str) -> None:
        """Add a rule that never holds and reads an input that no other rule reads."""
        terms = tuple(Variable(f"c{i}") for i in range(self.arity_of(name)))
        self.rules.append(Rule(Atom(f"{name}#unread", terms), (Atom(name, terms),), (NEVER,)))

    def add_recursive_rule(self, name: str, arity: int) -> None:
        """Make a head of a recursion read itself if no remaining rule does.

        Recursive heads stay sets, in bags too.
        """
        rule = recursive_rule(Atom(name, tuple(Variable(f"c{i}") for i in range(arity))))
        if name in self.loops and rule not in self.rules:
            self.rules.append(rule)

    def arity_of(self, name: str) -> int:
        return self.arity[name] if name in self.arity else self.source.arity[name]

    def add(self, rule: Rule) -> None:
        head, calls = rule.head, applied(rule.head)
        if _is_plain(rule):
            self.arity.setdefault(head.relation, len(head.terms))
            self.rules.append(rule)
            return
        if not calls:
            self.lower(rule)
            return
        column, call = calls[0]
        before, value, after = head.terms[:column], call.arguments[:1], head.terms[column + 1 :]
        if head.relation in self.loops:
            self.extremes[head.relation] = Extreme(head.relation, column, call.op)
            self.lower(replace(rule, head=replace(head, terms=(*before, *value, *after))))
            return
        source = self.of_head.get(head.relation)
        if source is None:
            source = self.of_head[head.relation] = f"rule#{self.next_helper_number()}"
            grouped = head.relation if not after else source.replace("rule", "agg")
            if after:
                terms = tuple(Variable(f"c{i}") for i in range(len(head.terms)))
                read = Atom(grouped, (*terms[:column], *terms[column + 1 :], terms[column]))
                self.rules.append(Rule(Atom(head.relation, terms), (read,)))
            self.groupings.append(Grouping(grouped, source, len(head.terms) - 1, call.op))
        keys = (*before, *after)
        body = Aggregate(call.op, value[0] if call.op != "count" else None, rule.atoms, negated=rule.negated)
        columns, atoms = _source(body, keys, is_only_rule=self.n_rules[head.relation] == 1)
        self.lower(Rule(Atom(source, columns), atoms, rule.comparisons, rule.negated, rule.computed))

    def next_helper_number(self) -> int:
        self.n_helpers += 1
        return self.n_helpers

    def lower(self, rule: Rule) -> None:
        """Add the core rules of a rule: one for each choice of its counts and sums that are 0."""
        self.arity.setdefault(rule.head.relation, len(rule.head.terms))
        never = tuple(comparison for comparison in rule.comparisons if comparison == NEVER)
        rule = (
            replace(rule, comparisons=tuple(comparison for comparison in rule.comparisons if comparison != NEVER))
            if never
            else rule
        )
        waiting: list[tuple[bool, ...]] = [()]
        while waiting:
            choices = waiting.pop(0)
            variant = Variant(self, choices, rule)
            lowered = variant.lower()
            if len(variant.taken) > MAX_ZEROS:
                raise UnsupportedError.mismatch(
                    f"the rule '{rule}'",
                    "has too many counts and sums",
                    len(variant.taken),
                    f"at most {MAX_ZEROS}",
                    "Write some of them into heads of their own.",
                )
            waiting += [(*variant.taken[:position], True) for position in range(len(choices), len(variant.taken))]
            if lowered is None:
                self.add_recursive_rule(rule.head.relation, len(rule.head.terms))
                continue
            if lowered.atoms:
                self.rules.append(replace(lowered, comparisons=(*lowered.comparisons, *never)))
            elif not never:
                row = tuple(term for term in lowered.head.terms if isinstance(term, Constant))
                self.facts.setdefault(lowered.head.relation, {})[row] = None

    def grouped(self, aggregate: Aggregate, keys: tuple[Variable, ...], context: Variant) -> tuple[int, Atom | None]:
        """Return the number of the helpers of an aggregate; see `Helpers`."""
        bound = bound_variables(aggregate, {*keys, *standing(aggregate)})
        missing = tuple(key for key in keys if key not in bound)
        keys_rule = context.keys_rule(Atom("", keys), aggregate) if missing else None
        cache_key = (aggregate, keys, keys_rule)
        if cache_key in self.of_aggregate:
            return self.of_aggregate[cache_key]
        helper_number = self.next_helper_number()
        demand = (
            Atom(f"demand#{helper_number}", keys)
            if keys_rule is not None and self.is_recursive(keys_rule, context.rule)
            else None
        )
        self.of_aggregate[cache_key] = helper_number, demand
        body = aggregate.atoms
        if keys_rule is not None and demand is not None:
            self.rules.append(replace(keys_rule, head=Atom(f"keys#{helper_number}", keys)))
            self.rules.append(recursive_rule(Atom(f"keys#{helper_number}", keys)))
            body = (demand, *body)
        elif keys_rule is not None:
            self.rules.append(replace(keys_rule, head=Atom(f"row#{helper_number}", keys)))
            self.groupings.append(Grouping(f"once#{helper_number}", f"row#{helper_number}", len(keys), "count"))
            self.project(f"keys#{helper_number}", f"once#{helper_number}", keys)
            body = (Atom(f"keys#{helper_number}", keys), *body)
        terms, atoms = _source(replace(aggregate, atoms=body), keys)
        self.lower(Rule(Atom(f"rule#{helper_number}", terms), atoms, aggregate.comparisons, aggregate.negated))
        self.groupings.append(Grouping(f"agg#{helper_number}", f"rule#{helper_number}", len(keys), aggregate.op))
        if aggregate.op in ("count", "sum"):
            self.project(f"has#{helper_number}", f"agg#{helper_number}", keys)
        return helper_number, demand

    def is_recursive(self, keys_rule: Rule, rule: Rule) -> bool:
        """Return whether the rule of an aggregate's keys reads the recursion that `rule` belongs to."""
        loop = self.loops.get(rule.head.relation, ())
        return any(atom.relation in loop for atom in keys_rule.atoms)

    def project(self, head: str, grouped: str, keys: tuple[Variable, ...]) -> None:
        """Add a head of the keys of a grouping."""
        self.rules.append(Rule(Atom(head, keys or (ZERO,)), (Atom(grouped, (*keys, Variable("_#1"))),)))

    def projected(self, atom: Atom) -> Atom:
        """Return the atom without its wildcards, over a helper that leaves out their columns."""
        mask = tuple(map(is_wildcard, atom.terms))
        visible_terms = tuple(term for term, is_left_out in zip(atom.terms, mask, strict=True) if not is_left_out)
        if not any(mask):
            return atom
        name = self.of_negated.get((atom.relation, mask))
        if name is None:
            name = self.of_negated[atom.relation, mask] = f"some#{self.next_helper_number()}"
            terms = tuple(Variable(f"_#{i}" if is_left_out else f"c{i}") for i, is_left_out in enumerate(mask))
            head = tuple(term for term in terms if not term.is_wildcard)
            self.rules.append(Rule(Atom(name, head or (ZERO,)), (Atom(atom.relation, terms),)))
        return Atom(name, visible_terms or (ZERO,))


def _source(
    aggregate: Aggregate, keys: tuple[Expression, ...], is_only_rule: bool = True
) -> tuple[tuple[Expression, ...], tuple[Atom, ...]]:
    """Return the columns of the relation that an aggregate groups, and its atoms.

    Wildcards get names in the atoms if their columns are kept.

    The columns are the keys, the value, and the other variables, which distinguish equal values of different bindings.
    Minima and maxima do not need the other variables, but keep them if the relation then only renames or selects from
    another relation, and so needs no state.
    """
    terms = list(keys) if aggregate.value is None else [*keys, aggregate.value]
    n_named = 0
    atoms = []
    for atom in aggregate.atoms:
        named: list[Expression] = []
        for term in atom.terms:
            n_named += is_wildcard(term)
            named.append(Variable(f"any#{n_named}") if is_wildcard(term) else term)
        atoms.append(replace(atom, terms=tuple(named)))
    direct = [term for atom in atoms for term in atom.terms]
    remaining = [term for term in dict.fromkeys(direct) if isinstance(term, Variable) and term not in terms]
    if aggregate.op in EXTREMES:
        is_renamed = is_only_rule and len(atoms) == 1 and not aggregate.negated
        if not is_renamed or sorted(map(str, direct)) != sorted(map(str, {*terms, *remaining})):
            return tuple(terms), aggregate.atoms
    return (*terms, *remaining) or (ZERO,), tuple(atoms)
