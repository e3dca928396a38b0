"""Upper and lower case of texts, character by character, as in DuckDB.

Python and Java map texts as a whole: 'ß' becomes 'SS', and the mapping of 'Σ' depends on its place in the word. Here
every character becomes one character, by Unicode's simple mapping, except that 'ß' becomes 'ẞ'.
"""

from __future__ import annotations

import functools

_UPPER = {"ß": "ẞ"}
_LOWER = {"İ": "i"}


def upcase(text: str) -> str:
    """Convert each character to upper case.

    Examples
    --------
    >>> upcase("straße"), upcase("ﬁx"), upcase("ᾳ")
    ('STRAẞE', 'ﬁX', 'ᾼ')
    """
    return text.upper() if text.isascii() else "".join(map(_upper, text))


def downcase(text: str) -> str:
    """Convert each character to lower case.

    Examples
    --------
    >>> downcase("ΑΣ"), downcase("İ")
    ('ασ', 'i')
    """
    return text.lower() if text.isascii() else "".join(map(_lower, text))


@functools.lru_cache(maxsize=4096)
def _upper(char: str) -> str:
    candidates = (_UPPER.get(char, ""), char.upper(), char.title())
    return next((candidate for candidate in candidates if len(candidate) == 1), char)


@functools.lru_cache(maxsize=4096)
def _lower(char: str) -> str:
    return _LOWER.get(char, char.lower())
