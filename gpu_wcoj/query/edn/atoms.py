"""EDN tokens: numbers, names, characters, strings and tagged values."""

from __future__ import annotations

import math
import re
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from gpu_wcoj.query.edn.forms import Kind

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)(N?)")
_FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_MAX_DIGITS = 30
"""The longest integer literal that is converted, in digits; longer ones are outside int64 anyway."""
_PART = r"(?:[A-Za-z*!_?$%&=<>|]|[+\-.](?![0-9])|[^\W\d_]|[^\x00-\x7f])(?:[\w*!?$%&=<>|+\-.:#']|[^\x00-\x7f])*"
_SYMBOL = re.compile(rf"(?:{_PART})(?:/(?:{_PART}))?|/")
_KEYWORD = re.compile(r":[^\s:/]+(?:/[^\s/]+)?")
_CHARS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_INST = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|[+-]\d\d:\d\d)?)?)?)?")
_MACROS = {
    "'": "a quote is not allowed in EDN; remove it",
    "`": "a quote is not allowed in EDN; remove it",
    "^": "metadata is not allowed in EDN; remove it",
    "@": "'@' is not allowed in EDN; remove it",
    "~": "'~' is not allowed in EDN; remove it",
}


class AtomError(Exception):
    """A problem in a token, with its start and its width in characters."""

    def __init__(self, what: str, start: int = 0, width: int | None = None) -> None:
        super().__init__(what)
        self.what, self.start, self.width = what, start, width


def parse_atom(text: str) -> tuple[Kind, Any]:
    """Return the kind and the value of a token without delimiters.

    Raises
    ------
    AtomError
        If the token is not EDN, or is not supported.

    Examples
    --------
    >>> parse_atom("-12"), parse_atom("1e3"), parse_atom(":g/to"), parse_atom("?x"), parse_atom("-")
    (('int', -12), ('float', 1000.0), ('keyword', ':g/to'), ('symbol', '?x'), ('symbol', '-'))
    """
    if text in ("nil", "true", "false"):
        return ("nil", None) if text == "nil" else ("bool", text == "true")
    if text[0] in _MACROS:
        raise AtomError(_MACROS[text[0]], 0, 1)
    if text[0] == ":":
        if text.startswith("::"):
            raise AtomError("'::' needs a namespace of Clojure; write the keyword out, as :name/space")
        if not _KEYWORD.fullmatch(text):
            raise AtomError(f"'{text[:40]}' is not a valid keyword; write :name or :space/name")
        return "keyword", text
    if text[0].isdigit() or (text[0] in "+-." and text[1:2].isdigit()):
        return _parse_number(text)
    if not _SYMBOL.fullmatch(text):
        raise AtomError(f"'{text[:40]}' is not a valid EDN token")
    return "symbol", text


def _parse_number(text: str) -> tuple[Kind, Any]:
    if match := _INTEGER.fullmatch(text):
        if len(match[1]) > _MAX_DIGITS or not -(2**63) <= (value := int(text.removesuffix("N"))) < 2**63:
            raise AtomError(f"integer {text[:_MAX_DIGITS]} is outside int64, -2^63 to 2^63-1")
        return "int", value
    if _FLOAT.fullmatch(text):
        double = float(text)
        if not math.isfinite(double):
            raise AtomError(f"'{text[:40]}' is too large for a double")
        return "float", double
    if re.fullmatch(r"[+-]?[0-9]+/[0-9]+", text):
        raise AtomError(f"the ratio {text[:40]} is not supported; write a double, such as 0.5")
    if text.endswith("M"):
        raise AtomError(f"the decimal {text[:40]} is not supported; write a double, such as 0.5")
    if re.fullmatch(r"[+-]?0[0-9]+", text):
        raise AtomError(f"integer {text[:40]} has a leading 0; remove it")
    raise AtomError(f"'{text[:40]}' is not a valid number")


def parse_char(text: str) -> str:
    r"""Return the character that ``\a``, ``\newline`` or ``\u0041`` denotes.

    Raises
    ------
    AtomError
        If the name of the character is unknown.
    """
    name = text[1:]
    if len(name) == 1:
        return _check_surrogates(name)
    if name in _CHARS:
        return _CHARS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return _check_surrogates(chr(int(name[1:], 16)))
    listing = ", ".join("\\" + name for name in _CHARS)
    raise AtomError(f"unknown character '{text[:40]}': expected \\a, \\u0041, or one of {listing}")


def parse_string(text: str) -> str:
    r"""Return the text of a string literal; escapes are ``\t \r \n \\ \" \b \f \uXXXX``.

    Raises
    ------
    AtomError
        If an escape is unknown, or a surrogate is unpaired.
    """

    def unescaped(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            listing = " ".join("\\" + escape for escape in _ESCAPES)
            raise AtomError(
                f"unknown escape '{match[0]}': expected one of {listing} \\uXXXX", match.start() + 1, len(match[0])
            )
        return _ESCAPES[match[2]]

    unescaped_text = _ESCAPE.sub(unescaped, text[1:-1])
    return _check_surrogates(unescaped_text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


def _check_surrogates(text: str) -> str:
    if any(0xD800 <= ord(char) < 0xE000 for char in text):
        raise AtomError("the text contains an unpaired surrogate")
    return text


def parse_inst(text: str) -> datetime:
    """Return the point in time of an ``#inst`` literal, with its time zone.

    Raises
    ------
    AtomError
        If the text is not a point in time, or is finer than a microsecond.

    Examples
    --------
    >>> parse_inst("2026-02-03T04:05:06.070-01:00").isoformat()
    '2026-02-03T04:05:06.070000-01:00'
    """
    match = _INST.fullmatch(text)
    if not match:
        raise AtomError(f'"{text[:40]}" is not a point in time; write one as "2026-01-31T12:00:00.000Z"')
    fraction = (match[7] or "").rstrip("0")
    if len(fraction) > 6:
        raise AtomError("points in time have microsecond precision; remove the finer digits")
    zone: timezone = UTC
    numbers = [int(match[i] or default) for i, default in ((1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 0))]
    year, month, day, hour, minute, second = numbers
    try:
        if match[8] and match[8] != "Z":
            sign = -1 if match[8][0] == "-" else 1
            zone = timezone(sign * timedelta(hours=int(match[8][1:3]), minutes=int(match[8][4:6])))
        instant = datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")), zone)
        _ = instant.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise AtomError(f'"{text[:40]}" is not a point in time: {error}') from None
    return instant


def parse_tagged(tag: str, kind: Kind, value: Any) -> tuple[Kind, Any]:
    """Return the kind and value of a tagged form.

    Raises
    ------
    AtomError
        If the tag is unknown, or does not take such a form.
    """
    from gpu_wcoj.errors import nearest

    if tag not in ("#inst", "#uuid"):
        raise AtomError(
            f"the tag '{tag[:40]}' is not supported: expected #inst or #uuid.{nearest(tag, ['#inst', '#uuid'])}"
        )
    if kind != "string":
        raise AtomError(f"{tag} takes a string")
    if tag == "#inst":
        return "inst", parse_inst(value)
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        raise AtomError(f'"{value[:40]}" is not a UUID; write one as "01234567-89ab-cdef-0123-456789abcdef"')
    return "uuid", uuid.UUID(value)
