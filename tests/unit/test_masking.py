"""Plain values that travel to workers show nothing secret, whichever field holds it."""

from __future__ import annotations

from twostage.task import DeleteFile, Storage


def test_what_is_shown() -> None:
    storage = Storage(
        root="s3://key:hidden@lake/t",
        properties={"s3.secret-access-key": "hidden"},
        allowed=("https://h/x?sig=hidden",),
    )
    assert "hidden" not in repr(storage)
    assert repr(storage).startswith("Storage(root='s3://***@lake/t', ")
    delete = DeleteFile(
        content="vector",
        format="puffin",
        path="s3://u:hidden@b/x\n",
        written_path="x",
        file_size=1,
        record_count=1,
        sequence_number=1,
    )
    assert "hidden" not in repr(delete)
    assert "\n" not in repr(delete)
    assert "sequence_number=1" in repr(delete)
