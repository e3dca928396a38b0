"""Canonical JSON with a checksum, which detects every change, even of a space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from gpu_wcoj.errors import CheckpointDamagedError

_SEAL = "sha256"


def checksum(data: bytes) -> str:
    """Return SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def sealed(content: Mapping[str, Any]) -> bytes:
    """Return sorted ASCII JSON without blanks; the first key is its checksum.

    Examples
    --------
    >>> sealed({"b": 1, "a": "ü"})[:9], opened(sealed({"b": 1, "a": "ü"}), "x")
    (b'{"sha256"', {'a': 'ü', 'b': 1})
    """
    body = _spelled(content)
    return b'{"%s":"%s",%s\n' % (_SEAL.encode(), checksum(body).encode(), body[1:])


def opened(data: bytes, path: object) -> dict[str, Any]:
    """Return the content of a sealed file.

    Raises
    ------
    CheckpointDamagedError
        If it is not, to the last byte, what `sealed` gave.
    """
    try:
        content = json.loads(data.decode("ascii"), parse_constant=_refuse)
        if not isinstance(content, dict):
            raise ValueError("expected a JSON object")
        content.pop(_SEAL)
        intact = sealed(content) == data
    except (ValueError, KeyError, RecursionError):
        raise CheckpointDamagedError(path, "cannot be read") from None
    if not intact:
        raise CheckpointDamagedError(path, "does not have the checksum that it names")
    return content


def _spelled(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _refuse(name: str) -> None:
    raise ValueError(name)
