"""Three policies for the decision process, in PyTorch.

- `Placeto`: the published network, complete. It embeds the whole graph again in every step.
- `DevicePool`: embeds the graph once; the placement enters by pooling over the nodes of each device. It never looks at
  the simulator, and works for any number of devices.
- `Fast`: scores each device by `features.candidate_features`. It is no graph network: no messages pass between nodes.
  Any number of devices.

Sources: Addanki et al., NeurIPS 2019, Section 2.2 and Figure 3, and the features and widths of its released code; the
last two are this project's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heuristics.placement.placeto.checkpoints import Checkpoint
from heuristics.placement.placeto.embedding import SETS, STATIC, GraphTensors, Messages, one_thread, perceptron, tensors
from heuristics.placement.placeto.environment import Environment, PlacementArrays
from heuristics.placement.placeto.features import FEATURES
from heuristics.placement.placeto.rollout import Scorer
from instances.errors import InputError
from instances.graph.tensors import FloatArray
from instances.registry import find

#: Arrays with a row per episode.
Seen = tuple[NDArray[Any], ...]

#: Largest option of a policy in a file.
_MOST = 4096
#: Columns of a node that the published network sees, besides its start and its device.
_NODE = 4
#: Nodes up to which it is offered: it relates all pairs of them, in each row of a batch.
_MOST_NODES = 2000


class Policy(nn.Module):
    """Interface of policies: features observed from an environment, and logits computed from them.

    Attributes
    ----------
    options : dict
        Arguments of the constructor.
    batch : int
        Rows that a gradient is computed of at once.
    """

    options: dict[str, Any]
    batch: int = 1 << 20

    def context(self, question: PlacementArrays) -> Any:
        """Data of a question that do not change during its episodes."""
        raise NotImplementedError

    def observe(self, environment: Environment) -> Seen:
        """Copy of the other data of the environment that the logits of this step depend on."""
        raise NotImplementedError

    def rows(self, context: Any, seen: Seen) -> Tensor:
        """Logits for R observations of episodes on one question, (R, k)."""
        raise NotImplementedError

    def forward(self, contexts: Sequence[Any], seen: Sequence[Seen]) -> list[Tensor]:
        """Logits for the observations of each question, (R, k) each."""
        return [self.rows(context, rows) for context, rows in zip(contexts, seen, strict=True)]


class Fast(Policy):
    """Scores each device by its features and by how they differ from the mean of all devices; passes no messages.

    It has two hidden layers of `width` neurons.
    """

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.options = {"width": width}
        self.head = perceptron(2 * len(FEATURES), width, width, 1)

    def context(self, question: PlacementArrays) -> None:
        """No data: the features contain everything."""

    def observe(self, environment: Environment) -> Seen:
        """(e, k, f) features."""
        return (environment.features().astype(np.float32),)

    def forward(self, contexts: Sequence[None], seen: Sequence[Seen]) -> list[Tensor]:
        """One product of matrices for all graphs together."""
        features = [torch.as_tensor(rows) for (rows,) in seen]
        pairs = [torch.cat((f, f - f.mean(1, keepdim=True)), 2).flatten(0, 1) for f in features]
        logits = self.head(torch.cat(pairs)).split([len(rows) for rows in pairs])
        return [rows.view(f.shape[:2]) for rows, f in zip(logits, features, strict=True)]


class DevicePool(Policy):
    """Embeds the graph once, and scores each device by the nodes around the current one that it holds.

    An embedding has `width` numbers in each direction, after so many rounds of message passing; with 0, a node knows
    only itself.
    """

    def __init__(self, width: int = 16, rounds: int = 8) -> None:
        super().__init__()
        self.options = {"width": width, "rounds": rounds}
        self.messages = Messages(STATIC, width, rounds)
        self.pool = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(SETS))
        self.head = perceptron(2 * width + 1 + 2 * SETS * width, 64, 64, 1)

    def context(self, question: PlacementArrays) -> tuple[GraphTensors, Tensor, Tensor]:
        """The graph, (n, 2 width) embeddings, and (sets, n, width) what each node adds to a pool."""
        graph = tensors(question)
        h = self.messages(graph.static, graph)
        return graph, h, torch.stack([layer(h) for layer in self.pool])

    def observe(self, environment: Environment) -> Seen:
        """(e,) current node, and (e, n) devices."""
        return np.full(len(environment.place), environment.node), environment.place.copy()

    def rows(self, context: tuple[GraphTensors, Tensor, Tensor], seen: Seen) -> Tensor:
        """Logits of the design without features of the simulator."""
        (graph, h, added), (node, place) = context, map(torch.as_tensor, seen)
        on = (place.unsqueeze(2) == torch.arange(graph.devices)).float()  # (R, n, k)
        held = graph.sets[:, node].unsqueeze(3) * on  # (sets, R, n, k)
        q = torch.einsum("srnk,snw->rksw", held, added).flatten(2)
        here = on[torch.arange(len(node)), node].unsqueeze(2)
        embedding = h[node].unsqueeze(1).expand(-1, graph.devices, -1)
        return self.head(torch.cat((embedding, here, q, q - q.mean(1, keepdim=True)), 2)).squeeze(2)


class Placeto(Policy):
    """The published network: an embedding of the node, and of its ancestors, its descendants and all others as sets.

    A set S adds ``h(sum of l(x_u) over u in S)`` with two perceptrons of its own. All sums are divided by the root of
    their number of terms, since plain sums grow without limit. Perceptrons are as wide as in the released code.

    Parameters
    ----------
    devices : int
        The number of devices is fixed.
    width : int
        Of an embedding in each direction; 0 for as many as a node has features.
    rounds : int
        Of message passing; 0 is the ablation "partitioner".
    pooled : bool
        Whether the three sets are summed apart; otherwise, the ablation "aggregator".
    outer : bool
        Whether sums pass the functions h; otherwise, they are used as they are.
    timed : bool
        Whether features of nodes contain their starts, as in the released code, but not in the text of the paper.
    """

    def __init__(
        self,
        devices: int,
        width: int = 0,
        rounds: int = 8,
        pooled: bool = True,
        outer: bool = True,
        timed: bool = True,
    ) -> None:
        super().__init__()
        self.options = {"devices": devices, "width": width, "rounds": rounds}
        self.options |= {"pooled": pooled, "outer": outer, "timed": timed}
        self.pooled, self.timed = pooled, timed
        self.batch = 256  # whose tensors stay in the cache of a processor
        features, sets = _NODE + timed + devices, 3 if pooled else 1
        width = width or features
        both = 2 * width
        self.messages = Messages(features, width, rounds)
        self.inner = nn.ModuleList(perceptron(both, both, both) for _ in range(sets))
        self.outer = nn.ModuleList(perceptron(both, both, both) if outer else nn.Identity() for _ in range(sets))
        seen = (1 + sets) * both
        self.head = perceptron(seen, 2 * seen, seen, devices)

    def context(self, question: PlacementArrays) -> GraphTensors:
        """Convert the graph to tensors.

        Raises
        ------
        InputError
            If it has too many nodes, or another number of devices.
        """
        n, devices = question.instance.graph.n, self.options["devices"]
        if n > _MOST_NODES:
            raise InputError(f"The published network takes graphs of at most {_MOST_NODES} nodes, not {n}; use groups.")
        if question.instance.devices != devices:
            raise InputError(f"The policy places on {devices} devices, not on {question.instance.devices}.")
        return tensors(question)

    def observe(self, environment: Environment) -> Seen:
        """(e,) current node, and (e, n, features) cost, output, visited, current, start after this node, device."""
        graph, node = environment.question.instance.graph, environment.node
        visited = np.zeros(graph.n)
        visited[environment.order[: environment.step]] = 1.0
        current = np.zeros(graph.n)
        current[node] = 1.0
        outputs = np.bincount(graph.tensors.producer, graph.tensors.bytes, graph.n)
        fixed = np.column_stack((graph.work, outputs, visited, current))
        after = (environment.begin - environment.begin[:, [node]])[..., None]
        device = environment.place[..., None] == np.arange(environment.question.instance.devices)
        columns = [np.broadcast_to(fixed, (*environment.place.shape, _NODE)), *([after] if self.timed else []), device]
        x = np.concatenate(columns, axis=2)
        x = x / np.maximum(np.abs(x).max(axis=1, keepdims=True), 1e-12)
        return np.full(len(x), node), x.astype(np.float32)

    def rows(self, context: GraphTensors, seen: Seen) -> Tensor:
        """Logits after a new embedding of each row."""
        graph, (node, x) = context, map(torch.as_tensor, seen)
        h = self.messages(x.transpose(0, 1).contiguous(), graph)  # (n, R, 2 width)
        here = h[node, torch.arange(len(node))]
        sets = graph.sets[2:, node] if self.pooled else graph.everything.expand(1, len(node), -1)
        pooled = [
            outer(torch.einsum("rn,nrw->rw", mask, inner(h)))
            for mask, inner, outer in zip(sets, self.inner, self.outer, strict=True)
        ]
        return self.head(torch.cat((here, *pooled), 1))


#: Name to policy.
POLICIES: dict[str, type[Policy]] = {"fast": Fast, "device-pool": DevicePool, "placeto": Placeto}


def create(name: str, seed: int, **options: Any) -> Policy:
    """A policy of `POLICIES` with random weights; options are arguments of its class.

    Raises
    ------
    InputError
        If there is no such policy.
    """
    policy = find(POLICIES, name, "policy")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return policy(**options)


def capture(policy: Policy, **about: Any) -> Checkpoint:
    """Copy the present weights of a policy into a checkpoint, with free text on their origin."""
    (name,) = (name for name, kind in POLICIES.items() if kind is type(policy))
    return Checkpoint(name, policy.options, {k: w.numpy().copy() for k, w in policy.state_dict().items()}, about)


def restore(checkpoint: Checkpoint) -> Policy:
    """The policy of a checkpoint, to go on training.

    Raises
    ------
    InputError
        If there is no such policy, or its options or weights do not fit it.
    """
    given = {name: weight.shape for name, weight in checkpoint.weights.items()}
    try:
        if not all(type(value) in (bool, int) and 0 <= value <= _MOST for value in checkpoint.options.values()):
            raise ValueError("an option is no small whole number")
        with torch.device("meta"):  # which takes no memory, whatever the options say
            expected = create(checkpoint.policy, 0, **checkpoint.options).state_dict()
        if given != {name: tuple(weight.shape) for name, weight in expected.items()}:
            raise ValueError("the weights have other shapes")
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"The checkpoint of {checkpoint.policy!r} is damaged ({error}); train one again.") from None
    policy = create(checkpoint.policy, 0, **checkpoint.options)
    policy.load_state_dict({name: torch.as_tensor(weight) for name, weight in checkpoint.weights.items()})
    return policy


def scorer(policy: Policy) -> Scorer:
    """The policy as what `rollout.place` takes."""
    contexts: dict[PlacementArrays, Any] = {}

    def score(environments: Sequence[Environment]) -> list[FloatArray]:
        with torch.no_grad(), one_thread():
            for question in {environment.question for environment in environments} - contexts.keys():
                contexts[question] = policy.context(question)
            return observe_and_score(policy, contexts, environments)[1]

    return score


def observe_and_score(
    policy: Policy, contexts: Mapping[PlacementArrays, Any], environments: Sequence[Environment]
) -> tuple[list[Seen], list[FloatArray]]:
    """Return the policy's observation of each environment, and its logits."""
    seen = [policy.observe(environment) for environment in environments]
    logits = policy([contexts[environment.question] for environment in environments], seen)
    return seen, [rows.numpy() for rows in logits]
