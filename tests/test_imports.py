"""What an import loads, and what a wheel holds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
HEAVY = {
    "cupy", "cyclopts", "duckdb", "lark", "llvmlite", "numba", "pandas", "polars", "pyarrow", "pyspark", "rich",
    "scipy", "sqlglot",
}  # fmt: skip


def modules_after(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.split())


def packages(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_import_loads_numpy_and_nothing_heavier():
    assert packages(modules_after("import gpu_wcoj")) & HEAVY == set()


def test_import_adds_few_modules_to_numpy():
    added = modules_after("import gpu_wcoj") - modules_after("import numpy")
    ours = {name for name in added if name.startswith("gpu_wcoj")}
    assert len(ours) <= 92  # about as much processor time as NumPy's own import
    assert len(added - ours) <= 40


def test_fallback_knows_nothing_of_the_engine():
    found = packages(modules_after("import cpu_fallback; cpu_fallback.load_kernels()"))
    assert "cpu_fallback" in found
    assert "gpu_wcoj" not in found


def test_public_names_all_resolve():
    code = "import gpu_wcoj as gw; print(all(getattr(gw, name) is not None for name in gw.__all__), len(gw.__all__))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    everything, number = done.stdout.split()
    assert everything == "True"
    assert int(number) > 0


def test_wheel_holds_both_packages_and_every_data_file(tmp_path):
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("gpu_wcoj-*-py3-none-any.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {
        path.relative_to(ROOT).as_posix()
        for package in ("gpu_wcoj", "cpu_fallback")
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".typed", ".lark", ".cu", ".cuh"}
    }
    assert {"gpu_wcoj/py.typed", "cpu_fallback/py.typed", "gpu_wcoj/query/datalog.lark"} <= wanted
    assert names == wanted
