"""Loss of power at every operation, with what was not forced to the disk lost, torn or kept in any order.

The proof that these tests see anything: with any one of the forced writes left out, or the manifest written under its
own name rather than linked to it, they find a state that must not be.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import pytest

from gpu_wcoj.checkpoint import Checkpoint, CheckpointOptions
from gpu_wcoj.checkpoint.checkpoint import read_newest
from gpu_wcoj.checkpoint.state import checked_bytes
from gpu_wcoj.errors import GpuWcojError
from tests.helpers.checkpoint_folders import HookedFolder, MemoryFolder
from tests.helpers.checkpoint_script import Reference, new_program, ticks
from tests.helpers.long_tests import IS_LONG

SOAK = bool(os.environ.get("SOAK"))
SEEDS = 200 if SOAK else 2
OPTIONS = CheckpointOptions(most_runs=4)


class Violation(AssertionError):
    """A loss of power has left what must not be."""


Moment = tuple[MemoryFolder, int]
"""The folder before an operation, and the last batch whose commit had returned."""


def moments(n_ticks: int, mutated: Callable[[Any], Any] = lambda folder: folder) -> list[Moment]:
    """The folder before every operation of some ticks; the folder is reached as `mutated` makes it."""
    memory = MemoryFolder()
    found: list[Moment] = []
    acked = -2

    def hook(number: int, operation: str, name: str) -> None:
        if operation not in ("names", "read", "lock", "prepare"):
            found.append((memory.copy(), acked))

    program = new_program()
    checkpoint = Checkpoint.open(mutated(HookedFolder(memory, hook)), program=program, options=OPTIONS)
    acked = -1
    for number, tick in enumerate(ticks(n_ticks)):
        program.step(tick)
        checkpoint.commit(number)
        acked = number
    found.append((memory.copy(), acked))
    return found


def check_files(folder: MemoryFolder, acked: int) -> None:
    """What is found must be a whole version: of the last acknowledged batch, or the next one."""
    try:
        if acked == -2 and not [name for name in folder.names() if name.startswith("manifest-0000000")]:
            return
        manifest, _ = read_newest(folder)
        batch = manifest.batch if manifest.batches else -1
        if batch not in (max(acked, -1), acked + 1):
            raise Violation(f"batch {batch} is found after batch {acked} was acknowledged")
        if manifest.state is not None:
            for run in manifest.state.runs:
                checked_bytes(folder, run.file, run.sha256, run.bytes)
    except (GpuWcojError, FileNotFoundError) as error:
        raise Violation(str(error)) from error


def search(found: list[Moment], seeds: int) -> int:
    """Lose power at every moment, some ways each."""
    n_states = 0
    for number, (folder, acked) in enumerate(found):
        for seed in range(seeds):
            check_files(folder.after_loss(random.Random(number * 1000 + seed)), acked)
            n_states += 1
    return n_states


def test_no_loss_of_power_leaves_a_wrong_state() -> None:
    n_ticks = 50 if SOAK else 25
    n_states = search(moments(n_ticks), SEEDS)
    print(f"{n_states} states")
    assert n_states > 50 * n_ticks


def test_after_a_loss_of_power_the_work_goes_on() -> None:
    """Recover, go on for some ticks, lose power again, to the end: answers and states are those without a loss."""
    reference = Reference(ticks(20))
    for seed in range(100 if SOAK else 2 if IS_LONG else 1):
        rng = random.Random(seed)
        memory = MemoryFolder()
        least = -1
        for _ in range(100):
            stops: list[Moment] = []
            program = new_program()
            done = -1 if least < 0 else least
            at = rng.randrange(60)

            def hook(
                number: int,
                operation: str,
                name: str,
                at: int = at,
                memory: MemoryFolder = memory,
                stops: list[Moment] = stops,
            ) -> None:
                if number == at:
                    stops.append((memory.copy(), 0))
                    raise KeyboardInterrupt

            try:
                checkpoint = Checkpoint.open(HookedFolder(memory, hook), program=program, options=OPTIONS)
                checkpoint.restore(program)
                first = 0 if checkpoint.last is None else checkpoint.last.batch + 1
                assert first in (done + 1, done + 2)
                done = first - 1
                for number in range(first, 20):
                    program.step(reference.script[number])
                    checkpoint.commit(number)
                    done = number
                break
            except KeyboardInterrupt:
                least = done
                memory = stops[0][0].after_loss(rng)
        program = new_program()
        checkpoint = Checkpoint.open(memory, program=program)
        checkpoint.restore(program)
        reference.resume(checkpoint, program)


class Mutant:
    """A folder that leaves one thing out, as a mistake in the code would."""

    def __init__(self, folder: Any, what: str) -> None:
        self.folder, self.what = folder, what
        self.n_syncs = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.folder, name)

    def create(self, name: str) -> Any:
        file = self.folder.create(name)
        if self.what == f"sync {name.partition('-')[0]}":
            file.sync = lambda: None
        return file

    def sync(self) -> None:
        self.n_syncs += 1
        if self.what != ("sync folder before" if self.n_syncs % 2 else "sync folder after"):
            self.folder.sync()

    def publish(self, temporary: str, name: str) -> None:
        if self.what == "link":
            file = self.folder.create(name)
            file.write(self.folder.read(temporary))
            file.sync()
        elif self.what != "publish":
            self.folder.publish(temporary, name)


@pytest.mark.parametrize(
    "what",
    ["sync run", "sync definition", "sync manifest", "sync folder before", "sync folder after", "link", "publish"],
)
def test_whatever_is_left_out_is_found(what: str) -> None:
    found = moments(12, lambda folder: Mutant(folder, what))
    with pytest.raises(Violation):
        search(found, 12)


def test_what_is_left_out_is_why_it_is_found() -> None:
    search(moments(12, lambda folder: Mutant(folder, "nothing")), SEEDS)
