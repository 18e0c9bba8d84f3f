"""Hash anti-join of equality deletes: build from the delete files, probe with the data rows.

Takes the key sets of a task's equality deletes, then the key columns of data rows (Arrow arrays by field id);
returns a bool for each row. The rule: a row is deleted if and only if its values in the equality columns
equal those of a row of an applicable delete file with a strictly higher sequence number. Equality is that of
Iceberg-Java's comparators: NULL equals NULL, NaN equals NaN, and -0.0 does NOT equal 0.0 (see
`keys.encoding`). A NULL struct makes its fields NULL.
Source: Iceberg table spec, "Equality Delete Files".

`build_from_rows` is the reverse, for few rows and many keys; `choose` picks one of the two.
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

    from twostage.deletes.keys.intervals import KeyDomain
    from twostage.deletes.keys.key_columns import KeyField
    from twostage.deletes.keys.key_set import KeySet
    from twostage.deletes.pruning.page_proofs import KeyPages


@dataclass(frozen=True, slots=True, eq=False)
class ApplicableKeySets:
    """The key sets that apply to a task and compare the same columns.

    Attributes:
        fields: The columns to compare.
        key_sets: The keys.
        ids: For each key set, the equality ids of its delete files, including those that the partition
            decides, which are not in `fields`.
    """

    fields: tuple[KeyField, ...]
    key_sets: tuple[KeySet, ...]
    ids: tuple[tuple[int, ...], ...]


class EqualityDeletes:
    """The equality deletes of one task; falsy if there are none.

    Attributes:
        field_ids: The key columns that `deleted` needs.
    """

    is_streamed = False

    def __init__(self, applicable: Sequence[ApplicableKeySets], sequence_number: int) -> None:
        self._applicable = tuple(applicable)
        # If all keys of a set are redundant, its columns need not be read.
        self._probed = tuple(one for one in applicable if not all(keys.is_empty for keys in one.key_sets))
        self._sequence_number = sequence_number
        ids = (key.field.id for one in self._probed for key in one.fields)
        self.field_ids: tuple[int, ...] = tuple(dict.fromkeys(ids))

    def __bool__(self) -> bool:
        return bool(self._applicable)

    def deleted(self, columns: Mapping[int, pa.Array], num_rows: int) -> NDArray[np.bool_]:
        """Return which data rows are deleted.

        Args:
            columns: Key columns by field id, in the types of the scan's schema (or of ``key_fields``), with
                defaults filled in and NULL where a parent struct is NULL.
            num_rows: Rows in each of them.

        Returns:
            A bool for each row.
        """
        encoded: dict[int, KeyColumn] = {}
        result = np.zeros(num_rows, np.bool_)
        for one in self._probed:
            for key in one.fields:
                if key.field.id not in encoded:
                    encoded[key.field.id] = encode_data(columns, key)
            groups = list(group_by_nulls([encoded[key.field.id] for key in one.fields], num_rows))
            for key_set in one.key_sets:
                result |= key_set.probe(groups, num_rows, self._sequence_number)
        return result

    @property
    def is_direct(self) -> bool:
        """Whether all keys are in direct tables, where a lookup costs next to nothing."""
        return all(key_set.is_direct for one in self._probed for key_set in one.key_sets)

    def runs_without_keys(
        self, pages: KeyPages, known: Mapping[tuple[int, ...], NDArray[np.bool_]], num_rows: int
    ) -> NDArray[np.bool_]:
        """Return which runs of rows hold no key.

        Args:
            pages: The runs and their bounds.
            known: By equality ids, which runs hold no key of these delete files according to the files'
                bounds.
            num_rows: How many rows must be probed otherwise.

        Returns:
            A bool for each run.
        """
        result = np.ones(len(pages.lengths), np.bool_)
        for one in self._probed:
            widths = [words_of(key.kind) for key in one.fields]
            for ids, key_set in zip(one.ids, one.key_sets, strict=True):
                proven = known.get(ids, np.zeros(len(result), np.bool_))
                for place, key in enumerate(one.fields):
                    if proven.all() or key.kind.name not in INTEGERS:
                        continue
                    domain = key_set.domain(
                        place, widths, num_rows, partial(_proves_more, pages, key.field.id, proven)
                    )
                    if domain is not None:
                        proven = proven | pages.runs_outside(key.field.id, domain)
                result &= proven
        return result

    def none_between(self, field_id: int, low: int, high: int) -> bool:
        """Tell whether no key of any set is a number from `low` to `high`; False if unknown.

        All sets have this single column, whose words are its numbers.
        """
        return self.field_ids == (field_id,) and all(
            key_set.none_between(low, high) for one in self._probed for key_set in one.key_sets
        )


def _proves_more(pages: KeyPages, field_id: int, proven: NDArray[np.bool_], domain: KeyDomain) -> bool:
    """Tell whether `domain`, if it held all keys, would prove that further runs hold no key."""
    return bool((pages.runs_outside(field_id, domain) & ~proven).any())


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
