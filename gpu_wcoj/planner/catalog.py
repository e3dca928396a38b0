"""Catalog of the planner: statistics of relations from sizes, first rows, tries or a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from gpu_wcoj.backend import Backend
from gpu_wcoj.circuit.circuit import Circuit, InputChange
from gpu_wcoj.circuit.head import PositiveHead
from gpu_wcoj.circuit.recursion.relation import RankedIndex
from gpu_wcoj.errors import SchemaError
from gpu_wcoj.join.relation import RelationIndex
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.planner.body import BodyAtom
from gpu_wcoj.planner.ir import Levels
from gpu_wcoj.planner.statistics import (
    KEPT_ROWS,
    Columns,
    Facts,
    columns_at,
    facts_of,
    measure,
    renumbered,
    sample_statistics,
)
from gpu_wcoj.trace.arrangement import ArrangementKey

FORMAT = 1
"""Format version. Files with another version are rejected."""
FILE = "statistics.json"
"""Name of the file in a folder of statistics."""

Selection = tuple[object, ...]
"""Constants, repetitions and comparisons of an atom or of an arrangement."""


class Catalog:
    """Statistics of relations, each collected on first use.

    Parameters
    ----------
    relations
        Per relation, a function that returns its statistics.
    selected
        Per relation and selection, a function that returns the statistics of the selected rows.
    sizes
        Rows of relations that are known without a call.
    arity
        Known numbers of columns of relations, without flags of nulls.

    Examples
    --------
    >>> known = Catalog.from_sizes({"edge": 10_000})
    >>> known.rows("edge"), known.rows("node")
    (10000.0, None)
    >>> known.levels(BodyAtom("edge", (0, 1), ("a", "b")), ["b", "a"]).distinct
    (100.0, 10000.0)
    """

    def __init__(
        self,
        relations: Mapping[str, Callable[[], Facts]],
        selected: Mapping[tuple[str, Selection], Callable[[], Facts]] | None = None,
        sizes: Mapping[str, float] | None = None,
        arity: Mapping[str, int] | None = None,
    ) -> None:
        self.arity = dict(arity or {})
        self._relations = dict(relations)
        self._sizes = dict(sizes or {})
        self._selected = dict(selected or {})
        self._found: dict[object, Facts] = {}
        self._tries: dict[object, tuple[tuple[float, ...], tuple[float, ...]]] = {}

    def __bool__(self) -> bool:
        return bool(self._relations)

    def __iter__(self) -> Iterator[str]:
        return iter(self._relations)

    @classmethod
    def from_sizes(cls, sizes: Mapping[str, float], keys: Mapping[str, Sequence[int]] | None = None) -> Catalog:
        """Create statistics from sizes; a column has the square root of the rows, a key all."""
        single: dict[str, dict[Columns, float]] = {
            name: {(column,): float(sizes[name]) for column in columns} for name, columns in (keys or {}).items()
        }
        return cls({name: partial(Facts, float(rows), single.get(name, {})) for name, rows in sizes.items()})

    @classmethod
    def of_rows(cls, changes: Mapping[str, InputChange], backend: Backend) -> Catalog:
        """Create statistics from rows of a first tick, exact for small relations.

        Examples
        --------
        >>> from gpu_wcoj.backend import select_backend
        >>> edges = InputChange([np.array([1, 1, 1, 2]), np.array([5, 6, 7, 5])], None, True)
        >>> known = Catalog.of_rows({"edge": edges}, select_backend("cpu"))
        >>> edge = BodyAtom("edge", (0, 1), ("a", "b"))
        >>> known.levels(edge, ["a", "b"])
        Levels(variables=('a', 'b'), distinct=(2.0, 4.0), met=(2.5,))
        >>> known.values(edge, "b")
        3.0
        """
        looks = {
            name: partial(sample_statistics, change.columns, change.weights, backend)
            for name, change in changes.items()
        }
        return cls(looks, sizes={name: float(len(change.columns[0])) for name, change in changes.items()})

    @classmethod
    def of_circuit(
        cls, circuit: Circuit, widths: Mapping[str, int] | None = None, arity: Mapping[str, int] | None = None
    ) -> Catalog:
        """Create statistics from a circuit's state: exact in arrangement orders, else estimated.

        Parameters
        ----------
        widths
            Required numbers of columns of relations that may have fewer; the missing ones are flags of nulls, none set
            yet. Auxiliary relations are not included.
        """
        relations: dict[str, Callable[[], Facts]] = {}
        selected: dict[tuple[str, Selection], Callable[[], Facts]] = {}
        indices = dict(circuit.sources)
        for name, head in circuit.heads.items():
            if head.relation is not None and not isinstance(head, PositiveHead):
                indices[name] = head.relation
        for name, index in indices.items():
            grown = 0 if widths is None or name not in widths else widths[name] - _width(index)
            relations[name] = partial(_grown, index, grown) if grown else partial(_of_index, index)
            for key in () if grown else index.arrangements:
                if not key.is_whole:
                    selected[name, _selection(key)] = partial(_of_selection, index, _selection(key))
        return cls(relations, selected, {name: float(len(index)) for name, index in indices.items()}, arity)

    def expecting(self, facts: Mapping[str, Facts]) -> Catalog:
        """Return these statistics, with estimates of relations that do not exist yet.

        Examples
        --------
        >>> known = Catalog.from_sizes({"edge": 10_000}).expecting({"path": Facts(500.0)})
        >>> known.rows("edge"), known.rows("path")
        (10000.0, 500.0)
        """
        expected = {name: partial(_same, estimate) for name, estimate in facts.items()}
        copy = Catalog(self._relations | expected, self._selected, self._sizes, self.arity)
        copy._found.update(self._found)
        copy._tries.update(self._tries)
        return copy

    @classmethod
    def from_json(cls, data: Any) -> Catalog:
        """Create statistics from the output of `to_json`.

        Raises
        ------
        ValueError
            If the data has another format.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("relations"), dict):
            raise ValueError(f"expected an object of format {FORMAT} with 'relations'")
        relations = {name: _parsed(name, entry) for name, entry in data["relations"].items()}
        arity = {name: entry["columns"] for name, entry in data["relations"].items() if "columns" in entry}
        if not all(isinstance(n_columns, int) for n_columns in arity.values()):
            raise ValueError("a number of columns is not an integer")
        return cls({name: partial(_same, facts) for name, facts in relations.items()}, arity=arity)

    def to_json(self) -> dict[str, Any]:
        """Return the sizes and numbers of distinct values of whole relations, without any value."""
        relations: dict[str, Any] = {}
        for name in self._relations:
            facts = self._facts(name).with_pairs
            relations[name] = {
                "rows": facts.rows,
                "distinct": [[list(columns), count] for columns, count in sorted(facts.distinct.items())],
                "met": [[list(columns), column, degree] for (columns, column), degree in sorted(facts.met.items())],
            }
            if name in self.arity:
                relations[name]["columns"] = self.arity[name]
        return {"format": FORMAT, "relations": relations}

    @classmethod
    def read(cls, folder: str | os.PathLike[str]) -> Catalog:
        """Read the statistics from a folder's ``statistics.json``.

        Raises
        ------
        SchemaError
            If the file cannot be read or has another format.
        """
        import json  # rarely needed

        path = Path(folder) / FILE
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, RecursionError) as error:
            raise SchemaError.with_parts(
                f"the statistics in '{path}' cannot be read ({error})",
                subject=str(path),
                remedy="Write them with 'gpu-wcoj explain PROGRAM --save-stats DIR'.",
            ) from error

    def write(self, folder: str | os.PathLike[str]) -> Path:
        """Replace a folder's ``statistics.json``."""
        import json

        from gpu_wcoj.destination import replacing

        path = Path(folder) / FILE
        with replacing(path, "Name a folder that can be written to.") as file:
            file.write((json.dumps(self.to_json(), indent=2) + "\n").encode())
        return path

    def rows(self, relation: str) -> float | None:
        """Return the rows of a relation; None if it has no statistics."""
        if relation in self._sizes:
            return self._sizes[relation]
        return self._facts(relation).rows if relation in self._relations else None

    def levels(self, atom: BodyAtom, order: Sequence[str]) -> Levels | None:
        """Return the atom's trie with its variables bound in that order; None without statistics.

        Parameters
        ----------
        order
            All variables of the atom.
        """
        position = atom.variables.index
        columns = tuple([atom.columns[position(name)] for name in order])
        place = (atom.relation, atom.constants, atom.equal, atom.compared, columns)
        trie = self._tries.get(place)
        if trie is None:
            facts = self.facts(atom)
            if facts is None:
                return None
            trie = self._tries[place] = _trie(facts, columns)
        return Levels(tuple(order), *trie)

    def prefixes(self, atom: BodyAtom, variables: Sequence[str]) -> float | None:
        """Return the number of bindings of some of an atom's variables; None without statistics."""
        facts = self.facts(atom)
        return None if facts is None else _prefixes(facts, atom, _columns(atom, variables))

    def degree(self, atom: BodyAtom, bound: Sequence[str], variable: str) -> float | None:
        """Return the mean number of values of a variable below a binding of other variables.

        The binding is met through rows.

        Examples
        --------
        >>> known = Catalog.from_sizes({"edge": 10_000})
        >>> known.degree(BodyAtom("edge", (0, 1), ("a", "b")), ["a"], "b")
        100.0
        """
        facts = self.facts(atom)
        if facts is None:
            return None
        above, (column,) = _columns(atom, bound), _columns(atom, [variable])
        n_values = _prefixes(facts, atom, [*above, column])
        if not above:
            return n_values
        return max(facts.below(above, column), n_values / max(_prefixes(facts, atom, above), 1.0))

    def spread(self, atom: BodyAtom, bound: Sequence[str], variable: str) -> float:
        """Return the variance of the logarithm of the number of values below a binding.

        The binding is met through rows. The variance is that of a logarithmic normal distribution with the means over
        bindings and over rows.

        Examples
        --------
        >>> edge = BodyAtom("edge", (0, 1), ("a", "b"))
        >>> Catalog.from_sizes({"edge": 10_000}).spread(edge, ["a"], "b")
        0.0
        """
        facts = self.facts(atom)
        if facts is None or not bound:
            return 0.0
        above, (column,) = _columns(atom, bound), _columns(atom, [variable])
        mean = _prefixes(facts, atom, [*above, column]) / max(_prefixes(facts, atom, above), 1.0)
        met = facts.below(above, column)
        return log(met / mean) if met > mean > 0 else 0.0

    def values(self, atom: BodyAtom, variable: str) -> float | None:
        """Return the number of distinct values that an atom has for a variable."""
        facts = self.facts(atom)
        return None if facts is None else facts.values([atom.columns[atom.variables.index(variable)]])

    def sample(self, atom: BodyAtom, variables: Sequence[str]) -> Int64Array | None:
        """Return an even sample of the atom's rows, one array row a variable; None if there is none."""
        facts = self.facts(atom)
        rows = None if facts is None else facts.drawn
        return None if rows is None else rows[[atom.columns[atom.variables.index(name)] for name in variables]]

    def _facts(self, relation: str) -> Facts:
        facts = self._found.get(relation)
        if facts is None:
            facts = self._found[relation] = self._relations[relation]()
        return facts

    def facts(self, atom: BodyAtom) -> Facts | None:
        """Return the statistics of the rows that an atom selects; None if there are none."""
        if not (atom.constants or atom.equal or atom.compared):
            return self._facts(atom.relation) if atom.relation in self._relations else None
        selection = (atom.constants, atom.equal, atom.compared)
        place = (atom.relation, selection)
        facts = self._found.get(place)
        if facts is None:
            if place in self._selected:
                facts = self._selected[place]()
            elif atom.relation not in self._relations:
                return None
            else:
                all_facts = self._facts(atom.relation)
                share = all_facts.selectivity(atom)
                facts = all_facts if share == 1 else all_facts.selected(share)
            self._found[place] = facts
        return facts


