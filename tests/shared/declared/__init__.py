"""Parts of the table builder in `tables.py`; none of them uses the product's code."""
