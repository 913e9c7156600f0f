"""Convolutional networks: VGG, ResNet, ResNeXt, DenseNet, SqueezeNet, Inception-v3; all classify 1000 classes."""

from __future__ import annotations

from functools import partial

from instances.architectures.architecture import Architecture
from instances.architectures.builder import Tensor
from instances.architectures.inception import inception_v3
from instances.architectures.operators import NetworkBuilder

__all__ = ["CONVOLUTIONAL", "classifier", "densenet", "resnet", "squeezenet", "vgg"]
_IMAGE = {"batch": 1, "image": 224}
_SIMONYAN = "Simonyan and Zisserman, Very deep convolutional networks, ICLR 2015"
_HE = "He et al., Deep residual learning for image recognition, CVPR 2016"


def vgg(net: NetworkBuilder, *, batch: int, image: int, convolutions: tuple[int, ...]) -> None:
    """VGG (Simonyan and Zisserman 2015); `convolutions` counts them per stage."""
    x = net.input("image", batch, 3, image, image)
    for stage, (count, channels) in enumerate(zip(convolutions, (64, 128, 256, 512, 512), strict=True)):
        for layer in range(count):
            with net.scope(f"stage{stage}.{layer}"):
                x = net.relu(net.conv(x, channels, kernel=3, bias=True))
        with net.scope(f"stage{stage}"):
            x = net.max_pool(x, kernel=2, stride=2)
    with net.scope("classifier"):
        x = net.adaptive_average_pool(x, 7)
    x = x.view(batch, 7 * 7 * 512)
    for layer in range(2):
        with net.scope(f"classifier.{layer}"):
            x = net.relu(net.linear(x, 4096))
    with net.scope("classifier.2"):
        net.linear(x, 1000)


def resnet(
    net: NetworkBuilder, *, batch: int, image: int, blocks: tuple[int, ...], groups: int = 1, width: int = 64
) -> None:
    """ResNet of bottleneck blocks (He et al. 2016), stride in the 3 by 3 convolution; `blocks` per stage.

    With several `groups` it is a ResNeXt (Xie et al. 2017); the inner convolution of the first stage has `width`
    channels a group.
    """
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.relu(net.batch_norm(net.conv(x, 64, kernel=7, stride=2)))
        x = net.max_pool(x, kernel=3, stride=2, padding=1)
    for stage, (count, channels) in enumerate(zip(blocks, (256, 512, 1024, 2048), strict=True)):
        inner = groups * width * 2**stage
        for block in range(count):
            with net.scope(f"stage{stage}.{block}"):
                stride = 2 if stage > 0 and block == 0 else 1
                y = net.relu(net.batch_norm(net.conv(x, inner, kernel=1)))
                y = net.relu(net.batch_norm(net.conv(y, inner, kernel=3, stride=stride, groups=groups)))
                y = net.batch_norm(net.conv(y, channels, kernel=1))
                if block == 0:
                    with net.scope("projection"):
                        x = net.batch_norm(net.conv(x, channels, kernel=1, stride=stride))
                x = net.relu(net.add(x, y))
    classifier(net, x)


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
    classifier(net, net.relu(net.batch_norm(x)))


def squeezenet(net: NetworkBuilder, *, batch: int, image: int) -> None:
    """SqueezeNet 1.0 (Iandola et al. 2016, Table 1); its poolings also take windows that leave the image."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.relu(net.conv(x, 96, kernel=7, stride=2, padding=0, bias=True))
    for module, squeezed in enumerate((16, 16, 32, 32, 48, 48, 64, 64), start=2):
        if module in (2, 5, 9):
            with net.scope(f"pool{module}"):
                x = net.max_pool(x, kernel=3, stride=2, round_up=True)
        with net.scope(f"fire{module}"):
            x = net.relu(net.conv(x, squeezed, kernel=1, bias=True))
            sides = (net.relu(net.conv(x, 4 * squeezed, kernel=kernel, bias=True)) for kernel in (1, 3))
            x = net.concat(*sides, axis=1)
    with net.scope("classifier"):
        net.adaptive_average_pool(net.relu(net.conv(x, 1000, kernel=1, bias=True)), 1)


def classifier(net: NetworkBuilder, x: Tensor) -> None:
    """Mean over the image and 1000 scores."""
    with net.scope("classifier"):
        x = net.adaptive_average_pool(x, 1)
        net.linear(x.view(*x.shape[:2]), 1000)


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
        "inception-v3",
        "Inception-v3 without the auxiliary classifier",
        inception_v3,
        {"batch": 1, "image": 299},
        "Szegedy et al., Rethinking the inception architecture for computer vision, CVPR 2016",
    ),
    Architecture(
        "resnext50",
        "ResNeXt, 50 weight layers, 32 groups of 4 channels",
        partial(resnet, blocks=(3, 4, 6, 3), groups=32, width=4),
        _IMAGE,
        "Xie et al., Aggregated residual transformations for deep neural networks, CVPR 2017",
    ),
    Architecture(
        "squeezenet",
        "SqueezeNet 1.0",
        squeezenet,
        _IMAGE,
        "Iandola et al., SqueezeNet: AlexNet-level accuracy with 50x fewer parameters, arXiv:1602.07360, 2016",
    ),
)
