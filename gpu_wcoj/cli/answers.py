"""Rows of answers on standard output: a table for people, or a format for other programs."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, Literal

import numpy as np
import pyarrow as pa
from cyclopts import Parameter

from gpu_wcoj.data.rows import Row
from gpu_wcoj.errors import UsageError, counted, listed
from gpu_wcoj.files.output import OutputSpec, write_text
from gpu_wcoj.query.ir import Declaration
from gpu_wcoj.query.souffle.functors import format_float
from gpu_wcoj.query.souffle.records import format_record
from gpu_wcoj.result import Result
from gpu_wcoj.zset.zset import ZSet, clean

TableFormat = Literal["table", "csv", "tsv", "json", "markdown", "arrow"]
"""The forms in which rows are printed."""


@Parameter(name="*")
@dataclass(frozen=True)
class PrintOptions:
    """The form in which answers are printed."""

    format: TableFormat = "table"
    """table; or csv, tsv, json (an object a line), markdown, arrow (an IPC stream) for all rows and nothing else."""
    limit: int | None = None
    """Maximum rows of each answer; by default 20 of a table, else all."""


STANDARD_OUTPUT: Final = Path("/dev/stdout")
"""The output that is standard output; ``-`` on a command line."""

TABLE_ROWS: Final = 20
"""Rows of a table, unless there is a limit."""

CANDIDATES: Final = 100
"""Rows that are followed for each row to be shown: some of them are deleted later."""

MIN_CELL_WIDTH: Final = 12
"""Terminal cells that a column takes on average; a table with more columns leaves out those in the middle."""


def check_limit(limit: int | None) -> int | None:
    """Return a maximum number of rows.

    Raises
    ------
    UsageError
        If it is negative.
    """
    if limit is not None and limit < 0:
        raise UsageError.invalid_value("--limit", limit, "an integer from 0 on")
    return limit


class AnswerRows:
    """Some rows of each answer that a run has inserted and not deleted.

    It takes neither the memory nor the time of all rows.

    Parameters
    ----------
    n_shown
        The number of rows to show of each answer, at most.
    """

    def __init__(self, n_shown: int) -> None:
        self.n_shown = n_shown
        self._weights: dict[str, dict[Row, int]] = {}

    def follow(self, name: str, piece: Any) -> None:
        """Take note of a piece of a change. O(deleted rows) if any row is followed.

        Matches of motifs are not followed.
        """
        if self.n_shown == 0 or not isinstance(piece, ZSet):
            return
        weights = self._weights.setdefault(name, {})
        if weights and bool((piece.weights < 0).any()):
            for row, weight in piece.filter(piece.weights < 0).rows():
                if row in weights:
                    weights[row] += weight
                    if weights[row] <= 0:
                        del weights[row]
        room = CANDIDATES * self.n_shown - len(weights)
        come = np.flatnonzero(piece.weights > 0)[:room]
        if len(come):
            mask = np.zeros(len(piece.weights), np.bool_)
            mask[come] = True
            for row, weight in piece.filter(mask).rows():
                weights[row] = weights.get(row, 0) + weight

    def rows(self, name: str) -> list[Row]:
        """Return rows of an answer, each as often as it occurs, and at most as many as are shown."""
        shown: list[Row] = []
        for row, weight in self._weights.get(name, {}).items():
            if len(shown) >= self.n_shown:
                break
            shown += [row] * min(weight, self.n_shown - len(shown))
        return shown

    def lines(self, n_lines: int) -> list[str]:
        """Return the first rows of all answers as text."""
        rows = ((name, row) for name, weights in self._weights.items() for row in list(weights)[:n_lines])
        return [clean(f"{name}({', '.join(map(_cell, row))})") for name, row in islice(rows, n_lines)]


# Tables for people.


def print_rows(name: str, columns: Sequence[str], kinds: Sequence[str], rows: Sequence[Row], n_rows: int) -> None:
    """Print rows of an answer as a box, as wide as the terminal at most, and their number.

    Parameters
    ----------
    kinds
        The types of the columns.
    n_rows
        The number of all rows.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else 1 << 16
    cells = [[_cell(value) for value in row] for row in rows]
    first, final = _shown_columns(len(columns), width)
    table = Table(box=box.SQUARE, header_style="")
    for position in (*first, *final):
        if final and position == final[0]:
            table.add_column("…")
        is_number = kinds[position] in ("int", "float", "decimal")
        table.add_column(
            Text(f"{clean(columns[position])}\n{kinds[position]}".rstrip()), no_wrap=True,
            justify="right" if is_number else "left",
        )  # fmt: skip
    for row in cells:
        gap = ["…"] if final else []
        table.add_row(*map(Text, [*(row[i] for i in first), *gap, *(row[i] for i in final)]))
    console = Console(highlight=False, width=width, soft_wrap=False)
    count = counted(n_rows, "row")
    console.print(Text(f"{clean(name)}: {count if len(rows) >= n_rows else f'{len(rows):,} of {count}'}"))
    if columns and rows:
        console.print(table)


