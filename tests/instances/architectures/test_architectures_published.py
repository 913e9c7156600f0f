"""Sizes of the parametric architectures: published figures, and closed forms written down independently."""

from functools import cache
from itertools import pairwise

import pytest

from instances.architectures import ARCHITECTURES

TORCHVISION = "documentation of torchvision's pre-trained weights (num_params, GFLOPS as multiply-adds)"
CHECKPOINT = "parameter count of the published checkpoint of this name in Hugging Face's transformers or diffusers"
PAPER = "the paper that the architecture refers to"
KERAS = "summary of keras.applications.NASNetMobile; multiply-adds: Table 2 of the paper"

# name, parameters, multiply-adds / 1e9 at batch 1, source
PUBLISHED = [
    ("vgg16", 138_357_544, 15.47, TORCHVISION),
    ("vgg19", 143_667_240, 19.63, TORCHVISION),
    ("resnet50", 25_557_032, 4.09, TORCHVISION),
    ("resnet152", 60_192_808, 11.51, TORCHVISION),
    ("resnext50", 25_028_904, 4.23, TORCHVISION),
    ("mobilenet-v2", 3_504_872, 0.30, TORCHVISION),
    ("efficientnet-b0", 5_288_548, 0.386, TORCHVISION),
    ("squeezenet", 1_248_424, 0.82, TORCHVISION),
    # torchvision publishes 27,161,264; its auxiliary classifier, absent at inference, holds the difference.
    ("inception-v3", 27_161_264 - 3_326_696, 5.71, TORCHVISION),
    ("densenet121", 7_978_856, 2.83, TORCHVISION),
    ("vit-b16", 86_567_656, 17.56, TORCHVISION),
    ("nasnet-mobile", 5_326_716 - 36_738, 0.564, KERAS),  # less the moments, which are not trained
    ("bert-base", 109_482_240, 22.347 / 2, CHECKPOINT),
    ("bert-large", 335_141_888, None, CHECKPOINT),
    # The paper counts the heads of pre-training: a transformation, an untied decoder, two classes.
    ("bert-48", 669_790_012 - (1024**2 + 3 * 1024 + 1025 * 30522 + 2 * 1025), None, PAPER),
    ("xlnet-large", 360_268_800 - 1024, None, CHECKPOINT),  # less a mask that only pre-training reads
    ("gpt2", 124_439_808, None, CHECKPOINT),
    ("llama-2-7b", 6_738_415_616, None, CHECKPOINT),
    ("llama-3-8b", 8_030_261_248, None, CHECKPOINT),
    ("llama-3-70b", 70_553_706_496, None, CHECKPOINT),
    ("mixtral-8x7b", 46_702_792_704, None, CHECKPOINT),
    ("t5-small", 60_506_624, None, CHECKPOINT),
    ("t5-base", 222_903_552, None, CHECKPOINT),
    ("whisper-base", 72_593_920 - 1500 * 512, None, CHECKPOINT),  # less the sinusoids, which are not trained
    ("unet-sd1", 859_520_964, None, CHECKPOINT),
]


@cache
def build(name, **dims):
    return ARCHITECTURES[name].build(**dims)


def totals(name, **dims):
    return build(name, **dims).attributes


@pytest.mark.parametrize(("name", "parameters", "giga", "source"), PUBLISHED)
def test_published_parameters_and_multiply_adds(name, parameters, giga, source):
    """Parameters are exact, multiply-adds within the rounding of what is published."""
    found = totals(name)
    assert found["parameter_count"] == parameters, source
    if giga is not None:
        assert found["multiply_adds"] / 1e9 == pytest.approx(giga, rel=0.005), source


@pytest.mark.parametrize(("name", "millions"), [("transformer-big", 213), ("dlrm", 540)])
def test_published_parameters_that_are_rounded(name, millions):
    """Table 3 of Vaswani et al. (2017), and Section 5.1 of Naumov et al. (2019)."""
    assert totals(name)["parameter_count"] / 1e6 == pytest.approx(millions, rel=0.02)


def test_published_multiply_adds_of_the_unet():
    """339 billion in Kim et al., BK-SDM, ECCV 2024, where products of two activations are not counted."""
    resolutions = [(64 * 64, 320, 5), (32 * 32, 640, 5), (16 * 16, 1280, 5), (8 * 8, 1280, 1)]
    products = sum(count * 2 * channels * pixels * (pixels + 77) for pixels, channels, count in resolutions)
    assert (totals("unet-sd1")["multiply_adds"] - products) / 1e9 == pytest.approx(339, rel=0.02)


