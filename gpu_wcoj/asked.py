"""The program of a command line: a file or a text, in one of the languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gpu_wcoj.errors import UnknownRelationError, UnsupportedError, UsageError
from gpu_wcoj.files.lines import open_bytes
from gpu_wcoj.files.reader import columns_of
from gpu_wcoj.files.spec import InputSpec
from gpu_wcoj.motifs import MotifOptions, MotifProgram
from gpu_wcoj.program import Program
from gpu_wcoj.query.languages import BAGS, BY_NAME, Language, language_of_file
from gpu_wcoj.query.rules import Rule, Rules
from gpu_wcoj.query.terms import Atom, Constant
from gpu_wcoj.query.translation import Reading, read


@dataclass(frozen=True)
class Asked:
    """A program that a command line names.

    Attributes
    ----------
    path, text
        The file with its text, or the text itself.
    language
        None for what the file's suffix says.
    dialect
        Of SQL.
    loaded, fed
        The files of its relations and of their changes: where the language goes by names, they tell the columns'.
    motif
        What is asked of the matches of a motif.
    budget
        How many bytes the rows read at one time may take.
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
        """The program; which of its relations have files, `gpu_wcoj.commands.files.check_files` checks.

        Raises
        ------
        UsageError
            If there is no text, or two of them, or it is no UTF-8.
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
            raise UsageError(
                "--where, --semantics, --show, --id, --src and --dst are for motifs, and this program is read as "
                f"{language}.\n  Leave them out, or say --language motif."
            )
        if self.dialect != "duckdb" and language != "sql":
            raise UsageError(
                f"--dialect {self.dialect} is for SQL, and this program is read as {language}.\n"
                "  Leave it out, or say --language sql."
            )
        tables = self._tables() if language in BY_NAME else None
        try:
            reading = read(text, language, tables=tables, dialect=self.dialect, source=source)
        except UnknownRelationError as error:
            if not tables:
                error.args = (
                    f"{error}\n  They are those of files: give --input RELATION=PATH or --changes RELATION=PATH.",
                )
            raise
        rules = _with_facts(reading)
        return Program(rules, bag=bag or language in BAGS, inputs=rules.inputs, **options)

    def _text(self) -> str:
        if self.path is None and self.text is not None:
            return self.text
        if self.path is None or self.text is not None:
            raise UsageError("a program is a file, or a text after -e.\n  Give one of the two.")
        with open_bytes(self.path) as file:
            try:
                return file.read().decode()
            except UnicodeDecodeError:
                raise UsageError(f"the program '{self.path}' is not UTF-8 text.\n  Convert it to UTF-8.") from None

    def _tables(
        self, expected: Mapping[str, tuple[tuple[str, str | None], ...]] = MappingProxyType({})
    ) -> dict[str, dict[str, str | None]]:
        """The columns of the files, which tell a line of names by those that are `expected` of a relation."""
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
    """The rules, and what the text gives as facts of them."""
    facts = []
    for name, rows in reading.given.items():
        for row in rows:
            values = [value for value in row if value is None or isinstance(value, (bool, int, float, str, Decimal))]
            if len(values) < len(row):
                raise UnsupportedError(f"the text gives the row {row}, which no file can say.\n  Ask from Python.")
            facts.append(Rule(Atom(name, tuple(map(Constant, values))), ()))
    return replace(reading.rules, rules=(*facts, *reading.rules.rules)) if facts else reading.rules
