"""Display of a Z-set: a box in a terminal, a table in a notebook."""

from __future__ import annotations

import html as _html
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpu_wcoj.data.column import Column, on_host

if TYPE_CHECKING:
    from gpu_wcoj.zset.zset import ZSet

MAX_ROWS, _MAX_COLUMNS, _MAX_WIDTH = 10, 10, 32
CUT = "…"
_NUMBERS = ("integer", "float32", "float64", "decimal")


class TextColumn(NamedTuple):
    """A column as text: its name, its type, its cells, and its alignment (True: right)."""

    name: str
    kind: str
    cells: list[str]
    right: bool


def box(zset: ZSet) -> str:
    """Return the Z-set as a box of text for a terminal."""
    return drawn(_title(zset), _shown_columns(zset))


def html(zset: ZSet) -> str:
    """Return the Z-set as an HTML table for a notebook; all data is escaped."""
    return drawn_html(_title(zset), _shown_columns(zset))


def drawn(title: str, columns: list[TextColumn]) -> str:
    """Return columns as a box of text below a title."""
    if not columns:
        return title
    widths = [max(map(_width, (column.name, column.kind, *column.cells))) for column in columns]
    names = _line(columns, widths, [column.name for column in columns])
    kinds = _line(columns, widths, [column.kind for column in columns])
    rows = [_line(columns, widths, list(cells)) for cells in zip(*(column.cells for column in columns), strict=True)]
    top, middle, bottom = (
        left + line.join(sign * (width + 2) for width in widths) + right
        for left, line, sign, right in (("┌", "┬", "─", "┐"), ("╞", "╪", "═", "╡"), ("└", "┴", "─", "┘"))
    )
    return "\n".join([title, top, names, kinds, middle, *rows, bottom])


def drawn_html(title: str, columns: list[TextColumn]) -> str:
    """Return columns as an HTML table below a title; all texts are escaped."""
    head = "".join(
        f"<th>{_html.escape(column.name)}<br><small>{_html.escape(column.kind)}</small></th>" for column in columns
    )
    body = "".join(
        "<tr>" + "".join(f"<td>{_html.escape(cell)}</td>" for cell in cells) + "</tr>"
        for cells in zip(*(column.cells for column in columns), strict=True)
    )
    return f"<p>{_html.escape(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def laid_out(columns: list[TextColumn], weights: TextColumn | None, is_cut: bool) -> list[TextColumn]:
    """Return the first and last columns if there are many, then the weights.

    Parameters
    ----------
    is_cut
        Whether rows were left out between the first half of those that are given and the second one.
    """
    if len(columns) > _MAX_COLUMNS:
        gap = TextColumn(CUT, "", [CUT] * len(columns[0].cells), False)
        columns = [*columns[: _MAX_COLUMNS // 2], gap, *columns[-_MAX_COLUMNS // 2 :]]
    if weights is not None:
        columns = [*columns, weights]
    if is_cut:
        for column in columns:
            column.cells.insert(MAX_ROWS // 2, CUT)
    return columns


def _title(zset: ZSet) -> str:
    rows, columns = len(zset), len(zset.columns)
    return f"ZSet: {rows:,} row{'s' * (rows != 1)}, {columns} column{'s' * (columns != 1)}"


def _shown_columns(zset: ZSet) -> list[TextColumn]:
    half = MAX_ROWS // 2
    cut = len(zset) > MAX_ROWS
    if cut:
        zset = _ends(zset, half)
    text_columns = [
        TextColumn(clean(name), column.type.name, _cells(column), column.type.family in _NUMBERS)
        for name, column in zip(zset.names, zset.columns, strict=True)
    ]
    name = zset.shown_weight_name
    weights = None if name is None else TextColumn(clean(name), "int64", list(map(str, zset.weights.tolist())), True)
    return laid_out(text_columns, weights, cut)


def _ends(zset: ZSet, half: int) -> ZSet:
    """Return the first and the last rows; only these are fetched from a device."""
    first, final = slice(0, half), slice(len(zset) - half, len(zset))
    columns = tuple(column.gather(first).stack(column.gather(final)) for column in zset.columns)
    weights = np.concatenate([on_host(zset.stored_weights[part]) for part in (first, final)])
    return type(zset)(zset.names, columns, weights, zset.weight_name)


def _cells(column: Column) -> list[str]:
    if column.valid is None and column.type.family == "integer":
        return list(map(str, column.codes.tolist()))
    from gpu_wcoj.arrow import to_text

    return list(map(clean, to_text(column)))


def clean(text: str) -> str:
    """Return `text` with control characters escaped, cut to the width of a table cell."""
    printable = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text[: _MAX_WIDTH + 1])
    if _width(printable) <= _MAX_WIDTH and len(text) <= _MAX_WIDTH:
        return printable
    while _width(printable) >= _MAX_WIDTH:
        printable = printable[:-1]
    return printable + CUT


def _width(text: str) -> int:
    """Return the terminal cells that `text` takes: 2 for wide, 0 for combining characters."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text
    )


def _line(columns: list[TextColumn], widths: list[int], cells: list[str]) -> str:
    padded = []
    for column, width, cell in zip(columns, widths, cells, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if column.right else cell + space)
    return "│ " + " │ ".join(padded) + " │"
