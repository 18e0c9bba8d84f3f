"""Tests of dates, years and NaN, evaluated by the scan as comparisons: true, false and NULL as Spark's own, in any time zone."""

from __future__ import annotations

import datetime
import random
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

import twostage
from figures import FULL
from joined_tables import confs
from lakehouse import canonical, executed_plan

UTC = datetime.UTC
SECOND = datetime.timedelta(seconds=1)
ZONES = (
    "UTC",
    "America/New_York",
    "America/St_Johns",
    "America/Sao_Paulo",
    "America/Havana",
    "Asia/Kolkata",
    "Pacific/Apia",
    "+05:30",
)
DAYS = (
    "1582-10-04",  # before the Gregorian calendar
    "1883-11-18",  # local time became that of New York's zone
    "1969-12-31",
    "2010-11-07",  # clocks of St. John's went back at 00:01
    "2011-12-30",  # a day that Apia does not have
    "2018-02-17",  # clocks of São Paulo went back at its end, to 23 o'clock
    "2018-11-04",  # and forward at midnight, which was not there
    "2024-03-10",
    "2024-11-03",  # midnight came twice in Havana
    "2024-12-31",
)
MANY_DAYS = ", ".join(f"DATE'{day}'" for day in (*DAYS, "2024-03-11", "2024-03-12", "2025-01-01"))
"""More than ten: Spark has another expression for these."""
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("moment", pa.timestamp("us", tz="UTC")),
        ("local", pa.timestamp("us")),
        ("day", pa.date32()),
        ("inner", pa.struct([("moment", pa.timestamp("us", tz="UTC"))])),
        ("x", pa.float64()),
        ("y", pa.float32()),
    ]
)
NUM_ROWS = 1200


def drawn(seed):
    """Rows of which many lie about the midnights of `DAYS`, in any of the zones."""
    rng = random.Random(seed)

    def moment():
        day = datetime.datetime.fromisoformat(rng.choice(DAYS)) + rng.choice((0, 0, 1, -1)) * 86_400 * SECOND
        near = day + rng.choice((0, 0, 1, -1, 3600, -3600, 1800, rng.randrange(86_400))) * SECOND
        near += rng.choice((0, 1, -1)) * datetime.timedelta(microseconds=1)
        zone = rng.choice(ZONES)
        return near.replace(tzinfo=UTC if zone.startswith("+") else ZoneInfo(zone), fold=rng.randrange(2))

    def or_none(value):
        return None if rng.random() < 0.1 else value

    numbers = [0.0, -0.0, 1.5, float("nan"), float("inf")]
    return [
        {
            "id": number,
            "moment": or_none(moment().astimezone(UTC)),
            "local": or_none(moment().replace(tzinfo=None)),
            "day": or_none(moment().date()),
            "inner": or_none({"moment": or_none(moment().astimezone(UTC))}),
            "x": or_none(rng.choice(numbers)),
            "y": or_none(rng.choice(numbers)),
        }
        for number in range(NUM_ROWS)
    ]


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """The table's path, and `plain_moments`: a view of the same rows, of a file that Spark's own reader reads."""
    folder = tmp_path_factory.mktemp("moments")
    catalog = InMemoryCatalog("own", warehouse=f"file://{folder}")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", schema=SCHEMA)
    rows = drawn(1)
    rows.sort(key=lambda row: str(row["moment"]))
    for first in range(0, NUM_ROWS, 300):
        made.append(pa.Table.from_pylist(rows[first : first + 300], schema=SCHEMA))
    files = [task.file.file_path for task in made.scan().plan_files()]
    spark.read.parquet(*files).createOrReplaceTempView("plain_moments")
    yield str(folder / "db" / "t")
    spark.catalog.dropTempView("plain_moments")


def drawn_test(rng):
    """Comparisons of the dates of timestamps, and of years."""
    day = lambda: f"DATE'{rng.choice(DAYS)}'"  # noqa: E731
    year = lambda: rng.choice((1582, 1583, 1969, 1970, 2011, 2018, 2024, 2025))  # noqa: E731
    term = rng.choice(("moment", "local", "`inner`.moment"))
    date = rng.choice(("to_date({})", "CAST({} AS DATE)", "date({})")).format(term)
    of_year = f"year({rng.choice((term, 'day'))})"
    operator = rng.choice(("=", "<>", "<", "<=", ">", ">=", "<=>"))
    return rng.choice(
        (
            f"{date} {operator} {day()}",
            f"{day()} {operator} {date}",
            f"{date} BETWEEN {day()} AND {day()}",
            f"{date} IN ({day()}, {day()}, {day()})",
            f"{date} IN ({MANY_DAYS}, NULL)",
            f"{date} IN ({day()}, NULL)",
            f"{date} IS NULL",
            f"{of_year} {operator} {year()}",
            f"{year()} {operator} {of_year}",
            f"{of_year} IN ({year()}, {year()})",
            f"{of_year} BETWEEN {year()} AND {year()}",
        )
    )


FORMS = ("{}", "NOT ({})", "({}) OR id < 5", "({}) AND id % 3 = 0", "coalesce({}, id < 600)")


@pytest.mark.parametrize("zone", ZONES)
def test_dates_and_years_are_those_of_the_session_s_zone(spark, table, zone):
    rng = random.Random(zone)
    with confs(spark, "spark.sql.session.", timeZone=zone):
        # Rows of both are compared by `id`: Python shows moments in a zone of its own.
        for _ in range(40 if FULL else 16):
            where = rng.choice(FORMS).format(drawn_test(rng))
            expected = spark.sql(f"SELECT id FROM plain_moments WHERE {where}").collect()
            for rewrite in ("true", "false"):
                reader = spark.read.format("twostage").option("filter.rewrite", rewrite)
                got = reader.load(table).where(where).select("id").collect()
                assert canonical(got) == canonical(expected), (where, zone, rewrite)


