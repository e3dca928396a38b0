"""Input and output files of ``.input`` and ``.output`` lines, for the command line.

The parameters are those of Soufflé.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final

from cyclopts import Parameter

from gpu_wcoj.arrow.types import table_without_rows
from gpu_wcoj.backend import BackendName
from gpu_wcoj.cli import FLAG
from gpu_wcoj.cli.answers import PrintedRelation
from gpu_wcoj.data.schema import DataType
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import GpuWcojError, SourceMap, UnknownRelationError, UnsupportedError, UsageError, counted
from gpu_wcoj.files.formats import open_bytes
from gpu_wcoj.files.output import OutputSpec, check_apart
from gpu_wcoj.files.reader import columns_of
from gpu_wcoj.files.spec import STANDARD_INPUT, InputSpec, files_of_text, parse_input, united
from gpu_wcoj.planner.ir import Strategy
from gpu_wcoj.program import ChangeCount, Program, TickReport, describe_option
from gpu_wcoj.query.check import check_required, unnamed_inputs
from gpu_wcoj.query.ir import Atom, Constant, Directive, Rule, Rules
from gpu_wcoj.query.languages import BAGS, BY_NAME, Language, language_of, language_of_file
from gpu_wcoj.query.motif.compile import Semantics
from gpu_wcoj.query.motif.parse import parse
from gpu_wcoj.query.translation import Reading, read
from gpu_wcoj.views.matcher import Matcher, MotifOptions

STANDARD: Final = Path(STANDARD_INPUT)
"""The program that is read from standard input."""

_PARAMETERS: Final = {
    "input": ("IO", "filename", "columns", "delimiter", "headers", "rfc4180", "compress"),
    "output": ("IO", "filename", "delimiter", "headers", "rfc4180", "compress"),
}
"""Parameters of the lines of files."""
_IO: Final = {"input": ("file", "stdin"), "output": ("file", "stdout", "stdoutprintsize")}
"""Values of the parameter IO."""
_BINARY = (".parquet", ".pq", ".arrow", ".arrows", ".ipc", ".feather")
_STANDARD = {"input": "/dev/stdin", "output": "/dev/stdout"}
_TRUTH = {"true": True, "false": False}


def inputs_of(
    rules: Rules, folder: Path, named_relations: Collection[str], reads_all: bool = False
) -> tuple[InputSpec, ...]:
    r"""Return the files of ``.input`` lines, for relations the command line does not name.

    Lines without parameters are ignored if the command line names any file; else ``r`` is read from ``r.facts``,
    with fields separated by tabs.

    Parameters
    ----------
    folder
        The base of relative file names: the folder of the program.
    named_relations
        The relations that the command line names.
    reads_all
        True if lines without parameters name files in any case.

    Raises
    ------
    UsageError
        If a parameter is unknown, or has a value that is not allowed.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> rules = parse('.input e(filename="e.csv", delimiter=",")\n.input s\nh(x) :- e(x), s(x).')
    >>> [(str(spec), spec.separator) for spec in inputs_of(rules, Path("here"), [])]
    [('e=here/e.csv', ','), ('s=here/s.facts', '\t')]
    >>> [str(spec) for spec in inputs_of(rules, Path("here"), ["s"])]
    ['e=here/e.csv']
    """
    lines = [
        directive
        for directive in rules.directives
        if directive.kind == "input" and directive.relation not in named_relations
    ]
    reads_all = reads_all or not named_relations
    return tuple(_input(rules, directive, folder) for directive in lines if directive.parameters or reads_all)


def outputs_of(rules: Rules, folder: Path, has_named_files: bool) -> tuple[OutputSpec, ...]:
    r"""Return the files of ``.output`` lines.

    Parameters
    ----------
    has_named_files
        True if the command line names files: then lines without parameters write none; else ``r`` is written to
        ``r.csv``, with fields separated by tabs.

    Raises
    ------
    UsageError
        As `inputs_of`; and if two relations have the same file.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> outputs_of(parse("h(x) :- e(x).\n.output h"), Path("here"), False)
    (OutputSpec(relation='h', path=PosixPath('here/h.csv'), separator='\t', header=False),)
    """
    lines = [line for line in _output_lines(rules) if _io(line) == "file"]
    specs = tuple(_output(directive, folder) for directive in lines if directive.parameters or not has_named_files)
    check_apart(specs)
    return specs


def printed_of(rules: Rules, prints_all: bool) -> tuple[PrintedRelation, ...]:
    """Return the relations that are printed as Soufflé prints them, or their sizes.

    Parameters
    ----------
    prints_all
        True if all ``.output`` lines go to standard output, with the names of the columns.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> h, g = printed_of(parse("h(x) :- e(x). g(x) :- e(x). .output h .printsize g"), True)
    >>> h.relation, h.header, g.relation, g.is_size
    ('h', True, 'g', True)
    """
    printed = []
    for line in _output_lines(rules):
        kind = "stdout" if prints_all and _io(line) == "file" else _io(line)
        if kind != "file":
            header = prints_all or _truth(line, "headers")
            is_size = kind == "stdoutprintsize"
            printed.append(PrintedRelation(line.relation, _separator(line), header and not is_size, is_size))
    sizes = [directive.relation for directive in rules.directives if directive.kind == "printsize"]
    return (*printed, *(PrintedRelation(relation, is_size=True) for relation in sizes))


def counts_of(rules: Rules) -> dict[str, int]:
    """Return the numbers of rows that ``.test`` lines expect.

    Examples
    --------
    >>> from gpu_wcoj.query.datalog import parse
    >>> counts_of(parse("h(x) :- e(x). .test h 3"))
    {'h': 3}
    """
    lines = (directive for directive in rules.directives if directive.kind == "test")
    return {directive.relation: int(dict(directive.parameters)["count"]) for directive in lines}


def _output_lines(rules: Rules) -> list[Directive]:
    """Return the ``.output`` lines, those that a program without any implies included."""
    kinds: dict[str, set[str]] = {}
    for directive in rules.directives:
        kinds.setdefault(directive.relation, set()).add(directive.kind)
    written = {directive.relation: directive for directive in rules.directives if directive.kind == "output"}
    return [
        written.get(name, Directive("output", name))
        for name in rules.outputs
        if "output" in kinds.get(name, ()) or not kinds.get(name, set()) - {"input", "limitsize"}
    ]


def _io(directive: Directive) -> str:
    """Return the parameter IO."""
    value = dict(directive.parameters).get("IO", "file")
    if value not in _IO[directive.kind]:
        allowed = " or ".join(f"'{kind}'" for kind in _IO[directive.kind])
        remedy = f'For the standard stream write filename="{_STANDARD[directive.kind]}".'
        raise UsageError.with_parts(
            f"'{directive}': IO='{value}' is not allowed", subject="IO", got=value, expected=allowed, remedy=remedy
        )
    return value


def _input(rules: Rules, directive: Directive, folder: Path) -> InputSpec:
    path = _path(directive, folder, f"{directive.relation}.facts")
    if _truth(directive, "compress") and not path.exists() and path.suffix != ".gz":
        path = path.with_name(f"{path.name}.gz")
    if path.name.removesuffix(".gz").endswith(_BINARY):
        _refuse_text_options(directive)
        return InputSpec(directive.relation, path)
    declared = next(
        (declaration for declaration in rules.declarations if declaration.relation == directive.relation), None
    )
    types = () if declared is None else tuple(map(_text_type, declared.types))
    columns = _columns(directive, len(types) if declared is not None else None)
    return InputSpec(
        directive.relation,
        path,
        format="text",
        columns=columns or (tuple(range(len(types))) if any(types) else None),
        separator=_separator(directive),
        header=_truth(directive, "headers") if "headers" in dict(directive.parameters) else None,
        types=types if any(types) else None,
        declared=() if declared is None else tuple(zip(declared.columns, declared.types, strict=True)),
    )


def _columns(directive: Directive, n_declared: int | None) -> tuple[int, ...] | None:
    """Return the columns of a file that ``columns="4:7"`` chooses; None without it."""
    value = dict(directive.parameters).get("columns")
    if value is None:
        return None
    positions = value.split(":")
    if not all(position.isascii() and position.isdecimal() for position in positions):
        raise UsageError.with_parts(
            f"'{directive}': columns cannot be '{value}'",
            subject="columns",
            got=value,
            remedy='Give the positions of columns from 0 on, as in columns="0:2".',
        )
    if n_declared is not None and len(positions) != n_declared:
        raise UsageError.with_parts(
            f"'{directive}': columns has {counted(len(positions), 'position')}: expected {n_declared}, as declared",
            subject="columns",
            got=value,
            remedy="Give a position for each column of the relation.",
        )
    return tuple(map(int, positions))


def _text_type(kind: str | None) -> str | None:
    """Return the type in which a declared column of a text file is read, before conversion."""
    if kind is None:
        return None
    return {"integer": "int64", "float32": "float64", "float64": "float64"}.get(DataType(kind).family, "string")


def _output(directive: Directive, folder: Path) -> OutputSpec:
    ending = ".csv.gz" if _truth(directive, "compress") else ".csv"
    path = _path(directive, folder, f"{directive.relation}{ending}")
    if _truth(directive, "compress") and path.suffix != ".gz":
        path = path.with_name(f"{path.name}.gz")
    if path.name.endswith(_BINARY) and not path.name.endswith(".parquet"):
        raise UsageError.unsupported(
            f"'{directive}': output '{path.name}'", remedy="Name a file that ends in .parquet, .csv or .tsv."
        )
    if path.name.endswith(".parquet"):
        _refuse_text_options(directive)
        return OutputSpec(directive.relation, path)
    return OutputSpec(directive.relation, path, _separator(directive), _truth(directive, "headers"))


def _path(directive: Directive, folder: Path, default: str) -> Path:
    if _io(directive) == "stdin":
        default = _STANDARD["input"]
    for name, value in directive.parameters:
        if name not in (allowed := _PARAMETERS[directive.kind]):
            raise UsageError.unknown_name(f"parameter in '{directive}':", name, allowed)
        if name == "filename" and not value:
            raise UsageError.with_parts(
                f"'{directive}': filename is empty", subject="filename", got=value, remedy="Name a file."
            )
        if name == "filename" and value == "-":
            raise UsageError.with_parts(
                f"'{directive}': filename cannot be '-'",
                subject="filename",
                got=value,
                remedy=f'Give "{_STANDARD[directive.kind]}" for the standard stream, or "./-" for a file of that name.',
            )
    return folder / Path(dict(directive.parameters).get("filename", default)).expanduser()


def _separator(directive: Directive) -> str:
    delimiter = dict(directive.parameters).get("delimiter")
    if delimiter is None:
        return "," if _truth(directive, "rfc4180") else "\t"
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '\r\n"\0':
        raise UsageError.with_parts(
            f"'{directive}': delimiter cannot be '{delimiter}'",
            subject="delimiter",
            got=delimiter,
            remedy="Give one ASCII character other than a quote or a line end.",
        )
    return delimiter


def _truth(directive: Directive, name: str) -> bool:
    value = dict(directive.parameters).get(name, "false")
    if value not in _TRUTH:
        raise UsageError.with_parts(
            f"'{directive}': {name} cannot be '{value}'", subject=name, got=value, remedy="Give true or false."
        )
    return _TRUTH[value]


def _refuse_text_options(directive: Directive) -> None:
    for name, _ in directive.parameters:
        if name in ("columns", "delimiter", "headers", "rfc4180"):
            raise UsageError.with_parts(
                f"'{directive}': '{name}' is for text files only", subject=name, remedy="Leave it out."
            )


# The files that a command names, with the names and types of its program.


def parse_files(files: Sequence[str] | None) -> tuple[InputSpec, ...]:
    """Parse the files of an option: ``RELATION=PATH?option=value``."""
    return united(map(parse_input, files or ()))


def check_tick_rows(tick_rows: int | None, changes: Sequence[object]) -> None:
    """Raise for ticks without rows, and if there are no changes to divide."""
    if tick_rows is not None and tick_rows < 1:
        raise UsageError.invalid_value("--tick-rows", tick_rows, "an integer from 1 on")
    if tick_rows is not None and not changes:
        raise UsageError(
            "--tick-rows cuts the rows of --changes into ticks, and there are none; --input is one tick.\n"
            "  Give --changes RELATION=PATH, or leave out --tick-rows."
        )


def files_of_program(
    engine: Program | MotifProgram, folder: Path, named_relations: Collection[str], reads_all: bool = False
) -> tuple[tuple[InputSpec, ...], dict[str, tuple[str | None, ...]]]:
    """Return the files that a program names, and their declared types; see `inputs_of`."""
    specs = inputs_of(engine.rules, folder, named_relations, reads_all)
    named = tuple(spec for spec in specs if not _is_empty(spec.path))
    declared = {declaration.relation: declaration.types for declaration in engine.rules.declarations}
    return named, {spec.relation: declared[spec.relation] for spec in named if spec.relation in declared}


def check_files(program: Program | MotifProgram, loaded: Sequence[InputSpec], fed: Sequence[InputSpec]) -> None:
    """Raise for files of unknown relations, and for files that an option does not accept."""
    _check_relations(program, (*loaded, *fed))
    _check_pipes([*loaded, *fed])
    if ticked := [spec for spec in loaded if spec.tick is not None]:
        raise UsageError(
            f"'{ticked[0]}' has a tick column, but --input is one tick.\n  Use --changes, or leave it out."
        )


def expecting(program: Program | MotifProgram, specs: Sequence[InputSpec]) -> tuple[InputSpec, ...]:
    """Return the files with the program's column names and declared types."""
    columns: dict[str, tuple[tuple[str, str | None], ...]] = {}
    if isinstance(program, MotifProgram):
        columns = {name: tuple((column, None) for column in names) for name, names in program.input_columns.items()}
    else:
        for declaration in program.rules.declarations:
            types = declaration.types if declaration.is_binding else (None,) * len(declaration.columns)
            columns[declaration.relation] = tuple(zip(declaration.columns, types, strict=True))
    return tuple(replace(spec, expected=columns.get(spec.relation, ())) for spec in specs)