def layers(count, tokens, weights, hidden):
    """Multiply-adds: each weight once per layer and token, and two products of tokens by tokens by h."""
    return count * (tokens * weights + 2 * tokens**2 * hidden)


@pytest.mark.parametrize("sequence", [1, 128, 512])
@pytest.mark.parametrize(
    ("name", "count", "hidden"), [("bert-base", 12, 768), ("bert-large", 24, 1024), ("bert-48", 48, 1024)]
)
def test_bert_multiply_adds_in_closed_form(name, count, hidden, sequence):
    """The encoder, and a pooler that sees the first token."""
    expected = layers(count, sequence, 12 * hidden**2, hidden) + hidden**2
    assert totals(name, sequence=sequence)["multiply_adds"] == expected


@pytest.mark.parametrize("sequence", [1, 128, 1024])
def test_gpt2_multiply_adds_in_closed_form(sequence):
    """The decoder, and a head that scores the vocabulary at every position."""
    expected = layers(12, sequence, 12 * 768**2, 768) + sequence * 768 * 50257
    assert totals("gpt2", sequence=sequence)["multiply_adds"] == expected


@pytest.mark.parametrize("sequence", [1, 128, 4096])
@pytest.mark.parametrize(
    ("name", "count", "hidden", "keys", "feed_forward", "vocabulary"),
    [
        ("llama-2-7b", 32, 4096, 4096, 3 * 4096 * 11008, 32000),
        ("llama-3-8b", 32, 4096, 1024, 3 * 4096 * 14336, 128256),
        ("llama-3-70b", 80, 8192, 1024, 3 * 8192 * 28672, 128256),
        ("mixtral-8x7b", 32, 4096, 1024, 8 * 4096 + 2 * 3 * 4096 * 14336, 32000),
    ],
)
def test_llama_and_mixtral_multiply_adds_in_closed_form(name, count, hidden, keys, feed_forward, vocabulary, sequence):
    """Keys and values are narrower than queries; two of eight experts see a token."""
    batch = 1 if sequence % 4 == 0 else 4  # so that the experts' shares are even
    weights = 2 * hidden * (hidden + keys) + feed_forward
    expected = layers(count, sequence, weights, hidden) + sequence * hidden * vocabulary
    assert totals(name, sequence=sequence, batch=batch)["multiply_adds"] == batch * expected


@pytest.mark.parametrize(
    ("name", "count", "hidden", "vocabulary"),
    [
        ("transformer-base", 6, 512, 37000),
        ("transformer-big", 6, 1024, 37000),
        ("t5-small", 6, 512, 32128),
        ("t5-base", 12, 768, 32128),
    ],
)
def test_translation_multiply_adds_in_closed_form(name, count, hidden, vocabulary):
    """A decoder layer has a second attention, to as many tokens again."""
    s = 64
    encoder = layers(count, s, 12 * hidden**2, hidden)
    decoder = layers(count, s, 16 * hidden**2, 2 * hidden)
    assert totals(name, sequence=s)["multiply_adds"] == encoder + decoder + s * hidden * vocabulary


@pytest.mark.parametrize(("name", "hidden"), [("transformer-base", 512), ("transformer-big", 1024)])
def test_transformer_parameters_in_closed_form(name, hidden):
    """One table of words, 6 + 6 layers; attention has no biases, layer norm and the feed-forward networks have."""
    norm, feed_forward = 2 * hidden, 8 * hidden**2 + 5 * hidden
    encoder = 4 * hidden**2 + feed_forward + 2 * norm
    decoder = 8 * hidden**2 + feed_forward + 3 * norm
    assert totals(name)["parameter_count"] == 37000 * hidden + 6 * (encoder + decoder)


def test_whisper_multiply_adds_in_closed_form():
    """Two convolutions, 6 layers over 1500 frames, 6 layers over the tokens that also attend to the frames."""
    h, s, frames = 512, 100, 1500
    convolutions = 2 * frames * h * 3 * 80 + frames * h * 3 * h
    encoder = layers(6, frames, 12 * h**2, h)
    decoder = layers(6, s, 14 * h**2, h) + 6 * (frames * 2 * h**2 + 2 * s * frames * h)
    assert totals("whisper-base", sequence=s)["multiply_adds"] == convolutions + encoder + decoder + s * h * 51865


