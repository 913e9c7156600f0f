"""Convolutional networks: VGG, ResNet, DenseNet, MobileNet-v2, Inception-v3; all classify 1000 classes."""

from __future__ import annotations

from functools import partial

from instances.architectures.architecture import Architecture
from instances.architectures.builder import Tensor
from instances.architectures.inception import inception_v3
from instances.architectures.operators import NetworkBuilder

__all__ = ["CONVOLUTIONAL", "densenet", "mobilenet_v2", "resnet", "vgg"]


def vgg(net: NetworkBuilder, *, batch: int, image: int, convolutions: tuple[int, ...]) -> None:
    """VGG (Simonyan and Zisserman 2015); `convolutions` counts them per stage."""
    x = net.input("image", batch, 3, image, image)
    for stage, (count, channels) in enumerate(zip(convolutions, (64, 128, 256, 512, 512), strict=True)):
        with net.scope(f"stage{stage}"):
            for _ in range(count):
                x = net.relu(net.conv(x, channels, kernel=3, bias=True))
            x = net.max_pool(x, kernel=2, stride=2)
    with net.scope("classifier"):
        x = net.adaptive_average_pool(x, 7)
        x = x.view(batch, 7 * 7 * 512)
        x = net.relu(net.linear(x, 4096, "linear0"))
        x = net.relu(net.linear(x, 4096, "linear1"))
        net.linear(x, 1000, "linear2")


def resnet(net: NetworkBuilder, *, batch: int, image: int, blocks: tuple[int, ...]) -> None:
    """ResNet of bottleneck blocks (He et al. 2016), stride in the 3 by 3 convolution; `blocks` per stage."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.relu(net.batch_norm(net.conv(x, 64, kernel=7, stride=2)))
        x = net.max_pool(x, kernel=3, stride=2, padding=1)
    for stage, (count, channels) in enumerate(zip(blocks, (64, 128, 256, 512), strict=True)):
        for block in range(count):
            with net.scope(f"stage{stage}.{block}"):
                stride = 2 if stage > 0 and block == 0 else 1
                y = net.relu(net.batch_norm(net.conv(x, channels, kernel=1)))
                y = net.relu(net.batch_norm(net.conv(y, channels, kernel=3, stride=stride)))
                y = net.batch_norm(net.conv(y, 4 * channels, kernel=1))
                if block == 0:
                    with net.scope("projection"):
                        x = net.batch_norm(net.conv(x, 4 * channels, kernel=1, stride=stride))
                x = net.relu(net.add(x, y))
    _classifier(net, x)


def densenet(net: NetworkBuilder, *, batch: int, image: int, layers: tuple[int, ...], growth: int) -> None:
    """DenseNet-BC (Huang et al. 2017); `layers` per dense block."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.relu(net.batch_norm(net.conv(x, 2 * growth, kernel=7, stride=2)))
        x = net.max_pool(x, kernel=3, stride=2, padding=1)
    for block, count in enumerate(layers):
        if block > 0:
            with net.scope(f"transition{block}"):
                x = net.conv(net.relu(net.batch_norm(x)), x.shape[1] // 2, kernel=1)
                x = net.average_pool(x, kernel=2, stride=2)
        for layer in range(count):
            with net.scope(f"block{block}.{layer}"):
                y = net.conv(net.relu(net.batch_norm(x)), 4 * growth, kernel=1)
                y = net.conv(net.relu(net.batch_norm(y)), growth, kernel=3)
                x = net.concat(x, y, axis=1)
    _classifier(net, net.relu(net.batch_norm(x)))


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
    _classifier(net, x)


def _inverted_residual(net: NetworkBuilder, x: Tensor, expansion: int, channels: int, stride: int) -> Tensor:
    y, inside = x, expansion * x.shape[1]
    if expansion > 1:
        y = net.relu6(net.batch_norm(net.conv(y, inside, kernel=1)))
    y = net.relu6(net.batch_norm(net.conv(y, inside, kernel=3, stride=stride, groups=inside)))
    y = net.batch_norm(net.conv(y, channels, kernel=1))
    return net.add(x, y) if x.shape == y.shape else y


def _classifier(net: NetworkBuilder, x: Tensor) -> None:
    with net.scope("classifier"):
        x = net.adaptive_average_pool(x, 1)
        net.linear(x.view(*x.shape[:2]), 1000)


_IMAGE = {"batch": 1, "image": 224}
_SIMONYAN = "Simonyan and Zisserman, Very deep convolutional networks, ICLR 2015"
_HE = "He et al., Deep residual learning for image recognition, CVPR 2016"

CONVOLUTIONAL = (
    Architecture("vgg16", "VGG, 16 weight layers", partial(vgg, convolutions=(2, 2, 3, 3, 3)), _IMAGE, _SIMONYAN),
    Architecture("vgg19", "VGG, 19 weight layers", partial(vgg, convolutions=(2, 2, 4, 4, 4)), _IMAGE, _SIMONYAN),
    Architecture("resnet50", "ResNet, 50 weight layers", partial(resnet, blocks=(3, 4, 6, 3)), _IMAGE, _HE),
    Architecture("resnet152", "ResNet, 152 weight layers", partial(resnet, blocks=(3, 8, 36, 3)), _IMAGE, _HE),
    Architecture(
        "densenet121",
        "DenseNet, 121 weight layers, growth 32",
        partial(densenet, layers=(6, 12, 24, 16), growth=32),
        _IMAGE,
        "Huang et al., Densely connected convolutional networks, CVPR 2017",
    ),
    Architecture(
        "mobilenet-v2",
        "MobileNet-v2, inverted residuals, width 1",
        mobilenet_v2,
        _IMAGE,
        "Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks, CVPR 2018",
    ),
    Architecture(
        "inception-v3",
        "Inception-v3 without the auxiliary classifier",
        inception_v3,
        {"batch": 1, "image": 299},
        "Szegedy et al., Rethinking the inception architecture for computer vision, CVPR 2016",
    ),
)
