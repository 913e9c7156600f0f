"""Costs of layers with windows, gates, latent attention and shared experts, counted part by part; absurd sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.errors import InputError, UnknownLayersError
from instances.planning.grid import Servers
from instances.planning.grid.accelerators import ACCELERATORS
from instances.planning.grid.configurations import Configuration, ConfiguredChain
from instances.planning.grid.layers import Clockwork, LayerCosts, Product, configured
from instances.planning.grid.transformer import LayerSizes, Transformer
from instances.readers.huggingface.record import Attention, Experts, FeedForward, LatentAttention, Layer, Recurrence

CLOCK = Clockwork(ACCELERATORS["A100-80"], 300e9)
S, H, E = 256, 64, 2  # tokens, width of layers, bytes of a number
PLAIN = Attention(heads=4, key_heads=2, width=16, value_width=16)
LATENT = LatentAttention(heads=4, rank=24, rotary=8, plain=16, value_width=20, query_rank=40)
DENSE = Layer((PLAIN,), FeedForward(96, gated=True), norms=2)
ROUTED = Layer((PLAIN,), FeedForward(0, gated=True, experts=Experts(count=8, chosen=2, inner=32)), norms=2)


def model(*layers: Layer, **others: Any) -> Transformer:
    return Transformer(name="small", hidden=H, vocabulary=100, layers=layers, **others)


def with_attention(own: Attention | LatentAttention, **others: Any) -> Layer:
    return replace(DENSE, mixers=(own,), **others)


def with_experts(layer: Layer, **others: Any) -> Layer:
    assert layer.feed is not None
    assert layer.feed.experts is not None
    return replace(layer, feed=replace(layer.feed, experts=replace(layer.feed.experts, **others)))


def chain_of(one: Transformer, degrees: tuple[int, int, int] = (1, 1, 1), sequence: int = S) -> ConfiguredChain:
    return configured(LayerCosts(one, CLOCK, 1, sequence, E, Servers(4, 8, 300e9, 25e9)), (degrees,), "bf16")


def plain(layer: Layer, degrees: tuple[int, int, int] = (1, 1, 1), sequence: int = S) -> Configuration:
    return chain_of(model(layer), degrees, sequence).layers[1].modes(degrees)[0]


@given(st.integers(1, 50), st.integers(1, 60), st.booleans())
def test_tokens_attend_to_those_of_their_window(sequence: int, window: int, chunked: bool) -> None:
    """All pairs but half of each token with itself, of which the triangle of a whole sequence has half as well."""
    sizes = LayerSizes(with_attention(replace(PLAIN, window=window, chunked=chunked)), H, H)
    seen = [1 + i % window if chunked else min(1 + i, window) for i in range(sequence)]
    halves = sequence if chunked else min(sequence, window)
    assert sequence * sizes.attended(sequence) == pytest.approx(sum(seen) - halves / 2)


def test_windows_take_less_time_and_those_that_no_sequence_fills_make_no_kinds() -> None:
    windows = (16, 64, S, S + 1, None)
    times = [plain(with_attention(replace(PLAIN, window=window))).forward for window in windows]
    assert times[0] < times[1] < times[2] == times[3] == times[4]
    chain = chain_of(model(*(with_attention(replace(PLAIN, window=window)) for window in windows)))
    kinds = [layer.kind for layer in chain.layers]
    assert kinds == ["embedding", "layer 0", "layer 1", "layer 2", "layer 2", "layer 2", "head"]
    assert set(chain_of(model(DENSE, with_attention(replace(PLAIN, window=S)))).kinds) == {"embedding", "layer", "head"}


def test_latent_attention_has_its_products_and_keeps_its_latent_vectors() -> None:
    feed = 3 * H * 96
    whole = (40 + 24 + 8) * H + 40 + 24 + 2 * H
    divided = 40 * 4 * 24 + 24 * 4 * (16 + 20) + 4 * 20 * H + feed
    for t in (1, 2, 4):
        way = plain(with_attention(LATENT), (t, 1, 1))
        assert way.parameters == whole + divided / t
        kept = 3 * H + 2 * (40 + 24) + 4 * (24 + 24 + 20 + 20) + H + 3 * 96
        assert way.stored_bytes == (E * S * kept + 4 * 4 * S) / t
    direct = plain(with_attention(replace(LATENT, query_rank=None)))
    assert direct.parameters == (24 + 8) * H + 24 + 2 * H + H * 4 * 24 + 24 * 4 * 36 + 80 * H + feed


def test_a_shared_network_is_added_to_the_experts() -> None:
    alone, both = plain(ROUTED), plain(with_experts(ROUTED, shared=48))
    assert both.parameters - alone.parameters == 3 * H * 48
    assert both.stored_bytes - alone.stored_bytes == E * S * (H + 3 * 48)
    assert both.expert_parameters == alone.expert_parameters == 8 * 3 * H * 32
    products = CLOCK.product(Product(S, 2 * 48, H)) + CLOCK.product(Product(S, H, 48))
    moved = CLOCK.moved(2 * E * S * 48) - CLOCK.moved(0)
    assert both.forward - alone.forward == pytest.approx(products + moved)
    gated = plain(with_experts(ROUTED, shared=48, shared_gate=True))
    assert gated.parameters - both.parameters == H
    assert gated.stored_bytes - both.stored_bytes == E * S * H


def test_expert_degrees_divide_experts_and_nothing_of_dense_layers() -> None:
    one, four = (chain_of(model(DENSE, ROUTED), (1, 1, ep)) for ep in (1, 4))
    dense, routed = ([chain.layers[n].configurations[0] for chain in (one, four)] for n in (1, 2))
    assert replace(dense[1], ep=1) == dense[0]
    assert routed[1].expert_parameters * 4 == routed[0].expert_parameters
    assert one.parameters == four.parameters == model(DENSE, ROUTED).parameters


def test_further_norms_and_gates_keep_their_inputs() -> None:
    base = plain(DENSE)
    assert plain(replace(DENSE, norms=4)).stored_bytes - base.stored_bytes == 2 * E * S * H
    gated = plain(with_attention(replace(PLAIN, gate=64)))
    assert gated.stored_bytes - base.stored_bytes == E * S * (64 + 64)
    assert gated.parameters - base.parameters == H * 64
    assert gated.forward > base.forward


def test_an_encoder_without_a_pooler_has_an_end_that_costs_nothing() -> None:
    one = model(DENSE, causal=False, head=False, embedding=16)
    chain = chain_of(one)
    end = chain.layers[-1].configurations[0]
    assert (end.forward, end.backward, end.parameters, end.stored_bytes) == (0, 0, 0, 0)
    assert chain.parameters == one.parameters == 100 * 16 + 16 * H + one.sizes[0].parameters


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ((), "small: layers is 0; it must be 1 or more."),
        ((with_attention(replace(PLAIN, heads=0)),), "small: heads is 0; it must be 1 or more."),
        ((with_attention(replace(PLAIN, key_heads=3)),), "small: 4 heads share 3 keys; one must divide the other."),
        ((with_attention(replace(LATENT, value_width=0)),), "small: width of a value is 0; it must be 1 or more."),
        ((DENSE, with_experts(ROUTED, chosen=9)), "small: a token takes 9 of 8 experts; that is too many."),
        ((replace(DENSE, feed=FeedForward(0, gated=True)),), "small: inner is 0; it must be 1 or more."),
    ],
)
def test_absurd_sizes_are_refused_in_a_line(layers: tuple[Layer, ...], message: str) -> None:
    with pytest.raises(InputError) as caught:
        model(*layers)
    assert str(caught.value) == message


def test_layers_without_costs_are_named() -> None:
    scan = Recurrence("mamba", (), 0, 0, False, (), None, 0, 0)  # type: ignore[arg-type]
    cases = {
        replace(DENSE, mixers=(scan,)): "mamba in a layer",
        replace(DENSE, mixers=()): "a layer that is not attention and a feed-forward network",
        replace(DENSE, feed=None): "a layer that is not attention and a feed-forward network",
        with_attention(replace(PLAIN, passes=2)): "attention that computes its scores 2 times",
        with_experts(ROUTED, width=32): "experts of another width than the layer",
    }
    for layer, words in cases.items():
        with pytest.raises(UnknownLayersError, match=f"^small: no costs are known of {words}.$"):
            model(DENSE, layer)


def test_degrees_have_to_divide_each_layer() -> None:
    odd = with_experts(ROUTED, inner=33)
    model(DENSE, ROUTED).check_degree(2)
    with pytest.raises(InputError, match="a tensor degree of 2 does not divide 33, its inner width of experts"):
        model(DENSE, odd).check_degree(2)
    with pytest.raises(InputError, match="an expert degree of 4 does not divide 6, its experts"):
        chain_of(model(ROUTED, with_experts(ROUTED, count=6)), (1, 1, 4))
