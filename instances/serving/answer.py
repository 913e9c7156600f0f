"""Answer to a question of serving: chains of stages side by side, with their numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from instances.errors import InputError
from instances.graph.display import Displayed, Rows, figures
from instances.graph.tensors import IntArray
from instances.records import written
from instances.serving.costs import costs_of
from instances.serving.problem import MOST_BATCH, PICO, DeploymentInstance, StatedAnswer, StatedChain, StatedSite


@dataclass(frozen=True)
class Stage:
    """Consecutive layers of a model on some devices of one server."""

    servers: int  # type of the server
    server: int  # number of the server among those of its type in its chain
    degree: int  # tensor degree
    first: int  # first layer
    end: int  # layer behind the last one


@dataclass(frozen=True)
class Chain:
    """Stages through which batches of sequences pass again and again."""

    stages: tuple[Stage, ...]
    batches: int  # batches in flight
    batch: int  # sequences of each batch
    prompts: bool = False  # whether it takes prompts alone, beside chains that decode


@dataclass(frozen=True, eq=False)
class ServedChain:
    """A chain with its times and bytes, computed from the question."""

    question: DeploymentInstance
    chain: Chain

    @cached_property
    def stage_times(self) -> tuple[int, ...]:
        """Time of each stage for a batch, with the transfer to it [10^-12 s]."""
        question = self.question
        tables = costs_of(question).at(self.chain.batch)
        times = list[int]()
        before: Stage | None = None
        for stage in self.chain.stages:
            time = tables.time[stage.servers, question.degrees.index(stage.degree)]
            hop = 0
            if before is not None:
                same = (before.servers, before.server) == (stage.servers, stage.server)
                hop = int(tables.hops[stage.servers, 0 if same else 1])
            times.append(int(time[stage.end] - time[stage.first]) + tables.visit + hop)
            before = stage
        return tuple(times)

    @property
    def cycle(self) -> int:
        """Time for a token of every sequence [10^-12 s]."""
        return max(self.chain.batches * max(self.stage_times), sum(self.stage_times))

    @property
    def sequences(self) -> int:
        """Number of sequences in flight."""
        return self.chain.batches * self.chain.batch

    @property
    def rate(self) -> Fraction:
        """Tokens a second."""
        return Fraction(self.sequences * PICO, self.cycle)

    @property
    def tpot(self) -> float:
        """Time per output token of each sequence [s]."""
        return self.cycle / PICO

    @property
    def prompt(self) -> int:
        """Time of a prompt through all stages [10^-12 s]."""
        prompts, degrees = costs_of(self.question).prompts, self.question.degrees
        rows = [(prompts[s.servers, degrees.index(s.degree)], s) for s in self.chain.stages]
        return sum(int(row[s.end] - row[s.first]) for row, s in rows)

    @property
    def ttft(self) -> float:
        """Time to the first token of a prompt, without queues [s]."""
        constants = self.question.constants
        return constants.first + constants.prompt * self.prompt / PICO + constants.wait * self.tpot

    @property
    def is_allowed(self) -> bool:
        """Whether the chain fits into memory and keeps the limits of time."""
        question, cycle = self.question, self.cycle
        return cycle <= question.longest_cycle and self.fits and self.prompt <= question.patience(cycle)

    @cached_property
    def weight_bytes(self) -> tuple[int, ...]:
        """For each stage, the bytes of weights on one of its devices."""
        question = self.question
        sizes = []
        for stage in self.chain.stages:
            d = question.degrees.index(stage.degree)
            weights = costs_of(question).weights[d]
            whole = stage.first == 0 and stage.end == question.model.layers
            sizes.append(int(weights[stage.end] - weights[stage.first] - whole * costs_of(question).tied[d]))
        return tuple(sizes)

    @cached_property
    def cache_bytes(self) -> tuple[int, ...]:
        """For each stage, the bytes on one of its devices of the caches of all sequences in flight."""
        question = self.question
        sizes = []
        for stage in self.chain.stages:
            caches = costs_of(question).caches[question.degrees.index(stage.degree)]
            sizes.append(self.sequences * int(caches[stage.end] - caches[stage.first]))
        return tuple(sizes)

    @property
    def fits(self) -> bool:
        """Whether weights and caches fit into the devices."""
        room = costs_of(self.question).room
        rows = zip(self.chain.stages, self.weight_bytes, self.cache_bytes, strict=True)
        return all(weights + caches <= room[stage.servers] for stage, weights, caches in rows)

    @property
    def is_tight(self) -> bool:
        """Whether weights leave less than 15 % of a device's memory, where predictions are less certain."""
        rows = zip(self.chain.stages, self.weight_bytes, strict=True)
        servers = self.question.servers
        return any(weights > 0.85 * servers[stage.servers].memory for stage, weights in rows)

    @property
    def words(self) -> str:
        """Stages as a text, such as "H100 tp4 40, H100 tp4 40"."""
        servers = self.question.servers
        return ", ".join(f"{servers[s.servers].kind} tp{s.degree} {s.end - s.first}" for s in self.chain.stages)


