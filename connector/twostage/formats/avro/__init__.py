"""Avro: containers, schemas, and columns as Arrow arrays.

Two decoders read Avro records, each for what the other is too slow for:

- **fastavro** (`container.iterate_records`) makes dictionaries of records, one call of its C code for each block. It
  reads manifest lists and manifests (`table.manifest`), whose entries become Python objects anyway, and data and
  delete files, whose dictionaries `columns.AvroColumns` turns into Arrow arrays.
- **twostage_native.avro_walk** steps over encoded records and keeps a few numbers of each, without creating
  objects.
  It only counts the rows of manifests (`aggregates.row_counts`), and leaves whatever is unusual to fastavro.

Both read blocks that `container` found and `compression` unpacked. pyarrow has no Avro reader.
"""
