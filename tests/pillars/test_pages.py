"""README, docs and notebooks are true: commands and snippets run, files are read, transcripts are what is printed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import mtpp
from pages import (
    JOURNAL,
    MANUAL,
    NOTEBOOKS,
    ROOT,
    Block,
    blocks,
    check_call,
    check_command,
    check_words,
    commands,
    inline_code,
    outline,
    sentences,
    shell_lines,
)

from instances import load_graph
from instances.flow.problem import read_flow_question
from instances.json_files import read_json
from instances.machines import read_kinds
from instances.partitioning.constraints import KINDS
from instances.planning.grid.accelerators import read_accelerator
from instances.planning.grid.configurations import configured_from_document
from instances.planning.plan_files import read_chain, read_cluster
from instances.serving.model import servers_of_document
from mtpp.api.training import calibrate
from mtpp.cli.exit_codes import DONE, TRUSTED

MOST_BYTES_OF_README, MOST_BYTES_OF_A_PAGE, MOST_WORDS_OF_A_SENTENCE = 8000, 12_000, 22
PAGES = (*MANUAL, *JOURNAL, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
#: Commands that are parsed but not run, by how they begin, and why.
PARSED_ONLY = {
    "mtpp warm-up": "compiles for a minute",
    **dict.fromkeys(
        ("mtpp table quick", "mtpp table re", "mtpp table networks", "mtpp table placeto", "mtpp table --from"),
        "runs suites for minutes; the pages have small ones that run",
    ),
    **dict.fromkeys(
        ("mtpp table serving", "mtpp table unlike"),
        "runs studies for minutes; other tests run them",
    ),
    "mtpp paper": "runs for hours; other tests run small plans",
    "mtpp plan llama-3-8b": "searches for five to ten seconds; the pages have a smaller plan that runs",
    "mtpp place inception-v3": "needs its five seconds to fit into memory; the pages have a smaller one that runs",
    "mtpp run --calibrate": "measures links for seconds; test_split_run.py runs it",
    "mtpp bound inception-v3 -k 4 --solution": "reads what CBC has written; test_exchange.py runs it",
}
#: Other programs in blocks of commands; they are not run here.
PROGRAMS = ("make", "python3", "pip", "cbc", "dask")
#: Snippets of Python have a moment where they say a minute.
A_MINUTE, A_MOMENT = "time_limit=60", "time_limit=1"

each_page = pytest.mark.parametrize("page", [*MANUAL, *JOURNAL], ids=lambda page: f"{page.parent.name}-{page.stem}")


@each_page
def test_commands_parse(page: Path) -> None:
    """Each command line has a verb, options, values and a graph that exist."""
    for command in commands(page):
        check_command(command)


@pytest.mark.parametrize("page", [*MANUAL, *JOURNAL, *NOTEBOOKS], ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_prose_speaks_of_what_exists(page: Path) -> None:
    """So do commands and calls of `mtpp` in the prose, where words may be missing but not be wrong."""
    for code in inline_code(page):
        if code.startswith("mtpp "):
            check_words(code)
        else:
            check_call(code)


@pytest.mark.parametrize("words", ["mtpp certfy bert-base", "mtpp certify bert-base --bandwith 1", "mtpp certify bert"])
def test_a_wrong_command_is_noticed(words: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        check_words(words)


@pytest.mark.parametrize("code", ['mtpp.compare(["resnet-50"], k=4)', "mtpp.sertify(graph)", "mtpp.run('s', quick=1)"])
def test_a_wrong_call_is_noticed(code: str) -> None:
    with pytest.raises((AssertionError, TypeError)):
        check_call(code)


@each_page
def test_blocks_are_of_languages_that_are_checked(page: Path) -> None:
    """A block of `bash` would neither be parsed nor run."""
    assert {block.language for block in blocks(page)} <= {"sh", "text", "python", "json", "toml"}


@pytest.mark.slow
@each_page
def test_blocks_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From top to bottom in one folder, files saved; what is shown below a command is printed. Others have a moment."""
    monkeypatch.chdir(tmp_path)
    _write_model(tmp_path)
    for block in blocks(page):
        if block.file:
            (tmp_path / block.file).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text.replace(A_MINUTE, A_MOMENT), page.name, "exec"), {})
            assert capsys.readouterr().out
        elif block.language in ("sh", "text"):
            _run_commands(block, capsys)


