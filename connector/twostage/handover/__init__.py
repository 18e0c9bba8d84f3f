"""Scans handed over to Spark's own Parquet reader: which, and with what."""
