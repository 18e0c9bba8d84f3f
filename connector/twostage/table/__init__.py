"""What a table is: metadata, snapshots, manifests, partition transforms, column metrics."""
