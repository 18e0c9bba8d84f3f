"""One request for new credentials to the REST catalog that vended a table's.

Takes a `CredentialsEndpoint`; gives the properties that the catalog vends for the table's location. A bearer token that has
expired is renewed first, by OAuth2's client credentials, if they were given. The rules: a request ends in time, it follows no
redirection, so that authorisation goes where the catalog is and nowhere else, and what it says about a failure shows no secret.
Source: Iceberg's REST specification, ``loadCredentials``.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from twostage.errors import mask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from requests import PreparedRequest, Response

    from twostage.task import CredentialsEndpoint

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 10.0
"""Longest wait for the next byte of an answer."""
ANSWER_SECONDS = 30.0
"""For all of an answer, whose bytes may come one by one."""
MAX_ANSWER_BYTES = 2**20
"""Catalogs' answers have a few thousand."""
MAX_TEXT = 200
"""Characters that are repeated of what a server or library said."""
MAX_UNMASKED = 3
"""Characters up to which a header's value is no secret: replacing it would garble the message."""
_EXPIRED_TOKEN = (401, 419)
"""Statuses of a catalog that wants another token; 419 is Iceberg's own."""
_AUTHORIZATION = "Authorization"


class NotVendedError(Exception):
    """The catalog gave no credentials; the text says why, and shows no secret."""


class _Answer(NamedTuple):
    status: int
    reason: str
    content: bytes


class CredentialsRequest:
    """Asks one endpoint, as often as it is called; one thread at a time."""

    def __init__(self, endpoint: CredentialsEndpoint) -> None:
        self._endpoint = endpoint
        self._headers = dict(endpoint.headers)

    def __call__(self) -> dict[str, str]:
        """Return the properties that the catalog vends now.

        Raises:
            NotVendedError: It gave none.
        """
        try:
            answer = self._send("GET", self._endpoint.url, self._headers)
            if answer.status in _EXPIRED_TOKEN and self._endpoint.login_url:
                self._log_in()
                answer = self._send("GET", self._endpoint.url, self._headers)
            return _longest_prefix(self._read(answer), self._endpoint.location)
        except NotVendedError as error:
            raise NotVendedError(self._masked(str(error))) from None
        except Exception as error:  # noqa: BLE001 - a library's, of which only the text is of use
            raise NotVendedError(self._masked(f"{type(error).__name__} {error}")) from None

    def _log_in(self) -> None:
        endpoint = self._endpoint
        answer = self._send("POST", endpoint.login_url, dict(endpoint.login_headers), dict(endpoint.login))
        try:
            token = self._read(answer).get("access_token")
        except NotVendedError as error:
            raise NotVendedError(f"its token had expired, and no new one was given: {error}") from None
        if not isinstance(token, str) or not token:
            raise NotVendedError("its token had expired, and the answer held no new one")
        self._headers[_AUTHORIZATION] = f"Bearer {token}"

    def _send(
        self, method: str, url: str, headers: Mapping[str, str], form: Mapping[str, str] | None = None
    ) -> _Answer:
        import requests  # noqa: PLC0415 - takes 0.1 s, and most processes renew nothing

        with requests.request(
            method,
            url,
            headers={**headers, "Accept": "application/json"},
            data=form,
            auth=_as_it_is,
            timeout=(CONNECT_SECONDS, SILENCE_SECONDS),
            allow_redirects=False,
            verify=self._endpoint.verify,
            cert=self._endpoint.certificate,
            stream=True,
        ) as answer:
            return _Answer(answer.status_code, answer.reason or "", _content(answer))

    def _read(self, answer: _Answer) -> dict[str, Any]:
        if answer.status != 200:
            raise NotVendedError(f"HTTP {answer.status}{_said(answer)}")
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            raise NotVendedError("the answer is not JSON") from None
        if not isinstance(found, dict):
            raise NotVendedError("the answer is not a JSON object")
        return found

    def _masked(self, text: str) -> str:
        endpoint = self._endpoint
        values = {*dict(endpoint.headers).values(), *self._headers.values()}
        values |= {*dict(endpoint.login).values(), *dict(endpoint.login_headers).values()}
        secrets = {part for value in values for part in (value, value.rpartition(" ")[2])}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) > MAX_UNMASKED:
                text = text.replace(secret, "***")
        return mask(text.strip().partition("\n")[0])[:MAX_TEXT]


def _as_it_is(request: PreparedRequest) -> PreparedRequest:
    """Leave the request's headers alone; without it, a login in ~/.netrc would replace the authorisation."""
    return request


def _content(answer: Response) -> bytes:
    """Return all bytes of an answer; one that is too long or too slow is refused."""
    ends = time.monotonic() + ANSWER_SECONDS
    found = bytearray()
    # `read1` returns what is there; `read`, all that urllib3 has before 2.1, waits for as many bytes as it is asked for.
    read = getattr(answer.raw, "read1", answer.raw.read)
    while part := read(2**16, decode_content=True):
        found += part
        if len(found) > MAX_ANSWER_BYTES:
            raise NotVendedError(f"the answer has more than {MAX_ANSWER_BYTES:,} bytes")
        if time.monotonic() > ends:
            raise NotVendedError(f"there was no answer within {ANSWER_SECONDS:.0f} s")
    return bytes(found)


def _said(answer: _Answer) -> str:
    """Return the message of a refusal in Iceberg's or OAuth2's form of an error, if it has either."""
    try:
        found = json.loads(answer.content)
        error = found.get("error", "")
        text = error.get("message") if isinstance(error, dict) else found.get("error_description") or error
    except (ValueError, RecursionError, AttributeError):
        return f" {answer.reason}" if answer.reason else ""
    return f": {text}" if text else ""


def _longest_prefix(answer: Mapping[str, Any], location: str) -> dict[str, str]:
    """Return the properties of the credentials with the longest prefix of `location`."""
    given = answer.get("storage-credentials")
    found = [
        one
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, dict)
        and isinstance(one.get("config"), dict)
        and location.startswith(str(one.get("prefix", "")))
    ]
    if not found:
        raise NotVendedError("the answer holds no credentials for the table's location")
    best = max(found, key=lambda one: len(str(one.get("prefix", ""))))
    return {str(name): str(value) for name, value in best["config"].items()}
