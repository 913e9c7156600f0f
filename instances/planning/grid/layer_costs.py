r"""Time and memory of the layers of language models in each configuration.

T tokens of a microbatch lie on each device before tensor parallelism, e bytes a number. With sequence parallelism
everything that a layer stores is divided by the tensor degree t (Korthikanti et al. 2023):

.. math:: [2 e T h + e T h + e T (h + 2 k) + e T h + 4 a T + x (e T h + n e T i)] / t,

inputs and output of the first norm and the input of the second, queries, keys and values, the output of attention,
statistics of fused attention for a heads, and for each of x experts of a token its input and n inner values; 2 T h / t
masks more with dropout. Unfused attention stores 2.5 e a s T / t instead of its statistics.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from instances.errors import InputError
from instances.planning.grid.configurations import Configuration, ConfiguredChain, ConfiguredLayer, Degrees
from instances.planning.grid.layer_times import Clockwork
from instances.planning.grid.transformer import Transformer

__all__ = ["ATTENTIONS", "LayerCosts", "configured"]

#: Attention in one kernel that keeps no scores, or in several that keep them.
ATTENTIONS = ("fused", "eager")

# Bytes that norms, sums and transposes of a layer move for each number of its output; masks, kept bytes a number.
_NORMS, _SUMS, _TRANSPOSES, _KERNELS = 2 * 4, 2 * 7, 12, 5
_SCORES = 2.5
# Bytes that unfused attention moves for each score; those of a logit; collectives of a layer, forward and backward.
_SCORE_MOVES, _LOGIT, _COLLECTIVES, _COLLECTIVES_BACK = 9, 4, 4, 6


@dataclass(frozen=True)
class LayerCosts:
    """Costs of the layers of one model for microbatches of one size."""

    model: Transformer
    clock: Clockwork
    micro_batch: int
    sequence: int
    width: int  # bytes of a number, e
    fused: bool = True
    outer_link: float = 0.0  # bandwidth to devices of other servers [bytes/s]
    server: int = 1  # devices of a server

    def layer(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """All ways to run a layer with these degrees."""
        (t, cp, _), model, e = degrees, self.model, self.width
        tokens, h, s = self._tokens(cp), model.hidden, self.sequence
        attended = self._attention(tokens, s, t, cp)
        forward, backward = self._times(degrees, attended)
        stored = self._stored(tokens, t)
        inner = self.model.chosen * e * tokens * model.inner / t
        plain = Configuration(
            tp=degrees[0],
            cp=degrees[1],
            ep=degrees[2],
            forward=forward,
            input_backward=backward[0],
            weight_backward=backward[1],
            parameters=(model.attention_parameters + self._dense) / t + 2 * model.norm_parameters + model.vectors,
            expert_parameters=self._experts / (t * degrees[2]),
            stored_bytes=stored,
            output_bytes=e * tokens * h / t,
        )
        normed = 2 * e * tokens * h / t + inner
        again = self.clock.moved(_NORMS * tokens * h / t, 2) + self.clock.moved(2 * inner)
        ways = [plain, _recomputed(plain, "act", stored - normed, normed, again)]
        if not self.fused:
            scores = _SCORES * e * model.heads * s * tokens / t
            ways.append(_recomputed(plain, "core", stored - scores, scores, attended[0]))
        return (*ways, _recomputed(plain, "full", e * tokens * h / t, stored, forward))

    def embedding(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """The only way to run what comes before the layers."""
        (t, cp, ep), model = degrees, self.model
        size = self.width * self._tokens(cp) * model.hidden
        time = self.clock.moved(2 * size / t) + self.clock.sent(size * (t - 1) / t)
        return (
            Configuration(
                tp=t,
                cp=cp,
                ep=ep,
                forward=time,
                input_backward=0.0,
                weight_backward=2 * time,
                parameters=model.embedding_parameters / t,
                stored_bytes=size / t if model.dropout else 0.0,
                output_bytes=size / t,
            ),
        )

    def head(self, degrees: Degrees) -> tuple[Configuration, ...]:
        """The only way to run what comes after the layers: the head with its loss, or a pooler."""
        (t, cp, ep), model = degrees, self.model
        tokens, h = self._tokens(cp), model.hidden
        size = self.width * tokens * h
        if model.head:
            product = self.clock.product(tokens, -(-model.vocabulary // t), h)
            logits = _LOGIT * tokens * model.vocabulary / t
            rest = self.clock.moved(4 * tokens * h / t + 2 * logits, 3) + self.clock.sent(size * (t - 1) / t)
            stored = 2 * size / t + logits
        else:
            product, rest, stored = self.clock.product(self.micro_batch, -(-h // t), h), 0.0, size / t
        return (
            Configuration(
                tp=t,
                cp=cp,
                ep=ep,
                forward=product + rest,
                input_backward=product + 2 * rest,
                weight_backward=product,
                parameters=model.head_parameters / t,
                tied_parameters=model.tied * model.table_parameters / t,
                stored_bytes=stored,
                output_bytes=0.0,
            ),
        )

    @property
    def _dense(self) -> int:
        """Parameters that do not belong to one of several experts, without norms and attention."""
        return self.model.router_parameters if self.model.experts > 1 else self.model.expert_parameters

    @property
    def _experts(self) -> int:
        return self.model.experts * self.model.expert_parameters if self.model.experts > 1 else 0

    def _tokens(self, cp: int) -> float:
        return self.micro_batch * self.sequence / cp

    def _stored(self, tokens: float, t: int) -> float:
        model, e = self.model, self.width
        h, x = model.hidden, model.chosen
        wide = model.query_width + 2 * model.key_width + model.query_width
        parts = e * tokens * (3 * h + wide) + x * e * tokens * (h + model.matrices * model.inner)
        scores = _LOGIT * model.heads * tokens
        if not self.fused:
            scores = _SCORES * e * model.heads * self.sequence * tokens
        return (parts + scores + model.dropout * 2 * tokens * h) / t

    def _attention(self, tokens: float, s: int, t: int, cp: int) -> tuple[float, float]:
        """Forward and backward time of attention without its linear maps; with a context degree keys go round."""
        model, clock = self.model, self.clock
        flops = 4 * tokens * s * model.query_width / t
        if self.fused:
            forward = clock.attention(flops / (1 + model.causal), fused=True)
            backward = 2.5 * forward
        else:
            moved = clock.moved(_SCORE_MOVES * model.heads * s * tokens / t, 3)
            forward = clock.attention(flops, fused=False) + moved
            backward = 2 * forward
        ring = clock.sent(2 * self.width * tokens * model.key_width / t * (cp - 1))
        return max(forward, ring), max(backward, 2 * ring)

    def _times(self, degrees: Degrees, attended: tuple[float, float]) -> tuple[float, tuple[float, float]]:
        """Forward time of a layer, and both parts of its backward time."""
        (t, cp, ep), model, clock, e = degrees, self.model, self.clock, self.width
        tokens, h, q = self._tokens(cp), model.hidden, model.query_width
        products = clock.product(tokens, (q + 2 * model.key_width) / t, h) + clock.product(tokens, h, q / t)
        local, rows = model.experts / ep, model.chosen * tokens * ep / model.experts
        feed = clock.product(rows, (model.matrices - 1) * model.inner / t, h) + clock.product(rows, h, model.inner / t)
        products += local * feed + (clock.product(tokens, model.experts, h) if model.experts > 1 else 0.0)
        moved = clock.moved((_NORMS + _SUMS + _TRANSPOSES) * tokens * h / t, _KERNELS)
        moved += clock.moved(2 * e * model.chosen * tokens * model.inner / t)
        one = clock.sent(e * tokens * h * (t - 1) / t)
        link = clock.link if t * cp * ep <= self.server else self.outer_link
        exchange = 2 * clock.sent(model.chosen * e * tokens * h / t * (ep - 1) / ep, link)
        forward = products + attended[0] + moved + _COLLECTIVES * one + exchange
        inputs = products + attended[1] + 2 * moved + _COLLECTIVES_BACK * one + exchange
        return forward, (inputs, products)


def configured(costs: LayerCosts, degrees: tuple[Degrees, ...], dtype: str) -> ConfiguredChain:
    """Chain of embedding, layers and head, for all degrees.

    Raises
    ------
    InputError
        If a degree divides something that it cannot.
    """
    model, device = costs.model, costs.clock.device
    for t, cp, ep in degrees:
        model.check_degree(t)
        if costs.sequence % cp:
            raise InputError(f"{model.name}: a context degree of {cp} does not divide {costs.sequence} tokens.")
        if model.experts % ep or (ep > 1 and model.experts == 1):
            raise InputError(f"{model.name}: an expert degree of {ep} does not divide {model.experts}, its experts.")
    s, q = costs.sequence, model.query_width
    weights = model.hidden * (2 * q + 2 * model.key_width)
    weights += model.chosen * model.matrices * model.hidden * model.inner + model.router_parameters
    layer = 2 * s * weights + 4 * s * s * q / (1 + model.causal)
    ends = 2 * s * model.table_parameters if model.head else 2 * model.hidden**2
    parts = [
        ConfiguredLayer("embedding", "embedding", tuple(way for one in degrees for way in costs.embedding(one))),
        *_layers(model, tuple(way for one in degrees for way in costs.layer(one))),
        ConfiguredLayer("head", "head", tuple(way for one in degrees for way in costs.head(one))),
    ]
    return ConfiguredChain(
        layers=tuple(parts),
        micro_batch=costs.micro_batch,
        sequence=s,
        flops=model.layers * layer + ends,
        name=model.name,
        source=f"{'fused' if costs.fused else 'unfused'} attention, estimated for {device.name}",
        dtype=dtype,
        device=device.name,
    )


def _layers(model: Transformer, ways: tuple[Configuration, ...]) -> list[ConfiguredLayer]:
    return [ConfiguredLayer(f"layer.{number}", "layer", ways) for number in range(model.layers)]


def _recomputed(plain: Configuration, mode: str, stored: float, working: float, again: float) -> Configuration:
    return replace(
        plain,
        recompute=mode,
        input_backward=plain.input_backward + again,
        stored_bytes=stored,
        working_bytes=working,
    )
