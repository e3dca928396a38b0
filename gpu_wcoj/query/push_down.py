"""Push-down: the conditions of rules restrict the heads that they read.

A head that is not an answer is only needed as far as rules read it. Four rewritings of a program in core form use this:

- A condition on a column that all readers have, such as ``k = 5`` or ``k < 10``, moves into the head's own rules; for
  a head that aggregates, if the column is a key.
- A head with one rule is written into its reader, or into the few rules of one head that read it as the branches of a
  disjunction do, if no variable is lost.
- Otherwise the head is restricted to the values that its readers bind, by the magic sets of Bancilhon, Maier, Sagiv and
  Ullman ("Magic sets and other strange ways to implement logic programs", 1986, doi:10.1145/6012.15399): a relation
  ``asked#1`` of these values is one more atom of each of its rules. A recursion asks itself for more values on its way.
- A recursion that hands its last columns on, asked from one value, is the set of the values that it reaches, joined
  with the rules that begin it (Naughton, Ramakrishnan, Sagiv and Ullman, "Efficient evaluation of right-, left-, and
  multi-linear rules", 1989, doi:10.1145/67544.66948).

A restricted head holds all rows that its readers use, and may lack others. A calculation may have no value in these.
Only in SQL is that no error, as WHERE decides first; in other languages heads whose calculations may fail are left
alone. Heads are visited from the answers down. The rules that derive asked values read what the reader reads, and ask
for nothing themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TypeGuard

from gpu_wcoj.query.constant_folding import holds
from gpu_wcoj.query.desugar import UNIT
from gpu_wcoj.query.ir import (
    MIRRORED,
    NEVER,
    NULL,
    Atom,
    Comparison,
    Constant,
    Expression,
    Facts,
    FirstRows,
    Rule,
    Rules,
    Variable,
    is_total,
    variables_of,
)
from gpu_wcoj.query.stratify import components, loops_of, reads_of, recursive_rule

MAGIC_PREFIX = "asked#"
"""Prefix of the names of relations that hold the values for which a head is asked."""

_KEYS = ("has#", "keys#", "once#", "row#")
"""Prefixes of helpers of aggregates whose keys are bound already; see `gpu_wcoj.query.desugar`."""

MAX_READER_ATOMS = 16
"""Most atoms of a rule that are tried as those that select what it asks for."""

MAX_INLINED_ATOMS = 8
"""Most atoms of a rule into which a head is written: planning takes longer with each."""

MAX_INLINING_RULES = 4
"""Most rules into which a head is written, each of which evaluates it for itself."""

_Condition = tuple[str, Constant]
"""A comparison of a column with a constant, ``(op, constant)``."""
_Conditions = Mapping[int, frozenset[_Condition]]
"""Per column, the conditions that all readers have on it."""


@dataclass(frozen=True)
class Pushed:
    """A program after push-down.

    Attributes
    ----------
    rules
        The rewritten program.
    partial
        The heads of the program before that are gone, or lack rows that nothing asks for.
    notes
        For people, rewritten heads and what has become of them.
    """

    rules: Rules
    partial: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def push_down(rules: Rules, complete: Collection[str], *, is_bag: bool = False, is_single: bool = False) -> Pushed:
    """Return a program in core form in which heads hold only the rows that are asked for.

    Parameters
    ----------
    complete
        Heads that stay as they are, such as the outputs.
    is_bag
        Whether rows have weights. Then atoms with weights may not restrict others, only constants may.
    is_single
        Whether the program is answered once. Then more restrictions pay, as nothing has to follow changes.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> text = "p(k, v) :- h(k, v), g(k, _). p(k, k) :- s(k). q(v) :- p(5, v)."
    >>> print(push_down(parse(text), ["q"]).rules)
    p(k, v) :- h(k, v), g(k, _), k = 5.
    p(k, k) :- s(k), k = 5.
    q(v) :- p(5, v).
    >>> text = "p(k, v) :- h(k, v), g(v, _). q(k, v) :- s(k), p(k, v)."
    >>> print(push_down(parse(text), ["q"]).rules)
    p(k, v) :- asked#1(k), h(k, v), g(v, _).
    q(k, v) :- s(k), p(k, v).
    asked#1(k) :- s(k).
    >>> text = "r(x, y) :- e(x, y). r(x, z) :- e(x, y), r(y, z). q(y) :- r(5, y)."
    >>> print(push_down(parse(text), ["q"]).rules)
    unit#facts(0).
    r(5, y) :- asked#1(x), e(x, y).
    r(x, y) :- e(x, y), 0 != 0.
    q(y) :- r(5, y).
    asked#1(5) :- unit#facts(_).
    asked#1(y) :- asked#1(x), e(x, y).
    """
    if rules.demands or all(name in complete for name in rules.heads):
        return Pushed(rules)
    loops = loops_of(rules) if rules.limits else {}
    counted = {name for limit in rules.limits for name in loops[limit.relation]}  # other rows end at other iterations
    return _Pushing(rules, counted.union(complete), is_bag, is_single).run()


@dataclass(frozen=True)
class _Occurrence:
    """An atom of a rule that reads a head."""

    rule: Rule
    atom: Atom
    is_negated: bool

    @property
    def neighbours(self) -> tuple[Atom, ...]:
        """The positive atoms of the rule beside this one."""
        return tuple(atom for atom in self.rule.atoms if atom is not self.atom)


@dataclass(frozen=True)
class _Group:
    """Atoms of a reader that bind columns of the head that it reads.

    Attributes
    ----------
    columns
        The columns that they bind, and those that have constants.
    n_constants
        The number of atoms that a constant selects from.
    """

    atoms: tuple[Atom, ...]
    columns: frozenset[int]
    n_constants: int = 0


@dataclass(frozen=True)
class _Magic:
    """The relation of the values for which a head is asked, and the columns that they are for."""

    relation: str
    columns: tuple[int, ...]


@dataclass
class _Draft:
    """A program in the middle of push-down.

    Attributes
    ----------
    asking
        The rules that derive the asked values.
    """

    rules: list[Rule]
    asking: list[Rule] = field(default_factory=list)
    partial: set[str] = field(default_factory=set)
    notes: dict[str, list[str]] = field(default_factory=dict)
    n_asked: int = 0

    def copy(self) -> _Draft:
        notes = {said: [*names] for said, names in self.notes.items()}
        return _Draft([*self.rules], [*self.asking], {*self.partial}, notes, self.n_asked)

    def note(self, said: str, name: str) -> None:
        """Note what has become of a head."""
        self.notes.setdefault(said, []).append(name)


class _Pushing:
    """Push-down of one program."""

    def __init__(self, rules: Rules, complete: Collection[str], is_bag: bool, is_single: bool) -> None:
        self.source = rules
        self.complete = complete
        self.is_bag = is_bag
        self.is_single = is_single
        self.draft = _Draft([*rules.rules])
        self.loops = loops_of(rules)
        is_sql = is_bag and any(not declaration.is_binding for declaration in rules.declarations)
        self.failing = frozenset() if is_sql else frozenset(_may_fail(rules.rules))
        self.sources = {helper.relation: helper for helper in rules.helpers}
        self.typed = {
            declaration.relation
            for declaration in rules.declarations
            if any(kind is not None for kind in declaration.types)
        }
        self.extremes = {extreme.relation: extreme.column for extreme in rules.extremes}
        self.guaranteed = self._find_guaranteed(rules.rules)
        self.conditions: dict[str, _Conditions] = {}
        self.magic: dict[str, _Magic] = {}
        self.asked_before: dict[frozenset[Rule], str] = {}
        self.derived: set[str] = set()

    def run(self) -> Pushed:
        waiting = [
            members
            for members in reversed(components(reads_of(self.source)))
            if not any(name in self.complete or name in self.failing for name in members)
        ]
        # Rules of asked values read heads, too: a head that one of them reads has a second reader.
        waiting = [members for members in waiting if not self._inline(members)]
        for members in waiting:
            if self._inline(members):
                continue
            self.derived = self._find_derived(members)
            if len(members) == 1 and members[0] in self.sources:
                self._pass_on(members[0])
            else:
                self._restrict(members)
        draft = self.draft
        if not draft.partial:
            return Pushed(self.source)
        self._drop_implied(draft)
        rules = replace(self.source, rules=(*draft.rules, *_read_ones(draft)))
        needs_unit = any(atom.relation == UNIT for rule in rules.rules for atom in rule.atoms)
        if needs_unit and all(fact.relation != UNIT for fact in rules.facts):
            rules = replace(rules, facts=(*rules.facts, Facts(UNIT, ((0,),))))
        return Pushed(
            rules,
            frozenset(draft.partial),
            tuple(f"{', '.join(names)} ({said})" for said, names in draft.notes.items()),
        )

    def _find_guaranteed(self, rules: Sequence[Rule]) -> dict[str, _Conditions]:
        """Return the conditions that all rows of a head fulfil by its own rules, recursion aside."""
        guaranteed: dict[str, _Conditions] = {}
        for members in components(reads_of(self.source)):
            (name, *more) = members
            if more or name in self.loops or name in self.extremes:
                continue
            helper = self.sources.get(name)
            found: _Conditions | None = None
            if helper is not None:
                columns = range(self.source.arity[name]) if isinstance(helper, FirstRows) else range(helper.keys)
                found = {i: kept for i, kept in guaranteed.get(helper.source, {}).items() if i in columns}
            for rule in rules:
                if rule.head.relation == name and NEVER not in rule.comparisons:
                    found = _meet(found, _conditions_on(rule.head, rule, _guaranteed_in(rule, guaranteed)))
            if found:
                guaranteed[name] = found
        return guaranteed

    def _drop_implied(self, draft: _Draft) -> None:
        """Drop new comparisons that a relation guarantees; a rule without them may only rename."""
        guaranteed = self._find_guaranteed(draft.rules)
        before = {(rule.head.relation, comparison) for rule in self.source.rules for comparison in rule.comparisons}
        for position, rule in enumerate(draft.rules):
            by_term = _guaranteed_in(rule, guaranteed)
            comparisons = tuple(
                comparison
                for comparison in rule.comparisons
                if (rule.head.relation, comparison) in before
                or not isinstance(comparison.right, Constant)
                or not _is_implied((comparison.op, comparison.right), by_term.get(comparison.left, ()))
            )
            if comparisons != rule.comparisons:
                draft.rules[position] = replace(rule, comparisons=comparisons)

    def guaranteed_in(self, rule: Rule) -> dict[Expression, set[_Condition]]:
        return _guaranteed_in(rule, self.guaranteed)

    def _pass_on(self, name: str) -> None:
        """Find the conditions on a head that aggregates or keeps first rows, for its source."""
        helper = self.sources[name]
        columns = helper.groups if isinstance(helper, FirstRows) else range(helper.keys)
        readers = self._readers([name])
        if readers is None or not readers:
            return
        asked = self._ask([name], readers).get(name, {})
        self.conditions[name] = {column: found for column, found in asked.items() if column in columns}
        if name.startswith(_KEYS) or not self._is_costly([name]):
            return
        attempt = self.draft.copy()
        magic = self._magic_of((name,), readers, attempt, columns)
        if magic is not None:
            self.magic[name] = magic[name]
            self.draft = attempt

    def _readers(self, members: Sequence[str]) -> list[_Occurrence] | None:
        """Return the atoms that read heads from outside; None if a helper reads one in full.

        Helpers that are asked under conditions are not among them, see `_passed`.
        """
        for helper in self.sources.values():
            if helper.source in members and not (self.conditions.get(helper.relation) or helper.relation in self.magic):
                return None
        return [
            occurrence
            for occurrence in self.occurrences(members)
            if occurrence.rule.head.relation not in members and NEVER not in occurrence.rule.comparisons
        ]

    def occurrences(self, members: Sequence[str]) -> Iterator[_Occurrence]:
        for rule in self.draft.rules:
            for atom in rule.atoms:
                if atom.relation in members:
                    yield _Occurrence(rule, atom, False)
            for atom in rule.negated:
                if atom.relation in members:
                    yield _Occurrence(rule, atom, True)

    def _helpers_of(self, members: Sequence[str]) -> list[str]:
        return [name for name, helper in self.sources.items() if helper.source in members]

    def _helpers_above(self, name: str) -> list[str]:
        """Return the heads that aggregate a head, directly or through others."""
        above = self._helpers_of([name])
        for helper in above:  # the list grows during the loop
            above += self._helpers_of([helper])
        return above

    # A head with one rule is written into its reader, or into those of one head.

    def _inline(self, members: Sequence[str]) -> bool:
        """Write a head into the rules of its only reader if each asks something; return if it was."""
        (name, *more) = members
        if more or name in self.loops or name in self.extremes or name in self.typed or self._helpers_of(members):
            return False
        self.derived = self._find_derived(members)
        rules = [rule for rule in self.draft.rules if rule.head.relation == name]
        reading = [rule for rule in self.draft.rules if _reads(rule, name)]
        heads = {rule.head.relation for rule in reading}
        if len(rules) != 1 or len(heads) != 1 or len(reading) > MAX_INLINING_RULES or not heads.isdisjoint(self.loops):
            return False
        if any(_reads(rule, name) for rule in self.draft.asking):
            return False
        (rule,), (reader,) = rules, heads
        occurrences = [*self.occurrences(members)]
        if len(occurrences) != len(reading) or any(occurrence.is_negated for occurrence in occurrences):
            return False
        if any(NEVER in one.comparisons for one in (rule, *reading)):
            return False
        if not all(self._conditions_on(occurrence, {}) or self.find_groups(occurrence) for occurrence in occurrences):
            return False
        inlined = [_inlined(rule, occurrence) for occurrence in occurrences]
        if None in inlined:
            return False
        written = {id(occurrence.rule): made for occurrence, made in zip(occurrences, inlined, strict=True)}
        self.draft.rules = [
            written.get(id(candidate)) or candidate for candidate in self.draft.rules if candidate is not rule
        ]
        self.draft.partial.add(name)
        self.draft.note(f"written into '{reader}'", name)
        return True

    # Conditions on columns that all readers have.

    def _restrict(self, members: Sequence[str]) -> None:
        """Restrict the heads of one recursion, or one head, to what is asked of it."""
        readers = self._readers(members)
        if readers is None or not (readers or self._helpers_of(members)):
            return
        conditions = self._ask(members, readers)
        for name, asked in conditions.items():
            changed = [_restrict_rule(rule, asked) if rule.head.relation == name else rule for rule in self.draft.rules]
            if changed != self.draft.rules:
                self.draft.rules = changed
                self.draft.partial.update((name, *self._helpers_above(name)))
                self.draft.note(f"only {_as_text(asked, self._columns(name))}", name)
        if any(name in self.extremes or name.startswith(_KEYS) for name in members) or not self._is_costly(members):
            return
        if any(op == "=" for asked in conditions.values() for found in asked.values() for op, _ in found):
            return  # few rows are left
        readers = self._readers(members)
        if readers is None:
            return
        attempt = self.draft.copy()
        magic = self._magic_of(members, readers, attempt)
        if magic is None or not self._is_sound(attempt, members):
            return
        for name, found in magic.items():
            attempt.partial.update((name, *self._helpers_above(name)))
            columns = self._columns(name)
            said = ", ".join(columns[column] for column in found.columns)
            attempt.note(f"only {said} in '{found.relation}'", name)
        self.draft = attempt

    def _columns(self, name: str) -> list[str]:
        rule = next(rule for rule in self.source.rules if rule.head.relation == name)
        return [
            term.name if isinstance(term, Variable) else f"column {column}"
            for column, term in enumerate(rule.head.terms)
        ]

    def _ask(self, members: Sequence[str], readers: Sequence[_Occurrence]) -> dict[str, _Conditions]:
        """Return per head the conditions on its columns that all readers have, also inside."""
        asked: dict[str, _Conditions] = {}
        for helper_name in self._helpers_of(members):
            source = self.sources[helper_name].source
            asked[source] = _meet(asked.get(source), self.conditions.get(helper_name, {}))
        for occurrence in readers:
            name = occurrence.atom.relation
            asked[name] = _meet(asked.get(name), self._conditions_on(occurrence, {}))
        inside = [
            occurrence
            for occurrence in self.occurrences(members)
            if occurrence.rule.head.relation in members and NEVER not in occurrence.rule.comparisons
        ]
        is_stable = False
        while not is_stable:
            is_stable = True
            for occurrence in inside:
                of_head = asked.get(occurrence.rule.head.relation)
                if of_head is None:  # nothing reads it so far
                    continue
                name = occurrence.atom.relation
                met = _meet(asked.get(name), self._conditions_on(occurrence, of_head))
                if met != asked.get(name):
                    asked[name], is_stable = met, False
        return {name: conditions for name, conditions in asked.items() if conditions}

    def _conditions_on(self, occurrence: _Occurrence, of_head: _Conditions) -> _Conditions:
        """Return the conditions on the columns of an atom, without that of a minimum or maximum."""
        atom, rule = occurrence.atom, occurrence.rule
        known = self.guaranteed_in(rule)
        for column, conditions in of_head.items():
            known.setdefault(rule.head.terms[column], set()).update(conditions)
        best = self.extremes.get(atom.relation)
        return {column: found for column, found in _conditions_on(atom, rule, known).items() if column != best}

    # Values that readers bind.

    def _is_costly(self, members: Sequence[str]) -> bool:
        """Return whether heads are joins or recursive, and so worth a restriction."""
        waiting, seen = [*members], set(members)
        while waiting:
            name = waiting.pop()
            if name in self.loops:
                return True
            if name.startswith(_KEYS):
                continue
            rules = [rule for rule in self.draft.rules if rule.head.relation == name]
            if any(_is_join(rule) for rule in rules):
                return True
            below = [atom.relation for rule in rules for atom in rule.atoms]
            below += [self.sources[name].source] if name in self.sources else []
            for relation in below:
                if relation not in seen and relation not in self.complete:
                    seen.add(relation)
                    waiting.append(relation)
        return False

    def _find_derived(self, members: Sequence[str]) -> set[str]:
        """Return these heads and all relations that are derived from them."""
        readers: dict[str, set[str]] = {}
        for rule in (*self.draft.rules, *self.draft.asking):
            for atom in (*rule.atoms, *rule.negated):
                readers.setdefault(atom.relation, set()).add(rule.head.relation)
        for helper in self.sources.values():
            readers.setdefault(helper.source, set()).add(helper.relation)
        for name, magic in self.magic.items():  # whose sources will read it
            readers.setdefault(magic.relation, set()).add(name)
        waiting, derived = [*members], {*members}
        while waiting:
            more = readers.get(waiting.pop(), set()) - derived
            derived |= more
            waiting += more
        return derived

    def find_groups(self, occurrence: _Occurrence) -> list[_Group]:
        """Return groups of atoms of the reader that select the rows it asks for, best first.

        Each is one atom, tested by others, or a chain from an atom with a constant; none has many more rows than one
        of its relations, or than what is reached from the constant.
        """
        terms = occurrence.atom.terms
        known = self.guaranteed_in(occurrence.rule)
        fixed = frozenset(
            column for column, term in enumerate(terms) if _fixed(term, occurrence.rule, known) is not None
        )
        groups = [_Group((), fixed)] if fixed else []
        if not self.is_bag and len(occurrence.rule.atoms) <= MAX_READER_ATOMS:
            groups += self._joined_groups(occurrence, fixed)
        return sorted(groups, key=lambda group: (-group.n_constants, -len(group.atoms), -len(group.columns)))

    def _joined_groups(self, occurrence: _Occurrence, fixed: frozenset[int]) -> Iterator[_Group]:
        rule = occurrence.rule
        loop = self.loops.get(rule.head.relation, ())
        computed = {definition.variable for definition in rule.computed}
        usable = [
            atom
            for atom in occurrence.neighbours
            if atom.relation not in loop and computed.isdisjoint(atom.variables) and atom.relation not in self.derived
        ]
        columns = {term: column for column, term in reversed([*enumerate(occurrence.atom.terms)]) if _joins(term)}
        targets = columns.keys() - computed
        known = self.guaranteed_in(rule)
        conditions = {variable: _of_variable(variable, rule.comparisons, known) for variable in rule.variables}
        bounded = {variable for variable, found in conditions.items() if any(op != "!=" for op, _ in found)}
        equal = {variable for variable, found in conditions.items() if any(op == "=" for op, _ in found)}
        selected = [
            atom for atom in usable if any(isinstance(term, Constant) or term in bounded for term in atom.terms)
        ]
        for atom in usable:
            bound = targets.intersection(atom.variables)
            if not bound or not (self._selects(atom, occurrence) or self.is_single):
                continue
            tests = [other for other in usable if other is not atom and {*other.variables} <= {*atom.variables}]
            group = (atom, *tests)
            if not tests and atom not in selected and self._is_implied(atom, occurrence):
                continue
            n_constants = sum(any(one is other for other in selected) for one in group)
            yield _Group(group, fixed.union(columns[variable] for variable in bound), n_constants)
        for atom in selected:
            if not any(isinstance(term, Constant) or term in equal for term in atom.terms):
                continue
            chain = _chain([atom], [other for other in usable if other is not atom], targets)
            if len(chain) > 1:
                bound = targets.intersection(chain[-1].variables)
                yield _Group(tuple(chain), fixed.union(columns[variable] for variable in bound), 1)

    def _is_implied(self, atom: Atom, occurrence: _Occurrence) -> bool:
        """Return whether each rule of the head that is read has the atom itself."""
        columns = {term: column for column, term in enumerate(occurrence.atom.terms)}
        name = occurrence.atom.relation
        rules = [rule for rule in self.draft.rules if rule.head.relation == name and NEVER not in rule.comparisons]
        for rule in rules:
            terms = tuple(rule.head.terms[columns[term]] if term in columns else term for term in atom.terms)
            if not any(other.relation == atom.relation and other.terms == terms for other in rule.atoms):
                return False
        return bool(rules)

    def _selects(self, atom: Atom, occurrence: _Occurrence) -> bool:
        """Return whether nothing but the atom and the occurrence reads the atom's variables."""
        rule = occurrence.rule
        inner = {*occurrence.atom.variables}
        elsewhere = {*rule.head.variables}
        for other in (*occurrence.neighbours, *rule.negated):
            if other is not atom and other is not occurrence.atom:
                elsewhere.update(other.variables)
        for comparison in rule.comparisons:
            if not inner.union(atom.variables).issuperset(comparison.variables):
                elsewhere.update(comparison.variables)
        for definition in rule.computed:
            elsewhere.update(definition.call.variables)
        return all(variable in inner or variable not in elsewhere for variable in atom.variables)

    def _magic_of(
        self,
        members: Sequence[str],
        readers: Sequence[_Occurrence],
        attempt: _Draft,
        allowed: Collection[int] | None = None,
    ) -> dict[str, _Magic] | None:
        """Restrict heads to the values that all readers bind; return None if there are none.

        The rules of the values are added to `attempt`, and the atoms that read them to the rules of the heads.
        """
        passed = [self.magic.get(helper) for helper in self._helpers_of(members)]
        if passed:
            first = passed[0]
            if first is None or readers or any(magic != first for magic in passed) or members[0] in self.loops:
                return None
            source = self.sources[self._helpers_of(members)[0]].source
            _read_magic(attempt, {source: first})
            return {source: first}
        if not readers or (self.is_bag and not any(name in self.loops for name in members)):
            return None
        asking = _Asking(self, members, readers, attempt)
        return asking.build(allowed)

    def _is_sound(self, attempt: _Draft, members: Sequence[str]) -> bool:
        """Return whether no recursion has been added, and none negates or aggregates."""
        if not any(name in self.loops for name in members):
            asking = attempt.asking[len(self.draft.asking) :]
            return not any(atom.relation in self.derived for rule in asking for atom in rule.atoms)
        rules = replace(self.source, rules=(*attempt.rules, *attempt.asking))
        loops = loops_of(rules)
        for name, loop in loops.items():
            before = [member for member in loop if not member.startswith(MAGIC_PREFIX)]
            if name in self.sources or any(self.loops.get(member) is None for member in before):
                return False
            if len({self.loops[member] for member in before}) > 1:
                return False
            if not before and not any(member in self.loops for member in members):
                return False
        return not any(
            atom.relation in loops.get(rule.head.relation, ()) for rule in rules.rules for atom in rule.negated
        )


