r"""Question of serving: chains of stages on the devices of servers, for a workload.

A *chain* is a sequence of stages, each on t devices of one server; the stages of a server follow each other. m batches
of b sequences circle through it: with the times :math:`T_1, …, T_p` of its stages a cycle takes
:math:`C = \max(m \max_i T_i, \sum_i T_i)`, which is the time of a token of each sequence (TPOT), and m b tokens leave
in each. Each stage holds the caches of all m b sequences. A *deployment* are chains side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

from instances.certificates import DEPLOY, Envelope, envelope, opened, stated_answer
from instances.errors import InputError, WordError, check_one_of
from instances.graph.display import figures
from instances.graph.questions import QuestionRecord, digest_of, nameless
from instances.json_files import Value
from instances.records import Limit
from instances.serving.model import ServedModel, Servers

#: Picoseconds of a second.
PICO = 10**12
#: Largest number of prompt tokens that a stage takes at once.
CHUNK = 8192
#: By format of weights: bytes of a stored weight, and bits of the numbers in its products.
WEIGHTS = {
    "bf16": (2.0, 16),
    "fp16": (2.0, 16),
    "fp8": (1.0, 8),
    "int8": (1.0, 16),
    "fp4": (0.5625, 4),
    "int4": (0.53125, 16),
}
#: Bytes of a number in caches, by format.
CACHES = {"bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
DEGREES = (1, 2, 4, 8, 16, 32, 64)
OBJECTIVES = ("throughput", "latency", "cost")
TOPOLOGIES = ("chain", "replicas")
RESERVES = ("full", "mean")
#: Runtimes in which one batch at a time goes through all stages.
ONE_BATCH = ("llama-cpp", "exo")
PREFILLS = ("mixed", "pools", "none", "prompts")
_MOST_TOKENS, MOST_BATCH = 10**7, 65536
_FEWEST_OF_POOLS = 2
#: Stands for a time without a limit [10^-12 s].
ENDLESS = 2**62


@dataclass(frozen=True)
class Constants:
    """Constants of the cost model.

    Parameters
    ----------
    flops, bytes, switch, slot : float
        Parts of peaks and rates that are reached: of products, of memory, of links through a switch, and through slots.
    latency : float
        Time of a message between devices, and of each doubling in an all-reduce [s].
    visit, sequence : float
        Time of a visit of a stage, and additional time for each sequence [s].
    keep : float
        Part of the memory that may be filled.
    reserve : float
        Bytes of a device taken by other things than weights and caches.
    first, prompt, wait : float
        Time of the first token of a prompt: seconds, and multiples of the time that the prompt takes in all stages and
        of the time from token to token, for which steps of other sequences keep it waiting.
    """

    flops: float = 0.648
    bytes: float = 0.712
    switch: float = 0.467
    slot: float = 0.591
    latency: float = 13.7e-6
    visit: float = 1.31e-3
    sequence: float = 5.3e-6
    keep: float = 0.968
    reserve: float = 1e9
    first: float = 6.5e-3
    prompt: float = 1.0
    wait: float = 1.0


@dataclass(frozen=True, eq=False, repr=False)
class DeploymentInstance(QuestionRecord):
    """Question of deployment: the best chains of stages for serving a decoder on servers.

    Parameters
    ----------
    model : ServedModel
    servers : tuple of Servers
        All servers; equal ones are one type.
    between : float
        Rate between two servers [bytes/s].
    input, output : int
        Mean number of tokens of a prompt, and of the output that follows it.
    weights, kv : str
        Number formats of weights and caches, from `WEIGHTS` and `CACHES`.
    reserve : {"full", "mean"}
        Tokens of each sequence for which cache is reserved: all of them, or the mean over the sequence's time.
    degrees : tuple of int
        Tensor degrees of stages, powers of 2.
    uniform : bool
        Whether all stages of a chain have one degree.
    batch : int
        Largest number of sequences in a batch.
    tpot, ttft : float
        Limits on the time per output token, and on the time to the first token of a prompt [s].
    objective : {"throughput", "latency", "cost"}
        Maximise tokens a second; minimise the time per token of a single sequence; or minimise the price of a token.
    topology : {"chain", "replicas"}
        One chain, or several side by side.
    prefill : {"mixed", "pools", "none", "prompts"}
        "mixed": chains process prompts and decode; "pools": some chains process prompts, others decode; "none": chains
        only decode; "prompts": chains only process prompts.
    runtime : str, optional
        Runtime that must be able to run each chain.
    constants : Constants

    Raises
    ------
    InputError
        If a number is out of its range, a degree divides no server, or prices are missing.
    """

    problem: ClassVar[str] = "deploy"

    model: ServedModel
    servers: tuple[Servers, ...]
    between: float
    input: int
    output: int
    weights: str = "bf16"
    kv: str = "bf16"
    reserve: Literal["full", "mean"] = "full"
    degrees: tuple[int, ...] = (1, 2, 4, 8)
    uniform: bool = False
    batch: int = 4096
    tpot: Limit = math.inf
    ttft: Limit = math.inf
    objective: Literal["throughput", "latency", "cost"] = "throughput"
    topology: Literal["chain", "replicas"] = "replicas"
    prefill: Literal["mixed", "pools", "none", "prompts"] = "mixed"
    runtime: str | None = None
    constants: Constants = Constants()

    def __post_init__(self) -> None:
        if not self.servers:
            raise InputError("There are no servers; give at least one.")
        if self.devices > 4096 or len(self.servers) > 64:
            raise InputError("There are more than 4096 devices, or 64 kinds of servers; give fewer.")
        for name, value, limit in (
            ("input", self.input, _MOST_TOKENS),
            ("output", self.output, _MOST_TOKENS),
            ("batch", self.batch, MOST_BATCH),
        ):
            if not 1 <= value <= limit:
                raise InputError(f"{name} is {value}; give a whole number from 1 to {limit}.")
        for name, table in (
            ("weights", WEIGHTS),
            ("kv", CACHES),
            ("reserve", RESERVES),
            ("objective", OBJECTIVES),
            ("topology", TOPOLOGIES),
            ("prefill", PREFILLS),
        ):
            check_one_of(name, getattr(self, name), table)
        for name in ("between", "tpot", "ttft"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be positive.")
        if not self.between < math.inf:
            raise WordError("between", self.between, "give bytes a second.")
        for name, value in vars(self.constants).items():
            top = 1.0 if name == "keep" else 1e12
            if not (0 <= value <= top) or (
                value == 0 and name in ("flops", "bytes", "switch", "slot", "keep", "prompt")
            ):
                raise InputError(f"constants.{name} is {value}; give a positive number.")
        if not self.degrees or tuple(sorted(set(self.degrees))) != self.degrees or set(self.degrees) - set(DEGREES):
            raise InputError(f"degrees are {list(self.degrees)}; give some of {', '.join(map(str, DEGREES))}, rising.")
        if min(self.degrees) > max(servers.devices for servers in self.servers):
            raise InputError(f"degree {min(self.degrees)} is more than a server has devices; give less.")
        for degree in self.degrees:
            self.model.check_degree(degree)
        if self.prefill == "pools":
            if self.objective != "throughput" or self.topology != "replicas":
                raise InputError("Pools are for the throughput of replicas; leave out objective and topology.")
            if self.devices < _FEWEST_OF_POOLS:
                raise InputError("Pools need two devices; give more, or let chains take prompts beside decoding.")
        if self.objective == "cost" and any(servers.price is None for servers in self.servers):
            raise InputError("The least cost needs prices; give each server the price of an hour.")

    @property
    def weight_bytes(self) -> float:
        """Bytes of a weight of a layer."""
        return WEIGHTS[self.weights][0]

    @property
    def end_bytes(self) -> float:
        """Bytes of a weight of embedding and head, which have at least 8 bits."""
        return self.weight_bytes if self.weight_bytes >= 1 else 2.0

    @property
    def cache_bytes(self) -> float:
        """Bytes of each number in caches of keys and values."""
        return CACHES[self.kv]

    def speedup(self, servers: Servers) -> float:
        """Speed of products with the weights relative to 16-bit numbers."""
        return {16: 1.0, 8: servers.eight, 4: servers.four}[WEIGHTS[self.weights][1]]

    @property
    def context(self) -> Fraction:
        """Mean number of tokens that a decoding step attends to."""
        return self.input + Fraction(self.output, 2)

    @property
    def resident_tokens(self) -> Fraction:
        """Tokens of each sequence for which the cache reserves room."""
        if self.prefill == "prompts":
            return Fraction(self.input)
        return self.context if self.reserve == "mean" else Fraction(self.input + self.output)

    @property
    def prompts_per_token(self) -> Fraction:
        """Prompts to be taken for each decoded token."""
        return Fraction(1, self.output) if self.prefill == "mixed" else Fraction(0)

    @property
    def pools(self) -> tuple[DeploymentInstance, DeploymentInstance]:
        """The questions of the pool that takes prompts and of the pool that decodes."""
        together = min(self.batch, max(1, CHUNK // self.input))
        prompts = replace(self, prefill="prompts", tpot=math.inf, batch=together)
        return prompts, replace(self, prefill="none", ttft=math.inf)

    @property
    def handed_over(self) -> Fraction:
        """Prompts a second whose caches can pass between servers, half of which send."""
        servers = sum(servers.count for servers in self.servers)
        return Fraction(servers, 2) * Fraction(self.between) / self._handed_bytes if servers > 1 else Fraction(0)

    def stays_within(self, s: int, prompts: Fraction, tokens: Fraction) -> Fraction:
        """Prompts a second that a server of type s both processes and decodes, by its chains' rates."""
        return min(prompts, tokens / self.output, Fraction(self.servers[s].within) / self._handed_bytes)

    @cached_property
    def _handed_bytes(self) -> Fraction:
        """Bytes of the cache of a prompt."""
        kept = [shape.cache * min(self.input, shape.window or self.input) for shape in self.model.shapes]
        return Fraction(self.cache_bytes) * sum(kept[shape] for shape in self.model.order.tolist())

    @property
    def ceiling(self) -> int:
        """Largest time of a layer, visit or hop, to which longer ones are cut so that sums have 64 bits [10^-12 s]."""
        return 2**61 // self.model.layers

    @cached_property
    def longest_cycle(self) -> int:
        """Longest allowed time of a token, at most the ceiling [10^-12 s]."""
        longest = self.ceiling - 1
        return longest if self.tpot == math.inf else min(longest, math.floor(Fraction(self.tpot) * PICO))

    @property
    def most_sequences(self) -> int:
        """Largest number of sequences in a batch."""
        return 1 if self.objective == "latency" else self.batch

    def most_batches(self, devices: Sequence[tuple[int, int]]) -> int:
        """Largest useful number of batches in flight on these devices.

        `devices` has (number of servers, devices of each) for each type. A chain of p stages gains nothing from more
        than p batches; some runtimes keep only one batch in flight.
        """
        stages = sum(count * size for count, size in devices)
        if self.objective == "latency" or self.runtime in ONE_BATCH:
            return 1
        return max(1, min(self.model.layers, stages))

    def patience(self, cycle: int) -> int:
        """Longest allowed time of a prompt if a token takes `cycle`; negative if no time is allowed [10^-12 s]."""
        if self.ttft == math.inf:
            return ENDLESS
        waiting = Fraction(self.ttft) - Fraction(self.constants.first)
        rest = waiting * PICO - Fraction(self.constants.wait) * cycle
        return min(ENDLESS, math.floor(rest / Fraction(self.constants.prompt)))

    def slowest_cycle(self, prompt: int) -> int:
        """Longest allowed time of a token if a prompt takes `prompt`; negative if no time is allowed [10^-12 s]."""
        if self.ttft == math.inf or not self.constants.wait:
            return self.longest_cycle
        waiting = (Fraction(self.ttft) - Fraction(self.constants.first)) * PICO
        rest = waiting - Fraction(self.constants.prompt) * prompt
        return min(self.longest_cycle, math.floor(rest / Fraction(self.constants.wait)))

    @property
    def label(self) -> str:
        """Model and servers, as messages and tables show it."""
        return f"{self.model.name}, {','.join(servers.label for servers in self.servers)}"

    @property
    def cost_name(self) -> str:
        """Noun of the costs of answers."""
        return "price a token" if self.objective == "cost" else "time a token"

    @property
    def time_unit(self) -> str:
        """Unit of the cost of an answer: seconds, or that of the prices of servers."""
        return "currency units" if self.objective == "cost" else "s"

    @property
    def question_facts(self) -> dict[str, str]:
        """Parameters of the question, without names, as a mapping from label to text."""
        parameters = f"{self.model.parameters / 1e9:.4g} billion parameters in {self.weights}"
        stored = ", bytes as stored" if any(shape.stored for shape in self.model.shapes) else ""
        servers = ", ".join(servers.label for servers in self.servers)
        room = "" if self.reserve == "full" else ", room for their mean"
        degrees = f"degrees {','.join(map(str, self.degrees))}{' alike' if self.uniform else ''}"
        times = [f", {name} {value:g} s" for name, value in self.limits.items()]
        return {
            "model": f"{self.model.layers} layers, {parameters}{stored}, caches in {self.kv}",
            "servers": f"on {servers}, {figures(self.between, 'bytes/s')} between",
            "workload": f"prompts of {self.input} and outputs of {self.output} tokens{room}, {self.prefill} prefill",
            "limits": f"{degrees}, batches of at most {self.batch}{''.join(times)}",
            "objective": f"{self.objective} of {self.topology}{f', for {self.runtime}' if self.runtime else ''}",
        }

    @property
    def limits(self) -> dict[str, float]:
        """The limits of time that the question has, by name [s]."""
        return {name: value for name, value in (("tpot", self.tpot), ("ttft", self.ttft)) if value < math.inf}

    @property
    def question_words(self) -> str:
        """The question in one line, with sizes and digests but no names of graph, nodes or devices."""
        return ", ".join([*self.question_facts.values(), digest_of(nameless(self.document()))])

    @property
    def devices(self) -> int:
        """Number of all devices."""
        return sum(servers.count * servers.devices for servers in self.servers)

    def _title(self) -> str:
        return self.label

    def _facts(self) -> dict[str, str]:
        return {"devices": str(self.devices), "layers": str(self.model.layers), "objective": self.objective}