@dataclass(frozen=True, eq=False)
class Site:
    """Chains that share servers with each other only: one on whole servers, or several within a server."""

    chains: tuple[ServedChain, ...]

    @property
    def servers(self) -> IntArray:
        """(T,) servers of each type."""
        used = {(stage.servers, stage.server) for chain in self.chains for stage in chain.chain.stages}
        types = len(self.chains[0].question.servers)
        return np.bincount([s for s, _ in used], minlength=types)

    @property
    def stays_within(self) -> Fraction:
        """Prompts a second that a server both takes and decodes; 0 if chains use several servers."""
        if self.servers.sum() > 1 or len({chain.chain.prompts for chain in self.chains}) == 1:
            return Fraction(0)
        rates = [Fraction(0), Fraction(0)]
        for chain in self.chains:
            rates[chain.chain.prompts] += chain.rate
        tokens, prompts = rates
        return self.chains[0].question.stays_within(int(self.servers.argmax()), prompts, tokens)


@dataclass(frozen=True, eq=False, repr=False)
class Deployment(Displayed):
    """Answer to a question of serving: chains side by side.

    Parameters
    ----------
    instance : DeploymentInstance
    sites : tuple of (Site, int)
        Each site with its count.
    """

    instance: DeploymentInstance
    sites: tuple[tuple[Site, int], ...]

    @cached_property
    def chains(self) -> tuple[tuple[ServedChain, int], ...]:
        """The distinct chains that decode, each with its count."""
        return self._chains(prompts=False)

    @cached_property
    def prompt_chains(self) -> tuple[tuple[ServedChain, int], ...]:
        """The distinct chains that only take prompts, each with its count."""
        return self._chains(prompts=True)

    @property
    def pools(self) -> tuple[tuple[str, ServedChain, int], ...]:
        """All distinct chains with the name of their pool, whether they only take prompts, and their count."""
        rows = [("prompts ", *row) for row in self.prompt_chains] + [("", *row) for row in self.chains]
        return tuple(rows)

    def _chains(self, *, prompts: bool) -> tuple[tuple[ServedChain, int], ...]:
        counts = dict[Chain, int]()
        by_chain = dict[Chain, ServedChain]()
        for site, count in self.sites:
            for chain in site.chains:
                by_chain.setdefault(chain.chain, chain)
                counts[chain.chain] = counts.get(chain.chain, 0) + count
        return tuple((by_chain[chain], count) for chain, count in counts.items() if chain.prompts == prompts)

    @property
    def rate(self) -> float:
        """Tokens a second of all chains."""
        return float(self.exact_rate)

    @cached_property
    def exact_rate(self) -> Fraction:
        """Tokens a second of all chains; with pools, limited by the prompts processed and the caches transferred."""
        rates = [sum((count * chain.rate for chain, count in self.chains), Fraction(0))]
        if self.instance.prefill == "pools":
            prompts = sum((count * chain.rate for chain, count in self.prompt_chains), Fraction(0))
            within = sum((count * site.stays_within for site, count in self.sites), Fraction(0))
            rates += [self.instance.output * rate for rate in (prompts, self.instance.handed_over + within)]
        return min(rates)

    @property
    def cost(self) -> float:
        """Objective: time per token of all chains or of each sequence [s], or the price per token."""
        if self.instance.objective == "cost":
            return float(self.hourly / 3600 / self.exact_rate)
        return float(1 / self.exact_rate)

    @property
    def servers_used(self) -> IntArray:
        """(T,) servers of each type."""
        rows = [count * site.servers for site, count in self.sites]
        return np.sum(rows, axis=0, dtype=np.int64)

    @property
    def hourly(self) -> Fraction:
        """Price per hour of the servers in use; 0 without prices."""
        rows = zip(self.servers_used.tolist(), self.instance.servers, strict=True)
        return sum((count * Fraction(servers.price or 0.0) for count, servers in rows), Fraction(0))

    @property
    def tpot(self) -> float:
        """The longest time per output token of any chain [s]."""
        return max(chain.tpot for chain, _ in self.chains)

    @property
    def ttft(self) -> float:
        """The longest time to a first token of any chain [s]."""
        return max(chain.ttft for chain, _ in self.prompt_chains or self.chains)

    @property
    def price(self) -> float | None:
        """Price of a million tokens of output; None without prices."""
        if any(servers.price is None for servers in self.instance.servers):
            return None
        return float(self.hourly / 3600 / self.exact_rate * 10**6)

    def _title(self) -> str:
        return self.instance.label

    @property
    def words(self) -> str:
        """Chains as a text, such as "2 x H100 tp4 80"."""
        rows = [(f"{count} x " if count > 1 else "") + f"{pool}{chain.words}" for pool, chain, count in self.pools]
        return "; ".join(rows)

    @property
    def measures(self) -> dict[str, str]:
        """The rate and times as texts by label."""
        return {
            "rate": figures(self.rate, "tokens/s"),
            "tpot": figures(self.tpot, "s"),
            "ttft": figures(self.ttft, "s"),
        }

    def _facts(self) -> dict[str, str]:
        return self.measures

    def _rows(self) -> Rows:
        header = ["chain", "stage", "device", "degree", "layers", "time [s]", "weights a device", "caches a device"]
        rows = []
        for c, (pool, chain, count) in enumerate(self.pools, 1):
            name = f"{pool}{c}" if count == 1 else f"{pool}{c}, {count} times"
            columns = zip(chain.chain.stages, chain.stage_times, chain.weight_bytes, chain.cache_bytes, strict=True)
            for number, (stage, time, weights, caches) in enumerate(columns):
                kind = self.instance.servers[stage.servers].kind
                sizes = [figures(weights, "bytes"), figures(caches, "bytes")]
                layers = f"{stage.first}–{stage.end - 1}"
                rows.append([name, str(number), kind, str(stage.degree), layers, f"{time / PICO:.6g}", *sizes])
        return header, rows


