"""Delta queries as records for the kernel that walks all paths of a small tick in one call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from cpu_fallback import walk_records as record
from gpu_wcoj.functions import Calculation, name_function
from gpu_wcoj.join.plan import Check, Condition, DeltaPath, DeltaQuery, Step, split_independent
from gpu_wcoj.kernels.protocol import N_WORK, Int64Array, WalkKernels
from gpu_wcoj.trace.arrangement import ArrangementKey

OPERATORS = {
    "=": record.EQ,
    "!=": record.NE,
    "<": record.LT,
    "<=": record.LE,
    ">": record.GT,
    ">=": record.GE,
}
"""The kernel's number of each comparison."""


MAX_STEP_ATOMS = 63
"""Atoms that bind one variable together, at most: the kernel has room for them and a list of common values."""


def find_obstacle(query: DeltaQuery) -> str | None:
    """Return what the kernel cannot do in a query; None if it can walk the query."""
    for path in query.paths:
        for step in path.steps:
            if len(step.atoms) > MAX_STEP_ATOMS:
                return f"{step.variable} is bound by more than {MAX_STEP_ATOMS} atoms"
        steps = [check for step in path.steps for check in (*step.conditions, *step.checks)]
        for check in (*path.seed_conditions, *path.seed_checks, *steps):
            if isinstance(check, Calculation):
                called = name_function(check)
                return f"{check.variable} is calculated" + (f" by {called}" if called else "")
            if isinstance(check, Condition) and check.textual:
                return f"text is compared in {check}"
    return None


class Clique(NamedTuple):
    """A body that is a clique over an ordered binary relation, as of a < b < c.

    A row that changes is an edge of a clique whatever its place in it. So the common neighbours of its two ends are
    found once, instead of once for each pair of variables.

    Attributes
    ----------
    variables
        The variables, smallest first.
    forward, backward
        The arrangements of the relation by its smaller and by its larger column.
    """

    variables: tuple[str, ...]
    forward: ArrangementKey
    backward: ArrangementKey


def find_clique(query: DeltaQuery) -> Clique | None:
    """Return the clique that a query's body is; None if it is another body."""
    for path in query.paths:
        if path.is_negated or path.seed_conditions or path.seed_checks:
            return None
        if any(step.conditions or step.checks for step in path.steps):
            return None
    uses = {use.atom: use for path in query.paths for use in (path.seed, *path.other_atoms)}
    keys = {use.key for use in uses.values()}
    if len({key.selection for key in keys}) != 1 or any(len(key.order) != 2 or key.equal for key in keys):
        return None
    key = next(iter(keys))
    low, high = sorted(key.order)
    if (low, "<", high, None) in key.compared:
        first, second = low, high
    elif (low, ">", high, None) in key.compared:
        first, second = high, low
    else:
        return None
    edges = {tuple(use.variables[use.key.order.index(column)] for column in (first, second)) for use in uses.values()}
    names = {name for edge in edges for name in edge}
    n = len(names)
    if n < 3 or len(uses) != len(edges) or len(edges) != n * (n - 1) // 2 or not query.head_variables <= names:
        return None
    order = tuple(sorted(names, key=lambda name: -sum(edge[0] == name for edge in edges)))
    if edges != {(smaller, larger) for i, smaller in enumerate(order) for larger in order[i + 1 :]}:
        return None
    forward, backward = key._replace(order=(first, second)), key._replace(order=(second, first))
    return Clique(order, forward, backward) if {forward, backward} <= set(query.keys) else None


class _Node(NamedTuple):
    """A step in the tree of a path.

    Attributes
    ----------
    factors
        Per atom of the step, the node at which its prefix was bound, its index, and the level that the step binds.
    """

    node: int
    parent: int
    step: Step
    mode: int
    factors: list[tuple[int, int, int]]


