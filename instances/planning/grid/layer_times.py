r"""Times of the operators of a layer, without a measurement.

A product of m × k and k × n numbers is worked on in tiles of 128 × 256, w of them one after the other on each
multiprocessor, and runs at the part :math:`E_0 · k / (k + 256) · m n / (128 · 256 · w · p)` of the peak, p
multiprocessors: tiles at the borders and in the last turn work in vain, and short sums do not pay. Attention runs at
:math:`0.7 E_0`, unfused at :math:`0.5 E_0`; operators on single numbers and collectives at 0.8 of their bandwidth.

Source of the forms: Korthikanti et al., "Reducing activation recomputation in large transformer models", MLSys 2023,
for what is computed and moved; NVIDIA, "Matrix multiplication background user's guide", for tiles and waves.
"""

from __future__ import annotations

from dataclasses import dataclass

from instances.planning.grid.accelerators import Accelerator

__all__ = ["Clockwork"]

_TILE = (128, 256)
_SHORT_SUM = 256
_FUSED, _UNFUSED = 0.7, 0.5
_REACHED = 0.8
_LAUNCH = 1e-6


@dataclass(frozen=True)
class Clockwork:
    """Times of operators on one device [s]."""

    device: Accelerator
    link: float  # bandwidth to the other devices of its server [bytes/s]

    def product(self, m: float, n: float, k: float) -> float:
        """Time of a product of an m × k and a k × n matrix."""
        tiles = -(-m // _TILE[0]) * -(-n // _TILE[1])
        turns = -(-tiles // self.device.processors)
        useful = m * n / (_TILE[0] * _TILE[1] * turns * self.device.processors)
        rate = self.device.peak_flops * self.device.efficiency * k / (k + _SHORT_SUM) * useful
        return 2 * m * n * k / rate + _LAUNCH

    def attention(self, flops: float, *, fused: bool) -> float:
        """Time of the products within attention, without what unfused attention moves."""
        return flops / (self.device.peak_flops * self.device.efficiency * (_FUSED if fused else _UNFUSED)) + _LAUNCH

    def moved(self, size: float, kernels: int = 1) -> float:
        """Time to read and write so many bytes of its own memory."""
        return size / (_REACHED * self.device.memory_bandwidth) + kernels * _LAUNCH

    def sent(self, size: float, link: float | None = None) -> float:
        """Time of a collective in which each device sends so many bytes; none if there is nothing to send."""
        return size / (_REACHED * (self.link if link is None else link)) + _LAUNCH if size else 0.0
