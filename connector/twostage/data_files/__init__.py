"""Data files of each format: row groups, bounds, and columns as the scan wants them."""