def _is_join(rule: Rule) -> bool:
    """Return whether a rule may derive more rows than one of its relations has."""
    variables = {*rule.variables}
    return NEVER not in rule.comparisons and not any(variables <= {*atom.variables} for atom in rule.atoms)


def _may_fail(rules: Iterable[Rule]) -> Iterator[str]:
    """Yield the heads with calculations that may have no value or call Python functions."""
    for rule in rules:
        if not all(is_total(computed.call) for computed in rule.computed):
            yield rule.head.relation


def _read_ones(draft: _Draft) -> list[Rule]:
    """Return the rules of asked values that something reads."""
    asking = draft.asking
    while True:
        read = {
            atom.relation
            for rule in (*draft.rules, *asking)
            for atom in rule.atoms
            if not _reads(rule, rule.head.relation)
        }
        kept = [rule for rule in asking if rule.head.relation in read]
        if len(kept) == len(asking):
            return kept
        asking = kept


class _Asking:
    """The rules of the values for which the heads of one component are asked."""

    def __init__(
        self, pushing: _Pushing, members: Sequence[str], readers: Sequence[_Occurrence], attempt: _Draft
    ) -> None:
        self.pushing = pushing
        self.members = members
        self.readers = readers
        self.attempt = attempt
        self.inside = [
            occurrence
            for occurrence in pushing.occurrences(members)
            if occurrence.rule.head.relation in members and NEVER not in occurrence.rule.comparisons
        ]
        self.groups = [pushing.find_groups(occurrence) for occurrence in readers]

    def build(self, allowed: Collection[int] | None) -> dict[str, _Magic] | None:
        """Add the rules, and return the relation of each head; None if one is read in full."""
        found = self._choose(allowed)
        if found is None:
            return None
        columns, chosen = found
        attempt = self.attempt
        magic: dict[str, _Magic] = {}
        for name, of_name in columns.items():
            attempt.n_asked += 1
            magic[name] = _Magic(f"{MAGIC_PREFIX}{attempt.n_asked}", of_name)
        seeds = list(
            dict.fromkeys(
                self._seed(occurrence, group, magic) for occurrence, group in zip(self.readers, chosen, strict=True)
            )
        )
        if not self.inside and len(magic) == 1:
            ((name, new),) = magic.items()
            key = frozenset(replace(rule, head=replace(rule.head, relation="")) for rule in seeds)
            relation = self.pushing.asked_before.setdefault(key, new.relation)
            if relation != new.relation:
                magic, seeds = {name: replace(new, relation=relation)}, []
        linear = self._right_linear(magic, seeds)
        if linear is not None:
            return linear
        asking = [
            *seeds,
            *dict.fromkeys(rule for occurrence in self.inside for rule in self._further(occurrence, magic)),
        ]
        recursive = {rule.head.relation for rule in asking if _reads(rule, rule.head.relation)}
        if self.pushing.is_bag:
            asking += [
                recursive_rule(Atom(new.relation, tuple(map(_numbered, new.columns))))
                for new in magic.values()
                if new.relation not in recursive
            ]
        attempt.asking += asking
        _read_magic(attempt, magic)
        return magic

    def _choose(self, allowed: Collection[int] | None) -> tuple[dict[str, tuple[int, ...]], list[_Group]] | None:
        """Return per head the columns to restrict, and per reader the atoms that bind them."""
        if not all(self.groups):
            return None
        if self.inside and any(
            self._is_settled(name, column)
            for name in {occurrence.atom.relation for occurrence in self.readers}
            for column in range(len(next(one.atom for one in self.readers if one.atom.relation == name).terms))
        ):
            return None
        best = None
        for first in self.groups[0]:
            common: dict[str, frozenset[int]] = {}
            chosen: list[_Group] = []
            for position, (occurrence, groups) in enumerate(zip(self.readers, self.groups, strict=True)):
                name = occurrence.atom.relation
                usable = self._unsettled(occurrence.atom)
                left = common.get(name, frozenset(usable if allowed is None else set(usable).intersection(allowed)))
                group = first if position == 0 else max(groups, key=lambda one: len(one.columns & left))
                common[name] = left & group.columns
                chosen.append(group)
            for start in self._starts(common):
                columns = self._stable(start)
                if columns is None:
                    continue
                cost = (
                    self._rank(first, columns),
                    self._n_further(columns),
                    sum(map(len, columns.values())) if self.inside else 0,
                )
                if best is None or cost < best[0]:
                    best = cost, columns, chosen
        return None if best is None else (best[1], best[2])

    def _rank(self, group: _Group, columns: Mapping[str, tuple[int, ...]]) -> int:
        """Return 0 if a constant is asked for, 1 if one selects the asked values, else 2."""
        occurrence = self.readers[0]
        conditions = self.pushing.guaranteed_in(occurrence.rule)
        terms = [occurrence.atom.terms[column] for column in columns[occurrence.atom.relation]]
        if any(_fixed(term, occurrence.rule, conditions) is not None for term in terms):
            return 0
        return 1 if group.n_constants else 2

    def _starts(self, common: Mapping[str, frozenset[int]]) -> Iterator[dict[str, set[int]]]:
        """Yield columns to begin with: all, and in a recursion with one reader each by itself."""
        yield {name: set(columns) for name, columns in common.items()}
        if self.inside and len(common) == 1:
            ((name, columns),) = common.items()
            for column in sorted(columns):
                if len(columns) > 1:
                    yield {name: {column}}

    def _stable(self, columns: dict[str, set[int]]) -> dict[str, tuple[int, ...]] | None:
        """Return the columns that are bound wherever the heads are read; None if one has none."""
        is_stable = False
        while not is_stable:
            is_stable = True
            for occurrence in self.inside:
                head = occurrence.rule.head.relation
                if head not in columns:
                    continue
                name = occurrence.atom.relation
                bound = self._bound(occurrence, columns[head])
                found = {column for column in columns.get(name, self._unsettled(occurrence.atom)) if column in bound}
                if found != columns.get(name):
                    columns[name], is_stable = found, False
        if any(not found for found in columns.values()):
            return None
        return {name: tuple(sorted(found)) for name, found in columns.items()}

    def _n_further(self, columns: Mapping[str, tuple[int, ...]]) -> int:
        """Return the number of rules by which the recursion asks itself for more values."""
        magic = {name: _Magic(name, found) for name, found in columns.items()}
        return sum(1 for occurrence in self.inside for _ in self._further(occurrence, magic))

    def _unsettled(self, atom: Atom) -> list[int]:
        return [column for column in range(len(atom.terms)) if not self._is_settled(atom.relation, column)]

    def _is_settled(self, name: str, column: int) -> bool:
        """Return whether a column is not to be restricted: it has one value, or is calculated."""
        rules = [rule for rule in self.attempt.rules if rule.head.relation == name and NEVER not in rule.comparisons]
        terms = [(rule, rule.head.terms[column]) for rule in rules]
        if any(term == NULL or term in {c.variable for c in rule.computed} for rule, term in terms):
            return True
        return bool(terms) and all(_fixed(term, rule) is not None for rule, term in terms)

    def _bound(self, occurrence: _Occurrence, head_columns: Collection[int]) -> dict[int, list[Atom]]:
        """Return the bound columns of an atom of the recursion, and the atoms that bind each."""
        rule = occurrence.rule
        begin = {term for column in head_columns for term in [rule.head.terms[column]] if isinstance(term, Variable)}
        computed = {definition.variable for definition in rule.computed}
        position = next((i for i, atom in enumerate(rule.atoms) if atom is occurrence.atom), len(rule.atoms))
        usable = [
            atom
            for i, atom in enumerate(rule.atoms)
            if atom is not occurrence.atom
            and computed.isdisjoint(atom.variables)
            and (atom.relation not in self.members or i < position)
        ]
        found: dict[int, list[Atom]] = {}
        for column, term in enumerate(occurrence.atom.terms):
            if isinstance(term, Constant):
                if term != NULL:
                    found[column] = []
            elif _joins(term) and term not in computed:
                if term in begin:
                    found[column] = []
                    continue
                first = [atom for atom in usable if not begin.isdisjoint(atom.variables)]
                chain = _chain(first, [atom for atom in usable if atom not in first], [term])
                if chain:
                    found[column] = chain
        return found

    def _seed(self, occurrence: _Occurrence, group: _Group, magic: Mapping[str, _Magic]) -> Rule:
        """Return the rule of the values for which an atom outside of the recursion asks."""
        found = magic[occurrence.atom.relation]
        known = self.pushing.guaranteed_in(occurrence.rule)
        terms: list[Expression] = []
        for column in found.columns:
            term = occurrence.atom.terms[column]
            fixed = _fixed(term, occurrence.rule, known)
            terms.append(term if fixed is None else fixed)
        head = Atom(found.relation, tuple(terms))
        if all(isinstance(term, Constant) for term in terms):
            return Rule(head, (Atom(UNIT, (Variable("_#1"),)),))
        return _asking_rule(head, group.atoms, occurrence.rule)

    def _further(self, occurrence: _Occurrence, magic: Mapping[str, _Magic]) -> Iterator[Rule]:
        """Yield the rule of the values for which the recursion asks itself."""
        rule, found = occurrence.rule, magic.get(occurrence.atom.relation)
        of_head = magic.get(rule.head.relation)
        if found is None or of_head is None:
            return
        bound = self._bound(occurrence, of_head.columns)
        chosen = [atom for column in found.columns for atom in bound[column]]
        atoms = [atom for atom in rule.atoms if any(atom is link for link in chosen)]
        head = Atom(found.relation, tuple(occurrence.atom.terms[column] for column in found.columns))
        guard = Atom(of_head.relation, tuple(rule.head.terms[column] for column in of_head.columns))
        if head != guard:
            yield _asking_rule(head, [guard, *atoms], rule)

    def _right_linear(self, magic: Mapping[str, _Magic], seeds: Sequence[Rule]) -> dict[str, _Magic] | None:
        """Rewrite a recursion that hands all columns but one on, if one value of it is asked."""
        if len(self.members) != 1 or len(seeds) != 1:
            return None
        (name,) = self.members
        found = magic[name]
        value = seeds[0].head.terms[0]
        rules = [rule for rule in self.attempt.rules if rule.head.relation == name]
        live = [rule for rule in rules if NEVER not in rule.comparisons]
        if len(found.columns) != 1 or not isinstance(value, Constant) or name not in self.pushing.loops:
            return None
        (column,) = found.columns
        steps = [rule for rule in live if _reads(rule, name)]
        if not all(_hands_on(rule, name, column) for rule in steps) or not all(
            _joins(rule.head.terms[column]) for rule in live
        ):
            return None
        rewritten: list[Rule] = []
        asking = [*seeds]
        for rule in live:
            guard = Atom(found.relation, (rule.head.terms[column],))
            if rule in steps:
                atom = next(atom for atom in rule.atoms if atom.relation == name)
                body = replace(rule, atoms=(guard, *(other for other in rule.atoms if other is not atom)))
                asking.append(replace(body, head=Atom(found.relation, (atom.terms[column],))))
                continue
            terms = tuple(value if i == column else term for i, term in enumerate(rule.head.terms))
            rewritten.append(replace(rule, head=replace(rule.head, terms=terms), atoms=(guard, *rule.atoms)))
            rewritten.append(replace(rule, comparisons=(*rule.comparisons, NEVER)))  # for the type of the column
        if self.pushing.is_bag:
            rewritten.append(recursive_rule(rules[0].head))
        if not steps or not rewritten:
            return None
        first = next(i for i, rule in enumerate(self.attempt.rules) if rule.head.relation == name)
        others = [rule for rule in self.attempt.rules[first:] if rule.head.relation != name]
        self.attempt.rules[first:] = [*rewritten, *others]
        self.attempt.asking += asking
        return {name: found}


