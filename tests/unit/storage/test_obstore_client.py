"""Objects by obstore over HTTP: exact bytes, conditions, names, and every kind of failure, one request each."""

from __future__ import annotations

import asyncio
import time

import pytest

from s3_server import Fault, serve
from twostage.storage import obstore_client
from twostage.storage.location import parse_location
from twostage.storage.obstore_client import ObstoreClient, kind_of, shown
from twostage.storage.store_client import RangedFile, RequestFailedError
from twostage.storage.store_loop import event_loop
from twostage.storage.store_properties import StoreProperties, store_properties
from twostage.storage.vended_credentials import VendedCredentials
from twostage.task import CredentialsEndpoint

DATA = bytes(range(256)) * 40
SECRET = "canary-4711/secret+key"
LATER = str(int(time.time() * 1000) + 3_600_000)
KEYS = {"access_key_id": "AK", "secret_access_key": SECRET, "token": "token", "expires_at": None}


@pytest.fixture
def s3(tmp_path):
    (tmp_path / "f").write_bytes(DATA)
    (tmp_path / "empty").write_bytes(b"")
    with serve(tmp_path) as server:
        server.client = client_of(server)
        yield server


def client_of(server, patience=60.0):
    """Return a client that bears silence for so many seconds."""
    config = {"endpoint": server.endpoint, "region": "us-east-1", "virtual_hosted_style_request": False}
    return ObstoreClient(
        StoreProperties(
            kind="s3",
            bucket="lake",
            config=config,
            credentials=lambda: KEYS,
            allows_http=True,
            connect_seconds=2,
            request_seconds=patience,
        )
    )


def get(s3, name="f", start=0, end=None, limit=None, etag=None):
    file = RangedFile(f"s3://lake/{name}", f"lake/{name}", s3.client, etag=etag)
    asked = s3.client.get(file, start, end, limit)
    return asyncio.run_coroutine_threadsafe(asked, event_loop()).result(30)


def test_ranges(s3):
    answer = get(s3, start=10, end=20)
    assert (bytes(answer.data), answer.size) == (DATA[10:20], len(DATA))
    assert answer.etag.startswith('"')
    assert bytes(get(s3, start=10_000).data) == DATA[10_000:]
    assert bytes(get(s3).data) == DATA
    assert bytes(get(s3, start=-100).data) == DATA[-100:]
    assert bytes(get(s3, start=-100_000).data) == DATA
    assert bytes(get(s3, "empty").data) == b""
    assert [request[0] for request in s3.requests] == ["GET"] * 6


@pytest.mark.parametrize(
    "name", ["a b", "p=1%2F2/f", "plus+eq=", "ünï", "c:x", "q?x", "h#x", "[0]{1}", "a&b;c,d@e$!"]
)
def test_names_are_literal(s3, name):
    place = s3.root / name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(b"here")
    assert bytes(get(s3, name).data) == b"here"


def test_a_limit_is_looked_at_before_the_bytes_are_read(s3):
    with pytest.raises(RequestFailedError) as caught:
        get(s3, limit=100)
    assert (caught.value.kind, caught.value.text) == ("too large", str(len(DATA)))
    assert bytes(get(s3, limit=len(DATA)).data) == DATA