def _shown_columns(n_columns: int, width: int) -> tuple[range, range]:
    """Return the first and the last columns that fit; the last ones are none if all do."""
    most = max(2, width // MIN_CELL_WIDTH)
    if n_columns <= most:
        return range(n_columns), range(0)
    half = max(1, (most - 1) // 2)
    return range(half), range(n_columns - half, n_columns)


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return clean(str(value))


# Formats for other programs.


def check_format(form: TableFormat, outputs: Sequence[str]) -> None:
    """Raise if a format cannot be printed here.

    Raises
    ------
    UsageError
        For several answers in a format of one table, and for Arrow on a terminal.
    """
    if form not in ("table", "json") and len(outputs) > 1:
        raise UsageError.conflict(
            f"--format {form}", f"the answers {listed(outputs)}", "Keep one .output line, or take --format json."
        )
    if form == "arrow" and sys.stdout.isatty():
        raise UsageError.conflict("--format arrow", "a terminal", "Send standard output to a file or a program.")


def write_answer(name: str, answer: Result, form: TableFormat, with_name: bool) -> None:
    """Write all rows of an answer to standard output.

    Parameters
    ----------
    with_name
        True if lines of JSON shall tell their relation.
    """
    sys.stdout.flush()
    if form == "json":
        label = {"relation": name} if with_name else {}
        _write_json({**label, **row} for row in answer.to_dicts())
    elif form == "markdown":
        _write_markdown(answer.columns, answer.rows())
    elif form == "arrow":
        table = answer.to_arrow()
        with pa.ipc.new_stream(_binary_output(), table.schema) as stream:
            stream.write_table(table)
    else:
        _write_csv(answer.to_arrow(), form, True)


@dataclass(frozen=True)
class PrintedRelation:
    """A relation that is printed as Soufflé prints it.

    Attributes
    ----------
    header
        Whether the names of the columns are printed.
    is_size
        Whether only the number of rows is printed.
    """

    relation: str
    separator: str = "\t"
    header: bool = False
    is_size: bool = False


def print_relation(printed: PrintedRelation, answer: Result, declaration: Declaration | None) -> None:
    r"""Print the rows of an answer between lines, sorted; or their number."""
    if printed.is_size:
        sys.stdout.write(f"{printed.relation}\t{len(answer)}\n")
        return
    lines = ["-" * 15, printed.relation]
    if printed.header:
        lines.append(printed.separator.join(() if _is_nullary(declaration) else answer.columns))
    lines.append("=" * 15)
    held = () if declaration is None else declaration.records
    rows = sorted(answer.rows(), key=lambda row: [(value is not None, value) for value in row])
    for row in rows:
        cells = [
            format_record(value) if i in held and value is not None else _souffle_cell(value)
            for i, value in enumerate(row)
        ]
        lines.append("()" if _is_nullary(declaration) else printed.separator.join(cells))
    lines.append("=" * 15)
    sys.stdout.write("\n".join(lines) + "\n")


def as_shown(table: pa.Table, declaration: Declaration | None) -> pa.Table:
    """Return a table for a file of text, with records as Soufflé prints them."""
    if declaration is None:
        return table
    if _is_nullary(declaration):
        return pa.table({declaration.columns[0]: pa.array(["()"] * table.num_rows, pa.string())})
    for i in declaration.records:
        texts = [None if text is None else format_record(text) for text in table.column(i).to_pylist()]
        table = table.set_column(i, table.column_names[i], pa.array(texts, pa.string()))
    return table


def _is_nullary(declaration: Declaration | None) -> bool:
    return declaration is not None and declaration.is_nullary


def _souffle_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return "" if value is None else format_float(value) if isinstance(value, float) else str(value)


class ChangeLines:
    """The changes of every tick as lines on standard output, with a weight and a tick.

    It has the interface of `gpu_wcoj.files.output.ChangeWriter`.

    Raises
    ------
    UsageError
        If the format has no lines, or one table cannot hold all answers.
    """

    def __init__(self, form: TableFormat, outputs: Sequence[str]) -> None:
        self._form: TableFormat = "csv" if form == "table" else form
        if self._form not in ("csv", "tsv", "json"):
            raise UsageError.conflict("--output -", f"--format {form}", "Take csv, tsv or json.")
        check_format(self._form, outputs)
        self._with_name = len(outputs) > 1
        self._tick = 0
        self._has_header = False

    @contextmanager
    def tick(self, tick_number: int) -> Generator[None]:
        """Write the block's changes as one tick, once the tick is committed."""
        self._tick, self._pieces = tick_number, list[tuple[str, Any]]()
        yield
        for name, piece in self._pieces:
            self._print(name, piece)
        sys.stdout.flush()

    def write(self, relation: str, piece: Any) -> None:
        """Add some of the changes of `relation`."""
        self._pieces.append((relation, piece))

    def _print(self, relation: str, piece: Any) -> None:
        table = piece.to_arrow()
        tick_name = "tick" if "tick" not in table.column_names else "_tick"
        if self._form == "json":
            names, label = table.column_names, {"relation": relation} if self._with_name else {}
            rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
            _write_json({**label, **dict(zip(names, row, strict=True)), tick_name: self._tick} for row in rows)
            return
        ticks = pa.repeat(pa.scalar(self._tick, pa.int64()), table.num_rows)
        _write_csv(table.append_column(tick_name, ticks), self._form, not self._has_header)
        self._has_header = True


def _write_csv(table: Any, form: TableFormat, header: bool) -> None:
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if pa.types.is_nested(kind):
            raise UsageError.unsupported(
                f"column '{name}' of type {kind} in --format {form}",
                remedy="Choose single columns, as --show a.id,t.amount; or take --format json.",
            )
    separator = "," if form == "csv" else "\t"
    text = BytesIO()
    write_text(text, OutputSpec("", Path(), separator, header), table)
    _binary_output().write(text.getbuffer())
    sys.stdout.buffer.flush()


def _write_json(rows: Iterable[dict[str, Any]]) -> None:
    for row in rows:
        sys.stdout.write(json.dumps({name: _plain(value) for name, value in row.items()}, ensure_ascii=False) + "\n")


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: the text of others."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else str(value)


def _write_markdown(columns: Sequence[str], rows: Iterable[Row]) -> None:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |\n"

    sys.stdout.write(line(columns) + line("---" for _ in columns))
    for row in rows:
        sys.stdout.write(line("" if value is None else str(value) for value in row))


def _binary_output() -> IO[bytes]:
    sys.stdout.flush()
    return sys.stdout.buffer
