"""The FileIO that says which metadata file a catalog would read: it opens nothing, and shows no secret."""

from __future__ import annotations

import pytest

from twostage.catalog.metadata_locator import LOCATOR, MetadataLocatedError, MetadataLocator

PROPERTIES = {"s3.secret-access-key": "hidden", "py-io-impl": LOCATOR}


def test_the_location_comes_as_an_exception() -> None:
    with pytest.raises(MetadataLocatedError) as caught:
        MetadataLocator(PROPERTIES).new_input("s3://bucket/t/metadata/v1.metadata.json")
    assert caught.value.location == "s3://bucket/t/metadata/v1.metadata.json"
    assert caught.value.properties == {"s3.secret-access-key": "hidden"}  # without what led here
    assert "hidden" not in f"{caught.value}{caught.value!r}"
    assert MetadataLocator().properties == {}


def test_catalogs_are_read_only() -> None:
    for action in (MetadataLocator().new_output, MetadataLocator().delete):
        with pytest.raises(NotImplementedError, match="read-only"):
            action("s3://bucket/x")


def test_pyiceberg_finds_it_by_its_name() -> None:
    from pyiceberg.io import load_file_io

    found = load_file_io({"py-io-impl": LOCATOR}, "s3://bucket/t")
    assert type(found).__name__ == "MetadataLocator"
