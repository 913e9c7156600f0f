"""``mtpp export`` and ``mtpp report``: answers for runtimes and for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from instances.registry import find
from mtpp.cli import options
from mtpp.cli.command import Files, Without, command, complain
from mtpp.cli.exit_codes import DONE, FALSE
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import ReportWords
from mtpp.questions.reading import ReadingWords

# The verb ``mtpp export``: a cut of a file as the settings of a runtime, with its certificate beside it.


@command
def export(
    *,
    file: Annotated[
        Path,
        options.argument(
            metavar="FILE",
            help="A certificate, a partition, a serving front, a plan with its question, or a stages folder.",
        ),
    ],
    graph: options.GraphOfFile = None,
    runtime: options.ExportFor,
    runtime_version: Annotated[
        str | None,
        options.of_question(
            basic=False, metavar="VERSION", help="Its release, where words differ.  [default: the latest that is known]"
        ),
    ] = None,
    words: ReadingWords,
    out: Annotated[
        Path | None,
        options.of_files(
            metavar="FILE", help="Write the words there; a certificate is copied to FILE.certificate.json."
        ),
    ] = None,
    printing: Printing,
) -> int:
    """Write a cut as the settings of a runtime, such as vllm or megatron.

    What the runtime cannot express is refused. With --for, partition and certify ask for what it can express alone.

    Of a folder of stages the certificate says where it is cut; onnxruntime-genai is told its files and tensors.

    Example: mtpp export certificate.json --for vllm
    """
    from instances.runtimes import RUNTIMES
    from mtpp.api.answers import exported

    target = find(RUNTIMES, runtime, "runtime").of_version(runtime_version)
    Files(out=out).check(None if out is None else Path(f"{out}.certificate.json"))
    answer = exported(file, target, graph, words, f"mtpp export {file}")
    if out is None:
        printing.say(answer.text.removesuffix("\n"))
    else:
        answer.write(out)
    printing.document(lambda: {"runtime": runtime, "words": answer.settings, "stated": list(answer.stated)})
    return DONE


# The verb ``mtpp report``: answers as one page for people.


@command
def report(
    *,
    files: options.Answers,
    graph: options.GraphOfFiles = None,
    words: Annotated[ReportWords, Without({"colour_classes", "runtime"})],
    out: Annotated[Path, options.of_files(metavar="FILE", help="The page, HTML.")] = Path("report.html"),
    printing: Printing,
) -> int:
    """Make one HTML page of answers: question, stages, graph, bounds and what proves them, timeline, memory.

    The page is one file that loads nothing and runs no script. Costs are computed anew, and bounds proved again within
    --time-limit, as by verify. Exit code 1 if a number of a file is false, which the page says, too.

    Example: mtpp report certificate.json --out report.html
    """
    from mtpp.api.answers import reported, written_page

    Files(out=out).check()
    texts = []
    for file in files:
        with printing.working(str(file)):
            texts.append(reported(file, graph, words))
    page = written_page(texts)
    out.write_text(page, encoding="utf-8")
    printing.say(str(out))
    printing.document(lambda: {"page": str(out), "bytes": len(page.encode()), "answers": len(texts)})
    codes = [DONE]
    for file, text in zip(files, texts, strict=True):
        for fault in () if text.verdict is None else text.verdict.faults:
            codes.append(complain(f"{file}: {fault}", FALSE))
    return max(codes)
