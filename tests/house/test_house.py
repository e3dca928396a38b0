"""The house checks fire on small sources, and only where they have to."""

from __future__ import annotations

import textwrap

import pytest

from tests.house import modules, names, prose
from tests.house.checks import CHECKS, as_toml, growing, problems
from tests.house.sources import Module, Sources

LONG = "x = 1\n" * modules.MIN_LINES


def sources(pages=None, **texts):
    """Modules of `gpu_wcoj` by name; ``_`` stands for a dot, and a name with a last ``_`` is a package."""
    found = {"gpu_wcoj": Module("gpu_wcoj", "", is_package=True)}
    for key, text in texts.items():
        name = f"gpu_wcoj.{key.strip('_').replace('_', '.')}"
        found[name] = Module(name, textwrap.dedent(text), is_package=key.endswith("_"))
    return Sources(found, pages or {})


def addresses(check, *args, **texts):
    return [one.address.removeprefix("gpu_wcoj.") for one in check(sources(*args, **texts))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def kept(): ...", ["m:kept"]),
        ("def _kept(): ...", ["m:_kept"]),
        ("def kept_rows(): ...", []),
        ("class Held: ...", ["m:Held"]),
        ("def f(found, *, of, rows): ...", ["m:f(found)", "m:f(of)"]),
        ("class A:\n  def f(self, most_rows): ...", ["m:A.f(most_rows)"]),
        ("class A:\n  def __eq__(self, other): ...", []),
        ("MOST_ROWS = 1\nMAX_ROWS = 2\n_OWN = 3", ["m:MOST_ROWS"]),
        ("class A:\n  last: int\n  _last: int\n  last_tick: int", ["m:A.last"]),
        ("class A:\n  def __init__(self):\n    self.whole = self._whole = 1", ["m:A.whole"]),
        ("def f():\n  found = 1\n  for one in (): ...", []),
    ],
)
def test_banned_names(text, expected):
    assert addresses(names.banned_names, m=text) == expected


def test_banned_names_of_modules():
    assert addresses(names.banned_names, held="", a_known="", trace="") == ["held", "a.known"]


def test_many_parameters():
    ten = ", ".join(f"p{number}" for number in range(10))
    text = f"class A:\n  def f(self, {ten}): ...\ndef g({ten}, *, more): ...\ndef h({ten}, *args, **options): ..."
    assert addresses(names.many_parameters, m=text) == ["m:g"]


@pytest.mark.parametrize(
    ("line", "fires"), [("What it is.", True), ("Whether.", True), ("Return what it is.", False), ("Offsets.", False)]
)
def test_first_words_of_docstrings(line, fires):
    text = f'class A:\n  def f(self):\n    """{line}"""\n'
    assert addresses(prose.first_words, m=text) == (["m:A.f"] if fires else [])
    assert addresses(prose.first_words, m=f'"""{line}"""') == (["m"] if fires else [])


def test_lengths_of_first_lines():
    assert addresses(prose.first_lengths, m=f'"""{"a" * 91}"""') == ["m"]
    assert addresses(prose.first_lengths, m=f'"""{"a" * 90}\n\n{"a" * 99}\n"""') == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N = 5", ["m:N"]),
        ("N = 5  # rows", ["m:N"]),
        ("N: int = 1 << 20\n'''The largest.'''", ["m:N"]),
        ("N = -5\n'''Rows of a batch.'''", []),
        ("A = 1\nB = 2\n'''Both in seconds.'''", []),
        ("A = 1\n\nB = 2\n'''In seconds.'''", ["m:A"]),
        ("T = 'text'\nFLAG = True\nA, B = range(2)\nn = 1\ndef f():\n  N = 5", []),
    ],
)
def test_units_of_constants(text, expected):
    assert addresses(prose.units, m=text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x):\n  raise ValueError(f'{x} is no graph')", ["m:f"]),
        ("def f(x):\n  return f'this is no {x}'", ["m:f"]),
        ("T = 'it is nothing; there is no table'", []),
        ("'''What is no table.'''", []),
    ],
)
def test_is_no(text, expected):
    assert addresses(prose.is_no, m=text) == expected


