"""Parquet files of small pages, their layout drawn from a seed, and rows to select from them."""

from __future__ import annotations

import random

import pyarrow.parquet as pq

from declared.files import FileOptions, write_rows

CODECS = ("zstd", "snappy", "gzip", "none", "lz4", "brotli")


def write_pages(path, fields, rows, seed, **given):
    """Write rows as Parquet in small pages; the layout is drawn from the seed."""
    pick = random.Random(seed)
    write_rows(path, fields, rows, FileOptions(format="parquet", row_group_size=100_000))
    table = pq.ParquetFile(path).read()
    options = {
        "compression": pick.choice(CODECS),
        "write_page_index": pick.random() < 0.6,
        "data_page_version": pick.choice(("1.0", "2.0")),
        "use_dictionary": pick.random() < 0.5,
        "dictionary_pagesize_limit": pick.choice((200, 2**20)),
        "data_page_size": pick.choice((64, 500, 5_000)),
        "write_batch_size": pick.choice(
            (30, 64, 200)
        ),  # shorter than a list, pyarrow writes pages without rows
        "row_group_size": pick.choice((len(rows), len(rows) // 2 + 1)),
        "write_page_checksum": pick.random() < 0.5,
    } | given
    pq.write_table(table, path, **options)
    return options


def selections(num_rows, pick):
    """Yield rows to select: a few, one, the ends, a run, most, all, every second."""
    yield sorted(pick.sample(range(num_rows), min(num_rows, 5)))
    yield [pick.randrange(num_rows)]
    yield [0, num_rows - 1]
    start = pick.randrange(num_rows)
    yield range(start, min(num_rows, start + 30))
    yield sorted(pick.sample(range(num_rows), num_rows * 9 // 10))
    yield range(num_rows)
    yield range(0, num_rows, 2)
