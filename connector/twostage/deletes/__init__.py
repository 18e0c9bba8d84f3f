"""The rows that a data file's positional deletes, deletion vectors and equality deletes remove."""