def _write_model(folder: Path) -> None:
    """The models of the pages, Llama 3 8B and, if ONNX is installed, an ONNX model."""
    (folder / "model").mkdir()
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336, "vocab_size": 128256}
    heads = {"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 8192}
    (folder / "model" / "config.json").write_text(json.dumps({"model_type": "llama", **sizes, **heads}))
    if _has_onnx():
        from onnx_models import model, save

        nodes = (
            "a = MatMul(x, u) b = Relu(a) c = MatMul(b, v) d = Relu(c) e = MatMul(d, v) f = Relu(e) y = MatMul(f, w)"
        )
        shapes = {"u": (64, 512), "v": (512, 512), "w": (512, 8)}
        save(folder, model(f"net (float[n, 64] x) => (float[n, 8] y) {{ {nodes} }}", **shapes), "model.onnx")


def _has_onnx() -> bool:
    return find_spec("onnx") is not None and find_spec("onnxruntime") is not None


def _run_commands(block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    for command, shown in shell_lines(block):
        needs_onnx = "model.onnx" in command or command.startswith("mtpp run")
        is_run = command.startswith("mtpp ") and not command.startswith(tuple(PARSED_ONLY))
        if not is_run or (needs_onnx and not _has_onnx()):
            continue
        words = command.removeprefix("mtpp ")
        assert mtpp(words if shown else _hurried(words)) in (DONE, TRUSTED), command
        # What is measured differs from run to run, and with it the method whose bound is the best.
        seen = (lambda line: line.split()[0]) if "--cost measured" in command else outline
        printed = {seen(line) for line in capsys.readouterr().out.splitlines() if line.strip()}
        assert [line for line in shown if line and seen(line) not in printed] == [], command


def _hurried(command: str) -> str:
    """The same with a moment instead of its time; a flow over many devices has no answer in a moment."""
    return command if command.startswith("mtpp flow") else re.sub(r"--(time-limit|seconds) \S+", r"--\1 1", command)


@each_page
def test_other_programs_are_known(page: Path) -> None:
    """Blocks of commands name `mtpp` and few other programs, targets of make and extras that exist."""
    lines = [line for block in blocks(page) if block.language == "sh" for line, _ in shell_lines(block)]
    others = [line for line in lines if line and not line.startswith("mtpp ")]
    assert [line for line in others if line.split()[0] not in PROGRAMS] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = set(project["optional-dependencies"])
    assert set(re.findall(r"\.\[([\w-]+)\]", page.read_text())) <= extras
    assert set(re.findall(r"extra `([\w-]+)`", page.read_text())) <= extras


def test_what_is_not_run_is_there() -> None:
    """No exception of `PARSED_ONLY` outlives its command."""
    known = [command for page in (*MANUAL, *JOURNAL) for command in commands(page)]
    assert [start for start in PARSED_ONLY if not any(command.startswith(start) for command in known)] == []


def test_readme_is_short() -> None:
    """README has what a newcomer needs, and the rest is in the manual."""
    text = (ROOT / "README.md").read_text()
    assert len(text.encode()) <= MOST_BYTES_OF_README
    assert "make table" in text
    assert "make test" in text


@pytest.mark.parametrize("page", MANUAL, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_pages_are_short(page: Path) -> None:
    """So are their sentences, on the average."""
    assert len(page.read_bytes()) <= MOST_BYTES_OF_A_PAGE
    words = [len(sentence.split()) for sentence in sentences(page)]
    assert sum(words) <= MOST_WORDS_OF_A_SENTENCE * len(words)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("GPU", "howto/equal-gpus"),
        ("vLLM", "howto/equal-gpus"),
        ("Hugging Face", "howto/equal-gpus"),
        ("heterogeneous", "howto/unlike-gpus"),
        ("heterogeneous", "concepts/devices"),
        ("tensor parallel", "start"),
        ("tensor parallel", "concepts/devices"),
        ("branch and bound", "concepts/bounds"),
        ("column generation", "concepts/bounds"),
        ("Lagrangian", "concepts/bounds"),
        ("dynamic program", "concepts/bounds"),
        ("ideals of a poset", "concepts/bounds"),
        ("roofline", "concepts/cost-model"),
        ("KV cache", "concepts/memory"),
        ("calibrate", "howto/training-plan"),
        ("dask", "howto/workers"),
        ("Table 1", "howto/table-1"),
        ("FAQ", "faq"),
        ("limitations", "faq"),
        ("limitations", "concepts/cost-model"),
        ("licence", "faq"),
        ("BibTeX", "faq"),
        ("llama.cpp", "faq"),
        ("GGUF", "faq"),
        ("quantized", "faq"),
        ("relaxation", "faq"),
    ],
)
def test_words_that_people_search_are_on_their_page(word: str, name: str) -> None:
    text = " ".join((ROOT / "docs" / f"{name}.md").read_text().split())
    assert word.lower() in text.lower()


def test_readme_leads_from_a_model_to_vllm() -> None:
    """In few commands, each of which `test_blocks_run` runs."""
    known = list(commands(ROOT / "README.md"))
    first = next(i for i, command in enumerate(known) if "config.json" in command)
    last = next(i for i, command in enumerate(known) if command.endswith("--for vllm"))
    assert 0 <= last - first < 4


def test_readme_leads_from_installing_to_table_1_and_an_own_bound() -> None:
    """In six commands: two install, one makes a small Table 1, the page on bounds hunts and puts one beside ours."""
    readme, howto = ROOT / "README.md", ROOT / "docs" / "howto"
    shell = [line for block in blocks(readme) if block.language == "sh" for line, _ in shell_lines(block)]
    install = shell[shell.index("python3 -m venv .venv && . .venv/bin/activate") :][:2]
    assert install[1] == "pip install -e ."
    assert all(f"(docs/howto/{page}.md)" in readme.read_text() for page in ("table-1", "own-bound"))
    (small,) = (command for command in commands(howto / "table-1.md") if "small.jsonl" in command)
    known = list(commands(howto / "own-bound.md"))
    last = next(i for i, command in enumerate(known) if command.startswith("mtpp table") and "bound.py:" in command)
    assert len([*install, small, *known[: last + 1]]) <= 6


def test_readme_leads_to_the_whole_manual() -> None:
    """By links from page to page."""
    reached, new = {ROOT / "README.md"}, [ROOT / "README.md"]
    while new:
        page = new.pop()
        links = re.findall(r"\]\((?!https?:)([^)#]+\.md)", page.read_text())
        new += {(page.parent / link).resolve() for link in links} - {*reached, *new}
        reached |= {*new}
    assert [page for page in (*MANUAL, *JOURNAL) if page not in reached] == []


@each_page
def test_files_are_read(page: Path, tmp_path: Path) -> None:
    """Files that a page shows are read by what reads their format."""
    for block in blocks(page):
        if block.language == "json":
            path = tmp_path / "shown.json"
            path.write_text(block.text)
            document = json.loads(block.text)
            READERS[document["format"]](path)


def _read_rules(path: Path) -> None:
    assert set(json.loads(path.read_text())) - {"format"} <= set(KINDS)


def test_all_kinds_of_constraints_are_shown() -> None:
    shown = [json.loads(block.text) for page in MANUAL for block in blocks(page) if block.language == "json"]
    assert {kind for document in shown if document["format"] == "mtpp-constraints/1" for kind in document} - {
        "format"
    } == set(KINDS)


#: What reads a file that is shown, by its format.
READERS: dict[str, Callable[[Path], object]] = {
    "mtpp-graph/1": load_graph,
    "mtpp-constraints/1": _read_rules,
    "mtpp-devices/1": read_kinds,
    "mtpp-devices/2": read_kinds,
    "mtpp-flow-question/1": read_flow_question,
    "mtpp-chain/1": read_chain,
    "mtpp-chain/2": lambda path: configured_from_document(read_json(path)),
    "mtpp-cluster/1": read_cluster,
    "mtpp-device/1": lambda path: read_accelerator(str(path)),
    "mtpp-steps/1": calibrate,
    "mtpp-servers/1": lambda path: servers_of_document(read_json(path)),
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}-{page.stem}")
def test_pages_point_to_what_exists(page: Path) -> None:
    """Relative links, headings, make targets, tests and notebooks that a page mentions exist."""
    text = page.read_text()
    for link, place in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not place or place in _anchors(target), place
    paths = re.findall(r"`((?:tests|notebooks|docs)/\w[\w./]*)`", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [name for name in re.findall(r"`(test_\w+\.py)`", text) if not list(ROOT.glob(f"tests/**/{name}"))] == []
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make (\w+)", text, flags=re.MULTILINE)) <= targets


def _anchors(page: Path) -> set[str]:
    """Headings of a page as links name them."""
    headings = re.findall(r"^#+ (.*)", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
