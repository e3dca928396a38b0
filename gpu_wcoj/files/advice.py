"""Remedies for text files that differ from what was expected.

They name options of the command line, or of ``.input``.
"""

from __future__ import annotations

from gpu_wcoj.files.forms import form_of_name
from gpu_wcoj.files.spec import InputSpec


def unfit(spec: InputSpec, column: int | None) -> str:
    """Return the reason for a column's type and the remedy for a value that does not have it.

    Parameters
    ----------
    column
        Which of the relation's columns it is; None for weights and ticks.
    """
    declared = _kind_of(tuple(kind for _, kind in spec.declared or spec.expected), column)
    if declared is not None:
        why = f", and column {column} is declared as '{declared}'"
        return f"{why}.\n  Mend the line, or declare another type{header_hint(spec)}."
    if _kind_of(spec.types, column) is not None:
        return f", as 'types' says of the column.\n  Mend the line, or give another type{header_hint(spec)}."
    why = ", as the column's values before it are.\n  Mend the line; or "
    if spec.declared is not None:
        return f"{why}declare the column as float or symbol if it is not integers."
    return f"{why}say columns=... with types=float64,... or types=string,... if the column is not integers."


def mixed(spec: InputSpec) -> str:
    """Return the remedy for a column of numbers and texts."""
    if spec.declared is not None:
        return f"Mend the line{header_hint(spec)}; or declare the column as symbol if it is text."
    return (
        "Mend the line; or say header=yes or skip=N if the first line is not a row, "
        "or columns=... with types=string,... if the column is text."
    )


def ragged(spec: InputSpec) -> str:
    """Return the remedy for a line with more or fewer fields than the first."""
    options = "sep, header or skip" if spec.declared is None else "delimiter or headers of .input"
    return f"Every line has the same number of fields; mend the line, or set {options}."


def too_few(spec: InputSpec) -> str:
    """Return the remedy for a file with too few columns."""
    if spec.declared is not None:
        now = {"\t": "tabs", " ": "blanks"}.get(spec.separator or "\t", f"'{spec.separator}'")
        return f'They are taken to be separated by {now}; if it is something else, say delimiter="," in .input'
    if spec.format is None and spec.separator is None and form_of_name(spec.path) is None:
        return (
            "Its name does not end as those of CSV or TSV, so it was read as fields between blanks: "
            f"if it is CSV, say '{spec}?format=csv'; else sep=semicolon, pipe, tab, ..."
        )
    return "If the fields are separated by something else, say so with sep=comma, tab, space, ..."


def changed(spec: InputSpec, is_guessed: bool) -> str:
    """Return the remedy for a number whose text says more than its value."""
    if not is_guessed:
        return "Mend the line, or give the column another type."
    if spec.declared is not None:
        return "Declare the column as symbol if it is text, or as number or float if the value is meant."
    return "Say columns=... with types=string,... if it is text, or types=int64,... or float64 if the value is meant."


def header(spec: InputSpec) -> str:
    """Return the remedy for a first line that may be names of columns or a row."""
    if spec.declared is not None:
        return "Say headers=true or headers=false in .input."
    return "Say header=yes or header=no."


def header_hint(spec: InputSpec) -> str:
    """Return the further remedy if the first line may have been read as a row."""
    if spec.header:
        return ""
    return f"; or say {'header=yes' if spec.declared is None else 'headers=true'} if the first line is names of columns"


def _kind_of(kinds: tuple[str | None, ...] | None, column: int | None) -> str | None:
    return None if kinds is None or column is None or column >= len(kinds) else kinds[column]
