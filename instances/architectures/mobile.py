"""Convolutional networks of inverted residuals: MobileNet-v2, EfficientNet."""

from __future__ import annotations

from instances.architectures.architecture import Architecture
from instances.architectures.builder import Tensor
from instances.architectures.convolutional import classifier
from instances.architectures.operators import NetworkBuilder

__all__ = ["MOBILE", "efficientnet_b0", "mobilenet_v2"]
_IMAGE = {"batch": 1, "image": 224}


def mobilenet_v2(net: NetworkBuilder, *, batch: int, image: int) -> None:
    """MobileNet-v2 at width 1 (Sandler et al. 2018, Table 2)."""
    stages = (  # expansion, channels, repetitions, stride
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.relu6(net.batch_norm(net.conv(x, 32, kernel=3, stride=2)))
    for stage, (expansion, channels, repetitions, first_stride) in enumerate(stages):
        for block in range(repetitions):
            with net.scope(f"stage{stage}.{block}"):
                x = _inverted_residual(net, x, expansion, channels, first_stride if block == 0 else 1)
    with net.scope("last"):
        x = net.relu6(net.batch_norm(net.conv(x, 1280, kernel=1)))
    classifier(net, x)


def _inverted_residual(net: NetworkBuilder, x: Tensor, expansion: int, channels: int, stride: int) -> Tensor:
    y, inside = x, expansion * x.shape[1]
    if expansion > 1:
        y = net.relu6(net.batch_norm(net.conv(y, inside, kernel=1)))
    y = net.relu6(net.batch_norm(net.conv(y, inside, kernel=3, stride=stride, groups=inside)))
    y = net.batch_norm(net.conv(y, channels, kernel=1))
    return net.add(x, y) if x.shape == y.shape else y


def efficientnet_b0(net: NetworkBuilder, *, batch: int, image: int) -> None:
    """EfficientNet-B0 (Tan and Le 2019, Table 1)."""
    stages = (  # expansion, kernel, channels, repetitions, stride
        (1, 3, 16, 1, 1),
        (6, 3, 24, 2, 2),
        (6, 5, 40, 2, 2),
        (6, 3, 80, 3, 2),
        (6, 5, 112, 3, 1),
        (6, 5, 192, 4, 2),
        (6, 3, 320, 1, 1),
    )
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.silu(net.batch_norm(net.conv(x, 32, kernel=3, stride=2)))
    for stage, (expansion, kernel, channels, repetitions, first_stride) in enumerate(stages):
        for block in range(repetitions):
            with net.scope(f"stage{stage}.{block}"):
                stride = first_stride if block == 0 else 1
                x = _squeezed_residual(net, x, expansion, kernel, channels, stride)
    with net.scope("last"):
        x = net.silu(net.batch_norm(net.conv(x, 1280, kernel=1)))
    classifier(net, x)


def _squeezed_residual(
    net: NetworkBuilder, x: Tensor, expansion: int, kernel: int, channels: int, stride: int
) -> Tensor:
    """Inverted residual whose channels are gated by a squeeze to a quarter of its inputs and an excitation."""
    y, inside = x, expansion * x.shape[1]
    if expansion > 1:
        y = net.silu(net.batch_norm(net.conv(y, inside, kernel=1)))
    y = net.silu(net.batch_norm(net.conv(y, inside, kernel=kernel, stride=stride, groups=inside)))
    with net.scope("squeeze"):
        gate = net.silu(net.conv(net.adaptive_average_pool(y, 1), x.shape[1] // 4, kernel=1, bias=True))
    with net.scope("excite"):
        gate = net.sigmoid(net.conv(gate, inside, kernel=1, bias=True))
    y = net.batch_norm(net.conv(net.multiply(y, gate), channels, kernel=1))
    return net.add(x, y) if x.shape == y.shape else y


MOBILE = (
    Architecture(
        "mobilenet-v2",
        "MobileNet-v2, inverted residuals, width 1",
        mobilenet_v2,
        _IMAGE,
        "Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018",
    ),
    Architecture(
        "efficientnet-b0",
        "EfficientNet-B0, inverted residuals with squeeze and excitation",
        efficientnet_b0,
        _IMAGE,
        "Tan and Le, EfficientNet: rethinking model scaling for convolutional neural networks, ICML 2019",
    ),
)
