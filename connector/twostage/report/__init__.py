"""The scan report: what a scan considered, removed, read and cost, as a person reads it."""
