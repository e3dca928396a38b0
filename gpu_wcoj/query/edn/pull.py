"""Reader of the patterns of ``pull``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpu_wcoj.errors import UsageError, nearest
from gpu_wcoj.query.edn.ast import PulledAttribute, PullPattern, Text, forward_attribute
from gpu_wcoj.query.edn.reader import Form, read, to_form, to_python

OPTIONS = (":as", ":limit", ":default")
"""Options of an attribute, each with a value after it."""
EXAMPLE = "[:name {:friend [:name]}]"
MAX_NESTING = 30
"""Maximum levels of nested patterns."""


def parse_pattern(pattern: Any) -> PullPattern:
    """Read a pattern of EDN text, or of the same as Python data.

    Raises
    ------
    EdnSyntaxError, UnsupportedError, UsageError
        If it is invalid.

    Examples
    --------
    >>> found = parse_pattern("[* {:friend [:name]}]")
    >>> found.is_all, found.attributes[0].key, found.attributes[0].pattern.attributes[0].name
    (True, ':friend', ':name')
    """
    if isinstance(pattern, str):
        return read_pattern(Text(pattern, "<text>"), read(pattern))
    try:
        return read_pattern(Text("", "<text>"), to_form(pattern))
    except ValueError as error:
        raise UsageError(f"a pattern cannot be read: {error}.") from None


def read_pattern(text: Text, form: Form, depth: int = 0) -> PullPattern:
    """Read a pattern of a form of `text`."""
    if form.kind != "vector" or not form.value:
        raise text.error(f"a pattern is a vector of attributes, as {EXAMPLE}: got '{form}'", form.span)
    if depth > MAX_NESTING:
        raise text.error(f"patterns nest more than {MAX_NESTING} deep", form.span)
    attributes: list[PulledAttribute] = []
    is_all = False
    for item in form.value:
        if _is_word(item, "*"):
            is_all = True
        elif item.kind == "map":
            for key, inner in zip(item.value[::2], item.value[1::2], strict=True):
                attributes.append(_with_inner(text, key, inner, depth))
        else:
            attributes.append(PulledAttribute(**_settings(text, item)))
    return PullPattern(tuple(attributes), is_all)


def _is_word(form: Form, word: str) -> bool:
    return form.kind in ("symbol", "string") and form.value == word


def _with_inner(text: Text, key: Form, inner: Form, depth: int) -> PulledAttribute:
    """Return an attribute with what is read of the entities that it refers to."""
    settings = _settings(text, key)
    if _is_word(inner, "..."):
        return PulledAttribute(**settings, depth=None)
    if inner.kind == "int":
        if inner.value < 1:
            raise text.error(f"a pattern is applied at least once: got {inner.value}", inner.span)
        return PulledAttribute(**settings, depth=inner.value)
    return PulledAttribute(**settings, pattern=read_pattern(text, inner, depth + 1))


def _settings(text: Text, form: Form) -> dict[str, Any]:
    """Return an attribute and its options: ``:a``, ``[:a :limit 2 :as "b"]``, ``(limit :a 2)``."""
    name, options = form, list[tuple[str, Form, Form]]()
    if form.is_sequence and form.value:
        name, *parts = form.value
        if name.kind == "symbol" and len(parts) == 2:
            (name, value), word = parts, f":{name.value}"
            parts = [Form("keyword", word, form.value[0].span), value]
        options = _options(text, form, parts)
    if name.kind != "keyword":
        what = f"expected an attribute, as in {EXAMPLE}, got '{form}'"
        raise text.error(what, form.span)
    forward = forward_attribute(name.value)
    settings: dict[str, Any] = {"name": forward or name.value, "is_reverse": forward is not None, "key": name.value}
    for option, _, value in options:
        if option == ":as" and value.kind not in ("keyword", "string", "symbol", "int"):
            raise text.error(f"':as' takes a name: got '{value}'", value.span)
        if option == ":limit" and (value.kind not in ("int", "nil") or (value.kind == "int" and value.value < 1)):
            raise text.error(f"':limit' takes a number of values, or nil for all: got '{value}'", value.span)
        settings["key" if option == ":as" else option[1:]] = to_python(value)
    return settings


def _options(text: Text, form: Form, parts: Sequence[Form]) -> list[tuple[str, Form, Form]]:
    if len(parts) % 2:
        raise text.error(f"an option has a value after it, as in [:name :as \"n\"]: got '{form}'", form.span)
    options = [(str(key.value), key, value) for key, value in zip(parts[::2], parts[1::2], strict=True)]
    for option, key, _ in options:
        if option not in OPTIONS:
            what = f"the option '{key}' of an attribute is not supported: expected one of {', '.join(OPTIONS)}"
            raise text.unsupported(f"{what}.{nearest(option, OPTIONS)}", key.span)
    return options
