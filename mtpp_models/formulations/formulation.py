"""What a model is: one or more Pyomo cases, and how their bounds combine."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyomo.environ as pyo

from instances import Instance, Partition, Result
from instances.graph.tensors import IntArray
from mtpp_models.formulations.parts import Strengthening
from mtpp_models.simple import simple
from mtpp_models.solvers.interface import Controls

__all__ = ["Algorithm", "Case", "Formulation", "ScaledInstance", "block_ranks"]

_OUT_OF_REACH = 1e3


@dataclass(frozen=True)
class ScaledInstance:
    """The coefficients of the models; times are in multiples of `unit`, so that objectives are near 1.

    Parameters
    ----------
    instance : Instance
    unit : float
        Positive; the bottleneck of a known partition is a good choice.
    """

    instance: Instance
    unit: float

    @classmethod
    def near(cls, instance: Instance, start: Partition | None) -> ScaledInstance:
        """Scale by what `start` costs in the models, else by a time that is near the optimum."""
        if start is not None:
            costs = Partition(instance.without_peaks(), start.block, start.order)
            return cls(instance, costs.bottleneck or 1.0)
        return cls(instance, max(simple(instance), _one_block(instance) / instance.k) or 1.0)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.instance.graph.n

    @property
    def k(self) -> int:
        """Number of blocks; more than nodes never help."""
        return min(self.instance.k, self.n)

    @cached_property
    def work(self) -> list[float]:
        """Work of each node."""
        return (self.instance.graph.work / self.unit).tolist()

    @cached_property
    def tensors(self) -> list[int]:
        """The tensors that somebody reads."""
        start = self.instance.graph.tensors.start
        return (start[1:] > start[:-1]).nonzero()[0].tolist()

    @cached_property
    def cut_time(self) -> dict[int, float]:
        """output_bytes / B of each tensor.

        What no solution within reach pays is capped, so that the coefficients stay within what solvers accept:
        all nodes in one block cut nothing, and lower costs keep a bound valid.
        """
        reach = min(_one_block(self.instance), self.k * self.unit)
        times = np.minimum(self.instance.tensor_time, _OUT_OF_REACH * reach if reach > 0 else math.inf)
        return {t: float(times[t]) / self.unit for t in self.tensors}

    @cached_property
    def reads(self) -> list[tuple[int, int, int]]:
        """The edges as (tensor, its producer, one consumer)."""
        graph = self.instance.graph
        return [(t, u, v) for t, (u, v) in zip(graph.edge_tensor.tolist(), graph.edges.tolist(), strict=True)]

    @cached_property
    def arcs(self) -> list[tuple[int, int]]:
        """The edges as (producer, consumer), each pair of nodes once."""
        return sorted({(u, v) for _, u, v in self.reads})

    @property
    def has_overflow(self) -> bool:
        """Whether a block can overflow, and by times that solvers can tell from the work.

        Beside parameters of a million units, the tolerances of a solver are no longer small, and its bounds not safe;
        a model without overflow is the weaker, safe one.
        """
        total = self._byte_time(self.instance.graph.parameter_total)
        return self.instance.has_overflow and self.spare_time < total < _OUT_OF_REACH**2

    @property
    def leaves_out_overflow(self) -> bool:
        """Whether a block can overflow, but by times that solvers cannot tell from the work."""
        total = self._byte_time(self.instance.graph.parameter_total)
        return self.instance.has_overflow and self.spare_time < total and not self.has_overflow

    @cached_property
    def param_time(self) -> list[float]:
        """param_bytes / B of each node."""
        return [self._byte_time(size) for size in self.instance.graph.param_bytes.tolist()]

    @cached_property
    def shared_time(self) -> list[float]:
        """The bytes / B of each shared parameter."""
        return [self._byte_time(parameter.bytes) for parameter in self.instance.graph.parameters]

    @cached_property
    def uses(self) -> list[tuple[int, int]]:
        """Pairs (shared parameter, node that uses it)."""
        return [(g, v) for g, shared in enumerate(self.instance.graph.parameters) for v in sorted(set(shared.users))]

    @cached_property
    def spare_time(self) -> float:
        """(M - buffer) / B; without a fixed buffer the peak counts as 0, which keeps bounds valid."""
        platform = self.instance.platform
        return self._byte_time(platform.memory - (platform.activation_buffer or 0.0))

    def _byte_time(self, size: float) -> float:
        return size / self.instance.platform.bandwidth / self.unit


@dataclass(frozen=True)
class Case:
    """One Pyomo model.

    Parameters
    ----------
    name : str
        Unique in its formulation.
    build : callable
        Makes the model. Its variable ``y[v, b]`` says that node v lies in (super)block b or before.
    superblock : callable
        Maps a partition to the (super)block of each node, counted from 1.
    """

    name: str
    build: Callable[[], pyo.ConcreteModel]
    superblock: Callable[[Partition], IntArray]

    def model(self, start: Partition | None = None, *, relaxation: bool = False) -> pyo.ConcreteModel:
        """Build the model, with a warm start in ``y``; the solver completes the other variables.

        Parameters
        ----------
        start : Partition, optional
        relaxation : bool
            Whether to relax the integer variables; then there is no start.

        Returns
        -------
        pyomo.environ.ConcreteModel
        """
        model = self.build()
        if relaxation:
            pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
        elif start is not None:
            for v, home in enumerate(self.superblock(start)):
                for b in model.B_before_last:
                    if not model.y[v, b].fixed:
                        model.y[v, b].set_value(int(home <= b))
        return model


@dataclass(frozen=True)
class Algorithm:
    """A lower bound that is computed by a procedure of its own.

    Parameters
    ----------
    name, summary, reference : str
        As of a `Formulation`.
    prove : callable
        Maps a partition of the instance, the better the faster, and controls to a result. Reports are in the time
        unit of the instance.
    exact : bool
        Whether its bound is the optimum when it runs to its end.
    """

    name: str
    summary: str
    reference: str
    prove: Callable[[Partition, Controls], Result]
    exact: bool = False


@dataclass(frozen=True)
class Formulation:
    """A lower bound on the bottleneck: the smallest optimum of its cases.

    Whoever adds constraints that some partition violates makes the optimum that of fewer partitions, and no bound for
    all of them; this has to be said with `is_bound`. Constraints that name nodes need `solve` with ``reduce=False``.

    Parameters
    ----------
    name, summary, reference : str
        What it is called, what it says in one line, where it is published.
    cases : callable
        The cases of an instance.
    exact : bool
        Whether a solution of the one case is a partition and its objective the bottleneck.
    sizes : callable, optional
        Maps the number of blocks to the sizes of superblocks, where the only case is the model of these.
    strengthening : Strengthening, optional
        What is added to the model of superblocks.
    is_bound : bool
        Whether every partition satisfies the constraints of a case, at no more than its bottleneck. If not, `solve`
        returns no bound, and of partitions only what the solver found.
    """

    name: str
    summary: str
    reference: str
    cases: Callable[[ScaledInstance], Sequence[Case]]
    exact: bool = False
    sizes: Callable[[int], tuple[int, ...]] | None = None
    strengthening: Strengthening | None = None
    is_bound: bool = True


def block_ranks(partition: Partition) -> IntArray:
    """(n,) block of each node counted from 1, with the empty blocks at the end, so that none is above n."""
    return np.unique(partition.block, return_inverse=True)[1] + 1


def _one_block(instance: Instance) -> float:
    """Bottleneck, in the models, of the partition that cuts nothing."""
    return Partition(instance.without_peaks(), np.zeros(instance.graph.n, dtype=np.int64)).bottleneck
