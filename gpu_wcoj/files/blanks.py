"""Conversion of whitespace text, as of SNAP, into text that a CSV parser reads."""

from __future__ import annotations

from typing import Final

import numpy as np

_BLANK, _NEWLINE, _HASH = 32, 10, 35
_TO_BLANK: Final = bytes.maketrans(b"\t\r\v\f", b"    ")


def squeeze(data: bytes) -> bytes:
    r"""Reduce runs of blanks to one blank, and remove outer blanks and ``#`` lines.

    Lines of blanks alone become empty.

    Examples
    --------
    >>> squeeze(b"# SNAP\r\n 1\t 2 \r\n\n3 4\n")
    b'1 2\n\n3 4\n'
    """
    data = data.translate(_TO_BLANK)
    if b"  " in data or b" \n" in data or b"\n " in data or data.startswith(b" "):
        text = np.frombuffer(data, np.uint8)
        following = np.append(text[1:], np.uint8(_NEWLINE))
        text = text[(text != _BLANK) | ((following != _BLANK) & (following != _NEWLINE))]
        before = np.concatenate([np.array([_NEWLINE], np.uint8), text[:-1]])
        data = text[(text != _BLANK) | (before != _NEWLINE)].tobytes()
    if data.startswith(b"#") or b"\n#" in data:
        text = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(text == _NEWLINE) + 1
        starts = np.concatenate([[0], ends[:-1]])
        is_kept = np.repeat(text[starts] != _HASH, ends - starts)
        data = text[is_kept].tobytes()
    return data


def is_row(line: bytes) -> bool:
    r"""Return True if a line of whitespace text is a row: neither blank nor a comment.

    Examples
    --------
    >>> is_row(b"1 2"), is_row(b" # from to"), is_row(b"\t")
    (True, False, False)
    """
    line = line.strip()
    return bool(line) and not line.startswith(b"#")
