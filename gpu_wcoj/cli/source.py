"""Input and output files of ``.input`` and ``.output`` lines, for the command line.

The parameters are those of Soufflé.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpu_wcoj.data.schema import DataType
from gpu_wcoj.errors import UsageError
from gpu_wcoj.files.spec import InputSpec
from gpu_wcoj.files.whole import OutputSpec, check_apart
from gpu_wcoj.query.rules import Directive, Rules

_PARAMETERS = ("IO", "filename", "delimiter", "headers", "rfc4180")
_BINARY = (".parquet", ".pq", ".arrow", ".arrows", ".ipc", ".feather")
_STANDARD = {"input": "/dev/stdin", "output": "/dev/stdout"}
_TRUTH = {"true": True, "false": False}


def inputs_of(rules: Rules, folder: Path, named_relations: Collection[str]) -> tuple[InputSpec, ...]:
    r"""Return the files of ``.input`` lines, for relations the command line does not name.

    Lines without parameters are ignored if the command line names any file; else ``r`` is read from ``r.facts``,
    with fields separated by tabs.

    Parameters
    ----------
    folder
        The base of relative file names: the folder of the program.
    named_relations
        The relations that the command line names.

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
    return tuple(_input(rules, directive, folder) for directive in lines if directive.parameters or not named_relations)


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
    written = {directive.relation: directive for directive in rules.directives if directive.kind == "output"}
    lines = [written.get(name, Directive("output", name)) for name in rules.outputs]
    specs = tuple(_output(directive, folder) for directive in lines if directive.parameters or not has_named_files)
    check_apart(specs)
    return specs


def _input(rules: Rules, directive: Directive, folder: Path) -> InputSpec:
    path = _path(directive, folder, f"{directive.relation}.facts")
    if path.name.removesuffix(".gz").endswith(_BINARY):
        _refuse_text_options(directive)
        return InputSpec(directive.relation, path)
    declared = next(
        (declaration for declaration in rules.declarations if declaration.relation == directive.relation), None
    )
    types = () if declared is None else tuple(map(_text_type, declared.types))
    return InputSpec(
        directive.relation,
        path,
        format="text",
        columns=tuple(range(len(types))) if any(types) else None,
        separator=_separator(directive),
        header=_truth(directive, "headers") if "headers" in dict(directive.parameters) else None,
        types=types if any(types) else None,
        declared=() if declared is None else tuple(zip(declared.columns, declared.types, strict=True)),
    )


def _text_type(kind: str | None) -> str | None:
    """Return the type in which a declared column of a text file is read, before conversion."""
    if kind is None:
        return None
    return {"integer": "int64", "float32": "float64", "float64": "float64"}.get(DataType(kind).family, "string")


def _output(directive: Directive, folder: Path) -> OutputSpec:
    path = _path(directive, folder, f"{directive.relation}.csv")
    if path.name.endswith(_BINARY) and not path.name.endswith(".parquet"):
        raise UsageError.unsupported(
            f"'{directive}': output '{path.name}'", remedy="Name a file that ends in .parquet, .csv or .tsv."
        )
    if path.name.endswith(".parquet"):
        _refuse_text_options(directive)
        return OutputSpec(directive.relation, path)
    return OutputSpec(directive.relation, path, _separator(directive), _truth(directive, "headers"))


def _path(directive: Directive, folder: Path, default: str) -> Path:
    for name, value in directive.parameters:
        if name not in _PARAMETERS:
            raise UsageError.unknown_name(f"parameter in '{directive}':", name, _PARAMETERS)
        if name == "IO" and value != "file":
            raise UsageError.with_parts(
                f"'{directive}': IO='{value}' is not allowed",
                subject="IO",
                got=value,
                expected="'file'",
                remedy=f'For the standard stream write filename="{_STANDARD[directive.kind]}".',
            )
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
        if name in ("delimiter", "headers", "rfc4180"):
            raise UsageError.with_parts(
                f"'{directive}': '{name}' is for text files only", subject=name, remedy="Leave it out."
            )
