"""What an import loads, and what a wheel holds."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import gpu_wcoj

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


def test_a_program_of_python_rows_loads_no_formats_of_files():
    modules = modules_after("import gpu_wcoj; gpu_wcoj.Program('h(a) :- e(a, b).').step({'e': [(1, 2)]})")
    assert modules & {"pyarrow.csv", "pyarrow.fs", "pyarrow.parquet", "gpu_wcoj.files.reader"} == set()


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


@pytest.mark.parametrize("name", ["", ".checkpoint", ".datoms", ".spark", ".streams"])
def test_dir_shows_public_names_and_no_modules_that_happen_to_be_loaded(name):
    code = "import gpu_wcoj as gw, importlib, gpu_wcoj.units, gpu_wcoj.locks, gpu_wcoj.streams.operator\n"
    code += f"module = importlib.import_module('gpu_wcoj{name}')\n"
    code += "print({one for one in dir(module) if not one.startswith('__')} ^ set(module.__all__), gw.units.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["set()", "gpu_wcoj.units"]


def test_public_modules_are_loaded_when_they_are_asked_for():
    code = (
        "import gpu_wcoj as gw; print(len(gw.datasets.rmat(3, 5)), gw.spark.__name__, gw.errors.ColumnError.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["5", "gpu_wcoj.spark", "ColumnError"]
    assert {"gpu_wcoj.datasets", "gpu_wcoj.spark", "gpu_wcoj.datoms"} & modules_after("import gpu_wcoj") == set()


def test_a_name_that_is_not_there_is_refused_with_the_nearest():
    with pytest.raises(AttributeError, match=r"'gpu_wcoj' has no attribute 'veiw'\. Did you mean 'view'\?"):
        getattr(gpu_wcoj, "veiw")  # noqa: B009


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
