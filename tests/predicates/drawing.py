"""Random predicates as SQL text and, where the DataFrame API has the same words, as a Column.

Takes a random generator; gives a `Drawn` predicate. `shape` names the form; `promised` tells whether every
leaf is one of the shapes that the first issue lists, so that the whole must be taken over.
"""

from __future__ import annotations

from typing import Any

from other_shapes import OtherShapes

from written_predicates import Drawn


class Drawing(OtherShapes):
    """Draws predicates from one generator."""

    def predicate(self, depth: int = 2) -> Drawn:
        """Draw a predicate: a leaf, or AND, OR, NOT of smaller ones."""
        kind = self.random.random()
        if depth == 0 or kind < 0.45:
            return self.leaf()
        if kind < 0.6:
            return negated(self.predicate(depth - 1))
        parts = [self.predicate(depth - 1) for _ in range(self.random.choice((2, 2, 3)))]
        return joined(self.random.choice(("AND", "OR")), parts)

    def leaf(self) -> Drawn:
        """Draw a leaf: in six of ten cases one of the promised shapes."""
        if self.random.random() < 0.62:
            return self.random.choice(
                (
                    self.compared,
                    self.compared,
                    self.compared,
                    self.listed,
                    self.listed,
                    self.null_test,
                    self.columns,
                    self.matched,
                    self.boolean,
                    self.between,
                )
            )()
        return self.random.choice(
            (
                self.cast,
                self.cast,
                self.mixed_columns,
                self.mixed_literal,
                self.mixed_literal,
                self.number,
                self.pattern,
                self.pattern,
                self.function,
                self.collated,
                self.moment,
                self.truth,
                self.decimal,
            )
        )()


def negated(drawn: Drawn) -> Drawn:
    """NOT of a predicate."""
    column = None if drawn.column is None else lambda: ~drawn.column()
    return Drawn(f"NOT ({drawn.sql})", f"NOT {drawn.shape}", drawn.promised, column)


def joined(word: str, parts: list[Drawn]) -> Drawn:
    """AND or OR of predicates."""

    def column() -> Any:
        built = parts[0].column()
        for part in parts[1:]:
            built = built & part.column() if word == "AND" else built | part.column()
        return built

    return Drawn(
        f" {word} ".join(f"({part.sql})" for part in parts),
        word,
        all(part.promised for part in parts),
        column if all(part.by_api for part in parts) else None,
    )
