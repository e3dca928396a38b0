"""An executor of PTX on the host: what NVRTC makes of the kernels, run thread by thread without a GPU.

The shim proves what a host compiler makes of the CUDA sources; this proves what NVRTC makes of them, for an
architecture. The kernel's PTX becomes C++ (`translate`), its threads are fibers (``runtime.cpp``), and it takes the
place of the shim's own code, so that tests of the shim run unchanged: ``python -m tests.ptx tests/kernels``.

Checked are the alignment of every access, that global memory belongs to a live array and was written before it is
read, that shared memory lies within the kernel's own and was written before it is read, that ``.sync`` operations have
all their lanes at one instruction, that barriers are reached by all threads at one place. Not shown: what ptxas makes
of the PTX, time, caches, and the order of memory between blocks.
"""
