"""Recommendation: DLRM."""

from __future__ import annotations

from collections.abc import Sequence

from instances.architectures.architecture import Architecture
from instances.architectures.attention import INDEX_BYTES
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder

__all__ = ["RECOMMENDATION", "dlrm"]

#: Distinct values of the 26 categorical features in the Criteo Kaggle data.
_CRITEO = (
    *(1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194),
    *(27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572),
)
_NUMBERS = 13  # features that are numbers
_WIDTH = 16  # of an embedding


def dlrm(net: NetworkBuilder, *, batch: int) -> None:
    """Deep learning recommendation model on the Criteo Kaggle data (Naumov et al. 2019, Section 5.1).

    All pairs of the embeddings and the output of the bottom network interact by dot products.
    """
    x = net.input("numbers", batch, _NUMBERS)
    x = _perceptron(net, "bottom", x, (512, 256, 64, _WIDTH))
    vectors = [x]
    for feature, values in enumerate(_CRITEO):
        with net.scope(f"feature{feature}"):
            index = net.input("index", batch, element_bytes=INDEX_BYTES)
            vectors.append(net.embedding(index, net.parameter("table", values, _WIDTH)))
    with net.scope("interaction"):
        count = len(vectors)
        joint = net.concat(*(vector.view(batch, 1, _WIDTH) for vector in vectors), axis=1)
        pairs = net.matmul(joint, joint.view(batch, _WIDTH, count))
        x = net.concat(x, net.slice(pairs, batch, count * (count - 1) // 2), axis=1)
    x = _perceptron(net, "top", x, (512, 256))
    with net.scope("top.2"):
        net.sigmoid(net.linear(x, 1))


def _perceptron(net: NetworkBuilder, name: str, x: Tensor, features: Sequence[int]) -> Tensor:
    for layer, width in enumerate(features):
        with net.scope(f"{name}.{layer}"):
            x = net.relu(net.linear(x, width))
    return x


RECOMMENDATION = (
    Architecture(
        "dlrm",
        "DLRM on the Criteo Kaggle data, 26 embeddings of 16",
        dlrm,
        {"batch": 1},
        "Naumov et al., Deep learning recommendation model for personalization, arXiv:1906.00091, 2019",
    ),
)
