"""The languages of queries: which one a text is in, and the rules that it becomes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Final, Literal, get_args

from gpu_wcoj.errors import UnsupportedError, UsageError, listed, nearest, pointed
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.rules import Rules

Language = Literal["datalog", "sql", "motif", "edn"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
SUFFIXES: Final[Mapping[str, Language]] = {".dl": "datalog", ".sql": "sql", ".motif": "motif", ".edn": "edn"}
"""Endings of files, and the language of their text."""
BY_NAME: Final[frozenset[Language]] = frozenset({"sql", "edn"})
"""The languages that need to know of relations before they are read."""
BAGS: Final[frozenset[Language]] = frozenset({"sql"})
"""The languages whose relations are bags, if nothing else is said."""

_BLANK = re.compile(r"(?:[\s\ufeff]+|/\*.*?\*/)*", re.DOTALL)
_SQL_WORD = re.compile(r"(?:select|with|create|from)(?!\w)", re.IGNORECASE)
_CALLED = re.compile(r"\s*\(")
_PARENTHESES = re.compile(r"[()]|\"[^\"\n]*\"|'[^'\n]*'")
_BEHIND = re.compile(r"\s*(?::-|\.)")
_VERTEX = re.compile(r"!?\s*\(\s*\w*\s*\)")
_SQL_IN_PARENTHESES = re.compile(r"(?:\(\s*)+(?:select|with|from)(?!\w)", re.IGNORECASE)


def known_language(name: str) -> Language:
    """The language of that name.

    Raises
    ------
    UsageError
        If there is none.
    """
    for language in LANGUAGES:
        if language == name:
            return language
    raise UsageError(
        f"language={name!r} is not known.\n  The languages are: {listed(LANGUAGES)}.{nearest(str(name), LANGUAGES)}"
    )


def language_of_file(path: PurePath) -> Language:
    """The language of a file, by its suffix; Datalog where that says nothing.

    Examples
    --------
    >>> language_of_file(PurePath("views/rings.SQL")), language_of_file(PurePath("rules.txt"))
    ('sql', 'datalog')
    """
    return SUFFIXES.get(path.suffix.lower(), "datalog")


def language_of(text: str) -> Language:
    """The language of a text, by what it begins with, space and comments ``/* */`` aside.

    ========================================================================  =======
    ``SELECT``, ``WITH``, ``CREATE``, ``FROM``, ``(SELECT``, ``--``           SQL
    ``(name)``, ``()``, ``!(name)``                                           motif
    ``{``, ``[``, ``;``                                                       EDN
    anything else                                                             Datalog
    ========================================================================  =======

    Raises
    ------
    UsageError
        If it may be in two languages: ``select(x)``, which may be a relation, or another ``(``.

    Examples
    --------
    >>> language_of("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).")
    'datalog'
    >>> language_of("select src from edges"), language_of("(a)-[e]->(b)"), language_of("[:find ?a :where [?a :b ?c]]")
    ('sql', 'motif', 'edn')
    """
    start = _BLANK.match(text)
    offset = 0 if start is None else start.end()
    if word := _SQL_WORD.match(text, offset):
        if not _may_be_atom(text, word.end()):
            return "sql"
        raise _ambiguous(text, offset, len(word[0]), "may be SQL, or a relation in Datalog", ("sql", "datalog"))
    if text.startswith("--", offset):
        return "sql"
    if text.startswith(("{", "[", ";"), offset):
        return "edn"
    if _VERTEX.match(text, offset):
        return "motif"
    if _SQL_IN_PARENTHESES.match(text, offset):
        return "sql"
    if text.startswith("(", offset):
        raise _ambiguous(text, offset, 1, "may begin a motif, or SQL in parentheses", ("motif", "sql"))
    return "datalog"


def _may_be_atom(text: str, at: int) -> bool:
    """Whether parentheses follow, and behind them what follows an atom: ``:-`` or a full stop."""
    if _CALLED.match(text, at) is None:
        return False
    depth = 0
    for part in _PARENTHESES.finditer(text, at):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth == 0:
            return _BEHIND.match(text, part.end()) is not None
    return False


@dataclass(frozen=True)
class Reading:
    """What a text says.

    Attributes
    ----------
    rules
        The program.
    given
        Rows of relations that the text or its arguments give; they come with the first tick.
    """

    rules: Rules
    given: Mapping[str, Sequence[tuple[object, ...]]] = field(default_factory=dict)


def read(
    text: str,
    language: Language,
    *,
    tables: Mapping[str, Mapping[str, str | None]] | None = None,
    dialect: str = "duckdb",
    arguments: Sequence[Any] = (),
    source: str = "<text>",
) -> Reading:
    """What a text of that language says.

    Parameters
    ----------
    tables
        For SQL and EDN, the relations' columns with their types, None where not known.
    dialect
        Of SQL.
    arguments
        Of a query in EDN.
    source
        What messages call the text.

    Raises
    ------
    QuerySyntaxError, UnsupportedError, SchemaError
        If it cannot be read, or asks for what is not there; and as the parser of the language.
    """
    if arguments and language != "edn":
        raise UsageError("arguments are for queries in EDN.\n  Leave them out.")
    if language == "datalog":
        return Reading(parse(text, source=source))
    if language == "sql":
        from gpu_wcoj.query import sql
        from gpu_wcoj.query.narrowed import narrowed

        return Reading(narrowed(sql.parse(text, tables or {}, dialect=dialect, source=source)))
    if language == "edn":
        from gpu_wcoj.query import edn

        relations = {
            name: edn.Relation(name, tuple(columns), tuple(columns.values()))
            for name, columns in (tables or {}).items()
        }
        query = edn.parse(text, relations, arguments=arguments, source=source)
        if query.shape in ("tuple", "scalar"):
            raise UnsupportedError(
                f"':find' asks for a {query.shape}, which is one row of all that there are.\n"
                "  Ask for all of them: leave out the '.', or the brackets; or ask a gpu_wcoj.datoms.Database."
            )
        return Reading(replace(query.rules, outputs=(query.output,)), query.given)
    raise UsageError(f"a text with language={language!r} is no program.\n  Ask it by gpu_wcoj.find or gpu_wcoj.view.")


def _ambiguous(text: str, at: int, width: int, what: str, languages: Sequence[Language]) -> UsageError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    message = pointed(f"'{text[at : at + width]}' {what}", text, line, column, width)
    return UsageError(f"{message}\n  Say which: {' or '.join(f'language={language!r}' for language in languages)}.")