def _hands_on(rule: Rule, name: str, column: int) -> bool:
    """Return whether a rule reads its head once, and hands all columns but one on."""
    atoms = [atom for atom in rule.atoms if atom.relation == name]
    if len(atoms) != 1 or any(atom.relation == name for atom in rule.negated):
        return False
    (atom,) = atoms
    places = Counter(variable for part in (*rule.atoms, *rule.negated) for variable in part.terms)
    used = {variable for comparison in rule.comparisons for variable in comparison.variables}
    for definition in rule.computed:
        used.update((definition.variable, *definition.call.variables))
    for i, (there, here) in enumerate(zip(rule.head.terms, atom.terms, strict=True)):
        if i == column:
            is_step = _joins(there) and _joins(here) and here not in rule.head.terms
        else:
            is_step = there == here and _joins(here) and here not in used
            is_step = is_step and places[here] == 1 and rule.head.terms.count(there) == 1
        if not is_step:
            return False
    others = [other for other in rule.atoms if other is not atom]
    return any(rule.head.terms[column] in other.terms for other in others) and any(
        atom.terms[column] in other.terms for other in others
    )


def _read_magic(attempt: _Draft, magic: Mapping[str, _Magic]) -> None:
    """Add the atom of the asked values to each rule of restricted heads."""
    for position, rule in enumerate(attempt.rules):
        found = magic.get(rule.head.relation)
        if found is not None and NEVER not in rule.comparisons and not _is_guarded(rule, found):
            guard = Atom(found.relation, tuple(rule.head.terms[column] for column in found.columns))
            attempt.rules[position] = replace(rule, atoms=(guard, *rule.atoms))


