"""A scan's conditions on its data files: the known answers, and those that this scan finds.

Takes the scan's conjuncts and an open data file; tells for a row group which rows are known to meet all
conjuncts, or some of them, before deletes; collects the filter's results. Answers for a file are kept once it
is closed and known to be unchanged. The rules: a row is dropped only if an answer decides it; only rows that
the filter evaluated are decided and, for the whole conjunction, rows that page indexes, dictionaries and
Bloom filters rule out by the conjunction alone; join keys, which are used once, are neither looked up nor
kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twostage.predicates.predicate import TRUE
from twostage.reading.conditions import names
from twostage.reading.conditions.compact_rows import CompactRows
from twostage.reading.conditions.kept import ConditionAnswer, ConditionStore
from twostage.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from twostage.data_files.data_file import DataFile
    from twostage.data_files.row_group import RowGroup
    from twostage.metrics import Metrics
    from twostage.reading.scan_predicate import Conjunct, ScanPredicate
    from twostage.task import ScanContext


@dataclass(frozen=True, slots=True, eq=False)
class ScanConditions:
    """The conjuncts of a scan whose answers may be kept.

    Attributes:
        store: Where they are kept.
        reading: `names.of_reading` of the scan.
        conjuncts: Those that may be kept, each with its name (`names.of_predicate`).
        others: Those that may not.
        is_hinted: Whether page indexes, dictionaries and Bloom filters are also tested with a hint.
    """

    store: ConditionStore
    reading: str
    conjuncts: tuple[tuple[Conjunct, str], ...]
    others: tuple[Conjunct, ...]
    is_hinted: bool

    @staticmethod
    def of(context: ScanContext, predicate: ScanPredicate, metrics: Metrics) -> ScanConditions | None:
        """Return the scan's conditions; None if none may be kept."""
        settings = context.settings
        if settings.filter_cache == "off" or not settings.two_stage:
            return None
        kept: list[tuple[Conjunct, str]] = []
        others: list[Conjunct] = []
        for conjunct in predicate.conjuncts:
            if not conjunct.is_optional and names.may_be_kept(conjunct.predicate):
                kept.append((conjunct, names.of_predicate(conjunct.predicate)))
            else:
                others.append(conjunct)
        if not kept:
            return None
        store = ConditionStore(settings, metrics)
        hinted = context.hint != TRUE
        return ScanConditions(store, names.of_reading(context), tuple(kept), tuple(others), hinted)

    def on(self, data_file: DataFile) -> FileConditions | None:
        """Return the conditions on an open file; None if the file has no version that identifies it."""
        version = data_file.identity
        if version is None:
            return None

        def name(conjuncts: Sequence[tuple[Conjunct, str]]) -> str:
            ids = (field_id for conjunct, _ in conjuncts for field_id in conjunct.field_ids)
            return names.of_condition(
                self.reading, data_file, version, (known for _, known in conjuncts), ids
            )

        alone = {}
        if len(self.conjuncts) + len(self.others) > 1:
            alone = {id(one[0]): name([one]) for one in self.conjuncts}
        return FileConditions(self, data_file, name(self.conjuncts), alone)


@dataclass(slots=True, eq=False)
class FileConditions:
    """The conditions on one open data file.

    Attributes:
        scan: The scan's conditions.
        data_file: The file.
        whole: The name of all conjuncts that may be kept, together.
        alone: By the `id` of a conjunct, its name; empty if it is the scan's only one.
    """

    scan: ScanConditions
    data_file: DataFile
    whole: str
    alone: dict[int, str]
    _found: dict[str, ConditionAnswer] = field(default_factory=dict)
    """This scan's answers, by name."""

    def for_row_group(self, row_group: RowGroup) -> RowGroupConditions:
        """Return the conditions on a row group."""
        return RowGroupConditions(self, row_group)

    def add(self, name: str, answer: ConditionAnswer) -> None:
        """Add an answer; it is kept once the file is closed."""
        known = self._found.get(name)
        self._found[name] = answer if known is None else known.joined(answer)

    def finish(self, ended: type[BaseException] | None, metrics: Metrics) -> None:
        """Keep the answers if the file is unchanged since it was opened; to be called once it is closed.

        Args:
            ended: What ended the read early, if anything; `GeneratorExit` if no more rows were wanted. A
                remote file is checked for changes only after its last row.
            metrics: Gains ``conditions.kept``.
        """
        found, self._found = self._found, {}
        if self.data_file.is_remote:
            is_unchanged = ended is None
        else:
            is_unchanged = ended in (None, GeneratorExit) and self.data_file.is_in_place
        if is_unchanged:
            kept = [self.scan.store.keep(name, answer) for name, answer in found.items()]
            metrics.add("conditions.kept", sum(kept))


