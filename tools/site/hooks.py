"""Hooks of mkdocs: pages of commands and of the Python interface from the code, and the pages outside of docs/."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, os.path.dirname(__file__))
from gallery import gallery
from notebooks import page_of

ROOT = Path(__file__).resolve().parents[2]

# pages of the site that are files of the project's root
ROOT_PAGES = {
    "architecture.md": "ARCHITECTURE.md",
    "contributing.md": "CONTRIBUTING.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "security.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
    "index.md": "README.md",
}
# the public packages, by the page that has them
PACKAGES = {
    "python/kinema.md": "kinema",
    "python/analysis.md": "kinema.analysis",
    "python/statistics.md": "kinema.statistics",
    "python/transforms.md": "kinema.transforms",
    "python/ml.md": "kinema.ml",
    "python/cache.md": "kinema.cache",
    "python/runners.md": "kinema.runners",
    "python/testing.md": "kinema.testing",
}
# griffe reads sources without running them: names that the registry of analyses gives are unknown to it
logging.getLogger("mkdocs.plugins.griffe").addFilter(
    lambda record: "kinema.analysis.__all__" not in record.getMessage()
)

# what makes the search work from a folder
WORKER = "assets/file_worker.js"
FOREIGN_WORKER = "https://unpkg.com/iframe-worker/shim"

LINK = re.compile(r"(\[[^\]]*\])\(([^)\s#]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills the entries "Commands" and "Python" of the reference."""
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    for entry in reference:
        if "Commands" in entry:
            entry["Commands"] = [{" ".join(words): _command_page(words)} for words in _commands()]
        elif "Python" in entry:
            entry["Python"] = [{package: page} for page, package in PACKAGES.items()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are not in docs/."""
    for page, name in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    files.append(File.generated(config, WORKER, content=(Path(__file__).parent / "file_worker.js").read_text()))
    for words in _commands():
        files.append(File.generated(config, _command_page(words), content=command_text(words)))
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=page_of(notebook)))
    page_text, pictures = gallery()
    files.append(File.generated(config, "gallery.md", content=page_text))
    for name, picture in pictures.items():
        files.append(File.generated(config, name, content=picture))
    for page, package in PACKAGES.items():
        files.append(File.generated(config, page, content=package_text(package)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns links to files outside of docs/ to their pages, or into plain text if they have none."""
    source = page.file.src_uri
    # where the text lies in the project
    place = Path(ROOT_PAGES[source]).parent if source in ROOT_PAGES else Path("docs", source).parent
    pages = {name: target for target, name in ROOT_PAGES.items()}
    pages |= {f"notebooks/{one.name}": f"notebooks/{one.stem}.md" for one in ROOT.glob("notebooks/*.ipynb")}

    def target(match: re.Match[str]) -> str:
        words, link, anchor = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", link) or link.startswith("/"):
            return match[0]
        file = os.path.normpath(place / link)
        if file.startswith("docs/"):
            inside = file.removeprefix("docs/")
        elif file in pages:
            inside = pages[file]
        elif (ROOT / file).exists():
            return words[1:-1]
        else:
            return match[0]  # mkdocs says that it leads nowhere
        return f"{words}({os.path.relpath(inside, Path(source).parent)}{anchor})"

    return LINK.sub(target, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Puts our script in place of the one that Material would fetch from elsewhere."""
    return output.replace(FOREIGN_WORKER, os.path.relpath(WORKER, os.path.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, config: MkDocsConfig) -> str:
    """The same on the page for addresses that do not exist."""
    return output_content.replace(FOREIGN_WORKER, f"/{WORKER}")


def _commands() -> list[tuple[str, ...]]:
    """Words of all commands, with the commands of groups, in the order of --help."""
    from kinema.cli.app import COMMANDS, GROUPS

    found: list[tuple[str, ...]] = []
    for name in COMMANDS:
        if name in GROUPS:
            found += [(name, one) for one in importlib.import_module(f"kinema.cli.commands.{name}").COMMANDS]
        else:
            found.append((name,))
    return found


def _command_page(words: tuple[str, ...]) -> str:
    return f"commands/{'-'.join(words)}.md"


def command_text(words: tuple[str, ...]) -> str:
    """The page of a command: what it does, how it is called, and its options, from what it declares."""
    from kinema.cli.app import parser_of

    command = parser_of(words)
    for word in words:
        command = getattr(command, "commands", {}).get(word, command)
    context = command.make_context("kinema " + " ".join(words), [], resilient_parsing=True)
    usage = " ".join(["kinema", *words, *command.collect_usage_pieces(context)])
    lines = [f"# kinema {' '.join(words)}", "", inspect.cleandoc(command.help or ""), "", "```", usage, "```", ""]
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        panel = getattr(parameter, "rich_help_panel", None) or (
            "Arguments" if parameter.param_type_name == "argument" else "Options"
        )
        panels.setdefault(panel, []).append(_parameter_row(parameter, context))
    for panel, rows in panels.items():
        lines += [f"## {panel}", "", "| name | what it does |", "|---|---|", *rows, ""]
    return "\n".join(lines)


def _parameter_row(parameter: Any, context: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    value = "" if getattr(parameter, "is_flag", False) else f" `{parameter.make_metavar(context)}`"
    text = " ".join((getattr(parameter, "help", None) or "").split())
    default = parameter.default
    if getattr(parameter, "show_default", False) and default not in (None, False, ()) and not callable(default):
        text += f" Default: `{default}`."
    return f"| {names}{value} | {_cell(text)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def package_text(package: str) -> str:
    """The page of a public package: its docstring, and each public name from where it is defined."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = importlib.import_module(package)
        lines = [f"# {package}", "", _docstring(module), ""]
        elsewhere = {} if package != "kinema" else _names_of_packages()
        entries: dict[str, list[str]] = {"Functions": [], "Classes": [], "From other packages": []}
        for name in sorted(module.__all__, key=str.lower):
            item = getattr(module, name)
            path = _path(item)
            if path in elsewhere:
                entries["From other packages"] += [f"- `{package}.{name}` is [`{elsewhere[path]}`][{path}]"]
            elif path is not None:
                entries["Classes" if inspect.isclass(item) else "Functions"] += _entry(package, name, path)
    for title, found in entries.items():
        if found:
            lines += [f"## {title}", "", *found, ""]
    return "\n".join(lines)


def _names_of_packages() -> dict[str, str]:
    """Where objects are defined that packages below `kinema` publish, and by what name."""
    found = {}
    for package in set(PACKAGES.values()) - {"kinema"}:
        module = importlib.import_module(package)
        found |= {path: f"{package}.{name}" for name in module.__all__ if (path := _path(getattr(module, name)))}
    return found


def _docstring(module: Any) -> str:
    """The docstring with its indented parts as code."""
    return re.sub(r"\n\n((?:    .*\n?|\n)+)", lambda code: _fenced(code[1]), inspect.getdoc(module) or "")


def _fenced(code: str) -> str:
    return f"\n\n```python\n{inspect.cleandoc(code)}\n```\n\n"


def _path(item: Any) -> str | None:
    """Where an object of Python is defined; None for modules, numbers and what is made when it is imported."""
    module, name = getattr(item, "__module__", None), getattr(item, "__qualname__", "<")
    if inspect.ismodule(item) or not module or "<" in name or not module.startswith("kinema"):
        return None
    return f"{module}.{name}"


def _entry(package: str, name: str, path: str) -> list[str]:
    return [f"::: {path}", "    options:", f"      heading: {package}.{name}", f"      toc_label: {name}", ""]