def check_sources(program: Program | MotifProgram, named_relations: Collection[str]) -> None:
    """Raise for a relation of a rule without a file, a declaration or an ``.input`` line."""
    remedy = "Give --input {0}=PATH or --changes {0}=PATH, or declare it with .decl if it has no rows."
    check_required(program.rules, unnamed_inputs(program.rules), named_relations, remedy)


def _is_empty(path: Path) -> bool:
    """Return True for a file of zero bytes: another program's output of an empty relation."""
    return path.is_file() and path.stat().st_size == 0


def _check_pipes(specs: Sequence[InputSpec]) -> None:
    """Raise for a pipe that is named twice: the second reader would find it empty."""
    pipes = [replace(spec, path=path) for spec in specs for path in (spec.path, *spec.more) if path.is_fifo()]
    for first, second in combinations(pipes, 2):
        if first.path.samefile(second.path):
            raise UsageError(
                f"'{first}' and '{second}' are the same pipe, which can be read once only.\n"
                "  Put the rows of one of them into a file."
            )


def _check_relations(program: Program | MotifProgram, specs: Sequence[InputSpec]) -> None:
    for spec in specs:
        if spec.relation not in program.inputs:
            raise UnknownRelationError(spec.relation, program.inputs, "relations that the program reads")


# Motifs for the command line: their options, and a matcher with a program's interface.


