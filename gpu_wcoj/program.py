"""Programs: rules whose answers are updated tick by tick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from gpu_wcoj.backend import Backend, BackendName, select_backend
from gpu_wcoj.circuit.head import ChangeCount
from gpu_wcoj.engine.compile import Compiler
from gpu_wcoj.engine.options import (
    declared_columns,
    processors,
    validate_factor,
    validate_flag,
    validate_heads,
    validate_inputs,
    validate_order,
    validate_positive,
    validate_strategy,
)
from gpu_wcoj.engine.state import Mark, State, StateStore, TickReport
from gpu_wcoj.errors import UsageError, entry_point
from gpu_wcoj.inspection import Inspected
from gpu_wcoj.join.execution import ITERATIONS, Execution
from gpu_wcoj.join.memory import CHUNK_ROWS
from gpu_wcoj.join.piece import Piece
from gpu_wcoj.kernels.protocol import Int64Array
from gpu_wcoj.outgoing import Emitter, pieces_of
from gpu_wcoj.planner.ir import Strategy
from gpu_wcoj.planner.replan import Feedback
from gpu_wcoj.query.check import check_required, unnamed_inputs
from gpu_wcoj.query.core import desugar
from gpu_wcoj.query.datalog import parse
from gpu_wcoj.query.rules import Rules
from gpu_wcoj.query.strata import unread
from gpu_wcoj.routing.router import router_of
from gpu_wcoj.ticking import TickRunner
from gpu_wcoj.trace.arrangement import PhaseRows
from gpu_wcoj.trace.spine import MergePolicy
from gpu_wcoj.zset.zset import ZSet

if TYPE_CHECKING:
    from gpu_wcoj.subject import Subject

__all__ = ["ChangeCount", "Program", "TickReport"]


@entry_point
class Program(Inspected):
    """Rules over relations; `step` takes changes of inputs and returns changes of outputs.

    Parameters
    ----------
    text
        Datalog text, or rules. Facts of the text are part of the first tick.
    bag
        Exact bag weights (Z-sets) instead of sets: weights of equal rows add, heads keep multiplicities.
    keep
        Heads whose answer is stored between ticks, so that `relation` need not join it again.
    outputs
        Heads whose changes `step` returns; by default the heads of ``.output`` lines, else the heads that no rule
        outside of their own recursion reads.
    backend
        ``"auto"`` (the GPU where there is one), ``"cpu"`` or ``"cuda"``.
    gpu_memory
        Maximum memory of the GPU for the process: bytes (8000000000, ``"8GB"``) or a share (0.5, ``"50%"``); by
        default all of it. One pool serves all programs of the process. Ignored on the CPU.
    route
        The side on which ticks run if the state is on a device. ``"auto"``: on a twin of the state on the CPU if that
        is estimated to cost less, by the changed rows and the values that joins look at; ``"device"`` or ``"cpu"``:
        all on one side; a number: ticks of at least that many changed rows run on the device. `explain` shows the
        choice.
    twin_memory
        Maximum host memory of the twin, in the same forms; by default a quarter. A larger state has no twin.
    twin
        The backend of the twin; by default the CPU if the state is on a device, else there is no twin.
    threads
        Threads that share large ticks; by default the available processors.
    chunk_rows
        Maximum rows of intermediate results in memory, per level; by default chosen on a GPU by its free memory.
    iterations
        Maximum iterations of a recursion in one tick; by default 100,000. A tick that needs more is undone.
    replan
        Plan again before a tick if the ticks so far have looked at this factor more, or fewer, values than estimated,
        and if it pays; a number above 1, or None for never. Answers do not change.
    analyze
        Measure every tick for ``explain(analyze=True)``; this makes ticks slower.
    strategy
        The join of a change with the other atoms of a rule: ``"wcoj"`` binds one variable at a time in all atoms that
        contain it, ``"binary"`` joins one atom after the other, ``"auto"`` is the cheaper one by estimate. Answers
        are the same.
    order
        Per head, variables of its rules in the order in which to bind them, before all others: ``{"triangle": ["b",
        "a"]}``; variables of the changed atom always come first. ``"auto"`` joins such rules as ``"wcoj"``.
    schema
        Types of input columns by relation, ``{"edge": ["int64", "int64"]}`` or ``{"edge": {"src": "int64", ...}}``;
        by default the types of the first rows. Integers outside a declared type are an error. Missing names are taken
        from the first table that has names.
    inputs
        Relations that may get rows later, ``["edge", "node"]``. Every relation that rules read and none defines must
        be in it, in `schema`, or in a ``.decl`` or ``.input`` line. If `inputs` is left out, the first change may name
        them instead: a relation that neither it nor anything else names is treated as misspelled.

    Notes
    -----
    Several threads may use a program; they wait for each other, so that each sees the state between two ticks. During
    a tick, calls from a sink or from an iterator of rows that need the state are an error.

    Raises
    ------
    DatalogSyntaxError, UnsafeRuleError, ArityError, UnknownRelationError, UnsupportedError, UsageError
        If the text or an option cannot be used.

    Examples
    --------
    >>> program = Program("triangle(a, b, c) :- edge(a, b), edge(b, c), edge(a, c).", inputs=["edge"])
    >>> program.step({"edge": [(1, 2), (2, 3)]})["triangle"].rows()
    []
    >>> program.step({"edge": [(1, 3)]})["triangle"].rows()
    [((1, 2, 3), 1)]
    >>> program.step({"edge": [((2, 3), -1)]})["triangle"].rows()
    [((1, 2, 3), -1)]
    >>> len(program.relation("triangle"))
    0
    """

    def __init__(
        self,
        text: str | Rules,
        *,
        bag: bool = False,
        keep: Sequence[str] = (),
        outputs: Sequence[str] | None = None,
        backend: BackendName | Backend = "auto",
        gpu_memory: float | str | None = None,
        route: Literal["auto", "device", "cpu"] | int = "auto",
        twin_memory: float | str | None = None,
        twin: BackendName | Backend | None = None,
        threads: int | None = None,
        chunk_rows: int | None = None,
        iterations: int | None = None,
        replan: float | None = 4.0,
        analyze: bool = False,
        strategy: Strategy = "auto",
        order: Mapping[str, Sequence[str]] | None = None,
        schema: Mapping[str, Sequence[str] | Mapping[str, str]] | None = None,
        inputs: Sequence[str] | None = None,
        merge_policy: MergePolicy | None = None,
    ) -> None:
        from gpu_wcoj.dictionary import Dictionary

        if not isinstance(text, (str, Rules)):
            raise UsageError.wrong_type(
                "the program", text, "program text or Rules", "To run a file, pass its contents."
            )
        self.rules = parse(text) if isinstance(text, str) else text
        self.bag = validate_flag("bag", bag)
        self.inputs = self.rules.inputs
        self.heads = self.rules.heads
        named = validate_inputs(inputs, self.rules)
        required = tuple(name for name in unnamed_inputs(self.rules) if name not in (schema or {}))
        if named is not None:
            check_required(self.rules, required, named, "Add '{}' to inputs=, or declare it with .decl.")
            required = ()
        lowered = desugar(self.rules)
        self._arity = lowered.arity
        self.keep = validate_heads(keep, "keep", self.heads)
        default = self.rules.outputs or unread(self.rules)
        self.outputs = default if outputs is None else validate_heads(outputs, "outputs", self.heads)
        self.backend = select_backend(backend, gpu_memory)
        self.threads = validate_positive("threads", threads, processors())
        self.chunk_rows = validate_positive("chunk_rows", chunk_rows, CHUNK_ROWS)
        self.iterations = validate_positive("iterations", iterations, ITERATIONS)
        self._piece_rows = None if chunk_rows is None else self.chunk_rows
        self._share: tuple[int, int] | None = None
        self._measures = validate_flag("analyze", analyze)
        self.dictionaries = (Dictionary("string"), Dictionary("binary"))
        types, names, self.declared, narrow = declared_columns(self.rules, lowered, self._arity, schema or {}, self.bag)
        self._schema = {
            name: list(kinds.items()) if isinstance(kinds, Mapping) else list(kinds)
            for name, kinds in (schema or {}).items()
        }
        self.strategy = validate_strategy(strategy)
        self._lowering = Compiler(
            lowered, self._arity, self.keep, self.outputs, self.bag, self.dictionaries, self._execution, merge_policy,
            self.strategy, validate_order(order, self.rules),
        )  # fmt: skip
        router = router_of(self._lowering, self.backend, twin, route, twin_memory)
        self._ledger = StateStore(
            self._lowering, router, State(types, names), Feedback(validate_factor("replan", replan))
        )
        self._outgoing = Emitter(self._ledger, self._arity, lowered.heads, self.dictionaries)
        input_of = {name: f"{name}#in" if name in self.heads else name for name in self.inputs}
        self._ticking = TickRunner(
            input_of, self.heads, self._arity, self.declared, self._lowering, self._ledger, self._outgoing,
            self.dictionaries, self.backend, narrow, self.rules, required,
        )  # fmt: skip

    def __repr__(self) -> str:
        semantics = "bag" if self.bag else "set"
        return f"Program({', '.join(self.outputs)} from {', '.join(self.inputs)}; {semantics}, {self.backend.name})"

    def step(self, changes: Mapping[str, Any]) -> dict[str, ZSet]:
        """Apply one tick's changes of the inputs and return the changes of the outputs.

        Parameters
        ----------
        changes
            Per input relation, a `ZSet` (no order: the net weight of a row decides) or anything shaped as rows: an
            Arrow table or any object with ``__arrow_c_stream__``, a dict of columns, a NumPy array, a list of tuples
            or of ``(tuple, weight)``. Rows are applied in order and the last operation on a row wins. An extra column
            ``weight`` (``_weight`` if the relation has a column of that name) holds weights: above 0 inserts, below 0
            deletes. In bag semantics weights add. Columns go by name if the table and the relation have names
            (declared, or of an earlier table), and other names are an error; else they go by position.

        Returns
        -------
        Per output, a `ZSet`: weight 1 for inserted rows, -1 for deleted rows; in bag semantics their weights.

        Raises
        ------
        UnknownRelationError
            If a name is not the name of an input; or in the first tick, if a relation that rules read is neither in
            `changes` nor declared nor in `schema` or `inputs`.
        GpuWcojError
            If anything is wrong with the changes. After any error, the state and the plan are as before.
        """
        answers: dict[str, ZSet] = {}

        def collect_answers(rows_by_head: Mapping[str, list[PhaseRows]]) -> None:
            for name, phases in rows_by_head.items():
                answers[name] = self._outgoing.as_zset(name, phases)

        self._ticking.run_tick(changes, self.threads, frozenset(self.outputs), emit_remaining=collect_answers)
        return {name: answers[name] if name in answers else self._outgoing.empty(name) for name in self.outputs}

    def step_counts(self, changes: Mapping[str, Any]) -> dict[str, ChangeCount]:
        """Do the same as `step`, but only count: the last level of a join is never enumerated."""
        counts = self._ticking.run_tick(changes, self.threads, frozenset())
        return {name: counts.get(name, self._no_change()) for name in self.outputs}

    def step_pieces(self, changes: Mapping[str, Any], sink: Callable[[str, ZSet], None]) -> dict[str, ChangeCount]:
        """Do the same as `step`, but pass the changes piece by piece to ``sink(output, piece)``.

        If an answer keeps every variable and has a single rule, pieces arrive while the join runs, so memory is
        bounded by the state and one piece a level; else they arrive when the tick's answer is consolidated. Pieces of
        one output have no row in common. If `sink` raises, the tick is undone.
        """

        def hand_out(name: str, piece: Piece) -> None:
            sink(name, self._outgoing.as_zset(name, [PhaseRows(piece.columns, piece.weights)], are_sorted=False))

        def emit_remaining(rows_by_head: Mapping[str, list[PhaseRows]]) -> None:
            for name, phases in rows_by_head.items():
                for piece in pieces_of(phases, self.chunk_rows):
                    hand_out(name, piece)

        counts = self._ticking.run_tick(changes, self.threads, frozenset(self.outputs), hand_out, emit_remaining)
        return {name: counts.get(name, self._no_change()) for name in self.outputs}

    def load(self, changes: Mapping[str, Any]) -> None:
        """Do the same as `step`, but only update the state: changes of answers are not counted.

        Use it to start from a snapshot and follow the changes from there. Answers are still complete: `relation`
        joins them from the state.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> program.step({"edge": [(3, 4)]})["path"].rows(), program.count("path")
        ([((2, 3, 4), 1)], 2)
        """
        self._ticking.run_tick(changes, self.threads, None)

    def mark(self) -> Mark:
        """Return the present state for `return_to`.

        It uses no memory until ticks change the state.
        """
        return Mark(self._ledger.state, [len(dictionary) for dictionary in self.dictionaries])

    def return_to(self, mark: Mark) -> None:
        """Undo the ticks since `mark`, so that several programs can commit together or not at all.

        Examples
        --------
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> mark = program.mark()
        >>> program.load({"edge": [(3, 4)]})
        >>> program.return_to(mark)
        >>> program.step({"edge": [(3, 5)]})["path"].rows()
        [((2, 3, 5), 1)]
        """

        def undo() -> None:
            if self._ledger.state is not mark.state:
                self._ledger.restore_state(mark.state)
                self._ticking.forget(mark.sizes)

        self._ledger.turns.run("undoing ticks", undo)

    def checkpoint(self, path: str | PathLike[str]) -> None:
        """Store the state in a folder for `restore`; the folder gets all of it or nothing.

        The first call writes the whole state, later calls with the same folder write the changes since. Rows of later
        ticks are lost with the process; a driver of batches uses `gpu_wcoj.checkpoint.Checkpoint`.

        Raises
        ------
        CheckpointError
            If the folder holds something else, another process writes to it, or a file of it is damaged.
        CheckpointWriteError
            If it cannot be written.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> program = Program("path(a, b, c) :- edge(a, b), edge(b, c).")
        >>> program.load({"edge": [(1, 2), (2, 3)]})
        >>> with TemporaryDirectory() as folder:
        ...     program.checkpoint(folder)
        ...     again = Program.restore(folder)
        >>> again.step({"edge": [(3, 4)]})["path"].rows()
        [((2, 3, 4), 1)]
        """
        from gpu_wcoj.checkpoint import Checkpoint

        with Checkpoint.open(path, program=self) as checkpoint:
            checkpoint.commit(0 if checkpoint.last is None else checkpoint.last.batch + 1)

    @classmethod
    def restore(cls, path: str | PathLike[str], **options: Any) -> Program:
        """Return the program of a checkpoint in its state after the last batch.

        Parameters
        ----------
        path
            The folder.
        options
            Options of `Program` that do not change answers: `backend`, `threads`, `route` and the like. Text, `bag`,
            `keep`, `outputs`, `schema` and `inputs` are in the checkpoint.

        Raises
        ------
        CheckpointDamagedError
            If a file is missing or is not what was written.
        CheckpointError
            If there is no checkpoint.
        """
        from gpu_wcoj.checkpoint.reading import restored

        for name in ("bag", "keep", "outputs", "schema", "inputs"):
            if name in options:
                raise UsageError.with_parts(
                    f"the option '{name}' is stored in the checkpoint and cannot be passed",
                    subject=name,
                    got=options[name],
                    remedy="Leave it out.",
                )
        return restored(path, lambda rules, kept: cls(rules, inputs=rules.inputs, **kept, **options))

    @property
    def subject(self) -> Subject:
        """The parts of the program that a checkpoint stores."""
        from gpu_wcoj.subject import Subject

        return Subject(self._schema, self._lowering, self._ledger, self.dictionaries)

    def share_work(self, number: int, of: int) -> None:
        """Process share `number` of the `of` shares of every change, from the first tick on.

        For engines that hold the same state and get the same changes, each in its own process: the changes that their
        steps return add up to the complete change. Their `relation` and `count` of heads are incomplete.

        Raises
        ------
        UsageError
            If there has been a tick, or `number` is not below `of`.
        UnsupportedError
            If a head has state (it is kept, read by a rule, aggregates, or its derivations are counted), or a rule uses
            negation.

        Examples
        --------
        >>> text = "path(a, b, c) :- edge(a, b), edge(b, c)."
        >>> halves = [Program(text), Program(text)]
        >>> for number, half in enumerate(halves):
        ...     half.share_work(number, 2)
        >>> sum(half.step_counts({"edge": [(i, i + 1) for i in range(100)]})["path"].net for half in halves)
        99
        """
        if self._ledger.state.report.tick != -1 or self._ledger.state.sides is not None:
            raise UsageError.wrong_state("share_work()", "the first tick has run", "Create a new Program.")
        from gpu_wcoj.sharing import check_share, check_shareable  # not needed by engines of a single cell

        check_share(number, of)
        check_shareable(self.rules, self._lowering.rules, self.keep, () if self.bag else self._planned().counted)
        text, binary = self.dictionaries
        text.encode_one("")  # as code 0, which rows without a value have, too
        binary.encode_one(b"")
        self._share = number, of

    def _execution(self) -> Execution:
        def ranks(family: str) -> Int64Array:
            return self.dictionaries[0 if family == "string" else 1].rank()

        share = None
        if self._share is not None:
            from gpu_wcoj.join.share import Share

            text, binary = self.dictionaries
            share = Share(*self._share, self._family, {"string": text, "binary": binary})
        return Execution(
            self.backend, self.bag, self._piece_rows, self.threads, ranks, share, dictionary=self.dictionaries[0],
            iterations=self.iterations, recounts=self.strategy == "auto", measures=self._measures,
        )  # fmt: skip

    def _family(self, relation: str, column: int) -> str | None:
        """Return the dictionary family of a stored column.

        It is empty without a dictionary, and None for flags of nulls.
        """
        view = self._outgoing.evaluated or self._lowered
        assert view is not None
        return view.shapes[relation].family(column) if column < self._arity[relation] else None

    def _no_change(self) -> ChangeCount:
        return ChangeCount(None, None, 0) if self.bag else ChangeCount(0, 0, 0)