def _is_guarded(rule: Rule, magic: _Magic) -> bool:
    """Return whether a rule reads its own head at the asked values that it derives."""
    return any(
        atom.relation == rule.head.relation
        and all(
            atom.terms[column] == rule.head.terms[column] and _joins(atom.terms[column]) for column in magic.columns
        )
        for atom in rule.atoms
    )


def _asking_rule(head: Atom, atoms: Sequence[Atom], rule: Rule) -> Rule:
    """Return a rule over atoms of another rule, with the comparisons among them."""
    variables = {variable for atom in atoms for variable in atom.variables}
    comparisons = tuple(
        comparison
        for comparison in rule.comparisons
        if comparison.variables and variables.issuperset(comparison.variables)
    )
    return Rule(head, tuple(atoms), comparisons)


def _chain(begin: Sequence[Atom], more: Sequence[Atom], targets: Collection[Expression]) -> list[Atom]:
    """Return a shortest chain of atoms that share variables, from `begin` to a target."""
    paths = [[atom] for atom in begin]
    seen = [*begin]
    for path in paths:  # the list grows during the loop
        variables = {variable for variable in path[-1].variables if _joins(variable)}
        if not variables.isdisjoint(targets):
            return path
        for atom in more:
            if not any(atom is other for other in seen) and not variables.isdisjoint(atom.variables):
                seen.append(atom)
                paths.append([*path, atom])
    return []


