"""Writes THIRD-PARTY-LICENCES.md: the crates and C libraries that are linked into the wheel, with their licences.

It asks cargo for the crates; build tools and procedural macros, which leave nothing in the wheel, are left out.
`--check` writes nothing and fails where the file names other crates than are linked.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "THIRD-PARTY-LICENCES.md"
# sources that crates bring along, with licences of their own
BUNDLED = {
    "libdeflate-sys": {"libdeflate": "libdeflate/COPYING"},
    "ring": {
        "ring, other parts": "LICENSE-other-bits",
        "BoringSSL": "LICENSE-BoringSSL",
        "once_cell in ring": "src/polyfill/once_cell/LICENSE-MIT",
    },
    "zstd-sys": {"Zstandard": "zstd/LICENSE"},
}


def linked_crates() -> list[dict]:
    """Packages, as cargo describes them, that are linked into the module."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--manifest-path", str(ROOT / "Cargo.toml")]
    told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node for node in told["resolve"]["nodes"]}
    waiting = [key for key, package in packages.items() if package["name"] == "kinema-python"]
    found: dict[str, dict] = {}
    while waiting:
        key = waiting.pop()
        package = packages[key]
        is_macro = any("proc-macro" in target["kind"] for target in package["targets"])
        if key in found or is_macro:
            continue
        found[key] = package
        for dependency in nodes[key]["deps"]:
            if any(kind["kind"] is None and not _elsewhere(kind["target"]) for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    ours = {package["id"] for package in told["packages"] if package["source"] is None}
    return sorted((package for key, package in found.items() if key not in ours), key=lambda package: package["name"])


def _elsewhere(platform: str | None) -> bool:
    """Whether a dependency is for platforms, or a choice of code (fiat), that no wheel is built for."""
    return platform is not None and any(word in platform for word in ("windows", "wasm", "wasi", "uefi", "fiat"))


def licence_texts(package: dict) -> Iterator[tuple[str, str]]:
    """Name of what is licensed, and the text: of a choice, MIT's."""
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if re.match(r"(licen[cs]e|copying)", path.name, re.IGNORECASE))
    chosen = [path for path in files if "MIT" in path.name] or files
    if not chosen:
        raise SystemExit(f"error: {package['name']} brings no text of its licence, {package['license']}")
    yield package["name"], chosen[0].read_text(encoding="utf-8")
    for name, place in BUNDLED.get(package["name"], {}).items():
        yield name, (folder / place).read_text(encoding="utf-8")


def page(crates: list[dict]) -> str:
    """The whole file; equal texts stand there once."""
    lines = ["# Licences of what the wheel contains", "", "Made by `python tools/third_party_licences.py`.", ""]
    lines += ["| crate | licence |", "|---|---|"]
    lines += [f"| {crate['name']} | {crate['license']} |" for crate in crates]
    texts: dict[str, list[str]] = {}
    for crate in crates:
        for name, text in licence_texts(crate):
            texts.setdefault("\n".join(line.rstrip() for line in text.strip().splitlines()), []).append(name)
    for text, names in texts.items():
        lines += ["", f"## {', '.join(names)}", "", "```", text, "```"]
    return "\n".join(lines) + "\n"


def named(text: str) -> set[str]:
    """The crates that a page names."""
    return set(re.findall(r"^\| ([\w-]+) \| (?!licence)", text, re.MULTILINE)) - {"crate"}


if __name__ == "__main__":
    crates = linked_crates()
    if "--check" in sys.argv[1:]:
        wrong = named(TARGET.read_text(encoding="utf-8")) ^ {crate["name"] for crate in crates}
        if wrong:
            sys.exit(f"error: {TARGET.name} is not current, it differs in {', '.join(sorted(wrong))}")
        print("licences: all linked crates are named")
    else:
        TARGET.write_text(page(crates), encoding="utf-8")
