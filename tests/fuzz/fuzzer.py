"""The fuzzer: damages files of small random tables and reads them; `make fuzz SEED=… N=…` runs it.

Takes a seed and numbers of cases; gives a count by kind of file and class, and the cases that failed. A case that
failed is shown with the request that repeats it: ``python tests/fuzz/fuzzer.py --repeat '{"table": …}'``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
for folder in (HERE, HERE.parent / "shared", HERE.parents[1] / "connector", HERE.parents[1] / "native"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from indexed_small_tables import INDEX_KINDS  # noqa: E402

from figures import record  # noqa: E402
from limited_process import CRASH, HANG, LimitedProcess  # noqa: E402
from small_tables import CHECKED_PARQUET, KINDS  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTION = "damaged_reads:read_damaged"
CASES_OF_A_TABLE = 40
GOOD = ("right rows", "typed error", "other rows, no checksum", "index ignored, right rows")
"""The third is the stated limit: no format has a checksum there. The last is of a damaged index alone."""


@dataclass
class Findings:
    """What a run found: counts by kind and class, codes of errors, and each failed case with its request."""

    seed: int
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    codes: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Cases that were run."""
        return self.counts.total()

    def of(self, name: str, *kinds: str) -> int:
        """Return how many cases are of this class, of these kinds of files if some are named."""
        return sum(
            count
            for (kind, found), count in self.counts.items()
            if found == name and (not kinds or kind in kinds)
        )

    def of_kinds(self, *kinds: str) -> int:
        """Return how many cases are of these kinds of files."""
        return sum(count for (kind, _), count in self.counts.items() if kind in kinds)

    def shown(self) -> str:
        """Return a table for people, failures last."""
        classes = [*GOOD, *sorted({found for _, found in self.counts} - set(GOOD))]
        lines = [f"{'':34}" + "".join(f"{name:>26}" for name in classes)]
        for kind in [*dict.fromkeys(kind for kind, _ in self.counts)]:
            lines.append(f"{kind:34}" + "".join(f"{self.counts[kind, name]:26}" for name in classes))
        lines.append(f"{'all':34}" + "".join(f"{self.of(name):26}" for name in classes))
        lines.append(f"codes: {dict(self.codes.most_common())}")
        for request, answer in self.failures:
            lines.append(f"{answer['class']}: {answer.get('how')}: {answer['detail'][:900]}")
            lines.append(f"   --repeat '{json.dumps(request)}'")
        return "\n".join(lines)


def requests(seed: int, cases: int, mode: str) -> Iterator[dict[str, Any]]:
    """Yield the requests of a run: all kinds of files in turn, a new table now and then."""
    kinds = (*(KINDS if mode == "mutation" else CHECKED_PARQUET), *INDEX_KINDS)
    for case in range(cases):
        yield {
            "table": seed * 10_000 + case // CASES_OF_A_TABLE,
            "case": case,
            "mode": mode,
            "kind": kinds[case % len(kinds)],
        }


def fuzz(seed: int, cases: int, mode: str) -> Findings:
    """Run cases of one mode and count what came of them."""
    findings = Findings(seed)
    with TemporaryDirectory() as tables, LimitedProcess(FUNCTION) as process:
        for request in requests(seed, cases, mode):
            answer = process.ask({**request, "folder": tables})
            findings.counts[request["kind"], answer["class"]] += 1
            if "code" in answer:
                findings.codes[answer["code"]] += 1
            if answer["class"] not in GOOD:
                findings.failures.append((request, answer))
    return findings


def record_figures(mutations: Findings, flips: Findings) -> None:
    """Put both runs on the scoreboard."""
    record(
        "R5",
        mutations=mutations.total,
        crashes=mutations.of(CRASH),
        hangs=mutations.of(HANG),
        over_memory=mutations.of("OVER MEMORY"),
        untyped=mutations.of("UNTYPED") + mutations.of("NOT NAMED") + mutations.of("RAISED"),
        index_mutations=mutations.of_kinds(*INDEX_KINDS),
        index_not_ignored=mutations.of("NOT IGNORED"),
        indexes_ignored=mutations.of(GOOD[3]),
        other_rows_where_no_checksum_is=mutations.of(GOOD[2]),
        seed=mutations.seed,
    )
    record(
        "R6",
        flips=flips.total,
        silent=flips.of("SILENT") + mutations.of("SILENT"),
        refused=flips.of("typed error"),
        not_read=flips.of("right rows"),
        index_flips=flips.of_kinds(*INDEX_KINDS),
        index_flips_not_ignored=flips.of("NOT IGNORED"),
        index_flips_ignored=flips.of(GOOD[3]),
        seed=flips.seed,
    )


def main() -> int:
    """Run the fuzzer as the Makefile asks; exit with 1 if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--cases", type=int, default=2000, help="mutations; half as many flips in page bodies"
    )
    parser.add_argument("--repeat", help="a failed case's request, to see it again")
    arguments = parser.parse_args()
    if arguments.repeat:
        with TemporaryDirectory() as tables, LimitedProcess(FUNCTION) as process:
            answer = process.ask({**json.loads(arguments.repeat), "folder": tables})
            print(json.dumps(answer, indent=1))
        return 0
    mutations = fuzz(arguments.seed, arguments.cases, "mutation")
    print(f"seed {arguments.seed}, {mutations.total} mutations\n{mutations.shown()}\n", flush=True)
    flips = fuzz(arguments.seed, max(1, arguments.cases // 2), "flip")
    print(
        f"seed {arguments.seed}, {flips.total} bit flips in checksummed pages and indexes\n{flips.shown()}",
        flush=True,
    )
    record_figures(mutations, flips)
    return 1 if mutations.failures or flips.failures else 0


if __name__ == "__main__":
    sys.exit(main())
