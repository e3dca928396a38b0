"""Every snippet of the documentation is run, and prints what its page says.

A ``text`` block right after a snippet is its output; ``...`` in it stands for anything. The Python snippets of a page
share one namespace and its shell snippets one folder, in the order of the page; pages do not depend on each other.
Datalog snippets are programs. SQL snippets are views over the relations that ``<!-- relations: r(a: int64); ... -->``
above them declares. A snippet under ``<!-- not run: why -->`` is skipped, one under ``<!-- needs a GPU -->`` runs where
there is one, one under ``<!-- needs Spark -->`` in a process of its own.
"""

from __future__ import annotations

import contextlib
import doctest
import inspect
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import gpu_wcoj as gw
from gpu_wcoj.kernels.cuda import detect

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROSE = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "bench" / "README.md"]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMMENT = re.compile(r"<!-- ([^>]+) -->\n$")
RELATION = re.compile(r"(\w+)\(([^)]*)\)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
CHECKER = doctest.OutputChecker()
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Snippet:
    page: Path
    language: str
    code: str
    output: str | None
    comment: str
    """The text of the HTML comment right above the snippet, or nothing."""

    @property
    def is_run(self) -> bool:
        return not self.comment.startswith("not run: ")


def snippets(*pages: Path) -> list[Snippet]:
    result = []
    for page in pages or PAGES:
        text = page.read_text()
        blocks = list(FENCE.finditer(text))
        for i, block in enumerate(blocks):
            following = blocks[i + 1] if i + 1 < len(blocks) else None
            printed = following and following[1] == "text" and not text[block.end() : following.start()].strip()
            comment = COMMENT.search(text[: block.start()])
            output = following[2] if following and printed else None
            result.append(Snippet(page, block[1], block[2], output, comment[1] if comment else ""))
    return result


def snippets_in(language: str, *pages: Path) -> list[Snippet]:
    chosen = [snippet for snippet in snippets(*pages) if snippet.language == language and snippet.is_run]
    return [snippet for snippet in chosen if not snippet.comment.startswith("needs ")]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if snippets_in(language, page)]


def name_of(page: Path) -> str:
    return page.name


def assert_prints(snippet: Snippet, printed: str) -> None:
    if snippet.output is not None:
        is_equal = CHECKER.check_output(snippet.output, printed, FLAGS)
        assert is_equal, f"{snippet.code}\nof {snippet.page.name} printed\n{printed}\ninstead of\n{snippet.output}"


def run_python(snippet: Snippet, namespace: dict[str, object]) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(snippet.code, snippet.page.name, "exec"), namespace)
    assert_prints(snippet, printed.getvalue())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_code_block_is_run_or_says_why_not(page: Path):
    assert {snippet.language for snippet in snippets(page) if snippet.is_run} <= {
        "python", "sh", "datalog", "sql", "text", "",
    }  # fmt: skip
    outputs = [snippet.code for snippet in snippets(page) if snippet.language == "text"]
    assert outputs == [snippet.output for snippet in snippets(page) if snippet.output is not None]


def test_there_are_snippets_of_every_kind():
    assert len(snippets_in("python")) > 10
    assert len(snippets_in("sh", ROOT / "docs" / "command-line.md")) == 3
    assert snippets_in("datalog")
    assert snippets_in("sql")


@pytest.mark.parametrize("page", pages_with("python"), ids=name_of)
def test_python_snippets(page: Path):
    namespace: dict[str, object] = {"__name__": "page"}
    for snippet in snippets_in("python", page):
        run_python(snippet, namespace)


def test_gpu_snippets():
    chosen = [snippet for snippet in snippets() if snippet.comment == "needs a GPU"]
    assert chosen
    if detect.count_driver_devices() == 0 or not detect.has_cupy():
        pytest.skip("these snippets need an NVIDIA GPU and CuPy")
    namespace: dict[str, object] = {"__name__": "page"}
    for snippet in chosen:
        run_python(snippet, namespace)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.xdist_group("spark")
