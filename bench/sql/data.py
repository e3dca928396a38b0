"""Tables and queries of TPC-H and TPC-DS below .run, and the statements beside this file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.sql import generated

ROOT = Path(__file__).parents[2]
VENV = ROOT / ".run" / "tpc-venv"
FOLDER = ROOT / ".run" / "tpc"
PER_SECTION = 100
"""Drawn statements of each kind."""
SEED = 1


def generate(scales: dict[str, float]) -> dict[str, Path]:
    """Return the folders of benchmarks at these scale factors, which are generated if they are not there.

    Raises
    ------
    RuntimeError
        If the venv of the generators is missing, or they fail.
    """
    folders = {name: FOLDER / f"{name}-{scale:g}" for name, scale in scales.items()}
    if not all((folder / "queries").is_dir() for folder in folders.values()):
        python = VENV / "bin" / "python"
        if not python.exists():
            raise RuntimeError(f"{VENV} is missing; make bench-sql makes it.")
        options = [part for name, scale in scales.items() for part in (f"--{name}", f"{scale:g}")]
        command = [str(python), str(Path(__file__).with_name("generate.py")), str(FOLDER), *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the tables were not generated: {done.stderr.strip()}")
    return folders


def read(folder: Path) -> tuple[dict[str, pa.Table], dict[str, str]]:
    """Return the tables and the queries of a folder."""
    tables = {path.stem: pq.read_table(path) for path in sorted(folder.glob("*.parquet"))}
    return tables, {path.stem: path.read_text() for path in sorted((folder / "queries").glob("*.sql"))}


def statements() -> Iterator[tuple[str, str]]:
    """Yield the statements of this project with their sections: hand-written ones, then drawn ones.

    Examples
    --------
    >>> next(statements())
    ('selection', 'SELECT * FROM emp')
    """
    section = ""
    for line in Path(__file__).with_name("statements.sql").read_text().splitlines():
        if line.startswith("-- section: "):
            section = line.removeprefix("-- section: ")
        elif line and not line.startswith("--"):
            yield section, line.removesuffix(";")
    yield from generated.statements(PER_SECTION, SEED)
