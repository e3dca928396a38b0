"""What is fuzzed: for each language a function of a text, out of which only errors of this package may come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_wcoj.errors import GpuWcojError
from gpu_wcoj.query.core import core
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.languages import language_of
from gpu_wcoj.query.printed import as_datalog

ROOT = Path(__file__).parents[2]
CORPUS = Path(__file__).parent / "corpus"
"""Texts that broke a parser once, in a folder for each."""


@dataclass(frozen=True)
class Target:
    """A parser, and what its fuzzing starts from.

    Attributes
    ----------
    run
        Reads a text.
    tests
        Files of tests whose texts are the seeds, by their paths in the sources.
    words
        Pieces that texts are likely to be made of.
    """

    run: Callable[[str], None]
    tests: tuple[str, ...]
    words: tuple[str, ...]


def _datalog(text: str) -> None:
    rules = parse(text)
    assert parse(str(rules)) == rules
    assert parse(as_datalog(rules)) == rules
    core(rules)


def _language(text: str) -> None:
    assert language_of(text) in ("datalog", "sql", "motif", "edn")


TARGETS: Final[Mapping[str, Target]] = {
    "datalog": Target(
        _datalog,
        ("tests/query/test_datalog.py", "tests/recursion/programs.py", "tests/test_program_language.py"),
        (
            ":-", ".decl ", ".input ", ".output ", "count : { ", "sum ", "min(", "max(", "mean ", "not ", "!", "!=",
            "<=", "null", "x?", "true", "false", "cat(", "substr(", "strlen(", "/*", "*/", "//", "0.5m", "year(",
            "like(", "timestamp[us]", "decimal(9, 2)", ": int64", '"a"', "_", "h(x) :- r(x).", "\\u00e9",
        ),
    ),
    "language": Target(
        _language, ("tests/query/test_languages.py",), ("select", "with", "/*", "*/", "--", "(", "!(", "[:find")
    ),
}  # fmt: skip


def text_of(data: bytes) -> str:
    """Any bytes as a text: what is no UTF-8 becomes halves of surrogate pairs."""
    return data.decode("utf-8", "surrogateescape")


def read(name: str, text: str) -> None:
    """Give a text to a target; what is wrong with it may be said in errors of this package only."""
    try:
        TARGETS[name].run(text)
    except GpuWcojError as error:
        if not str(error).strip():
            raise AssertionError("an error without words") from error