@dataclass(eq=False)
class WalkRecords:
    """The records of one query; see `cpu_fallback.walk_records`.

    Attributes
    ----------
    arrangements
        The index of each arrangement in the records of the state.
    lists_rows
        Whether rows of the head are listed, rather than their weights added.
    """

    query: DeltaQuery
    arrangements: Mapping[ArrangementKey, int]
    lists_rows: bool
    variables: dict[str, int] = field(default_factory=dict)
    paths: list[list[int]] = field(default_factory=list)
    nodes: list[list[int]] = field(default_factory=list)
    uses: list[list[int]] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    checks: list[list[int]] = field(default_factory=list)
    terms: list[tuple[int, int]] = field(default_factory=list)
    lists: list[list[int]] = field(default_factory=list)
    atoms: list[tuple[int, int, int]] = field(default_factory=list)
    atom_variables: list[list[int]] = field(default_factory=list)
    head: list[tuple[int, int]] = field(default_factory=list)
    steps: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Per node that reports its work, the index of its path and the name of its step."""
    n_paths: int = 0
    """Paths that are not variants of others."""
    n_buffers: int = 0
    n_cursors: int = 0
    max_uses: int = 1
    max_conditions: int = 1

    def __post_init__(self) -> None:
        clique = find_clique(self.query)
        names: Mapping[str, int]
        if clique is not None:
            names = self._add_clique(clique)
            self.n_paths = len(self.paths)
        else:
            for path_index, path in enumerate(self.query.paths):
                _PathRecords(self, path, path_index).add()
            self.n_paths = len(self.paths)
            for path_index, path in enumerate(self.query.paths):
                self._add_variants(path_index, path)
            names = self.variables
        self.mark_ends()
        if self.lists_rows:
            self.head = [(names[term], 0) if isinstance(term, str) else (-1, term) for term in self.query.head]

    def _add_variants(self, path_index: int, path: DeltaPath) -> None:
        """Add the variants of a path, which differ in the first variable."""
        first = len(self.paths)
        for variant in path.variants:
            _PathRecords(self, variant, path_index).add()
        self.paths[path_index][record.P_FIRST_VARIANT : record.P_END_VARIANT + 1] = first, len(self.paths)

    @property
    def head_variables(self) -> frozenset[str]:
        """The variables whose values are enumerated."""
        return self.query.head_variables if self.lists_rows else frozenset()

    def variable(self, name: str) -> int:
        """Return the index of a variable."""
        return self.variables.setdefault(name, len(self.variables))

    def add_atom(self, key: ArrangementKey, sees_itself: bool, variables: Sequence[str]) -> int:
        """Add an atom of a path; return its index."""
        self.atoms.append((self.arrangements[key], int(sees_itself), self.n_cursors))
        self.n_cursors += len(key.order)
        self.atom_variables.append([self.variable(name) for name in variables])
        return len(self.atoms) - 1

    def add_buffer(self) -> int:
        """Add a buffer; return its index."""
        self.n_buffers += 1
        return self.n_buffers - 1

    def add_checks(self, checks: Sequence[Check], path: DeltaPath) -> tuple[int, int]:
        """Add comparisons and negated atoms; return the span of their records."""
        first = len(self.checks)
        for check in checks:
            if isinstance(check, Condition):
                named = isinstance(check.operand, str)
                left, right = self.variable(check.variable), self.variable(str(check.operand)) if named else -1
                constant = 0 if isinstance(check.operand, str) else check.operand
                self.checks.append([0, OPERATORS[check.op], left, right, constant, 0, 0, 0, 0])
                continue
            assert not isinstance(check, Calculation)
            key, sees_itself = check.use.key, path.sees_after(check.use)
            atom = self.add_atom(key, sees_itself, ())
            self.checks.append([1, 0, 0, 0, 0, self.arrangements[key], int(sees_itself), len(self.terms), atom])
            self.terms.extend((self.variable(term), 0) if isinstance(term, str) else (-1, term) for term in check.terms)
        return first, len(self.checks)

    def add_children(self, nodes: Sequence[int]) -> tuple[int, int]:
        """Add the children of a node; return the span of their records."""
        first = len(self.children)
        self.children.extend(nodes)
        return first, len(self.children)

    def _add_clique(self, clique: Clique) -> dict[str, int]:
        """Add the one path of a clique; return the variables of the sorted values.

        Every step takes the values that all bound ends have in common, larger than the one before. The two ends of the
        changed row have neighbours on both sides.
        """
        n, listed = len(clique.variables), self.lists_rows
        names = [f"value {i}" for i in range(n)]
        for name in names:
            self.variable(name)
        ranks = {name: self.variable(f"rank {i}") for i, name in enumerate(clique.variables)}
        seed = self.add_atom(clique.forward, False, names[:2])
        sides = [
            self.add_atom(key, False, (name, "")) for name in names[:2] for key in (clique.forward, clique.backward)
        ]
        first_use = len(self.uses)
        self.uses.extend([atom, 1, 0, 0, 1] for atom in sides)
        end_use, root = len(self.uses), len(self.nodes)
        self.nodes.append([0] * record.NODE_FIELDS)
        self.steps[root] = (0, "seeds")
        common = [[atom, 1, 1, 0, i % 2] for i, atom in enumerate(sides)]
        atoms = [self.add_atom(clique.forward, False, (name, "")) for name in names[2 : n - 1]]
        end_atom = len(self.atoms)
        n_lists = n - 2 if listed and n > 3 else n - 3
        lists: list[int] = []
        for i in range(n_lists):
            start = len(self.uses)
            self.uses.extend(common if i == 0 else [[atoms[i - 1], 1, 1, 0, 0]])
            self.lists.append([start, len(self.uses), lists[-1] if lists else -1, self.add_buffer()])
            lists.append(len(self.lists) - 1)
        parent = root
        for i in range(n - 2):
            node, start, is_last = len(self.nodes), len(self.uses), i == n - 3
            base = lists[i - 1] if is_last and not listed and i else lists[i] if i < n_lists else -1
            if is_last and n == 3:
                self.uses.extend(common)
            elif is_last and not listed:
                self.uses.append([atoms[i - 1], 1, 1, 0, 0])
            if not is_last:
                self.uses.append([atoms[i], 0, 0, 1, 0])
            children = self.add_children([] if is_last else [node + 1])
            mode = (record.EMIT if is_last else record.ENUMERATE) if listed else record.SUM
            own_lists = (lists[i + 1], lists[i + 1] + 1) if i + 1 < n_lists else (0, 0)
            self.nodes.append(
                [
                    self.variable(names[2 + i]), 0, start, len(self.uses), 0, 0, 0, 0, parent, *children, base,
                    self.add_buffer(), mode, int(is_last and not listed), *own_lists, 0, 0,
                ]
            )  # fmt: skip
            path = self.query.paths[0]
            steps = [step.name for step in path.steps if not step.is_lookup]
            self.steps[node] = (0, steps[min(i, len(steps) - 1)])
            parent = node
        for node in range(root + 1, parent):
            self.sum_at_once(node)
        children = self.add_children([root + 1])
        root_lists = (lists[0], lists[0] + 1) if lists else (0, 0)
        self.add_root(
            [
                self.arrangements[clique.forward], 2, seed + 1, end_atom, first_use, end_use, 0, 0, *children, 0, root,
                int(listed), *root_lists, seed, n if listed else 0, 0, 0,
            ],
            record.ENUMERATE if listed else record.EMIT,
        )  # fmt: skip
        self.max_uses = max(self.max_uses, len(common))
        return ranks

    def sum_at_once(self, node: int) -> None:
        """Mark a step whose only child counts the common values of a list and one range below it."""
        entry = self.nodes[node]
        children = self.children[entry[record.N_FIRST_CHILD] : entry[record.N_END_CHILD]]
        if entry[record.N_MODE] != record.SUM or entry[record.N_LOOKUP] or len(children) != 1:
            return
        if entry[record.N_FIRST_CHECK] < entry[record.N_END_CHECK]:
            return
        child = self.nodes[children[0]]
        base = child[record.N_LIST]
        if not child[record.N_COUNTS] or base < 0 or entry[record.N_FIRST_LIST] <= base < entry[record.N_END_LIST]:
            return
        conditions = self.checks[child[record.N_FIRST_CONDITION] : child[record.N_END_CONDITION]]
        if any(check[record.K_OP] == record.NE for check in conditions):
            return
        opened = [
            (use[record.U_ATOM], use[record.U_LEVEL] + 1)
            for use in self.uses[entry[record.N_FIRST_USE] : entry[record.N_END_USE]]
            if not use[record.U_LAST]
        ]
        counted = [
            (use, self.uses[use])
            for use in range(child[record.N_FIRST_USE], child[record.N_END_USE])
            if not self.uses[use][record.U_LISTED]
        ]
        if len(counted) == 1 and opened == [(counted[0][1][record.U_ATOM], counted[0][1][record.U_LEVEL])]:
            entry[record.N_SUMMED] = counted[0][0] + 1

    def mark_ends(self) -> None:
        """Mark the steps whose values each end a row of the result without any check."""
        for entry in self.nodes:
            uses = self.uses[entry[record.N_FIRST_USE] : entry[record.N_END_USE]]
            entry[record.N_ENDS_ROWS] = int(
                entry[record.N_MODE] == record.EMIT
                and entry[record.N_PARENT] >= 0
                and not entry[record.N_LOOKUP]
                and all(use[record.U_LAST] for use in uses)
                and entry[record.N_FIRST_CHECK] == entry[record.N_END_CHECK]
                and entry[record.N_FIRST_CHILD] == entry[record.N_END_CHILD]
            )

    def add_root(self, path: list[int], mode: int) -> None:
        """Add the record of a path, and that of its root."""
        self.paths.append(path)
        node = self.nodes[path[record.P_ROOT]]
        node[record.N_MODE], node[record.N_PARENT] = mode, -1
        node[record.N_FIRST_CHILD : record.N_END_CHILD + 1] = path[record.P_FIRST_CHILD : record.P_END_CHILD + 1]


_ListKey = tuple[int, frozenset[tuple[object, ...]]]
"""The node at which a list can be made, and what it is made from."""


class _PathRecords:
    """The records of one delta path, as they are made.

    Steps up to the last variable of the head are a chain, whose values are enumerated. Below it, steps that share no
    atom and no condition are children of one node.
    """

    def __init__(self, records: WalkRecords, path: DeltaPath, path_index: int) -> None:
        self.records, self.path, self.path_index = records, path, path_index
        self.atoms: dict[int, int] = {}
        self.order: dict[int, int] = {}
        """Depth of each node."""
        self.planned: list[_Node] = []
        self.below: dict[int, list[int]] = {}

    def add(self) -> None:
        """Add the path to the records."""
        records, path = self.records, self.path
        seed_atom = records.add_atom(path.seed.key, False, path.seed.variables)
        for use in path.other_atoms:
            self.atoms[use.atom] = records.add_atom(use.key, path.sees_after(use), use.variables)
        end_atom, first_use = len(records.atoms), len(records.uses)
        levels = dict.fromkeys(self.atoms, 0)
        for atom, depth, _ in path.binding:
            records.uses.append([self.atoms[atom], depth, 0, 0, 0])
            levels[atom] = depth
        uses = first_use, len(records.uses)
        checks = records.add_checks((*path.seed_conditions, *path.seed_checks), path)
        root = node = len(records.nodes)
        records.nodes.append([0] * record.NODE_FIELDS)
        records.steps[root] = (self.path_index, "seeds")
        self.order[root] = 0
        bound_at = dict.fromkeys(self.atoms, root)
        n_enumerated = path.depth_of(records.head_variables) if records.head_variables else 0
        for step in path.steps[:n_enumerated]:
            child, levels, bound_at = self._plan_node(step, node, record.ENUMERATE, levels, bound_at)
            self.below[node] = [child]
            node = child
        self._plan_groups(path.steps[n_enumerated:], node, levels, bound_at)
        bases, spans = self._add_lists()
        for planned in self.planned:
            mode = record.EMIT if planned.node == node else planned.mode
            self._add_node(planned, mode, *bases.get(planned.node, (-1, frozenset())), spans)
        for planned in self.planned:
            records.sum_at_once(planned.node)
        records.add_root(
            [
                records.arrangements[path.seed.key], len(path.seed.variables), seed_atom + 1, end_atom, *uses, *checks,
                *records.add_children(self.below[root]), int(path.is_negated), root, int(records.lists_rows),
                *spans.get(root, (0, 0)), seed_atom, 0, 0, 0,
            ],
            record.EMIT if node == root else record.ENUMERATE,
        )  # fmt: skip

    def _plan_node(
        self, step: Step, parent: int, mode: int, levels: dict[int, int], bound_at: dict[int, int]
    ) -> tuple[int, dict[int, int], dict[int, int]]:
        """Plan a node; return it, the levels of atoms below it, and where these were bound."""
        node = len(self.records.nodes)
        self.records.nodes.append([0] * record.NODE_FIELDS)
        self.order[node] = self.order[parent] + 1
        factors = [(bound_at[atom], atom, levels[atom]) for atom in step.atoms]
        self.planned.append(_Node(node, parent, step, mode, factors))
        levels = {**levels, **{atom: levels[atom] + 1 for atom in step.atoms}}
        return node, levels, {**bound_at, **dict.fromkeys(step.atoms, node)}

    def _plan_groups(
        self, steps: Sequence[Step], parent: int, levels: dict[int, int], bound_at: dict[int, int]
    ) -> None:
        """Plan the steps below a node: a subtree for each group of independent steps."""
        self.below[parent] = []
        for group in split_independent(tuple(steps)) if steps else ():
            node, levels_below, bound_below = self._plan_node(group[0], parent, record.SUM, levels, bound_at)
            self.below[parent].append(node)
            self._plan_groups(group[1:], node, levels_below, bound_below)

    def _prefixes(self, planned: _Node) -> list[tuple[_ListKey, int, list[tuple[int, int, int]]]]:
        """Return the lists from which a node may start: key, number of factors, sorted factors."""
        if planned.step.is_lookup or len(planned.factors) < 2:
            return []
        ranked = self._ranked(planned)
        uses = {use.atom: use for use in self.path.other_atoms}
        found: list[tuple[_ListKey, int, list[tuple[int, int, int]]]] = []
        depth = self.order[planned.parent]  # the only atom that does not change with the parent is listed for its marks
        lone = self.order[ranked[0][0]] < depth == self.order[ranked[1][0]]
        for n in range(1 if lone else 2, len(ranked) + 1):
            node = ranked[n - 1][0]
            if n < len(ranked) and ranked[n][0] == node:
                continue
            if n == 1 and (planned.mode != record.SUM or not self._ends(planned)):
                continue
            made_from = Counter(  # equal atoms multiply the weights of bags as often as they occur
                (uses[atom].key, uses[atom].variables[:level], self.path.sees_after(uses[atom]))
                for _, atom, level in ranked[:n]
            )
            found.append(((node, frozenset(made_from.items())), n, ranked))
        return found

    def _ranked(self, planned: _Node) -> list[tuple[int, int, int]]:
        """Return a node's factors in the order in which they become known.

        The common values of two or more whole relations may be many, and would be listed for every changed row. So
        whole relations are ranked with the first factor that bound variables restrict.
        """
        ranked = sorted(planned.factors, key=lambda factor: self.order[factor[0]])
        n_whole = sum(level == 0 for _, _, level in ranked)
        if n_whole < 2 or n_whole == len(ranked):
            return ranked
        node = next(node for node, _, level in ranked if level > 0)
        ranked = [(node if level == 0 else bound_at, atom, level) for bound_at, atom, level in ranked]
        return sorted(ranked, key=lambda factor: self.order[factor[0]])

    def _ends(self, planned: _Node) -> bool:
        """Return whether a step binds the last level of all of its atoms, so that it may be counted."""
        return not (planned.step.checks or self.below.get(planned.node)) and all(
            level + 1 == len(self.records.atom_variables[self.atoms[atom]]) for _, atom, level in planned.factors
        )

    def _add_lists(self) -> tuple[dict[int, tuple[int, frozenset[int]]], dict[int, tuple[int, int]]]:
        """Add the lists that pay.

        Returns each node's list and its atoms, and the lists that each node invalidates.

        A list pays if several nodes start from it, or if it does not change with the values of a node's parent.
        """
        users: dict[_ListKey, list[_Node]] = {}
        for planned in self.planned:
            for key, _, _ in self._prefixes(planned):
                users.setdefault(key, []).append(planned)
        paying = {
            key
            for key, nodes in users.items()
            if len(nodes) > 1 or any(self.order[key[0]] < self.order[planned.parent] for planned in nodes)
        }
        made: dict[_ListKey, tuple[int, int, _ListKey | None]] = {}
        bases: dict[int, tuple[_ListKey, frozenset[int]]] = {}
        for planned in self.planned:
            base, covered = None, 0
            for key, n, ranked in self._prefixes(planned):
                if key not in paying:
                    continue
                if key not in made:
                    first = len(self.records.uses)
                    self.records.uses.extend(self._use(atom, level) for _, atom, level in ranked[covered:n])
                    made[key] = first, len(self.records.uses), base
                base, covered = key, n
                bases[planned.node] = key, frozenset(atom for _, atom, _ in ranked[:n])
        numbers: dict[_ListKey, int] = {}
        spans: dict[int, tuple[int, int]] = {}
        for key in sorted(made, key=lambda key: (self.order[key[0]], key[0], len(key[1]))):
            first, end, base = made[key]
            numbers[key] = len(self.records.lists)
            start = spans.get(key[0], (numbers[key], 0))[0]
            spans[key[0]] = start, numbers[key] + 1
            self.records.lists.append([first, end, -1 if base is None else numbers[base], self.records.add_buffer()])
        return {node: (numbers[key], atoms) for node, (key, atoms) in bases.items()}, spans

    def _use(self, atom: int, level: int, is_listed: bool = False) -> list[int]:
        index = self.atoms[atom]
        is_last = level + 1 == len(self.records.atom_variables[index])
        return [index, level, int(is_last), int(is_listed), 0]

    def _add_node(
        self, planned: _Node, mode: int, base: int, listed: frozenset[int], spans: Mapping[int, tuple[int, int]]
    ) -> None:
        records, step = self.records, planned.step
        first = len(records.uses)
        records.uses.extend(self._use(atom, level, atom in listed) for _, atom, level in planned.factors)
        end = len(records.uses)
        conditions = records.add_checks(step.conditions, self.path)
        checks = records.add_checks(step.checks, self.path)
        children = self.below.get(planned.node, [])
        ends_atoms = all(use[record.U_LAST] for use in records.uses[first:end])
        is_counted = mode == record.SUM and ends_atoms and not (step.is_lookup or children or step.checks)
        records.nodes[planned.node] = [
            records.variable(step.variable), int(step.is_lookup), first, end, *conditions, *checks, planned.parent,
            *records.add_children(children), base, records.add_buffer(), mode, int(is_counted),
            *spans.get(planned.node, (0, 0)), 0, 0,
        ]  # fmt: skip
        records.steps[planned.node] = (self.path_index, step.name)
        records.max_uses = max(records.max_uses, end - first + 1)
        records.max_conditions = max(records.max_conditions, len(step.conditions))


def matrix(rows: Sequence[Sequence[int]], width: int) -> Int64Array:
    """Return records as a matrix of int64; one row of zeros for none.

    Examples
    --------
    >>> matrix([], 2)
    array([[0, 0]])
    """
    return np.array(rows, np.int64).reshape(-1, width) if len(rows) else np.zeros((1, width), np.int64)


def address_of(array: np.ndarray) -> int:
    """Return the address of an array's first element."""
    address: int = array.__array_interface__["data"][0]
    return address


