"""Which client reads: obstore where it knows the store and the name, else PyArrow; each connected once."""

from __future__ import annotations

import pytest

from twostage.storage import stores
from twostage.storage.arrow_client import ArrowClient
from twostage.storage.location import parse_location
from twostage.storage.obstore_client import ObstoreClient
from twostage.storage.stores import client_of
from twostage.task import Storage

GIVEN = {
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.access-key-id": "a",
    "s3.secret-access-key": "b",
    "s3.region": "us-east-1",
}


@pytest.fixture(autouse=True)
def no_clients(monkeypatch):
    monkeypatch.setattr(stores, "_clients", {})


def client(storage=None, path="s3://lake/t/f", name="lake/t/f"):
    return client_of(storage or Storage(root="s3://lake/t", properties=GIVEN), parse_location(path), name)


def test_obstore_reads_what_it_knows():
    assert isinstance(client(), ObstoreClient)
    assert client() is client()
    assert client().key == ("s3", "http://127.0.0.1:1", "lake")


def test_other_properties_and_buckets_have_their_own_client():
    other = Storage(root="s3://lake/t", properties={**GIVEN, "s3.access-key-id": "renewed"})
    assert client(other) is not client()
    assert client(other).key == client().key, "one window"
    assert client(path="s3://other/f") is not client()


def test_the_option_leaves_it_to_pyarrow():
    assert isinstance(client(Storage(root="s3://lake/t", properties=GIVEN, client="arrow")), ArrowClient)


@pytest.mark.parametrize("name", ["lake/t//f", "lake/./f", "lake/t/", "lake/../f"])
def test_a_name_that_obstore_would_change_is_left_to_pyarrow(name):
    assert isinstance(client(name=name), ArrowClient)


def test_a_process_that_was_forked_while_reading_uses_pyarrow(monkeypatch):
    monkeypatch.setattr(stores, "lost_its_runtime", lambda: True)
    assert isinstance(client(), ArrowClient)


def test_an_environment_without_obstore_uses_pyarrow(monkeypatch):
    monkeypatch.setattr(stores, "find_spec", lambda _name: None)
    assert isinstance(client(), ArrowClient)


def test_few_clients_are_kept():
    for number in range(stores.MAX_FILE_SYSTEMS + 5):
        client(Storage(properties={**GIVEN, "s3.session-token": str(number)}))
    assert len(stores._clients) == stores.MAX_FILE_SYSTEMS
