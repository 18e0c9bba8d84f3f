"""The rows of the scoreboard, as data: which tests record a row's figures, and what these must be (its gates).

Defines `ROWS`. Sizes are those of a pull request, or with TWOSTAGE_FULL=1 the nightly ones. A gate raises
KeyError if its figure was not recorded: that is "not measured", never "passed".
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

FULL = os.environ.get("TWOSTAGE_FULL") == "1"
RECORDS = "all records"
"""Among a row's figures, the recorded lines themselves."""
Figures = dict[str, Any]


@dataclass(frozen=True)
class Gate:
    """A condition on a row's figures. `holds` raises KeyError if a figure is missing."""

    text: str
    holds: Callable[[Figures], bool]


@dataclass(frozen=True)
class Row:
    """A row: the tests that record its figures, and what these must be."""

    id: str
    title: str
    tests: tuple[str, ...]
    gates: tuple[Gate, ...]
    environment: tuple[tuple[str, str], ...] = ()
    program: tuple[str, ...] = ("-m", "pytest")
    """Python's arguments to run the tests; pytest's arguments follow."""


def at_least(name: str, small: int, full: int | None = None) -> Gate:
    """Return the gate that a figure is at least this, at a pull request's size and nightly."""
    wanted = full if FULL and full is not None else small
    return Gate(f"{name} ≥ {wanted:,}", lambda figures: figures[name] >= wanted)


def at_most(name: str, small: float, full: float | None = None) -> Gate:
    """Return the gate that a figure is at most this."""
    wanted = full if FULL and full is not None else small
    return Gate(f"{name} ≤ {wanted:,}", lambda figures: figures[name] <= wanted)


def all_zero(*names: str) -> Gate:
    """Return the gate that these figures are 0."""
    return Gate(f"0 {', '.join(names)}", lambda figures: not any(figures[name] for name in names))


def nightly(gate: Gate) -> tuple[Gate, ...]:
    """Return a gate for the nightly sizes only."""
    return (gate,) if FULL else ()


def each_line(text: str, figure: str, holds: Callable[[Figures], bool], lines: int) -> Gate:
    """Return the gate that every recorded line with this figure holds, and that there are at least `lines`."""

    def check(figures: Figures) -> bool:
        found = [line for line in figures[RECORDS] if figure in line]
        if not found:
            raise KeyError(figure)
        return len(found) >= lines and all(map(holds, found))

    return Gate(text, check)


CELLS, RUNS = 36, 10 if FULL else 1
"""Named cells of the fault matrix, and runs of each. A test records a run that ended as expected."""


def runs_by_cell(lines: Iterable[Figures]) -> Counter[str]:
    """Return how many runs of each cell of the fault matrix were recorded."""
    return Counter(line["cell"] for line in lines if "cell" in line)


def every_cell(figures: Figures) -> bool:
    """Tell whether there are enough cells, each with enough runs."""
    runs = runs_by_cell(figures[RECORDS])
    return len(runs) >= CELLS and min(runs.values()) >= RUNS


def nothing_skipped(figures: Figures) -> bool:
    """Tell whether all tests ran; skipped ones measure nothing."""
    if figures["tests_skipped"]:
        raise KeyError("tests_skipped")
    return True


