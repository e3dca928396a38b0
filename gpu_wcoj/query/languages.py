"""Query languages, and detection of the language of a text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Final, Literal, get_args

from gpu_wcoj.errors import UsageError, pointed

Language = Literal["datalog", "sql", "motif", "edn"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)
SUFFIXES: Final[Mapping[str, Language]] = {".dl": "datalog", ".sql": "sql", ".motif": "motif", ".edn": "edn"}
"""Endings of files, and the language of their text."""
BY_NAME: Final[frozenset[Language]] = frozenset({"sql", "edn"})
"""Languages whose texts are read with the columns of the relations, and so are named by the user."""
BAGS: Final[frozenset[Language]] = frozenset({"sql"})
"""Languages whose relations are bags by default."""

_BLANK = re.compile(r"(?:[\s\ufeff]+|/\*.*?\*/)*", re.DOTALL)
_SQL_WORD = re.compile(r"(?:select|with|create|from)(?!\w)", re.IGNORECASE)
_STATEMENT = re.compile(
    r"(?:pivot|pivot_wider|pivot_longer|unpivot|values|table|describe|desc|summarize|show|explain|insert|update|delete|"
    r"merge|drop|alter|truncate|attach|detach|copy|export|import|use|set|reset|pragma|call|prepare|execute|deallocate|"
    r"install|load|begin|start|commit|rollback|abort|end|analyze|vacuum|checkpoint|comment|grant|revoke|refresh)(?!\w)",
    re.IGNORECASE,
)
"""First words of other statements of SQL; in Datalog they are names, which parentheses follow."""
_CALLED = re.compile(r"\s*\(")
_PARENTHESES = re.compile(r"[()]|\"[^\"\n]*\"|'[^'\n]*'")
_BEHIND = re.compile(r"\s*(?::-|\.)")
_BEHIND_HEAD = re.compile(r"\s*(?::-|\.|,\s*[^\W\d][\w.]*\s*\()")
_VERTEX = re.compile(r"!?\s*\(\s*\w*\s*\)")
_SQL_IN_PARENTHESES = re.compile(r"(?:\(\s*)+(?:select|with|from|values|pivot|unpivot|table)(?!\w)", re.IGNORECASE)


def check_language(name: object) -> Language:
    """Return the language of that name.

    Raises
    ------
    UsageError
        If the name is unknown.
    """
    for language in LANGUAGES:
        if isinstance(name, str) and language == name:
            return language
    raise UsageError.unknown_name("language", str(name), LANGUAGES)


def language_of_file(path: PurePath) -> Language:
    """Return the language of a file by its suffix; Datalog for an unknown suffix.

    Examples
    --------
    >>> language_of_file(PurePath("views/rings.SQL")), language_of_file(PurePath("rules.txt"))
    ('sql', 'datalog')
    """
    return SUFFIXES.get(path.suffix.lower(), "datalog")


def language_of(text: str) -> Language:
    """Return the language of a text by its first token, after spaces and comments ``/* */``.

    ========================================================================  =======
    ``SELECT``, ``WITH``, ``CREATE``, ``FROM``, ``(SELECT``, ``--``           SQL
    another statement of SQL, as ``PIVOT t`` and ``VALUES (1)``               SQL
    ``(name)``, ``()``, ``!(name)``                                           motif
    ``{``, ``[``, ``;``                                                       EDN
    anything else                                                             Datalog
    ========================================================================  =======

    Raises
    ------
    UsageError
        If it is valid in two languages: ``select(x)``, which may be a relation, or another ``(``.

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
        if not _is_atom(text, word.end(), _BEHIND):
            return "sql"
        raise _ambiguous(text, offset, len(word[0]), "may be SQL, or a relation in Datalog", ("sql", "datalog"))
    if (word := _STATEMENT.match(text, offset)) and not _is_head(text, word.end()):
        return "sql"
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


def _is_head(text: str, offset: int) -> bool:
    """Return whether what follows makes a name a head in Datalog, or a part of its name."""
    return text.startswith(".", offset) or _is_atom(text, offset, _BEHIND_HEAD)


def _is_atom(text: str, offset: int, behind: re.Pattern[str]) -> bool:
    """Return whether parentheses follow, and after them what follows an atom."""
    if _CALLED.match(text, offset) is None:
        return False
    depth = 0
    for part in _PARENTHESES.finditer(text, offset):
        depth += {"(": 1, ")": -1}.get(part[0], 0)
        if depth == 0:
            return behind.match(text, part.end()) is not None
    return False


def _ambiguous(text: str, offset: int, width: int, what: str, languages: Sequence[Language]) -> UsageError:
    line, column = text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)
    message = pointed(f"'{text[offset : offset + width]}' {what}", text, line, column, width)
    return UsageError(f"{message}\n  Say which: {' or '.join(f'language={language!r}' for language in languages)}.")
