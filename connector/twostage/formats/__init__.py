"""File formats below the scan: Parquet, ORC, Avro and variants, and the conversion of their columns to the scan's types."""
