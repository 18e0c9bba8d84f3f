"""Every ORC file of the folder ``TWOSTAGE_TABLES``: what pyarrow and the files' own expectations say, or refused.

pyarrow reads in a process of its own: it may end that process.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from twostage.data_files.orc_file import damage
from twostage.errors import TwoStageError
from twostage.formats import file_schema
from twostage.formats.orc.schema import arrow_schema
from twostage.formats.orc.stripe import StripeReader
from twostage.formats.orc.tail import read_stripe_footer, read_tail
from twostage.task import Storage

ROOT = Path(os.environ.get("TWOSTAGE_TABLES", "."), "files", "apache-orc")
FILES = sorted(ROOT.rglob("*.orc")) if os.environ.get("TWOSTAGE_TABLES") else []
pytestmark = pytest.mark.skipif(not FILES, reason="TWOSTAGE_TABLES is not set")
REFUSED = {
    "TestOrcFile.testTimestamp.orc": "UNSUPPORTED_ORC_TYPE",  # the root is no struct
    "TestOrcFile.testUnionAndTimestamp.orc": "UNSUPPORTED_ORC_TYPE",
    "TestOrcFile.testWithoutCompressionBlockSize.orc": "UNSUPPORTED_ORC_TYPE",
    "TestVectorOrcFile.testLzo.orc": "UNSUPPORTED_COMPRESSION",
    "decimal64_v2.orc": "UNSUPPORTED_ORC_VERSION",
    "decimal64_v2_cplusplus.orc": "UNSUPPORTED_ORC_VERSION",
    "version1999.orc": "UNSUPPORTED_ORC_VERSION",
    "sample1.orc": "UNSUPPORTED_ENCRYPTION",
    "sample2.orc": "UNSUPPORTED_ENCRYPTION",
    "missing_blob_stream_in_string_dict.orc": "CORRUPT_ORC",
    "missing_length_stream_in_string_dict.orc": "CORRUPT_ORC",
    "negative_dict_entry_lengths.orc": "CORRUPT_ORC",
    "stripe_footer_bad_column_encodings.orc": "CORRUPT_ORC",
    "orc_corrupt_zlib.orc": "CORRUPT_ORC",
    "zero.orc": "CORRUPT_ORC",
    "examples/orc_split_elim.orc": "UNSUPPORTED_ORC_TYPE",  # a decimal without precision
    "orc-file-11-format.orc": "NO_WRITER_TIME_ZONE",
    "orc-file-dst-no-timezone.orc": "NO_WRITER_TIME_ZONE",
    "orc-file-no-timezone.orc": "NO_WRITER_TIME_ZONE",
    "over1k_bloom.orc": "NO_WRITER_TIME_ZONE",
}
MOST_ROWS = 40_000


def read(path: Path) -> tuple[pa.Schema, list[list[pa.Array]]]:
    """Return the stripes' columns."""
    with damage(str(path), "CORRUPT_ORC", "fetch", Storage()), pa.OSFile(str(path)) as file:
        tail = read_tail(file, file.size())
        schema = arrow_schema(tail.schema)
        fields = file_schema.identify(schema, None)
        wanted = set(range(fields[-1].end_leaf)) if fields else set()
        stripes = []
        for stripe in tail.stripes:
            footer = read_stripe_footer(file, tail, stripe)
            reader = StripeReader(file, tail, stripe, footer, meanings={}, limit=2**29)
            stripes.append(reader.read(fields, wanted))
        return schema, stripes


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_what_pyarrow_reads_or_refused(path, tmp_path):
    code = REFUSED.get(path.name) or REFUSED.get(f"{path.parent.name}/{path.name}")
    if code is not None:
        with pytest.raises(TwoStageError) as raised:
            read(path)
        assert raised.value.code == code
        assert raised.value.path == str(path)
        return
    schema, stripes = read(path)
    program = (
        "import sys, pyarrow as pa, pyarrow.orc as orc\n"
        "file = orc.ORCFile(sys.argv[1])\n"
        "batches = [file.read_stripe(i) for i in range(file.nstripes)]\n"
        "with pa.OSFile(sys.argv[2], 'wb') as out, pa.ipc.new_file(out, file.schema) as writer:\n"
        "    [writer.write_batch(batch) for batch in batches]\n"
    )
    other = tmp_path / "other.arrow"
    subprocess.run([sys.executable, "-c", program, str(path), str(other)], check=True, timeout=120)
    theirs = pa.ipc.open_file(pa.memory_map(str(other)))
    assert theirs.num_record_batches == len(stripes)
    assert theirs.schema.names == schema.names
    for index, arrays in enumerate(stripes):
        batch = theirs.get_batch(index)
        for array, other_array, name in zip(arrays, batch.columns, schema.names, strict=True):
            array.validate(full=True)
            same = array.cast(other_array.type)
            assert same.equals(other_array) or repr(same.to_pylist()) == repr(other_array.to_pylist()), name


def plain(value):
    """Bring a value to what the JSON holds: timestamps as text, bytes as lists, decimals as floats."""
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return [{"key": plain(key), "value": plain(item)} for key, item in value]
        return [plain(item) for item in value]
    if isinstance(value, Decimal):
        return float(value)
    return value


def column(array: pa.Array) -> list[object]:
    if pa.types.is_timestamp(array.type):
        texts = array.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False).astype(str)
        cut = [text.replace("T", " ").rstrip("0") for text in texts]
        return [text + "0" if text.endswith(".") else text for text in cut]
    if pa.types.is_date(array.type):
        return np.array(array.cast(pa.int32())).astype("datetime64[D]").astype(str).tolist()
    if pa.types.is_float32(array.type):
        return [None if v is None else float(str(np.float32(v))) for v in array.to_pylist()]
    return [plain(value) for value in array.to_pylist()]


EXPECTED = [p for p in FILES if (p.parent / "expected" / f"{p.stem}.jsn.gz").exists()]


@pytest.mark.parametrize("path", EXPECTED, ids=lambda path: path.name)
def test_a_file_is_what_its_project_expects(path):
    if path.name in REFUSED or f"{path.parent.name}/{path.name}" in REFUSED:
        pytest.skip("refused")
    schema, stripes = read(path)
    with gzip.open(path.parent / "expected" / f"{path.stem}.jsn.gz", "rt") as lines:
        rows = [json.loads(line) for line, _ in zip(lines, range(MOST_ROWS), strict=False)]
    for place, name in enumerate(schema.names):
        found, wanted = [], [row[name] for row in rows]
        for arrays in stripes:
            if len(found) < MOST_ROWS:
                found += column(arrays[place])
        if found and isinstance(found[0], float):
            # The JSON rounds floats to seven digits, doubles to fourteen.
            digits = 1e-6 if pa.types.is_float32(stripes[0][place].type) else 1e-13
            assert np.allclose(
                np.array(found[: len(wanted)], float), np.array(wanted, float), digits, 0, equal_nan=True
            ), name
        else:
            assert found[: len(wanted)] == wanted, name
    assert sum(len(arrays[0]) for arrays in stripes if arrays) >= len(rows)