INITIAL_CAPACITY = 256
"""Values of a buffer at first."""

MARK_WORDS = 4096
"""Words of 64 bits in which a list marks its values: those within 262,144 of each other."""

OUT_ROWS = 4096
"""Rows of a result that a call returns at most."""

BUDGET_CANDIDATES, CALLS_PER_LIMIT = 1 << 20, 64
"""Candidates after which a call returns, so that an interrupt is noticed within about a second.

A limit of the values that a walk looks at is tested between calls, so there are some before a small one."""


def budget_of_call(max_work: int) -> int:
    """Return the candidates after which a call returns, of a walk limited to `max_work`."""
    return BUDGET_CANDIDATES if max_work >= BUDGET_CANDIDATES else max_work // CALLS_PER_LIMIT


class UnsuitableTickError(Exception):
    """A tick is not walked, or its walk is given up: it runs path by path.

    The text is the reason for people, as the rest of a sentence that begins with "as".
    """


class WalkState(Protocol):
    """The state that queries are walked over.

    Attributes
    ----------
    arrangement_address
        Address of the records of the arrangements.
    slots
        Records of the levels of their batches.
    stride
        Sources of an arrangement at most.
    version
        Changes when `slots` or `stride` do.
    """

    arrangement_address: int
    slots: Int64Array
    stride: int
    version: int


