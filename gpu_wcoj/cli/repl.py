"""The command ``gpu-wcoj repl``: facts, rules and queries, one after the other."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from gpu_wcoj import __version__
from gpu_wcoj.cli.answers import TABLE_ROWS, check_limit, print_rows
from gpu_wcoj.cli.source import inputs_of, parse_files
from gpu_wcoj.data.rows import Row
from gpu_wcoj.engine.options import ProgramOptions
from gpu_wcoj.errors import ArityError, GpuWcojError, SchemaError, UnknownRelationError, UsageError, counted
from gpu_wcoj.files.formats import open_bytes
from gpu_wcoj.files.reader import as_declared, columns_of, read_table
from gpu_wcoj.files.record_batch import memory_budget
from gpu_wcoj.files.spec import InputSpec, files_of_text
from gpu_wcoj.one_shot import query
from gpu_wcoj.program import Program
from gpu_wcoj.query.check import check
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.ir import Constant, Declaration, Directive, Rules
from gpu_wcoj.query.languages import language_of
from gpu_wcoj.result import Result

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

HELP: Final = """\
edge(1, 2). edge(2, 3).          insert facts; -edge(1, 2). deletes
hop(a, c) :- edge(a, b), edge(b, c).    add a rule, and keep its answer up to date
?- hop(1, c).                    ask once; also: select * from edge;
.load edge=PATH                  insert the rows of a file; also: select * from 'edge.csv';
.decl edge(a: number, b: number) declare the types of columns
.input edge(filename="edge.csv") insert the rows of a file, as in Soufflé
.show NAME [ROWS]                print a relation
.list                            list relations and rules
.drop NAME                       drop the rules of a relation
.explain                         print the plan
.limit ROWS                      print at most as many rows
.quit                            end, as Ctrl-D does"""

_COMMANDS: Final = (".load", ".show", ".list", ".drop", ".explain", ".limit", ".help", ".quit")
_LINE: Final = re.compile(r"\.(?:decl|input)\s+([\w.]+)[^\n]*(?<![.;])\Z")
"""A line that declares a relation, or names its file, by itself."""
_DIRECTIVE: Final = re.compile(r"\.(?:decl|input|output|type|comp|init|printsize|limitsize|test|pragma|plan)\b")
_END: Final = re.compile(r"[.;]\s*(?:(?://|%).*)?$")


class Repl:
    """One state, changed and asked by statements.

    Parameters
    ----------
    write
        Takes the lines of text to print.
    limit
        Maximum rows of an answer that are printed.

    Examples
    --------
    >>> repl = Repl(print)
    >>> repl.run("edge(1, 2). edge(2, 3).")
    edge: 2 rows inserted
    >>> repl.run("-edge(1, 2).")
    edge: 1 row deleted
    """

    def __init__(self, write: Callable[[str], Any], limit: int = TABLE_ROWS) -> None:
        self._write = write
        self._limit = limit
        self._rules: list[Rules] = []
        self._columns: dict[str, tuple[str, ...]] = {}
        self._declared: dict[str, tuple[str, Declaration]] = {}
        self._program: Program | None = None
        self.is_over = False

    @property
    def relations(self) -> list[str]:
        """The names of all relations."""
        heads = () if self._program is None else self._program.heads
        return list(dict.fromkeys([*self._columns, *heads]))

    def run(self, statement: str) -> None:
        """Carry out a statement.

        Raises
        ------
        GpuWcojError
            If it cannot be; the state is as before.
        """
        text = statement.strip()
        if not text:
            return
        if _LINE.match(text):
            self._read_line(text)
        elif text.startswith(".") and not _DIRECTIVE.match(text):
            self._command(text)
        elif text.startswith("?-"):
            self._ask(text[2:].strip())
        elif text.startswith("-"):
            self._read(text[1:], -1)
        elif text.endswith(";") or language_of(text) == "sql":
            self._ask_in_sql(text.rstrip("; "))
        else:
            self._read(text, 1)

    def load(self, relation: str, table: Any, columns: Sequence[str]) -> None:
        """Insert the rows of a table."""
        self._declare({relation: tuple(columns)})
        self._step({relation: table})

    # Rules and facts.

    def _read_line(self, text: str) -> None:
        """Declare a relation, or insert the rows of the file that an ``.input`` line names."""
        found = _LINE.match(text)
        assert found is not None
        name, before = found[1], self._declared.get(found[1], ("", None))[0]
        rules = _with_any_arity(f"{before}\n{text}" if text.startswith(".input") else text, name)
        for declaration in rules.declarations:
            if text.startswith(".decl") and name in self.relations:
                raise UsageError.duplicate("the relation", name, remedy="Give it another name.")
            self._declared[name] = text, declaration
            self._declare({name: declaration.columns})
        self._load_inputs(rules)

    def _load_inputs(self, rules: Rules) -> None:
        """Insert the rows of the files that ``.input`` lines name."""
        for spec in inputs_of(rules, Path(), ()):
            declaration = next((one for one in rules.declarations if one.relation == spec.relation), None)
            table = _named_table(spec)
            self.load(
                spec.relation,
                table if declaration is None else as_declared(table, spec, declaration.types),
                table.column_names if declaration is None else declaration.columns,
            )

    def _read(self, text: str, sign: int) -> None:
        rules = parse(text)
        facts: dict[str, list[tuple[Row, int]]] = {}
        proper = []
        for rule in rules.rules:
            terms = rule.head.terms
            values = [term.value for term in terms if isinstance(term, Constant)]
            if rule.atoms or rule.negated or rule.comparisons or len(values) < len(terms):
                proper.append(rule)
            else:
                facts.setdefault(rule.head.relation, []).append((tuple(values), sign))
        if sign < 0 and (proper or not facts):
            raise UsageError.with_parts("'-' deletes facts", got=text, remedy="Write -edge(1, 2). or .drop NAME.")
        before = self._rules, dict(self._columns), self._program
        declared_before = dict(self._declared)
        try:
            if proper:
                self._rules = [*self._rules, replace(rules, rules=tuple(proper), outputs=(), directives=(), text="")]
            new = {name: self._names(len(rows[0][0])) for name, rows in facts.items() if name not in self._columns}
            declared = {one.relation: one.columns for one in rules.declarations}
            self._declared |= {one.relation: (str(one), one) for one in rules.declarations if one.is_binding}
            inputs = {*rules.inputs} - {rule.head.relation for rule in proper}
            heads = {rule.head.relation for part in self._rules for rule in part.rules}
            read = {name: self._names(rules.arity[name]) for name in inputs if name not in heads}
            self._declare({**read, **new, **declared}, changes_rules=bool(proper))
            if any(directive.kind == "input" for directive in rules.directives):
                self._load_inputs(rules)
            if facts:
                self._step(facts)
        except BaseException:
            self._rules, self._columns, self._program = before
            self._declared = declared_before
            raise
        for name in dict.fromkeys(rule.head.relation for rule in proper):
            self._show(name)

    @staticmethod
    def _names(arity: int) -> tuple[str, ...]:
        return tuple(f"c{column}" for column in range(arity))

    def _declare(self, columns: Mapping[str, tuple[str, ...]], changes_rules: bool = False) -> None:
        """Make these relations inputs, and put the present rules into effect."""
        added = {name: names for name, names in columns.items() if name not in self._columns}
        self._columns |= added
        if added or changes_rules or self._program is None:
            self._put_into_effect()

    def _put_into_effect(self) -> None:
        declarations = [
            self._declared[name][1]
            if name in self._declared
            else Declaration(name, names, (None,) * len(names), is_binding=False)
            for name, names in self._columns.items()
        ]
        rules = Rules(
            tuple(dict.fromkeys(rule for part in self._rules for rule in part.rules)),
            tuple(declarations), directives=tuple(Directive("input", name) for name in self._columns),
        )  # fmt: skip
        heads = tuple(dict.fromkeys(rule.head.relation for rule in rules.rules))
        rules = replace(rules, outputs=heads)
        check(rules)
        if self._program is None:
            self._program = Program.from_options(rules, ProgramOptions(inputs=rules.inputs, outputs=rules.outputs))
        else:
            self._program = self._program.with_rules(rules, heads)

    def _step(self, changes: Mapping[str, Any]) -> None:
        program = self._present()
        for name in changes:
            if name not in program.inputs:
                raise UnknownRelationError(name, program.inputs, "relations")
        answers = program.step(dict(changes))
        report = program.last_tick
        for name in changes:
            n_changed = report.rows[name] - report.ignored.get(name, 0)
            rows = changes[name]
            is_deleted = isinstance(rows, list) and rows[0][1] < 0
            self._write(f"{name}: {counted(n_changed, 'row')} {'deleted' if is_deleted else 'inserted'}")
        for name, change in answers.items():
            for row, weight in change.rows()[: self._limit]:
                self._write(f"{'+' if weight > 0 else '-'} {name}({', '.join(map(_constant, row))})")
            if len(change) > self._limit:
                self._write(f"  {len(change) - self._limit:,} more changes of {name}")

    # Answers.

    def _ask(self, body: str) -> None:
        if not body.endswith("."):
            body += "."
        rule = parse(f"ask(0) :- {body}").rules[0]
        tables = self._tables(list(dict.fromkeys(atom.relation for atom in rule.read)))
        variables = dict.fromkeys(variable for atom in rule.atoms for variable in atom.variables)
        names = list(dict.fromkeys(variable.name for variable in variables if not variable.is_wildcard))
        answer = query(f"ask({', '.join(names) or 0}) :- {body}", tables, scan=False)
        if names:
            self._print_once(answer)
        else:
            self._write("yes" if len(answer) else "no")

    def _ask_in_sql(self, text: str) -> None:
        words = {word.casefold() for word in re.findall(r"\w+", text)}
        tables = self._tables([name for name in self.relations if name.casefold() in words])
        while True:
            try:
                return self._print_once(query(text, tables, language="sql", scan=False))
            except UnknownRelationError as error:
                if (spec := files_of_text(error.relation)) is None or spec.relation in tables:
                    raise
                tables[spec.relation] = _named_table(spec)

    def _tables(self, names: Iterable[str]) -> dict[str, Any]:
        """Return relations as tables."""
        for name in names:
            if name not in self.relations:
                raise UnknownRelationError(name, self.relations)
        return {name: self._present().relation(name) for name in names}

    def _print_once(self, answer: Result) -> None:
        shown = answer.limit(self._limit)
        print_rows("answer", answer.columns, _kinds(shown), shown.rows(), len(answer))

    def _show(self, name: str, limit: int | None = None) -> None:
        program = self._present()
        if name not in self.relations:
            raise UnknownRelationError(name, self.relations)
        answer = Result(program.relation(name))
        shown = answer.limit(self._limit if limit is None else limit)
        print_rows(name, answer.columns, _kinds(shown), shown.rows(), len(answer))

    def _present(self) -> Program:
        if self._program is None:
            raise SchemaError("there are no relations yet.\n  Insert a fact, such as edge(1, 2). or .load a file.")
        return self._program

    # Commands.

    def _command(self, text: str) -> None:
        try:
            name, *arguments = shlex.split(text)
        except ValueError as error:
            raise UsageError(f"the command cannot be read: {error}.") from None
        if name == ".quit":
            self.is_over = True
        elif name == ".help":
            self._write(HELP)
        elif name == ".list":
            self._list()
        elif name == ".explain":
            self._write(self._present().explain().rstrip())
        elif name == ".load" and arguments:
            for spec in parse_files(arguments):
                table = _named_table(spec)
                self.load(spec.relation, table, table.column_names)
        elif name == ".show" and 1 <= len(arguments) <= 2:
            self._show(arguments[0], _integer(arguments[1]) if len(arguments) > 1 else None)
        elif name == ".drop" and len(arguments) == 1:
            self._drop(arguments[0])
        elif name == ".limit" and len(arguments) == 1:
            self._limit = _integer(arguments[0])
        elif name in _COMMANDS:
            raise UsageError.with_parts(f"{name} has the wrong arguments", got=text, remedy="See .help.")
        else:
            raise UsageError.unknown_name("command", name, _COMMANDS)

    def _list(self) -> None:
        program = self._present()
        for name in self.relations:
            n_rows = program.count(name)
            self._write(f"{name}/{program.arity(name)}: {counted(n_rows, 'row')}")
        for part in self._rules:
            for rule in part.rules:
                self._write(f"  {rule}")

    def _drop(self, name: str) -> None:
        if all(rule.head.relation != name for part in self._rules for rule in part.rules):
            heads = {rule.head.relation for part in self._rules for rule in part.rules}
            raise UnknownRelationError(name, heads, "relations with rules")
        before = self._rules, dict(self._columns), self._program
        left = [
            replace(part, rules=tuple(rule for rule in part.rules if rule.head.relation != name))
            for part in self._rules
        ]
        try:
            self._rules = [part for part in left if part.rules]
            for part in self._rules:
                for rule in part.rules:
                    if any(atom.relation == name for atom in rule.read):
                        raise UsageError.wrong_state(
                            f"dropping '{name}'", f"'{rule}' reads it", "Drop that relation first."
                        )
            self._put_into_effect()
        except BaseException:
            self._rules, self._columns, self._program = before
            raise
        self._write(f"{name}: rules dropped")


def _with_any_arity(text: str, name: str) -> Rules:
    """Parse a text without rules whose relation has declared columns, or any number of them."""
    for arity in range(1, text.count(",") + 2):
        with suppress(ArityError):
            return parse(f"{text}\nline() :- {name}({', '.join('_' * arity)}).")
    return parse(f"{text}\nline() :- {name}(_).")


def _named_table(spec: InputSpec) -> Any:
    """Return the rows of a file, with the names of its columns."""
    budget = memory_budget(None)
    names = list(columns_of(spec, False, budget))
    table = read_table(spec, len(names), budget)
    return table.rename_columns([*names, *table.column_names[len(names) :]])


def _kinds(answer: Result) -> list[str]:
    return [column.type.label for column in answer.to_zset().columns]


def _constant(value: Any) -> str:
    return (
        "null" if value is None else str(Constant(value)) if isinstance(value, (bool, int, float, str)) else str(value)
    )


def _integer(text: str) -> int:
    if not text.isdecimal():
        raise UsageError.invalid_value(".limit", text, "an integer from 0 on")
    return int(text)


# The command.


def repl(
    program: Annotated[Path | None, Parameter(help="A file with facts and rules to begin with.")] = None,
    /,
    *,
    input: Annotated[list[str] | None, Parameter(negative="")] = None,  # noqa: A002  # the option is called --input
    limit: int = TABLE_ROWS,
) -> None:
    """Type facts, rules and queries; answers are kept up to date.

    Parameters
    ----------
    input
        A file whose rows are inserted first, as RELATION=PATH.
    limit
        Maximum rows of an answer that are printed.
    """
    check_limit(limit)
    state = Repl(lambda line: sys.stdout.write(f"{line}\n"), limit)
    for file in input or ():
        state.run(f".load {shlex.quote(file)}")
    if program is not None:
        with open_bytes(program) as text:
            state.run(text.read().decode())
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    if is_terminal:
        sys.stdout.write(f"gpu-wcoj {__version__}; .help lists what can be typed, .quit ends\n")
    for statement in statements(_lines(state, is_terminal)):
        try:
            state.run(statement)
        except GpuWcojError as error:
            if not is_terminal:
                raise
            sys.stdout.write(f"{error}\n")
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            sys.stdout.write("interrupted; the state is as before\n")
        sys.stdout.flush()
        if state.is_over:
            break


def statements(lines: Iterator[str]) -> Iterator[str]:
    r"""Yield the statements of lines.

    These are commands, and texts up to a line that ends with a dot or a semicolon.

    Examples
    --------
    >>> list(statements(iter([".list", "hop(a, c) :- edge(a, b),", "  edge(b, c).", "edge(1, 2)."])))
    ['.list', 'hop(a, c) :- edge(a, b),\n  edge(b, c).', 'edge(1, 2).']
    """
    waiting: list[str] = []
    for line in lines:
        if not waiting and (not line.strip() or line.lstrip().startswith(("//", "%"))):
            continue
        waiting.append(line)
        if (len(waiting) == 1 and line.lstrip().startswith(".")) or _END.search(line.rstrip()):
            yield "\n".join(waiting)
            waiting = []
    if waiting:
        yield "\n".join(waiting)


def _lines(state: Repl, is_terminal: bool) -> Iterator[str]:
    """Yield lines of standard input.

    In a terminal there are a prompt, a history and completion of names.
    """
    if not is_terminal:
        for line in sys.stdin:
            yield line.rstrip("\n")
        return
    session = _session(state)
    while True:
        try:
            yield input("> ") if session is None else session.prompt("> ")
        except EOFError:
            return
        except KeyboardInterrupt:
            continue


def _session(state: Repl) -> PromptSession[str] | None:
    """Return the editor of lines, if prompt_toolkit is installed."""
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory
    except ImportError:
        return None
    folder = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser() / "gpu_wcoj"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        history = FileHistory(str(folder / "history"))
    except OSError:
        history = None
    words = WordCompleter(lambda: [*state.relations, *_COMMANDS], sentence=False, WORD=True)
    return PromptSession(history=history, completer=words, complete_while_typing=False)
