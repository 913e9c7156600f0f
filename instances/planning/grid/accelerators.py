"""Accelerators by name, with the figures of their data sheets."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ACCELERATORS", "Accelerator"]

_GB, _GIB = 1e9, 2**30
#: Part of the peak that large matrix products reach. Fitted to one measured step (175 billion parameters with selective
#: recomputation on A100, 13.75 s, Korthikanti et al. 2023, Table 5); the other seven times of that table are tests.
EFFICIENCY = 0.821


@dataclass(frozen=True)
class Accelerator:
    """One device."""

    name: str  # to ask for
    peak_flops: float  # of 16-bit matrix products, without sparsity [1/s]
    memory_bandwidth: float  # [bytes/s]
    memory: float  # [bytes]
    processors: int  # multiprocessors, which share the tiles of a product
    efficiency: float = EFFICIENCY  # part of the peak that large products reach


_ALL = (
    Accelerator("V100-16", 125e12, 900 * _GB, 16 * _GIB, 80),
    Accelerator("V100-32", 125e12, 900 * _GB, 32 * _GIB, 80),
    Accelerator("A100-40", 312e12, 1555 * _GB, 40 * _GIB, 108),
    Accelerator("A100-80", 312e12, 2039 * _GB, 80 * _GIB, 108),
    Accelerator("H100-80", 989e12, 3350 * _GB, 80 * _GIB, 132),
    Accelerator("H200-141", 989e12, 4800 * _GB, 141 * _GB, 132),
)

#: Name to accelerator.
ACCELERATORS = {one.name: one for one in _ALL}
