"""Parametric networks at operator or layer level, forward or forward and backward, priced by an analytic cost model.

- `architecture`: `Architecture`, a named network whose batch, sequence or image are free; one node a layer, backward
  operators, phases of a served decoder, and what transformers share
- `builder`: `GraphBuilder`, records operators and makes the computation graph; `NetworkBuilder`, the operators with
  their shapes, operations and bytes
- `transformers`, `convolutional`, `recurrent`: the networks, those of recommendation with the last
"""

from instances.architectures.architecture import LEVELS, Architecture, Dim
from instances.architectures.builder import GraphBuilder, NetworkBuilder, Operator, Tensor
from instances.architectures.convolutional import CONVOLUTIONAL, DIFFUSION, MOBILE, NASNET
from instances.architectures.recurrent import RECOMMENDATION, RECURRENT
from instances.architectures.transformers import DECODERS, ENCODER_DECODERS, TRANSFORMERS

__all__ = ["ARCHITECTURES", "LEVELS", "Architecture", "Dim", "GraphBuilder", "NetworkBuilder", "Operator", "Tensor"]

_ALL = (
    *TRANSFORMERS,
    *DECODERS,
    *ENCODER_DECODERS,
    *CONVOLUTIONAL,
    *MOBILE,
    *NASNET,
    *DIFFUSION,
    *RECURRENT,
    *RECOMMENDATION,
)

ARCHITECTURES: dict[str, Architecture] = {architecture.name: architecture for architecture in _ALL}
