"""The benchmark's relations: CSV files with a header and ``|`` between columns, one file a relation, in a tar archive.

A relation has the name of its file in lower case and two int64 columns. ``knows`` is symmetric: the file holds one
direction of it, and both are loaded, as the benchmark's own loaders do.
"""

from __future__ import annotations

import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

DATA = Path(__file__).parents[3] / "shared" / "data" / "lsqb"
ARCHIVES = {"example": "sfexample.tar.gz", "0.003": "sf0.003.tar.gz", "0.1": "sf0.1-partial.tar.gz"}
KNOWS = "person_knows_person"

Rows = npt.NDArray[np.int64]
"""Shape (n, 2): one row a pair of ids."""


def relations(scale: str, names: Sequence[str], folder: Path = DATA) -> dict[str, Rows]:
    """The named relations of a scale factor.

    Raises
    ------
    KeyError
        If the archive lacks one of them.
    """
    wanted = {f"{name}.csv": name for name in names}
    found: dict[str, Rows] = {}
    with tarfile.open(folder / ARCHIVES[scale]) as archive:
        for member in archive:
            name = wanted.get(Path(member.name).name.lower())
            content = archive.extractfile(member) if name else None
            if name and content:
                found[name] = _pairs(content.read())
    if missing := sorted(set(names) - set(found)):
        raise KeyError(f"{ARCHIVES[scale]} holds no {', '.join(missing)}")
    return {name: _both_ways(found[name]) if name == KNOWS else found[name] for name in names}


def _pairs(content: bytes) -> Rows:
    table = pa_csv.read_csv(pa.BufferReader(content), parse_options=pa_csv.ParseOptions(delimiter="|"))
    return np.column_stack([column.to_numpy() for column in table.columns]).astype(np.int64, casting="safe")


def _both_ways(rows: Rows) -> Rows:
    return np.unique(np.concatenate([rows, rows[:, ::-1]]), axis=0)


def in_ticks(inputs: Mapping[str, Rows], n_ticks: int, seed: int) -> list[dict[str, Rows]]:
    """All rows in a random order, as even shares of every relation; both directions of ``knows`` come together."""
    draw = np.random.default_rng(seed)
    shares: dict[str, list[Rows]] = {}
    for name, rows in inputs.items():
        if name == KNOWS:
            once = draw.permutation(rows[rows[:, 0] < rows[:, 1]])
            shares[name] = [_both_ways(part) for part in np.array_split(once, n_ticks)]
        else:
            shares[name] = np.array_split(draw.permutation(rows), n_ticks)
    return [{name: parts[tick] for name, parts in shares.items()} for tick in range(n_ticks)]
