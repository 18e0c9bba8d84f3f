"""Parquet below pyarrow: footers, statistics, dictionaries and Bloom filters, read strictly.

Rule: nothing here trusts a byte of the file. Bad input is a `CorruptFileError`, and pyarrow is only asked
about files whose footer was checked here first.
"""
