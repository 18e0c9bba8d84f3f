"""Equality deletes: which rows have a key that a later delete file names.

Takes the key sets of a task's equality deletes, then the key columns of data rows; gives a bool per row. The rule: a row
is deleted exactly if its values in the equality columns equal those of a row of an applicable delete file
with a strictly higher sequence number. Equal means what Iceberg-Java's comparators say: NULL equals NULL,
NaN equals NaN, and -0.0 does NOT equal 0.0 (see `keys.encoding`). A NULL struct makes its fields NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from twostage.deletes.keys.encoding import INTEGERS, KeyColumn, encode_column, group_by_nulls, words_of
from twostage.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from twostage.deletes.compiled.recorder import Recorder
    from twostage.deletes.keys.intervals import KeyDomain
    from twostage.deletes.keys.key_columns import KeyField
    from twostage.deletes.keys.key_set import KeySet
    from twostage.deletes.pruning.page_proofs import KeyPages


@dataclass(frozen=True, slots=True, eq=False)
class AppliedSet:
    """The key sets that apply to a task and have the same columns to compare."""

    fields: tuple[KeyField, ...]
    key_sets: tuple[KeySet, ...]
    ids: tuple[tuple[int, ...], ...]
    """Of each key set, the equality ids of its delete files: some of them are no more among `fields`."""


class EqualityDeletes:
    """The equality deletes of one task; false if there are none.

    Attributes:
        field_ids: The key columns that `deleted` needs.
        recorder: Is told which rows were asked about and which are deleted.
    """

    is_streamed = False

    def __init__(self, applied: Sequence[AppliedSet], sequence_number: int) -> None:
        self._applied = tuple(applied)
        # Of keys that others have made redundant nothing may be left: then no column is read for them.
        self._asked = tuple(one for one in applied if not all(keys.is_empty for keys in one.key_sets))
        self.recorder: Recorder | None = None
        self._sequence_number = sequence_number
        ids = (key.field.id for one in self._asked for key in one.fields)
        self.field_ids: tuple[int, ...] = tuple(dict.fromkeys(ids))

    def __bool__(self) -> bool:
        return bool(self._applied)

    def deleted(self, columns: Mapping[int, pa.Array], num_rows: int) -> NDArray[np.bool_]:
        """Return which data rows are deleted.

        Args:
            columns: Key columns by field id, in the types of the scan's schema (or of ``key_fields``), with
                defaults filled in and NULL where a parent struct is NULL.
            num_rows: Rows in each of them.
        """
        encoded: dict[int, KeyColumn] = {}
        result = np.zeros(num_rows, np.bool_)
        for applied in self._asked:
            for key in applied.fields:
                if key.field.id not in encoded:
                    encoded[key.field.id] = encode_data(columns, key)
            groups = list(group_by_nulls([encoded[key.field.id] for key in applied.fields], num_rows))
            for key_set in applied.key_sets:
                result |= key_set.probe(groups, num_rows, self._sequence_number)
        return result

    @property
    def is_dense(self) -> bool:
        """Whether looking a key up costs as good as nothing."""
        return all(key_set.is_dense for applied in self._asked for key_set in applied.key_sets)

    def missing(
        self, pages: KeyPages, known: Mapping[tuple[int, ...], NDArray[np.bool_]], num_rows: int
    ) -> NDArray[np.bool_]:
        """Return which runs of rows hold no key.

        Args:
            pages: What is known of the runs.
            known: Which runs hold no key of the delete files with these equality ids, as these files' bounds tell.
            num_rows: How many rows are to be asked otherwise.
        """
        result = np.ones(len(pages.lengths), np.bool_)
        for applied in self._asked:
            widths = [words_of(key.kind) for key in applied.fields]
            for ids, key_set in zip(applied.ids, applied.key_sets, strict=True):
                missed = known.get(ids, np.zeros(len(result), np.bool_))
                for place, key in enumerate(applied.fields):
                    if missed.all() or key.kind.name not in INTEGERS:
                        continue
                    domain = key_set.domain(
                        place, widths, num_rows, partial(_may_miss, pages, key.field.id, missed)
                    )
                    if domain is not None:
                        missed = missed | pages.missing(key.field.id, domain)
                result &= missed
        return result

    def none_between(self, field_id: int, low: int, high: int) -> bool:
        """Tell whether no key of any set is a number from `low` to `high`; False if that is not known.

        All sets are of this one column, whose words are its numbers.
        """
        return self.field_ids == (field_id,) and all(
            key_set.none_between(low, high) for applied in self._asked for key_set in applied.key_sets
        )


def _may_miss(pages: KeyPages, field_id: int, missed: NDArray[np.bool_], domain: KeyDomain) -> bool:
    """Tell whether keys that lie there would miss a run that is not known to be missed."""
    return bool((pages.missing(field_id, domain) & ~missed).any())


def encode_data(columns: Mapping[int, pa.Array], key: KeyField) -> KeyColumn:
    """Return the comparable form of one of the data rows' key columns."""
    try:
        return encode_column(columns[key.field.id], key.kind)
    except (KeyError, ValueError) as error:
        raise InternalError(
            "INTERNAL",
            f"Key column {key.field.id} does not fit its delete files: {error!r}",
            stage="deletes",
            hint="Please report this.",
        ) from error
