"""The named cases: each line of the list, and the tests that prove it, by writer of the tables.

A test is ``module::function``, or ``module::function@part`` for the runs whose id holds that part (``_`` for a
blank) between its hyphens. ``interop:name`` is a case of the interop suite (tables that Iceberg-Spark writes), or one of its test
functions; besides, Iceberg's own library writes the declared tables of every line (`conftest.py`), in the
combinations that `cells.py` leaves. `test_case_list.py` checks that all of them exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True)
class Line:
    """A line of the list."""

    declared: tuple[str, ...]
    """On tables written by hand."""
    spark: tuple[str, ...] = ()
    """On tables that Iceberg-Spark wrote."""
    pyiceberg: tuple[str, ...] = ()
    """On tables that PyIceberg wrote: it has no delete files, so these are deletes by copy on write, and filters."""


def _line(declared: str, spark: str = "", pyiceberg: str = "") -> Line:
    return Line(tuple(declared.split()), tuple(spark.split()), tuple(pyiceberg.split()))


_P = "test_position_deletes::test_"
_V = "test_vectors::test_"
_E = "test_equality_deletes::test_"
_M = "test_mixed_deletes::test_"
_F = "test_filters::test_"
_PY = "test_pyiceberg_writer::test_"
_KEYS = "equality_parquet_v2 equality_orc_v2 equality_avro_v2 equality_parquet_v3 equality_orc_v3 equality_avro_v3"
_POSITIONS = "position_orc_partition position_avro_file position_parquet_partition"
_TYPES = "types_v2 types_v3 data_orc data_avro data_orc_v3 data_avro_v3"
_V1 = "format_v1 format_v1_orc format_v1_avro"
_OPERATORS = f"{_F}every_operator_on_every_type_and_layout"


def _position(name: str, part: str = "", spark: str = _POSITIONS, pyiceberg: str = "") -> Line:
    return _line(f"{_P}{name}" + (f"@{part.replace(' ', '_')}" if part else ""), spark, pyiceberg)


def _key(kind: str) -> Line:
    return _line(f"{_E}one_key_column_of_every_type@{kind} {_E}two_key_columns_of_every_type@{kind}", _KEYS)


def _transform(transform: str, spark: str, pyiceberg: str = "") -> Line:
    return _line(f"{_F}every_partition_transform@{transform}", spark, pyiceberg)


_REWRITTEN = f"{_PY}rows_deleted_by_rewriting"
_IN_THREE_GROUPS = "positions_in_a_file_of_three_row_groups"
POSITION = {
    "position: first row": _position(_IN_THREE_GROUPS, "first", pyiceberg=f"{_REWRITTEN}@first"),
    "position: last row": _position(_IN_THREE_GROUPS, "last", pyiceberg=f"{_REWRITTEN}@last"),
    "position: whole file": _position(
        _IN_THREE_GROUPS, "whole file", "interop:test_tables_without_rows", f"{_PY}delete_then_insert_again"
    ),
    "position: whole row group": _line(
        f"{_P}{_IN_THREE_GROUPS}@whole_row_group {_P}a_wholly_deleted_row_group_is_not_read",
        "types_v2 types_v3",
        f"{_REWRITTEN}@row_group",
    ),
    "position: across row groups": _position(_IN_THREE_GROUPS, "across row groups"),
    "position: duplicate positions": _position("duplicates_and_disorder", spark=""),
    "position: unsorted file": _position("duplicates_and_disorder", spark=""),
    "position: several files": _position("several_delete_files_overlap"),
    "position: file naming other data files": _line(
        f"{_P}one_delete_file_for_many_data_files {_P}rows_about_unknown_files_delete_nothing",
        "position_orc_partition position_parquet_partition",
    ),
    "position: beyond the row count": _position("a_position_beyond_the_rows_deletes_nothing", spark=""),
    "position: equal sequence number applies": _position(
        "an_equal_sequence_number_applies", spark="types_v2 types_v3"
    ),
    "position: lower sequence number does not": _position("a_lower_sequence_number_does_not_apply", spark=""),
    "position: path bounds prune": _line(
        f"{_P}path_bounds_leave_delete_files_unopened {_P}a_referenced_data_file_scopes_the_delete",
        _POSITIONS,
    ),
    "position: partition-scoped": _line(
        f"{_P}deletes_of_each_partition_apply {_P}a_delete_of_another_partition_does_not_apply",
        "partitioned_identity specs_changed",
    ),
}
VECTOR = {
    **{
        f"vector: {container} container": _line(
            f"{_V}each_container_over_two_keys@{container}", "types_v3 data_orc_v3 data_avro_v3"
        )
        for container in ("array", "bitmap", "run")
    },
    "vector: containers mixed": _line(f"{_V}each_container_over_two_keys@mixed"),
    "vector: keys beyond 32 bits": _line(f"{_V}a_position_beyond_32_bits_is_an_error"),
    "vector: empty": _line(f"{_V}an_empty_vector_deletes_nothing"),
    "vector: one blob of many": _line(
        f"{_V}one_puffin_file_with_a_vector_for_each_data_file", "types_v3 data_orc_v3 data_avro_v3"
    ),
    "vector: supersedes position files": _line(f"{_V}a_vector_supersedes_positional_files", "upgraded"),
    "vector: referenced file differs": _line(
        f"{_V}the_manifest_says_whose_a_vector_is {_V}a_vector_of_a_file_that_the_table_lacks_deletes_nothing"
    ),
}
EQUALITY = {
    "equality: one column": _line(f"{_E}one_key_column_of_every_type", _KEYS),
    "equality: many columns": _line(f"{_E}two_key_columns_of_every_type", _KEYS),
    "equality: NULL equals NULL": _line(
        f"{_E}null_equals_null_in_one_of_many_columns",
        "interop:test_delete_keys_are_compared_bit_by_bit_but_for_nan",
    ),
    "equality: NaN": _line(
        f"{_E}one_key_column_of_every_type@double {_E}one_key_column_of_every_type@float",
        "interop:test_delete_keys_are_compared_bit_by_bit_but_for_nan",
    ),
    "equality: -0.0": _line(
        f"{_E}one_key_column_of_every_type@double {_E}a_predicate_never_brings_deleted_rows_back",
        "interop:test_delete_keys_are_compared_bit_by_bit_but_for_nan",
    ),
    "equality: string": _key("string"),
    "equality: binary": _key("binary"),
    "equality: decimal": _key("decimal(9,2)"),
    "equality: date": _key("date"),
    "equality: timestamp": _key("timestamp"),
    "equality: uuid": _line(f"{_E}one_key_column_of_every_type@uuid", "defaults"),
    "equality: struct leaf": _line(f"{_E}a_struct_leaf_is_a_key", "equality_struct_field"),
    "equality: column not projected": _line(f"{_E}keys_that_the_query_does_not_select", _KEYS),
    "equality: column renamed": _line(f"{_E}a_key_renamed_since", "evolved"),
    "equality: column promoted int to long": _line(f"{_E}a_key_promoted_before_and_after@int", "evolved"),
    "equality: column promoted float to double": _line(
        f"{_E}a_key_promoted_before_and_after@float", "evolved"
    ),
    "equality: column dropped": _line(
        f"{_E}a_key_dropped_since", "evolved interop:test_key_dropped_and_its_name_used_again"
    ),
    "equality: column added after the data": _line(f"{_E}a_key_added_after_the_data", "defaults"),
    "equality: global": _line(f"{_E}a_global_delete_reaches_every_partition_and_spec", "specs_changed void"),
    "equality: other partition": _line(f"{_E}a_partition_s_delete_stays_in_its_partition", "specs_changed"),
    "equality: strictly lower sequence number": _line(
        f"{_E}a_strictly_higher_sequence_number_is_needed", _KEYS
    ),
    "equality: several schemas in one scan": _line(f"{_E}several_schemas_of_keys_in_one_scan", "evolved"),
    "equality: bounds prune only without NULL": _line(f"{_E}delete_bounds_prune_only_without_nulls", _KEYS),
}
MIXED = {
    "mixed: all three on one file": _line(f"{_M}positions_vector_and_equality_on_one_file", "upgraded"),
    "mixed: delete then insert again": _line(
        f"{_M}delete_then_insert_again {_E}delete_then_insert_again", _KEYS, f"{_PY}delete_then_insert_again"
    ),
    "mixed: filter on a deleted column": _line(f"{_M}a_filter_on_the_deleted_column", _KEYS),
    "mixed: filter and limit": _line(f"{_M}a_filter_and_a_limit {_M}a_limit_and_the_next_read", "types_v2"),
    "mixed: count(*) with deletes": _line(f"{_M}a_count_without_columns", f"{_KEYS} {_POSITIONS}"),
    "mixed: filter answered exactly and at most": _line(
        f"{_M}a_filter_that_bounds_answer_exactly_and_at_most",
        "interop:test_bloom_filters_of_parquet_mr_prune",
    ),
}
_ALL = f"{_TYPES} {_V1}"
_BY_PY = f"{_PY}every_operator"
FILTERS = {
    "filter: = <> < <= > >= <=> IN NOT": _line(_OPERATORS, _ALL, _BY_PY),
    "filter: LIKE": _line(f"{_F}like", _TYPES, _BY_PY),
    "filter: two columns": _line(
        f"{_F}two_columns_compared", "types_v2 types_v3", f"{_PY}two_columns_compared"
    ),
    "filter: NULL": _line(f"{_F}three_valued_logic {_F}an_or_of_different_columns_with_nulls", _ALL, _BY_PY),
    "filter: NaN": _line(f"{_OPERATORS}@double {_F}all_null_and_all_nan_columns", _ALL, _BY_PY),
    "filter: missing statistics": _line(
        f"{_OPERATORS}@no_statistics {_OPERATORS}@counts_only", "constant", _BY_PY
    ),
    "filter: truncated bounds": _line(f"{_OPERATORS}@string {_OPERATORS}@binary", _TYPES, _BY_PY),
    "filter: edges of Unicode": _line(f"{_OPERATORS}@string {_F}like", _TYPES, _BY_PY),
    "filter: all-NULL page": _line(
        f"{_OPERATORS}@one_row_a_group {_F}all_null_and_all_nan_columns", "types_v2", _BY_PY
    ),
    "filter: absent column": _line(
        f"{_F}a_column_that_older_files_lack", "evolved defaults", f"{_PY}evolved_schema"
    ),
    "filter: promoted column": _line(
        f"{_F}a_promoted_column_with_bounds_of_both_widths {_F}a_widened_column_is_compared_as_the_wider_type",
        "evolved",
        f"{_PY}evolved_schema",
    ),
    "filter: field of a struct": _line(f"{_F}fields_of_structs", _ALL, _BY_PY),
    "filter: partition by identity": _transform(
        "identity",
        "partitioned_identity partitioned_string partitioned_double",
        f"{_PY}identity_partitions",
    ),
    "filter: partition by bucket": _transform("bucket[3]", "partitioned_bucket partitioned_hours"),
    "filter: partition by truncate": _transform(
        "truncate[3]", "partitioned_truncate partitioned_truncate_more"
    ),
    "filter: partition by day": _transform("day", "partitioned_times"),
    "filter: partition by void": _transform(
        "void", "void", f"{_PY}specs_that_changed@v1 {_PY}a_void_partition"
    ),
    "filter: partition specs that changed": _line(
        f"{_F}an_evolved_spec_prunes_each_file_by_its_own", "specs_changed", f"{_PY}specs_that_changed"
    ),
}
CASES = POSITION | VECTOR | EQUALITY | MIXED | FILTERS


def runs(name: str, names: Iterable[str]) -> list[str]:
    """Return the runs of a test that the list names."""
    function, _, part = name.partition("@")
    mine = [found for found in names if found.partition("[")[0] == function]
    return [found for found in mine if not part or part.replace("_", " ") in _parts(found)]


def _parts(name: str) -> set[str]:
    """Return the parameters of a test id, of which one may hold hyphens or brackets itself."""
    inside = name.partition("[")[2].removesuffix("]").replace("_", " ")
    cut = inside.split("-")
    return {"-".join(cut[i:j]) for i in range(len(cut)) for j in range(i + 1, len(cut) + 1)}
