"""``python -m bench.gpu``: every part in a process of its own, and one JSON of them all."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.engine.machine import write_json
from bench.gpu import crossover, full, hub, large_streams, primitives, probes, streams17
from bench.gpu.place import Place, find
from bench.gpu.report import RESULTS, Options, Report

PARTS: dict[str, Callable[[Place, Options, Report], None]] = {
    "primitives": primitives.run,
    "probes": probes.run,
    "streams17": streams17.run,
    "acyclic": streams17.run_acyclic,
    "streams20": large_streams.run20,
    "streams24": large_streams.run24,
    "hub": hub.run,
    "full": full.run,
    "crossover": crossover.run,
}
ROOT = Path(__file__).parents[2]
MARGIN = 25.0
"""Seconds that a part gets to end after its time is over, before it is stopped."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that are asked for; 1 if one of them failed.

    Every part stops itself after `--seconds`, and is stopped a little later; what it measured until then is kept.
    """
    options, chosen = _read(arguments)
    if chosen.into is not None:
        return run_part(chosen.part[0], find(), options, chosen.into)
    folder = Path(os.environ.get("OUT") or RESULTS)
    parts = chosen.part or list(PARTS)
    found: list[dict[str, Any]] = []
    document: dict[str, Any] = {}
    path: Path | None = None
    for part in parts:
        print(f"{part}:", flush=True)
        piece = folder / f".{part}.json"
        piece.unlink(missing_ok=True)
        ended = _in_a_process(part, piece, _passed_on(arguments), options.seconds + MARGIN)
        if piece.exists():
            document = json.loads(piece.read_text())
            piece.unlink()
            found += document["parts"]
        else:
            found.append({"part": part, "figures": [], "error": ended or "it wrote nothing"})
        if ended:
            found[-1]["error"] = found[-1].get("error") or ended
            found[-1]["ended"] = ended
        if path is None:
            path = folder / _name(document.get("machine", {}), parts)
        write_json(path, {**document, "options": vars(options), "parts": found})
    print(f"Written to {path}")
    return int(any(part.get("error") for part in found))


def run_part(part: str, place: Place, options: Options, path: Path | None) -> int:
    """Run one part in this process; 1 if anything in it failed."""
    place.deadline = time.monotonic() + options.seconds
    report = Report(part, place, path)
    report.write()
    report.attempt(part, lambda: PARTS[part](place, options, report))
    report.write()
    return int(report.error is not None)


def _in_a_process(part: str, piece: Path, passed_on: Sequence[str], limit: float) -> str | None:
    """How it ended, if it did not end well."""
    command = [sys.executable, "-m", "bench.gpu", *passed_on, "--part", part, "--into", str(piece)]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"stopped after {limit:g} s"
    return f"exit status {done.returncode}" if done.returncode else None


def _read(arguments: Sequence[str] | None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description="Measure the engine on a GPU.")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="a part to run; all if none is named")
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=int, help="of every graph, in place of each part's own")
    parser.add_argument("--edges", type=int, help="directed edges to draw, in place of each part's own")
    parser.add_argument("--rows", type=int, default=Options.rows, help="of the primitives' largest array")
    parser.add_argument("--ticks", type=int, help="of one size, at most")
    parser.add_argument("--seconds", type=float, default=Options.seconds, help="that a part may take")
    parser.add_argument("--no-rivals", action="store_true", help="leave the rivals out")
    chosen = parser.parse_args(arguments)
    options = Options(
        chosen.scale, chosen.edges, chosen.rows, chosen.ticks, rivals=not chosen.no_rivals, seconds=chosen.seconds
    )
    return options, chosen


def _passed_on(arguments: Sequence[str] | None) -> list[str]:
    """The arguments without the choice of parts."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    kept: list[str] = []
    while given:
        word = given.pop(0)
        if word == "--part":
            given.pop(0)
        elif not word.startswith("--part="):
            kept.append(word)
    return kept


def _name(machine: dict[str, Any], parts: Sequence[str]) -> str:
    day, commit = str(machine.get("date", "unknown"))[:10], str(machine.get("commit", "unknown"))
    which = "" if len(parts) == len(PARTS) else "-" + "-".join(parts)
    return f"gpu-{day}-{commit.replace(' ', '-').replace('+', '-')}{which}.json"


if __name__ == "__main__":
    sys.exit(main())
