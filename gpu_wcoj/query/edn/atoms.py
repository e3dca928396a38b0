"""What single pieces of EDN text are: numbers, names, characters, strings and tagged values."""

from __future__ import annotations

import math
import re
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from gpu_wcoj.query.edn.forms import Kind

_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)(N?)")
_FLOAT = re.compile(r"[+-]?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][+-]?[0-9]+)?")
_DIGITS = 30
_PART = r"(?:[A-Za-z*!_?$%&=<>|]|[+\-.](?![0-9])|[^\W\d_]|[^\x00-\x7f])(?:[\w*!?$%&=<>|+\-.:#']|[^\x00-\x7f])*"
_SYMBOL = re.compile(rf"(?:{_PART})(?:/(?:{_PART}))?|/")
_KEYWORD = re.compile(r":[^\s:/]+(?:/[^\s/]+)?")
_CHARS = {"newline": "\n", "return": "\r", "space": " ", "tab": "\t", "formfeed": "\f", "backspace": "\b"}
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_INST = re.compile(r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d+))?)?)?(Z|[+-]\d\d:\d\d)?)?)?)?")
_MACROS = {
    "'": "a quote has no place in EDN; leave it out",
    "`": "a quote has no place in EDN; leave it out",
    "^": "metadata has no place in EDN; leave it out",
    "@": "'@' has no place in EDN; leave it out",
    "~": "'~' has no place in EDN; leave it out",
}


class AtomError(Exception):
    """What is wrong with a piece of text, from where on, and for how many characters."""

    def __init__(self, what: str, start: int = 0, width: int | None = None) -> None:
        super().__init__(what)
        self.what, self.start, self.width = what, start, width


def atom(text: str) -> tuple[Kind, Any]:
    """What a run of characters is, and its value.

    Raises
    ------
    AtomError
        If it is nothing of EDN, or nothing that is supported.

    Examples
    --------
    >>> atom("-12"), atom("1e3"), atom(":g/to"), atom("?x"), atom("-")
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
            raise AtomError(f"'{text[:40]}' is no keyword; write one as :name or :space/name")
        return "keyword", text
    if text[0].isdigit() or (text[0] in "+-." and text[1:2].isdigit()):
        return _number(text)
    if not _SYMBOL.fullmatch(text):
        raise AtomError(f"'{text[:40]}' is nothing that EDN knows")
    return "symbol", text


def _number(text: str) -> tuple[Kind, Any]:
    if match := _INTEGER.fullmatch(text):
        if len(match[1]) > _DIGITS or not -(2**63) <= (value := int(text.removesuffix("N"))) < 2**63:
            raise AtomError(f"integer {text[:_DIGITS]} is outside int64, -2^63 to 2^63-1")
        return "int", value
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not math.isfinite(number):
            raise AtomError(f"'{text[:40]}' is too large for a double")
        return "float", number
    if re.fullmatch(r"[+-]?[0-9]+/[0-9]+", text):
        raise AtomError(f"the ratio {text[:40]} is not supported; write a double, as 0.5")
    if text.endswith("M"):
        raise AtomError(f"the decimal {text[:40]} is not supported; write a double, as 0.5")
    if re.fullmatch(r"[+-]?0[0-9]+", text):
        raise AtomError(f"integer {text[:40]} begins with 0; write it without")
    raise AtomError(f"'{text[:40]}' is no number")


def char(text: str) -> str:
    r"""The character that ``\a``, ``\newline`` or ``\u0041`` stands for.

    Raises
    ------
    AtomError
        If there is no such character.
    """
    name = text[1:]
    if len(name) == 1:
        return _whole(name)
    if name in _CHARS:
        return _CHARS[name]
    if re.fullmatch(r"u[0-9a-fA-F]{4}", name):
        return _whole(chr(int(name[1:], 16)))
    known = ", ".join("\\" + one for one in _CHARS)
    raise AtomError(f"there is no character '{text[:40]}'; there are \\a, \\u0041, {known}")


def string(text: str) -> str:
    r"""What stands between quotes, with escapes read: ``\t \r \n \\ \" \b \f`` and ``\uXXXX``.

    Raises
    ------
    AtomError
        If there is no such escape, or half a surrogate pair.
    """

    def unescaped(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        if match[2] not in _ESCAPES:
            listing = " ".join("\\" + one for one in _ESCAPES)
            raise AtomError(
                f"there is no escape '{match[0]}'; allowed are {listing} and \\uXXXX", match.start() + 1, len(match[0])
            )
        return _ESCAPES[match[2]]

    found = _ESCAPE.sub(unescaped, text[1:-1])
    return _whole(found.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))


def _whole(text: str) -> str:
    if any(0xD800 <= ord(one) < 0xE000 for one in text):
        raise AtomError("half a surrogate pair is no character")
    return text


def inst(text: str) -> datetime:
    """The point in time that ``#inst`` tags, with its time zone.

    Raises
    ------
    AtomError
        If it is none, or finer than a microsecond.

    Examples
    --------
    >>> inst("2026-02-03T04:05:06.070-01:00").isoformat()
    '2026-02-03T04:05:06.070000-01:00'
    """
    match = _INST.fullmatch(text)
    if not match:
        raise AtomError(f'"{text[:40]}" is no point in time; write one as "2026-01-31T12:00:00.000Z"')
    fraction = (match[7] or "").rstrip("0")
    if len(fraction) > 6:
        raise AtomError("points in time are kept to the microsecond; leave out what is finer")
    zone: timezone = UTC
    numbers = [int(match[i] or default) for i, default in ((1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 0))]
    year, month, day, hour, minute, second = numbers
    try:
        if match[8] and match[8] != "Z":
            sign = -1 if match[8][0] == "-" else 1
            zone = timezone(sign * timedelta(hours=int(match[8][1:3]), minutes=int(match[8][4:6])))
        found = datetime(year, month, day, hour, minute, second, int(fraction.ljust(6, "0")), zone)
        _ = found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise AtomError(f'"{text[:40]}" is no point in time: {error}') from None
    return found


def tagged(tag: str, kind: Kind, value: Any) -> tuple[Kind, Any]:
    """What a tag makes of the form behind it.

    Raises
    ------
    AtomError
        If the tag is not known, or takes another form.
    """
    from gpu_wcoj.errors import nearest

    if tag not in ("#inst", "#uuid"):
        raise AtomError(
            f"the tag '{tag[:40]}' is not supported; #inst and #uuid are.{nearest(tag, ['#inst', '#uuid'])}"
        )
    if kind != "string":
        raise AtomError(f"{tag} takes a string")
    if tag == "#inst":
        return "inst", inst(value)
    if not re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", value):
        raise AtomError(f'"{value[:40]}" is no UUID; write one as "01234567-89ab-cdef-0123-456789abcdef"')
    return "uuid", uuid.UUID(value)
