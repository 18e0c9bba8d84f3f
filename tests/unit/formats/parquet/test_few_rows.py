"""Few rows taken out of their pages one by one, against the same rows of pages that pyarrow decoded."""

from __future__ import annotations

import random
import threading
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from declared.types import Column
from drawn_columns import Values, columns, rows_of
from opened import open_file, schema_of
from twostage.errors import TwoStageError
from twostage.formats.parquet import few_rows
from twostage.formats.parquet.few_rows import WantedPage, take_rows
from twostage.formats.parquet.page_bytes import first_bytes
from twostage.formats.parquet.pages import PageHeader
from twostage.metrics import Metrics
from twostage.selection import Selection
from twostage_native.page_values import text_ends

from .small_pages import selections, write_pages


def mask_of(chosen, num_rows):
    mask = np.zeros(num_rows, np.bool_)
    mask[list(chosen)] = True
    return mask


@pytest.mark.parametrize("seed", range(24))
def test_any_rows(seed, tmp_path):
    """Every type, codec, encoding and version of pages; leaves that are nested are left to pyarrow."""
    pick = random.Random(seed)
    fields = columns()
    values = Values(seed, nulls=(0.0, 0.1, 0.6, 1.0)[seed % 4])
    rows = [values.row(fields) for _ in range(300)]
    path = tmp_path / "file.parquet"
    layout = write_pages(path, fields, rows, seed)
    schema, metrics = schema_of(fields), Metrics()
    with (
        open_file(path, schema, read_pages="always", few_rows="never") as decoded,
        open_file(path, schema, read_pages="always", few_rows="always", metrics=metrics) as taken,
    ):
        for group in decoded.row_groups():
            for chosen in selections(group.num_rows, pick):
                selection = Selection.of(mask_of(chosen, group.num_rows))
                expected = decoded.read(group, schema.fields, "fetch", selection)
                found = taken.read(group, schema.fields, "fetch", selection)
                said = f"seed {seed}, {layout}, rows {list(chosen)[:10]}"
                assert [array.type for array in found] == [array.type for array in expected], said
                assert rows_of([found]) == rows_of([expected]), said
                for array in found:
                    array.validate(full=True)
    assert metrics.counters["columns.taken_by_row"] > 0, layout


TAKEN = (
    pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(), pa.time64("us"), pa.timestamp("us"),
    pa.timestamp("us", "UTC"), pa.timestamp("ms"), pa.decimal128(9, 2), pa.decimal128(30, 5), pa.binary(7),
    pa.string(), pa.binary(), pa.time32("ms"),
)  # fmt: skip
LEFT = (
    pa.int8(),
    pa.uint16(),
    pa.uint32(),
    pa.bool_(),
    pa.float16(),
    pa.list_(pa.int32()),
    pa.struct([("a", pa.int32())]),
)


def column_of(kind, pick, num_rows, nulls):
    """Return values of a type, with repetitions."""
    if pa.types.is_list(kind):
        pool = [[1, 2], []]
    elif pa.types.is_struct(kind):
        pool = [{"a": 1}, {"a": None}]
    elif pa.types.is_boolean(kind):
        pool = [True, False]
    elif pa.types.is_fixed_size_binary(kind):
        pool = [pick.randbytes(7) for _ in range(20)]
    elif pa.types.is_string(kind):
        pool = ["", "ä", "text", "x" * 300, *map(str, range(50))]
    elif pa.types.is_binary(kind):
        pool = [b"", *(pick.randbytes(9) for _ in range(20))]
    elif pa.types.is_decimal(kind):
        pool = [Decimal(pick.randint(-99_999, 99_999)).scaleb(-2) for _ in range(50)]
    elif pa.types.is_floating(kind):
        pool = [float(i) for i in range(-20, 20)]
    else:
        pool = (
            pa.array([pick.randint(0, 100) for _ in range(50)], pa.int32())
            .cast(pa.int64() if kind.bit_width == 64 else pa.int32())
            .cast(kind)
            .to_pylist()
        )
    return pa.array([None if pick.random() < nulls else pick.choice(pool) for _ in range(num_rows)], kind)