def deployment_document(deployment: Deployment) -> dict[str, Any]:
    """The answer as a member of its file."""
    sites = []
    for site, count in deployment.sites:
        chains = [
            StatedChain(
                batches=chain.chain.batches,
                batch=chain.chain.batch,
                stages=tuple((s.servers, s.server, s.degree, s.first, s.end) for s in chain.chain.stages),
                weight_bytes=chain.weight_bytes,
                cache_bytes=chain.cache_bytes,
                tpot=chain.tpot,
                ttft=chain.ttft,
                rate=float(chain.rate),
                prompts=chain.chain.prompts,
            )
            for chain in site.chains
        ]
        sites.append(StatedSite(count, tuple(chains)))
    return written(StatedAnswer(tuple(sites), deployment.rate, deployment.price))


def answer_of(question: DeploymentInstance, stated: StatedAnswer) -> Deployment:
    """The deployment that a file states, with all its costs computed anew.

    Raises
    ------
    InputError
        If a stage has a number out of its range.
    """
    types, layers = len(question.servers), question.model.layers
    pools = question.pools[::-1] if question.prefill == "pools" else (question,)
    sites = []
    for site in stated.sites:
        chains = []
        for chain in site.chains:
            for s, server, degree, first, end in chain.stages:
                if not (0 <= s < types and server >= 0 and degree in question.degrees and 0 <= first < end <= layers):
                    raise InputError(f"there is no stage {[s, server, degree, first, end]} of this question.")
            if not chain.stages or min(chain.batches, chain.batch, site.count) < 1 or chain.batch > MOST_BATCH:
                raise InputError("a chain has no stages or no sequences; give 1 or more.")
            if chain.prompts and len(pools) == 1:
                raise InputError("a chain takes prompts alone, and the question has no pools.")
            stages = tuple(Stage(*row) for row in chain.stages)
            parts = Chain(stages, chain.batches, chain.batch, chain.prompts)
            chains.append(ServedChain(pools[chain.prompts], parts))
        sites.append((Site(tuple(chains)), site.count))
    answer = Deployment(question, tuple(sites))
    if not all(site.chains for site, _ in sites) or not answer.chains or len(pools) > 1 > len(answer.prompt_chains):
        raise InputError("there is no chain that decodes, or none that takes prompts.")
    return answer
