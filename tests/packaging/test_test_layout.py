"""Tests stand where CONTRIBUTING says: a module's tests under its name; nothing imports a test module, or from `interop`."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT, TESTS = ROOT / "connector" / "twostage", ROOT / "tests"
KERNELS = ROOT / "native" / "twostage_native"
UNIT = TESTS / "unit"
FOLDERS = {
    *("unit", "shared", "cases", "differential", "predicates", "fuzz", "bad_bytes", "corpora", "real_tables"),
    *("changes", "faults", "findings", "io", "leaks", "memory", "security", "packaging", "spark"),
}
"""What CONTRIBUTING.md says is in each."""

TRIVIAL = {
    "data_files/row_group.py": "two dataclasses without methods",
    "reading/payoff.py": "one comparison, whose docstring has its example",
    "storage/store_client.py": "two dataclasses, an exception and a protocol",
    "table/pinned.py": "a dataclass; its repr is in unit/catalog/test_path_table.py",
}
"""Modules that need no test file, with the reason."""

TESTED_ELSEWHERE = {
    # With a Spark session.
    "spark/answers.py": "spark/test_spark_messages.py",
    "spark/requests.py": "spark/test_spark_messages.py",
    "spark/context_reports.py": "spark/test_spark_report.py",
    "spark/task_outcomes.py": "spark/test_spark_stopped.py",
    "spark/aggregates.py": "spark/test_spark_aggregates.py",
    "spark/bridge.py": "spark/test_spark_planner.py",
    "spark/catalogs.py": "spark/test_spark_catalog.py",
    "spark/driver_confs.py": "spark/test_spark_driver_confs.py",
    "spark/advise_table.py": "spark/test_spark_advise.py",
    "spark/index_jobs.py": "spark/test_spark_index.py",
    "spark/report_listener.py": "spark/test_spark_report_listener.py",
    "spark/session.py": "spark/test_spark_sessions.py",
    "spark/source.py": "spark/test_spark_planner.py",
    "spark/stopped_tasks.py": "spark/test_spark_stopped.py",
    "spark/task_reports.py": "spark/test_spark_report.py",
    "spark/usable_session.py": "spark/test_spark_usable_session.py",
    "spark/worker_errors.py": "spark/test_spark_errors.py",
    # As a user runs it.
    **{
        f"doctor/{name}.py": "unit/doctor/test_doctor.py"
        for name in ("catalogs", "examine", "installation", "session")
    },
    **{
        f"doctor/{name}.py": "unit/doctor/test_doctor.py"
        for name in ("spark_trial", "trial_table", "workers")
    },
    "__main__.py": "unit/maintenance/test_compile_deletes.py",
    # Every kind of index, of every type, against the filter.
    **{f"indexes/{name}.py": "unit/indexes/test_data_file_index.py" for name in ("build", "kind")},
    "indexes/kinds/bins.py": "unit/indexes/test_data_file_index.py",
    # As a table's owner runs it.
    **{
        f"maintenance/{name}.py": "unit/maintenance/test_table_indexes.py"
        for name in ("index_arguments", "index_command", "index_runs", "lacking_files")
    },
    "indexes/file_key_runs.py": "unit/indexes/test_file_keys.py",
    "indexes/file_stamp.py": "unit/maintenance/test_index_files.py",
    "indexes/of_files.py": "unit/indexes/test_remote_indexes.py",
    "deletes/files/orc.py": "unit/deletes/files/test_columns.py",
    "deletes/files/parquet.py": "unit/deletes/files/test_columns.py",
    "deletes/positions/read_together.py": "io/test_remote_driver.py",
    "spark/planning_requests.py": "io/test_remote_planning.py",
    "storage/driver_reads.py": "io/test_remote_driver.py",
    "storage/lone_request.py": "unit/storage/test_folders.py",
    # Kernels beside their twins.
    **{f"native/{name}.py": "unit/native/test_kernels.py" for name in ("compare", "members", "reference")},
    "native/compile_now.py": "unit/native/test_compile_apart.py",
    "native/page_values_reference.py": "unit/native/test_page_values.py",
    "native/probe_reference.py": "unit/native/test_probe.py",
    "native/spark_bloom.py": "unit/predicates/test_key_bloom.py",
    "native/spark_bloom_reference.py": "unit/predicates/test_key_bloom.py",
    "native/avro_walk.py": "unit/aggregates/test_row_counts.py",
    "native/avro_walk_reference.py": "unit/aggregates/test_row_counts.py",
}
"""Modules whose tests are in a file of another name."""


def modules() -> set[str]:
    """Return the product's modules, as paths from its root; those of the kernels as ``native/…``."""
    connector = {path.relative_to(PRODUCT).as_posix() for path in PRODUCT.rglob("*.py")}
    kernels = {f"native/{path.relative_to(KERNELS).as_posix()}" for path in KERNELS.rglob("*.py")}
    return {path for path in connector | kernels if not path.endswith("__init__.py")}


