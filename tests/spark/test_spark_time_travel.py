"""Snapshots by time, as Spark and Iceberg read times: by option, by path and by SQL catalog, in the session's zone."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest

import twostage
from tables import Table

ZONE = "America/New_York"  # the session's


@pytest.fixture(scope="module")
def timed(spark, tmp_path_factory):
    """Table travel.db.t: three snapshots with one, two and three rows. Returns its path and their milliseconds."""
    root = tmp_path_factory.mktemp("travel")
    table = Table(root / "db" / "t", {"id": "long"})
    for number in range(3):
        table.append([{"id": number}])
    table.write()
    twostage.enable(spark, catalogs={"travel": {"type": "hadoop", "warehouse": f"file://{root}"}})
    return str(root / "db" / "t"), [snapshot.raw["timestamp-ms"] for snapshot in table.snapshots]


def local(milliseconds: int, form: str = "%Y-%m-%d %H:%M:%S.%f") -> str:
    moment = datetime.datetime.fromtimestamp(milliseconds / 1000, zoneinfo.ZoneInfo(ZONE))
    return moment.strftime(form)


def by_option(spark, path: str, **options: str) -> int:
    return spark.read.format("twostage").options(**options).load(path).count()


@pytest.mark.parametrize("number", range(3))
def test_seconds(spark, timed, number):
    path, moments = timed
    seconds = moments[number] // 1000
    for name in (path, "travel.db.t"):
        assert by_option(spark, name, timestampAsOf=str(seconds)) == number + 1
        assert by_option(spark, name, timestampAsOf=f" {seconds} ") == number + 1
    for sql in (
        f"TIMESTAMP AS OF {seconds}",
        f"FOR SYSTEM_TIME AS OF {seconds}",
        f"TIMESTAMP AS OF timestamp_millis({moments[number]})",
        f"TIMESTAMP AS OF {seconds}.25BD",
    ):
        assert spark.sql(f"SELECT * FROM travel.db.t {sql}").count() == number + 1, sql
    if number:
        assert by_option(spark, path, timestampAsOf=str(seconds - 1)) == number
        assert spark.sql(f"SELECT * FROM travel.db.t TIMESTAMP AS OF {seconds - 1}").count() == number


@pytest.mark.parametrize("number", range(3))
def test_milliseconds(spark, timed, number):
    path, moments = timed
    for name in (path, "travel.db.t"):
        assert by_option(spark, name, **{"as-of-timestamp": str(moments[number])}) == number + 1
        assert by_option(spark, name, **{"as-of-timestamp": str(moments[number] + 999)}) == number + 1
    frame = spark.read.format("twostage").load(f"travel.db.t.at_timestamp_{moments[number]}")
    assert frame.count() == number + 1
    frame = spark.read.option("as-of-timestamp", str(moments[number])).table("travel.db.t")
    assert frame.count() == number + 1


@pytest.mark.parametrize("number", range(3))
def test_text(spark, timed, number):
    """In the session's time zone, unless it names one; fractions count."""
    path, moments = timed
    here = local(moments[number])
    there = datetime.datetime.fromtimestamp(moments[number] / 1000, datetime.UTC).isoformat()
    for text in (here, here.replace(" ", "T"), f"{here} {ZONE}", there, there.replace("+00:00", "Z")):
        for name in (path, "travel.db.t"):
            assert by_option(spark, name, timestampAsOf=text) == number + 1, text
        assert spark.read.option("timestampAsOf", text).table("travel.db.t").count() == number + 1
        assert spark.sql(f"SELECT * FROM travel.db.t TIMESTAMP AS OF '{text}'").count() == number + 1
    if number:
        before = local(moments[number] - 1)
        assert by_option(spark, path, timestampAsOf=before) == number
        assert spark.sql(f"SELECT * FROM travel.db.t TIMESTAMP AS OF '{before}'").count() == number


def test_dates_alone(spark, timed):
    path, moments = timed
    tomorrow = local(moments[2] + 86_400_000, "%Y-%m-%d")
    today = local(moments[0], "%Y-%m-%d")
    assert by_option(spark, path, timestampAsOf=tomorrow) == 3
    assert spark.sql(f"SELECT * FROM travel.db.t TIMESTAMP AS OF DATE'{tomorrow}'").count() == 3
    for read in (
        lambda: by_option(spark, path, timestampAsOf=today),
        lambda: spark.sql(f"SELECT * FROM travel.db.t TIMESTAMP AS OF '{today}'").count(),
    ):
        with pytest.raises(
            Exception, match=r"\[TWOSTAGE.SNAPSHOT_NOT_FOUND\].*The first snapshot is from 20"
        ):
            read()


