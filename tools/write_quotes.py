"""Writes files of the repository into the documents that quote them: a fenced block after a line "`path`:".

It changes nothing else; a test keeps the quotes current.
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# the path, the fence with its language, what stands in it
QUOTE = re.compile(r"(^`([\w./-]+)`:\n\n```\w+\n)(.*?)(?=^```$)", re.MULTILINE | re.DOTALL)


def quoted(text: str) -> str:
    """The document with the present content of each file that it quotes."""
    return QUOTE.sub(lambda found: found[1] + (ROOT / found[2]).read_text(encoding="utf-8"), text)


if __name__ == "__main__":
    for page in sorted((ROOT / "docs").rglob("*.md")):
        page.write_text(quoted(page.read_text(encoding="utf-8")), encoding="utf-8")
