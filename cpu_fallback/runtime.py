"""Machine code cached on disk, so that only the first run compiles.

numba's own cache is beside the sources, so it is lost when the package moves and impossible if its folder is
read-only. It also checks one file only, so an edited function stays unchanged in functions of other files that call it.
Here all compiled functions share the folder of `cpu_fallback.compilation`. Within it, numba distinguishes versions of
Python, processors and argument types. The files are pickles, so other users cannot write to the folder, unless
NUMBA_CACHE_DIR names such a folder.

Processes that start together share the work: while one compiles a function, the others that need it wait for it.
"""

from __future__ import annotations

import _thread
import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils, serialize
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, Flags
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Lower
from numba.core.runtime import rtsys  # type: ignore[attr-defined]
from numba.core.typed_passes import (
    IRLegalization,
    NativeLowering,
    NoPythonBackend,
    NopythonTypeInference,
    PreLowerStripPhis,
)
from numba.core.types import unliteral
from numba.core.typing.templates import make_concrete_template
from numba.core.typing.templates import signature as make_signature
from numba.core.untyped_passes import (
    FixupArgs,
    GenericRewrites,
    InlineInlinables,
    IRProcessing,
    ReconstructSSA,
    TranslateByteCode,
)
from numba.extending import intrinsic

from cpu_fallback.compilation import cache_folder, create_folder
from cpu_fallback.file_locks import lock_file, unlock_file

_LOGGER = logging.getLogger("gpu_wcoj")

PATIENCE = 120.0
"""Seconds that a process waits for another one that compiles the same function and may have been stopped."""


try:
    FOLDER: Path | None = cache_folder()
except RuntimeError as error:  # a user without a home folder
    FOLDER = None
    _LOGGER.warning("Compiled kernels are not kept (%s): set NUMBA_CACHE_DIR to a folder.", error)


# First calls of kernels, which load or compile machine code and must not be interrupted in the middle.
#
# Python runs the handlers of signals, such as that of Ctrl-C, in the main thread, between any two steps of Python code.
# numba and llvmlite cannot be left anywhere: a lock may stay locked or code half loaded. So the main thread leaves the
# first call of a kernel to a thread of its own, waits for it, and raises the interrupt afterwards. Later calls run no
# Python code, so an interrupt is raised when they have returned.

# A compiled function that returns an array asks numba for the class of arrays, by a function in Python. numba ignores
# the exception of a handler there, and frees the results twice. The cache answers in C, where no handler runs. Each
# function has a key of its own, so its first call fills the cache.
serialize._numba_unpickle = functools.cache(serialize._numba_unpickle)

_CURRENT = threading.local()
"""The `_ThreadCall` of the running thread, if it has one."""


class _ThreadCall:
    """A call that another thread makes while the main thread waits."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self._owner: dict[str, str] = {}
        self._end = _thread.allocate_lock()
        self._end.acquire()
        self._outcome: list[tuple[Any, BaseException | None]] = []
        self.interrupt: BaseException | None = None

    def run(self) -> None:
        """Make the call, unless the main thread was interrupted before."""
        if self._owner.setdefault("owner", "thread") != "thread":
            return
        _CURRENT.call = self
        try:
            self._outcome.append((self._function(*self._args), None))
        except BaseException as error:
            self._outcome.append((None, error))
        self._end.release()

    def result(self) -> Any:
        """Start the thread, wait for it, and return or raise what the call did.

        An exception of a signal's handler, raised meanwhile, comes first. If the system has no room for a thread, the
        main thread makes the call.
        """
        is_started = False
        while not self._outcome:
            try:
                if not is_started:
                    is_started = True
                    _thread.start_new_thread(self.run, ())
                self._end.acquire()
            except BaseException as error:
                # A handler may raise before or after the start. The first of the two threads to ask decides.
                is_mine = self._owner.setdefault("owner", "main") == "main"
                if is_mine and isinstance(error, RuntimeError) and not _is_of_handler(error):
                    return self._function(*self._args)
                if is_mine:
                    raise
                self.interrupt = error
        result, failure = self._outcome.pop()
        if self.interrupt is not None:
            raise self.interrupt
        if failure is not None:
            raise failure
        return result


def _is_of_handler(error: BaseException) -> bool:
    """Return whether a called function in Python has raised an error, as a handler does."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is not None


