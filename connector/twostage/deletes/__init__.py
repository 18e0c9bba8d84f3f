"""Deletes: which delete files apply to a data file, and what each kind takes away."""
