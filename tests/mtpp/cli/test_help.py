"""Help at a glance: basic options, all options, their panels, the nearest name, and values that the shell proposes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from mtpp.cli.main import app, main
from mtpp.cli.options import LISTINGS
from mtpp.questions.words import PANELS

_GROUP: Any = get_command(app)
VERBS = _GROUP.list_commands(None)
#: Options of all verbs that answer a question of a problem.
_SHARED = {"--json", "--quiet", "--help", "--help-all"}
_SOLVED = {"partition", "bound", "certify", "plan", "train", "place", "flow"}


def options_of(verb: str) -> dict[str, Any]:
    """The options of a verb."""
    declared = [option for option in _GROUP.get_command(None, verb).params if option.param_type_name == "option"]
    return {max(option.opts, key=len): option for option in declared}


def shown(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The help that a command prints, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "250")
    assert main(command.split()) == 0
    return capsys.readouterr().out


def names(text: str) -> set[str]:
    """Options that a help explains, by their longest names."""
    return {
        name for line in re.findall(r"(?m)^│.{0,60}", text) for name in re.findall(r"(?<=\s)(--[a-z-]+|-k)\b", line)
    }


@pytest.mark.parametrize("verb", VERBS)
def test_the_short_help_shows_few_options_and_the_way_to_all(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And each that has to be given."""
    text, options = shown(f"{verb} --help", capsys, monkeypatch), options_of(verb)
    basic = names(text) & options.keys()
    assert {"--help", "--help-all"} <= basic
    assert {name for name, option in options.items() if option.required} <= basic
    assert len(basic) <= 14
    assert f"Show all options, {len(options) - len(basic)} more, and leave." in text
    assert shown(f"{verb} -h", capsys, monkeypatch) == text


