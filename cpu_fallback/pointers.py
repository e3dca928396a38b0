"""Arrays read by base address, so that one compiled kernel serves any number of atoms.

A tuple of arrays would make numba compile a kernel for each number and type of its members, which takes seconds each; a
table of addresses is one int64 matrix. The caller keeps the arrays alive during the call.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


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


@njit(nogil=True, inline="always")
def load(address, width, index):
    """Read the int32 or int64 at `index`; `width` is 4 or 8 bytes."""
    if width == 4:
        return types.int64(pointer32(address)[index])
    return pointer64(address)[index]


@njit(nogil=True, inline="always")
def store(address, width, index, value):
    """Write the int32 or int64 at `index`; `width` is 4 or 8 bytes."""
    if width == 4:
        pointer32(address)[index] = types.int32(value)
    else:
        pointer64(address)[index] = value
