"""The question of ``mtpp plan``: from words to a training instance."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from instances.errors import InputError
from mtpp.cli import options
from mtpp.questions.partitioning import NO_ROOFS, Roofs
from mtpp.text.parsing import parse_bandwidth, parse_bytes, parse_dims

if TYPE_CHECKING:
    from instances.devices.network import Network
    from instances.planning import Cluster, LayerChain, TrainingInstance

__all__ = ["PlanningQuestion", "load_cluster"]

_SIMULATION = "simulation"
_MOST_DEVICES = 256
_SIMULATED_TOKENS = 384
# What nobody says, which is printed then: of mixed precision training with Adam, and of the paper.
_DTYPE, _OPTIMIZER_BYTES, _PAPER_COPIES = "fp32", 16.0, 4.0


@dataclass(frozen=True, kw_only=True)
class PlanningQuestion:
    """What is to be planned; the fields are the words of the command line."""

    chain: Annotated[
        str,
        typer.Argument(
            metavar="CHAIN", help="A chain file, a PipeDream profile, an architecture, a graph, or simulation."
        ),
    ]
    cluster: Annotated[
        str,
        options.of_question(
            metavar="CLUSTER",
            help="A JSON or CSV file, servers as 8x4 or 6x2+3x4, 1080ti-8, v100-4, or simulation-SEED.",
        ),
    ]
    microbatches: Annotated[int, options.of_question(metavar="M", help="Microbatches of an iteration.")]
    bandwidth: Annotated[
        str | None,
        options.of_question(
            metavar="RATE[,RATE]",
            help="Of servers as 8x4: within them, and between them if that differs, such as 128Gbps,32Gbps or 16GB/s; "
            "a bare number is in bytes per second.",
        ),
    ] = None
    memory: options.DeviceMemory = None
    network: Annotated[
        str,
        options.of_question(
            metavar="shared|paper",
            help="Cards that servers share, or links that share nothing, as in the paper.",
        ),
    ] = "shared"
    nic: Annotated[
        str,
        options.of_question(
            metavar="full|half|RATE[,half]", help="Of a server's card: both directions at once or not, and its rate."
        ),
    ] = "full"
    dtype: Annotated[
        str | None, options.of_question(metavar="NAME", help="fp32, bf16, fp16 or fp8.  [default: fp32]")
    ] = None
    sequence: Annotated[int | None, options.of_question(metavar="N", help="Tokens of a sample.")] = None
    optimizer_bytes: Annotated[
        float | None,
        options.of_question(
            metavar="X",
            help="Bytes a parameter, with its gradient and the optimizer's state.  [default: 16, mixed precision Adam]",
        ),
    ] = None
    parameter_copies: Annotated[
        float | None,
        options.of_question(
            metavar="X", help="The same for each byte of parameters.  [default with --network paper: 4]"
        ),
    ] = None
    samples: Annotated[
        int | None, options.of_question(metavar="Q", help="Samples of a microbatch, whole ones for each replica.")
    ] = None
    recompute: Annotated[
        bool, options.of_question("--recompute", help="Stages that do not fit may keep their input alone.")
    ] = False
    full_duplex: Annotated[bool, options.of_question("--full-duplex", help="Links carry both directions at once.")] = (
        False
    )
    dim: options.Dim = None
    input_work: options.InputWork = None
    time_unit: options.TimeUnit = None
    roofs: Roofs = NO_ROOFS

    def instance(self, chain: LayerChain | None = None, cluster: Cluster | None = None) -> TrainingInstance:
        """The chain on its cluster; what is there already stands in for its word.

        Raises
        ------
        InputError
            If an option, the chain or the cluster is refused.
        """
        from instances.planning import TrainingInstance
        from instances.planning.problem import ELEMENT_BYTES

        if self.network not in ("shared", "paper"):
            raise InputError(f"--network {self.network}: choose shared or paper.")
        if self.optimizer_bytes is not None and self.parameter_copies is not None:
            raise InputError("--optimizer-bytes and --parameter-copies say the same; give one of them.")
        if self.dtype is not None and self.dtype not in ELEMENT_BYTES:
            raise InputError(f"--dtype {self.dtype}: choose one of {', '.join(ELEMENT_BYTES)}.")
        question = partial(
            TrainingInstance,
            chain=chain or self._chain(),
            cluster=cluster or load_cluster(self.cluster, self.bandwidth),
            microbatches=self.microbatches,
            full_duplex=self.full_duplex,
            memory=math.inf if self.memory is None else parse_bytes(self.memory, "--memory"),
        )
        if self.network == "paper":
            self._check_paper()
            return question(parameter_copies=_or(self.parameter_copies, _PAPER_COPIES))
        width = ELEMENT_BYTES[self.dtype or _DTYPE]
        return question(
            parameter_copies=_or(self.parameter_copies, _or(self.optimizer_bytes, _OPTIMIZER_BYTES) / width),
            network=_card(self.nic, len(question.keywords["cluster"].servers)),
            samples=self.samples,
            recomputation=self.recompute,
            dtype=self.dtype or _DTYPE,
            sequence=self._default_sequence() if self.sequence is None else self.sequence,
        )

    def _check_paper(self) -> None:
        """Refuse what the paper's network does not know."""
        given = {
            "--nic": None if self.nic == "full" else self.nic,
            "--dtype": self.dtype,
            "--sequence": self.sequence,
            "--optimizer-bytes": self.optimizer_bytes,
            "--samples": self.samples,
            "--recompute": self.recompute or None,
        }
        for option, value in given.items():
            if value is not None:
                raise InputError(f"{option}: the paper's network has no such thing; choose --network shared.")

    def _default_sequence(self) -> int | None:
        """Tokens that the chain is priced for if nobody says them."""
        from instances.architectures import ARCHITECTURES

        if self.chain == _SIMULATION:
            return _SIMULATED_TOKENS
        dims = parse_dims(self.dim or ())
        found = dims.get(
            "sequence", ARCHITECTURES[self.chain].dims.get("sequence") if self.chain in ARCHITECTURES else None
        )
        return found if isinstance(found, int) else None

    def _chain(self) -> LayerChain:
        from instances.planning.bert import bert_chain
        from instances.planning.plan_files import load_chain

        simulated = self.chain == _SIMULATION
        if self.dim and (simulated or (Path(self.chain).is_file() and Path(self.chain).suffix != ".onnx")):
            raise InputError(
                f"--dim {self.dim[0]}: only architectures and ONNX models have dimensions; leave this option out."
            )
        reading = {"input_work": self.input_work, "time_unit": self.time_unit, "device": self.roofs.device()}
        if not simulated:
            return load_chain(self.chain, dims=self._dims(), **reading)
        if any(value is not None for value in reading.values()):
            raise InputError(
                f"{self.chain}: this chain has no options; leave out --input-work, --time-unit, --peak-flops and "
                "--memory-bandwidth."
            )
        if self.dtype not in (None, _DTYPE):
            raise InputError(f"--dtype {self.dtype}: the simulation is one in {_DTYPE}; leave this option out.")
        return bert_chain(sequence=_SIMULATED_TOKENS if self.sequence is None else self.sequence)

    def _dims(self) -> dict[str, Any]:
        """Dimensions of an architecture, with those that --dtype and --sequence say."""
        from instances.architectures import ARCHITECTURES
        from instances.planning.problem import ELEMENT_BYTES

        dims: dict[str, Any] = dict(parse_dims(self.dim or ()))
        known = ARCHITECTURES[self.chain].dims if self.chain in ARCHITECTURES else {}
        said = {"element_bytes": self.dtype and ELEMENT_BYTES[self.dtype], "sequence": self.sequence}
        for name, value in said.items():
            if value is not None and name in known and dims.setdefault(name, value) != value:
                raise InputError(f"--dim {name}={dims[name]}: another option says {value}; leave one out.")
        return dims


