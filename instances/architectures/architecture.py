"""A named family of networks with free dimensions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral

from instances.architectures.operators import NetworkBuilder
from instances.costs import DEFAULT_DEVICE, Device
from instances.errors import InputError
from instances.graph import ComputationGraph

__all__ = ["Architecture"]


@dataclass(frozen=True)
class Architecture:
    """A network whose batch, sequence or image are free.

    Parameters
    ----------
    name, summary : str
        Name to ask for, and one line about it.
    network : callable
        ``network(net, **sizes)`` records the operators in a `NetworkBuilder`.
    sizes : mapping of str to int
        Free dimensions of the network and their defaults.
    reference : str
        Where the network was published.
    """

    name: str
    summary: str
    network: Callable[..., None]
    sizes: Mapping[str, int]
    reference: str

    @property
    def dims(self) -> dict[str, int]:
        """Defaults of all dimensions: those of the network, and the width of an element [bytes]."""
        return {**self.sizes, "element_bytes": 4}

    def build(
        self, *, weights_as_nodes: bool = False, device: Device = DEFAULT_DEVICE, **dims: int
    ) -> ComputationGraph:
        """Make the computation graph at operator level.

        Parameters
        ----------
        weights_as_nodes : bool
            If true, every parameter is a source node without work, as in published operator graphs.
        device : Device
            Turns operations and bytes into seconds.
        **dims : int
            Dimensions that differ from their defaults.

        Returns
        -------
        ComputationGraph
            Its attributes hold `dims`, `flops`, `multiply_adds` and `parameter_count`.

        Raises
        ------
        InputError
            If a dimension is unknown, not a positive whole number, or does not suit the network.

        Examples
        --------
        >>> from instances.architectures import ARCHITECTURES
        >>> ARCHITECTURES["resnet50"].build(batch=8).attributes["parameter_count"]
        25557032
        """
        chosen = {**self.dims, **dims}
        for dim, value in chosen.items():
            if dim not in self.dims:
                raise InputError(f"{self.name}: there is no dimension '{dim}'; it has {', '.join(self.dims)}.")
            if not isinstance(value, Integral) or value < 1:
                raise InputError(
                    f"{self.name}: dimension {dim} is {value}; give a whole number, 1 or more, for each of "
                    f"{', '.join(self.dims)}."
                )
        chosen = {dim: int(value) for dim, value in chosen.items()}
        net = NetworkBuilder(chosen["element_bytes"])
        try:
            self.network(net, **{dim: chosen[dim] for dim in self.sizes})
        except InputError as error:
            raise InputError(f"{self.name}: {error}") from None
        listed = ", ".join(f"{dim}={value}" for dim, value in chosen.items())
        roofline = f"{device.peak_flops:g} flop/s and {device.memory_bandwidth:g} bytes/s"
        return net.graph(
            device,
            weights_as_nodes=weights_as_nodes,
            name=self.name,
            source=f"parametric architecture, {listed}; roofline at {roofline}",
            attributes={"dims": chosen},
        )
