"""What a table is: catalogs, names, snapshots, metadata and manifests."""
