"""Pages of answers: one file that runs and loads nothing, with the numbers of the answer, whatever names a file has."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answer_files import placement_file, plan_file
from command_line import PATH, mtpp

import mtpp as library
from instances import ComputationGraph, InputError, Instance, Partition, Platform
from instances.planning.grid import ConfiguredChain, GridInstance, GridPlan
from mtpp.certifying.methods import certify_grid
from tests.helpers.grid_cases import equal_question

EVIL = '"><script>alert(1)</script>\u202e\x1b[2J<img src=x onerror=alert(2)>&amp;'
#: Tags without an end.
VOID = {"meta"}


class Page(HTMLParser):
    """Texts, titles at the pointer and tags of a page, whose tags have to be balanced."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.titles if self.open and self.open[-1] == "title" else self.texts).append(data)


def page_of(html: str) -> Page:
    """Parse a page, and check that it loads and runs nothing."""
    page = Page(html)
    allowed = {
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "article",
        "div",
        "p",
        "pre",
        "code",
        "span",
        "details",
    }
    allowed |= {"summary", "table", "tr", "th", "td", "svg", "path", "rect", "circle", "text", "g", "h1", "h2", "h3"}
    assert {tag for tag, _ in page.tags} <= allowed
    names = {name for _, attributes in page.tags for name in attributes}
    assert not {name for name in names if name.startswith("on")} | names & {"src", "href", "srcset", "action", "data"}
    assert "default-src 'none'" in html
    assert "url(" not in html
    assert "@import" not in html
    return page


def layered(n: int, name: str = "", width: int = 8) -> ComputationGraph:
    """Nodes that read from up to three others a little before them."""
    rng = np.random.default_rng(0)
    edges = {(max(0, v - 1 - int(rng.integers(2 * width))), v) for v in range(width, n) for _ in range(3)}
    names = tuple(f"{name}{v}" for v in range(n))
    return ComputationGraph.from_edges(sorted(edges), rng.random(n), rng.random(n), rng.random(n), names=names)


def cut(graph: ComputationGraph, k: int, **options: Any) -> Partition:
    """Equal numbers of nodes in each block."""
    return Partition(Instance(graph, Platform(k, 10.0, **options)), np.arange(graph.n) * k // graph.n)


def flow_question(name: str = "golden", device: str = "") -> library.FlowInstance:
    """Two equal devices and a slower one for four layers, of which none holds all; 5 requests/s pass."""
    capacity = np.array([[0, 12, 5, 0, 0], [0, 6, 2, 1, 0]])
    names = tuple(f"{device}{i}" for i in range(3))
    return library.FlowInstance(name, 4, names, np.array([0, 0, 1]), capacity, np.full((5, 5), 1000.0))


def grid_plan(question: GridInstance) -> GridPlan:
    plan = certify_grid(question).answer
    assert plan is not None
    return plan


def test_stages_have_the_times_of_the_answer() -> None:
    """The parts of a bar are as long as receive, work and send, on one scale."""
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 2, 0], names=("a", "b", "c"))
    page = page_of(library.report(Partition(Instance(graph, Platform(2, 1.0)), [0, 0, 1])))
    wide = {
        attributes["class"]: float(attributes["width"] or 0)
        for tag, attributes in page.tags
        if tag == "rect" and "class" in attributes
    }
    times = {"hair work": 4.0, "hair send": 2.0, "hair receive": 2.0}
    assert {kind: wide[kind] / wide["hair work"] * 4 for kind in times} == pytest.approx(times, abs=0.01)
    assert "stage 0: work 5.000 s" in page.titles
    assert "b, stage 0, work 3.000 s, output 2 B" in page.titles
    assert "bottleneck 7 s" in page.texts


def test_bug_a_partition_without_any_cost_has_a_page() -> None:
    """Nothing takes time, so that no stage has a bar."""
    graph = ComputationGraph.from_edges([], work=[0.0])
    page = page_of(library.report(Partition(Instance(graph, Platform(1, 1.0)), [0])))
    assert {"Stages", "bottleneck 0 s"} <= set(page.texts)


def test_an_optimum_that_is_proved_again_is_called_so() -> None:
    graph = ComputationGraph.from_edges([(0, 1), (1, 2)], work=[2, 3, 4], output_bytes=[1, 1, 0])
    html = library.report(library.certify(graph, k=1, bandwidth=1))
    assert "Optimal: no answer to this question costs less; proved again" in html
    assert "re-proved by its formula" in html


