"""Reads delete files of every format: columns of their rows, batch by batch."""