def _columns(atom: BodyAtom, variables: Sequence[str]) -> list[int]:
    return [atom.columns[atom.variables.index(name)] for name in variables]


def _prefixes(facts: Facts, atom: BodyAtom, columns: Sequence[int]) -> float:
    return facts.rows if len(columns) == len(atom.columns) else min(facts.values(columns), facts.rows)


def _trie(facts: Facts, columns: Columns) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return `Levels.distinct` and `Levels.met` of a trie of all columns."""
    distinct: list[float] = []
    for depth in range(1, len(columns)):
        distinct.append(max([*distinct[-1:], facts.values(columns[:depth])]))
    distinct = [min(count, facts.rows) for count in distinct] + [facts.rows]
    met = [
        max(facts.below(columns[:depth], columns[depth]), distinct[depth] / max(distinct[depth - 1], 1.0))
        for depth in range(1, len(columns))
    ]
    return tuple(distinct), tuple(met)


def _same(facts: Facts) -> Facts:
    return facts


def _selection(key: ArrangementKey) -> Selection:
    return key.constants, key.equal, key.compared


def _width(index: RelationIndex) -> int:
    """Return the number of stored columns of a relation, without a rank."""
    return index.columns if isinstance(index, RankedIndex) else index.width


def _grown(index: RelationIndex, columns: int) -> Facts:
    """Return the statistics of a relation that gets further columns of one value each."""
    facts, width = _of_index(index), _width(index)

    def rest() -> Facts:
        complete = facts.completed
        return Facts(complete.rows, complete.distinct, complete.met, count=complete.count)

    single: dict[Columns, float] = {(column,): 1.0 for column in range(width, width + columns)}
    return Facts(facts.rows, {**facts.distinct, **single}, facts.met, rest=rest, count=facts.count)


def _of_index(index: RelationIndex) -> Facts:
    """Return the statistics of all rows: counted in its arrangements, else estimated."""
    width = _width(index)
    keys = [key for key in index.arrangements if key.is_whole]
    distinct, met = facts_of({key.order[:width]: _counted(index, key, width) for key in keys})

    def rest() -> Facts:
        return _estimated(index, index.canonical, width)

    def draw() -> Int64Array | None:
        return _drawn(index, index.canonical, width)

    return Facts(distinct[tuple(range(width))], distinct, met, rest=rest, draw=draw)


def _of_selection(index: RelationIndex, selection: Selection) -> Facts:
    keys = [key for key in index.arrangements if _selection(key) == selection]
    width = len(keys[0].order) - (isinstance(index, RankedIndex) and index.columns in keys[0].order)
    distinct, met = facts_of({key.order[:width]: _counted(index, key, width) for key in keys})
    rows = max(count for columns, count in distinct.items() if len(columns) == width)

    def rest() -> Facts:
        return _estimated(index, keys[0], width)

    def draw() -> Int64Array | None:
        return _drawn(index, keys[0], width)

    return Facts(rows, distinct, met, rest=rest, draw=draw)


def _counted(index: RelationIndex, key: ArrangementKey, width: int) -> tuple[Sequence[float], Sequence[float]]:
    """Return distinct prefixes and degrees of an arrangement's levels, without a rank."""
    statistics = measure(index.arrangements[key])
    return [float(count) for count in statistics.distinct[:width]], [
        level.met for level in statistics.degrees[: width - 1]
    ]


