r"""Sizes of language models, and how many parameters they have.

A layer of width h whose keys are k wide has :math:`h (h + 2 k) + h^2` weights of attention and :math:`n h i` in each
feed-forward network of inner width i, n = 3 if it is gated and 2 otherwise; with experts there is one network for each,
and a router. Masks and angles of positions are no parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from instances.errors import InputError

__all__ = ["Transformer"]


@dataclass(frozen=True, kw_only=True)
class Transformer:
    """Sizes of a decoder or an encoder."""

    name: str
    layers: int
    hidden: int  # width between layers, h
    heads: int  # of queries
    key_heads: int  # of keys and of values
    inner: int  # width within a feed-forward network, i
    vocabulary: int
    head_width: int | None = None  # of a head; hidden / heads if missing
    gated: bool = True  # whether the feed-forward network has a gate, a third matrix
    positions: int = 0  # learned ones
    segments: int = 0  # kinds of tokens with a vector each
    experts: int = 1  # feed-forward networks of a layer
    chosen: int = 1  # experts of a token
    biases: bool = False  # whether products and norms have them
    dropout: bool = False  # whether training keeps masks of dropout
    causal: bool = True  # whether a token attends to those before it alone
    head: bool = True  # whether the last layer predicts tokens; otherwise there is a pooler
    tied: bool = False  # whether the head uses the table of the embedding
    vectors: int = 0  # other parameters of a layer
    end_vectors: int = 0  # other parameters after the layers

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "key_heads", "inner", "vocabulary", "experts", "chosen"):
            if getattr(self, name) < 1:
                raise InputError(f"{self.name}: {name} is {getattr(self, name)}; it must be 1 or more.")
        if self.heads % self.key_heads:
            raise InputError(f"{self.name}: {self.heads} heads share {self.key_heads} keys; one must divide the other.")
        if self.head_width is None and self.hidden % self.heads:
            raise InputError(f"{self.name}: {self.heads} heads do not divide a width of {self.hidden}.")
        if self.chosen > self.experts:
            raise InputError(f"{self.name}: a token takes {self.chosen} of {self.experts} experts; that is too many.")

    @property
    def matrices(self) -> int:
        """Matrices of a feed-forward network, n."""
        return 3 if self.gated else 2

    @property
    def query_width(self) -> int:
        """Width of all queries together."""
        return self.heads * self._width

    @property
    def key_width(self) -> int:
        """Width of all keys together, k."""
        return self.key_heads * self._width

    @property
    def _width(self) -> int:
        return self.hidden // self.heads if self.head_width is None else self.head_width

    @property
    def norm_parameters(self) -> int:
        """Parameters of one norm: a scale, and a shift where there are biases."""
        return (1 + self.biases) * self.hidden

    @property
    def attention_parameters(self) -> int:
        """Parameters of the attention of a layer."""
        weights = self.hidden * (2 * self.query_width + 2 * self.key_width)
        return weights + self.biases * (self.query_width + 2 * self.key_width + self.hidden)

    @property
    def expert_parameters(self) -> int:
        """Parameters of one feed-forward network."""
        h, i = self.hidden, self.inner
        return self.matrices * h * i + self.biases * ((self.matrices - 1) * i + h)

    @property
    def router_parameters(self) -> int:
        """Parameters that choose the experts of a token."""
        return self.hidden * self.experts if self.experts > 1 else 0

    @property
    def layer_parameters(self) -> int:
        """Parameters of a layer with all experts and two norms."""
        feed = self.experts * self.expert_parameters + self.router_parameters
        return self.attention_parameters + feed + 2 * self.norm_parameters + self.vectors

    @property
    def embedding_parameters(self) -> int:
        """Parameters before the layers; an encoder's embedding has a norm."""
        tables = (self.vocabulary + self.positions + self.segments) * self.hidden
        return tables + (0 if self.head else self.norm_parameters)

    @property
    def table_parameters(self) -> int:
        """Parameters of the table of tokens, which embedding and head share where they are tied."""
        return self.vocabulary * self.hidden

    @property
    def head_parameters(self) -> int:
        """Parameters after the layers: the last norm and the head, with its table even if that is tied; or a pooler."""
        if not self.head:
            return self.hidden**2 + self.hidden
        return self.norm_parameters + self.table_parameters + self.end_vectors

    @property
    def parameters(self) -> int:
        """Trained numbers of the model; a tied table counts once.

        Examples
        --------
        >>> from instances.planning.grid.names import TRANSFORMERS
        >>> TRANSFORMERS["llama-3-8b"].parameters
        8030261248
        """
        ends = self.embedding_parameters + self.head_parameters - self.tied * self.table_parameters
        return self.layers * self.layer_parameters + ends

    def check_degree(self, tp: int) -> None:
        """Refuse a degree of tensor parallelism that does not divide heads, keys, widths or the vocabulary's table.

        Raises
        ------
        InputError
            If it does not; the vocabulary is padded, as runtimes do.
        """
        for what, count in (("heads", self.heads), ("heads of keys", self.key_heads), ("inner width", self.inner)):
            if count % tp:
                raise InputError(f"{self.name}: a tensor degree of {tp} does not divide {count}, its {what}.")
