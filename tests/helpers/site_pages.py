"""Pages of the site as built: where links lead, what a browser would load from elsewhere, and how wide they are."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes whose file a browser loads when it opens a page.
_LOADED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("object", "data"),
    ("source", "src"),
}

#: Shows all pages as a telephone does, then names those of which a part reaches beyond the side.
_NARROW = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const wide = [];
const look = page => new Promise(done => {
  const frame = document.createElement("iframe");
  frame.width = 390;
  frame.onload = () => {
    const shown = frame.contentDocument;
    const parts = [shown.documentElement, ...shown.querySelectorAll(".content")];
    if (parts.some(part => part.scrollWidth > part.clientWidth)) wide.push(page);
    frame.remove();
    done();
  };
  frame.src = page;
  document.body.append(frame);
});
Promise.all(PAGES.map(look)).then(() => { document.body.textContent = "wide: " + JSON.stringify(wide); });
</script>"""
#: Settings of Chromium: no window, nothing from a network, pages may look into others of the same disk.
_BROWSER = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
_BROWSER += " --disable-component-update --disable-sync --hide-scrollbars --allow-file-access-from-files"
_BROWSER += " --virtual-time-budget=60000 --dump-dom"


class Page(HTMLParser):
    """Ids, links and equations of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.repeated: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.equations = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.equations += tag == "math"
        for name, value in attributes:
            if name == "id" and value:
                self.repeated += [value] if value in self.ids else []
                self.ids.add(value)
            elif (tag, name) in _LOADED and value:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


@cache
def read(path: Path) -> Page:
    """Parse a page once."""
    return Page(path.read_text())


def pages(site: Path) -> list[Path]:
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def dead_links(site: Path) -> Iterator[str]:
    """Links and loaded files of all pages that are not there, and places that no page has."""
    for path in pages(site):
        for link in (*read(path).links, *read(path).loaded):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path.parent / unquote(parts.path) if parts.path else path
            is_page = target.suffix == ".html" and target.exists()
            if not target.is_file() or (is_page and parts.fragment and unquote(parts.fragment) not in read(target).ids):
                yield f"{path.relative_to(site)}: {link}"


def loaded_from_elsewhere(site: Path) -> Iterator[str]:
    """Files that pages and styles load from a network."""
    for path in pages(site):
        yield from (f"{path.name}: {link}" for link in read(path).loaded if re.match(r"(?:https?:)?//", link))
    for path in site.rglob("*.css"):
        yield from (
            f"{path.name}: {link}"
            for link in re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")]+)", path.read_text())
        )


def wide_pages(site: Path, browser: str, folder: Path) -> list[str]:
    """Pages that scroll sideways in a window of 390 pixels; `folder` is for files of the browser."""
    start = folder / "narrow.html"
    start.write_text(_NARROW.replace("PAGES", json.dumps([page.as_uri() for page in pages(site)])))
    command = [browser, *_BROWSER.split(), f"--user-data-dir={folder / 'profile'}", start.as_uri()]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    (listing,) = re.findall(r"wide: (\[.*\])", shown)
    return [Path(page).name for page in json.loads(unescape(listing))]