@pytest.mark.parametrize(
    ("fault", "kind", "text"),
    [
        (Fault("404"), "missing", "HTTP 404 Not Found, NoSuchKey: injected"),
        (Fault("403"), "denied", "HTTP 403 Forbidden, InvalidAccessKeyId: injected"),
        (Fault("400", code="ExpiredToken"), "denied", "HTTP 400 Bad Request, ExpiredToken: injected"),
        (Fault("401", code="x"), "denied", "HTTP 401 Unauthorized, x: injected"),
        (Fault("400", code="x"), "other", "HTTP 400 Bad Request, x: injected"),
        (Fault("412", code="PreconditionFailed"), "replaced", ""),
        (Fault("416", code="InvalidRange"), "beyond", ""),
        (Fault("429", code="TooMany"), "throttled", "HTTP 429 Too Many Requests, TooMany: injected"),
        (Fault("503"), "throttled", "HTTP 503 Service Unavailable, SlowDown: injected"),
        (Fault("500"), "broken", "HTTP 500 Internal Server Error, InternalError: injected"),
        (Fault("reset"), "broken", ""),
        (Fault("short"), "broken", ""),
        (Fault("lies"), "broken", ""),
        (Fault("hang", seconds=1), "timeout", "no answer in time"),
        (Fault("drip", seconds=0.9), "timeout", "no answer in time"),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_failures(s3, fault, kind, text):
    fault.path, fault.times = "f", 1
    s3.faults = [fault]
    if kind == "timeout":
        s3.client = client_of(s3, patience=0.5)
    with pytest.raises(RequestFailedError) as caught:
        get(s3, start=0, end=5_000)
    assert caught.value.kind == kind, caught.value.text
    assert caught.value.text.startswith(text)
    assert len(s3.requests) == 1, "it repeats nothing itself"
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(("start", "end"), [(0, 5_000), (0, None), (-5_000, None)])
def test_bytes_that_come_too_slowly_are_given_up(s3, monkeypatch, start, end):
    """Each pause is much shorter than the request timeout, and silence alone would never end it."""
    s3.client._seconds = 0.3
    s3.faults = [Fault("drip", path="f", seconds=0.05, pieces=50, times=2)]
    monkeypatch.setattr(obstore_client, "LOWEST_RATE", 10_000)
    began = time.monotonic()
    with pytest.raises(RequestFailedError) as caught:
        get(s3, start=start, end=end)
    assert (caught.value.kind, caught.value.text[:17]) == ("timeout", "no answer in time")
    seconds = 0.3 + len(DATA[start:end]) / 10_000
    assert time.monotonic() - began > seconds - 0.01, (
        "one for each 10,000 bytes, beside that of every request"
    )
    monkeypatch.setattr(obstore_client, "LOWEST_RATE", 100)
    assert bytes(get(s3, start=start, end=end).data) == DATA[start:end], "slow, but not that slow"


def test_a_range_beyond_the_end(s3):
    with pytest.raises(RequestFailedError) as caught:
        get(s3, start=20_000, end=20_010)
    assert caught.value.kind == "beyond"


def test_nobody_listens():
    client = ObstoreClient(
        StoreProperties(
            kind="s3",
            bucket="lake",
            config={"endpoint": "http://127.0.0.1:9", "region": "r"},
            credentials=lambda: KEYS,
            allows_http=True,
        )
    )
    with pytest.raises(RequestFailedError) as caught:
        asyncio.run_coroutine_threadsafe(
            client.get(RangedFile("s3://lake/f", "lake/f", client), 0, 1, None), event_loop()
        ).result(30)
    assert caught.value.kind == "broken"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Generic S3 error: the credential provider was not enabled", "denied"),
        ("Server returned non-2xx status code: 503 x: <Error><Code>SlowDown", "throttled"),
        ("Server returned non-2xx status code: 500 x: <Error><Code>ServerBusy</Code>", "throttled"),
        ("Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: x", "denied"),
        ("Error performing GET http://metadata.google.internal/x in 1s - status code: 404", "denied"),
        ("something else", "other"),
    ],
)
def test_kinds_of_texts(text, kind):
    assert kind_of(OSError(text)) == kind


def test_whoever_gave_no_credentials_is_told_so():
    error = OSError("Error performing PUT http://169.254.169.254/x in 1s - status code: 403 Forbidden: x")
    expected = "no credentials were given, and none found in the environment: HTTP 403 Forbidden"
    assert shown(error) == expected


def test_only_what_a_user_needs_is_shown():
    assert shown(OSError("Error\n\nDebug source:\nGeneric {")) == "Error"


@pytest.mark.parametrize("kind", ["gs", "azure"])
def test_other_stores_are_asked_the_same_way(s3, kind):
    """By their own addresses and logins; this server answers whoever asks."""
    if kind == "gs":
        given = {"gcs.oauth2.token": SECRET, "gcs.service.host": s3.endpoint}
        path = "gs://lake/f"
    else:  # the emulators' form: the account is a part of the address, here the server's bucket
        (s3.root / "box").mkdir()
        (s3.root / "box" / "f").write_bytes(DATA)
        host = s3.endpoint.removeprefix("http://")
        given = {
            "adls.account-name": "lake",
            "adls.account-key": "Y2FuYXJ5",
            "adls.blob-storage-authority": host,
            "adls.blob-storage-scheme": "http",
        }
        path = "abfss://box@lake.dfs.core.windows.net/f"
    location = parse_location(path)
    found = store_properties(location, given)
    assert isinstance(found, StoreProperties)
    client = ObstoreClient(found)
    file = RangedFile(path, location.remote_name, client)
    for _ in range(2):
        asked = client.get(file, 100, 200, None)
        answer = asyncio.run_coroutine_threadsafe(asked, event_loop()).result(30)
        assert bytes(answer.data) == DATA[100:200]
        assert answer.size == len(DATA)
        file.etag = answer.etag
    for wanted in (100, 100_000):  # of Azure's, which knows no ranges from the end, by two requests
        asked = client.get(file, -wanted, None, None)
        answer = asyncio.run_coroutine_threadsafe(asked, event_loop()).result(30)
        assert bytes(answer.data) == DATA[-wanted:]
    s3.faults = [Fault("403", path="f")]
    with pytest.raises(RequestFailedError) as caught:
        asyncio.run_coroutine_threadsafe(client.get(file, 0, 5, None), event_loop()).result(30)
    assert caught.value.kind == "denied"


