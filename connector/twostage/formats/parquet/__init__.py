"""Parquet below pyarrow: footers, statistics, page indexes, dictionaries and Bloom filters, read strictly.

Rule: no byte of the file is trusted. Bad input is a `CorruptFileError`, and pyarrow is handed only files whose footer was
checked here first.
"""
