"""File formats below the scan: Parquet, ORC and Avro, and their conversion to the table's types."""