def _joins(term: Expression) -> TypeGuard[Variable]:
    """Return whether a term is a variable that joins by equality, where null equals nothing."""
    return isinstance(term, Variable) and not term.is_wildcard and not term.is_null_safe


def _numbered(column: int) -> Variable:
    return Variable(f"c{column}")


def _reads(rule: Rule, name: str) -> bool:
    return any(atom.relation == name for atom in (*rule.atoms, *rule.negated))


# Conditions on variables, columns and heads.


def _guaranteed_in(rule: Rule, guaranteed: Mapping[str, _Conditions]) -> dict[Expression, set[_Condition]]:
    """Return conditions on variables of a rule that the relations which it reads guarantee."""
    by_term: dict[Expression, set[_Condition]] = {}
    for atom in rule.atoms:
        for column, conditions in guaranteed.get(atom.relation, {}).items():
            by_term.setdefault(atom.terms[column], set()).update(conditions)
    return by_term


def _conditions_on(atom: Atom, rule: Rule, by_term: Mapping[Expression, Collection[_Condition]]) -> _Conditions:
    """Return the conditions on each column of an atom of a rule."""
    found: dict[int, frozenset[_Condition]] = {}
    for column, term in enumerate(atom.terms):
        of_term: Iterable[_Condition] = ()
        if isinstance(term, Constant):
            of_term = () if term == NULL else [("=", term)]
        elif isinstance(term, Variable):
            of_term = _of_variable(term, rule.comparisons, by_term)
        if kept := frozenset(of_term):
            found[column] = kept
    return found


