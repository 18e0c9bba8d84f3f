"""Vended credentials renew themselves: once for all who want them, in time, and never at the price of those that are good."""

from __future__ import annotations

import asyncio
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from twostage.storage import vended_credentials as module
from twostage.storage.credentials_request import NotVendedError
from twostage.storage.vended_credentials import (
    CredentialProvider,
    vended_credentials,
    with_current_credentials,
)
from twostage.task import CredentialsEndpoint, Storage

CANARY = "canary-4711"
MINUTE = 60_000
ENDPOINT = CredentialsEndpoint(
    url="http://catalog/credentials",
    location="s3://lake/t",
    headers=(("Authorization", f"Bearer {CANARY}"),),
    login=(("client_secret", CANARY),),
)


class Catalog:
    """Vends key 1, 2, … for so many minutes; `answer` replaces that."""

    def __init__(self):
        self.asked = 0
        self.minutes = 60.0
        self.answer = None
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self):
        self.asked += 1
        number = self.asked
        self.gate.wait(60)
        if isinstance(self.answer, Exception):
            raise self.answer
        return keys(f"key-{number}", self.minutes) if self.answer is None else self.answer


def keys(name, minutes=None):
    found = {"s3.access-key-id": name, "s3.secret-access-key": f"{name}-{CANARY}", "s3.session-token": name}
    if minutes is not None:
        found["s3.session-token-expires-at-ms"] = str(int(time.time() * 1000 + minutes * MINUTE))
    return found


@pytest.fixture
def catalog(monkeypatch):
    made = Catalog()
    monkeypatch.setattr(module, "CredentialsRequest", lambda _endpoint: made)
    monkeypatch.setattr(module, "_known", {})
    yield made
    made.gate.set()


def storage(minutes, **more):
    given = {"s3.region": "r", **keys("key-0", minutes), **more}
    return Storage(root="s3://lake/t", properties=given, renewal=ENDPOINT)


def shape(properties):
    return {"key": properties["s3.access-key-id"]}


def given(provider):
    """Return what obstore would be given, and whether it would have to wait for it."""
    found = provider()
    if isinstance(found, dict):
        return found["key"], False

    async def wait():
        return await found

    return asyncio.run(wait())["key"], True


def wait_until(holds):
    for _ in range(6_000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen within a minute")


def settle(vended):
    """Wait until nobody asks."""
    wait_until(lambda: vended._asking is None)


def test_credentials_that_are_good_for_long_are_given_as_they_are(catalog):
    vended = vended_credentials(storage(60))
    provider = CredentialProvider(vended, shape)
    found = provider()
    assert found["key"] == "key-0"
    assert abs(found["expires_at"].timestamp() - time.time() - 3600) < 5
    assert (catalog.asked, vended.number) == (0, 0)


def test_without_an_end_or_an_endpoint_nothing_is_asked(catalog):
    assert CredentialProvider(vended_credentials(storage(None)), shape)()["expires_at"] is None
    assert vended_credentials(Storage(properties=keys("k", 1))) is None
    assert with_current_credentials(known := Storage(properties=keys("k", 1))) is known
    assert catalog.asked == 0


def test_those_that_end_soon_serve_while_new_ones_are_asked_for(catalog):
    catalog.gate.clear()
    vended = vended_credentials(storage(2.9))
    provider = CredentialProvider(vended, shape)
    assert [given(provider) for _ in range(3)] == [("key-0", False)] * 3
    catalog.gate.set()
    settle(vended)
    assert given(provider) == ("key-1", False)
    assert (catalog.asked, vended.number, provider.number) == (1, 1, 1)
    assert vended.properties["s3.region"] == "r"
    assert given(provider) == ("key-1", False)
    assert catalog.asked == 1


def test_those_that_have_ended_are_waited_for_by_all_who_want_them_with_one_request(catalog):
    catalog.gate.clear()
    opened = storage(-1)
    together = threading.Barrier(9, timeout=60)

    def provider():
        found = CredentialProvider(vended_credentials(opened), shape)()
        together.wait()
        return found

    with ThreadPoolExecutor(8) as threads:
        # eight files, each with a provider of its own
        asked = [threads.submit(given, provider) for _ in range(8)]
        together.wait()
        assert not any(one.done() for one in asked)
        catalog.gate.set()
        assert {one.result() for one in asked} == {("key-1", True)}
    assert catalog.asked == 1
    assert with_current_credentials(opened).properties["s3.access-key-id"] == "key-1"
    assert catalog.asked == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (NotVendedError("HTTP 403"), "HTTP 403"),
        (RuntimeError(CANARY), "RuntimeError"),
        ({}, "lacks a part"),
        ({"s3.access-key-id": "a"}, "lacks a part"),
        ({"gcs.oauth2.token": "of another store"}, "lacks a part"),
        (keys("key-9", -60), "expire no later"),
        (keys("key-0"), "expire no later"),
    ],
)
def test_a_failure_leaves_the_old_ones_and_is_not_repeated_at_once(catalog, monkeypatch, answer, why):
    catalog.answer = answer
    opened = storage(-1) if why != "expire no later" or "9" in str(answer) else storage(None)
    vended = vended_credentials(opened)
    assert asyncio.run(vended.renewed_since(0)) is False
    assert why in vended.failure
    assert CANARY not in vended.failure
    assert vended.properties == opened.properties
    assert given(CredentialProvider(vended, shape)) == ("key-0", False)
    assert catalog.asked == 1
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    catalog.answer = keys("key-2", 60)
    assert asyncio.run(vended.renewed_since(0)) is True
    assert (vended.failure, vended.number, catalog.asked) == ("", 1, 2)


