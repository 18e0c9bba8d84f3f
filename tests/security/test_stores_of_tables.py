"""A table's metadata is written by whoever writes to the table: it does not decide to whom the reader's login is sent."""

from __future__ import annotations

import json

import pytest

import oracle
from core_scan import Opened, scan
from rest_catalog import serve_rest
from s3_server import BUCKET, serve
from tables import Table
from twostage.catalog.load_table import load_table
from twostage.options import parse_options


@pytest.mark.parametrize("is_vended", [False, True])
def test_an_endpoint_in_a_table_s_properties_gets_no_request(tmp_path, is_vended):
    with serve(tmp_path / "lake") as own, serve(tmp_path / "lake") as foreign:
        told = {
            "s3.endpoint": foreign.endpoint,
            "s3.proxy-uri": foreign.endpoint,
            "client.region": "elsewhere",
        }
        table = Table(tmp_path / "lake" / "t", {"id": "long"}, properties=told)
        table.location = f"s3://{BUCKET}/t"
        table.append([{"id": n} for n in range(10)])
        table.write()
        metadata = max((table.folder / "metadata").glob("*.json"))
        assert json.loads(metadata.read_text())["properties"]["s3.endpoint"] == foreign.endpoint
        login = {"s3.access-key-id": "canary", "s3.secret-access-key": "canary", "s3.session-token": "canary"}

        def answer():
            place = f"s3://{BUCKET}/t/metadata/{metadata.name}"
            body = {"metadata": json.loads(metadata.read_text()), "config": login if is_vended else {}}
            return 200, {"metadata-location": place, **body}

        with serve_rest(f"s3://{BUCKET}/t", answer) as catalog:
            given = {
                "path": "r.db.events",
                "catalog.type": "rest",
                "catalog.uri": f"http://127.0.0.1:{catalog.server_port}",
                **own.options,
            }
            options = parse_options(given)
            found = scan(Opened(load_table(options), options))
        live = oracle.live_rows(table.content())
        expected = [oracle.project(row, found.plan.context.schema.fields) for row in live]
        assert not oracle.difference(found.rows, expected)
        assert own.requests
        assert not foreign.requests
