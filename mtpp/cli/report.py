"""The verb ``mtpp report``: answers as one page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from mtpp.cli import options
from mtpp.cli.command import Without, command
from mtpp.cli.exit_codes import DONE, FALSE
from mtpp.cli.messages import complain
from mtpp.cli.outputs import Files
from mtpp.cli.printing import Printing
from mtpp.questions.partitioning import ReportWords

__all__ = ["report"]


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
    from mtpp.api.reporting import reported, written_page

    Files(out=out).check()
    found = []
    for file in files:
        with printing.working(str(file)):
            found.append(reported(file, graph, words))
    page = written_page(found)
    out.write_text(page, encoding="utf-8")
    printing.say(str(out))
    printing.document(lambda: {"page": str(out), "bytes": len(page.encode()), "answers": len(found)})
    codes = [DONE]
    for file, one in zip(files, found, strict=True):
        for fault in () if one.verdict is None else one.verdict.faults:
            codes.append(complain(f"{file}: {fault}", FALSE))
    return max(codes)
