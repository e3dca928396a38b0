"""SQL's LIKE: ``%`` matches any characters, ``_`` matches one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache


def like(text: str, pattern: str, escape: str | None = None) -> bool | None:
    r"""Return whether a whole text matches a pattern. Linear in the text times the pattern.

    Parameters
    ----------
    escape
        The character that makes the next one literal.

    Returns
    -------
    bool or None
        None if the escape is not one character, or ends the pattern.

    Examples
    --------
    >>> like("forest green", "%green%"), like("a%b", "a!%_", "!"), like("ab", "_")
    (True, True, False)
    """
    pieces = _pieces(pattern, escape)
    if pieces is None:
        return None
    (first, n_first), *middle = pieces
    if not middle:
        return len(text) == n_first and first.match(text) is not None
    last_piece, n_last = middle.pop()
    offset, end = n_first, len(text) - n_last
    if end < offset or first.match(text) is None or last_piece.match(text, end) is None:
        return False
    for piece, _ in middle:
        match = piece.search(text, offset, end)
        if match is None:
            return False
        offset = match.end()
    return True


@lru_cache(maxsize=1024)
def _pieces(pattern: str, escape: str | None) -> Sequence[tuple[re.Pattern[str], int]] | None:
    """Return the parts between ``%`` signs, each of a fixed length."""
    if escape is not None and len(escape) != 1:
        return None
    pieces: list[list[str]] = [[]]
    characters = iter(pattern)
    for char in characters:
        if char == escape:
            following = next(characters, None)
            if following is None:
                return None
            pieces[-1].append(re.escape(following))
        elif char == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if char == "_" else re.escape(char))
    return [(re.compile("".join(piece), re.DOTALL), len(piece)) for piece in pieces]
