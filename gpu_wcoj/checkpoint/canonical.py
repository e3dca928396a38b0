"""Canonical JSON with a checksum, which detects every change, even of a space."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

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


# A checksum of incoming rows that is independent of chunks and buffers.


def rows_digest(tables: Mapping[str, pa.Table]) -> str:
    """Return 32 hexadecimal digits of SHA-256 over names, types, nulls and values, in order.

    Examples
    --------
    >>> whole = pa.table({"a": [1, None, 3], "b": ["x", "", None]})
    >>> cut = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    >>> rows_digest({"r": whole}) == rows_digest({"r": cut}), rows_digest({"r": whole}) == rows_digest({"s": whole})
    (True, False)
    """
    total = hashlib.sha256()
    for name in sorted(tables):
        table = tables[name]
        for field, column in zip(table.schema, table.columns, strict=True):
            label = f"{name}\0{field.name}\0{field.type}\0{table.num_rows}\0"
            total.update(label.encode("utf-8", "surrogatepass"))
            for piece in _pieces(column.combine_chunks()):
                total.update(len(piece).to_bytes(8, "little"))
                total.update(piece)
    return total.hexdigest()[:32]


def _pieces(column: pa.Array) -> Iterable[bytes | memoryview]:
    """Yield the content of a column as bytes: its validity mask, then its values."""
    if isinstance(column, pa.ChunkedArray):  # what combine_chunks gives of a column without chunks
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    is_text = _is_text(kind) or _is_bytes(kind)
    if is_text:
        column = column.cast(pa.large_string() if _is_text(kind) else pa.large_binary())
    if column.null_count:
        yield np.packbits(column.is_valid().to_numpy(zero_copy_only=False)).tobytes()
        column = column.drop_null()
    if pa.types.is_null(kind):
        return
    if is_text:
        _, offsets, data = column.buffers()
        ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        if len(ends):
            yield (ends - ends[0]).tobytes()
            yield memoryview(data)[int(ends[0]) : int(ends[-1])] if data is not None else b""
        return
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    width = column.type.bit_width // 8
    data = column.buffers()[1]
    if data is not None:
        yield memoryview(data)[column.offset * width : (column.offset + len(column)) * width]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))