def _of_variable(
    variable: Variable, comparisons: Sequence[Comparison], by_term: Mapping[Expression, Collection[_Condition]]
) -> set[_Condition]:
    """Return the comparisons with constants that hold for a variable or for one that equals it."""
    equal = [variable]
    for term in equal:  # the list grows during the loop
        for comparison in comparisons:
            sides = (comparison.left, comparison.right)
            if comparison.op == "=" and term in sides:
                equal += [side for side in sides if isinstance(side, Variable) and side not in equal]
    found: set[_Condition] = set()
    for term in equal:
        found.update(by_term.get(term, ()))
        for comparison in comparisons:
            for op, left, right in (
                (comparison.op, comparison.left, comparison.right),
                (MIRRORED[comparison.op], comparison.right, comparison.left),
            ):
                if left == term and isinstance(right, Constant) and right != NULL:
                    found.add((op, right))
    return found


def _fixed(
    term: Expression, rule: Rule, by_term: Mapping[Expression, Collection[_Condition]] | None = None
) -> Constant | None:
    """Return the constant that a term equals in a rule, or None."""
    if isinstance(term, Constant):
        return None if term == NULL else term
    if not isinstance(term, Variable):
        return None
    return next(
        (value for op, value in sorted(_of_variable(term, rule.comparisons, by_term or {}), key=str) if op == "="), None
    )


