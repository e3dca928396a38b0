"""Desugaring: a program as it is written to its core form, the input of the planner.

In core form the atoms and comparisons of a rule hold variables and constants only; calculations are listed separately,
each null-aware call as one calculation. Everything else becomes helper relations, whose names no text can spell:

- An aggregate in a body becomes a relation of the bindings that satisfy its braces (``rule#1``), a grouping of that
  relation (``agg#1``), and an atom that reads the grouping. A count or a sum of nothing is 0: a second rule derives it
  where the negated ``has#1`` finds no rows.
- Keys of an aggregate that its braces do not bind come from the other conditions of the rule (``row#1``), each once
  (``once#1``, ``keys#1``), also where rows have weights. If those conditions read the recursion of the rule, the
  aggregate reads its keys from an input (``demand#1``), so that it belongs to a stratum before the recursion; each tick
  derives the rows of that input, see `gpu_wcoj.circuit.circuit.Circuit.demanded`.
- A head that aggregates becomes a grouping, or an extreme if it goes through recursion.
- A negated atom with wildcards is projected first (``some#1``).
- A relation that is both input and head gets one more rule, which reads the input (``edge#in``).
- An input that no rule reads, or only rules that derive nothing, is read by a rule that never holds (``edge#unread``).
- Facts become an input (``edge#facts``), loaded with the first tick; a rule that binds nothing reads an input that
  always has one row (``unit#facts``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_wcoj.errors import UnsupportedError
from gpu_wcoj.query.desugar import UNIT, ZERO, Variant, is_wildcard
from gpu_wcoj.query.ir import NEVER, Aggregate, Atom, Constant, Expression, Variable
from gpu_wcoj.query.rules import Declaration, Extreme, Facts, Grouping, Rule, Rules
from gpu_wcoj.query.safety import (
    applied,
    bound_variables,
    standing,
)
from gpu_wcoj.query.stratify import EXTREMES, check_settled, guarded, loops_of, recursive_rule

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
        facts = []
        for name in self.arity:
            if name in self.facts or name not in derived:
                self.add_copy_rule(f"{name}#facts", name)
                rows = tuple(tuple(constant.value for constant in row) for row in self.facts.get(name, ()))
                facts.append(Facts(f"{name}#facts", rows))
        if any(atom.relation == UNIT for rule in self.rules for atom in rule.atoms):
            facts.append(Facts(UNIT, ((0,),)))
        from gpu_wcoj.query.stored import serialize  # imported only by programs that use it

        return replace(
            self.source,
            rules=tuple(self.rules),
            declarations=(*self.source.declarations, *self.declarations(named, facts)),
            text=serialize(self.source),
            groupings=tuple(self.groupings),
            extremes=tuple(self.extremes.values()),
            directives=(),
            facts=tuple(facts),
        )

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
        """Return the number of the helpers of an aggregate; see `gpu_wcoj.query.desugar.Helpers`."""
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
