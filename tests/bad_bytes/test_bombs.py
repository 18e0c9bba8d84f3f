"""Files that unpack to far more than they are: under 1 GiB and 30 s of CPU, a typed error or the right rows."""

from __future__ import annotations

import pytest
from metadata_cases import avro_bomb, gzip_bomb
from parquet_cases import BOMBS
from plain_tables import data_file

from figures import record
from limited_process import MEMORY, SECONDS, LimitedProcess

PASSED: set[str] = set()
OUTCOMES = {
    "bomb of pages: 400 kB to 4 GiB": ("rows", 0),
    "bomb of one page: 2 GiB said": ("OUT_OF_MEMORY", ".parquet"),
    "bomb of a dictionary: 1 MiB 65,536 times": ("rows", 3),
    "100,000 columns": ("rows", 3),
    "gzip metadata bomb": ("METADATA_TOO_LARGE", "metadata.json"),
    "Avro manifest bomb": ("AVRO_TOO_LARGE", "manifest-1.avro"),
}
IN_ONE_STAGE = {
    # Late, codes are decoded, and the text of three rows is looked up.
    "bomb of a dictionary: 1 MiB 65,536 times": ("OUT_OF_MEMORY", ".parquet"),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_bomb(name, tmp_path):
    if name in BOMBS:
        data = BOMBS[name]()
        assert len(data) < 25_000_000
        path = data_file(data, tmp_path)
    else:
        path = (gzip_bomb if name.startswith("gzip") else avro_bomb)(tmp_path)
    # On a busy machine 100,000 columns, 4 s of CPU, took more than 30 s.
    with LimitedProcess("bomb_reads:read_bomb", seconds=4 * SECONDS) as process:
        for options in ({},) if name == "100,000 columns" else ({}, {"two_stage": "false"}):  # 7 s
            outcome, more = IN_ONE_STAGE.get(name, OUTCOMES[name]) if options else OUTCOMES[name]
            answer = process.ask({"path": str(path), "options": options})
            assert answer["class"] == outcome, answer
            assert answer["held"] < MEMORY
            assert answer["cpu"] < SECONDS
            if outcome == "rows":
                assert answer["rows"] == more, answer
            else:
                assert answer["path"].endswith(more), answer
                assert answer["stage"], answer
        assert process.starts == 1
    PASSED.add(name)


@pytest.fixture(scope="module", autouse=True)
def _figures():
    """Put the number of bombs on the scoreboard, at the end of the module."""
    yield
    record("R5", bombs=len(PASSED))
