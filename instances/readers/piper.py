"""Workloads published with "Piper: Multidimensional Planner for DNN Parallelization" (Tarnawski et al., 2021).

A JSON object with ``nodes`` (id, ``TMPCs``) and ``edges`` (sourceId, destId, communicationCost [bytes]). ``TMPCs``
lists, per degree of tensor parallelism, the ways to run a node: timePerSample [forward and backward], parameterSize
[bytes]. The format gives times no unit. Those of the published BERT-32 are seconds, those of GNMT and ResNet are
milliseconds, as PipeDream's profiles of the same networks show, so the unit is an option. Costs of
synchronisation, coefficients of the memory and limits of the devices are not read.
"""

from __future__ import annotations

from pathlib import Path

from instances.graph.graph import ComputationGraph
from instances.json_files import Value, read_json
from instances.readers.parsing import add_node, graph_of_file, json_amount, links_of, outputs_by_size, seconds

__all__ = ["read_piper", "recognises_piper"]


def recognises_piper(text: str) -> bool:
    """Whether the text of a file looks like this format."""
    return text.lstrip().startswith("{") and '"TMPCs"' in text and '"mtpp-graph/' not in text


def read_piper(
    path: str | Path, degree: int = 1, configuration: str = "vanilla", time_unit: str = "s"
) -> ComputationGraph:
    """Read a training workload, forward and backward pass; its work is in seconds.

    A tensor has twice the ``communicationCost`` of its edges, as in Piper's own cost: once for the activation and
    once for its gradient. Edges that leave one node with the same cost are one tensor.

    Parameters
    ----------
    path : path of a JSON file
    degree : int
        Degree of tensor parallelism of every node.
    configuration : str
        Id of the way to run every node; "activation recomp" in the published files recomputes activations.
    time_unit : {"s", "ms", "us"}
        Of the times in the file.

    Raises
    ------
    InputError
        If the file cannot be read, a field is missing or of the wrong kind, a node cannot be run in this way, or an
        edge names an unknown node.
    """
    unit = seconds(time_unit)
    document = read_json(path)
    fields = document.open_members(("nodes", "edges"))
    index: dict[int, int] = {}
    names: list[str] = []
    work, param_bytes = [], []
    for item in fields["nodes"].items():
        node = item.open_members(("id", "TMPCs"))
        add_node(item, node["id"], index)
        names.append(f"{node['id'].data} {node['name'].text()}" if "name" in node else str(node["id"].data))
        chosen = _configuration(node["TMPCs"], str(degree), configuration)
        work.append(json_amount(chosen["timePerSample"]) * unit)
        param_bytes.append(json_amount(chosen["parameterSize"]))

    links = links_of(fields["edges"], index, "communicationCost")
    edges, outputs = outputs_by_size([(u, v, 2 * size) for u, v, size in links], len(names))
    source = f"workload {Path(path).name}, tensor parallelism {degree}, {configuration}, forward and backward, "
    source += f"times in {time_unit}"
    return graph_of_file(path, edges, work, outputs, param_bytes, names=tuple(names), source=source)


def _configuration(value: Value, degree: str, configuration: str) -> dict[str, Value]:
    """The members of the wanted way to run a node."""
    degrees = value.open_members(())
    if degree not in degrees:
        value.fail(f"there is no tensor parallelism of degree {degree}; choose from {', '.join(degrees) or 'none'}.")
    ways = [item.open_members(("id", "timePerSample", "parameterSize")) for item in degrees[degree].items()]
    for way in ways:
        if way["id"].text() == configuration:
            return way
    names = ", ".join(way["id"].text() for way in ways) or "none"
    degrees[degree].fail(f"there is no configuration '{configuration}'; choose from {names}.")
