"""A planted secret in every kind of option shows in no value's repr, no error, no log line and no output of a read."""

from __future__ import annotations

import dataclasses
import inspect
import logging
import traceback
from pathlib import Path

import pytest

from core_scan import Opened, scan
from tables import Table
from twostage import options as options_module, task as task_module
from twostage.catalog.load_table import load_table
from twostage.errors import TwoStageError, mask
from twostage.options import parse_options
from twostage.report.scan_report import ScanReport
from twostage.storage.errors import hide_secrets, translate_errors
from twostage.storage.vended_credentials import vended_credentials
from twostage.task import CredentialsEndpoint, Storage

CANARY = "canary6f1c0e8d24b94a5f9d3c7b1a0e5f2468"  # the same in every process: it stands in names of tests
SECRETS = {
    "s3.access-key-id": f"{CANARY}1",
    "s3.secret-access-key": f"{CANARY}2/+=",
    "s3.session-token": f"{CANARY}3",
    "token": f"{CANARY}4",
    "credential": f"me:{CANARY}5",
    "header.Authorization": f"Bearer {CANARY}6",
    "adls.account-key": f"{CANARY}7",
    "adls.sas-token": f"sv=1&sig={CANARY}8",
    "adls.client-secret": f"{CANARY}9",
    "gcs.oauth2.token": f"{CANARY}a",
    "jdbc.password": f"{CANARY}b",
    "s3.proxy-uri": f"http://me:{CANARY}c@127.0.0.1:1",
}
RENEWAL = CredentialsEndpoint(
    url=f"http://me:{CANARY}d@127.0.0.1:1/credentials?token={CANARY}e",
    location="s3://lake/t",
    headers=(("Authorization", f"Bearer {CANARY}4"), ("X-Key", f"{CANARY}f")),
    login_url=f"http://me:{CANARY}g@127.0.0.1:1/login",
    login=(("client_id", f"{CANARY}h"), ("client_secret", f"{CANARY}5")),
    login_headers=(("Authorization", f"Basic {CANARY}i"),),
)
OPTIONS = {f"catalog.{key}": value for key, value in SECRETS.items()}


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    caplog.set_level(logging.DEBUG)


@pytest.fixture
def table(tmp_path):
    made = Table(tmp_path / "t", {"id": "long", "s": "string"}, version=2)
    file = made.append([{"id": i, "s": f"s{i}"} for i in range(100)])
    made.delete_positions({file: [1]})
    made.delete_equal(["id"], [{"id": 2}])
    made.write()
    return made


def open_with_secrets(path, **more):
    options = parse_options(
        {"path": str(path), **OPTIONS, **{k.replace("_", "-"): v for k, v in more.items()}}
    )
    return Opened(load_table(options), options)


def told(error):
    """Return everything that an error tells: text, repr, attributes, and the traceback with its causes."""
    return "".join(
        [str(error), repr(error), repr(error.args), repr(vars(error)), *traceback.format_exception(error)]
    )


def quiet(caplog, capfd, *texts):
    out, err = capfd.readouterr()
    for text in (out, err, caplog.text, *texts):
        assert CANARY not in text, text


def test_a_whole_read(table, caplog, capfd):
    opened = open_with_secrets(table.folder)
    result = scan(opened)
    assert len(result.rows) == 98
    report = ScanReport.build(result.plan, [result.metrics])
    shown = [str(report), repr(report), report.json(), report._repr_html_(), repr(opened.table), repr(opened)]
    quiet(caplog, capfd, repr(result.plan), *map(repr, result.plan.groups), *shown)


def samples():
    """Return an instance of every dataclass of task.py and options.py, each text field a URI with a login."""
    uri = f"s3://me:{CANARY}@lake/t?X-Amz-Signature={CANARY}"
    made = []
    for module in (task_module, options_module):
        for _, kind in inspect.getmembers(module, dataclasses.is_dataclass):
            if kind.__module__ == module.__name__:
                made.append((kind, uri))
    return made


@pytest.mark.parametrize(("kind", "uri"), samples(), ids=lambda one: getattr(one, "__name__", ""))
def test_the_repr_of_every_plain_value(kind, uri):
    """Whatever field holds it: `str` fields are URIs with a login, tuples hold one, mappings are properties."""
    values = {}
    for one in dataclasses.fields(kind):
        text = str(one.type)
        if text.startswith("Mapping[str, str]"):
            values[one.name] = SECRETS
        elif text.startswith("str"):
            values[one.name] = uri
        elif text.startswith("tuple[str"):
            values[one.name] = (uri, uri)
        elif one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
            values[one.name] = None
    made = kind(**values)
    assert CANARY not in repr(made)
    assert CANARY not in str(made)
    assert repr(made).startswith(kind.__name__)
    assert CANARY not in repr([made])