def test_every_format_has_a_page(tmp_path: Path) -> None:
    """Certificates, plans of all networks, placements, flows, fronts and partitions together in one page."""
    kinds = [library.Kind("fast", 1, 2.0, memory=5e9), library.Kind("slow", 1, 1.0, memory=1e9)]
    library.certify("gnmt", devices=library.Machines(kinds), level="layer", time_limit=1).save(tmp_path / "kinds.json")
    library.flow(flow_question(), time_limit=1).save(tmp_path / "flow.json")
    certify_grid(equal_question(4, 4)).save(tmp_path / "grid.json")
    library.certify("gnmt", k=2, level="layer", time_limit=2).save(tmp_path / "certificate.json")
    block = library.partition("gnmt", 2, "kahn", level="layer").partition.block.tolist()
    (tmp_path / "partition.json").write_text(json.dumps({"block": block}))
    library.serve("gpt2", 2, "1GB", dims={"batch": 4}).save(tmp_path / "front.json")
    library.plan("simulation", "2x2", 4, bandwidth="128Gbps,32Gbps", effort=0).save(tmp_path / "plan.json")
    for name, document in {
        "paper": plan_file(),
        "placement": placement_file(),
        "ordered": placement_file(True),
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    names = ("certificate", "front", "plan", "paper", "placement", "ordered", "kinds", "flow", "grid")
    files = " ".join(f"{tmp_path}/{name}.json" for name in names)
    assert mtpp(f"report {files} --out {tmp_path}/all.html") == 0
    assert mtpp(f"report {tmp_path}/partition.json --graph gnmt --level layer --out {tmp_path}/one.html") == 0
    page = page_of((tmp_path / "all.html").read_text())
    assert sum(tag == "article" for tag, _ in page.tags) == len(names)
    headings = ("Question", "Bounds, and what proves them", "Stages", "Graph by stage", "Timeline", "Memory")
    assert {*headings, "Cuts that no other beats", "Words for runtimes", "Graph by device"} <= set(page.texts)
    assert {"Plan", "Devices", "Layers of the devices", "Requests through each layer", "Links", "slow"} <= set(
        page.texts
    )
    assert "VLLM_PP_LAYER_PARTITION=" in (tmp_path / "all.html").read_text()
    assert "Not checked here" in (tmp_path / "one.html").read_text()


def test_a_plan_for_a_batch_has_its_passes_on_one_scale() -> None:
    """As many forward and backward bars as passes, each as long as its stage takes; the page says where devices lie."""
    plan = grid_plan(equal_question(4, 8, memory=12))
    page = page_of(library.report(library.Result("grid", plan.instance, plan)))
    passes = [title for title in page.titles if ", microbatch " in title and not title.startswith("stage")]
    assert len(passes) == 2 * plan.stages * plan.microbatches
    widths = [
        float(attributes["width"] or 0)
        for tag, attributes in page.tags
        if tag == "rect" and attributes.get("class") == "hair forward"
    ][plan.stages :]
    times = np.repeat(plan.forward_time, plan.microbatches)
    assert np.array(widths) == pytest.approx(times * 960 / plan.time, abs=0.06)
    assert plan.pipelines == 1
    assert f"dp 1 equal pipeline, ZeRO {plan.zero}" in page.texts
    assert sum(title.startswith("group ") for title in page.titles) >= plan.groups


def test_an_optimum_of_a_class_of_plans_is_called_so(tmp_path: Path) -> None:
    """A bound for plans with one stage a device says nothing of the others."""
    result = certify_grid(equal_question(4, 4))
    library.plan("simulation", "1x2", 2, bandwidth="32Gbps", effort=0).save(tmp_path / "plan.json")
    for answer in (result, tmp_path / "plan.json"):
        html = library.report(answer)
        assert "no answer to this question" not in html
        assert re.search(r"(?:Optimal|above the optimum \(ratio [\d.]+\)) over any (?:plan|cuts)", html)


def test_a_flow_says_what_passes_each_device_and_link() -> None:
    result = library.flow(flow_question(), time_limit=1)
    page = page_of(library.report(result))
    assert {"time a request 200 ms", "flow 5 requests/s"} <= set(page.texts)
    assert result.answer is not None
    passing, network, n = result.answer.passing, result.answer.network, 3
    assert (passing <= network * (1 + 1e-12)).all()
    assert passing[0].sum() == passing[:, 1].sum() == pytest.approx(5)
    for v in range(2, 2 * n + 2):
        assert passing[:, v].sum() == pytest.approx(passing[v].sum())
    assert {"source", "sink", "100.0%"} <= set(page.texts)


def test_a_flow_that_cannot_be_has_a_page_or_a_line(tmp_path: Path) -> None:
    """Intervals out of range are refused by their place; a bound without an answer, and a flow of 0, have a page."""
    library.flow(flow_question(), time_limit=1).save(tmp_path / "f.json")
    document = json.loads((tmp_path / "f.json").read_text())
    for intervals, words in (([0, 5], "holds layers 0 to 5"), ([0], "there are 1 items; give 2")):
        document["answer"]["intervals"]["0"] = intervals
        (tmp_path / "g.json").write_text(json.dumps(document))
        with pytest.raises(InputError, match=words):
            library.report(tmp_path / "g.json")
    document["answer"]["intervals"] = {name: [0, 0] for name in document["answer"]["intervals"]}
    (tmp_path / "g.json").write_text(json.dumps(document))
    assert "no request passes" in library.report(tmp_path / "g.json")
    (tmp_path / "g.json").write_text(json.dumps(document | {"answer": None, "cost": None, "ratio": None}))
    page_of(library.report(tmp_path / "g.json"))


def test_a_folder_of_stages_tells_its_files(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from stage_folders import two_stages

    folder, manifest = two_stages(tmp_path)
    page = page_of(library.report(folder))
    assert {stage.file for stage in manifest.stages} <= set(page.texts)


@pytest.mark.parametrize(("n", "k", "most"), [(1000, 4, 1_000_000), (1000, 64, 1_000_000), (10_000, 8, 300_000)])
def test_pages_are_small_and_names_run_nothing(n: int, k: int, most: int) -> None:
    """Names of strangers are text, and cut off where they are long."""
    html = library.report(cut(layered(n, EVIL + "&" * 300), k, memory=1.0))
    page_of(html)
    assert len(html.encode()) <= most
    assert "\u202e" not in html
    assert "\x1b" not in html


def test_a_hostile_chain_is_text_too(tmp_path: Path) -> None:
    """Names of layers, devices and networks of a plan; of nodes of a placement."""
    for name, document in {"plan": plan_file(), "placement": placement_file(True)}.items():
        text = json.dumps(document).replace('"five"', json.dumps(EVIL)).replace('"six"', json.dumps(EVIL))
        (tmp_path / f"{name}.json").write_text(text)
    page = page_of(library.report(tmp_path / "plan.json", tmp_path / "placement.json"))
    question = equal_question(3, 4)
    layers = [replace(layer, name=f"{EVIL}{i}") for i, layer in enumerate(question.chains[0].layers)]
    question = replace(question, chains=(ConfiguredChain(tuple(layers), name=EVIL, source=EVIL, dtype=EVIL),))
    plan, flow = grid_plan(question), library.flow(flow_question(EVIL, EVIL), time_limit=1)
    for html in (library.report(library.Result("grid", question, plan)), library.report(flow)):
        page_of(html)
        assert "\u202e" not in html
    assert any("<script>alert(1)</script>" in words for words in page.texts)


def test_the_same_answer_makes_the_same_page() -> None:
    partition = cut(layered(50), 3)
    assert library.report(partition) == library.report(partition)


@pytest.mark.slow
def test_many_intervals_are_drawn_as_fewer() -> None:
    """A plan of many microbatches keeps its page small; each interval lies within the iteration."""
    plan = library.plan("simulation", "1x4", 400, bandwidth="32Gbps", effort=0)
    html = library.report(plan)
    page_of(html)
    assert len(html) < 600_000
    assert "neighbours of a kind are drawn as one" in html


def test_a_false_file_says_so_on_its_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    library.certify(layered(12), k=2, bandwidth=1, time_limit=2).save(tmp_path / "c.json")
    document = json.loads((tmp_path / "c.json").read_text())
    document["ratio"] = 1.5
    (tmp_path / "c.json").write_text(json.dumps(document))
    assert mtpp(f"report {tmp_path}/c.json --out {tmp_path}/c.html") == 1
    assert "ratio" in capsys.readouterr().err
    assert "FALSE: 1 of the numbers of this file do not hold." in (tmp_path / "c.html").read_text()


def test_a_page_replaces_a_page_and_no_answer(tmp_path: Path) -> None:
    graph = ComputationGraph.from_edges([(0, 1)], work=[2, 3], output_bytes=[1, 0])
    result, page = library.certify(graph, k=2, bandwidth=1), tmp_path / "page.html"
    file = result.save(tmp_path / "answer.json")
    for answer in (result, result, file):
        assert library.report(answer, out=page) == page.read_text(encoding="utf-8")
    with pytest.raises(InputError, match="a file to read"):
        library.report(file, out=file)


def test_bad_input_writes_no_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, wrong and given twice: one line each, and nothing is half-written."""
    (tmp_path / "graph.json").write_text(json.dumps(PATH))
    library.certify(layered(12), k=2, bandwidth=1, time_limit=2).save(tmp_path / "c.json")
    out = f"--out {tmp_path}/page.html"
    for command, words in {
        f"report {tmp_path}/c.json {tmp_path}/none.json {out}": "there is no such file",
        f"report {tmp_path}/graph.json {out}": "this is 'mtpp-graph/1'",
        f"report {tmp_path}/c.json --graph gnmt {out}": "it holds its question",
        f"report {tmp_path}/c.json --time-limit 0 {out}": "give more than 0",
        f"report {tmp_path}/c.json --out {tmp_path}/c.json": "this is a file to read",
    }.items():
        assert mtpp(command) == 2
        (line,) = capsys.readouterr().err.strip().splitlines()
        assert re.search(words, line), line
    assert not (tmp_path / "page.html").exists()
    with pytest.raises(InputError, match="There is no answer"):
        library.report()
    with pytest.raises(InputError, match="no int"):
        library.report(3)  # type: ignore[arg-type]
