"""Deleted positions of a data file, from positional delete files and deletion vectors."""