def load_cluster(text: str, bandwidth: str | None = None) -> Cluster:
    """A cluster from what ``--cluster`` takes.

    Parameters
    ----------
    text : str
        A file; servers such as ``8x4`` or ``6x2+3x4+1x8``; a testbed of the paper; ``simulation-SEED``, one of its
        random clusters.
    bandwidth : str, optional
        For servers: one rate, or one within and one between them.

    Raises
    ------
    InputError
        If there is no such cluster, or the bandwidth is missing or in vain.

    Examples
    --------
    >>> load_cluster("2x1+1x2", "16GB/s,4GB/s").servers
    (1, 1, 2)
    """
    import numpy as np

    from instances.planning import Cluster
    from instances.planning.paper_settings import TESTBEDS, random_cluster
    from instances.planning.plan_files import read_cluster

    if not re.fullmatch(r"\d{1,18}x\d{1,18}(\+\d{1,18}x\d{1,18})*", text):
        if bandwidth is not None:
            raise InputError(f"--bandwidth {bandwidth}: the cluster {text} has its own; leave this option out.")
        if text in TESTBEDS:
            return TESTBEDS[text]()
        if match := re.fullmatch(rf"{_SIMULATION}-(\d+)", text):
            return random_cluster(np.random.default_rng(int(match[1])))
        if not Path(text).is_file():
            raise InputError(
                f"--cluster {text}: there is no such file; give one, servers such as 8x4, {', '.join(TESTBEDS)} or "
                f"{_SIMULATION}-0."
            )
        return read_cluster(text)
    if bandwidth is None:
        raise InputError(f"--cluster {text}: give --bandwidth within and between servers, such as 128Gbps,32Gbps.")
    rates = bandwidth.split(",")
    if len(rates) > 2:
        raise InputError(f"--bandwidth {bandwidth}: give one rate, or one within and one between servers.")
    parts = [(int(count), int(size)) for part in text.split("+") for count, size in [part.split("x")]]
    devices = sum(count * size for count, size in parts)
    if not 0 < devices <= _MOST_DEVICES or any(size == 0 for _, size in parts):
        raise InputError(f"--cluster {text}: these are {devices} devices; give from 1 to {_MOST_DEVICES}.")
    servers = [size for count, size in parts for _ in range(count)]
    within, between = parse_bandwidth(rates[0]), parse_bandwidth(rates[-1])
    return Cluster.of_servers(servers, within, between, name=text)


def _or(value: float | None, default: float) -> float:
    return default if value is None else value


def _card(text: str, servers: int) -> Network:
    """A network card from what ``--nic`` takes."""
    from instances.devices.network import Network

    words = text.split(",")
    half = "half" in words
    rates = [word for word in words if word not in ("full", "half")]
    if len(rates) > 1 or len(words) > 2:
        raise InputError(f"--nic {text}: give full or half, and at most one rate, such as 25GB/s,half.")
    if not rates:
        return Network(half)
    return Network(half, (parse_bandwidth(rates[0], option="--nic"),) * servers)
