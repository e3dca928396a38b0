"""Rebalancing: values that become heavy, and the state moved to a plan that splits them.

Every cell reports with each batch its rows in each role. If one has far more than the others, Spark searches the state
for frequent values; the search is repeated only after the state has grown. For new heavy values, the shares are chosen
anew and all rows of the inputs move from the old cells to the new ones, before the next batch and committed with it:
until then the old state is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import IntegralType, LongType, StringType, StructField, StructType

from gpu_wcoj.checkpoint.manifest import Manifest
from gpu_wcoj.query.desugar import desugar
from gpu_wcoj.query.ir import Rule, Rules
from gpu_wcoj.spark.cluster.exchange import Columns, data_columns
from gpu_wcoj.spark.cluster.layout import MAX_HEAVY_VARIABLES, CellLayout, Heavy, Value, by_core_name, choose
from gpu_wcoj.spark.cluster.plan import CellPlan, Stage
from gpu_wcoj.spark.cluster.read import as_set, cell_program
from gpu_wcoj.spark.cluster.state import Entry, cached_program
from gpu_wcoj.spark.files import map_rows
from gpu_wcoj.spark.schema import arrow_schema, quoted
from gpu_wcoj.spark.sources import WEIGHT
from gpu_wcoj.spark.workers import as_task

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Search for heavy values, which so many rows have that the load of cells would be uneven.


MAX_VALUES = 64
"""Heavy values of one variable, the most frequent ones."""


def find_heavy_values(rules: Rules, chosen: CellLayout, tables: Mapping[str, DataFrame]) -> dict[int, Heavy]:
    """Return the heavy values of every rule's hashed variables, from the loaded tables.

    A value is heavy if more rows of an atom have it than one part of its variable would hold if all parts were equal.
    Bindings with a heavy value are distributed by the other variables alone. This runs one Spark job for each table,
    and a second one if some value may be heavy.
    """
    core = desugar(rules)
    tables = by_core_name(core, tables)
    parts_of: dict[str, dict[int, int]] = {}
    for rule_index, rule in enumerate(core.rules):
        for relation, column, variable in _joined_columns(rule, tables):
            parts = chosen.parts_of(rule_index, variable)
            if parts > 1:
                columns = parts_of.setdefault(relation, {})
                columns[column] = max(parts, columns.get(column, 1))
    counted = {relation: _frequent_values(tables[relation], columns) for relation, columns in parts_of.items()}
    heavy: dict[int, Heavy] = {}
    for rule_index, rule in enumerate(core.rules):
        frequencies: dict[str, dict[Value, float]] = {}
        for relation, column, variable in _joined_columns(rule, tables):
            parts = chosen.parts_of(rule_index, variable)
            if parts == 1:
                continue
            rows, values_of = counted[relation]
            variable_frequencies = frequencies.setdefault(variable, {})
            for value, count in values_of.get(column, {}).items():
                if count * parts > rows:
                    variable_frequencies[value] = max(variable_frequencies.get(value, 0.0), count / rows)
        heaviest = sorted(
            (name for name in frequencies if frequencies[name]), key=lambda name: -max(frequencies[name].values())
        )
        selected = {name: _heaviest_values(frequencies[name]) for name in heaviest[:MAX_HEAVY_VARIABLES]}
        if selected:
            heavy[rule_index] = selected
    return heavy


def _joined_columns(rule: Rule, tables: Mapping[str, DataFrame]) -> Iterator[tuple[str, int, str]]:
    """Yield the columns of loaded tables that variables bind: relation, column, variable."""
    for atom in rule.atoms:
        if atom.relation in tables:
            for variable in atom.variables:
                yield atom.relation, atom.terms.index(variable), variable.name


def _heaviest_values(values: Mapping[Value, float]) -> tuple[Value, ...]:
    ordered = sorted(values, key=lambda value: (-values[value], str(value)))
    return tuple(ordered[:MAX_VALUES])


def _frequent_values(table: DataFrame, parts: Mapping[int, int]) -> tuple[int, dict[int, dict[Value, int]]]:
    """Return the rows of a table and, per column, those of values that are heavy for its parts.

    Columns of other types than integers and text have none. A value that is heavy among all rows is heavy among those
    of some task; only for such values a second job counts the rows.
    """
    names = data_columns(table.columns)
    examined = {
        column: n_parts
        for column, n_parts in parts.items()
        if isinstance(table.schema[names[column]].dataType, (IntegralType, StringType))
    }
    if not examined:
        return 0, {}
    examined_names = [names[column] for column in examined]
    selected = table.select(*map(quoted, examined_names))
    found = map_rows(selected, Frequencies(tuple(examined.values()), None), _COUNTS).collect()
    rows = sum(row["n"] for row in found if row["i"] < 0)
    candidates = [{row["number"] if row["text"] is None else row["text"] for row in found if row["i"] == i}
                  for i in range(len(examined))]  # fmt: skip
    if not any(candidates):
        return rows, {}
    counts: dict[int, dict[Value, int]] = {}
    for row in map_rows(selected, Frequencies((), tuple(map(tuple, candidates))), _COUNTS).collect():
        if row["i"] >= 0:
            values = counts.setdefault(list(examined)[row["i"]], {})
            value = row["number"] if row["text"] is None else row["text"]
            values[value] = values.get(value, 0) + row["n"]
    return rows, counts


_COUNTS = StructType(
    [
        StructField("i", LongType()), StructField("number", LongType()), StructField("text", StringType()),
        StructField("n", LongType()),
    ]
)  # fmt: skip
"""Rows with a value in the i-th column; of i = -1, all rows."""


@dataclass(frozen=True)
class Frequencies:
    """The work of a task that counts values.

    Attributes
    ----------
    parts
        Per column, values are counted that are heavy for so many parts among the rows of the task.
    values
        Per column, the values that are counted instead.
    """

    parts: tuple[int, ...]
    values: tuple[tuple[Value, ...], ...] | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield counts; the function of ``mapInArrow``."""
        gathered = list(batches)
        if not gathered:
            return
        table = pa.Table.from_batches(gathered)
        for i, column in enumerate(table.columns):
            counts = column.value_counts()
            values, n = counts.field("values"), counts.field("counts")
            is_chosen = pc.is_valid(values)
            if self.values is None:
                is_chosen = pc.and_(is_chosen, pc.greater(n, table.num_rows // self.parts[i]))
            else:
                is_chosen = pc.and_(is_chosen, pc.is_in(values, value_set=pa.array(self.values[i], values.type)))
            values, n = values.filter(is_chosen), n.filter(is_chosen)
            yield self._counts(i, values, n)
        yield self._counts(-1, pa.array([None], pa.int64()), pa.array([table.num_rows]))

    @staticmethod
    def _counts(i: int, values: pa.Array, n: pa.Array) -> pa.RecordBatch:
        rows = len(n)
        is_number = pa.types.is_integer(values.type)
        number = values.cast(pa.int64()) if is_number else pa.nulls(rows, pa.int64())
        text = pa.nulls(rows, pa.string()) if is_number else values.cast(pa.string())
        return pa.RecordBatch.from_arrays(
            [pa.repeat(pa.scalar(i, pa.int64()), rows), number, text, n], names=_COUNTS.names
        )


ROLE_ROWS, SEARCHED_ROWS = "held", "looked"
"""Keys in a manifest: the rows of every cell by role, and their sum at the last search."""

UNEVEN = 1.3
"""Ratio of the fullest cell of a role to the mean above which heavy values are searched for. A value that is heavy for
two parts gives 1.5, for more parts more."""

GROWTH = 1.25
"""Factor by which the state has to grow after a search before the next."""


def is_due(plan: CellPlan, manifest: Manifest, adapts_from: int) -> bool:
    """Return whether to search for heavy values.

    It is due if some cell has far more rows than the mean, and the state has grown since the last search.
    """
    role_rows = manifest.extra.get(ROLE_ROWS, {})
    total = sum(rows for roles in role_rows.values() for rows in roles.values())
    if total < GROWTH * manifest.extra.get(SEARCHED_ROWS, 0):
        return False
    for relation in plan.travelling:
        for route in relation.routes:
            if not route.hashed or plan.stages[route.stage].kind != "join":
                continue
            rows = [role_rows.get(f"{route.stage}/{cell}", {}).get(f"in{route.role}", 0) for cell in range(route.cells)]
            if max(rows) >= adapts_from and max(rows) * route.cells > UNEVEN * sum(rows):
                return True
    return False


def count_role_rows(manifest: Manifest) -> int:
    """Return the sum of the rows of all cells and roles in a manifest."""
    return sum(rows for roles in manifest.extra.get(ROLE_ROWS, {}).values() for rows in roles.values())


def find_balanced_layout(
    root: str, plan: CellPlan, manifest: Manifest, columns: Columns, session: SparkSession
) -> CellLayout | None:
    """Return a layout that splits the heavy values of this state; None if none are new."""
    tables = gather_inputs(root, plan, manifest, columns, session)
    role_rows = manifest.extra.get(ROLE_ROWS, {})
    sizes = {
        name: float(
            sum(
                role_rows.get(f"{route.stage}/{cell}", {}).get(f"in{route.role}", 0)
                for route in plan.state_routes[name]
                for cell in filter(route.is_first, range(route.cells))
            )
        )
        for name in tables
    }
    cells = plan.chosen.cells
    even = choose(plan.rules, "hypercube", cells, sizes)
    heavy = find_heavy_values(plan.rules, even, tables)
    split_already = [
        {(name, value) for name, values in values_of.items() for value in values} for values_of in plan.chosen.heavy
    ]
    heavy_now = {
        rule_index: {(name, value) for name, values in values_of.items() for value in values}
        for rule_index, values_of in heavy.items()
    }
    if all(values <= split_already[rule_index] for rule_index, values in heavy_now.items()):
        return None
    return choose(plan.rules, "hypercube", cells, sizes, heavy)


def gather_inputs(
    root: str, plan: CellPlan, manifest: Manifest, columns: Columns, session: SparkSession
) -> dict[str, DataFrame]:
    """Return the rows of every source, each once, with ``weight``, from the cells' state."""
    gathered_rows = {}
    for index, name in enumerate(plan.sources):
        places = []
        for route in plan.state_routes.get(name, ()):
            for cell in filter(route.is_first, range(route.cells)):
                entry = Entry.from_manifest(manifest, route.stage, cell)
                if entry is not None:
                    places.append((entry, plan.stages[route.stage], cell, route.role))
        if places:
            fields = [column for column in columns.fields[index] if column.name.startswith("c")]
            schema = StructType([*fields, StructField(WEIGHT, LongType())])
            gather = Gather(root, tuple(places), arrow_schema(schema), plan.bag)
            gathered_rows[name] = session.range(0, len(places), 1, len(places)).mapInArrow(as_task(gather), schema)
    return gathered_rows


@dataclass(frozen=True, eq=False)
class Gather:
    """The data with which a task reads roles of cells.

    Attributes
    ----------
    places
        Per place, the entry of a cell, its stage, its index, and the role.
    """

    root: str
    places: tuple[tuple[Entry, Stage, int, int], ...]
    schema: pa.Schema
    bag: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the places with these indices; the function of ``mapInArrow``."""
        for batch in batches:
            for place in batch.column(0).to_pylist():
                entry, stage, cell, role = self.places[place]
                program = cached_program(self.root, stage.index, cell, entry)
                if program is None:
                    program = cell_program(self.root, entry, stage, cell, self.bag)
                rows = program.relation(f"in{role}")
                if len(rows):
                    table = (rows if self.bag else as_set(rows)).to_arrow().rename_columns(self.schema.names)
                    yield from table.cast(self.schema).to_batches(max_chunksize=1 << 17)


@dataclass(frozen=True, eq=False)
class Moved:
    """The state after the last batch under a new plan, as notes of cells; not in a manifest yet."""

    plan: CellPlan
    columns: Columns
    cells: Sequence[Mapping[str, Any]]

    @property
    def entries(self) -> dict[tuple[int, int], Entry]:
        """The entries of the cells' states."""
        return {(note["stage"], note["cell"]): Entry(*note["entry"]) for note in self.cells}
