"""What a user passes for one relation of a tick, as names, columns and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpu_wcoj.column import Column, on_host
from gpu_wcoj.errors import ArityError, ColumnError, SchemaError, TypeMismatchError
from gpu_wcoj.schema import DataType
from gpu_wcoj.weights import as_weights
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.dictionary import Dictionary


@dataclass(frozen=True, eq=False)
class Incoming:
    """Rows for one relation: its columns, their weights (None: all 1), and whether the rows are in order.

    Columns and weights are where they came from, in the host's memory or on a device.
    """

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    weights: Any
    is_ordered: bool

    def __len__(self) -> int:
        return len(self.columns[0])

    def fetched(self) -> Incoming:
        """The same rows in the host's memory; themselves if they are there."""
        weights = None if self.weights is None else on_host(self.weights)
        if weights is self.weights and all(column.is_on_host for column in self.columns):
            return self
        columns = tuple(Column(one.type, one.codes, one.valid, one.dictionary) for one in self.columns)
        return Incoming(self.names, columns, weights, self.is_ordered)


def read_change(
    relation: str,
    data: Any,
    arity: int,
    declared: tuple[str, ...] | None,
    types: Sequence[DataType | None],
    dictionaries: tuple[Dictionary, Dictionary],
    reserves_weight: bool = True,
) -> Incoming:
    """Read one relation's rows.

    A table has the relation's columns, in order or, where they are declared, by name; in a change one more, called
    ``weight``, is its weights.

    Raises
    ------
    ArityError, SchemaError, ColumnError
        If the columns are not those.
    WeightError
        If a weight is no integer.
    """
    string, binary = dictionaries
    if isinstance(data, ZSet):
        if not data.names and len(data) == 0:
            return Incoming((), _no_columns(arity, types), None, False)
        if len(data.columns) != arity:
            raise ArityError(wrong_number(relation, arity, data.names))
        order = by_declaration(relation, data.names, declared)
        columns = data.encoded_for(string, binary)
        return Incoming(
            tuple(data.names[i] for i in order), tuple(columns[i] for i in order), data.stored_weights, False
        )
    from gpu_wcoj.arrow import as_table

    names, found = as_table(data, f"relation '{relation}'", null_types=types, string=string, binary=binary)
    weights = None
    if not names:
        return Incoming((), _no_columns(arity, types), None, True)
    if reserves_weight and len(names) == arity + 1:
        if names.count("weight") != 1:
            raise SchemaError(
                f"relation '{relation}' has {arity} columns, and the rows have {arity + 1}: "
                f"{', '.join(names)}.\n  A column more is allowed if it is called 'weight' and holds the weights."
            )
        at = names.index("weight")
        weights = as_weights(found[at], f"relation '{relation}': the weights")
        names, found = names[:at] + names[at + 1 :], found[:at] + found[at + 1 :]
    if len(names) != arity:
        raise ArityError(wrong_number(relation, arity, names))
    order = by_declaration(relation, names, declared)
    return Incoming(tuple(names[i] for i in order), tuple(found[i] for i in order), weights, True)


def held_to(
    relation: str, names: Sequence[str], columns: Sequence[Column], kinds: Sequence[DataType | None]
) -> tuple[Column, ...]:
    """The columns, integers in the types that they are declared with.

    Raises
    ------
    TypeMismatchError
        If a value is none of its column's type.

    Examples
    --------
    >>> import numpy as np
    >>> held_to("r", ["a"], [Column(DataType("int64"), np.array([200]))], [DataType("uint8")])[0].type
    DataType(name='uint8')
    """
    held = list(columns)
    for at, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        if kind is None or column.type == kind or {column.type.family, kind.family} != {"integer"}:
            continue
        least, most = kind.code_range
        beyond = (column.stored < least) | (column.stored > most)
        if column.stored_valid is not None:
            beyond &= column.stored_valid
        if bool(beyond.any()):
            row = int(beyond.argmax())
            raise TypeMismatchError(
                f"relation '{relation}', column '{names[at]}': the value {int(column.stored[row])} (row {row}) is no "
                f"'{kind.name}', as which the column is declared: {least} to {most}.\n"
                "  Mend the value, or declare another type."
            )
        held[at] = Column(kind, column.stored, column.stored_valid, column.dictionary)
    return tuple(held)


def _no_columns(arity: int, types: Sequence[DataType | None]) -> tuple[Column, ...]:
    import numpy as np

    from gpu_wcoj.schema import INT64

    return tuple(Column(types[i] or INT64, np.empty(0, np.int64)) for i in range(arity))


def wrong_number(relation: str, arity: int, names: Sequence[str]) -> str:
    """The message for rows of another number of columns."""
    hint = ""
    if len(names) == arity + 1 and "weight" in names:
        hint = "\n  A column 'weight' is taken for weights in changes only; leave it out here."
    return (
        f"relation '{relation}' has {arity} columns, and the rows have {len(names)}: {', '.join(names) or 'none'}."
        + (hint or "\n  Select the relation's columns first.")
    )


def by_declaration(relation: str, names: tuple[str, ...], declared: tuple[str, ...] | None) -> Sequence[int]:
    """Where each declared column stands; names that are only numbered go by position."""
    numbered = all(name == f"c{i}" for i, name in enumerate(names))
    if declared is None or numbered or names == declared:
        return range(len(names))
    for name in names:
        if name not in declared:
            raise ColumnError(relation, name, declared)
    return [names.index(name) for name in declared]
