"""The condition cache: which rows of data files earlier scans found to match."""
