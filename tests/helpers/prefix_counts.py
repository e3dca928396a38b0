"""The smallest counts that prefixes meet on the paths of a join, summed up without the kernels."""

from __future__ import annotations

from collections import defaultdict


class Levels:
    """A relation's rows by the columns that are bound: the values of one more column."""

    def __init__(self, rows):
        self.rows = rows
        self.tables = {}

    def values(self, bound, column, row):
        """The distinct values of `column` among the rows that agree with `row` on the columns `bound`."""
        if (bound, column) not in self.tables:
            table = self.tables[bound, column] = defaultdict(set)
            for own in self.rows:
                table[tuple(own[i] for i in bound)].add(own[column])
        return self.tables[bound, column].get(tuple(row[i] for i in bound), set())


COMPARE = {"<": int.__lt__, ">": int.__gt__, "!=": int.__ne__}


def holds(condition, binding):
    other = binding[condition.operand] if isinstance(condition.operand, str) else condition.operand
    return COMPARE[condition.op](binding[condition.variable], other)


def sums_of_minima(paths, relation, before, after):
    """Per path and variable, the smallest number of values that one atom allows a prefix, summed over prefixes.

    Widths are those of stored rows: an atom that sees the change sees what it deletes, until its last variable.
    """
    change = after[relation] ^ before[relation]
    stored = {name: before[name] | after[name] for name in before}
    before, after, stored = ({name: Levels(rows) for name, rows in state.items()} for state in (before, after, stored))
    found = {}
    for number, path in enumerate(paths):
        if path.seed.key.relation != relation:
            continue
        variable_of = dict(zip(path.seed.key.order, path.seed.variables, strict=True))
        prefixes = [{variable_of[column]: value for column, value in enumerate(row)} for row in change]
        prefixes = [prefix for prefix in prefixes if all(holds(one, prefix) for one in path.seed_conditions)]
        seen = {use.atom: stored if use.atom < path.seed.atom else before for use in path.other_atoms}
        alive = {use.atom: after if use.atom < path.seed.atom else before for use in path.other_atoms}
        for use in path.other_atoms:
            if set(use.variables) <= set(path.seed.variables):
                prefixes = [one for one in prefixes if values_of(use, alive[use.atom], use.variables[-1], one)]
        found[number] = defaultdict(int)
        ways = (path, *path.variants)
        taken = [[] for _ in ways]
        for prefix in prefixes:
            first = [smallest_count(way, way.steps[0], seen, prefix) for way in ways if way.steps] or [0]
            taken[first.index(min(first))].append(prefix)
        for way, mine in zip(ways, taken, strict=True):
            walk(way, mine, seen, alive, found[number])
    return found


def smallest_count(path, step, seen, prefix):
    atoms = {use.atom: use for use in path.other_atoms}
    return min(len(values_of(atoms[atom], seen[atom], step.variable, prefix)) for atom in step.atoms)


def walk(path, prefixes, seen, alive, totals):
    """Add to `totals`, per variable, the smallest counts of what a path meets below these prefixes."""
    atoms = {use.atom: use for use in path.other_atoms}
    for step in path.steps:
        name, extended = step.variable, []
        for prefix in prefixes:
            sets = [values_of(atoms[atom], seen[atom], name, prefix) for atom in step.atoms]
            totals[name] += min(map(len, sets))
            ending = [atom for atom in step.atoms if atoms[atom].variables[-1] == name]
            sets += [values_of(atoms[atom], alive[atom], name, prefix) for atom in ending]
            longer = [{**prefix, name: value} for value in set.intersection(*sets)]
            extended += [one for one in longer if all(holds(condition, one) for condition in step.conditions)]
        prefixes = extended


def values_of(use, levels, variable, prefix):
    """The values that an atom allows a variable, given those of its variables before it in its order."""
    at = use.variables.index(variable)
    bound = use.key.order[:at]
    row = dict(zip(bound, (prefix[name] for name in use.variables[:at]), strict=True))
    found = levels[use.key.relation].values(bound, use.key.order[at], row)
    return found if variable not in prefix else found & {prefix[variable]}