def test_long_paragraphs():
    long = "These words make a long text. " + "word " * 140
    assert addresses(prose.long_paragraphs, {"a.md": long}) == ["a.md:These words make a long text."]
    short = "word " * 100
    tables = "| cell " * 200
    for text in (f"{short}\n\n{short}", f"- {short}\n- {short}", f"```\n{long}\n```\n{short}", f"{tables}\n{short}"):
        assert addresses(prose.long_paragraphs, {"a.md": text}) == []
    assert len(addresses(prose.long_paragraphs, {"a.md": f"{short}\n{short}"})) == 1


def test_single_importers():
    only_a = {"a": "from gpu_wcoj import x", "b": "", "x": ""}
    assert addresses(modules.single_importers, **only_a) == ["x"]
    assert addresses(modules.single_importers, **only_a | {"b": "def f():\n  import gpu_wcoj.x"}) == []
    facade = {"p_": "from gpu_wcoj.p.x import f", "p_x": "def f(): ..."}
    assert addresses(modules.single_importers, **facade) == []
    through = facade | {"a": "from gpu_wcoj.p import f"}
    assert addresses(modules.single_importers, **through) == []
    itself = {"p_": "from gpu_wcoj.p.x import f\ndef g(): ...", "p_x": "def f(): ..."}
    assert addresses(modules.single_importers, **itself) == ["p.x"]


def test_short_files():
    facade = '"""Doc."""\nfrom gpu_wcoj.a import x\n__all__ = ["x"]\n'
    assert addresses(modules.short_files, a=LONG, b="x = 1", p_=facade, q_=facade + "y = 1") == ["b", "q"]


def test_hidden_imports():
    text = """
        import numpy
        from gpu_wcoj.b import top
        from typing import TYPE_CHECKING
        if TYPE_CHECKING:
            from gpu_wcoj.b import T
            import pandas
        class A:
            def f(self):
                import pyarrow
                from gpu_wcoj import b
    """
    expected = ["a:TYPE_CHECKING imports gpu_wcoj.b", "a:A.f imports gpu_wcoj.b"]
    assert addresses(modules.hidden_imports, a=text, b="") == expected


def test_circles():
    one_way = {"a": "import gpu_wcoj.b", "b": "import gpu_wcoj.c", "c": ""}
    assert addresses(modules.circles, **one_way) == []
    local = one_way | {"c": "def f():\n  from gpu_wcoj import a"}
    assert addresses(modules.circles, **local) == ["a", "b", "c"]
    typed = one_way | {"b": "import gpu_wcoj.c\nif TYPE_CHECKING:\n  from gpu_wcoj.a import A"}
    assert addresses(modules.circles, **typed) == ["a", "b"]
    assert modules.components({"a": {"b"}, "b": {"a", "c"}, "c": {"d"}, "d": {"c"}}) == [{"c", "d"}, {"a", "b"}]


def test_public_names():
    assert addresses(modules.public_names) == []


def test_exceptions():
    found = {"a": {"m:f": "rename it"}, "b": {}}
    assert list(problems(found, {"a": ["m:f"], "b": []})) == []
    assert list(problems(found, {})) == ["a: m:f: rename it"]
    (gone,) = problems(found, {"a": ["m:f"], "b": ["m:g"]})
    assert gone.startswith("b: m:g: no longer occurs; remove it from the list")
    assert growing(found, {"a": ["m:other"]}) == []
    assert growing(found, {"b": ["m:g"]}) == ["a"]


def test_comments_of_exceptions_are_kept():
    text = as_toml({"a": {"m:f": "", 'n:"g"': ""}, "b": {}}).replace('"m:f",', '"m:f",  # a border')
    again = as_toml({"a": {"m:f": "", "m:h": ""}, "b": {}}, text)
    assert '  "m:f",  # a border\n  "m:h",\n' in again
    assert "b = []" in again


def test_every_check_says_what_to_do():
    assert all(check.__doc__ for check in CHECKS.values())
