"""The request for new credentials: the longest prefix, a token that has expired, and failures without secrets."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from dataclasses import replace

import pytest

from rest_catalog import serve_rest
from twostage.storage import credentials_request as module
from twostage.storage.credentials_request import CredentialsRequest, NotVendedError
from twostage.task import CredentialsEndpoint

LOCATION = "s3://lake/db/events/metadata/1.json"
PATH = "/v1/namespaces/db/tables/events/credentials"
TOKEN = "canary-4711-token"
NEAR = {"s3.access-key-id": "near"}
CREDENTIALS = [
    {"prefix": "s3://", "config": {"s3.access-key-id": "any"}},
    {"prefix": "s3://lake/db/", "config": NEAR},
    {"prefix": "s3://lake/other", "config": {"s3.access-key-id": "other"}},
    {"prefix": "s3://lake/db/events/metadata/1.json", "config": None},
    "nonsense",
]


@pytest.fixture
def rest():
    with serve_rest("s3://lake/db/events", {}) as server:
        server.answers[PATH] = (200, {"storage-credentials": CREDENTIALS})
        yield server


def endpoint(rest, **more):
    address = f"http://127.0.0.1:{rest.server_port}"
    headers = (("Authorization", f"Bearer {TOKEN}"), ("X-Realm", "canary-4711-realm"))
    return CredentialsEndpoint(url=f"{address}{PATH}", location=LOCATION, headers=headers, **more)


def login(rest):
    fields = (("grant_type", "client_credentials"), ("client_secret", "canary-4711-client"))
    return {"login_url": f"http://127.0.0.1:{rest.server_port}/v1/oauth/tokens", "login": fields}


def failure(asked):
    with pytest.raises(NotVendedError) as caught:
        CredentialsRequest(asked)()
    text = str(caught.value)
    assert "canary" not in text
    assert caught.value.__cause__ is None
    return text


def test_the_longest_prefix_by_the_catalogs_authorisation(rest, monkeypatch, tmp_path):
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password mine\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    assert CredentialsRequest(endpoint(rest))() == NEAR
    assert rest.seen == [(PATH, f"Bearer {TOKEN}")]


@pytest.mark.parametrize("status", [401, 419])
def test_a_token_that_has_expired_is_renewed_once_and_kept(rest, status):
    def answer():
        is_new = rest.seen[-1][1] == f"Bearer {TOKEN}-1"
        return (200, {"storage-credentials": CREDENTIALS}) if is_new else (status, {})

    rest.answers[PATH] = answer
    request = CredentialsRequest(endpoint(rest, **login(rest)))
    assert request() == request() == NEAR
    assert [path for path, _ in rest.seen] == [PATH, "/v1/oauth/tokens", PATH, PATH]
    assert f"HTTP {status}" in failure(endpoint(rest))


def test_a_login_that_is_refused(rest):
    rest.answers[PATH] = (401, {})
    nowhere = {**login(rest), "login_url": "http://127.0.0.1:1/"}
    assert "HTTP 401" in failure(endpoint(rest, **login(rest)))
    assert "Error" in failure(endpoint(rest, **nowhere))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (403, {"error": {"message": f"{TOKEN} may not", "type": "x", "code": 403}}),
            "HTTP 403: *** may not",
        ),
        ((400, {"error": "invalid", "error_description": "canary-4711-realm is wrong"}), "400: *** is wrong"),
        ((500, []), "HTTP 500"),
        ((302, {}), "HTTP 302"),
        ((200, []), "not a JSON object"),
        ((200, {}), "no credentials for the table's location"),
        ((200, {"storage-credentials": [{"prefix": "gs://"}]}), "no credentials for the table's location"),
        ((200, {"storage-credentials": CREDENTIALS[2:]}), "no credentials for the table's location"),
    ],
)
def test_what_gives_no_credentials(rest, answer, said):
    rest.answers[PATH] = answer
    assert said in failure(endpoint(rest))


def test_a_catalog_that_is_not_there_or_says_nothing_ends_in_time(rest, monkeypatch):
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.2)
    asked = endpoint(rest)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/x?token=canary-4711"
        assert "ReadTimeout" in failure(replace(asked, url=url))
        assert time.monotonic() - began < 9, "not for the ten seconds that others wait"
    assert "ConnectionError" in failure(replace(asked, url=url))
    assert len(failure(replace(asked, url=url))) <= module.MAX_TEXT


def endless(server, pause):
    """Answer one request of each connection with bytes that never end."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection:
            connection.recv(2**16)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                while True:
                    connection.sendall(b" " * (2**16 if not pause else 1))
                    time.sleep(pause)
            except OSError:
                pass


@pytest.mark.parametrize(("pause", "said"), [(0, "more than"), (0.05, "no answer within")])
def test_an_answer_that_never_ends(rest, monkeypatch, pause, said):
    monkeypatch.setattr(module, "ANSWER_SECONDS", 0.5 if pause else 60)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        threading.Thread(target=endless, args=(server, pause), daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        began = time.monotonic()
        assert said in failure(replace(endpoint(rest), url=url))
        assert time.monotonic() - began < 20
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("how", ["chunks", "gzip", "gzip in chunks"])
def test_an_answer_in_chunks_or_compressed(rest, how):
    """As catalogs behind proxies send it."""
    body = json.dumps({"storage-credentials": CREDENTIALS, "padding": "x" * 200_000}).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
    if "gzip" in how:
        body, head = gzip.compress(body), head + b"Content-Encoding: gzip\r\n"
    if "chunks" in how:
        parts = [body[first : first + 70] for first in range(0, len(body), 70)]
        sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        head += b"Transfer-Encoding: chunked\r\n"
    else:
        sent, head = body, head + b"Content-Length: %d\r\n" % len(body)

    def answer(server):
        connection, _ = server.accept()
        with connection:
            connection.recv(2**16)
            connection.sendall(head + b"\r\n" + sent)

    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        thread = threading.Thread(target=answer, args=(server,), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        assert CredentialsRequest(replace(endpoint(rest), url=url))() == NEAR
        thread.join(10)