COVERED_PACKAGES = ("reading", "deletes", "planning", "predicates")
MIN_BRANCH_PERCENT = 92
"""Of the branches of each of these packages (row R16), which its tests must take."""
WITHOUT_SPARK = tuple(
    f"--ignore=tests/{folder}"
    # The last two measure memory and descriptors, which a tracer uses, too.
    for folder in ("spark", "predicates", "faults", "packaging", "memory", "leaks")
)
WHEEL = "test_the_wheel_holds_every_source_and_nothing_else"
DIFFERENTIAL = ("tests/differential/test_differential.py", "-k", "oracles")
INDEXED = "tests/differential/test_indexes.py"
"""Random tables with indexes; its tests belong to R1 (oracles) and R2 (every configuration)."""
COMPILED = (("TWOSTAGE_JIT", "always"),)
ROWS = (
    Row(
        "R1",
        "Differential: random (table, query) pairs against brute force and DuckDB, and through Spark by both readers",
        ("tests/spark/test_spark_differential.py", INDEXED, *DIFFERENTIAL),
        (
            at_least("pairs", 1_000, 10_000),
            all_zero("mismatches"),
            at_least("indexed_pairs", 50, 2_000),
            all_zero("indexed_mismatches"),
            at_least("spark_pairs", 60, 1_000),
            all_zero("spark_mismatches"),
        ),
        (*COMPILED, ("TWOSTAGE_PAIRS", "10000" if FULL else "1000")),
    ),
    Row(
        "R1b",
        "… and they exercise what they should",
        DIFFERENTIAL,
        (
            Gate("non-empty ≥ 60 %", lambda figures: figures["non_empty"] >= 0.6),
            Gate("a row group skipped in ≥ 30 %", lambda figures: figures["row_group_skipped"] >= 0.3),
            *nightly(at_least("rarest_cell_hits", 20)),
        ),
        (*COMPILED, ("TWOSTAGE_PAIRS", "10000" if FULL else "1000")),
    ),
    Row(
        "R2",
        "The same rows in every configuration",
        (INDEXED, "tests/differential/test_differential.py", "-k", "configuration"),
        (
            at_least("pairs", 200, 2_000),
            at_least("configurations", 8, 16),
            all_zero("differences"),
            at_least("indexed_configurations", 18),
            all_zero("indexed_differences"),
        ),
        (*COMPILED, ("TWOSTAGE_SAME_PAIRS", "2000" if FULL else "200")),
    ),
    Row(
        "R3",
        "Named delete and filter cases",
        ("tests/cases",),
        (
            at_least("cases", 70),
            Gate("all pass", lambda figures: figures["passed"] == figures["cases"]),
            Gate("every cell that ran passed", lambda figures: figures["cells_passed"] == figures["cells"]),
            *nightly(
                Gate("every possible cell ran", lambda figures: figures["cells"] == figures["cells_possible"])
            ),
        ),
    ),
    Row(
        "R4",
        "Kernels equal their definition, and so do their NumPy twins",
        ("tests/unit/native",),
        (at_least("examples", 200, 5_000), at_least("kernels", 10)),
    ),
    Row(
        "R5",
        "Bad inputs end in typed errors that name file and stage",
        ("tests/bad_bytes", "tests/fuzz"),
        (
            at_least("corpus_files", 146),
            at_least("made_cases", 60),
            at_least("mutations", 150, 4_000),
            at_least("index_mutations", 16, 400),
            all_zero("crashes", "hangs", "over_memory", "untyped", "index_not_ignored"),
        ),
    ),
    Row(
        "R6",
        "Silent corruption of checksummed files",
        ("tests/fuzz", "tests/spark/test_spark_native_flips.py"),
        (
            at_least("flips", 220, 5_000),
            at_least("index_flips", 88, 1_500),
            all_zero("silent", "index_flips_not_ignored"),
            at_least("native_flips", 100, 1_000),  # through Spark's own reader, when it scans for us
            all_zero("native_silent"),
        ),
    ),
    Row(
        "R7",
        "Faults survived with exact rows",
        ("tests/faults", "tests/spark/test_spark_store_faults.py"),
        (Gate(f"cells ≥ {CELLS}, each run ≥ {RUNS} times", every_cell),),
    ),
    Row(
        "R8",
        "Equality deletes: memory for 10 M keys, MiB above the process's own",
        ("tests/memory/test_delete_memory.py", "-k", "keys"),
        (
            at_most("10m_longs_mib", 250),
            *nightly(at_most("50m_longs_mib", 1_200)),
            *nightly(at_most("10m_long_text_mib", 900)),
            Gate(
                "above the budget a typed error within 1 s of loading",
                lambda figures: (
                    figures["over_budget"] == "DELETE_KEYS_TOO_LARGE" and figures["over_budget_seconds"] <= 1
                ),
            ),
        ),
    ),
    Row(
        "R9",
        "Positions: memory for 100 M in one file, in runs and one in eight at random, MiB",
        ("tests/memory/test_delete_memory.py", "-k", "positions"),
        (
            at_most("runs_mib", 64),
            at_most("random_mib", 200),
            *nightly(at_most("file_runs_mib", 64)),
            *nightly(at_most("file_random_mib", 200)),
        ),
    ),
    Row(
        "R10",
        "Read amplification: bytes read / bytes needed; golden I/O traces",
        ("tests/io",),
        (
            each_line(
                "≤ 1.3 at 0.01 %, 1.5 at 1 %, 1.1 at 50 %",
                "amplification",
                lambda line: (
                    line["amplification"] <= {0.0001: 1.3, 0.01: 1.5, 0.5: 1.1}.get(line["share"], 1.0)
                ),
                3,
            ),
        ),
    ),
    Row(
        "R11",
        "No leak: growth over many reads, MiB; descriptors and threads return",
        ("tests/leaks", "tests/spark/test_spark_workers.py"),
        (
            at_least("reads_v2", 200, 2_000),
            at_least("reads_v3", 200, 2_000),
            at_most("rss_growth_mib_v2", 5, 10),
            at_most("rss_growth_mib_v3", 5, 10),
            at_most("spark_rss_growth_mib", 5, 10),
        ),
    ),
    Row(
        "R12",
        "Reads while the table changes: one committed snapshot, or MISSING_FILE",
        ("tests/changes", "tests/spark/test_spark_changes.py"),
        (
            Gate(
                f"loops of both kinds ≥ {500 if FULL else 20}",
                lambda figures: figures["loops"] + figures["catalog_loops"] >= (500 if FULL else 20),
            ),
            all_zero("mixed"),
            at_least("indexed_loops", 10, 200),
            all_zero("indexed_mixed"),
        ),
    ),
    Row(
        "R13",
        "Security checks, each line of the list with its tests",
        ("tests/security", "tests/spark/test_spark_secrets.py"),
        (
            at_least("lines", 12),
            Gate("every line tested", lambda figures: figures["tested"] == figures["lines"]),
        ),
    ),
    Row(
        "R14",
        "Import of pyspark_twostage over bare pyspark",
        ("tests/packaging/test_import_time.py",),
        (at_most("seconds", 0.1), all_zero("heavy_modules")),
    ),
    Row(
        "R15",
        "Wheel and editable install are discovered by Spark; the wheel holds exactly the sources",
        ("tests/spark/test_spark_install.py", f"tests/packaging/test_house_rules.py::{WHEEL}"),
        (at_least("tests_passed", 2), Gate("no test skipped", nothing_skipped)),
    ),
    Row(
        "R16",
        "Branches that the tests without Spark take, %",
        ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *WITHOUT_SPARK, "tests"),
        tuple(at_least(package, MIN_BRANCH_PERCENT) for package in COVERED_PACKAGES),
        program=("benchmarks/branch_coverage.py",),
    ),
    Row(
        "R17",
        "Random joins of sides of every kind, keys in every form: the rows of plain Parquet",
        ("tests/spark/test_spark_random_joins.py",),
        (at_least("joins", 40, 2_000), all_zero("mismatches"), *nightly(at_least("rarest_form", 20))),
    ),
    Row(
        "Memory",
        "Rows of 10 MB, a row group of 1 GiB, 10,000 columns: held at most with task-memory 128 MiB; 150 MiB of remote delete "
        "files ahead with 16 MiB; MiB",
        ("tests/memory/test_memory.py", "tests/memory/test_remote_memory.py"),
        (
            at_most("wide_filtered_all_mib", 352),
            at_most("row_group_none_dense_mib", 608),
            at_most("row_group_none_streamed_mib", 352),
            at_most("columns_all_mib", 352, 2_000),
            at_most("remote_deletes_mib", 80),
        ),
    ),
)