@pytest.mark.parametrize("column", ["x", "y"])
def test_nan(spark, table, column):
    for form in (*FORMS, f"{{}} <=> ({column} > 1)"):
        where = form.format(f"isnan({column})")
        expected = spark.sql(f"SELECT id FROM plain_moments WHERE {where}").collect()
        got = spark.read.format("twostage").load(table).where(where).select("id").collect()
        assert canonical(got) == canonical(expected), where
        assert 0 < len(expected) < NUM_ROWS


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("to_date(moment) IN (DATE'2024-12-31', DATE'2025-01-01')", 1),
        ("year(moment) = 2025 OR year(moment) = 2024 AND to_date(moment) > DATE'2024-12-30'", 1),
        ("2024 < year(`inner`.moment) AND year(local) >= 1583", 4),
        ("year(day) = 1969 AND year(moment) >= 2025", 1),
        ("isnan(x) AND NOT isnan(y) AND id < 1000", 4),
    ],
)
def test_the_scan_evaluates_them_and_leaves_out_files(spark, table, where, files):
    """With the option off Spark does, and no file is left out."""
    with confs(spark, "spark.sql.session.", timeZone="America/New_York"):
        for rewrite in (True, False):
            reader = spark.read.format("twostage").option("filter.rewrite", str(rewrite))
            frame = reader.load(table).where(where).select("id")
            assert ("Filter" in executed_plan(frame).replace("RuntimeFilters", "")) is not rewrite
            frame.collect()
            report = twostage.last_scan(spark)
            if rewrite:
                assert report.columns == ("id",)
                assert report.count("files.read") == files, str(report)
            else:
                assert report.columns != ("id",)


def test_the_date_of_a_timestamp_is_a_range_already(spark, table):
    """Spark's own optimizer makes ranges of comparisons of a timestamp's date; the scan evaluates these."""
    with confs(spark, "spark.sql.session.", timeZone="America/New_York"):
        frame = (
            spark.read.format("twostage").load(table).where("to_date(moment) = DATE'2024-12-31'").select("id")
        )
        assert "Filter" not in executed_plan(frame).replace("RuntimeFilters", "")
        assert len(frame.collect()) > 0
        assert twostage.last_scan(spark).count("files.read") == 1


def test_a_day_that_goes_on_after_midnight_stays_with_spark(spark, table):
    """In St. John's clocks went back from 00:01 on 2010-11-07 to 23:01 of the day before; in Havana from 01:00 to 00:00."""
    for zone, day, stays in (
        ("America/St_Johns", "2010-11-07", True),
        ("America/St_Johns", "2010-11-09", False),
        ("America/Havana", "2024-11-03", False),
    ):
        with confs(spark, "spark.sql.session.", timeZone=zone):
            where = f"to_date(moment) IN (DATE'{day}', DATE'2018-11-05')"
            frame = spark.read.format("twostage").load(table).where(where).select("id")
            assert ("Filter" in executed_plan(frame).replace("RuntimeFilters", "")) == stays
            expected = spark.sql(f"SELECT id FROM plain_moments WHERE {where}").collect()
            assert canonical(frame.collect()) == canonical(expected)


def test_a_filter_that_spark_s_own_translation_fails_on(spark, table):
    """An AND with a NULL within coalesce: it ends the query in an assertion of Spark's, with any other V2 source."""
    where = "coalesce(x = 1.5 AND NULL, id < 300)"
    expected = spark.sql(f"SELECT id FROM plain_moments WHERE {where}").collect()
    frame = spark.read.format("twostage").load(table).where(where).select("id")
    assert canonical(frame.collect()) == canonical(expected)
    assert expected


def test_what_has_no_range_stays_with_spark(spark, table):
    many = ", ".join(f"DATE'{1900 + number}-01-01'" for number in range(65))
    for where in (
        f"to_date(moment) IN ({many})",
        "to_date(moment) = day",
        "year(moment) = 300000",
        "to_date(date_add(moment, 1)) = DATE'2024-12-31'",
    ):
        expected = spark.sql(f"SELECT id FROM plain_moments WHERE {where}").collect()
        frame = spark.read.format("twostage").load(table).where(where).select("id")
        assert "Filter" in executed_plan(frame).replace("RuntimeFilters", ""), where
        assert canonical(frame.collect()) == canonical(expected), where


def test_counts_and_joins(spark, table):
    """Aggregates from metadata, and the sides of joins that Spark's reader scans, find the same filter."""
    spark.read.format("twostage").load(table).createOrReplaceTempView("moments")
    queries = (
        "SELECT count(*), min(id), max(moment) FROM {t} WHERE to_date(moment) >= DATE'2018-11-04'",
        "SELECT a.id, b.id FROM {t} a JOIN {t} b ON a.day = b.day WHERE year(a.moment) = 2024 AND b.id < 50",
        "SELECT id FROM {t} WHERE to_date(moment) = DATE'2024-03-10' ORDER BY id LIMIT 3",
        "SELECT year(moment), count(*) FROM {t} WHERE year(moment) > 2000 GROUP BY 1",
    )
    for query in queries:
        got = spark.sql(query.format(t="moments")).collect()
        assert canonical(got) == canonical(spark.sql(query.format(t="plain_moments")).collect()), query
    spark.catalog.dropTempView("moments")
