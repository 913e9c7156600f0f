"""Inception-v3 (Szegedy et al. 2016), as it runs at inference: without the auxiliary classifier."""

from __future__ import annotations

from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder, Size

__all__ = ["inception_v3"]


def inception_v3(net: NetworkBuilder, *, batch: int, image: int) -> None:
    """Inception-v3; the letters A to E name its modules from the finest grid to the coarsest."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = _conv(net, x, 32, 3, stride=2, padding=0)
        x = _conv(net, x, 32, 3, padding=0)
        x = _conv(net, x, 64, 3)
        x = net.max_pool(x, kernel=3, stride=2)
        x = _conv(net, x, 80, 1)
        x = _conv(net, x, 192, 3, padding=0)
        x = net.max_pool(x, kernel=3, stride=2)
    for module, pooled in enumerate((32, 64, 64)):
        with net.scope(f"a{module}"):
            x = _module_a(net, x, pooled)
    with net.scope("b"):
        x = _module_b(net, x)
    for module, channels in enumerate((128, 160, 160, 192)):
        with net.scope(f"c{module}"):
            x = _module_c(net, x, channels)
    with net.scope("d"):
        x = _module_d(net, x)
    for module in range(2):
        with net.scope(f"e{module}"):
            x = _module_e(net, x)
    with net.scope("classifier"):
        x = net.adaptive_average_pool(x, 1)
        net.linear(x.view(*x.shape[:2]), 1000)


def _conv(
    net: NetworkBuilder, x: Tensor, channels: int, kernel: Size, *, stride: int = 1, padding: Size | None = None
) -> Tensor:
    return net.relu(net.batch_norm(net.conv(x, channels, kernel=kernel, stride=stride, padding=padding)))


def _pooled(net: NetworkBuilder, x: Tensor, channels: int) -> Tensor:
    return _conv(net, net.average_pool(x, kernel=3, stride=1, padding=1), channels, 1)


def _module_a(net: NetworkBuilder, x: Tensor, pooled: int) -> Tensor:
    pointwise = _conv(net, x, 64, 1)
    five = _conv(net, _conv(net, x, 48, 1), 64, 5)
    double = _conv(net, _conv(net, _conv(net, x, 64, 1), 96, 3), 96, 3)
    return net.concat(pointwise, five, double, _pooled(net, x, pooled), axis=1)


def _module_b(net: NetworkBuilder, x: Tensor) -> Tensor:
    three = _conv(net, x, 384, 3, stride=2, padding=0)
    double = _conv(net, _conv(net, x, 64, 1), 96, 3)
    double = _conv(net, double, 96, 3, stride=2, padding=0)
    return net.concat(three, double, net.max_pool(x, kernel=3, stride=2), axis=1)


def _module_c(net: NetworkBuilder, x: Tensor, channels: int) -> Tensor:
    pointwise = _conv(net, x, 192, 1)
    seven = _conv(net, x, channels, 1)
    for kernel, width in (((1, 7), channels), ((7, 1), 192)):
        seven = _conv(net, seven, width, kernel)
    double = _conv(net, x, channels, 1)
    for kernel, width in (((7, 1), channels), ((1, 7), channels), ((7, 1), channels), ((1, 7), 192)):
        double = _conv(net, double, width, kernel)
    return net.concat(pointwise, seven, double, _pooled(net, x, 192), axis=1)


def _module_d(net: NetworkBuilder, x: Tensor) -> Tensor:
    three = _conv(net, _conv(net, x, 192, 1), 320, 3, stride=2, padding=0)
    seven = _conv(net, x, 192, 1)
    for kernel in ((1, 7), (7, 1)):
        seven = _conv(net, seven, 192, kernel)
    seven = _conv(net, seven, 192, 3, stride=2, padding=0)
    return net.concat(three, seven, net.max_pool(x, kernel=3, stride=2), axis=1)


def _module_e(net: NetworkBuilder, x: Tensor) -> Tensor:
    pointwise = _conv(net, x, 320, 1)
    three = _fork(net, _conv(net, x, 384, 1))
    double = _fork(net, _conv(net, _conv(net, x, 448, 1), 384, 3))
    return net.concat(pointwise, three, double, _pooled(net, x, 192), axis=1)


def _fork(net: NetworkBuilder, x: Tensor) -> Tensor:
    return net.concat(_conv(net, x, 384, (1, 3)), _conv(net, x, 384, (3, 1)), axis=1)
