"""Convolutional networks."""

from __future__ import annotations

from functools import partial

from instances.architectures.architecture import Architecture, attention
from instances.architectures.builder import NetworkBuilder, Size, Tensor
from instances.errors import InputError

# Inception-v3 (Szegedy et al. 2016), as it runs at inference: without the auxiliary classifier.


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


# Convolutional networks: VGG, ResNet, ResNeXt, DenseNet, SqueezeNet, Inception-v3; all classify 1000 classes.


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
    """Record the classifier: the mean over the image, then scores of 1000 classes."""
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


# NASNet-A in its mobile size (Zoph et al. 2018): cells that read the two cells before them.
#
# At layer level a node is one of the five blocks of a cell, or what brings its inputs into shape or joins its outputs.


_CELLS, _FINEST = 4, 44  # of each resolution, and of the finest one


def nasnet_mobile(net: NetworkBuilder, *, batch: int, image: int) -> None:
    """NASNet-A (4 @ 1056): three times four normal cells, after and between them reduction cells."""
    x = net.input("image", batch, 3, image, image)
    with net.scope("stem"):
        x = net.batch_norm(net.conv(x, 32, kernel=3, stride=2, padding=0))
    last, x = x, _reduction_cell(net, "stem1", x, x, _FINEST // 4)
    last, x = x, _reduction_cell(net, "stem2", x, last, _FINEST // 2)
    for stage in range(3):
        channels = _FINEST * 2**stage
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
    """Outputs of the last two cells, the image size of the last one, and the channels of this cell."""
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


# Convolutional networks of inverted residuals: MobileNet-v2, EfficientNet.


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


# U-Net of a latent diffusion model, in the size of Stable Diffusion 1.


_WIDTHS = (320, 640, 1280, 1280)  # of the resolutions, the finest first; the coarsest has no attention
_HEADS = 8
_TEXT = (77, 768)  # tokens of the prompt, and their width


def unet(net: NetworkBuilder, *, batch: int, latent: int) -> None:
    """U-Net: one denoising step on a latent image under a prompt (Rombach et al. 2022).

    `latent` is the side of the latent image, an eighth of the picture's and a multiple of eight.
    """
    if latent % 8:
        raise InputError(f"latent is {latent}; give a multiple of 8, as it is halved three times.")
    x = net.input("latent", batch, 4, latent, latent)
    step = net.input("step", batch, 1)
    prompt = net.input("prompt", batch, *_TEXT)
    with net.scope("time"):
        time = net.operator("sinusoids", [step], [(batch, _WIDTHS[0])], flops=batch * _WIDTHS[0])[0]
        time = net.linear(net.silu(net.linear(time, 4 * _WIDTHS[0], "up")), 4 * _WIDTHS[0], "out")
    with net.scope("stem"):
        x = net.conv(x, _WIDTHS[0], kernel=3, bias=True)
    coarsest = len(_WIDTHS) - 1
    skipped = [x]
    for level, channels in enumerate(_WIDTHS):
        for block in range(2):
            x = _residual(net, f"down{level}.residual{block}", x, time, channels)
            if level < coarsest:
                x = _transformer(net, f"down{level}.attention{block}", x, prompt)
            skipped.append(x)
        if level < coarsest:
            with net.scope(f"down{level}.downsample"):
                x = net.conv(x, channels, kernel=3, stride=2, bias=True)
            skipped.append(x)
    x = _residual(net, "middle.residual0", x, time, _WIDTHS[-1])
    x = _transformer(net, "middle.attention", x, prompt)
    x = _residual(net, "middle.residual1", x, time, _WIDTHS[-1])
    for level, channels in reversed(list(enumerate(_WIDTHS))):
        for block in range(3):
            x = _residual(net, f"up{level}.residual{block}", x, time, channels, skipped.pop())
            if level < coarsest:
                x = _transformer(net, f"up{level}.attention{block}", x, prompt)
        if level > 0:
            with net.scope(f"up{level}.upsample"):
                x = net.conv(net.upsample(x, 2), channels, kernel=3, bias=True)
    with net.scope("head"):
        net.conv(net.silu(net.group_norm(x)), 4, kernel=3, bias=True)


def _residual(
    net: NetworkBuilder, name: str, x: Tensor, time: Tensor, channels: int, skipped: Tensor | None = None
) -> Tensor:
    """Two convolutions with the diffusion step added between them, after a skip connection is joined."""
    with net.scope(name):
        if skipped is not None:
            x = net.concat(x, skipped, axis=1)
        y = net.conv(net.silu(net.group_norm(x)), channels, kernel=3, bias=True)
        shift = net.linear(net.silu(time), channels, "time")
        y = net.add(y, shift.view(shift.shape[0], channels, 1, 1))
        y = net.conv(net.silu(net.group_norm(y)), channels, kernel=3, bias=True)
        if x.shape[1] != channels:
            with net.scope("projection"):
                x = net.conv(x, channels, kernel=1, bias=True)
        return net.add(x, y)


def _transformer(net: NetworkBuilder, name: str, image: Tensor, prompt: Tensor) -> Tensor:
    """Attention to all pixels and to the prompt, and a gated feed-forward network, between two projections."""
    batch, channels, height, width = image.shape
    with net.scope(name):
        with net.scope("input"):
            x = net.conv(net.group_norm(image), channels, kernel=1, bias=True)
        x = x.view(batch, height * width, channels)
        for branch, memory in (("attention", None), ("cross_attention", prompt)):
            with net.scope(branch):
                y = net.layer_norm(x)
                query = net.linear(y, channels, "query", bias=False)
                key, value = (
                    net.linear(y if memory is None else memory, channels, part, bias=False) for part in ("key", "value")
                )
                x = net.add(x, attention(net, query, key, value, _HEADS))
        with net.scope("feed_forward"):
            both = net.linear(net.layer_norm(x), 8 * channels, "up")
            inner, gate = net.split(both, 2 * [4 * channels], axis=2)
            x = net.add(x, net.linear(net.multiply(inner, net.gelu(gate)), channels, "down"))
        with net.scope("output"):
            y = net.conv(x.view(*image.shape), channels, kernel=1, bias=True)
        return net.add(image, y)


DIFFUSION = (
    Architecture(
        "unet-sd1",
        "U-Net of Stable Diffusion 1, one step on a latent image",
        unet,
        {"batch": 1, "latent": 64},
        "Rombach et al., High-resolution image synthesis with latent diffusion models, CVPR 2022",
    ),
)
