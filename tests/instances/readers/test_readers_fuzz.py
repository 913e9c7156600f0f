"""Whatever a text file holds, a reader returns a graph or raises one clear `InputError`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from instances import InputError, load_graph, save_graph
from instances.readers import READERS

JSON = {
    "json": {
        "format": "mtpp-graph/1",
        "nodes": [
            {"work": 1.0, "param_bytes": 2.0, "output_bytes": [3.0, 4.0]},
            {"work": 5.0, "name": "b"},
            {"work": 6},
        ],
        "edges": [[0, 1, 1], [1, 2]],
        "parameters": [{"name": "w", "bytes": 7.0, "users": [0, 2]}],
        "attributes": {},
    },
    "msr": {
        "nodes": [
            {
                "id": v,
                "name": "n",
                "fpgaLatency": 2.0,
                "size": 1.0,
                "colorClass": min(v, 5 - v),
                "isBackwardNode": v >= 3,
            }
            for v in range(6)
        ],
        "edges": [{"sourceId": u, "destId": u + 1, "size": 8.0, "cost": 0.5} for u in range(5)],
    },
    "piper": {
        "nodes": [
            {"id": v, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.5, "parameterSize": 3.0}]}} for v in range(3)
        ],
        "edges": [{"sourceId": u, "destId": u + 1, "communicationCost": 9.0} for u in range(2)],
    },
    "huggingface": {
        **{"model_type": "qwen2_moe", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2},
        **{"num_key_value_heads": 1, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [1]},
        **{"layer_types": ["full_attention", "sliding_attention"], "use_sliding_window": True, "sliding_window": 3},
    },
}
TEXT = {
    "pipedream": """\
n1 -- LSTM(8, 4) -- forward_compute_time=3.5, backward_compute_time=5, activation_size=[60; 20; 10], parameter_size=9
n2 -- __getitem__(1) -- forward_compute_time=0, backward_compute_time=0, activation_size=20.0, parameter_size=0.0
n3 -- Add -- forward_compute_time=1, backward_compute_time=0, activation_size=7, parameter_size=0.0 -- stage_id=1
\tn1 -- n2
\tn2 -- n3
""",
    "costgraph": """\
node { name: "a" id: 1 output_info { size: 70 alias_input_port: -1 shape { dim { size: 5 } } } compute_cost: 58 }
node {
  name: 'b'
  input_info { preceding_node: 1, preceding_port: 0 }
  output_info < size: 5 > # c
  control_input: [1]
}
""",
    "dot": """\
digraph g {
  rankdir=LR; node [shape=box]
  a [weight=3, label="x;"]; "b" [Weight="2.5"] // c
  3; a -> "b" -> 3 [weight=5] /* d */
}
""",
}
SAMPLES = {name: json.dumps(document, indent=1) for name, document in JSON.items()} | TEXT
READ = {name: READERS[name].read for name in SAMPLES}

# What breaks parsers: numbers that are none, too large or too small, brackets, keywords of the formats, odd characters.
PIECES = st.one_of(
    st.sampled_from(
        [
            *(
                "nan",
                "NaN",
                "-Infinity",
                "inf",
                "1e999",
                "-1",
                "1e308",
                "9" * 5000,
                "0x10",
                "1_0",
                "٣",
                "-0.0",
                "1e-320",
            ),
            *(
                "{",
                "}",
                "[",
                "]",
                "<",
                ">",
                '"',
                "'",
                "\\",
                "#",
                "//",
                "/*",
                "*/",
                ":",
                ";",
                ",",
                "=",
                "->",
                "--",
                " -- ",
            ),
            *(
                "node",
                "node {",
                "edge",
                "digraph",
                "strict",
                "subgraph",
                "weight=",
                "id: 1",
                "__getitem__(99999999999)",
            ),
            *(
                "\n",
                "\r",
                "\t",
                "\0",
                "\ufeff",
                "\u2028",
                "\ud7ff",
                "null",
                "true",
                "[" * 3000,
                "node{" * 3000,
                "{" * 3000,
            ),
        ]
    ),
    st.text(max_size=8),
)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-2, 7),
        st.sampled_from([2**31, 2**63, 10**400, 1e308, -1e308, 5e-324]),
        st.floats(),
        st.text(max_size=5),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)


@st.composite
def mutated(draw: st.DrawFn, sample: str) -> bytes:
    """A sample after a few cuts, repetitions, replacements and insertions, or with other bytes."""
    text = sample
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 1, 3, 10, 60, len(text)])))
        middle = draw(st.one_of(st.just(""), st.just(2 * text[start:end]), PIECES))
        text = text[:start] + middle + text[end:]
    content = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 1, 3]))):
        if content:
            content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


@st.composite
def distorted(draw: st.DrawFn, document: Any) -> bytes:
    """A JSON document in which a few values are replaced, swapped for one another or removed."""
    copy = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        place, key = draw(st.sampled_from(_places(copy)))
        action = draw(st.sampled_from(["replace", "remove", "copy"]))
        if action == "remove":
            del place[key]
        elif action == "replace":
            place[key] = draw(VALUES)
        else:
            other, other_key = draw(st.sampled_from(_places(copy)))
            place[key] = json.loads(json.dumps(other[other_key]))
        if not _places(copy):
            break
    return json.dumps(copy).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All pairs of a container inside a JSON value and a key of it."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in [(value, key), *_places(value[key])]]


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Broken files of a format."""
    if name in JSON:
        return st.one_of(distorted(JSON[name]), mutated(SAMPLES[name]))
    return mutated(SAMPLES[name])


def check(name: str, path: Path, content: bytes) -> None:
    """The file gives a graph that can be written, or a message that names the file."""
    path.write_bytes(content)
    text = content.decode("utf-8", "replace")
    for other in READ:
        assert READERS[other].recognises(text) in (True, False)
    message = None
    try:
        save_graph(READ[name](path), path.with_suffix(".out"))
    except InputError as error:
        message = str(error)
    if message is not None:
        assert message.startswith(str(path))
        assert len(message.splitlines()) == 1


@pytest.mark.filterwarnings("ignore:.*nodes have no weight")
@pytest.mark.parametrize("name", READ)
def test_a_sample_is_read_and_recognised(name: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(SAMPLES[name])
    graph = load_graph(path)
    assert graph.n >= 2
    assert graph.content_hash == READ[name](path).content_hash


@pytest.mark.parametrize("name", READ)
def test_a_broken_file_gives_a_graph_or_one_clear_line(name: str, tmp_path: Path) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(inputs(name))
    def attempt(content: bytes) -> None:
        check(name, tmp_path / "file", content)

    attempt()


@pytest.mark.parametrize("name", READ)
def test_each_truncation_gives_a_graph_or_one_clear_line(name: str, tmp_path: Path) -> None:
    sample = SAMPLES[name].encode()
    for end in range(0, len(sample), 7):
        check(name, tmp_path / "file", sample[:end])
