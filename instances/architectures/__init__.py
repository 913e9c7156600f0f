"""Parametric networks at operator level, priced by an analytic cost model.

- `architecture`: `Architecture`, a named network whose batch, sequence or image are free
- `builder`: `GraphBuilder`, records operators and makes the computation graph
- `operators`: `NetworkBuilder`, the operators with their shapes, operations and bytes
- `transformers`, `convolutional`, `inception`, `recurrent`: the networks
"""

from instances.architectures.architecture import Architecture
from instances.architectures.builder import GraphBuilder, Operator, Tensor
from instances.architectures.convolutional import CONVOLUTIONAL
from instances.architectures.operators import NetworkBuilder
from instances.architectures.recurrent import RECURRENT
from instances.architectures.transformers import TRANSFORMERS

__all__ = ["ARCHITECTURES", "Architecture", "GraphBuilder", "NetworkBuilder", "Operator", "Tensor"]

ARCHITECTURES: dict[str, Architecture] = {
    architecture.name: architecture for architecture in (*TRANSFORMERS, *CONVOLUTIONAL, *RECURRENT)
}
