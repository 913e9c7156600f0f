"""Write instances/suites/networks.csv anew: what timm, torchvision and transformers hold that can be traced here.

``make networks`` traces what is not in the user's cache, for hours; Ctrl-C stops it, and a second call goes on. With
``--cached`` nothing is traced. The list is made of what is in the cache: one model a module of timm and torchvision,
and one a type of transformers, without graphs that occur already or have more than 10,000 nodes. Networks whose graphs
have the same edges are one cluster, and so are those of `SAME`; it is called like the first of them.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

from instances import InputError
from instances.graph.graph import read_graph
from instances.suites.suite import cache_folder, trace_network

LIST = Path(__file__).parents[2] / "instances" / "suites" / "networks.csv"
FIELDS = ("network", "cluster", "package", "version", "model", "licence", "nodes", "edges", "hash")
LICENCES = {"timm": "Apache-2.0", "torchvision": "BSD-3-Clause", "transformers": "Apache-2.0"}
MOST_NODES = 10_000

#: Networks of the same design, here and in other packages: an architecture of this project first, if it has one.
SAME = """
bert-base transformers-roberta transformers-electra transformers-ernie transformers-bert-generation transformers-luke
bert-base transformers-layoutlm transformers-markuplm transformers-splinter transformers-visual_bert
bert-base transformers-rembert transformers-xlm-roberta-xl
transformers-mbart transformers-plbart transformers-m2m_100 transformers-blenderbot transformers-mvp
t5-small transformers-mt5 transformers-umt5
mixtral-8x7b transformers-mixtral
vit-b16 timm-deit_base_patch16_224 timm-flexivit_base torchvision-vit_b_16
vit-b16 transformers-vit transformers-vit_msn transformers-yolos
resnet50 timm-resnet18 torchvision-resnet18 torchvision-fcn_resnet50 torchvision-deeplabv3_resnet50
vgg16 timm-vgg11
densenet121 timm-densenet121 torchvision-densenet121
inception-v3 timm-inception_v3
efficientnet-b0 torchvision-efficientnet_b0 transformers-efficientnet
mobilenet-v2 torchvision-mobilenet_v2 transformers-mobilenet_v2
squeezenet torchvision-squeezenet1_0
nasnet-mobile timm-nasnetalarge
torchvision-mobilenet_v3_large torchvision-lraspp_mobilenet_v3_large
timm-swin_s3_base_224 torchvision-swin_b transformers-swin transformers-donut-swin
timm-swinv2_base_window8_256 transformers-swinv2
timm-convnext_atto torchvision-convnext_base transformers-convnext
timm-regnetv_040 torchvision-regnet_x_8gf transformers-regnet
timm-resnetv2_18 transformers-bit
timm-levit_128 transformers-levit
timm-beit_base_patch16_224 transformers-beit
timm-samvit_base_patch16 transformers-sam_vision_model
timm-hieradet_small transformers-sam2_hiera_det_model
"""


def candidates() -> Iterator[tuple[str, str]]:
    """Packages and models: of a module the one with the shortest name, the first of these."""
    import timm
    from torchvision import models
    from transformers import MODEL_MAPPING

    for module in timm.list_modules():
        if names := [name for name in timm.list_models(module=module) if not name.startswith("test_")]:
            yield "timm", min(names, key=_shortness)
    modules: dict[str, list[str]] = {}
    for name in models.list_models():
        modules.setdefault(models.get_model_builder(name).__module__, []).append(name)
    for module, names in modules.items():
        if ".quantization." not in module:
            yield "torchvision", min(names, key=_shortness)
    for model in sorted({config.model_type for config in MODEL_MAPPING}):
        yield "transformers", model


def write_list(models: list[tuple[str, str]]) -> None:
    """Write the list of those models whose graphs are in the cache."""
    clusters = {name: group[0] for line in SAME.split("\n") if (group := line.split()) for name in group}
    seen: set[str] = set()
    by_edges: dict[bytes, str] = {}
    rows = []
    for package, model in models:
        file = cache_folder(package) / f"{model}.json"
        if not file.exists() or (graph := read_graph(file)).n > MOST_NODES or graph.content_hash in seen:
            continue
        seen.add(graph.content_hash)
        name = f"{package}-{model}"
        whole = f"{package}-{model.removesuffix('_text')}"  # the part that reads the text is most of such a network
        cluster = clusters.get(name) or clusters.get(whole) or by_edges.get(graph.edges.tobytes()) or whole
        by_edges.setdefault(graph.edges.tobytes(), cluster)
        about = (version(package), model, LICENCES[package], graph.n, graph.m, graph.content_hash[:12])
        rows.append((name, cluster, package, *about))
    with LIST.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([FIELDS, *rows])
    print(f"{len(rows)} networks in {len({row[1] for row in rows})} clusters, of {len(models)} models")


def _trace(package: str, model: str) -> None:
    file = cache_folder(package) / f"{model}.json"
    if not file.exists():
        try:
            trace_network(package, model, file)
        except InputError as error:
            print(error, file=sys.stderr)


def _shortness(name: str) -> tuple[int, str]:
    return len(name), name


def main() -> None:
    """Trace what is missing, and write the list."""
    models = list(candidates())
    if "--cached" not in sys.argv:
        pool = ThreadPoolExecutor(2)
        try:
            list(pool.map(lambda model: _trace(*model), models))
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
    write_list(models)


if __name__ == "__main__":
    main()
