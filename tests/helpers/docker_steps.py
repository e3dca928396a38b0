"""The steps of a Dockerfile, carried out without Docker: each stage is a layer over this machine's own root.

Stands in for the base image: whatever a step installs goes to the layer, and this machine stays as it is. What it
cannot show is whether the base image has the same programs, and whether a registry has it under its tag.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

CHROOT = """
set -e
mkdir -p "$work" "$mnt"
mount -t overlay overlay -o "lowerdir=/,upperdir=$upper,workdir=$work" "$mnt"
mount --rbind /dev "$mnt/dev"
mount -t proc proc "$mnt/proc" 2>/dev/null || mount --rbind /proc "$mnt/proc"
mount -t tmpfs tmpfs "$mnt/tmp"
chmod 1777 "$mnt/tmp"
exec chroot --userspec="$user" "$mnt" "$@"
"""
"""Run as root in mounts of its own; they are gone with the process."""


@dataclass
class Layer:
    """Files over those of this machine's root."""

    folder: Path
    user: str = "0"
    cwd: str = "/"
    env: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"}
    )
    entrypoint: list[str] = field(default_factory=list)
    cmd: list[str] = field(default_factory=list)
    health: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.files.mkdir(parents=True)

    @property
    def files(self) -> Path:
        return self.folder / "files"

    def at(self, path: str) -> Path:
        """Where a path inside lies."""
        return self.files / os.path.join(self.cwd, path).lstrip("/")

    def over(self, folder: Path) -> Layer:
        """A container: the files of this image, by links, in a folder of its own.

        Root must not write to them: it would write to the image.
        """
        container = Layer(folder, self.user, self.cwd, dict(self.env), self.entrypoint, self.cmd, self.health)
        subprocess.run(["cp", "-al", f"{self.files}/.", str(container.files)], check=True)
        return container

    def start(self, command: list[str], env: dict[str, str] | None = None, **options) -> subprocess.Popen[str]:
        """A process inside, with this layer's user, folder and environment alone."""
        names = {
            "upper": str(self.files),
            "work": str(self.folder / "work"),
            "mnt": str(self.folder / "root"),
            "user": f"{self.user}:{self.user}",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        }
        inside = [f"{name}={value}" for name, value in {"HOME": "/tmp", **self.env, **(env or {})}.items()]
        run = ["env", "-i", *inside, "sh", "-c", f"cd {shlex.quote(self.cwd)} && exec {shlex.join(command)}"]
        return subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", CHROOT, "sh", *run],
            env=names,
            text=True,
            start_new_session=True,
            **options,
        )

    def run(self, command: list[str], env: dict[str, str] | None = None, timeout: float = 900) -> str:
        """As `start`; what it printed.

        Raises
        ------
        AssertionError
            If it fails.
        """
        process = self.start(command, env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        printed, _ = process.communicate(timeout=timeout)
        assert process.returncode == 0, f"{shlex.join(command)}\nended with {process.returncode}\n{printed}"
        return printed


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and what they are given, on one line each."""
    lines = [line for line in dockerfile.read_text().splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.split(None, 1)[0], " ".join(line.split(None, 1)[1].split())) for line in joined.splitlines()]


def build(dockerfile: Path, context: Path, folder: Path) -> Layer:
    """Carry out a Dockerfile; the image that it ends with."""
    stages: dict[str, Layer] = {}
    stage: Layer | None = None
    for word, given in instructions(dockerfile):
        if word == "FROM":
            image, _, name = given.partition(" AS ")
            assert "@" in image or ":" in image, f"{image} is not pinned"
            stage = Layer(folder / f"stage-{len(stages)}")
            stages[name or str(len(stages))] = stage
            _as_base_image(stage)
            continue
        assert stage is not None
        if word == "WORKDIR":
            stage.cwd = given
            stage.at(".").mkdir(parents=True, exist_ok=True)
        elif word == "COPY":
            _copy(stage, given.split(), stages, context)
        elif word == "RUN":
            settings = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            stage.run(["sh", "-ec", given], settings)
        elif word == "ENV":
            stage.env |= dict(pair.split("=", 1) for pair in shlex.split(given))
        elif word == "USER":
            stage.user = given
        elif word == "HEALTHCHECK":
            stage.health = json.loads(given.partition("CMD ")[2])
        elif word in {"ENTRYPOINT", "CMD"}:
            setattr(stage, word.lower(), json.loads(given))
        else:
            raise AssertionError(f"{word} has no meaning here: add it")
    assert stage is not None
    return stage


def _as_base_image(stage: Layer) -> None:
    """What the image of Python has and this machine has elsewhere: ``python`` on the path, readable by all."""
    real = os.path.realpath(sys.executable)
    folders = [str(folder) for folder in Path(real).parents if folder.stat().st_mode & 0o5 != 0o5]
    stage.run(["sh", "-ec", f"chmod o+rx {shlex.join(folders)}"] if folders else ["true"])
    # A link would not do: an environment takes the folder of a link for the home of its Python.
    program = stage.files / "usr" / "local" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(real)} "$@"\n')
    program.chmod(0o755)


def _copy(stage: Layer, words: list[str], stages: dict[str, Layer], context: Path) -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
    *sources, target = [word for word in words if not word.startswith("--")]
    assert set(options) <= {"from"}, options
    for source in sources:
        path = stages[options["from"]].at(source) if "from" in options else context / source
        inside = target.endswith(("/", ".")) or len(sources) > 1
        to = stage.at(target) / path.name if inside else stage.at(target)
        to.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            shutil.copytree(path, to, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(path, to)