def _meet(left: _Conditions | None, right: _Conditions) -> _Conditions:
    """Return the conditions that hold on both sides; None on the left stands for all."""
    if left is None:
        return right
    met = {}
    for column in left.keys() & right.keys():
        found = {one for one in left[column] if _is_implied(one, right[column])}
        found |= {one for one in right[column] if _is_implied(one, left[column])}
        if found:
            met[column] = frozenset(found)
    return met


def _is_implied(condition: _Condition, by: Collection[_Condition]) -> bool:
    """Return whether a condition follows from one of others.

    Examples
    --------
    >>> _is_implied(("<", Constant(9)), [("<", Constant(5))]), _is_implied(("<", Constant(9)), [("=", Constant(8))])
    (True, True)
    """
    if condition in by:
        return True
    op, value = condition
    for other_op, other in by:
        if not _are_numbers(value, other):
            continue
        if other_op == "=" and holds(op, other, value):
            return True
        if other_op[0] == op[0] and op[0] in "<>":
            is_strict = op in ("<", ">") and other_op in ("<=", ">=")
            if holds(op if is_strict else f"{op[0]}=", other, value):
                return True
    return False


def _are_numbers(*constants: Constant) -> bool:
    """Return whether constants are numbers of one type, whose order is that of their columns."""
    kinds = {type(constant.value) for constant in constants}
    return len(kinds) == 1 and kinds <= {int, Decimal}