MATCHES = "matches"
"""The name of the answer."""
TABLES = ("edges", "vertices")


class MotifProgram(Matcher):
    """The matches of a motif, with the interface that `gpu_wcoj.cli.run` needs of a program.

    Parameters
    ----------
    text
        The motif.
    tables
        Per table, names and types of its columns, None for an unknown type: of ``edges`` and, if vertices have
        columns, of ``vertices``.
    motif_options
        Options for the matches.
    source
        The name of the text in messages.
    options
        Options of `gpu_wcoj.program.Program`.

    Raises
    ------
    UsageError
        If there are no edges, or other tables.
    GpuWcojError
        Also every error of `gpu_wcoj.find`.
    """

    bag = True

    def __init__(
        self,
        text: str,
        tables: Mapping[str, Mapping[str, str | None]],
        motif_options: MotifOptions,
        source: str,
        options: ProgramOptions,
    ) -> None:
        for name in tables:
            if name not in TABLES:
                raise UsageError.unknown_name("table of a motif", name, TABLES)
        if "edges" not in tables:
            raise UsageError.missing("a motif", "a table 'edges'", "Give --input edges=PATH or --changes edges=PATH.")
        empty = {name: table_without_rows(columns) for name, columns in tables.items()}
        self.inputs = tuple(tables)
        self.input_columns = {name: tuple(columns) for name, columns in tables.items()}
        options = replace(options, bag=False)  # matches have weights without it
        graph = empty.get("vertices"), empty["edges"]
        self._open(parse(text, source=source), graph, motif_options, options, is_kept=True)

    @property
    def last_tick(self) -> TickReport:
        """The report of the last tick."""
        return self.program.last_tick

    def arity(self, relation: str) -> int:
        """Return the number of columns of a table."""
        return len(self.input_columns[relation])

    @property
    def analyze(self) -> bool:
        """True if ticks are measured."""
        return self.program.analyze

    @analyze.setter
    def analyze(self, value: bool) -> None:
        self.program.analyze = value

    def step_counts(self, changes: Mapping[str, Any]) -> dict[str, ChangeCount]:
        """Run a tick and count the matches that were added and removed."""
        return {MATCHES: ChangeCount(None, None, self.apply_counted(changes))}

    def step_pieces(self, changes: Mapping[str, Any], sink: Callable[[str, Any], None]) -> dict[str, ChangeCount]:
        """Run a tick and pass the change of the matches to `sink`."""
        matches = self.step(changes)
        sink(MATCHES, matches)
        return {MATCHES: ChangeCount(None, None, matches.net)}


