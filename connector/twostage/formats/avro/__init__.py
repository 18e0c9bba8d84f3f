"""Avro: container files, and their blocks as Arrow arrays."""
