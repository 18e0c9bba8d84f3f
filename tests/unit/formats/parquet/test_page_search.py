"""Pages of text searched without decoding them, against the texts that were written."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from declared.types import Column as Declared
from opened import open_file, schema_of
from twostage.errors import TwoStageError
from twostage.formats.parquet.page_search import MAX_LITERALS, MIN_PATTERN_BYTES, sought
from twostage.metrics import Metrics
from twostage.predicates.predicate import And, Column, Compare, In, IsNull, Or, StringMatch
from twostage.reading.aligned_columns import LiveColumns
from twostage.reading.filter import RowFilter, filter_rows
from twostage.reading.scan_predicate import Conjunct
from twostage.schema import Primitive
from twostage.selection import Selection

TEXT = Column(1, ("c",), Primitive("string"))
SCHEMA = schema_of([Declared(1, "c", "string")])
NUM_ROWS = 3_000


def write(path, texts, **options):
    """Write texts in pages of some 100 rows."""
    field = pa.field("c", pa.string(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(
        pa.Table.from_arrays([pa.array(texts, pa.string())], schema=pa.schema([field])), path,
        **{
            "use_dictionary": False, "data_page_size": 1_500, "write_batch_size": 100, "write_page_index": True,
            "write_page_checksum": True, **options,
        },
    )  # fmt: skip


def texts_of(pick, nulls):
    """Return texts of all lengths; words of some stand in others, with what looks like a length before them."""
    words = [
        "ab",
        "abc",
        "abcd",
        "x" * 300,
        "ä",
        "",
        "device-7",
        "\x03\x00\x00\x00abc",
        *map(str, range(900)),
    ]
    return [
        None if pick.random() < nulls else "".join(pick.choices(words, k=pick.choice((1, 1, 1, 2))))
        for _ in range(NUM_ROWS)
    ]


def matches(predicate, text):
    """Evaluate a predicate over one text, on its own."""
    if text is None:
        return False
    match predicate:
        case Compare(_, _, value):
            return text == value
        case In(_, values):
            return text in values
        case StringMatch("prefix", _, value):
            return text.startswith(value)
        case StringMatch("suffix", _, value):
            return text.endswith(value)
        case StringMatch(_, _, value):
            return value in text
    raise AssertionError(predicate)


@pytest.mark.parametrize("codec", ["none", "zstd", "snappy", "gzip", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("seed", range(4))
def test_no_row_that_matches_is_lost(seed, version, codec, tmp_path):
    """Whatever is found holds all rows that match; where few do, most pages are left out."""
    pick = random.Random(f"{seed}{version}{codec}")
    texts = texts_of(pick, (0.0, 0.1, 0.9, 0.3)[seed])
    path = tmp_path / "file.parquet"
    write(path, texts, compression=codec, data_page_version=version)
    left_out = 0
    with open_file(path, SCHEMA) as file:
        (group,) = file.row_groups()
        for _ in range(30):
            value = pick.choice([text for text in texts if text is not None])
            predicate = pick.choice(
                (
                    Compare("=", TEXT, value),
                    Compare("<=>", TEXT, value),
                    In(TEXT, tuple({value, "no text"})),
                    StringMatch("prefix", TEXT, value[:5]),
                    StringMatch("suffix", TEXT, value[-5:]),
                    StringMatch("contains", TEXT, value[1:5]),
                )
            )
            rows = Selection.of(np.array([pick.random() < 0.7 for _ in texts]))
            found = file.search(group, predicate, rows)
            if found is None:
                assert isinstance(predicate, StringMatch)
                assert len(predicate.value.encode()) < MIN_PATTERN_BYTES
                continue
            matching = {row for row in rows if matches(predicate, texts[row])}
            said = f"seed {seed}, {predicate}"
            assert matching <= set(found), said
            assert set(found) <= set(rows), said
            left_out += found.count < rows.count / 2
    assert left_out > 0


def test_which_predicates_are_sought():
    """Those of which some bytes must be in each matching row, of a text column as it is stored."""
    number, cast = (
        Column(1, ("c",), Primitive("long")),
        Column(1, ("c",), Primitive("string"), Primitive("int")),
    )
    assert sought(Compare("=", TEXT, "")) == (TEXT, (bytes(4),))
    assert sought(In(TEXT, tuple("abcd"[:MAX_LITERALS]))) is not None
    for predicate in (
        Compare("<>", TEXT, "a"),
        Compare("<", TEXT, "a"),
        Compare("=", number, 3),
        Compare("=", cast, 3),
        In(TEXT, ()),
        In(TEXT, tuple(map(str, range(MAX_LITERALS + 1)))),
        StringMatch("contains", TEXT, "ab"),
        IsNull(TEXT),
    ):
        assert sought(predicate) is None, predicate


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {"prune_pages": False}),
        ({}, {"read_pages": "never"}),
        ({"use_dictionary": True}, {}),
        ({"use_dictionary": False, "column_encoding": {"c": "DELTA_BYTE_ARRAY"}}, {}),
        ({"data_page_size": 10**6, "write_batch_size": 10**6}, {}),
    ],
    ids=["switched off", "no pages", "codes", "no plain pages", "one page"],
)
def test_where_nothing_is_searched(options, settings, tmp_path):
    path = tmp_path / "file.parquet"
    write(path, texts_of(random.Random(1), 0.1), **options)
    metrics = Metrics()
    with open_file(path, SCHEMA, metrics=metrics, **settings) as file:
        (group,) = file.row_groups()
        assert file.search(group, Compare("=", TEXT, "no text"), Selection.all(NUM_ROWS)) is None
    assert metrics.counters["pages.searched"] == 0


def test_pages_of_codes_stay(tmp_path):
    """A writer that gave up on its dictionary leaves pages of codes before the plain ones."""
    texts = [f"text {row % 50 if row < 1_000 else row}" for row in range(NUM_ROWS)]
    path = tmp_path / "file.parquet"
    write(path, texts, use_dictionary=True, dictionary_pagesize_limit=2_000)
    with open_file(path, SCHEMA) as file:
        (group,) = file.row_groups()
        for row in (7, 2_777):
            found = file.search(group, Compare("=", TEXT, texts[row]), Selection.all(NUM_ROWS))
            assert row in set(found)
            assert 7 in set(found)
            assert found.count < NUM_ROWS


@pytest.mark.parametrize("checksums", [True, False], ids=["checksums", "no checksums"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_damaged_pages(codec, checksums, tmp_path):
    """With checksums, damage is told, or the rows are right; a page that can't be understood is never left out."""
    pick = random.Random(f"{codec}{checksums}")
    texts = texts_of(pick, 0.1)
    path = tmp_path / "file.parquet"
    write(path, texts, compression=codec, write_page_checksum=checksums)
    data = path.read_bytes()
    end = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    predicate = Compare("=", TEXT, "device-7")
    expected = [row for row, text in enumerate(texts) if text == "device-7"]
    row_filter = RowFilter([Conjunct(predicate, "", (1,))])
    outcomes = {"rows": 0, "error": 0, "lost": 0}
    for _ in range(150):
        changed = bytearray(data)
        changed[pick.randrange(4, end)] ^= 1 << pick.randrange(8)
        path.write_bytes(changed)
        try:
            with open_file(path, SCHEMA) as file:
                (group,) = file.row_groups()
                columns = LiveColumns(
                    Selection.all(NUM_ROWS),
                    lambda i, rows: file.read_filter_column(group, i, rows),
                    reads_parts=True,
                )
                filter_rows(
                    row_filter, columns, Metrics(), lambda part, rows: file.search(group, part, rows) or rows
                )
                found = list(columns.selection())
        except TwoStageError:
            outcomes["error"] += 1
            continue
        outcomes["rows" if found == expected else "lost"] += 1
    assert outcomes["rows"] and outcomes["error"], outcomes
    assert not checksums or not outcomes["lost"], outcomes


