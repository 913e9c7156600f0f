"""Language models as layers of attention and feed-forward networks, and how many parameters they have.

Masks and angles of positions are no parameters; a table that embedding and head share counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from instances.errors import InputError, UnknownLayersError
from instances.planning.grid.layer_sizes import LayerSizes, obstacle
from instances.readers.huggingface.record import Attention, Experts, FeedForward, Layer

__all__ = ["Transformer", "norm_parameters"]

#: Parameters of a norm, as multiples of its width.
_NORMS = {"rms": 1, "plain": 1, "layer": 2, "none": 0}


def norm_parameters(norm: str, width: int) -> int:
    """Parameters of one norm: a scale, and a shift, or neither."""
    return _NORMS[norm] * width


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """A decoder or an encoder, layer by layer; `uniform` makes one of equal layers.

    Raises
    ------
    InputError
        If a size is absurd; an `UnknownLayersError` if no costs are known of a layer, whose message says why.
    """

    name: str
    hidden: int  # width between layers, h
    vocabulary: int
    layers: tuple[Layer, ...]
    norm: str = "rms"  # rms, layer (scale and shift), plain (a scale alone) or none (no parameters)
    embedding: int | None = None  # width of the table of tokens, where a matrix makes it `hidden`
    positions: int = 0  # tokens of a sequence at most; 0 if nothing limits them
    before: int = 0  # parameters before the layers beside that table, such as a table of positions
    after: int = 0  # parameters after the layers beside the head, such as a norm
    dropout: bool = False  # whether training keeps masks of dropout
    causal: bool = True  # whether a token attends to those before it alone
    head: bool = True  # whether tokens are predicted after the layers
    pooled: bool = False  # whether there is a pooler after the layers
    tied: bool = False  # whether the head uses the table of the embedding

    @classmethod
    def uniform(
        cls,
        *,
        name: str,
        layers: int,
        hidden: int,
        heads: int,
        key_heads: int,
        inner: int,
        vocabulary: int,
        gated: bool = True,
        biases: bool = False,
        experts: int = 1,
        chosen: int = 1,
        positions: int = 0,
        segments: int = 0,
        dropout: bool = False,
        causal: bool = True,
        tied: bool = False,
    ) -> Transformer:
        """A decoder of equal layers; if it is not causal, an encoder with a norm of its embedding and a pooler.

        With biases, products have them, and norms have a shift. One expert is a dense network.
        """
        if heads < 1 or hidden % heads:
            raise InputError(f"{name}: {heads} heads do not divide a width of {hidden}.")
        width = hidden // heads
        routed = Experts(experts, chosen, inner, bias=biases) if experts != 1 or chosen != 1 else None
        layer = Layer(
            (Attention(heads, key_heads, width, width, bias=biases, output_bias=biases),),
            FeedForward(0 if routed else inner, gated, biases, experts=routed),
            norms=2,
        )
        norm = (1 + biases) * hidden
        return cls(
            name=name,
            hidden=hidden,
            vocabulary=vocabulary,
            layers=(layer,) * layers,
            norm="layer" if biases else "rms",
            positions=positions,
            before=(positions + segments) * hidden + (0 if causal else norm),
            after=norm if causal else 0,
            dropout=dropout,
            causal=causal,
            head=causal,
            pooled=not causal,
            tied=tied,
        )

    def __post_init__(self) -> None:
        sizes = {"hidden": self.hidden, "vocabulary": self.vocabulary, "layers": len(self.layers)}
        for name, size in {**sizes, "embedding": self.table_width}.items():
            if size < 1:
                raise InputError(f"{self.name}: {name} is {size}; it must be 1 or more.")
        if self.norm not in _NORMS:
            raise InputError(f"{self.name}: norm is {self.norm!r}; give one of {', '.join(_NORMS)}.")
        for layer in dict.fromkeys(self.layers):
            if why := obstacle(layer):
                raise UnknownLayersError(f"{self.name}: no costs are known of {why}.")
            self._check(LayerSizes(layer, self.hidden, self._norm))

    def _check(self, layer: LayerSizes) -> None:
        own, heads = layer.experts, layer.attention.heads
        sizes = {"heads": heads, "key_heads": layer.key_heads, "width of a key": layer.keys}
        sizes |= {"width of a value": layer.values, "inner": layer.inner + layer.routed}
        if own is not None:
            sizes |= {"experts": own.count, "chosen": own.chosen}
        for name, size in sizes.items():
            if size < 1:
                raise InputError(f"{self.name}: {name} is {size}; it must be 1 or more.")
        if heads % layer.key_heads:
            raise InputError(f"{self.name}: {heads} heads share {layer.key_heads} keys; one must divide the other.")
        if own is not None and own.chosen > own.count:
            raise InputError(f"{self.name}: a token takes {own.chosen} of {own.count} experts; that is too many.")

    @property
    def sizes(self) -> list[LayerSizes]:
        """Sizes of each layer; equal layers share theirs."""
        return [self.kinds[layer] for layer in self.layers]

    @cached_property
    def kinds(self) -> dict[Layer, LayerSizes]:
        """Layers that differ, in the order in which they come, with their sizes."""
        return {layer: LayerSizes(layer, self.hidden, self._norm) for layer in dict.fromkeys(self.layers)}

    @property
    def experts(self) -> tuple[int, ...]:
        """Numbers of routed experts that layers have."""
        return tuple(sorted({one.experts.count for one in self.kinds.values() if one.experts is not None}))

    @property
    def _norm(self) -> int:
        return norm_parameters(self.norm, self.hidden)

    @property
    def table_width(self) -> int:
        """Width of the table of tokens."""
        return self.hidden if self.embedding is None else self.embedding

    @property
    def widening(self) -> int:
        """Weights of the matrix between table and layers, which a head has as well; 0 without one."""
        return self.table_width * self.hidden if self.table_width != self.hidden else 0

    @property
    def table_parameters(self) -> int:
        """Parameters of the table of tokens, which embedding and head share where they are tied."""
        return self.vocabulary * self.table_width

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the layers."""
        return self.table_parameters + self.widening + self.before

    @property
    def head_parameters(self) -> int:
        """Parameters after the layers, with the table of a head even if that is tied."""
        head = self.head * (self.table_parameters + self.widening)
        return head + self.pooled * (self.hidden**2 + self.hidden) + self.after

    @property
    def parameters(self) -> int:
        """Trained numbers of the model; a tied table counts once.

        Examples
        --------
        >>> from instances.planning.grid.names import TRANSFORMERS
        >>> TRANSFORMERS["llama-3-8b"].parameters
        8030261248
        """
        ends = self.embedding_parameters + self.head_parameters - self.tied * self.head * self.table_parameters
        return sum(one.parameters for one in self.sizes) + ends

    def check_degree(self, tp: int) -> None:
        """Refuse a degree of tensor parallelism that does not divide heads, keys or inner widths of some layer.

        Raises
        ------
        InputError
            If it does not; the vocabulary is padded, as runtimes do.
        """
        for layer in self.kinds.values():
            counts = {"heads": layer.attention.heads, "heads of keys": layer.key_heads, "inner width": layer.inner}
            counts["inner width of experts"] = 0 if layer.experts is None else layer.experts.inner
            for what, count in counts.items():
                if count % tp:
                    raise InputError(f"{self.name}: a tensor degree of {tp} does not divide {count}, its {what}.")
