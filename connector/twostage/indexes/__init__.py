"""Indexes: which rows of a data file, and which data files of a table, hold a value; exact, and without reading the data."""