# Deployments in files as raw records: statements that are not checked.


@dataclass(frozen=True)
class StatedChain:
    """A chain as a file states it."""

    batches: int  # batches in flight
    batch: int  # sequences of a batch
    # Type of servers, number of the server in its site, tensor degree, first layer, the one behind the last.
    stages: tuple[tuple[int, int, int, int, int], ...]
    weight_bytes: tuple[int, ...]  # weights on each device of each stage
    cache_bytes: tuple[int, ...]  # caches on each device of each stage
    tpot: float  # time per output token [s]
    ttft: float  # time to the first token [s]
    rate: float  # [tokens/s]; [prompts/s] if the chain takes prompts alone
    prompts: bool = False  # whether the chain takes prompts alone


@dataclass(frozen=True)
class StatedSite:
    """Chains on the same servers, as a file states them."""

    count: int  # equal sites
    chains: tuple[StatedChain, ...]


@dataclass(frozen=True)
class StatedAnswer:
    """The answer that a file states."""

    sites: tuple[StatedSite, ...]
    rate: float  # [tokens/s]
    price: float | None  # of a million tokens, in the currency of the servers' prices


@dataclass(frozen=True, kw_only=True)
class StatedDeployment(Envelope):
    """Certificate of a deployment as its file states it."""

    instance: DeploymentInstance
    answer: StatedAnswer

    answer_name: ClassVar[str] = "deployment"


def deployment_from_document(document: Value) -> StatedDeployment:
    """Read the certificate of a deployment; an `InputError` if the file holds no deployment."""
    fields = opened(document, DEPLOY)
    instance, answer = DeploymentInstance.of_document(fields["question"]), stated_answer(fields, StatedAnswer)
    return StatedDeployment(**envelope(fields, DEPLOY), instance=instance, answer=answer)
