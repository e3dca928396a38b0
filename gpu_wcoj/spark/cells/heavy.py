"""Search for heavy values, which so many rows have that the load of cells would be uneven."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import IntegralType, StringType

from gpu_wcoj.query.rules import Rules
from gpu_wcoj.spark.cluster.exchange import data_columns
from gpu_wcoj.spark.cluster.layout import MAX_HEAVY_VARIABLES, CellLayout, Heavy, Value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_VALUES = 64
"""Heavy values of one variable, the most frequent ones."""


def find_heavy_values(rules: Rules, chosen: CellLayout, tables: Mapping[str, DataFrame]) -> dict[int, Heavy]:
    """Return the heavy values of every rule's hashed variables, from the loaded tables.

    A value is heavy if more rows of an atom have it than one part of its variable would hold if all parts were equal.
    Bindings with a heavy value are distributed by the other variables alone. This runs one Spark job for each examined
    column.
    """
    counted: dict[tuple[str, int], tuple[int, dict[Value, int]]] = {}
    heavy: dict[int, Heavy] = {}
    for rule_index, rule in enumerate(rules.rules):
        frequencies: dict[str, dict[Value, float]] = {}
        for atom in rule.atoms:
            if atom.relation not in tables:
                continue
            for variable in atom.variables:
                parts = chosen.parts_of(rule_index, variable.name)
                if parts == 1:
                    continue
                column = atom.relation, atom.terms.index(variable)
                if column not in counted:
                    counted[column] = _frequent_values(tables[atom.relation], column[1])
                rows, values = counted[column]
                variable_frequencies = frequencies.setdefault(variable.name, {})
                for value, count in values.items():
                    if count * parts > rows:
                        variable_frequencies[value] = max(variable_frequencies.get(value, 0.0), count / rows)
        heaviest = sorted(
            (name for name in frequencies if frequencies[name]), key=lambda name: -max(frequencies[name].values())
        )
        selected = {name: _most_frequent(frequencies[name]) for name in heaviest[:MAX_HEAVY_VARIABLES]}
        if selected:
            heavy[rule_index] = selected
    return heavy


def _most_frequent(values: Mapping[Value, float]) -> tuple[Value, ...]:
    ordered = sorted(values, key=lambda value: (-values[value], str(value)))
    return tuple(ordered[:MAX_VALUES])


def _frequent_values(table: DataFrame, column: int) -> tuple[int, dict[Value, int]]:
    """Return the rows of a table and the most frequent values of an integer or text column."""
    name = data_columns(table.columns)[column]
    if not isinstance(table.schema[name].dataType, (IntegralType, StringType)):
        return 0, {}
    value = sf.col("`" + name.replace("`", "``") + "`")
    groups = table.groupBy(value.alias("v")).agg(sf.count(sf.lit(1)).alias("n"))
    rows = int(table.count())
    top = groups.where(sf.col("v").isNotNull()).orderBy(sf.col("n").desc(), sf.col("v")).limit(MAX_VALUES).collect()
    return rows, {row["v"]: int(row["n"]) for row in top}
