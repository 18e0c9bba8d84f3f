"""Which rows of a data file its deletes remove: positional delete files, deletion vectors and equality deletes."""
