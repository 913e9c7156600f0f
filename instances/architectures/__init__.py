"""Parametric networks at operator or layer level, forward or forward and backward, priced by an analytic cost model.

- `architecture`: `Architecture`, a named network whose batch, sequence or image are free
- `builder`: `GraphBuilder`, records operators and makes the computation graph
- `operators`: `NetworkBuilder`, the operators with their shapes, operations and bytes
- `training`, `layers`: the backward operators of a record; one node a layer
- `attention`: what transformers share; `serving`: the phases of a decoder, and its cache of keys and values
- `transformers`, `decoders`, `encoder_decoders`, `convolutional`, `inception`, `mobile`, `nasnet`, `unet`, `recurrent`,
  `recommendation`: the networks
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