def _restrict_rule(rule: Rule, by_column: _Conditions) -> Rule:
    """Return a rule of a head under conditions on the head's columns."""
    if NEVER in rule.comparisons:
        return rule
    comparisons = [*rule.comparisons]
    for column, conditions in sorted(by_column.items()):
        term = rule.head.terms[column]
        for op, value in sorted(conditions, key=str):
            if isinstance(term, Constant):
                is_known = type(term.value) is type(value.value)
                if term == NULL or (is_known and not holds(op, term, value)):
                    return replace(rule, comparisons=(*rule.comparisons, NEVER))
            elif not _is_implied((op, value), _of_variable_of(term, comparisons)):
                comparisons.append(Comparison(op, term, value))
    return replace(rule, comparisons=tuple(comparisons))


def _of_variable_of(term: Expression, comparisons: Sequence[Comparison]) -> set[_Condition]:
    return _of_variable(term, comparisons, {}) if isinstance(term, Variable) else set()


def _as_text(by_column: _Conditions, columns: Sequence[str]) -> str:
    """Return conditions as text."""
    return ", ".join(
        f"{columns[column]} {op} {value}"
        for column, conditions in sorted(by_column.items())
        for op, value in sorted(conditions, key=str)
    )


# Writing a head into its reader.


def _inlined(rule: Rule, occurrence: _Occurrence) -> Rule | None:
    """Return the reader with the head's body in place of the atom; None if that differs.

    The head keeps all variables of a body of several atoms that can be joined without dead ends.
    """
    reader, head = occurrence.rule, rule.head
    inner = variables_of(head.terms)
    if len(inner) < len(head.terms) or set(inner) != set(rule.variables) or rule.computed or len(rule.atoms) < 2:
        return None
    if len(reader.atoms) + len(rule.atoms) - 1 > MAX_INLINED_ATOMS or not _is_acyclic(rule.atoms):
        return None
    places = Counter(term for atom in (*rule.atoms, *rule.negated) for term in atom.terms)
    taken = {variable.name for part in (reader.head, *reader.atoms, *reader.negated) for variable in part.variables}
    taken |= {variable.name for comparison in reader.comparisons for variable in comparison.variables}
    taken |= {computed.variable.name for computed in reader.computed}
    names: dict[Expression, Expression] = {}
    added: list[Comparison] = []
    for variable, term in zip(inner, occurrence.atom.terms, strict=True):
        if isinstance(term, Variable) and not term.is_wildcard:
            if variable.is_null_safe != term.is_null_safe and places[variable] > 1:
                return None
            if variable.is_null_safe and not term.is_null_safe:
                return None
            names[variable] = term
            continue
        fresh = _fresh(variable, taken)
        taken.add(fresh.name)
        names[variable] = fresh
        if isinstance(term, Constant):
            if term == NULL:
                return None
            added.append(Comparison("=", fresh, term))
    atoms: list[Atom] = []
    for atom in reader.atoms:
        atoms += [_renamed_atom(inner_atom, names) for inner_atom in rule.atoms] if atom is occurrence.atom else [atom]
    comparisons = [
        replace(one, left=names.get(one.left, one.left), right=names.get(one.right, one.right))
        for one in rule.comparisons
    ]
    negated = [_renamed_atom(atom, names) for atom in rule.negated]
    return replace(
        reader,
        atoms=tuple(atoms),
        comparisons=(*reader.comparisons, *added, *comparisons),
        negated=(*reader.negated, *negated),
    )


def _fresh(variable: Variable, taken: Collection[str]) -> Variable:
    """Return a variable with a name that is not taken, null-safe as the given one."""
    stem, suffix = variable.name.rstrip("?"), "?" * variable.is_null_safe
    number = 0
    while f"{stem}#{number}{suffix}" in taken:
        number += 1
    return Variable(f"{stem}#{number}{suffix}")


def _renamed_atom(atom: Atom, names: Mapping[Expression, Expression]) -> Atom:
    return replace(atom, terms=tuple(names.get(term, term) for term in atom.terms))


def _is_acyclic(atoms: Sequence[Atom]) -> bool:
    """Return whether a join is acyclic, by the reduction of Graham, Yu and Ozsoyoglu.

    Examples
    --------
    >>> a, b, c = map(Variable, "abc")
    >>> _is_acyclic([Atom("e", (a, b)), Atom("e", (b, c))])
    True
    >>> _is_acyclic([Atom("e", (a, b)), Atom("e", (b, c)), Atom("e", (c, a))])
    False
    """
    edges = [set(atom.variables) for atom in atoms]
    changed = True
    while changed and len(edges) > 1:
        changed = False
        n_edges = Counter(variable for edge in edges for variable in edge)
        for edge in edges:
            alone = {variable for variable in edge if n_edges[variable] == 1}
            changed |= bool(alone)
            edge -= alone
        for position, edge in enumerate(edges):
            if any(edge <= other for i, other in enumerate(edges) if i != position):
                del edges[position]
                changed = True
                break
    return len(edges) <= 1
