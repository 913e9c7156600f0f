"""Quantities as people write them: what is read, what is doubted, what is refused, and what is proposed instead."""

from __future__ import annotations

import json
import math
import warnings
from pathlib import Path

import pytest
from command_line import assert_misuse, columns, graph_file, mtpp
from hypothesis import given
from hypothesis import strategies as st

from instances import InputError, InputWarning
from mtpp.text.numbers import parse_bandwidth, parse_bytes, parse_counts, parse_flops

DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
PARSERS = (
    parse_bandwidth,
    lambda text: parse_bandwidth(text, "ms"),
    lambda text: parse_bytes(text, "memory"),
    lambda text: parse_flops(text, "peak_flops"),
)


def size(text: str) -> float:
    return parse_bytes(text, "memory")


def test_units() -> None:
    """Rates are bytes per second, sizes bytes."""
    assert parse_bandwidth("200Gbps") == parse_bandwidth("25GB/s") == parse_bandwidth("25e9") == 25e9
    assert parse_bandwidth("1 Gbps") == 1.25e8
    assert parse_bandwidth("1GiB/s") == 2**30
    assert parse_bandwidth("inf") == float("inf")
    assert parse_bandwidth(".5", "ms") == 0.5
    assert size("16GB") == 16e9
    assert size("1.5KiB") == 1536
    assert parse_counts(" 8,2,8 ") == [8, 2]
    with pytest.raises(InputError, match="'ms'"):
        parse_bandwidth("25GB/s", "ms")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("16G", 16e9), ("16gb", 16e9), ("16GB", 16e9), ("16 gB", 16e9), ("1KB", 1000), ("1kb", 1000), ("2p", 2e15)),
        *(("16GiB", 2**34), ("16gib", 2**34), ("16GIB", 2**34), ("16Gi", 2**34), ("16B", 16), ("16b", 16), ("0", 0)),
        ("inf", math.inf),
    ],
)
@pytest.mark.filterwarnings("error")
def test_sizes_are_bytes_in_any_case(text: str, expected: float) -> None:
    assert size(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("25GB/s", 25e9), ("25 GB/s", 25e9), ("25e9B/s", 25e9), ("25gB/S", 25e9), ("25GB/S", 25e9)),
        *(("200Gbps", 25e9), ("200gbps", 25e9), ("200Gb/s", 25e9), ("200Gbit/s", 25e9), ("200GBIT/S", 25e9)),
        *(("1GiB/s", 2**30), ("8Gibps", 2**30), ("8Gibit/s", 2**30), ("8bps", 1), ("3B/s", 3), ("25e9", 25e9)),
    ],
)
@pytest.mark.filterwarnings("error")
def test_rates_tell_bits_from_bytes(text: str, expected: float) -> None:
    assert parse_bandwidth(text) == expected


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        ("25gb/s", 25e9, "bandwidth='25gb/s' is taken as bytes, not bits; write GB/s or Gbps."),
        ("25GBps", 25e9, "as bytes, not bits"),
        ("200GBPS", 25e9, "as bits, not bytes"),
        ("25", 25, "bandwidth='25' is 25 bytes per second; write 25GB/s if that is meant."),
        ("999999", 999999, "bytes per second"),
    ],
)
def test_rates_that_may_not_be_meant_so(text: str, expected: float, said: str) -> None:
    with pytest.warns(InputWarning, match="bandwidth=") as told:
        assert parse_bandwidth(text) == expected
    assert said in str(told[0].message)


@pytest.mark.parametrize(
    ("text", "expected", "said"),
    [
        ("16", 16, "memory='16' is 16 bytes; write 16GB if that is meant."),
        ("16Gb", 16e9, "memory='16Gb' is taken as bytes, not bits; write GB."),
    ],
)
def test_sizes_that_may_not_be_meant_so(text: str, expected: float, said: str) -> None:
    with pytest.warns(InputWarning) as told:
        assert size(text) == expected
    assert [str(warning.message) for warning in told] == [said]


