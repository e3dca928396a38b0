"""Faults planted in copies of the CUDA sources: ``python -m tests.shim.mutants [NUMBERS]`` sees that each is found.

Each is run on the flavour of the shim that is to find it, on the tests that concern it; ``--all`` runs the other
flavours too, for the whole table. Number 0 has no fault: all of these tests pass on it. The package's own files are
only read.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from tests.shim import build
from tests.shim.plugin import environment, run

ROWS, TRIES, EXTEND = (f"tests/kernels/test_{name}.py" for name in ("rows", "tries", "extend"))
MERGE, DEVICE_EXTEND, FAR = "tests/cuda/test_merge.py", "tests/cuda/test_extend.py", "tests/ptx/test_far.py"


@dataclass(frozen=True)
class Mutant:
    """One fault.

    Attributes
    ----------
    edits
        (old, new): what is replaced, each once in the file.
    tests
        What pytest is given: a file and an expression for ``-k``.
    flavour
        The flavour that finds it.
    """

    number: int
    fault: str
    file: str
    edits: tuple[tuple[str, str], ...]
    tests: tuple[str, str]
    flavour: str


MUTANTS = (
    Mutant(
        1,
        "the last barrier of block_exclusive_sum is dropped",
        "scan.cuh",
        (("scratch[32];\n    __syncthreads();\n    return (long long)", "scratch[32];\n    return (long long)"),),
        (ROWS, "test_all_rows_equal and 1025"),
        "races",
    ),
    Mutant(
        2,
        "sort_few has no barrier after step 32",
        "rows.cu",
        (("if (step >= 32 || (step == 1 && run >= 32))", "if (step > 32 || (step == 1 && run >= 32))"),),
        (ROWS, "test_lexsort or test_distinct_rows"),
        "plain",
    ),
    Mutant(
        3,
        "a __syncwarp of expand_rows is dropped",
        "tries.cu",
        (("            __syncwarp();  // all have read the edge\n", ""),),
        (ROWS, "test_many_columns and 7-5"),
        "races",
    ),
    Mutant(
        4,
        "lanes leave before a shuffle",
        "probe.cuh",
        (("if (together ? !__any_sync(FULL_WARP, alive) : !alive) return false;", "if (!alive) return false;"),),
        (EXTEND, "test_hubs and two and own"),
        "plain",
    ),
    Mutant(
        5,
        "both fences of the sum by the last block are dropped",
        "places.cuh",
        (
            ("        __threadfence();\n        *is_last", "        *is_last"),
            ("    if (!*is_last) return;\n    __threadfence();\n", "    if (!*is_last) return;\n"),
        ),
        (MERGE, "test_nothing_is_left and 4096-1-0"),
        "races",
    ),
    Mutant(
        6,
        "a write one past the end",
        "places.cuh",
        (("if (j < n_items) within[j]", "if (j <= n_items) within[j]"),),
        (MERGE, "test_nothing_is_left and 1-1-0"),
        "plain",
    ),
    Mutant(
        7,
        "a load one past the end",
        "merge_path.cuh",
        (
            (
                "if (x < n) {\n                value[k] = (Out)left",
                "if (x <= n) {\n                value[k] = (Out)left",
            ),
        ),
        (MERGE, "test_weights_of_one_written_out"),
        "sanitized",
    ),
    Mutant(
        8,
        "an eighth of the marks is not cleared",
        "plan.cu",
        (("n_words = 2 * min(lengths[n_ranges], budget);", "n_words = 2 * min(lengths[n_ranges], budget) / 8 * 7;"),),
        (EXTEND, "test_hubs and hashed and plain and not list"),
        "ptx",
    ),
    Mutant(
        9,
        "the begin of a tile has 32 bits",
        "merge_path.cuh",
        (("const long long begin = (long long)blockIdx.x * TILE, n", "const long long begin = blockIdx.x * TILE, n"),),
        (FAR, "test_merge_copies and narrow and rows"),
        "ptx",
    ),
    Mutant(
        10,
        "a plain addition in place of an atomic one",
        "extend.cu",
        (
            (
                "if (head && weight != 0) atomicAdd((Bits*)counts + row, weight);",
                "if (head && weight != 0) ((Bits*)counts)[row] += weight;",
            ),
        ),
        (DEVICE_EXTEND, "test_units_end_anywhere and 0"),
        "races",
    ),
    Mutant(
        11,
        "the second barrier of enter_unit is dropped",
        "units.cuh",
        (("unit.near[i] = sums[first + i];\n    __syncthreads();\n", "unit.near[i] = sums[first + i];\n"),),
        (DEVICE_EXTEND, "test_units_end_anywhere and 0"),
        "plain",
    ),
    Mutant(
        12,
        "a load of 8 bytes at an address of 4",
        "merge_path.cuh",
        (
            (
                "value[k] = (Out)left[i + x];\n                along",
                "value[k] = (Out) * (const long long*)(left + i + x);\n                along",
            ),
        ),
        (MERGE, "test_weights_of_one_written_out"),
        "sanitized",
    ),
    Mutant(
        13,
        "the barrier of near_table is dropped",
        "slots.cuh",
        (("copy[i] = table[i];\n    __syncthreads();\n", "copy[i] = table[i];\n"),),
        (DEVICE_EXTEND, "test_short_ranges_are_scanned_by_a_warp and 1-1-0"),
        "plain",
    ),
    Mutant(
        14,
        "tags of int32 marks have 31 bits",
        "marks.cuh",
        (("(Bits)value & 0xffffffffull : hash", "(Bits)value & 0x7fffffffull : hash"),),
        (EXTEND, "test_hubs and half and plain"),
        "plain",
    ),
    Mutant(
        15,
        "marks of int32 compare the lower halves alone",
        "marks.cuh",
        (("    if (slot.value_bytes == 4 && value != (int)value) return -1;\n", ""),),
        (EXTEND, "test_hubs and half and plain"),
        "plain",
    ),
)


def mutated(mutant: Mutant) -> str:
    """Return the text of the mutant's file with the fault in it.

    Raises
    ------
    ValueError
        If the text of an edit does not occur exactly once.
    """
    text = (files("gpu_wcoj.kernels.cuda") / mutant.file).read_text(encoding="utf-8")
    for old, new in mutant.edits:
        if text.count(old) != 1:
            raise ValueError(
                f"Mutant {mutant.number} does not fit {mutant.file}: got {text.count(old)} places with {old!r},"
                " expected 1. Bring it up to date with the source."
            )
        text = text.replace(old, new)
    return text


def plant(folder: Path, mutant: Mutant | None) -> None:
    """Copy the CUDA sources into a folder, one of them with a fault."""
    for source in files("gpu_wcoj.kernels.cuda").iterdir():
        if source.name.endswith((".cu", ".cuh")):
            (folder / source.name).write_text(source.read_text(encoding="utf-8"), encoding="utf-8")
    if mutant is not None:
        (folder / mutant.file).write_text(mutated(mutant), encoding="utf-8")


def is_found(mutant: Mutant | None, tests: tuple[str, str], flavour: str) -> bool:
    """Run tests on a copy of the sources; whether they fail.

    Raises
    ------
    RuntimeError
        If the sources do not compile, or no test was run.
    """
    with tempfile.TemporaryDirectory() as name:
        plant(Path(name), mutant)
        file, expression = tests
        done = run([file, "-k", expression], environment(flavour, sources=Path(name)), "-q", "-x", capture=True)
    if done.returncode not in (0, 1) or "refuses a source" in done.stdout or "NVRTC refuses" in done.stdout:
        raise RuntimeError(f"{file} -k '{expression}' on {flavour} did not run:\n{done.stdout[-3000:]}")
    if mutant is None and done.returncode:
        print(done.stdout[-3000:])
    return done.returncode == 1


def main(arguments: list[str]) -> int:
    """Print the table of mutants and flavours; 1 if one escapes, or a test fails without a fault."""
    parser = argparse.ArgumentParser(prog="python -m tests.shim.mutants", description="Find planted faults.")
    parser.add_argument("--all", action="store_true", help="run every flavour, not only the one that finds the fault")
    parser.add_argument("numbers", nargs="*", type=int, help="the mutants; all if none is named")
    chosen = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if not chosen.numbers or mutant.number in chosen.numbers]
    print(f"{'mutant':58}" + "".join(f"{flavour:>11}" for flavour in build.FLAVOURS))
    escaped = 0
    if not chosen.numbers or 0 in chosen.numbers:
        escaped += any(is_found(None, *pair) for pair in sorted({(m.tests, m.flavour) for m in MUTANTS}))
        print(f"{'0 no fault':58}{'each test passes' if not escaped else 'A TEST FAILS':>44}", flush=True)
    for mutant in mutants:
        print(f"{f'{mutant.number} {mutant.fault}':58}", end="", flush=True)
        results = {}
        for flavour in build.FLAVOURS:
            if chosen.all or flavour == mutant.flavour:
                results[flavour] = is_found(mutant, mutant.tests, flavour)
            print(f"{ {True: 'found', False: 'missed', None: '-'}[results.get(flavour)]:>11}", end="", flush=True)
        print()
        escaped += not any(results.values())
    print("every fault is found" if not escaped else f"{escaped} NOT FOUND")
    return int(escaped > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
