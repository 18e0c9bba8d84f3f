"""Each of PyIceberg's properties of object stores is followed, without effect on reads, or refused by name."""

from __future__ import annotations

import pyiceberg.io
import pytest

from twostage.errors import UnsupportedFeatureError
from twostage.storage.file_systems import file_system
from twostage.storage.known_properties import FOLLOWED, REFUSED, WITHOUT_EFFECT, check_properties
from twostage.storage.location import parse_location
from twostage.storage.stores import client_of
from twostage.task import Storage

AZURE = parse_location("abfss://box@acc.dfs.core.windows.net/t/f")
GOOGLE = parse_location("gs://lake/t/f")


def test_every_name_of_pyiceberg_is_known():
    defined = {
        value
        for value in vars(pyiceberg.io).values()
        if isinstance(value, str) and value.startswith(("s3.", "gcs.", "adls."))
    }
    assert len(defined) > 30
    assert defined == FOLLOWED | WITHOUT_EFFECT | set(REFUSED)
    assert not FOLLOWED & WITHOUT_EFFECT
    assert not (FOLLOWED | WITHOUT_EFFECT) & set(REFUSED)


@pytest.mark.parametrize(
    ("location", "given"),
    [(GOOGLE, {"gcs.requester-pays": "True"}), (AZURE, {"adls.credential": "canary-4711"})],
)
@pytest.mark.parametrize("client", ["auto", "arrow"])
def test_what_is_refused_is_named(location, given, client):
    with pytest.raises(UnsupportedFeatureError) as caught:
        client_of(Storage(properties=given, client=client), location, "box/t/f")
    assert caught.value.code == "UNSUPPORTED_PROPERTY"
    assert next(iter(given)) in str(caught.value)
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("given", [{"adls.token": "canary-4711"}, {"adls.anon": "true"}])
def test_what_obstore_alone_follows_is_refused_where_pyarrow_reads(given):
    check_properties(AZURE, given, by_arrow=False)
    with pytest.raises(UnsupportedFeatureError, match=next(iter(given))):
        file_system(Storage(properties=given), AZURE)
    check_properties(AZURE, {**given, "adls.account-key": "k"}, by_arrow=True)


@pytest.mark.parametrize("given", [{"gcs.requester-pays": "false"}, {"adls.credential": "x"}])
def test_what_does_not_concern_the_store_is_let_be(given):
    check_properties(GOOGLE, given, by_arrow=True)
