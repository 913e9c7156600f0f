"""NASNet-A in its mobile size (Zoph et al. 2018): cells that read the two cells before them.

At layer level a node is one of the five blocks of a cell, or what brings its inputs into shape or joins its outputs.
"""

from __future__ import annotations

from instances.architectures.architecture import Architecture
from instances.architectures.builder import Tensor
from instances.architectures.convolutional import classifier
from instances.architectures.operators import NetworkBuilder

__all__ = ["NASNET", "nasnet_mobile"]

_CELLS, _CHANNELS = 4, 44  # of each resolution, and of the finest one


def nasnet_mobile(net: NetworkBuilder, *, batch: int, image: int) -> None:
    """NASNet-A (4 @ 1056): three times four normal cells, after and between them reduction cells."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.batch_norm(net.conv(x, 32, kernel=3, stride=2, padding=0))
    last, x = x, _reduction_cell(net, "stem1", x, x, _CHANNELS // 4)
    last, x = x, _reduction_cell(net, "stem2", x, last, _CHANNELS // 2)
    for stage in range(3):
        channels = _CHANNELS * 2**stage
        if stage > 0:
            # The first normal cell after a reduction reads what the reduction read, not the cell before that.
            last, x = x, _reduction_cell(net, f"reduction{stage}", x, last, channels)
        for cell in range(_CELLS):
            last, x = x, _normal_cell(net, f"stage{stage}.{cell}", x, last, channels)
    classifier(net, net.relu(x))


def _normal_cell(net: NetworkBuilder, name: str, x: Tensor, last: Tensor, channels: int) -> Tensor:
    p, h = _inputs(net, name, x, last, channels)
    with net.scope(f"{name}.block0"):
        five = net.add(_separable(net, h, channels, 5), _separable(net, p, channels, 3))
    with net.scope(f"{name}.block1"):
        both = net.add(_separable(net, p, channels, 5), _separable(net, p, channels, 3))
    with net.scope(f"{name}.block2"):
        sum_of_inputs = net.add(_mean(net, h), p)
    with net.scope(f"{name}.block3"):
        means = net.add(_mean(net, p), _mean(net, p))
    with net.scope(f"{name}.block4"):
        three = net.add(_separable(net, h, channels, 3), h)
    with net.scope(f"{name}.join"):
        return net.concat(p, five, both, sum_of_inputs, means, three, axis=1)


def _reduction_cell(net: NetworkBuilder, name: str, x: Tensor, last: Tensor, channels: int) -> Tensor:
    p, h = _inputs(net, name, x, last, channels)
    with net.scope(f"{name}.block0"):
        first = net.add(_separable(net, h, channels, 5, 2), _separable(net, p, channels, 7, 2))
    with net.scope(f"{name}.block1"):
        second = net.add(_maximum(net, h), _separable(net, p, channels, 7, 2))
    with net.scope(f"{name}.block2"):
        third = net.add(_mean(net, h, 2), _separable(net, p, channels, 5, 2))
    with net.scope(f"{name}.block3"):
        fourth = net.add(second, _mean(net, first))
    with net.scope(f"{name}.block4"):
        fifth = net.add(_separable(net, first, channels, 3), _maximum(net, h))
    with net.scope(f"{name}.join"):
        return net.concat(second, third, fourth, fifth, axis=1)


def _inputs(net: NetworkBuilder, name: str, x: Tensor, last: Tensor, channels: int) -> tuple[Tensor, Tensor]:
    """The cell before the last one and the last one, with the image of the latter and the channels of this cell."""
    with net.scope(f"{name}.fit"):
        fitted = _fitted(net, last, x, channels)
    with net.scope(f"{name}.project"):
        return fitted, net.batch_norm(net.conv(net.relu(x), channels, kernel=1))


def _fitted(net: NetworkBuilder, last: Tensor, x: Tensor, channels: int) -> Tensor:
    if last.operator == x.operator:  # the first cell has one input
        return x
    if last.shape[2] == x.shape[2]:
        same = last.shape[1] == channels
        return last if same else net.batch_norm(net.conv(net.relu(last), channels, kernel=1))
    y = net.relu(last)
    # One half sees the even pixels, the other one the odd ones.
    halves = [net.conv(net.average_pool(y, kernel=1, stride=2), channels // 2, kernel=1) for _ in range(2)]
    return net.batch_norm(net.concat(*halves, axis=1))


def _separable(net: NetworkBuilder, x: Tensor, channels: int, kernel: int, stride: int = 1) -> Tensor:
    """Separable convolution, twice: rectifier, convolution of each channel, convolution across channels, batch norm."""
    with net.scope("separable"):
        for step in (stride, 1):
            x = net.conv(net.relu(x), x.shape[1], kernel=kernel, stride=step, groups=x.shape[1])
            x = net.batch_norm(net.conv(x, channels, kernel=1))
        return x


def _mean(net: NetworkBuilder, x: Tensor, stride: int = 1) -> Tensor:
    return net.average_pool(x, kernel=3, stride=stride, padding=1)


def _maximum(net: NetworkBuilder, x: Tensor) -> Tensor:
    return net.max_pool(x, kernel=3, stride=2, padding=1)


NASNET = (
    Architecture(
        "nasnet-mobile",
        "NASNet-A in its mobile size, 12 normal and 4 reduction cells",
        nasnet_mobile,
        {"batch": 1, "image": 224},
        "Zoph et al., Learning transferable architectures for scalable image recognition, CVPR 2018",
    ),
)
