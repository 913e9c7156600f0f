"""Accelerators by name, and the constants of their times, as measured runs have them.

The constants of A100 and H100 were fitted to published steps of training (Megatron-LM, llm-foundry and torchtitan), in
whole families of models; `experiments.studies.training` holds predictions beside all of these. Software counts as much
as a device does: one plan on one machine took up to a third longer a release earlier.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from instances.errors import InputError, WordError, check_one_of, printable, unknown
from instances.json_files import read_json
from instances.machines import ListedDevice, catalogue, device_named, listed_devices
from instances.records import read

#: Types of numbers of products, with their bytes in memory: inputs of products of 8 bits are made of 16 bits.
DTYPES = {"bf16": 2, "fp16": 2, "fp8": 2}


@dataclass(frozen=True)
class Constants:
    """Constants of the times of training: of a device, a type of numbers, and a runtime."""

    gemm: float = 0.821  # part of the peak that large products of layers reach
    attention: float = 0.575  # part of the 16-bit peak that attention in one kernel reaches
    vector: float = 1.0  # bytes that operators on single numbers move, as a multiple of the least
    tp_exposed: float = 1.0  # part of the time of tensor collectives that nothing hides
    zero3_exposed: float = 0.54  # part of what ZeRO 2 and 3 send during passes that nothing hides
    row: float = 0.29e-6  # time to route a token to an expert and back, both passes together [s]
    scale: float = 0.0024  # part by which each doubling of the devices beyond a server lengthens a step

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value <= 100 or not math.isfinite(value):
                raise InputError(f"The constant {name} is {value}; it must be from 0 to 100.")
        for name in ("gemm", "attention", "vector"):
            if getattr(self, name) < 1e-3:
                raise InputError(f"The constant {name} is {getattr(self, name)}; it must be from 0.001 to 100.")

    def longer(self, devices: int) -> float:
        """Factor by which steps on this many devices take longer than their operators."""
        return 1 + self.scale * max(0.0, math.log2(devices / 8))


_RANGES = {
    "peak_flops": (1e9, 1e18),
    "memory_bandwidth": (1e9, 1e15),
    "memory": (1e6, 1e14),
    "processors": (1, 100_000),
    "eight": (1, 64),
}
_GENERATIONS = ("A100", "H100", "H100-500W")


@dataclass(frozen=True)
class Accelerator:
    """Peak rates and memory of a device."""

    name: str  # to ask for
    peak_flops: float  # of 16-bit matrix products, without sparsity [1/s]
    memory_bandwidth: float  # [bytes/s]
    memory: float  # [bytes]
    processors: int = 108  # multiprocessors, which share the tiles of a product
    eight: float = 1.0  # peak of 8-bit products, as a multiple of that; 1 where there is none
    generation: str = "A100"  # of which times were measured, the nearest one
    half: str | None = None  # its only type of 16-bit products; None if it has bf16 and fp16

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise InputError(f"{name} of {printable(self.name)} is {value:g}; give from {low:g} to {high:g}.")
        check_one_of(f"generation of {self.name}", self.generation, _GENERATIONS)
        if self.half is not None:
            check_one_of(f"half of {self.name}", self.half, ("bf16", "fp16"))


#: Constants of A100 with Megatron-LM.
MEASURED_FIRST = Constants()
_H100 = Constants(gemm=0.648, attention=0.505, tp_exposed=0.0)
_SLOWER = 0.8  # of 500 watts in place of 700
_MEGATRON = {
    ("A100", "bf16"): MEASURED_FIRST,
    ("H100", "bf16"): _H100,
    ("H100", "fp8"): replace(_H100, gemm=0.570),
}
#: Attention of other runtimes as a multiple of Megatron's, and `vector` where nothing is compiled.
_OTHER_ATTENTION, _EAGER = 0.360 / 0.505, 2.03

#: Runtimes whose constants were measured; the first stands for plans without a runtime.
RUNTIMES = ("megatron", "torchtitan", "fsdp")
#: Devices with measured steps of their own.
MEASURED = ("A100-40", "A100-80", "H100-80", "H100-96")


def constants_of(device: Accelerator, dtype: str, runtime: str | None) -> Constants:
    """Constants of a device, or of the nearest generation that was measured; `gemm` is relative to this type's peak.

    Raises
    ------
    InputError
        If the device has no products of this type.
    """
    numbers, lacking = dtype, device.half not in (None, dtype)
    if dtype == "fp8":
        numbers, lacking = "8-bit numbers", device.eight == 1
    if lacking:
        why = f"{device.name} has no products of {numbers}; use {device.half or 'bf16 or fp16'}."
        raise WordError("dtype", dtype, why)
    slower = device.generation.endswith("-500W")
    generation = device.generation.removesuffix("-500W")
    constants = _MEGATRON[generation, "fp8" if dtype == "fp8" else "bf16"]
    if runtime not in (None, RUNTIMES[0]):
        constants = replace(
            constants,
            attention=constants.attention * _OTHER_ATTENTION,
            vector=_EAGER if runtime == "fsdp" else 1.0,
        )
    if slower:
        constants = replace(constants, gemm=_SLOWER * constants.gemm, attention=_SLOWER * constants.attention)
    return constants


def basis(device: Accelerator) -> str:
    """Text that says on which measured device the estimated times of a device rest."""
    if device.name in MEASURED:
        return f"estimated for {device.name}"
    return f"estimated for {device.name} by constants of {device.generation.removesuffix('-500W')}, not calibrated"


def _accelerator(listed: ListedDevice) -> Accelerator:
    return Accelerator(
        name=listed.training,
        peak_flops=listed.peak_tflops * 1e12,
        memory_bandwidth=listed.memory_bandwidth * 1e9,
        memory=listed.memory * (2**30 if listed.binary else 1e9),
        processors=listed.processors,
        eight=listed.eight,
        generation=listed.generation,
        half=listed.half,
    )


#: Name to accelerator.
ACCELERATORS = {device.training: _accelerator(device) for device in listed_devices().values()}


#: Files of one device.
DEVICE_FORMAT = "mtpp-device/1"


def read_accelerator(name: str) -> Accelerator:
    """The accelerator of a name (in any case, with or without its memory) or of a file ``mtpp-device/1``.

    Raises
    ------
    InputError
        If there is no accelerator of this name (the message proposes near ones), or the file holds none (the message
        names the place).
    """
    if name.endswith(".json"):
        return read(read_json(name).content(DEVICE_FORMAT), Accelerator)
    listed = device_named(name)
    if listed is None:
        begin = [device for device in ACCELERATORS if name and device.lower().startswith(name.lower())]
        raise InputError(unknown(begin or ACCELERATORS, name.upper(), "device"))
    return ACCELERATORS[listed.training]


@dataclass(frozen=True)
class ListedServer:
    """A server of the catalogue: devices with a fast link, and each device's part of the network."""

    name: str
    device: str
    devices: int
    inner: float  # of a device within its server, one direction [GB/s]
    outer: float  # to other servers [GB/s]
    source: str


@cache
def listed_servers() -> dict[str, ListedServer]:
    """Servers of the catalogue by name."""
    return {row["name"]: ListedServer(**row) for row in catalogue()["servers"]}
