"""A tree of lines, drawn."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Node:
    """A line, and the lines below it.

    >>> print("\\n".join(Node("a", [Node("b", [Node("c")]), Node("d")]).drawn()))
    a
    ├─ b
    │  └─ c
    └─ d
    """

    text: str
    children: list[Node] = field(default_factory=list)

    def drawn(self) -> list[str]:
        lines = [self.text]
        for child in self.children:
            last = child is self.children[-1]
            first, *rest = child.drawn()
            lines.append(("└─ " if last else "├─ ") + first)
            lines.extend(("   " if last else "│  ") + line for line in rest)
        return lines
