"""Where each line of the security list is tested, and the lines about the repository itself."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from pathlib import Path

import pytest

from figures import record

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"

LINES = {
    "a local file as data path of a remote table": [
        "unit/storage/test_location.py::test_refused",
        "security/test_paths_and_bombs.py::test_files_outside_a_remote_table_are_refused_while_planning",
    ],
    "another bucket, allowed by name only": [
        "unit/storage/test_location.py::test_refused",
        "unit/storage/test_location.py::test_allowed_locations_are_prefixes",
    ],
    "dots and percent-encoded dots": [
        "unit/storage/test_location.py::test_allowed",
        "unit/storage/test_files.py::test_moved_paths_with_dots_are_refused",
        "security/test_paths_and_bombs.py::test_percent_encoded_dots_are_names_and_lead_nowhere",
    ],
    "a symbolic link out of the warehouse": [
        "unit/storage/test_files.py::test_a_symbolic_link_does_not_lead_out_of_a_moved_table",
        "security/test_paths_and_bombs.py::test_a_symbolic_link_in_a_local_warehouse_is_followed",
    ],
    "newline and ANSI escapes in errors": [
        "unit/storage/test_location.py::test_control_characters_in_a_path_are_escaped",
        "unit/storage/test_files.py::test_what_metadata_says_is_escaped_in_hints_too",
        "security/test_paths_and_bombs.py::test_control_characters_of_a_path_are_escaped_in_errors",
    ],
    "a pickle where a file of the table is expected": [
        "security/test_no_code_from_data.py::test_a_pickle_in_every_place",
        "security/test_no_code_from_data.py::test_the_hook_sees_what_it_looks_for",
    ],
    "code named by a table's or server's properties": [
        "unit/catalog/test_properties.py::test_only_file_properties_travel",
        "security/test_no_code_from_data.py::test_a_pickle_in_every_place",
    ],
    "JSON and Avro nested too deep": [
        "security/test_paths_and_bombs.py::test_metadata_nested_too_deep_is_damaged",
        "security/test_paths_and_bombs.py::test_a_schema_nested_too_deep_is_refused",
        "security/test_paths_and_bombs.py::test_an_avro_schema_nested_too_deep_is_damaged",
    ],
    "size bombs": [
        "unit/table/test_manifest.py::test_a_bomb_is_refused",
        "unit/table/test_manifest.py::test_arrays_of_nothing_are_refused",
        "unit/table/test_metadata.py::test_a_gzip_bomb_is_refused",
        "security/test_paths_and_bombs.py::test_a_metadata_file_larger_than_the_limit_is_not_read",
        "unit/deletes/positions/test_deletion_vector.py::test_bad_blobs",
    ],
    "hostile sizes in an index": [
        "security/test_index_place.py::test_hostile_sizes_take_no_memory_and_end_no_scan",
        "unit/indexes/test_puffin.py::test_made_up_footers_are_refused",
        "unit/indexes/test_puffin.py::test_a_footer_that_claims_any_size_is_refused_before_it_is_read",
        "unit/indexes/test_data_file_index.py::test_made_up_directories_end_in_a_warning_or_an_answer",
    ],
    "who may write the place of indexes": [
        "security/test_index_place.py::test_indexes_inside_the_table_are_never_read_nor_made",
        "security/test_index_place.py::test_indexes_of_another_table_or_data_file_serve_none",
        "unit/indexes/test_place.py::test_beside_the_table",
        "unit/indexes/test_place.py::test_not_where_the_table_keeps_data",
    ],
    "secrets in no repr": [
        "security/test_secrets.py::test_the_repr_of_every_plain_value",
        "unit/catalog/test_path_table.py::test_pinned_table_pickles_and_hides_secrets",
        "unit/test_options.py::test_catalog_properties_keep_their_names_and_stay_out_of_repr",
    ],
    "secrets in no error": [
        "security/test_secrets.py::test_errors_of_options_catalogs_and_storage",
        "security/test_secrets.py::test_errors_of_each_stage",
        "unit/storage/test_files.py::test_secrets_stay_out_of_errors_and_reprs",
        "unit/catalog/test_load_table.py::test_secrets_stay_out",
        "faults/test_storage_faults.py::test_credentials_that_are_refused",
        "spark/test_spark_secrets.py::test_errors_while_loading",
        "spark/test_spark_secrets.py::test_errors_in_workers",
    ],
    "secrets in no log, output or report": ["security/test_secrets.py::test_a_whole_read"],
    "secrets in no plan and not in Spark's UI": [
        "spark/test_spark_secrets.py::test_plans_the_ui_and_the_report",
        "spark/test_spark_secrets.py::test_sql_with_options",
        "spark/test_spark_secrets.py::test_a_sql_catalog",
    ],
    "NUMBA_CACHE_DIR that others can write": [
        "security/test_kernel_cache.py::test_a_cache_that_others_can_write_is_off_with_one_warning",
        "security/test_kernel_cache.py::test_a_payload_in_a_cache_that_others_can_write_is_not_loaded",
        "unit/native/test_jit.py::test_private_directories",
    ],
    "no file and no network at import": [
        "security/test_no_code_from_data.py::test_importing_touches_no_file_and_no_network",
        "packaging/test_house_rules.py::test_importing_the_source_is_light",
    ],
    "dependencies pinned by hash": ["security/test_checklist.py::test_every_dependency_is_locked_by_hash"],
    "no binary file of unknown origin": [
        "security/test_checklist.py::test_binary_files_are_listed_with_their_origin"
    ],
}

_EVENTS = "tests/unit/advisor/spark_4.1.4"
_ROLLED = f"{_EVENTS}_rolled_zstd/eventlog_v2_local-1795576433316"
BINARY_FILES: dict[str, str] = {
    f"{_EVENTS}_lz4/local-1795576438222.lz4": "an event log of queries of this project's, written by PySpark 4.1.4",
    **{
        f"{_ROLLED}/events_{number}_local-1795576433316.zstd": "one in parts, written by PySpark 4.1.4"
        for number in range(1, 5)
    },
}
"""Tracked files that are no text, by path from the root, and where each comes from."""


@pytest.mark.parametrize("line", LINES)
def test_a_line_has_its_tests(line):
    assert LINES[line]
    for name in LINES[line]:
        path, _, function = name.partition("::")
        tree = ast.parse((TESTS / path).read_text())
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}, name


def test_the_list_is_counted():
    record("R13", lines=len(LINES), tested=sum(bool(tests) for tests in LINES.values()))
    assert all(LINES.values())


def test_every_dependency_is_locked_by_hash():
    """`make release` installs from this file, without an index for the rest, so that what it lacks is missed there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    lock = tomllib.loads((ROOT / "pylock.toml").read_text())
    packages = {package["name"]: package for package in lock["packages"]}
    extras = project["project"]["optional-dependencies"]
    wanted = [*project["project"]["dependencies"], *extras["spark"], *extras["sql"]]
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    for text in wanted:
        requirement = Requirement(text)
        package = packages[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(package["version"], prereleases=True), text
    for package in packages.values():
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        assert files, package["name"]
        assert all(len(file["hashes"]["sha256"]) == 64 for file in files), package["name"]


def test_binary_files_are_listed_with_their_origin():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("not a checkout")
    binary = set()
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file():
            data = path.read_bytes()
            try:
                data.decode()
            except UnicodeDecodeError:
                binary.add(name)
            if b"\0" in data:
                binary.add(name)
    assert binary == BINARY_FILES.keys()
    assert all(BINARY_FILES.values())