@dataclass(slots=True, eq=False)
class RowGroupConditions:
    """The known and new answers for one row group."""

    _file: FileConditions
    _row_group: RowGroup
    _answer: ConditionAnswer | None = None
    _is_looked_up: bool = False
    _evaluated: Selection | None = None

    @property
    def is_known(self) -> bool:
        """Whether all conjuncts together have an answer: then nothing is read to rule the row group out."""
        return not self._file.scan.others and self._whole() is not None

    def narrow(self, selection: Selection, metrics: Metrics) -> tuple[Selection, tuple[Conjunct, ...] | None]:
        """Return the rows that known answers keep, and the conjuncts still to evaluate (None if nothing is known)."""
        scan, before = self._file.scan, selection.count
        metrics.add("conditions.asked")
        answer = self._whole()
        known = None if answer is None else answer.of(selection)
        left: tuple[Conjunct, ...] | None = None
        texts: list[str] = []
        if known is not None:
            selection, left = known, scan.others
            texts = [conjunct.text for conjunct, _ in scan.conjuncts]
        elif self._file.alone:
            unknown = []
            for conjunct, _ in scan.conjuncts:
                answer = self._find(self._file.alone[id(conjunct)])
                known = None if answer is None else answer.of(selection)
                if known is None:
                    unknown.append(conjunct)
                else:
                    selection = known
                    texts.append(conjunct.text)
            left = (*unknown, *scan.others) if texts else None
        if left is not None:
            metrics.add("conditions.known" if not left else "conditions.known_in_part")
            metrics.add("rows.filtered", before - selection.count)
            metrics.count_predicate(f"known: {' AND '.join(texts)}", before, selection.count, 0)
        return selection, left

    def add_none(self) -> None:
        """Add that no row meets all conjuncts, as dictionaries or Bloom filters have proven."""
        if not self._file.scan.is_hinted and not self._file.scan.others:
            num_rows = self._row_group.num_rows
            self._add(self._file.whole, Selection.all(num_rows), Selection.none(num_rows))

    def begin(self, considered: Selection, selection: Selection, *, knows_some: bool) -> None:
        """Begin to collect which rows meet the conjuncts.

        Args:
            considered: The rows that no position deletes.
            selection: Those of them that will be evaluated; known answers and page indexes rule out the
                others.
            knows_some: Whether some conjuncts are not evaluated because their answers are known.
        """
        self._evaluated = None if knows_some else selection
        if not self._file.scan.is_hinted and selection.count < considered.count:
            self.add_all(considered - selection, Selection.none(considered.num_rows))

    def add_first(self, conjunct: Conjunct, matching: Selection) -> None:
        """Add which of the evaluated rows meet the conjunct that is evaluated first."""
        name = self._file.alone.get(id(conjunct))
        if name is not None and self._evaluated is not None:
            self._add(name, self._evaluated, matching, conjunct.field_ids)

    def add_all(self, rows: Selection, matching: Selection) -> None:
        """Add which of `rows` meet all conjuncts."""
        if not self._file.scan.others:
            self._add(self._file.whole, rows, matching)

    def _add(
        self, name: str, decided: Selection, matching: Selection, field_ids: Iterable[int] | None = None
    ) -> None:
        if field_ids is None:
            field_ids = (i for conjunct, _ in self._file.scan.conjuncts for i in conjunct.field_ids)
        saved = self._file.data_file.stored_bytes(self._row_group, set(field_ids))
        undecided = CompactRows.of(Selection.all(decided.num_rows) - decided)
        self._file.add(self._named(name), ConditionAnswer(CompactRows.of(matching), undecided, saved))

    def _whole(self) -> ConditionAnswer | None:
        if not self._is_looked_up:
            self._answer, self._is_looked_up = self._find(self._file.whole), True
        return self._answer

    def _find(self, name: str) -> ConditionAnswer | None:
        return self._file.scan.store.find(self._named(name), self._row_group.num_rows)

    def _named(self, name: str) -> str:
        return f"{name}-{self._row_group.first_row}-{self._row_group.num_rows}"
