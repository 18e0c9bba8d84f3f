"""What README and docs tell the reader to type: their code fences, and the commands between backticks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
_HEADING = re.compile(r"^#+ +(.+)$")
_COMMAND = re.compile(r"`((?:make|pip|python|spark-submit|pyspark) [^`]+)`")


@dataclass(frozen=True)
class Fence:
    """A code fence: its name (document, heading, number under it), language and text."""

    name: str
    language: str
    text: str

    def put(self, places: dict[str, str]) -> str:
        """Return the text with what stands for the reader's own tables and services replaced by real ones."""
        text = self.text
        for shown, real in places.items():
            assert shown in text, f"{self.name} does not hold {shown!r} any more"
            text = text.replace(shown, real)
        return text


def fences() -> dict[str, Fence]:
    """Return all code fences by name, such as ``README.md, Use, 1``."""
    found: dict[str, Fence] = {}
    for document in DOCUMENTS:
        heading, number = "", 0
        opened: tuple[str, list[str]] | None = None
        for line in document.read_text(encoding="utf-8").splitlines():
            if line.startswith("```"):
                if opened is None:
                    opened = (line[3:].strip(), [])
                    continue
                number += 1
                name = f"{document.relative_to(ROOT)}, {heading}, {number}"
                found[name] = Fence(name, opened[0], "\n".join(opened[1]) + "\n")
                opened = None
            elif opened is not None:
                opened[1].append(line)
            elif title := _HEADING.match(line):
                heading, number = title[1], 0
        assert opened is None, f"{document}: a fence without an end"
    return found


def commands() -> set[str]:
    """Return the commands in the text, outside fences."""
    found: set[str] = set()
    for document in DOCUMENTS:
        text = re.sub(
            r"^```.*?^```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        found.update(match[1] for match in _COMMAND.finditer(text))
    return found