# The program of a command line: a file or a text in one of the languages.


@dataclass(frozen=True)
class ProgramSource:
    """A program named on a command line.

    Attributes
    ----------
    path, text
        The file with its text, or the text itself.
    language
        None for the language of the file's suffix; of a text, for that of its first word.
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

    def program(self, options: ProgramOptions) -> Program | MotifProgram:
        """Return the program; `check_files` checks its files.

        Raises
        ------
        UsageError
            If there is no text, or two of them, or it is not UTF-8.
        GpuWcojError
            And whatever its parser raises.
        """
        text, language = self._text, self._language
        source = "<text>" if self.path is None else "standard input" if self.path == STANDARD else str(self.path)
        if language == "datalog" and self.path is not None and self.path != STANDARD:
            text, source = with_includes(text, self.path)
        if language == "motif":
            ends = ((self.motif.src, None), (self.motif.dst, None))
            graph = self._tables({"edges": ends, "vertices": ((self.motif.id, None),)})
            return MotifProgram(text, graph, self.motif, source, options)
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
            if not tables and not error.is_alias:
                error.args = (
                    f"{error}\n  Give the file of the relation: --input RELATION=PATH or --changes RELATION=PATH.",
                )
            raise
        rules = _with_facts(reading)
        bag = options.bag or language in BAGS
        return Program.from_options(rules, replace(options, bag=bag, inputs=rules.inputs))

    def with_files_of_text(self) -> ProgramSource:
        """Return the program with the files that SQL names in ``FROM`` as relations."""
        if self._language != "sql":
            return self
        source = self
        while True:
            try:
                _ = read(source._text, "sql", tables=source._tables(), dialect=source.dialect)
            except UnknownRelationError as error:
                if not error.is_alias and (spec := files_of_text(error.relation)) is not None:
                    source = replace(source, loaded=(*source.loaded, spec))
                    continue
            except GpuWcojError:
                pass  # `program` raises it with all that it knows
            return source

    @cached_property
    def _language(self) -> Language:
        if self.language is not None:
            return self.language
        if self.path is not None and self.path != STANDARD:
            return language_of_file(self.path)
        try:
            return language_of(self._text)
        except UsageError as error:
            error.args = (str(error).replace("language=", "--language "),)
            raise

    @cached_property
    def _text(self) -> str:
        if self.path is None and self.text is not None:
            return self.text
        if self.path is None or self.text is not None:
            raise UsageError.with_parts(
                "a program is either a file or a text after -e",
                remedy="Give exactly one of the two."
                if self.path is None or "=" not in str(self.path)
                else f"Name files of relations by --input {self.path}.",
            )
        if self.path == STANDARD:
            for spec in (*self.loaded, *self.fed):
                if str(spec.path) == STANDARD_INPUT:
                    raise UsageError.conflict(
                        "a program from standard input", f"'{spec}'", "Put one of them into a file, or pass -e TEXT."
                    )
        with nullcontext(sys.stdin.buffer) if self.path == STANDARD else open_bytes(self.path) as file:
            return _decoded(file.read(), self.path)

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


# Files that a program includes.


_INCLUDE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\.include[ \t]+"([^"\n]*)"', re.DOTALL)


def with_includes(text: str, path: Path) -> tuple[str, str]:
    """Return the text of a program and the files that it includes, and its source.

    A file is relative to the file that includes it, and is read once.

    Raises
    ------
    UsageError
        If files include each other in a circle, or one is not UTF-8.
    OSError
        If a file cannot be read.
    """
    joined = _Includes()
    joined.add(text, path, ())
    if len(joined.seen) == 1:
        return text, str(path)
    source = SourceMap(str(path))
    source.origins = tuple(joined.origins)
    return "".join(joined.pieces), source


class _Includes:
    """The pieces of a text with those of the files that it includes."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.origins: list[tuple[int, str, int]] = []
        self.seen: set[Path] = set()
        self.n_lines = 1

    def add(self, text: str, path: Path, around: tuple[Path, ...]) -> None:
        """Add the text of a file."""
        self.seen.add(path.resolve())
        begin, line = 0, 1
        self.origins.append((self.n_lines, str(path), 1))
        for found in _INCLUDE.finditer(text):
            if found[1] is None:
                continue
            piece = text[begin : found.start()] + "\n"
            self.put(piece)
            line += piece.count("\n") - 1
            begin = found.end()
            included = path.parent / Path(found[1]).expanduser()
            if included.resolve() in {one.resolve() for one in (*around, path)}:
                raise UsageError.with_parts(
                    f"'{included}' is included by itself, through {', '.join(map(str, (*around, path)))}",
                    subject=str(included),
                    remedy="Move what both files need into a third one.",
                )
            if included.resolve() not in self.seen:
                with open_bytes(included) as file:
                    self.add(_decoded(file.read(), included), included, (*around, path))
                self.put("\n")
            self.origins.append((self.n_lines, str(path), line))
        self.put(text[begin:])

    def put(self, piece: str) -> None:
        self.pieces.append(piece)
        self.n_lines += piece.count("\n")