CLOSED = {"s3.endpoint": "http://127.0.0.1:1", "s3.connect-timeout": "1", "s3.region": "us-east-1"}
FAILING = {
    "unknown option": {"path": "/t", "s3.secret-access-key": CANARY},
    "bad option": {"path": "/t", "allowed-locations": f"me:{CANARY}@lake"},
    "no table": {"path": f"/no/such/table?token={CANARY}"},
    "login in a path": {"path": f"s3://me:{CANARY}@lake/t"},
    "login with an at sign": {"path": f"s3://me:{CANARY}@{CANARY}@lake/t"},
    "storage is closed": {"path": "s3://lake/t", **{f"catalog.{k}": v for k, v in CLOSED.items()}},
    "unknown scheme": {"path": f"gopher://me:{CANARY}@host/t"},
    "sql catalog": {
        "path": "c.db.t",
        "catalog.type": "sql",
        "catalog.uri": f"postgresql://me:{CANARY}@127.0.0.1:1/c",
    },
    "unknown database": {
        "path": "c.db.t",
        "catalog.type": "sql",
        "catalog.uri": f"nothing://me:{CANARY}@127.0.0.1/c",
    },
    "rest catalog": {
        "path": "c.db.t",
        "catalog.type": "rest",
        "catalog.uri": f"http://me:{CANARY}@127.0.0.1:1",
    },
    "no such catalog": {"path": "c.db.t"},
    "two snapshots": {"path": "/t", "branch": "a", "tag": "b"},
}


@pytest.mark.parametrize("case", FAILING)
def test_errors_of_options_catalogs_and_storage(case, caplog, capfd, monkeypatch):
    monkeypatch.setattr("twostage.catalog.client.CALL_SECONDS", 5)
    own = FAILING[case]
    with pytest.raises(TwoStageError) as caught:
        load_table(parse_options({**OPTIONS, **own}))
    quiet(caplog, capfd, told(caught.value))


def test_renewal_of_credentials_by_a_catalog_that_is_gone(caplog, capfd):
    """Its authorisation travels with the plan, and its failure is told where the store refuses."""
    stated = {**SECRETS, "s3.endpoint": "http://127.0.0.1:1", "s3.session-token-expires-at-ms": "5"}
    storage = Storage(root="s3://lake/t", properties=stated, renewal=RENEWAL)
    vended = vended_credentials(storage)
    vended.renew()
    assert "ConnectionError" in vended.failure
    with pytest.raises(TwoStageError) as caught, translate_errors("s3://lake/t/f", "s", storage=storage):
        raise OSError(f"AWS Error ACCESS_DENIED: {CANARY}2/+= is not a key")
    assert caught.value.code == "CREDENTIALS_EXPIRED"
    assert "The catalog gave no new ones: ConnectionError" in caught.value.hint
    quiet(caplog, capfd, told(caught.value), repr(storage), repr(RENEWAL), repr(vended), vended.failure)


def damage(table, pattern, data):
    for path in table.folder.glob(pattern):
        path.write_bytes(data) if data is not None else path.unlink()


@pytest.mark.parametrize("data", [b"PAR1 no PAR1", b"", None], ids=["damaged", "empty", "missing"])
@pytest.mark.parametrize(
    "pattern", ["data/file-*", "data/deletes-*", "data/equality-*", "metadata/manifest-*", "metadata/snap-*"]
)
def test_errors_of_each_stage(table, pattern, data, caplog, capfd):
    opened = open_with_secrets(table.folder)
    damage(table, pattern, data)
    with pytest.raises(TwoStageError) as caught:
        scan(opened)
    quiet(caplog, capfd, told(caught.value))


@pytest.mark.parametrize("key", SECRETS)
def test_a_librarys_text_that_quotes_a_property(key):
    text = hide_secrets(OSError(f"refused: {SECRETS[key]} for {key}"), SECRETS)
    assert CANARY not in text
    assert "refused" in text


@pytest.mark.parametrize(
    "text",
    [
        f"postgresql://me:{CANARY}@host/db",
        f"s3://me:{CANARY}@{CANARY}@lake/t",
        f"https://h/x?a=1&X-Amz-Signature={CANARY}&X-Amz-Credential={CANARY}",
        f"https://h/x?sv=1&sig={CANARY}",
        f"password={CANARY} token={CANARY};secret={CANARY}",
    ],
)
def test_what_looks_like_a_secret_is_masked_wherever_it_came_from(text):
    assert CANARY not in mask(text)
    assert "***" in mask(text)


def test_the_canary_is_looked_for_where_it_would_be():
    """The scan of this module finds a secret where one is shown."""
    assert CANARY in repr(dict(SECRETS))
    assert CANARY in told(TwoStageError("X", f"shown {CANARY}"))
    assert Path(__file__).name in told(_raised())


def _raised():
    try:
        raise TwoStageError("X", "text")
    except TwoStageError as error:
        return error