class Walk:
    """A query's records, ready to be walked: memory for cursors, candidates and results.

    Parameters
    ----------
    walker
        The kernels of small ticks.
    records
        The query.
    weighted
        True in bag semantics.
    max_work
        Values proposed and searched at which the walk is given up; see `gpu_wcoj.join.settings.Tuning`.
    out
        Memory of the result, if walks of several rules share it.

    Attributes
    ----------
    address
        Address of the context.
    share_of_paths
        The walked paths per delta path of the query, less than 1 for cliques.
    """

    def __init__(
        self, walker: WalkKernels, records: WalkRecords, weighted: bool, max_work: int, out: Int64Array | None = None
    ) -> None:
        self.walker, self.records, self.max_work = walker, records, max_work
        self.context = np.zeros(record.CONTEXT, np.int64)
        self.address = address_of(self.context)
        self.work = np.zeros((len(records.nodes), N_WORK), np.int64)
        self.total_work = np.zeros_like(self.work)
        self.totals = np.zeros(3, np.int64)
        self.magnitude = self.totals[2:].view(np.float64)
        self.version = -1
        self.share_of_paths = records.n_paths / len(records.query.paths)
        self._arrays: dict[int, Any] = {}
        self._list_buffers = frozenset(entry[record.L_BUFFER] for entry in records.lists)
        self._buffers = np.zeros((max(1, records.n_buffers), record.BUFFER), np.int64)
        self._memory: list[tuple[Any, Any]] = [self._new_buffer(i, INITIAL_CAPACITY) for i in range(records.n_buffers)]
        depth = max(map(len, records.atom_variables), default=1) or 1
        depth = max(depth, max((use[record.U_LEVEL] for use in records.uses), default=0) + 1)
        names = np.zeros((len(records.atom_variables), depth), np.int64)
        for row, variables in zip(names, records.atom_variables, strict=True):
            row[: len(variables)] = variables
        self._atoms = matrix(records.atoms, record.ATOM)
        self.out = np.zeros((len(records.head) + 1, OUT_ROWS), np.int64) if out is None else out
        arrays: dict[int, Any] = {
            record.ATOM_VARIABLES: names,
            record.VARIABLES: np.zeros(len(records.variables) + 1, np.int64),
            record.PATHS: matrix(records.paths, record.PATH_FIELDS),
            record.NODES: matrix(records.nodes, record.NODE_FIELDS),
            record.USES: matrix(records.uses, record.USE),
            record.CHILDREN: matrix([[child] for child in records.children], 1),
            record.CHECKS: matrix(records.checks, record.CHECK),
            record.TERMS: matrix(records.terms, 2),
            record.LISTS: matrix(records.lists, record.LIST),
            record.BUFFERS: self._buffers,
            record.EXCLUDED: np.zeros(records.max_conditions, np.int64),
            record.WORK: self.work,
            record.TOTAL_WORK: self.total_work,
            record.SUMS: np.zeros((len(records.nodes), 3), np.int64),
            record.MAGNITUDES: np.zeros((len(records.nodes), 2)),
            record.TOTALS: self.totals,
            record.HEAD: matrix(records.head, 2),
            record.OUT: self.out,
            record.IDENTITY: np.arange(len(records.head) + 1, dtype=np.int64),
        }
        for place, array in arrays.items():
            self._place(place, array)
        self.context[record.MAX_DEPTH] = depth
        self.context[record.N_HEAD] = len(records.head)
        self.context[record.OUT_CAPACITY] = OUT_ROWS
        self.context[record.WEIGHTED] = int(weighted)
        self.context[record.N_NODES] = len(records.nodes)
        self.context[record.PATH_END] = records.n_paths

    def _place(self, place: int, array: Any) -> None:
        self._arrays[place] = array
        self.context[place] = address_of(array)

    def place_work(self, work: Int64Array) -> None:
        """Count the work in this memory from now on."""
        work[:] = self.work
        self.work = work
        self._place(record.WORK, work)

    def _new_buffer(self, buffer: int, capacity: int) -> tuple[Any, Any]:
        """Allocate memory for a buffer; its contents are lost."""
        words = MARK_WORDS if buffer in self._list_buffers else 0
        values, bits = np.empty((3, capacity), np.int64), np.zeros(max(1, words), np.int64)
        row = self._buffers[buffer]
        row[:] = 0
        row[record.B_VALUES] = address_of(values)
        row[record.B_WEIGHTS] = address_of(values) + 8 * capacity
        row[record.B_CAPACITY] = capacity
        row[record.B_BITS], row[record.B_WORDS] = address_of(bits), words
        return values, bits

    def bind(self, state: WalkState) -> None:
        """Take over the batches of a state, unless it has those of the last call."""
        if self.version == state.version:
            return
        records = self.records
        atoms = self._atoms.copy()
        atoms[:, record.ATOM_CURSORS] *= state.stride
        self._place(record.ATOMS, atoms)
        self._place(record.SLOTS, state.slots)
        self._place(record.CURSORS, np.zeros((max(1, records.n_cursors) * state.stride, 3), np.int64))
        self._place(record.SEGMENTS, np.zeros(((records.max_uses + 2) * state.stride, record.SEGMENT), np.int64))
        self.context[record.STRIDE] = state.stride
        self.version = state.version

    def _begin(self, state: WalkState) -> Int64Array:
        context = self.context
        self.bind(state)
        context[record.ARRANGEMENTS] = state.arrangement_address
        context[record.ACTION] = record.BEGIN
        context[record.BUDGET] = budget_of_call(self.max_work)
        context[record.OUT_START] = 0
        return context

    @property
    def is_over_limit(self) -> bool:
        """True if the present run has looked at more than `max_work` values."""
        return self.work_done * self.share_of_paths > self.max_work

    def go_on(self, ended: int) -> None:
        """Get ready for another call after one that did not walk everything."""
        context = self.context
        if ended == record.GROW:
            buffer, needed = int(context[record.RESULT]), int(context[record.NEEDED])
            self._memory[buffer] = self._new_buffer(buffer, 2 * needed)
        else:
            context[record.BUDGET] = budget_of_call(self.max_work)
            if self.is_over_limit:
                raise UnsuitableTickError(f"the walk of a rule looked at more than {self.max_work:,} values")

    @property
    def work_done(self) -> int:
        """Values that the present or last run had proposed and searched when it last returned."""
        return int(self.context[record.WORK_DONE])

    def run(self, state: WalkState) -> Iterator[Int64Array]:
        """Walk all changed rows; yield the rows of the head in pieces, weights last.

        `totals` and `work` are those of this run afterwards. Without rows to list, nothing is yielded.
        """
        self._begin(state)
        yield from self.list_rest()

    def list_rest(self) -> Iterator[Int64Array]:
        """Go on with a walk that has been begun, and yield its rows as `run` does."""
        context = self.context
        while True:
            ended = self.walker.walk(self.address)
            if ended != record.GROW and (n := int(context[record.OUT_SIZE])):
                yield self.out[:, :n].copy()
                context[record.OUT_SIZE] = 0
            if ended == record.DONE:
                return
            self.go_on(ended)
