"""Roofline cost model: operations and bytes to seconds."""

from __future__ import annotations

from dataclasses import dataclass

from instances.errors import InputError

__all__ = ["DEFAULT_DEVICE", "Device"]


@dataclass(frozen=True)
class Device:
    """Device of the roofline model (Williams, Waterman, Patterson 2009): it turns operations and bytes into seconds.

    Raises
    ------
    InputError
        If a value is not positive.
    """

    peak_flops: float = 100e12  # floating-point operations per second, positive
    memory_bandwidth: float = 1.5e12  # bytes per second between the device and its own memory, positive

    def __post_init__(self) -> None:
        for label, value in (("peak_flops", self.peak_flops), ("memory_bandwidth", self.memory_bandwidth)):
            if not value > 0:
                raise InputError(f"Device: {label} is {value}; it must be positive.")

    def time(self, flops: float, bytes_moved: float) -> float:
        """Seconds of an operator that computes and moves data at once: the slower of the two counts.

        Parameters
        ----------
        flops : float
            Floating-point operations, 0 or more.
        bytes_moved : float
            Bytes read from and written to memory, 0 or more.

        Raises
        ------
        InputError
            If an argument is negative or not a number.

        Examples
        --------
        >>> Device(peak_flops=100.0, memory_bandwidth=10.0).time(flops=300.0, bytes_moved=20.0)
        3.0
        """
        for label, value in (("flops", flops), ("bytes_moved", bytes_moved)):
            if not value >= 0:
                raise InputError(f"Device.time: {label} is {value}; it must be 0 or more.")
        return max(flops / self.peak_flops, bytes_moved / self.memory_bandwidth)


DEFAULT_DEVICE = Device()
