"""The command ``gpu-wcoj generate``: reproducible data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import App

from gpu_wcoj.commands.options import FLAG
from gpu_wcoj.errors import UsageError

generate = App(name="generate", help="Write data that the program makes itself, the same on every machine.")


@generate.command
def payments(
    *,
    output: Path,
    transfers: int = 200_000,
    accounts: int = 20_000,
    seed: int = 1,
    tick_rows: int = 1000,
    files: int | None = None,
) -> None:
    """Write payments and their reversals as Parquet: columns src, dst, weight and tick.

    Parameters
    ----------
    output
        The file to write.
    transfers
        Number of payments; a quarter of them is reversed later.
    accounts
        Number of accounts.
    seed
        Seed of the random numbers.
    tick_rows
        Number of changes per tick.
    files
        Write this many files into a folder instead, as Spark reads a stream: their times are a second apart.
    """
    from gpu_wcoj import datasets
    from gpu_wcoj.files.output import write_parts

    stream = datasets.payments(transfers, accounts, seed, tick_rows=tick_rows)
    if files is None:
        _write(stream, output)
    elif files < 1:
        raise UsageError.invalid_value("--files", files, "an integer from 1 on")
    else:
        write_parts(stream, output, files)


@generate.command
def rmat(
    *,
    output: Path,
    scale: int = 17,
    edges: int = 2_000_000,
    seed: int = 1,
    undirected: Annotated[bool, FLAG] = False,
) -> None:
    """Write a skewed random graph as Parquet with columns src and dst.

    Parameters
    ----------
    output
        The file to write.
    scale
        The graph has 2**scale vertices.
    edges
        Number of directed edges.
    seed
        Seed of the random numbers.
    undirected
        Write each edge once, smaller vertex first, in random order.
    """
    from gpu_wcoj import datasets

    graph = datasets.rmat(scale, edges, seed)
    if undirected:
        graph = datasets.undirected(graph)
    _write({"src": graph[:, 0], "dst": graph[:, 1]}, output)


def _write(columns: dict[str, Any], path: Path) -> None:
    from gpu_wcoj.files.output import write_columns

    write_columns(columns, path)
