"""The program of a command line: a file or a text in one of the languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpu_wcoj.errors import UnknownRelationError, UnsupportedError, UsageError
from gpu_wcoj.files.format import open_bytes
from gpu_wcoj.files.reader import columns_of
from gpu_wcoj.files.spec import InputSpec
from gpu_wcoj.motifs import MotifOptions, MotifProgram
from gpu_wcoj.program import Program
from gpu_wcoj.query.ir import Atom, Constant
from gpu_wcoj.query.languages import BAGS, BY_NAME, Language, language_of_file
from gpu_wcoj.query.rules import Rule, Rules
from gpu_wcoj.query.translation import Reading, read


@dataclass(frozen=True)
class ProgramSource:
    """A program named on a command line.

    Attributes
    ----------
    path, text
        The file with its text, or the text itself.
    language
        None for the language of the file's suffix.
    dialect
        The dialect of SQL.
    loaded, fed
        The files of its relations and of their changes; they give column names if the language needs them.
    motif
        Options for the matches of a motif.
    budget
        Maximum bytes of rows in memory at one time.
    """

    path: Path | None
    text: str | None
    language: Language | None
    dialect: str
    loaded: tuple[InputSpec, ...]
    fed: tuple[InputSpec, ...]
    budget: int
    motif: MotifOptions

    def program(self, *, bag: bool, **options: Any) -> Program | MotifProgram:
        """Return the program; `gpu_wcoj.commands.files.check_files` checks its files.

        Raises
        ------
        UsageError
            If there is no text, or two of them, or it is not UTF-8.
        GpuWcojError
            And whatever its parser raises.
        """
        text, language = self._text(), self.language
        if language is None:
            language = "datalog" if self.path is None else language_of_file(self.path)
        source = "<text>" if self.path is None else str(self.path)
        if language == "motif":
            ends = ((self.motif.src, None), (self.motif.dst, None))
            graph = self._tables({"edges": ends, "vertices": ((self.motif.id, None),)})
            return MotifProgram(text, graph, self.motif, source, **options)
        if self.motif != MotifOptions():
            raise UsageError.with_parts(
                f"--where, --semantics, --show, --id, --src and --dst are for motifs: got a program in {language}",
                got=language,
                remedy="Leave them out, or pass --language motif.",
            )
        if self.dialect != "duckdb" and language != "sql":
            raise UsageError.with_parts(
                f"--dialect {self.dialect} is for SQL: got a program in {language}",
                subject="--dialect",
                got=language,
                remedy="Leave it out, or pass --language sql.",
            )
        tables = self._tables() if language in BY_NAME else None
        try:
            reading = read(text, language, tables=tables, dialect=self.dialect, source=source)
        except UnknownRelationError as error:
            if not tables:
                error.args = (
                    f"{error}\n  Give the file of the relation: --input RELATION=PATH or --changes RELATION=PATH.",
                )
            raise
        rules = _with_facts(reading)
        return Program(rules, bag=bag or language in BAGS, inputs=rules.inputs, **options)

    def _text(self) -> str:
        if self.path is None and self.text is not None:
            return self.text
        if self.path is None or self.text is not None:
            raise UsageError.with_parts(
                "a program is either a file or a text after -e", remedy="Give exactly one of the two."
            )
        with open_bytes(self.path) as file:
            try:
                return file.read().decode()
            except UnicodeDecodeError:
                raise UsageError.with_parts(
                    f"the program '{self.path}' is not UTF-8 text",
                    subject=str(self.path),
                    remedy="Convert it to UTF-8.",
                ) from None

    def _tables(
        self, expected: Mapping[str, tuple[tuple[str, str | None], ...]] = MappingProxyType({})
    ) -> dict[str, dict[str, str | None]]:
        """Return the columns of the files; `expected` columns help to recognise a header line."""
        tables: dict[str, dict[str, str | None]] = {}
        for changes, specs in ((False, self.loaded), (True, self.fed)):
            for declared_spec in specs:
                spec = replace(declared_spec, expected=expected.get(declared_spec.relation, ()))
                columns = tables.get(spec.relation)
                if columns is None:
                    tables[spec.relation] = columns_of(spec, changes, self.budget)
                elif None in columns.values() and not spec.path.is_fifo():  # of no rows: the changes may tell the types
                    changed_columns = columns_of(spec, changes, self.budget)
                    if len(changed_columns) == len(columns):
                        tables[spec.relation] = dict(zip(columns, changed_columns.values(), strict=True))
        return tables


def _with_facts(reading: Reading) -> Rules:
    """Return the rules together with the facts of the text."""
    facts = []
    for name, rows in reading.facts.items():
        for row in rows:
            values = [value for value in row if value is None or isinstance(value, (bool, int, float, str, Decimal))]
            if len(values) < len(row):
                raise UnsupportedError.with_parts(
                    f"fact {row} cannot be represented in a file", got=row, remedy="Run this program from Python."
                )
            facts.append(Rule(Atom(name, tuple(map(Constant, values))), ()))
    return replace(reading.rules, rules=(*facts, *reading.rules.rules)) if facts else reading.rules