@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "none", "lz4", "brotli"])
def test_which_types_are_taken(codec, version, dictionary, tmp_path):
    """All types that Iceberg's writers write flat, except booleans; what is left is read all the same."""
    pick = random.Random(f"{codec}{version}{dictionary}")
    for kind in (*TAKEN, *LEFT):
        for nulls in (0.0, 0.3, 1.0):
            values = column_of(kind, pick, 1_000, nulls)
            path = tmp_path / "file.parquet"
            pq.write_table(
                pa.table({"c": values}), path, compression=codec, data_page_version=version, use_dictionary=dictionary,
                data_page_size=500, write_batch_size=100, write_page_checksum=True, write_page_index=True,
                store_schema=False,
            )  # fmt: skip
            found, counted = read_alone(path, mask_of((3, 4, 555, 999), 1_000))
            assert counted == (kind in TAKEN), (kind, nulls)
            assert found.to_pylist() == values.take([3, 4, 555, 999]).to_pylist(), (kind, nulls)


def read_alone(path, mask):
    """Return a file's only column as its pages' reader gives it, and whether rows were taken out of pages."""
    metrics = Metrics()
    schema = schema_of([Column(1, "c", "int")])  # any: the pages' reader gives the file's own types
    with open_file(path, schema, read_pages="always", few_rows="always", metrics=metrics, mapping=()) as file:
        pages, group = file._pages, file._footer.row_groups[0]
        leaves = range(len(file._footer.leaves))
        choice = pages.choose(group, leaves, np.flatnonzero(mask))
        (array,) = pages.read(group, choice, "fetch").values()
    return array, metrics.counters["columns.taken_by_row"] == 1


@pytest.mark.parametrize("bytes_held", [99, 100])
@pytest.mark.parametrize("dictionary", [True, False], ids=["dictionary", "plain"])
def test_more_text_than_offsets_reach_is_left(dictionary, bytes_held, tmp_path, monkeypatch):
    monkeypatch.setattr(few_rows, "MAX_TEXT_BYTES", bytes_held)
    path = tmp_path / "file.parquet"
    pq.write_table(
        pa.table({"c": ["x" * 50] * 1_000}), path, use_dictionary=dictionary, data_page_size=500,
        write_batch_size=100, write_page_index=True,
    )  # fmt: skip
    found, taken = read_alone(path, mask_of((3, 999), 1_000))
    assert (found.to_pylist(), taken) == (["x" * 50] * 2, bytes_held == 100)


def damaged(data, pick, start, end):
    """Change one to three bytes between two places."""
    changed = bytearray(data)
    for _ in range(pick.randint(1, 3)):
        changed[pick.randrange(start, end)] ^= 1 << pick.randrange(8)
    return bytes(changed)


@pytest.mark.parametrize("checksums", [True, False], ids=["checksums", "no checksums"])
@pytest.mark.parametrize("seed", range(6))
def test_damaged_pages(seed, checksums, tmp_path):
    """With checksums, damage is told or lies where nothing was read; without, rows are those that pyarrow gives."""
    pick = random.Random(seed)
    schema = schema_of([Column(1, "n", "long"), Column(2, "t", "string"), Column(3, "d", "decimal(20, 2)")])
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})
        for number, (name, kind) in enumerate(
            (("n", pa.int64()), ("t", pa.string()), ("d", pa.decimal128(20, 2))), 1
        )
    ]
    table = pa.Table.from_arrays(
        [column_of(field.type, pick, 2_000, 0.2) for field in fields], schema=pa.schema(fields)
    )
    path = tmp_path / "file.parquet"
    pq.write_table(
        table, path, compression=pick.choice(("zstd", "snappy", "gzip", "none")), data_page_size=1_000,
        data_page_version=pick.choice(("1.0", "2.0")), write_batch_size=100, write_page_checksum=checksums,
        use_dictionary=["t"] if seed % 2 else False,
    )  # fmt: skip
    data = path.read_bytes()
    end = data.rindex(b"PAR1") - 8 - int.from_bytes(data[-8:-4], "little")
    outcomes: Counter[str] = Counter()
    chosen = (5, 6, 700, 1_999)
    selection = Selection.of(mask_of(chosen, 2_000))
    expected = rows_of([table.take(list(chosen)).to_batches()[0].columns])
    for _ in range(60):
        path.write_bytes(damaged(data, pick, 4, end))
        answers = []
        for alone in ("always", "never"):
            try:
                with open_file(path, schema, read_pages="always", few_rows=alone) as file:
                    (group,) = file.row_groups()
                    steps = list(file.select(group, schema.fields, selection, 10))
                    answers.append([row for step in steps for row in rows_of([step])])
            except TwoStageError as error:
                answers.append(error.code)
        taken, decoded = answers
        said = f"seed {seed}: {answers}"
        if isinstance(taken, list) and checksums:
            assert taken == expected, said
        if isinstance(taken, list) and isinstance(decoded, list) and not checksums:
            assert taken == decoded, said
        outcomes["rows" if isinstance(taken, list) else "error"] += 1
    assert outcomes["rows"] and outcomes["error"], outcomes


