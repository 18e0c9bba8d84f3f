"""From logged queries to the indexes that pay: query logs, column metadata, votes, recommendations."""
