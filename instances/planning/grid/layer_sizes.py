r"""Sizes of a layer of attention and a feed-forward network, as costs need them.

A layer of width h has products whose outputs a tensor degree divides: with the queries, keys and values of attention,
or, of latent attention, from latent vectors to these; and one back to h. What makes the latent vectors is whole on each
device, as are norms and other vectors. A feed-forward network of inner width i has :math:`n h i` weights, n = 3 if it
is gated and 2 otherwise; beside routed experts there may be a network for all tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

from instances.readers.huggingface.record import Attention, Experts, FeedForward, LatentAttention, Layer

__all__ = ["LayerSizes", "obstacle"]


def obstacle(layer: Layer) -> str | None:
    """The part of a layer that has no costs here, in words; None if all have."""
    others = [mixer.kind for mixer in layer.mixers if not isinstance(mixer, Attention | LatentAttention)]
    if others:
        return f"{others[0]} in a layer"
    if len(layer.mixers) != 1 or layer.feed is None:
        return "a layer that is not attention and a feed-forward network"
    attention, experts = layer.mixers[0], layer.feed.experts
    if isinstance(attention, LatentAttention) and attention.indexer is not None:
        return "attention whose tokens an indexer chooses"
    if isinstance(attention, Attention) and attention.passes > 1:
        return f"attention that computes its scores {attention.passes} times"
    if experts is not None and experts.width:
        return "experts of another width than the layer"
    return None


@dataclass(frozen=True)
class LayerSizes:
    """A layer in a model of some width; of parameters, what devices divide and what each of them has whole."""

    layer: Layer
    hidden: int  # width between layers, h
    norm: int  # parameters of a norm of this width

    @property
    def attention(self) -> Attention | LatentAttention:
        """The mixer of the tokens."""
        found = self.layer.mixers[0]
        assert isinstance(found, Attention | LatentAttention)
        return found

    @property
    def feed(self) -> FeedForward:
        """The feed-forward network."""
        assert self.layer.feed is not None
        return self.layer.feed

    @property
    def experts(self) -> Experts | None:
        """Routed experts, if there are any."""
        return self.feed.experts

    @property
    def key_heads(self) -> int:
        """Heads of keys and values; latent vectors make them for each head."""
        own = self.attention
        return own.heads if isinstance(own, LatentAttention) else own.key_heads

    @property
    def queries(self) -> int:
        """Width of all queries together."""
        return self.attention.heads * self._key_width

    @property
    def keys(self) -> int:
        """Width of all keys together."""
        return self.key_heads * self._key_width

    @property
    def values(self) -> int:
        """Width of all values together."""
        return self.key_heads * self.attention.value_width

    @property
    def outputs(self) -> int:
        """Width of the outputs of all heads together."""
        return self.attention.heads * self.attention.value_width

    @property
    def gate(self) -> int:
        """Values that multiply the outputs of attention."""
        return 0 if isinstance(self.attention, LatentAttention) else self.attention.gate

    @property
    def normed_latents(self) -> int:
        """Width of the latent vectors with a norm, from which queries, keys and values are made."""
        own = self.attention
        return own.rank + (own.query_rank or 0) if isinstance(own, LatentAttention) else 0

    @property
    def latents(self) -> int:
        """Width of all that a token's latent attention makes of the layer's input but for queries of full width."""
        own = self.attention
        return self.normed_latents + own.rotary if isinstance(own, LatentAttention) else 0

    @property
    def gathered(self) -> int:
        """Width that devices with parts of the tokens gather before attention."""
        own = self.attention
        return self.latents if isinstance(own, LatentAttention) and own.query_rank else self.hidden + self.latents

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Inputs and outputs of the products before attention whose outputs devices divide."""
        own = self.attention
        if isinstance(own, LatentAttention):
            made = own.heads * (own.plain + own.value_width)
            return (own.query_rank or self.hidden, self.queries), (own.rank, made)
        return ((self.hidden, self.queries + self.keys + own.own_values * self.values + own.gate),)

    @property
    def further_norms(self) -> int:
        """Norms beside the two that every layer has, with parameters or without."""
        return max(0, self.layer.norms - 2)

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward network, n."""
        return 3 if self.feed.gated else 2

    @property
    def inner(self) -> int:
        """Inner width of the network that all tokens take; 0 without one."""
        return self.feed.inner if self.experts is None else self.experts.shared

    @property
    def routed(self) -> int:
        """Inner width of all experts that a token takes."""
        return 0 if self.experts is None else self.experts.chosen * self.experts.inner

    @property
    def shared_gate(self) -> bool:
        """Whether a gate multiplies what the network beside the experts gives."""
        return self.experts is not None and self.experts.shared > 0 and self.experts.shared_gate

    @property
    def weights(self) -> int:
        """Weights of the products that a token takes part in."""
        chosen = self.matrices * self.hidden * (self.inner + self.routed)
        return (
            self._attention_weights
            + self.hidden * self.latents
            + chosen
            + self._router
            + self.shared_gate * self.hidden
        )

    @property
    def divided_parameters(self) -> int:
        """Parameters without experts of which a device has its part."""
        own, h = self.attention, self.hidden
        if isinstance(own, LatentAttention):
            biases = own.bias * h
        else:
            biases = own.bias * (self.queries + self.keys + own.own_values * self.values)
            biases += own.output_bias * h + own.gate_bias * own.gate
        dense = self._network(self.inner, biases=self.feed.bias) if self.inner else 0
        return self._attention_weights + biases + dense + self._router

    @property
    def whole_parameters(self) -> int:
        """Parameters that each device has, whatever the tensor degree."""
        own, found = self.attention, self.layer.norms * self.norm + self.layer.vectors + self.attention.vectors
        if isinstance(own, LatentAttention):
            found += (self.hidden + own.bias) * self.latents + self.normed_latents
        else:
            found += sum(own.norms)
        found += self.feed.vectors + self.shared_gate * self.hidden
        return found + (0 if self.experts is None else self.experts.router_vectors)

    @property
    def expert_parameters(self) -> int:
        """Parameters of all routed experts, which an expert degree divides as well."""
        own = self.experts
        return 0 if own is None else own.count * self._network(own.inner, biases=own.bias)

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.divided_parameters + self.whole_parameters + self.expert_parameters

    def attended(self, sequence: int) -> float:
        """Tokens that a token attends to in the mean, itself half, if it attends to those before it alone."""
        own = self.attention
        window = None if isinstance(own, LatentAttention) else own.window
        reach = min(sequence, window or sequence)
        if isinstance(own, Attention) and own.chunked:
            chunks, rest = divmod(sequence, reach)
            return (chunks * reach**2 + rest**2) / (2 * sequence)
        return reach - reach**2 / (2 * sequence)

    @property
    def _key_width(self) -> int:
        own = self.attention
        return own.plain + own.rotary if isinstance(own, LatentAttention) else own.width

    @property
    def _attention_weights(self) -> int:
        """Those of attention that devices divide."""
        return sum(inputs * outputs for inputs, outputs in self.products) + self.outputs * self.hidden

    @property
    def _router(self) -> int:
        return 0 if self.experts is None else self.hidden * self.experts.count

    def _network(self, inner: int, *, biases: bool) -> int:
        n, h = self.matrices, self.hidden
        return n * h * inner + biases * ((n - 1) * inner + h)