VENDED = {
    "s3": (
        {"s3.access-key-id": "OLD", "s3.secret-access-key": SECRET, "s3.region": "r"},
        {"s3.access-key-id": "NEW", "s3.secret-access-key": SECRET, "s3.session-token-expires-at-ms": LATER},
        "s3://lake/f",
    ),
    "gs": (
        {"gcs.oauth2.token": "OLD"},
        {"gcs.oauth2.token": "NEW", "gcs.oauth2.token-expires-at": LATER},
        "gs://lake/f",
    ),
    "azure": (
        {"adls.account-name": "lake", "adls.blob-storage-scheme": "http", "adls.sas-token": "sig=OLD"},
        {"adls.sas-token.lake": "?sig=NEW", "adls.sas-token-expires-at-ms.lake": LATER},
        "abfss://box@lake.dfs.core.windows.net/f",
    ),
}


@pytest.mark.parametrize("kind", VENDED)
@pytest.mark.parametrize("stated", [True, False])
def test_credentials_that_have_ended_are_renewed(s3, monkeypatch, kind, stated):
    """Before the first request if their end was stated; else when the store says so, once for all requests in flight."""
    old, new, path = VENDED[kind]
    (s3.root / "box").mkdir()
    (s3.root / "box" / "f").write_bytes(DATA)
    given = {"s3.endpoint": s3.endpoint, "gcs.service.host": s3.endpoint, **old}
    given["adls.blob-storage-authority"] = s3.endpoint.removeprefix("http://")
    if stated:
        given[next(name for name in new if "expires" in name)] = "5"
    asked = []
    vended = VendedCredentials(given, CredentialsEndpoint(url="http://c", location=path))
    monkeypatch.setattr(vended, "_request", lambda: asked.append(1) or new)
    location = parse_location(path)
    found = store_properties(location, given, are_renewed=True)
    assert isinstance(found, StoreProperties), found
    client = ObstoreClient(found, vended)
    sent = []

    def refuse_old(handler):
        sent.append(handler.headers.get("Authorization", "") + handler.path)
        return "OLD" in sent[-1]

    monkeypatch.setattr(s3, "refuses", refuse_old)
    file = RangedFile(path, location.remote_name, client)

    async def read():
        return await asyncio.gather(*(client.get(file, 0, 50, None) for _ in range(8)))

    answers = asyncio.run_coroutine_threadsafe(read(), event_loop()).result(30)
    assert [bytes(one.data) for one in answers] == [DATA[:50]] * 8
    assert (len(asked), vended.number) == (1, 1)
    assert [("OLD" in one) for one in sent].count(True) == (0 if stated else 8)
    again = asyncio.run_coroutine_threadsafe(client.get(file, 0, 50, None), event_loop()).result(30)
    assert bytes(again.data) == DATA[:50]
    assert len(sent) == (9 if stated else 17)


def test_a_refusal_that_new_credentials_would_not_end_asks_for_none(s3, monkeypatch):
    old, _, path = VENDED["s3"]
    given = {"s3.endpoint": s3.endpoint, **old}
    vended = VendedCredentials(given, CredentialsEndpoint(url="http://c", location=path))
    monkeypatch.setattr(vended, "_request", lambda: pytest.fail("asked"))
    found = store_properties(parse_location(path), given, are_renewed=True)
    client = ObstoreClient(found, vended)
    s3.faults = [Fault("403", path="f", code="AccessDenied")]
    with pytest.raises(RequestFailedError) as caught:
        asked = client.get(RangedFile(path, "lake/f", client), 0, 5, None)
        asyncio.run_coroutine_threadsafe(asked, event_loop()).result(30)
    assert (caught.value.kind, len(s3.requests)) == ("denied", 1)
