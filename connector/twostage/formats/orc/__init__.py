"""Reads ORC files: tail, statistics, and stripes to Arrow arrays. Damaged bytes give an error, nothing worse."""