def _decoded(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise UsageError.with_parts(
            f"the program '{path}' is not UTF-8 text", subject=str(path), remedy="Convert it to UTF-8."
        ) from None


# Options that several commands have in common.


def _option_help(name: str, more: str = "") -> Parameter:
    return Parameter(help=f"{describe_option(name)}{more}")


_TEXT: Final = Parameter(
    name=("-e", "-c"), help="The text of the program, instead of a file; several are one text.",
    allow_leading_hyphen=True, negative="",
)  # fmt: skip


@Parameter(name="*")
@dataclass(frozen=True)
class TextOptions:
    """The text of the program and its language."""

    text: Annotated[list[str] | None, _TEXT] = None
    language: Language | None = None
    """datalog, sql, motif or edn; by default by the suffix .dl .sql .motif .edn, or the first word of a text."""
    dialect: str = "duckdb"
    """The dialect of SQL: duckdb, postgres, spark, snowflake, bigquery, trino, ..."""


_FILES: Final = Parameter(negative="", allow_leading_hyphen=True)


@Parameter(name="*")
@dataclass(frozen=True)
class FileOptions:
    """The files of the relations."""

    input: Annotated[list[str] | None, _FILES] = None
    """A file that is loaded before all changes, as RELATION=PATH; several of a relation are one."""
    changes: Annotated[list[str] | None, _FILES] = None
    """A file whose rows follow in order, cut into ticks, as RELATION=PATH; several of a relation are one."""
    tick_rows: int | None = None
    """Rows of changes per tick, by default 1000; not for files with tick columns."""
    memory: str | None = None
    """Maximum memory of rows that are read at one time, such as 4GB; by default half of the machine's memory."""


@Parameter(name="*")
@dataclass(frozen=True)
class EngineOptions:
    """The options of `gpu_wcoj.engine.options.ProgramOptions` that a command line can set."""

    backend: Annotated[BackendName, _option_help("backend")] = "auto"
    gpu_memory: Annotated[str | None, _option_help("gpu_memory")] = None
    route: Annotated[str, _option_help("route")] = "auto"
    threads: Annotated[int | None, _option_help("threads")] = None
    strategy: Annotated[Strategy, _option_help("strategy")] = "auto"
    bag: Annotated[bool, FLAG, _option_help("bag", " SQL and motifs always have them.")] = False

    def to_program_options(self) -> ProgramOptions:
        """Return the options of the program; texts are read as numbers where an option is one."""
        values = {
            name: ProgramOptions.parse(name, getattr(self, name), f"--{name.replace('_', '-')}")
            for name in self.__dataclass_fields__
        }
        return ProgramOptions(**values)


@Parameter(name="*")
@dataclass(frozen=True)
class MatchOptions:
    """Options for the matches of a motif."""

    where: str | None = None
    """For a motif: a condition on columns, such as 't.amount > 900'."""
    semantics: Semantics = "homomorphism"
    """For a motif: the elements that are distinct within a match."""
    show: str | None = None
    """For a motif: columns of the matches, such as a.id,t.amount; by default all named elements."""
    id: str = "id"
    """For a motif: the vertices' key column."""
    src: str = "src"
    """For a motif: the edges' source column."""
    dst: str = "dst"
    """For a motif: the edges' target column."""

    def to_motif_options(self) -> MotifOptions:
        """Return the options of `gpu_wcoj.find`."""
        columns = None if self.show is None else [name.strip() for name in self.show.split(",")]
        return MotifOptions(self.where, self.semantics, columns, None, self.id, self.src, self.dst)