@pytest.mark.parametrize("seed", range(12))
def test_parts_of_an_or(seed, tmp_path):
    """Rows are the same whether or not pages are searched first for the text of a part."""
    pick = random.Random(seed)
    number = Column(2, ("n",), Primitive("long"))
    texts = [text if pick.random() < 0.2 else f"text {row}" for row, text in enumerate(texts_of(pick, 0.1))]
    numbers = [None if pick.random() < 0.1 else pick.randrange(500) for _ in texts]
    path = tmp_path / "file.parquet"
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(i)})
        for i, (name, kind) in enumerate((("c", pa.string()), ("n", pa.int64())), 1)
    ]
    pq.write_table(
        pa.Table.from_arrays([pa.array(texts), pa.array(numbers, pa.int64())], schema=pa.schema(fields)), path,
        use_dictionary=False, data_page_size=1_500, write_batch_size=100, write_page_index=True,
    )  # fmt: skip
    schema = schema_of([Declared(1, "c", "string"), Declared(2, "n", "long")])
    narrowed = 0
    for _ in range(20):
        row = pick.randrange(NUM_ROWS)
        parts = [
            Compare("=", TEXT, texts[row] or "text 7"),
            pick.choice((Compare("=", number, 7), Compare("<", number, 9), IsNull(number))),
            pick.choice((IsNull(TEXT), StringMatch("suffix", TEXT, "1234"), Compare("=", number, 3))),
            And((Compare("=", number, 11), StringMatch("prefix", TEXT, "text"))),
        ]
        predicate = Or(tuple(pick.sample(parts, pick.choice((2, 2, 3)))))
        shared = frozenset({1, 2} if pick.random() < 0.2 else ())
        alive = Selection.of(np.array([pick.random() < 0.9 for _ in texts]))
        answers = []
        for is_searched in (False, True):

            def search(part, rows, file_and_group):
                nonlocal narrowed
                file, group = file_and_group
                found = file.search(group, part, rows) or rows
                narrowed += found.count < rows.count
                return found

            with open_file(path, schema) as file:
                (group,) = file.row_groups()
                columns = LiveColumns(
                    alive,
                    lambda i, rows, at=(file, group): at[0].read_filter_column(at[1], i, rows),
                    reads_parts=True,
                )
                row_filter = RowFilter([Conjunct(predicate, "", (1, 2))], shared=shared)
                filter_rows(
                    row_filter, columns, Metrics(),
                    (lambda part, rows, at=(file, group): search(part, rows, at)) if is_searched else None,
                )  # fmt: skip
                answers.append(list(columns.selection()))
        assert answers[0] == answers[1], f"seed {seed}: {predicate}"
    assert narrowed > 0
