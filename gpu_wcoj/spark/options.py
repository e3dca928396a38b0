"""Options of a view or a query on Spark: what a call leaves out, the session's confs set."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from gpu_wcoj.engine.options import ProgramOptions, validate_integer
from gpu_wcoj.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Layout = Literal["one", "auto", "hypercube", "replicated"]

LAYOUTS: Final[tuple[Layout, ...]] = get_args(Layout)
"""The names of layouts."""

Format: TypeAlias = Literal[
    "auto", "append", "weight", "sign", "op", "debezium", "delta_cdf", "iceberg", "flink", "risingwave"
]
"""Formats of change data by name; ``"auto"`` detects the format by the columns."""

ADAPTS_FROM: Final = 100_000
"""Rows of a cell below which heavy values are not searched for: their imbalance costs no noticeable time."""

BATCH_ROWS: Final = 2_000_000
"""Rows of a batch above which the log advises how to make batches smaller."""

PREFIX: Final = "spark.gpuWcoj."
"""The beginning of the names of confs."""

PROGRAM_CONFS: Final = ("backend", "threads", "gpu_memory")
"""The options of a program that have a conf: those that depend on the machines, not on the program."""

_FOREIGN: Final = ("cells.", "gpu.", "rapids.", "checkpoint.")
"""Beginnings of confs that other parts of the package, or of a deployment, may set."""


def _layout(option: str, value: object) -> Layout:
    for name in LAYOUTS:
        if name == value:
            return name
    raise UsageError.unknown_name(option, str(value), LAYOUTS)


def _integer(option: str, value: int | str | None, default: int | None = None) -> int | None:
    """Return an integer from 1 on, also from the text of a conf; None stands for the default."""
    is_number = isinstance(value, str) and value.isascii() and value.isdigit()
    return validate_integer(option, int(value) if is_number and value is not None else value) or default


def _integer_or_off(option: str, value: int | str | None) -> int | None:
    return None if value == "off" else _integer(option, value)


def _conf(name: str, validate: Callable[[str, Any], object]) -> dict[str, Any]:
    return {"conf": name, "validate": validate}


@dataclass(frozen=True)
class SparkOptions:
    """Options that a call may leave to the session; all but the last have a conf each.

    Attributes
    ----------
    layout
        Distribution of the work: one engine in the driver, or engines in cells.
    cells
        Number of cells over which the state is distributed; None to choose it.
    adapts_from
        Rows of a cell from which on new heavy values are searched for; None for never, which the conf calls ``off``.
    batch_rows
        Rows of a batch above which the log names options that make batches smaller.
    program
        Options of the program; those in `PROGRAM_CONFS` have confs.
    """

    layout: Layout = field(default="one", metadata=_conf("layout", _layout))
    cells: int | None = field(default=None, metadata=_conf("cells", _integer))
    adapts_from: int | None = field(default=ADAPTS_FROM, metadata=_conf("cells.adapt", _integer_or_off))
    batch_rows: int = field(default=BATCH_ROWS, metadata=_conf("batchRows", partial(_integer, default=BATCH_ROWS)))
    program: ProgramOptions = field(default_factory=ProgramOptions)

    def __post_init__(self) -> None:
        for declared in fields(self):
            if "conf" in declared.metadata:
                value = declared.metadata["validate"](declared.name, getattr(self, declared.name))
                object.__setattr__(self, declared.name, value)

    @classmethod
    def from_session(cls, session: SparkSession, call: Mapping[str, Any], layout: Layout = "one") -> SparkOptions:
        """Return the options of a call, those that it leaves out as the session's confs have them.

        Parameters
        ----------
        call
            Options by name, of this record and of the program; None for those that are left out.
        layout
            The default layout.

        Raises
        ------
        UsageError
            If an option or a conf has a value that is not allowed, a conf is unknown, or a call passes `cells` for a
            layout without cells.
        """
        passed = {name: value for name, value in call.items() if value is not None}
        values = {"layout": layout, **_conf_values(session), **passed}
        names = {declared.name for declared in fields(cls)}
        program = ProgramOptions(**{name: value for name, value in values.items() if name not in names})
        options = cls(**{name: value for name, value in values.items() if name in names}, program=program)
        if options.layout == "one" and "cells" in passed:
            raise UsageError.conflict(
                f"cells={options.cells}", "layout='one'", "Pass layout='hypercube', 'replicated' or 'auto', too.",
                "one engine has no cells",
            )  # fmt: skip
        return options


def _camel_case(name: str) -> str:
    first, *more = name.split("_")
    return first + "".join(map(str.title, more))


CONFS: Final[Mapping[str, str]] = {
    **{_camel_case(name): name for name in PROGRAM_CONFS},
    **{declared.metadata["conf"]: declared.name for declared in fields(SparkOptions) if "conf" in declared.metadata},
}
"""The option of each conf, by its name after `PREFIX`."""


def _conf_values(session: SparkSession) -> dict[str, Any]:
    """Return the options that the session's confs set.

    Raises
    ------
    UsageError
        If there is an unknown conf with our prefix, or one with a value that is not allowed.
    """
    jvm_session: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]  # PySpark asks for every value alone
    confs = str(jvm_session.conf().getAll().mkString("\0"))  # those of the context are among them
    values: dict[str, Any] = {}
    for conf in confs.split("\0"):
        key, _, text = conf.partition(" -> ")
        name = key.removeprefix(PREFIX)
        if name in CONFS and name != key:
            option = CONFS[name]
            if option in PROGRAM_CONFS:
                values[option] = ProgramOptions.parse(option, text, key)
            else:
                values[option] = SparkOptions.__dataclass_fields__[option].metadata["validate"](key, text)
        elif name != key and not name.startswith(_FOREIGN):
            raise UsageError.unknown_name("conf", key, [PREFIX + conf for conf in CONFS])
    return values