@pytest.mark.parametrize(("text", "unit"), [("1", "ms"), ("25", "cycles"), ("1e6", "s"), ("25e9", "s"), ("inf", "s")])
@pytest.mark.filterwarnings("error")
def test_bare_numbers_that_make_sense_are_taken_in_silence(text: str, unit: str) -> None:
    assert parse_bandwidth(text, unit) == float(text)


def test_a_bare_rate_that_suits_small_tensors_is_taken_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parse_bandwidth("25", plausible=10.0) == 25
    with pytest.warns(InputWarning):
        parse_bandwidth("25", plausible=26.0)


def test_speeds_of_devices() -> None:
    for text in ("312T", "312TFLOP/s", "312 tflops", "312TFLOPs/s", "312e12", "0.312P"):
        assert parse_flops(text, "peak_flops") == 312e12
    with pytest.warns(InputWarning, match="312 operations per second; write 312TFLOP/s if"):
        assert parse_flops("312", "peak_flops") == 312


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_bandwidth, "25G", "bandwidth='25G': not understood; did you mean 25GB/s or 25Gbps?"),
        (parse_bandwidth, "25GB", "did you mean 25GB/s or 25Gbps?"),
        (parse_bandwidth, "25gi", "did you mean 25GiB/s or 25Gibps?"),
        (parse_bandwidth, "25XB/s", "give for example 25e9, 25GB/s or 200Gbps"),
        (parse_bandwidth, "fast", "give for example"),
        (parse_bandwidth, "1e308GB/s", "too large"),
        (size, "16Gbps", "memory='16Gbps': not understood; did you mean 16GB?"),
        (size, "16 gigs", "did you mean 16GiB?"),
        (size, "16K bytes", "did you mean 16kB?"),
        (size, "-1GB", "0 or more"),
        (size, "1e308kB", "too large"),
        (PARSERS[3], "312TFLOPS/h", "did you mean 312TFLOP/s?"),
        (PARSERS[3], "1GiFLOP/s", "did you mean 1GFLOP/s?"),
    ],
)
def test_what_is_refused_says_what_may_be_meant(parse, text: str, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as fault:
        parse(text)
    assert said in str(fault.value)


numbers = st.integers(0, 10**6) | st.floats(0, 1e9, allow_subnormal=False)


@pytest.mark.filterwarnings("ignore::instances.errors.InputWarning")
@given(numbers, st.sampled_from([*DECIMAL.items(), *BINARY.items()]), st.sampled_from(["", " "]), st.booleans())
def test_sizes_round_trip(number: float, prefix: tuple[str, int], blank: str, lower: bool) -> None:
    """Whatever the prefix, its case and the blank before it; a rate is the same number of bytes or bits."""
    name, factor = prefix
    unit = f"{name}B".lower() if lower else f"{name}B"
    assert size(f"{number!r}{blank}{unit}") == pytest.approx(number * factor, rel=1e-15)
    if number > 0:
        assert parse_bandwidth(f"{number!r}{blank}{unit}/s") == size(f"{number!r}{unit}")
        assert parse_bandwidth(f"{number!r}{blank}{name}bps") == size(f"{number!r}{unit}") / 8


@pytest.mark.filterwarnings("ignore::instances.errors.InputWarning")
@given(st.text() | st.from_regex(r"[0-9.e+-]{1,6} ?[kKmMgGtTpPiI]{0,2}[a-zA-Z/]{0,6}", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Never another exception, never a number that is not one."""
    for parse in PARSERS:
        try:
            value = parse(text)
        except InputError:
            continue
        assert not math.isnan(value)
        assert math.isfinite(value) or text.strip().lower().startswith("inf")


def test_doubts_are_one_line_each(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr, while the answer goes to stdout; the toy next to it, whose tensors have a byte, is no doubt."""
    graph_file(folder, nodes=[{"work": 1, "output_bytes": 10**6}, {"work": 1}], edges=[[0, 1]])
    assert mtpp("partition graph.json -k 2 --bandwidth 25 --memory 16 --method kahn") == 0
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        "mtpp: warning: --memory 16 is 16 bytes",
        "mtpp: warning: --bandwidth 25 is 25 bytes per second",
    ]
    assert mtpp("partition path.json -k 2 --bandwidth 1 --method kahn") == 0
    assert capsys.readouterr().err == ""


def test_a_device_in_units(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same device, in words."""
    shown = []
    for device in ("--peak-flops 312e12 --memory-bandwidth 1.5e12", "--peak-flops 312T --memory-bandwidth 1.5TB/s"):
        assert mtpp(f"import gnmt {device}") == 0
        shown.append(capsys.readouterr())
    assert shown[0] == shown[1]
    assert "3.12e+14 flop/s and 1.5e+12 bytes/s" in shown[0].out
    assert shown[0].err == ""


@pytest.mark.parametrize(
    ("command", "cost"),
    [
        ("partition gnmt -k 2 --method kahn", "bottleneck [s]"),
        ("certify gnmt --level layer -k 2 --time-limit 5", "bottleneck [s]"),
        ("bound gnmt -k 2 --model simple", "bound [s]"),
        ("place gnmt -k 2 --method single", "step time [s]"),
    ],
)
def test_a_slower_device_takes_longer(capsys: pytest.CaptureFixture[str], command: str, cost: str) -> None:
    """All that is priced by a roofline model takes a device, not `mtpp import` alone."""
    times = []
    for device in ("", "--peak-flops 1TFLOP/s --memory-bandwidth 15GB/s"):
        assert mtpp(f"{command} --bandwidth 1PB/s {device}") == 0
        times.append(float(columns(capsys.readouterr().out)[cost]))
    assert times[1] == pytest.approx(100 * times[0], rel=0.05)


def test_a_plan_on_a_slower_device_takes_longer(capsys: pytest.CaptureFixture[str]) -> None:
    times = []
    for device in ("", "--peak-flops 1T --memory-bandwidth 15GB/s"):
        assert mtpp(f"plan gnmt --cluster 2x1 --bandwidth 1PB/s --microbatches 4 --json {device}") == 0
        times.append(json.loads(capsys.readouterr().out)["cost"])
    assert times[1] == pytest.approx(100 * times[0], rel=0.05)


def test_what_is_measured_takes_no_device(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A profile has its times; a device would change none of them."""
    chain = {"format": "mtpp-chain/1", "layers": []}
    Path("chain.json").write_text(json.dumps(chain))
    roofs = "--peak-flops 312T"
    assert_misuse(
        capsys,
        {
            f"partition path.json -k 2 {roofs}": "'json' files take no --peak-flops or --memory-bandwidth",
            f"certify path.json -k 2 {roofs}": "files take no --peak-flops",
            f"bound path.json -k 2 {roofs}": "files take no --peak-flops",
            f"place path.json -k 2 {roofs}": "files take no --peak-flops",
            f"place nmt-0 -k 2 {roofs}": "this graph has no options",
            f"plan path.json --cluster 2x1 --bandwidth 1GB/s --microbatches 2 {roofs}": "files take no --peak-flops",
            f"plan chain.json --cluster 2x1 --bandwidth 1GB/s --microbatches 2 {roofs}": "a chain file takes no device",
            f"plan simulation --cluster 2x1 --bandwidth 1GB/s --microbatches 2 {roofs}": "this chain has no options",
            f"import model.onnx --cost measured {roofs}": "measured work takes no device",
            "partition gnmt -k 2 --peak-flops 312B": "--peak-flops 312B: not understood; give for example 100e12",
            "place gnmt -k 2 --memory-bandwidth 0": "--memory-bandwidth 0: it must be positive",
        },
    )
