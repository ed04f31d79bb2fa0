"""Checks the built site: nothing comes from elsewhere when it is read, and all links and anchors lead somewhere.

    tools/site/check_site.py dist/site --shots dist/shots    also pictures of ten pages, wide and of a phone

Pictures need Chromium; without one they are left out, which is said.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a browser fetches by itself, by element and attribute
FETCHED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("video", "src"), ("audio", "src")}
FETCHED_BY_LINK = {"stylesheet", "icon", "preload", "modulepreload", "manifest"}
PAGES = (
    "index.html", "tutorial.html", "phrasebook.html", "analyses.html", "formats.html", "commands/rmsd.html",
    "python/kinema.html", "trust.html", "ml.html", "architecture.html",
)  # fmt: skip
SIZES = {"wide": "1400,1100", "phone": "400,900"}


class _Addresses(HTMLParser):
    """The anchors of a page, its links, and what it fetches."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        for name, value in given.items():
            if (tag, name) in FETCHED:
                self.fetched.append(value)
        if tag == "link" and FETCHED_BY_LINK & set(given.get("rel", "").split()):
            self.fetched.append(given.get("href", ""))
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])


def read(page: Path) -> _Addresses:
    found = _Addresses()
    found.feed(page.read_text(encoding="utf-8"))
    return found


def wrong(site: Path) -> Iterator[str]:
    """Faults of the site, one line each."""
    pages = {page: read(page) for page in sorted(site.rglob("*.html"))}
    for page, found in pages.items():
        name = page.relative_to(site)
        for address in [*found.links, *found.fetched]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                if address in found.fetched and parts.scheme != "data":
                    yield f"{name}: fetches {address}"
                continue
            # the page for addresses that do not exist is shown at any depth: its links begin at the root
            place = site if parts.path.startswith("/") else page.parent
            target = Path(os.path.normpath(place / unquote(parts.path).lstrip("/"))) if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name}: {address} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {address} has no such anchor"


def take_pictures(site: Path, folder: Path) -> None:
    """Pictures of ten pages, if there is a Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium: pictures of pages are left out")
        return
    folder.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        for size, pixels in SIZES.items():
            picture = folder / f"{page.replace('/', '-').removesuffix('.html')}-{size}.png"
            words = [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                f"--window-size={pixels}",
            ]
            words += ["--virtual-time-budget=5000", f"--screenshot={picture}", (site / page).resolve().as_uri()]
            subprocess.run(words, check=True, capture_output=True, timeout=120)
    print(f"{2 * len(PAGES)} pictures in {folder}")


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("site", type=Path)
    arguments.add_argument("--shots", type=Path, metavar="DIR", help="take pictures of ten pages")
    given = arguments.parse_args()
    found = list(wrong(given.site))
    print("\n".join(found) or f"{given.site}: all links lead somewhere, nothing is fetched from elsewhere")
    if given.shots:
        take_pictures(given.site, given.shots)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