def call_uninterrupted(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function; what a signal's handler raises meanwhile is raised when it has returned."""
    if threading.get_ident() != threading.main_thread().ident:  # handlers run in the main thread only
        return function(*args)
    return _ThreadCall(function, args).result()


def pending_interrupt() -> BaseException | None:
    """Return the interrupt that waits for the running call, which may raise it to end early."""
    call: _ThreadCall | None = getattr(_CURRENT, "call", None)
    return None if call is None else call.interrupt


class Locator:
    """The location of a function's machine code for numba: `FOLDER`, by module and name."""

    def __init__(self, function: Any, file: str, folder: Path) -> None:
        self._py_file = file  # numba names it in its warnings
        self._folder = folder
        self._module = str(function.__module__)

    @classmethod
    def from_function(cls, function: Any, file: str) -> Locator:
        """Return the locator of a function."""
        assert FOLDER is not None  # without a folder `cached_njit` leaves numba without a cache
        return cls(function, file, FOLDER)

    def get_cache_path(self) -> str:
        """Return the path of the folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return the identity of the sources, which is the folder's name."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """Return the module, which distinguishes functions of the same name."""
        return self._module

    def ensure_cache_path(self) -> None:
        """Create the folder; if it is new, remove the oldest cache folders."""
        create_folder(self._folder)


class KernelCacheImpl(CompileResultCacheImpl):
    """numba's serialisation of compiled functions, at the place of `Locator`."""

    _locator_classes = (Locator,)


class KernelCache(FunctionCache):
    """numba's cache of one function in `FOLDER`, safe for processes that start side by side.

    It never fails a call: code that cannot be read or stored is compiled, and one log line reports it.
    """

    _impl_class = KernelCacheImpl
    _turn: int | None = None
    """The open and locked file that marks this process as the one that compiles the function."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the stored code for a signature, or None if this process is to compile it.

        Other processes wait until the code is stored. If compilation fails, they stop waiting when this process ends,
        or after `PATIENCE` seconds.
        """
        overload = self._load_stored(sig, target_context)
        if overload is None and self._turn is None:
            self._wait()
            overload = self._load_stored(sig, target_context)
            if overload is not None:
                self._give_way()
        return overload

    def _load_stored(self, sig: Any, target_context: Any) -> Any:
        try:
            # numba's `load_overload` first loads all that it can compile, and SciPy, which takes most of the time
            rtsys.initialize(target_context)
            with self._guard_against_spurious_io_errors():  # type: ignore[attr-defined]
                return self._load_overload(sig, target_context)  # type: ignore[attr-defined]
        except Exception as error:  # a damaged file may raise any exception
            self._report(error)
            with contextlib.suppress(OSError):
                self.flush()  # otherwise its index could never be extended
            return None

    def _wait(self) -> None:
        """Wait until no other process compiles this function, for at most `PATIENCE` seconds."""
        try:
            self._impl.locator.ensure_cache_path()
            file = os.open(Path(self.cache_path) / f"{self._impl.filename_base}.turn", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:  # nothing can be stored there, which `save_overload` reports
            return
        until = time.monotonic() + PATIENCE
        while True:
            try:
                is_locked = lock_file(file)
            except OSError:  # a file system without locks
                os.close(file)
                return
            if is_locked:
                self._turn = file
                return
            if time.monotonic() >= until:
                os.close(file)
                return
            if (interrupt := pending_interrupt()) is not None:
                os.close(file)
                raise interrupt
            time.sleep(0.02)

    def _give_way(self) -> None:
        if self._turn is not None:
            file, self._turn = self._turn, None
            with contextlib.suppress(OSError):
                unlock_file(file)  # closing is not enough if a process was forked meanwhile
            os.close(file)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the code for a signature.

        A lock serialises processes: each reads the index, extends it and writes it.
        """
        try:
            self._impl.locator.ensure_cache_path()
            with (Path(self.cache_path) / "lock").open("w") as lock:
                lock_file(lock.fileno(), waits=True)
                super().save_overload(sig, data)
        except Exception as error:  # the index is read here, too
            self._report(error)
        finally:
            self._give_way()

    def _report(self, error: Exception) -> None:
        if self.cache_path not in _REPORTED:
            _REPORTED.add(self.cache_path)
            _LOGGER.warning(
                "Compiled kernels cannot be kept in %s (%s), so every start compiles them. "
                "Set NUMBA_CACHE_DIR to a folder that can be written to.", self.cache_path, error
            )  # fmt: skip


_REPORTED: set[str] = set()
"""Folders for which a warning has been logged."""


# Functions that compiled functions call.
#
# numba optimises a function alone, translates it, and optimises it again in each function that calls it. Here it is
# linked into its callers and optimised with them only, which halves the time of compilation.


class KernelLibrary(JITCodeLibrary):
    """The code of a function that Python calls, with that of every function that it calls.

    numba optimises each function, then the module cheaply, which helps it to remove counts of references, then the
    module in full. Kernels count few references, and the last step alone gives code that is as fast.
    """

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # pyright: ignore[reportPrivateUsage]

    def _optimize_final_module(self) -> None:
        passes = self._codegen._module_pass_manager()  # pyright: ignore[reportPrivateUsage]
        if isinstance(passes, tuple):  # of numba 0.62 or newer: the passes and what runs them
            passes, builder = passes
            passes.run(self._final_module, builder)
        else:
            passes.run(self._final_module)

    def finalize(self) -> None:
        """Link every function that is called, each once, then optimise."""
        calls = list(self._linking_libraries)
        libraries = dict.fromkeys(calls)
        while calls:
            called = calls.pop()
            if isinstance(called, LinkedLibrary):
                new = [library for library in called._linking_libraries if library not in libraries]
                libraries |= dict.fromkeys(new)
                calls += new
        self._linking_libraries = list(libraries)
        super().finalize()


class LinkedLibrary(JITCodeLibrary):
    """The code of one function that is only linked into others, without what it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout  # pyright: ignore[reportPrivateUsage]

    def finalize(self) -> None:
        """Leave the code as it is."""
        self._finalize_dynamic_globals()
        self._finalized = True


class KernelFlags(Flags):
    """numba's options of a compilation; equal for all kernels.

    So kernels share what numba compiles for them.
    """

    def __hash__(self) -> int:
        return hash(KernelFlags)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelFlags)


_CALL_TYPES: dict[tuple[Any, ...], Any] = {}
"""The signature of each operator and function of numba's by the types of its arguments."""

_COMPARISONS: dict[Any, str] = {min: "<", max: ">"}
"""Functions of two integers that are lowered to a comparison, and the one for which the first is the result."""


def _is_comparison(function: Any, args: Any) -> bool:
    """Return whether a call is that of `min` or `max` for two integers of 8 bytes."""
    return function.typing_key in _COMPARISONS and [*map(unliteral, args)] == [types.int64] * 2


def _call_type(function: Any, context: Any, args: Any, kws: Any) -> Any:
    """Return the signature of a call of a numba function, from memory if it is known.

    numba tries some twenty signatures, most of them for arrays, for each operation of each function, which takes a
    sixth of the time of compilation.
    """
    key = function, *args
    signature = None if kws else _CALL_TYPES.get(key)
    if signature is None and not kws and _is_comparison(function, args):
        signature = _CALL_TYPES[key] = make_signature(types.int64, types.int64, types.int64)
    if signature is None:
        del types.Function.get_call_type  # what numba compiles for its function is lowered by numba
        try:
            signature = types.functions.BaseFunction.get_call_type(function, context, args, kws)
        finally:
            types.Function.get_call_type = _call_type
        if not kws:
            _CALL_TYPES[key] = signature
    return signature


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelTypeInference(NopythonTypeInference):
    """numba's inference of types, which looks for each signature once."""

    _name = "kernel_type_inference"

    def run_pass(self, state: Any) -> Literal[True]:
        """Infer the types.

        numba's lock of compilation is held, so no other thread sees the replaced method.
        """
        if "get_call_type" in vars(types.Function):  # this function is compiled for a call in another one
            return super().run_pass(state)
        types.Function.get_call_type = _call_type
        try:
            return super().run_pass(state)
        finally:
            del types.Function.get_call_type


_HAS_ARRAY: dict[Any, bool] = {}
"""Whether values of a type refer to memory whose references are counted."""


class KernelLowering(Lower):
    """numba's translation to LLVM, in fewer instructions.

    numba reads each variable before it is set and clears it after its last use, to count references. For numbers and
    pointers, LLVM takes time to find that this changes nothing. Loops over ranges have a counter beside the value, and
    `min` and `max` are functions of tuples.
    """

    _steps_by_one = False
    """Whether every range of the function has signed bounds and a step of 1."""

    def pre_lower(self) -> None:
        """Look at the function's ranges."""
        super().pre_lower()
        ranges = [
            signature for signature in self.fndesc.calltypes.values()
            if signature is not None and isinstance(signature.return_type, types.RangeType)
        ]  # fmt: skip
        self._steps_by_one = all(len(range_.args) < 3 and range_.return_type.dtype.signed for range_ in ranges)

    def _lower_call_normal(self, fnty: Any, expr: Any, signature: Any) -> Any:
        """Call a function."""
        if isinstance(fnty, types.Function) and not expr.kws and _is_comparison(fnty, signature.args):
            left, right = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
            is_left = self.builder.icmp_signed(_COMPARISONS[fnty.typing_key], left, right)
            return self.builder.select(is_left, left, right)
        if isinstance(fnty, types.Function) and fnty.typing_key is range and self._steps_by_one:
            bounds = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
            start, end = bounds if len(bounds) == 2 else (bounds[0].type(0), bounds[0])
            value = ir.Constant(self.context.get_value_type(signature.return_type), ir.Undefined)
            return self.builder.insert_value(self.builder.insert_value(value, start, 0), end, 1)
        if isinstance(fnty, types.Function) and fnty.typing_key is len and isinstance(signature.args[0], types.Array):
            return self.builder.extract_value(self.loadvar(expr.args[0].name), (_SHAPE, 0))
        return super()._lower_call_normal(fnty, expr, signature)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Compute the value of an assignment."""
        if isinstance(ty, types.Dispatcher):  # its type says what is called
            return self.context.get_dummy_value()
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Compute an expression."""
        if self._steps_by_one and expr.op in _RANGE_OPERATIONS:
            type_ = self.typeof(expr.value.name)
            if isinstance(type_, _RANGE_OPERATIONS[expr.op]):
                return self._lower_range(expr.op, self.loadvar(expr.value.name), resty)
        return super().lower_expr(resty, expr)

    def lower_getitem(self, resty: Any, expr: Any, value: Any, index: Any, signature: Any) -> Any:
        """Read an element."""
        place = self._element(value, index)
        if place is None:
            return super().lower_getitem(resty, expr, value, index, signature)
        type_ = self.typeof(value.name).dtype
        return self.context.cast(self.builder, self.context.unpack_value(self.builder, type_, place), type_, resty)

    def lower_setitem(self, target_var: Any, index_var: Any, value_var: Any, signature: Any) -> None:
        """Write an element."""
        place = self._element(target_var, index_var)
        if place is None:
            super().lower_setitem(target_var, index_var, value_var, signature)
            return
        type_ = self.typeof(target_var.name).dtype
        value = self.context.cast(self.builder, self.loadvar(value_var.name), self.typeof(value_var.name), type_)
        self.context.pack_value(self.builder, type_, value, place)

    def _element(self, array: Any, index: Any) -> Any:
        """Return a pointer to an element of a contiguous array; None for other arrays and indices.

        As in Python, a negative index counts from the end.
        """
        type_, index_type, builder = self.typeof(array.name), self.typeof(index.name), self.builder
        index_types = index_type.types if isinstance(index_type, types.BaseTuple) else (index_type,)
        if (
            not isinstance(type_, types.Array) or type_.layout != "C" or not type_.aligned
            or len(index_types) != type_.ndim or not all(isinstance(each, types.Integer) for each in index_types)
        ):  # fmt: skip
            return None
        value, number = self.loadvar(array.name), self.loadvar(index.name)
        offset = None
        for axis, each in enumerate(index_types):
            position = builder.extract_value(number, axis) if isinstance(index_type, types.BaseTuple) else number
            position = self.context.cast(builder, position, each, types.intp)
            size = builder.extract_value(value, (_SHAPE, axis))
            if each.signed and not (isinstance(position, ir.Constant) and position.constant >= 0):
                is_negative = builder.icmp_signed("<", position, position.type(0))
                position = builder.select(is_negative, builder.add(position, size), position)
            offset = position if offset is None else builder.add(builder.mul(offset, size), position)
        return builder.gep(builder.extract_value(value, _DATA), [offset])

    def _lower_range(self, operation: str, value: Any, result_type: Any) -> Any:
        """Start a loop over a range with steps of 1, continue it, or read what continuing returned.

        The iterator is numba's: where the next value is stored, the end, the step, and a counter that is not used.
        """
        builder = self.builder
        if operation == "pair_first":
            return builder.extract_value(value, 0)
        if operation == "pair_second":
            return builder.extract_value(value, 1)
        if operation == "getiter":
            start, end = builder.extract_value(value, 0), builder.extract_value(value, 1)
            with builder.goto_entry_block():
                place = builder.alloca(start.type)
            builder.store(start, place)
            iterator = ir.Constant(self.context.get_value_type(result_type), ir.Undefined)
            return builder.insert_value(builder.insert_value(iterator, place, 0), end, 1)
        place, end = builder.extract_value(value, 0), builder.extract_value(value, 1)
        number = builder.load(place)
        builder.store(builder.add(number, number.type(1)), place)
        pair = ir.Constant(self.context.get_value_type(result_type), ir.Undefined)
        return builder.insert_value(builder.insert_value(pair, number, 0), builder.icmp_signed("<", number, end), 1)

    def _has_array(self, type_: Any) -> bool:
        answer = _HAS_ARRAY.get(type_)
        if answer is None:
            answer = _HAS_ARRAY[type_] = bool(self.context.data_model_manager[type_].contains_nrt_meminfo())
        return answer

    def incref(self, typ: Any, val: Any) -> None:
        """Count a reference."""
        if self._has_array(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        """Take a reference back."""
        if self._has_array(typ):
            super().decref(typ, val)

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Set a variable."""
        type_ = self.typeof(name)
        if self._has_array(type_):
            super().storevar(value, name, argidx)
            return
        self._alloca_var(name, type_)
        if name in self._singly_assigned_vars:
            self._blk_local_varmap[name] = value
        else:
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Delete a variable."""
        if self._has_array(self.typeof(name)):
            super().delvar(name)

    def alloca_lltype(self, name: str, lltype: Any, datamodel: Any = None) -> Any:
        """Allocate a variable, without asking for its size, which only debuggers need."""
        return cgutils.alloca_once(self.builder, lltype, name=name)


_DATA, _SHAPE = 4, 5
"""Fields of an array: the address of its first element and the tuple of its sizes."""

_RANGE_OPERATIONS = {
    "getiter": types.RangeType,
    "iternext": types.RangeIteratorType,
    "pair_first": types.Pair,
    "pair_second": types.Pair,
}
"""Expressions of a loop over a range, and the types of their operands; kernels have no other pairs."""


@register_pass(mutates_CFG=True, analysis_only=False)
class KernelNativeLowering(NativeLowering):
    """numba's pass of lowering, by `KernelLowering`."""

    _name = "kernel_native_lowering"

    @property
    def lowering_class(self) -> type[Lower]:
        """Return the class that translates."""
        return KernelLowering


class KernelCompiler(CompilerBase):
    """numba's pipeline without passes that kernels do not need.

    Those are for closures, array expressions and the like.
    """

    _library_type: type[JITCodeLibrary] = KernelLibrary

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, variables: Any
    ) -> None:
        library = self._library_type(targetctx.codegen(), "kernel")
        library.enable_object_caching()
        super().__init__(typingctx, targetctx, library, args, return_type, KernelFlags(flags), variables)

    def define_pipelines(self) -> list[PassManager]:
        """Return the passes, in one pipeline."""
        passes = PassManager("kernel")
        for step in (
            TranslateByteCode, FixupArgs, IRProcessing, GenericRewrites, InlineInlinables, ReconstructSSA,
            KernelTypeInference, PreLowerStripPhis, IRLegalization, KernelNativeLowering, NoPythonBackend,
        ):  # fmt: skip
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


class LinkedCompiler(KernelCompiler):
    """The same pipeline, with the code in a `LinkedLibrary`."""

    _library_type = LinkedLibrary

    def __init__(
        self, typingctx: Any, targetctx: Any, library: Any, args: Any, return_type: Any, flags: Any, variables: Any
    ) -> None:
        flags.no_compile = True
        super().__init__(typingctx, targetctx, library, args, return_type, flags, variables)


def _call_of(fndesc: Any, library: Any) -> Any:
    """Return a function that writes a call of a linked function.

    The call passes on the errors of the called function. numba's calls distinguish more ways to return, which takes
    four times as many instructions.
    """

    def call(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        convention = context.call_conv
        function = context.declare_function(builder.module, fndesc)
        with builder.goto_entry_block():
            place = builder.alloca(convention.get_return_type(fndesc.restype).pointee)
        packed = convention._get_arg_packer(fndesc.argtypes).as_arguments(builder, args)
        status = builder.call(function, [place, convention._get_excinfo_argument(builder.function), *packed])
        with cgutils.if_unlikely(builder, builder.icmp_unsigned("!=", status, status.type(0))):
            builder.ret(status)
        return context.get_returned_value(builder, fndesc.restype, builder.load(place))

    call.signature = fndesc.argtypes  # type: ignore[attr-defined]
    call.libs = (library,)  # type: ignore[attr-defined]
    return call


class LinkedFunction:
    """A function as other compiled functions call it.

    Parameters
    ----------
    dispatcher
        numba's object for the calls from Python.

    Attributes
    ----------
    compiled
        The code by types of arguments: the key under which numba finds it, and its signature.
    """

    def __init__(self, dispatcher: Any) -> None:
        options = dispatcher.targetoptions | {"no_cpython_wrapper": True}
        self._target = dispatcher.targetctx
        make_compiler = type(dispatcher._compiler)
        self._compiler = make_compiler(dispatcher.py_func, dispatcher.targetdescr, options, {}, LinkedCompiler)
        self._n_parameters = dispatcher.py_func.__code__.co_argcount
        self.compiled: dict[tuple[Any, ...], tuple[object, Any]] = {}

    def get_call_template(self, args: Any, kws: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
        """Return numba's description of a call with these types, after compiling for them.

        A constant is typed as a plain value: otherwise numba would compile again for each constant.
        """
        args, pysig = tuple(map(unliteral, args)), None
        if kws or len(args) < self._n_parameters:
            plain = dict(zip(kws, map(unliteral, kws.values()), strict=True))
            pysig, folded = self._compiler.fold_argument_types(args, plain)
            args = tuple(folded)
        if args not in self.compiled:
            compiled = self._compiler.compile(args, None)
            key = object()
            self._target._defns[key].append(_call_of(compiled.fndesc, compiled.library), compiled.fndesc.argtypes)
            self.compiled[args] = key, compiled.signature
        name = self._compiler.py_func.__name__
        signatures = [signature for _, signature in self.compiled.values()]
        return make_concrete_template(f"CallTemplate({name})", key=name, signatures=signatures), pysig, args, {}

    def get_overload(self, args: Any) -> object:
        """Return the key of the code for these types."""
        return self.compiled[tuple(args)][0]


def cached_njit(function: Callable[..., Any]) -> Any:
    """Compile a function per argument types, without the GIL.

    The code for calls from Python is cached on disk. For calls from compiled functions see `LinkedFunction`.
    """
    options = {"nogil": True, "no_cfunc_wrapper": True, "pipeline_class": KernelCompiler}
    dispatcher = numba.njit(**options)(function)
    dispatcher.linked = LinkedFunction(dispatcher)
    dispatcher.get_call_template = dispatcher.linked.get_call_template
    dispatcher.get_overload = dispatcher.linked.get_overload
    compile_for = dispatcher._compile_for_args

    def first_call(*args: Any) -> Any:
        return compile_for(*args)(*args)

    # numba calls what this returns
    dispatcher._compile_for_args = lambda *args: functools.partial(call_uninterrupted, first_call)
    if FOLDER is not None:
        dispatcher._cache = KernelCache(function)  # as `cache=True` does with numba's own cache
    return dispatcher


# Arrays read by base address, so that one compiled kernel serves any number of atoms.
#
# A tuple of arrays would make numba compile a kernel for each number and type of its members, which takes seconds each;
# a table of addresses is one int64 matrix. The caller keeps the arrays alive during the call.


@intrinsic
def pointer32(typingctx, address):
    """Convert an integer address to a pointer to int32."""
    signature = types.CPointer(types.int32)(types.int64)

    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return signature, generate


@intrinsic
def pointer64(typingctx, address):
    """Convert an integer address to a pointer to int64."""
    signature = types.CPointer(types.int64)(types.int64)

    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return signature, generate


@intrinsic
def pointer_float(typingctx, address):
    """Convert an integer address to a pointer to float64."""
    signature = types.CPointer(types.float64)(types.int64)

    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return signature, generate


@intrinsic
def unsigned64(typingctx, address):
    """Convert an integer address to a pointer to uint64."""
    signature = types.CPointer(types.uint64)(types.int64)

    def generate(context, builder, sig, args):
        return builder.inttoptr(args[0], context.get_value_type(sig.return_type))

    return signature, generate


@intrinsic
def prefetch(typingctx, address):
    """Prefetch the cache line at an address; never faults."""
    signature = types.void(types.int64)

    def generate(context, builder, sig, args):
        pointer = cgutils.voidptr_t
        int32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [builder.inttoptr(args[0], pointer), int32(0), int32(2), int32(1)])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def trailing_zeros(typingctx, word):
    """Return the number of zero bits below the lowest set bit of a non-zero word."""
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.cttz(args[0], ir.IntType(1)(1))

    return signature, generate


@intrinsic
def bits_of(typingctx, word):
    """Return the number of set bits of a word."""
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.ctpop(args[0])

    return signature, generate


@intrinsic
def load(typingctx, address, width, index):
    """Read the int32 or int64 at `index`; `width` is 4 or 8 bytes."""
    signature = types.int64(types.int64, types.int64, types.int64)

    def generate(context, builder, sig, args):
        int32, int64 = ir.IntType(32), ir.IntType(64)
        is_narrow = builder.icmp_signed("==", args[1], int64(4))
        with builder.if_else(is_narrow) as (narrow, wide):
            with narrow:
                pointer = builder.inttoptr(args[0], int32.as_pointer())
                short = builder.sext(builder.load(builder.gep(pointer, [args[2]])), int64)
                after_narrow = builder.block
            with wide:
                pointer = builder.inttoptr(args[0], int64.as_pointer())
                long = builder.load(builder.gep(pointer, [args[2]]))
                after_wide = builder.block
        value = builder.phi(int64)
        value.add_incoming(short, after_narrow)
        value.add_incoming(long, after_wide)
        return value

    return signature, generate


@intrinsic
def store(typingctx, address, width, index, value):
    """Write the int32 or int64 at `index`; `width` is 4 or 8 bytes."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64)

    def generate(context, builder, sig, args):
        int32, int64 = ir.IntType(32), ir.IntType(64)
        is_narrow = builder.icmp_signed("==", args[1], int64(4))
        with builder.if_else(is_narrow) as (narrow, wide):
            with narrow:
                pointer = builder.inttoptr(args[0], int32.as_pointer())
                builder.store(builder.trunc(args[3], int32), builder.gep(pointer, [args[2]]))
            with wide:
                pointer = builder.inttoptr(args[0], int64.as_pointer())
                builder.store(args[3], builder.gep(pointer, [args[2]]))
        return context.get_dummy_value()

    return signature, generate


# The address of an array, read in compiled code, which is several times faster than NumPy.


@cached_njit
def address_of(array):
    """Return the address of the first element of a contiguous array."""
    return array.ctypes.data