def expected_file(module: str) -> Path:
    """Return where the tests of a module stand."""
    path = Path(module)
    return UNIT / path.parent / f"test_{path.stem.strip('_')}.py"


def test_each_module_has_its_test_file():
    without = {module for module in modules() if not expected_file(module).exists()}
    assert sorted(without - TRIVIAL.keys() - TESTED_ELSEWHERE.keys()) == []


def test_no_module_is_listed_that_has_its_test_file_or_is_no_more():
    listed = [*TRIVIAL, *TESTED_ELSEWHERE]
    assert [module for module, times in Counter(listed).items() if times > 1] == []
    assert sorted(set(listed) - modules()) == []
    assert sorted(module for module in listed if expected_file(module).exists()) == []
    assert [place for place in TESTED_ELSEWHERE.values() if not (TESTS / place).exists()] == []


def test_folders_of_tests_are_those_that_contributing_names():
    assert {path.parts[len(TESTS.parts)] for path in TESTS.rglob("*/*.py")} == FOLDERS
    named = (
        (ROOT / "CONTRIBUTING.md").read_text().partition("## Where a test belongs")[2].partition("\n## ")[0]
    )
    assert [name for name in FOLDERS if f"`{name}`" not in named and f"tests/{name}" not in named] == []


def test_folders_of_unit_tests_are_packages_of_the_product():
    """With an ``__init__.py``: the same file name occurs in several of them. Elsewhere names are unique."""
    for folder in {path.parent for path in UNIT.rglob("test_*.py")}:
        name = folder.relative_to(UNIT)
        assert (folder / "__init__.py").exists(), folder
        assert name == Path("native") or (PRODUCT / name).is_dir(), folder
    elsewhere = [
        path for path in TESTS.rglob("*.py") if not path.is_relative_to(UNIT) and path.stem != "__init__"
    ]
    names = Counter(path.stem for path in elsewhere if path.stem.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []


def imports(path: Path) -> set[str]:
    """Return the modules that a module imports anywhere in it, and the names that it takes from them, each in full."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found.update((module, *(f"{module}.{alias.name}" for alias in node.names)))
    return found


def test_nothing_imports_from_interop():
    """Interop may import from `tests/shared`; the tests run where Iceberg's library is not."""
    theirs = {path.stem for path in (ROOT / "interop").glob("*.py")} - {"conftest"}
    ours = {path.stem for path in TESTS.rglob("*.py")}
    imported = {(name, path.name) for path in TESTS.rglob("*.py") for name in imports(path)}
    assert {(name, user) for name, user in imported if name in theirs - ours} == set()


def test_nothing_imports_a_test_module():
    """What two of them need is in a module of its own name: tests only are in a test module."""
    places = ("connector", "native", "tests", "interop", "benchmarks", "examples", "docs", "release")
    modules = [path for place in places for path in (ROOT / place).rglob("*.py")]
    tests = {path.stem for path in modules if path.stem.startswith("test_")}
    assert len(tests) > 300
    imported = {(name, path.relative_to(ROOT).as_posix()) for path in modules for name in imports(path)}
    assert sorted((name, user) for name, user in imported if tests & set(name.split("."))) == []