def _drawn(index: RelationIndex, key: ArrangementKey, width: int) -> Int64Array | None:
    """Return sample rows of an arrangement's largest batch, one array row a column, or None."""
    batches, order = index.arrangements[key].accumulated(), key.order[:width]
    if not batches or set(order) != set(range(width)):
        return None
    rows = len(batches[0])
    positions = index.backend.asarray(np.unique(np.linspace(0, rows - 1, min(rows, KEPT_ROWS)).astype(np.int64)))
    columns = columns_at(batches[0], len(batches[0].values) - 1, positions)
    return np.stack([columns[order.index(column)].astype(np.int64) for column in range(width)])


def _estimated(index: RelationIndex, key: ArrangementKey, width: int) -> Facts:
    """Estimate the statistics of an arrangement's columns from its largest batch."""
    batches = index.arrangements[key].accumulated()
    if not batches:
        return Facts(0.0)
    columns, order = batches[0].columns()[:width], key.order[:width]
    sample_facts = sample_statistics(columns, None, index.backend)
    distinct: dict[Columns, float] = {
        tuple(sorted(order[place] for place in places)): count for places, count in sample_facts.distinct.items()
    }
    met = {
        (tuple(sorted(order[place] for place in places)), order[other_place]): degree
        for (places, other_place), degree in sample_facts.met.items()
    }
    sample = None
    if sample_facts.sample is not None and set(order) == set(range(width)):
        sample = np.stack([sample_facts.sample[order.index(column)] for column in range(width)])
    count = sample_facts.count and renumbered(sample_facts.count, {column: i for i, column in enumerate(order)})
    return Facts(sample_facts.rows, distinct, met, sample, count=count)


def _parsed(name: str, data: Any) -> Facts:
    try:
        distinct = {tuple(map(int, columns)): float(count) for columns, count in data["distinct"]}
        met = {(tuple(map(int, columns)), int(column)): float(degree) for columns, column, degree in data["met"]}
        rows = float(data["rows"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"relation '{name}' has invalid statistics: {error!r}") from None
    if not all(0 <= count < float("inf") for count in (rows, *distinct.values(), *met.values())):
        raise ValueError(f"relation '{name}' has an invalid count: expected a finite number from 0 on")
    return Facts(rows, distinct, met)