def test_spark_snippets(tmp_path: Path):
    pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'gpu_wcoj[spark]'")
    from gpu_wcoj.errors import JavaNotFoundError
    from gpu_wcoj.spark.session import find_java

    try:
        find_java()
    except JavaNotFoundError as error:
        pytest.skip(str(error).splitlines()[0])
    chosen = [snippet for snippet in snippets() if snippet.comment == "needs Spark"]
    assert chosen
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    for snippet in chosen:
        command = [sys.executable, "-c", snippet.code]
        completed = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
        )
        assert completed.returncode == 0, f"{snippet.code}\nended with {completed.returncode}\n{completed.stderr}"
        assert_prints(snippet, completed.stdout)


@pytest.mark.parametrize("page", pages_with("sh"), ids=name_of)
def test_shell_snippets(page: Path, tmp_path: Path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120"}
    for snippet in snippets_in("sh", page):
        command = ["bash", "-euo", "pipefail", "-c", snippet.code]
        completed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert completed.returncode == 0, f"{snippet.code}\nended with {completed.returncode}\n{completed.stderr}"
        assert_prints(snippet, completed.stdout)


@pytest.mark.parametrize("page", pages_with("datalog"), ids=name_of)
def test_datalog_snippets(page: Path):
    for snippet in snippets_in("datalog", page):
        gw.Program(snippet.code)


@pytest.mark.parametrize("page", pages_with("sql"), ids=name_of)
def test_sql_snippets(page: Path):
    pytest.importorskip("sqlglot", reason="sqlglot is not installed: pip install 'gpu_wcoj[sql]'")
    for snippet in snippets_in("sql", page):
        assert snippet.comment.startswith("relations: ")
        schema = {
            name: dict(column.strip().split(": ") for column in columns.split(","))
            for name, columns in RELATION.findall(snippet.comment)
        }
        gw.view(snippet.code, schema=schema, outputs=re.findall(r"CREATE VIEW (\w+)", snippet.code) or None)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PROSE, ids=lambda page: f"{page.parent.name}-{page.name}")
def test_links_lead_somewhere(page: Path):
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_the_index_lists_every_page():
    listed = set(LINK.findall((ROOT / "docs" / "index.md").read_text()))
    assert {page.name for page in PAGES if page.parent.name == "docs"} - {"index.md"} <= listed


@pytest.mark.parametrize("module", ["gpu_wcoj", "gpu_wcoj.streams", "gpu_wcoj.datoms"])
def test_the_page_of_public_names_is_complete(module: str):
    text = (ROOT / "docs" / "api.md").read_text()
    __import__(module)
    names = sys.modules[module].__all__
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_page_on_errors_lists_every_class():
    text = (ROOT / "docs" / "errors.md").read_text()
    public = [name for name in dir(gw.errors) if name.endswith(("Error", "Warning"))]
    assert [name for name in public if name not in text] == []


def public_names() -> list[tuple[object, str]]:
    """The classes and functions of docs/api.md, each with the name that a message has; without those of Spark."""
    owners = {
        "`gpu_wcoj`": [gw], "`Program`": [gw.Program], "`gw.streams`": [gw.streams], "`gw.datoms`": [gw.datoms],
        "`gw.datasets`": [gw.datasets],
        "`Maintained`": [gw.View, gw.MultiView, gw.MotifView, gw.Connection, gw.Matcher],
        "`Updatable`": [gw.View, gw.MultiView, gw.MotifView, gw.Connection, gw.Matcher],
    }  # fmt: skip
    found = []
    for section in re.split(r"^## ", (ROOT / "docs/api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        owned = next((owned for title, owned in owners.items() if section.startswith(title)), [])
        for row in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE):
            for name in re.findall(r"`(\w+)`", row):
                for owner in owned:
                    member = inspect.getattr_static(owner, name) if inspect.isclass(owner) else getattr(owner, name)
                    member = member.__func__ if isinstance(member, classmethod) else member
                    if callable(member) and not (inspect.isclass(member) and issubclass(member, BaseException)):
                        found.append((member, f"{owner.__name__}.{name}"))
    return found


def test_public_names_have_examples():
    """Interfaces and bases have none of their own."""
    bases = {
        "gpu_wcoj.Updatable",
        "gpu_wcoj.streams.Aggregator",
        "gpu_wcoj.streams.Trace",
        "gpu_wcoj.streams.TimedTrace",
    }
    names = public_names()
    assert len(names) > 90
    assert {called for member, called in names if ">>>" not in (inspect.getdoc(member) or "")} == bases