def test_a_catalog_that_hangs_is_waited_for_in_time_and_asked_again(catalog, monkeypatch):
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.1)
    catalog.gate.clear()
    vended = vended_credentials(storage(-1))
    began = time.monotonic()
    assert given(CredentialProvider(vended, shape)) == ("key-0", True)
    vended.renew()
    assert time.monotonic() - began < 30
    wait_until(lambda: catalog.asked == 2)
    catalog.gate.set()
    wait_until(lambda: vended.properties["s3.access-key-id"] in ("key-1", "key-2"))


def test_a_refusal_renews_what_was_thought_to_be_good_but_only_once(catalog):
    vended = vended_credentials(storage(60))
    catalog.minutes = 90

    async def many():
        return await asyncio.gather(*(vended.renewed_since(0) for _ in range(20)))

    assert asyncio.run(many()) == [True] * 20
    assert (catalog.asked, vended.number) == (1, 1)
    assert asyncio.run(vended.renewed_since(0)) is True, "another request has done it"
    assert catalog.asked == 1


def test_those_for_less_than_five_minutes_are_not_renewed_again_and_again(catalog):
    catalog.minutes = 2
    vended = vended_credentials(storage(1))
    vended.renew_in_time()
    settle(vended)
    provider = CredentialProvider(vended, shape)
    assert [given(provider) for _ in range(3)] == [("key-1", False)] * 3
    assert catalog.asked == 1


def test_nothing_of_the_old_credentials_stays(catalog):
    catalog.answer = {"s3.access-key-id": "new", "s3.secret-access-key": "new"}
    vended = vended_credentials(storage(-1, **{"client.session-token": "old", "s3.endpoint": "http://h"}))
    vended.renew()
    assert vended.properties == {"s3.region": "r", "s3.endpoint": "http://h", **catalog.answer}


def test_the_signature_of_an_azure_account(catalog):
    until = int(time.time() * 1000) + 60 * MINUTE
    catalog.answer = {
        "adls.sas-token.lake.dfs.core.windows.net": "new",
        "adls.sas-token-expires-at-ms.lake.dfs.core.windows.net": str(until),
    }
    old = {"adls.sas-token": "old", "adls.sas-token-expires-at-ms.lake.dfs.core.windows.net": "5"}
    vended = vended_credentials(Storage(properties=old, renewal=ENDPOINT))
    vended.renew()
    assert (vended.properties["adls.sas-token"], vended.until) == ("new", until)


def test_a_process_keeps_few_of_them_and_one_for_each_table(catalog, monkeypatch):
    assert vended_credentials(storage(None)) is vended_credentials(pickle.loads(pickle.dumps(storage(None))))
    monkeypatch.setattr(module, "MAX_TABLES", 2)
    for number in range(4):
        vended_credentials(storage(None, number=str(number)))
    assert len(module._known) == 2
    module._after_fork()
    assert not module._known


def test_a_process_that_can_start_no_thread_reads_on(catalog, monkeypatch):
    class Refused:
        def __init__(self, **_: object) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module.threading, "Thread", Refused)
    vended = vended_credentials(storage(-1))
    assert given(CredentialProvider(vended, shape)) == ("key-0", True)
    assert "no thread" in vended.failure


def test_what_travels_with_a_plan_shows_no_secret(catalog):
    opened = storage(60)
    assert CANARY.encode() in pickle.dumps(opened)
    assert pickle.loads(pickle.dumps(opened)) == opened
    for shown in (repr(opened), repr(ENDPOINT), repr(vended_credentials(opened)), str([ENDPOINT])):
        assert CANARY not in shown
        assert "catalog/credentials" not in shown