def large_pages(path, kind, version, pick, *, nulls=0, required=False, checksums=True):
    """Write one column in plain pages of two blocks and more; return its values."""
    numbers = [pick.randint(0, 10_000) for _ in range(60_000)]
    for place in pick.sample(range(60_000), nulls):
        numbers[place] = None
    values = pa.array(numbers, pa.int64()).cast(kind)
    field = pa.field("c", kind, nullable=not required, metadata={"PARQUET:field_id": "1"})
    pq.write_table(
        pa.Table.from_arrays([values], schema=pa.schema([field])), path, compression="zstd", use_dictionary=False,
        data_page_version=version, data_page_size=160_000, write_page_checksum=checksums, write_page_index=True,
        store_schema=False,
    )  # fmt: skip
    return values


@pytest.mark.parametrize("required", [True, False], ids=["required", "optional"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.timestamp("us")], ids=str)
def test_the_first_blocks_of_a_page(kind, version, required, tmp_path, monkeypatch):
    """Values before a page's last block are the same as when it is decompressed whole; NULLs need all of it."""
    early = []
    real = few_rows.first_bytes
    monkeypatch.setattr(few_rows, "first_bytes", lambda *a, **k: early.append(real(*a, **k)) or early[-1])
    pick = random.Random(f"{kind}{version}{required}")
    path = tmp_path / "file.parquet"
    for nulls in (0,) if required else (0, 1_000):
        values = large_pages(path, kind, version, pick, nulls=nulls, required=required)
        for chosen in (
            [0],
            [3, 4_000],
            [16_000, 16_383, 16_384],
            [19_999],
            sorted(pick.sample(range(60_000), 9)),
        ):
            early.clear()
            found, taken = read_alone(path, mask_of(chosen, 60_000))
            assert taken
            assert found.to_pylist() == values.take(chosen).to_pylist(), (nulls, chosen)
            if chosen == [3, 4_000]:
                assert [part is not None and len(part) < 40_000 for part in early] == [True] * (
                    nulls == 0 or version == "1.0"
                ), nulls


