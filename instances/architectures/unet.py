"""U-Net of a latent diffusion model, in the size of Stable Diffusion 1."""

from __future__ import annotations

from instances.architectures.architecture import Architecture
from instances.architectures.attention import attention
from instances.architectures.builder import Tensor
from instances.architectures.operators import NetworkBuilder
from instances.errors import InputError

__all__ = ["DIFFUSION", "unet"]

_CHANNELS = (320, 640, 1280, 1280)  # of the resolutions, the finest first; the coarsest has no attention
_HEADS = 8
_TEXT = (77, 768)  # tokens of the prompt, and their width


def unet(net: NetworkBuilder, *, batch: int, latent: int) -> None:
    """One step of denoising a latent image under a prompt (Rombach et al. 2022).

    `latent` is the side of the latent image, an eighth of the picture's and a multiple of eight.
    """
    if latent % 8:
        raise InputError(f"latent is {latent}; give a multiple of 8, as it is halved three times.")
    x = net.input("latent", batch, 4, latent, latent)
    step = net.input("step", batch, 1)
    prompt = net.input("prompt", batch, *_TEXT)
    with net.scope("time"):
        time = net.operator("sinusoids", [step], [(batch, _CHANNELS[0])], flops=batch * _CHANNELS[0])[0]
        time = net.linear(net.silu(net.linear(time, 4 * _CHANNELS[0], "up")), 4 * _CHANNELS[0], "out")
    with net.scope("stem"):
        x = net.conv(x, _CHANNELS[0], kernel=3, bias=True)
    coarsest = len(_CHANNELS) - 1
    skipped = [x]
    for level, channels in enumerate(_CHANNELS):
        for block in range(2):
            x = _residual(net, f"down{level}.residual{block}", x, time, channels)
            if level < coarsest:
                x = _transformer(net, f"down{level}.attention{block}", x, prompt)
            skipped.append(x)
        if level < coarsest:
            with net.scope(f"down{level}.downsample"):
                x = net.conv(x, channels, kernel=3, stride=2, bias=True)
            skipped.append(x)
    x = _residual(net, "middle.residual0", x, time, _CHANNELS[-1])
    x = _transformer(net, "middle.attention", x, prompt)
    x = _residual(net, "middle.residual1", x, time, _CHANNELS[-1])
    for level, channels in reversed(list(enumerate(_CHANNELS))):
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
    """Two convolutions, the step of the diffusion added in between; first joined with what skipped the rest."""
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
