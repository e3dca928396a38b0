"""What stands for CuPy and its pool of memory on machines without a device."""

from __future__ import annotations

from types import SimpleNamespace


class FakePool:
    """A pool of CuPy's: what it has from the device, of that unused, and a limit."""

    def __init__(self, total=0, used=0, limit=0):
        self.total, self.used, self.limit = total, used, limit

    def malloc(self, size):
        raise AssertionError(size)

    def free_bytes(self):
        return self.total - self.used

    def used_bytes(self):
        return self.used

    def total_bytes(self):
        return self.total

    def get_limit(self):
        return self.limit

    def set_limit(self, size):
        self.limit = size

    def free_all_blocks(self):
        self.total = self.used


class FakeOutOfMemoryError(MemoryError):
    """What CuPy raises where its pool cannot grow."""


class FakeCuda:
    """As much of CuPy as the choice of a pool looks at, on a device of 1,000 bytes of which 600 are free."""

    def __init__(self, pool, allocator=None):
        self.pool = pool
        self.allocator = allocator or pool.malloc
        self.cuda = SimpleNamespace(
            runtime=SimpleNamespace(memGetInfo=lambda: (600, 1000)),
            get_allocator=lambda: self.allocator,
            set_allocator=lambda allocator: setattr(self, "allocator", allocator),
            MemoryPool=FakePool,
            memory=SimpleNamespace(OutOfMemoryError=FakeOutOfMemoryError),
        )

    def get_default_memory_pool(self):
        return self.pool