def test_xlnet_multiply_adds_in_closed_form():
    """Distances of both signs are projected as well, and scored in each head; so are two segments."""
    h, s = 1024, 96
    layer = s * 14 * h**2 + (s * s + 2 * s * s + s * s) * h + 2 * s * h
    assert totals("xlnet-large", sequence=s)["multiply_adds"] == 24 * layer


@pytest.mark.parametrize("chunks", [1, 3, 20])
def test_gnmt_size_in_closed_form_and_whatever_the_chunks(chunks):
    """17 recurrent layers, attention, two embeddings and a head; unrolling changes no total."""
    h, vocabulary, s = 1024, 32000, 20
    inputs = [h, h, 2 * h] + 6 * [h] + [h] + 7 * [2 * h]  # encoder both ways, encoder above, decoder
    weights = sum(4 * h * (size + h) for size in inputs)
    parameters = weights + 17 * 4 * h + (2 * h * h + h) + 2 * vocabulary * h + vocabulary * (h + 1)
    multiply_adds = s * (weights + 2 * h * h + h * vocabulary) + 2 * s * s * h
    found = totals("gnmt", sequence=s, chunks=chunks)
    assert found["parameter_count"] == parameters
    assert found["multiply_adds"] == multiply_adds


@pytest.mark.parametrize("samples", [1, 5])
def test_wavernn_size_in_closed_form(samples):
    """A recurrent matrix, 2 and 3 inputs of the halves, and two heads of two layers; shared by all samples."""
    half = 448
    weights = 3 * (2 * half) ** 2 + (2 + 3) * 3 * half + 2 * half * (half + 256)
    found = totals("wavernn", samples=samples)
    assert found["parameter_count"] == weights + 3 * 2 * half + 2 * (half + 256)
    assert found["multiply_adds"] == samples * weights


def test_dlrm_size_in_closed_form():
    """33,762,577 rows of 16; two perceptrons; products of all pairs of 27 vectors."""
    widths = [[13, 512, 256, 64, 16], [27 * 26 // 2 + 16, 512, 256, 1]]
    weights = sum(a * b for network in widths for a, b in pairwise(network))
    biases = sum(sum(network[1:]) for network in widths)
    found = totals("dlrm")
    assert found["parameter_count"] == 33_762_577 * 16 + weights + biases
    assert found["multiply_adds"] == weights + 27 * 27 * 16


# Multiply-adds of the products that read inputs of the network, which get no gradient.
OF_INPUTS = {
    "vit-b16": 14 * 14 * 768 * 16 * 16 * 3,
    "xlnet-large": 24 * 2 * 128 * 1024**2,  # projections of the distances
    "whisper-base": 3000 * 512 * 3 * 80,
    "vgg16": 224 * 224 * 64 * 9 * 3,
    "vgg19": 224 * 224 * 64 * 9 * 3,
    "resnet50": 112 * 112 * 64 * 49 * 3,
    "resnet152": 112 * 112 * 64 * 49 * 3,
    "resnext50": 112 * 112 * 64 * 49 * 3,
    "densenet121": 112 * 112 * 64 * 49 * 3,
    "squeezenet": 109 * 109 * 96 * 49 * 3,
    "inception-v3": 149 * 149 * 32 * 9 * 3,
    "mobilenet-v2": 112 * 112 * 32 * 9 * 3,
    "efficientnet-b0": 112 * 112 * 32 * 9 * 3,
    "nasnet-mobile": 111 * 111 * 32 * 9 * 3,
    # the image, the step, and the keys and values of the prompt in 16 cross-attentions
    "unet-sd1": 64 * 64 * 320 * 9 * 4 + 320 * 1280 + 77 * 768 * 2 * (5 * 320 + 5 * 640 + 6 * 1280),
    "wavernn": 3 * 896**2 + 16 * (2 + 3) * 3 * 448,  # the first state, and the samples
    "dlrm": 13 * 512,
}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_forward_and_backward_is_three_times_forward(name):
    """A gradient for each of the two operands of each product, unless one is an input of the network."""
    forward = totals(name)
    both = totals(name, training=True)
    assert both["multiply_adds"] == 3 * forward["multiply_adds"] - OF_INPUTS.get(name, 0)
    assert both["parameter_count"] == forward["parameter_count"]
