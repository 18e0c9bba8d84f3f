"""One recommendation: its figures as texts, and as plain values."""

from __future__ import annotations

import json

from twostage.advisor.recommendation import Recommendation


def test_figures_that_are_known_are_told():
    one = Recommendation(
        table="db.t",
        action="index",
        reason="why",
        votes=1_200,
        saved_share=0.256,
        saved_bytes=3 * 2**20,
        saved_seconds=4.04,
        size=2_048,
        build_cost=5 * 2**20,
    )
    assert one.facts == [
        "saves 25.6% of the entries",
        "3.0 MiB of filter columns",
        "4.0 s",
        "size about 2.0 KiB",
        "building it reads and writes about 5.0 MiB",
        "1,200 votes",
    ]
    assert Recommendation(table="db.t", action="nothing", reason="why").facts == []
    assert Recommendation(table="db.t", action="index", reason="", saved_bytes=-5.0).facts == [
        "0 B of filter columns"
    ]


def test_as_json():
    one = Recommendation(table="db.t", action="partition", reason="why", columns=("ts",), transform="day(ts)")
    assert json.loads(json.dumps(one.as_dict()))["transform"] == "day(ts)"
