"""Detection of a file's format by its options, its first bytes and its name."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Final

from gpu_wcoj.errors import InputFileError, UsageError
from gpu_wcoj.files.format import GZIP_ERRORS, GZIP_MAGIC, damaged_gzip, open_bytes
from gpu_wcoj.files.spec import InputSpec

SEPARATORS: Final = {"csv": ",", "tsv": "\t", "text": " "}
"""The forms that are text, and what stands between fields there."""

_ENDINGS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".facts": "tsv",
}
_MAGIC: Final = {b"PAR1": "parquet", b"ARROW1": "arrow", b"\xff\xff\xff\xff": "arrow"}
_JSON: Final = (".json", ".jsonl", ".ndjson")


def form_of(spec: InputSpec) -> tuple[str, bool]:
    """Return the format of a file and a flag for gzip, by options, first bytes and name.

    Raises
    ------
    InputFileError
        If it cannot be read; if it has no bytes, and its form is none that files of no bytes can have.
    UsageError
        If it is JSON by its name; if it is a pipe, and not text.
    """
    if spec.path.is_fifo():  # its first bytes can be read once only
        if spec.format in ("parquet", "arrow"):
            raise UsageError(
                f"'{spec.path}' is a pipe, and '{spec.format}' is read from files only.\n"
                "  Name a file; or send text through the pipe."
            )
        return spec.format or "text", False
    with open_bytes(spec.path) as file:
        head = file.read(8)
        is_empty = not head
        is_gzip = head.startswith(GZIP_MAGIC)
        if is_gzip:
            file.seek(0)
            try:
                head = gzip.GzipFile(fileobj=file).read(8)
            except GZIP_ERRORS as error:
                raise damaged_gzip(spec.path, error) from None
    form = spec.format or next((form for magic, form in _MAGIC.items() if head.startswith(magic)), None)
    if form is None and spec.separator is None and _plain_name(spec.path).endswith(_JSON):
        raise UsageError(
            f"'{spec.path}' is JSON by its name, which is not read.\n"
            "  Parquet, Arrow IPC, CSV, TSV and whitespace text are: write the rows as one of these,"
            " or say format=... if it is one."
        )
    form = form or form_of_name(spec.path) or "text"
    if is_empty and (form not in SEPARATORS or spec.path.suffix == ".gz"):
        raise InputFileError(f"'{spec.path}' is empty.\n  A file of this kind has bytes also where it has no rows.")
    return form, is_gzip


def form_of_name(path: Path) -> str | None:
    """Return the format of a file name's ending; None for an unknown ending.

    Examples
    --------
    >>> form_of_name(Path("g.CSV.gz")), form_of_name(Path("g.parquet")), form_of_name(Path("/dev/stdin"))
    ('csv', 'parquet', None)
    """
    name = _plain_name(path)
    return next((form for ending, form in _ENDINGS.items() if name.endswith(ending)), None)


def is_facts(path: Path) -> bool:
    """Return True for the names of Soufflé's files: tab-separated, without a header line.

    Examples
    --------
    >>> is_facts(Path("edge.facts")), is_facts(Path("edge.facts.gz")), is_facts(Path("edge.csv"))
    (True, True, False)
    """
    return _plain_name(path).endswith(".facts")


def _plain_name(path: Path) -> str:
    return path.name.lower().removesuffix(".gz")