@pytest.mark.parametrize("verb", VERBS)
def test_the_long_help_shows_all_options_in_panels(
    verb: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The panels are in their order."""
    text, options = shown(f"{verb} --help-all", capsys, monkeypatch), options_of(verb)
    assert options.keys() <= names(text)
    panels = [PANELS.index(option.rich_help_panel) for option in options.values()]
    assert panels == sorted(panels)
    assert [panel for panel in re.findall(r"(?m)^╭─ (.+?) ─", text) if panel != "Arguments"] == [
        PANELS[panel] for panel in dict.fromkeys(panels)
    ]


def test_verbs_share_options_of_files_time_and_form() -> None:
    for verb in VERBS:
        assert options_of(verb).keys() >= _SHARED, verb
    for verb in _SOLVED:
        assert options_of(verb).keys() >= {"--out", "--plot", "--time-limit"}, verb


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "certify x --bandwith 3",
            "mtpp: No such option: --bandwith; did you mean --bandwidth? Try: mtpp certify --help",
        ),
        ("certify x --help-al", "mtpp: No such option: --help-al; did you mean --help-all? Try: mtpp certify --help"),
        ("certify x --runtime vllm", "mtpp: No such option: --runtime; did you mean --for? Try: mtpp certify --help"),
        ("certify x --dims 3", "mtpp: No such option: --dims; did you mean --dim? Try: mtpp certify --help"),
        ("split x --no-smples", "mtpp: No such option: --no-smples; did you mean --no-samples? Try: mtpp split --help"),
        ("table x --metods kahn", "mtpp: No such option: --metods; did you mean --methods? Try: mtpp table --help"),
        ("import x --verbose", "mtpp: No such option: --verbose. Try: mtpp import --help"),
        (
            "bound x --method y",
            "mtpp: No such option: --method; it is an option of partition, split, place. Try: mtpp bound --help",
        ),
        (
            "plan x --global-batch 3",
            "mtpp: No such option: --global-batch; it is an option of train, verify. Try: mtpp plan --help",
        ),
        (
            "serve x --context 3",
            "mtpp: No such option: --context; did you mean --dim context=…? Try: mtpp serve --help",
        ),
        ("plan x --global-bach 3", "mtpp: No such option: --global-bach. Try: mtpp plan --help"),
        ("certfy x", f"mtpp: There is no verb 'certfy'; did you mean certify? There are {', '.join(VERBS)}."),
        ("tabel x", f"mtpp: There is no verb 'tabel'; did you mean table? There are {', '.join(VERBS)}."),
    ],
)
def test_a_misspelled_name_gets_the_nearest(command: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One that a help shows, by Python's word for it too; or the dimension of that name, or the verbs that take it."""
    assert main(command.split()) == 2
    assert capsys.readouterr().err == message + "\n"


@pytest.mark.parametrize(
    ("command", "nearest"),
    [
        ("table quick -k 2 --format markdwn", "md"),
        ("import bert-base --level layerr", "layer"),
        ("import bert-base --level op", "operator"),
        ("place bert-base -k 2 --solver cpsatt", "cp-sat"),
        ("table quikc -k 2", "quick"),
        ("certify path.jsom -k 2", "path.json"),
        ("certify path.json -k 2 --constraints pth.json", "path.json"),
        ("certify gpt2 -k 2 --dim phase=decoding", "decode"),
        ("partition path.json -k 2 --method Khan", "kahn"),
        ("train gpt2 --global-batch 8 --overlap autto", "auto"),
        ("table pears", "peers"),
        ("plan simulaton --cluster 2x2 --microbatches 4", "simulation"),
        ("train gpt2 --cluster 2x8 --global-batch 8 --bandwidth 300GB/s,400GB/s --device H10O", "H100-PCIe"),
        ("verify path.jso", "path.json"),
        ("import bad.json", "nodes"),
    ],
)
def test_a_misspelled_value_gets_the_nearest(
    command: str, nearest: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("path.json").write_text('{"format": "mtpp-graph/1", "nodes": [{"work": 1}], "edges": []}')
    Path("bad.json").write_text('{"format": "mtpp-graph/1", "nodes": [{"work": 1}], "edges": [], "node": []}')
    assert main(command.split()) == 2
    assert f"; did you mean {nearest}? " in capsys.readouterr().err.replace(": did", "; did").replace("?\n", "? ")


def test_files_are_near_by_their_names_not_their_suffixes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("frankfurt.json").write_text("{}")
    assert main(["verify", "front.jsn"]) == 2
    assert capsys.readouterr().err == "mtpp: front.jsn: there is no such file.\n"


def test_a_study_is_a_target_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["table", "serving", "gpt2"]) == 2
    assert capsys.readouterr().err == "mtpp: serving is a study with tables of its own; name it alone.\n"


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        ("bound x --solver hi", {"highs"}),
        ("partition x --method kah", {"kahn"}),
        ("plan x --planner gp", {"gpipe"}),
        ("place x --method met", {"metis"}),
        ("bound x --model pig", {"pigeonhole"}),
        ("certify x --for vl", {"vllm"}),
        ("export x --for vl", {"vllm"}),
        ("import x --reader on", {"onnx"}),
        ("certify bert-b", {"bert-base"}),
        ("certify x --time-unit ", {"s", "ms", "us"}),
        ("list ", set(LISTINGS)),
        ("paper sp", {"spp"}),
        ("certify x --help", {"--help", "--help-all"}),
        ("certify x --activation", {"--activation-buffer"}),
        ("plan x --global", {""}),
    ],
)
def test_the_shell_proposes_values(
    typed: str, names: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of registries, words of a choice, and options but for those that will go."""
    monkeypatch.setenv("_MTPP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", f"mtpp {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" "))))
    with pytest.raises(SystemExit, match="0"):
        main([])
    assert set(capsys.readouterr().out.removesuffix("\n").split("\n")) == names


def test_verbs_stand_in_panels_and_flags_without_a_type(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each verb in one panel, those of other packages with research; no type of Python in any help."""
    text = shown("--help", capsys, monkeypatch)
    panels = re.findall(r"(?m)^╭─ ([A-Z][a-z ]+) ─", text)
    assert panels == ["Options", "Cut", "Deploy", "Train and place", "Check", "Research", "Tools"]
    assert sorted(re.findall(r"(?m)^│ ([a-z][a-z-]*) ", text)) == sorted(VERBS)
    assert re.search(r"─ Research ─(?:(?!╭).)*│ table ", text, re.DOTALL)
    helps = [text, *(shown(f"{verb} --help-all", capsys, monkeypatch) for verb in VERBS)]
    assert not [
        line for help in helps for line in help.splitlines() if re.search(r"<(bool|str|Path|list)|list\[", line)
    ]


def test_a_list_without_a_name_says_what_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """One name a line."""
    assert main(["list"]) == 0
    assert capsys.readouterr().out.split() == list(LISTINGS)
