"""The CUDA C++ sources, each as one text with the package's headers inserted.

A compiled source is cached by its text, so its headers have to be part of it.
"""

from __future__ import annotations

import functools
import re
from importlib.resources import files
from importlib.resources.abc import Traversable

_INCLUDE = re.compile(r'^[ \t]*#include "([\w]+\.cuh)"[^\n]*$', re.MULTILINE)

SOURCES = ("rows", "sums", "tries", "choosing", "merge", "plan", "extend", "alone")
"""Names of the source files with kernels, without suffix."""


@functools.cache
def source_text(name: str, folder: Traversable | None = None) -> str:
    """Return the file ``name.cu`` with each of the package's headers inserted once.

    `folder` is the folder of the file if it is not in the package.

    Examples
    --------
    >>> '#include "' in source_text("rows")
    False
    """
    place = files("gpu_wcoj.kernels.cuda") if folder is None else folder
    seen: set[str] = set()

    def expand(file_name: str) -> str:
        text = (place / file_name).read_text(encoding="utf-8")

        def put(match: re.Match[str]) -> str:
            header = match[1]
            if header in seen:
                return ""
            seen.add(header)
            line = text.count("\n", 0, match.start()) + 2
            return f'#line 1 "{header}"\n{expand(header)}\n#line {line} "{file_name}"'

        return _INCLUDE.sub(put, text)

    return f'#line 1 "{name}.cu"\n{expand(f"{name}.cu")}'