def test_expressions(spark, timed):
    _, moments = timed
    sql = "SELECT count(*) FROM travel.db.t TIMESTAMP AS OF"
    # The table's snapshots are days old, and of the same day.
    days = (datetime.datetime.now(datetime.UTC).timestamp() * 1000 - moments[0]) // 86_400_000
    assert spark.sql(f"{sql} current_timestamp()").collect() == [(3,)]
    assert spark.sql(f"{sql} current_timestamp() - INTERVAL 1 SECOND").collect() == [(3,)]
    assert spark.sql(f"{sql} now() - make_interval(0, 0, 0, {int(days) - 1})").collect() == [(3,)]
    with pytest.raises(Exception, match=r"\[TWOSTAGE.SNAPSHOT_NOT_FOUND\]"):
        spark.sql(f"{sql} current_timestamp() - INTERVAL {int(days) + 2} DAYS")
    moment = f"timestamp_millis({moments[1]})"
    assert spark.sql(f"{sql} {moment} + INTERVAL 10 MILLISECONDS").collect() == [(2,)]
    assert spark.sql(f"{sql} {moment} - INTERVAL 10 MILLISECONDS").collect() == [(1,)]


def test_other_zones(spark, timed):
    path, moments = timed
    text = local(moments[1])
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        with pytest.raises(Exception, match=r"\[TWOSTAGE.SNAPSHOT_NOT_FOUND\]"):  # hours earlier there
            assert by_option(spark, path, timestampAsOf=local(moments[0]))
        assert by_option(spark, path, timestampAsOf=f"{text} {ZONE}") == 2
        assert by_option(spark, path, timestampAsOf=str(moments[1] // 1000)) == 2
    finally:
        spark.conf.set("spark.sql.session.timeZone", ZONE)


def test_numbers_in_another_unit(spark, timed):
    """Spark would take milliseconds for a time in the far future, and so the current snapshot."""
    path, moments = timed
    with pytest.raises(Exception, match=r"\[TWOSTAGE.BAD_OPTION\].*as-of-timestamp for milliseconds"):
        by_option(spark, path, timestampAsOf=str(moments[0]))
    with pytest.raises(Exception, match=r"\[TWOSTAGE.BAD_OPTION\].*after the year 9999"):
        by_option(spark, path, **{"as-of-timestamp": str(moments[0] * 1000)})
    with pytest.raises(Exception, match=r"\[TWOSTAGE.BAD_OPTION\].*after the year 9999"):
        spark.sql(f"SELECT * FROM travel.db.t TIMESTAMP AS OF {moments[0]}")
    with pytest.raises(Exception, match=r"\[TWOSTAGE.SNAPSHOT_NOT_FOUND\].*Digits alone are seconds"):
        by_option(spark, path, timestampAsOf="2024")
    with pytest.raises(Exception, match=r"\[TWOSTAGE.BAD_OPTION\].*timestampAsOf takes dates"):
        by_option(spark, path, **{"as-of-timestamp": "2024-05-06"})


TEXTS = (
    "2024",
    "2024-05",
    "2024-5-6",
    "2024-05-06 7:8",
    "2024-05-06 07:08:09",
    "2024-05-06 07:08:09.1",
    "2024-05-06T07:08:09.123456",
    "2024-05-06 07:08:09.1234567",
    "2024-05-06 07:08:09 Europe/Amsterdam",
    "2024-05-06 07:08:09+5:30",
    "2024-05-06 07:08:09 GMT-3",
    "2024-03-10 02:30:00",  # not there
    "2024-11-03 01:30:00",  # there twice
    "1883-11-18 12:00:00",
    "0001-01-01",
    "9999-12-31 23:59:59.999",
)


def test_text_is_read_as_spark_casts_it(spark):
    from twostage.table.snapshots import parse_timestamp

    casts = ", ".join(f"floor(unix_micros(CAST('{text}' AS TIMESTAMP)) / 1000)" for text in TEXTS)
    (expected,) = spark.sql(f"SELECT {casts}").collect()
    for text, milliseconds in zip(TEXTS, expected, strict=True):
        if not text.isdigit():
            assert parse_timestamp(text, ZONE) == milliseconds, text
    (seconds,) = spark.sql("SELECT unix_millis(CAST(2024 AS TIMESTAMP))").collect()
    assert parse_timestamp("2024", ZONE) == seconds[0]
