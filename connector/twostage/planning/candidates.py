"""From a chosen data file to a `Candidate`: its task, and the bytes that reading it is expected to take.

Takes manifest entries with the deletes that apply. A file that we cannot read is refused here, by name: only
files that would be read get this far.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from twostage.errors import CorruptFileError, ForbiddenLocationError, UnsupportedFeatureError, mask
from twostage.planning.schema_history import partition_source_types
from twostage.planning.splits import Candidate
from twostage.predicates.predicate import columns
from twostage.schema import leaves
from twostage.storage.files import canonical_for, locate
from twostage.table.transforms import constants
from twostage.task import ScanTask

if TYPE_CHECKING:
    from twostage.options import ReadSettings
    from twostage.predicates.predicate import Predicate
    from twostage.predicates.top import TopRows
    from twostage.schema import Field
    from twostage.table.manifest_entry import ContentFile
    from twostage.table.metadata_columns import MetadataColumnValues
    from twostage.table.pinned import PinnedTable
    from twostage.task import DeleteFile

DATA_FORMATS = ("parquet", "orc", "avro")
STAGE_TWO_SHARE = 0.25
"""Of the bytes of columns that no filter reads, the share that stage two is expected to read."""
TOP_N_STAGE_TWO_SHARE = 0.02
"""The same for a top-n scan: of columns that neither filter nor sort reads."""
OPEN_COST_BYTES = 256 * 2**10
"""Cost of opening a file and reading its footer, in bytes."""


class CandidateBuilder:
    """Builds the candidates of one scan.

    Args:
        table: The pinned table.
        settings: The scan's settings.
        projection: The columns to return.
        predicate: The predicate that we evaluate.
        top: The scan's top-n, if any.
        file_columns: The metadata columns that the scan uses.
    """

    def __init__(
        self,
        table: PinnedTable,
        settings: ReadSettings,
        projection: tuple[Field, ...],
        predicate: Predicate,
        top: TopRows | None,
        file_columns: MetadataColumnValues,
    ) -> None:
        self._table = table
        self._settings = settings
        self._top = top
        self._file_columns = file_columns
        self._written: dict[str, str] = {}
        self.cost_of_all_rows = 0
        """Expected bytes of all candidates if stage two read every row."""
        self.with_key_metadata: dict[str, str] = {}
        """The kind of each located data file that has key metadata, by path."""
        self._filter_ids = {
            leaf.id
            for column in columns(predicate)
            if column.field_id in table.schema
            for leaf in leaves(table.schema.field(column.field_id))
        }
        if top is not None:
            self._filter_ids.add(top.column.field_id)
        self._select_ids = {leaf.id for field in projection for leaf in leaves(field)}
        self._num_leaves = max(1, sum(1 for field in table.schema.fields for _ in leaves(field)))
        self._source_types = partition_source_types(table)

    def build(
        self, file: ContentFile, deletes: tuple[DeleteFile, ...], delete_set: str | None, *, all_match: bool
    ) -> Candidate:
        """Return the task of a whole data file, with its cost.

        Args:
            file: Its manifest entry.
            deletes: The delete files that apply.
            delete_set: See `DeleteIndex.fingerprint_before_pruning`.
            all_match: Whether the predicate is true for every row.
        """
        _refuse_unreadable(file)
        table = self._table
        try:
            values = constants(table.metadata.specs[file.spec_id], file.partition, self._source_types)
        except CorruptFileError as error:
            error.path = mask(file.path)
            raise
        path = self._locate(file.path)
        if file.key_metadata:
            self.with_key_metadata[path] = "Data file"
        task = ScanTask(
            path=path,
            written_path=file.path,
            format=file.format,
            file_size=file.file_size,
            record_count=file.record_count,
            start=0,
            length=file.file_size,
            sequence_number=file.sequence_number,
            spec_id=file.spec_id,
            constants={**values, **self._file_columns.constants(file, has_deletes=bool(deletes))},
            deletes=deletes,
            delete_set=delete_set,
            first_row_id=file.first_row_id,
            all_match=all_match,
        )
        return Candidate(task=task, cost=self._cost(file, task), split_offsets=file.split_offsets)

    def _locate(self, written: str) -> str:
        """Return the location of a data file; refuse a moved table if two of its files map to one location."""
        storage = self._table.storage
        path = locate(storage, written)
        if storage.moved_from is not None:
            canonical = canonical_for(storage)
            other = self._written.setdefault(path, written)
            if canonical(other) != canonical(written):
                raise ForbiddenLocationError(
                    "AMBIGUOUS_LOCATION",
                    f"Two data files of the moved table resolve to one file: {other} and {written}",
                    path=path,
                    stage="plan",
                    hint="Only one of them was copied; name the folder of the other in allowed-locations.",
                )
        return path

    def _cost(self, file: ContentFile, task: ScanTask) -> int:
        """Estimate the bytes that reading the file takes: stage one in full, and a share of stage two."""
        key_ids = {field_id for delete in task.deletes for field_id in delete.equality_ids}
        filtering = key_ids if task.all_match else key_ids | self._filter_ids
        share = STAGE_TWO_SHARE if filtering and self._settings.two_stage else 1.0
        if self._top is not None and self._settings.two_stage:
            filtering, share = filtering | {self._top.column.field_id}, TOP_N_STAGE_TWO_SHARE
        if file.column_sizes:
            sizes = file.column_sizes
            stage_one = sum(sizes.get(field_id, 0) for field_id in filtering)
            stage_two = sum(sizes.get(field_id, 0) for field_id in self._select_ids - filtering)
        else:
            per_leaf = file.file_size / self._num_leaves
            stage_one, stage_two = (
                int(per_leaf * len(filtering)),
                int(per_leaf * len(self._select_ids - filtering)),
            )
        self.cost_of_all_rows += OPEN_COST_BYTES + stage_one + stage_two
        return OPEN_COST_BYTES + stage_one + int(share * stage_two)


def _refuse_unreadable(file: ContentFile) -> None:
    if file.format not in DATA_FORMATS:
        raise UnsupportedFeatureError(
            "UNSUPPORTED_FILE_FORMAT",
            f"Data file has a format that is not supported: {file.format}",
            path=file.path,
            stage="plan",
            hint="Supported: Parquet, ORC and Avro.",
        )