@pytest.mark.parametrize("checksums", [True, False], ids=["checksums", "no checksums"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_damage_in_pages_of_several_blocks(version, checksums, tmp_path):
    """With checksums, damage behind the wanted values is told as well; without, rows are those that pyarrow gives."""
    pick = random.Random(f"{version}{checksums}")
    path = tmp_path / "file.parquet"
    values = large_pages(path, pa.int64(), version, pick, checksums=checksums)
    data = path.read_bytes()
    chosen = (5, 700)
    expected = values.take(list(chosen)).to_pylist()
    outcomes: Counter[str] = Counter()
    schema = schema_of([Column(1, "c", "long")])
    for _ in range(60):
        path.write_bytes(damaged(data, pick, 4, len(data) // 2))
        answers = []
        for alone in ("always", "never"):
            try:
                with open_file(path, schema, read_pages="always", few_rows=alone) as file:
                    (group,) = file.row_groups()
                    selection = Selection.of(mask_of(chosen, 60_000))
                    answers.append(
                        [
                            v
                            for (step,) in file.select(group, schema.fields, selection, 9)
                            for v in step.to_pylist()
                        ]
                    )
            except TwoStageError as error:
                answers.append(error.code)
        taken, decoded = answers
        if checksums:
            assert taken == decoded
            assert isinstance(taken, str) or taken == expected
        elif isinstance(taken, list) and isinstance(decoded, list):
            assert taken == decoded
        outcomes["rows" if isinstance(taken, list) else "error"] += 1
    assert outcomes["rows"] and outcomes["error"], outcomes


def test_which_frames_are_read_in_part():
    """Not those whose own checksum would go unseen, those that ask for much memory, those cut off or too short."""
    plain = bytes(range(256)) * 4_096
    frame = zstandard.ZstdCompressor().compress(plain)
    summed = zstandard.ZstdCompressor(write_checksum=True).compress(plain)
    assert bytes(first_bytes(frame, 1_000, is_verified=False)) == plain[:1_000]
    assert bytes(first_bytes(frame, len(plain), is_verified=False)) == plain
    assert bytes(first_bytes(summed, 1_000, is_verified=True)) == plain[:1_000]
    assert first_bytes(summed, 1_000, is_verified=False) is None
    assert first_bytes(frame, len(plain) + 1, is_verified=True) is None
    assert first_bytes(frame[: len(frame) // 2], len(plain), is_verified=True) is None
    assert first_bytes(b"", 1, is_verified=True) is None
    assert first_bytes(b"no frame", 1, is_verified=True) is None
    far = zstandard.ZstdCompressionParameters.from_level(3, window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=far).compressobj()
    wide = stream.compress(plain) + stream.flush()
    assert first_bytes(wide, 1_000, is_verified=True) is None


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "gzip", "lz4", "brotli"])
def test_codes_wider_than_any(codec, tmp_path):
    """A page that says its codes have 255 bits: no row is taken, whether or not its bytes were compressed."""
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({"c": pa.array([7] * 1_000)}), path, compression=codec, use_dictionary=True)
    schema = schema_of([Column(1, "c", "int")])
    with open_file(path, schema, read_pages="always", few_rows="always", mapping=()) as file:
        pages, group = file._pages, file._footer.row_groups[0]
        (leaf,), (chunk,) = file._footer.leaves, group.columns
        table = pages.tables.of(group, [0])[0]
        kinds = pages.schema.arrow_types()
    raw = path.read_bytes()
    start, size = table.dictionary
    dictionary = memoryview(raw[start : start + size])
    answers = []
    for width in (0, 255):
        codes = bytes((width,)) + b"\xd0\x0f"  # one run of 1,000 values
        plain = b"\x03\x00\x00\x00\xd0\x0f\x01" + codes  # each of them is there
        body = (
            plain
            if codec == "none"
            else pa.compress(plain, "lz4_raw" if codec == "lz4" else codec, asbytes=True)
        )
        header = PageHeader(1_000, 8, 0, len(plain), None, 3, (0, 0), True)
        page = WantedPage(header, memoryview(body), np.array([0, 999]))
        found = take_rows(leaf, chunk, dictionary, [page], kinds[0], verify_checksums=True, always=True)
        answers.append(None if found is None else found.to_pylist())
    assert answers == [[7, 7], None]


@pytest.mark.parametrize("distinct", [250, 251])
@pytest.mark.parametrize("num_wanted", [1, 4, 15, 16])
def test_only_few_rows_are_taken_unasked(num_wanted, distinct, tmp_path, monkeypatch):
    """Below one in 64 of the pages' rows; text waits for machine code, unless its values are few."""
    ready = []
    monkeypatch.setattr(text_ends, "is_ready", lambda seconds: ready.append(seconds) or len(ready) > 1)
    path = tmp_path / "file.parquet"
    schema = schema_of([Column(1, "n", "long"), Column(2, "t", "string")])
    fields = [
        pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("t", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
    columns_ = [pa.array(range(1_000)), pa.array([str(i % distinct) for i in range(1_000)])]
    pq.write_table(pa.Table.from_arrays(columns_, schema=pa.schema(fields)), path)
    chosen = [i * 60 for i in range(num_wanted)]
    taken = []
    for _ in range(2):
        metrics = Metrics()
        with open_file(path, schema, read_pages="always", metrics=metrics) as file:
            (group,) = file.row_groups()
            (found,) = file.select(group, schema.fields, Selection.of(mask_of(chosen, 1_000)), 100)
        assert [array.to_pylist() for array in found] == [chosen, [str(i % distinct) for i in chosen]]
        taken.append(metrics.counters["columns.taken_by_row"])
    assert taken == ([2 if distinct == 250 else 1, 2] if num_wanted < 16 else [0, 0])


def test_threads_ask_for_the_types_of_leaves(tmp_path):
    """Those that share a footer get one type for each leaf, whoever was first."""
    path = tmp_path / "file.parquet"
    pq.write_table(pa.table({f"c{number}": [1] for number in range(1_000)}), path)
    with open_file(path, schema_of([Column(1, "c0", "long")]), mapping=()) as file:
        schema = file._pages.schema
    start, lengths = threading.Barrier(4), []

    def ask():
        start.wait()
        lengths.append(len(schema.arrow_types()))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [*lengths, len(schema.arrow_types())] == [1_000] * 5
