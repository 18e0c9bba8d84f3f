"""The command ``advise``: what it prints, as tables and as JSON, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from twostage.__main__ import main
from twostage.advisor.column_metadata import ColumnMetadata, TableColumns

EVENTS = str(Path(__file__).with_name("iceberg_spark_1.12.0_events.jsonl"))


@pytest.fixture
def log(tmp_path):
    """A folder of event logs."""
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "local-1").write_bytes(Path(EVENTS).read_bytes())
    return str(folder)


def test_recommendations(log, capsys):
    assert main(["advise", "--log", log]) == 0
    printed = capsys.readouterr()
    assert "lake.db.ev: 9 scans, 8 with a filter" in printed.out
    assert "Index dev\n" in printed.out
    assert "python -m twostage index create lake.db.ev --columns dev\n" in printed.out
    assert printed.err == ""


def test_metadata_tells_kind_and_size(log, capsys, tmp_path):
    known = TableColumns(
        table="lake.db.ev", snapshot=1, rows=20_000, files=6, bytes=137_199,
        columns={"dev": ColumnMetadata(rows=20_000, distinct=97, distinct_per_file=97)},
    )  # fmt: skip
    (tmp_path / "ev.json").write_text(known.json())
    assert main(["advise", "--log", log, "--metadata", str(tmp_path / "ev.json")]) == 0
    printed = capsys.readouterr()
    assert "Index dev (values)" in printed.out
    assert "size about 39.1 KiB" in printed.out
    assert "lake.db.ev has no column" in printed.err


def test_a_catalog_s_properties_are_given_as_other_options_are(capsys, tmp_path):
    arguments = [
        "index",
        "list",
        "lake.db.events",
        f"--catalog.uri=sqlite:///{tmp_path}/none.db",
        "--catalog.type=sql",
    ]
    assert main(arguments) == 1
    assert f"there is no file {tmp_path}/none.db" in capsys.readouterr().err


def test_report(log, capsys):
    assert main(["advise", "report", "--log", log]) == 0
    out = capsys.readouterr().out
    assert "entries in filter" in out
    assert "60,000" in out
    assert "latency model" in out or "seconds = " in out


def test_frequency(log, capsys):
    assert main(["advise", "--strategy", "frequency", "--log", log]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.strip()][:2] == ["lake.db.ev", "column"]
    assert {"dev", "price", "id"} <= {line.split()[0] for line in lines if line.strip()}


def test_json(log, capsys):
    assert main(["advise", "--json", "--log", log]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tables"][0]["scans"] == 9
    assert found["recommendations"][0]["columns"] == ["dev"]
    assert found["tables"][0]["quantiles"]["entries_in_filter"][-1] == 60_000


def test_thresholds(log, capsys):
    assert main(["advise", "--log", log, "--indexed", "lake.db.ev=dev,old"]) == 0
    out = capsys.readouterr().out
    assert "Index dev" not in out
    assert "Drop the index of old" in out
    assert main(["advise", "--log", log, "--indexed", "lake.db.ev=`old, too`,s.`x`"]) == 0
    assert "Drop the index of old, too" in (out := capsys.readouterr().out)
    assert "--columns '`old, too`'" in out
    assert main(["advise", "--log", log, "--queries", "100"]) == 0
    assert "No table in the log" in capsys.readouterr().out
    assert main(["advise", "--log", log, "--table", "other"]) == 0
    assert "No table in the log" in capsys.readouterr().out
    assert main(["advise", "--log", log, "--max-columns", "1"]) == 0
    assert capsys.readouterr().out.count("  Index ") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--indexed", "a"],
        ["--indexed", "a="],
        ["--indexed", "a=`b"],
        ["--metadata", "/nowhere.json"],
        ["--metadata", EVENTS],
        ["--log", "/nowhere"],
    ],
)
def test_what_is_refused(log, capsys, arguments):
    assert main(["advise", "--log", log, *arguments]) == 1
    assert "[TWOSTAGE." in capsys.readouterr().err


def test_broken_lines_are_named_and_the_rest_counts(log, capsys):
    with (Path(log) / "local-1").open("a") as file:
        file.write("{half a line\n")
    assert main(["advise", "--log", log]) == 0
    printed = capsys.readouterr()
    assert "9 scans" in printed.out
    assert "1 skipped, not an event of Spark" in printed.err


def test_a_log_is_named(capsys):
    with pytest.raises(SystemExit):
        main(["advise"])
    assert "--log" in capsys.readouterr().err


def test_a_table_in_the_place_of_the_question(log, capsys):
    """All other commands take it there."""
    with pytest.raises(SystemExit):
        main(["advise", "lake.db.ev", "--log", log])
    assert "'lake.db.ev' is none of recommend, report and check; a table is named by --table" in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_table_that_is_gone_gets_no_advice(log, capsys, tmp_path):
    """Neither an index nor anything else is recommended or built for it; the other tables of the log get theirs."""
    catalog = [
        "--conf",
        "spark.sql.catalog.lake=org.apache.iceberg.spark.SparkCatalog",
        "--catalog.type=hadoop",
    ]
    (tmp_path / "warehouse").mkdir()
    arguments = [
        "advise",
        "--log",
        log,
        "--table",
        "lake.db.ev",
        f"--catalog.warehouse={tmp_path}/warehouse",
        *catalog,
    ]
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert "table gone, 9 scans" in printed.out
    assert "index create" not in printed.out
    assert "TABLE_NOT_FOUND" in printed.err
    assert main([*arguments, "--apply", "--yes"]) == 0
    assert "Index" not in capsys.readouterr().out
    assert main([*arguments, "--path", str(tmp_path / "nowhere")]) == 0
    assert "table gone, 9 scans" in capsys.readouterr().out
    assert main([*arguments, "--json"]) == 0
    (only,) = json.loads(capsys.readouterr().out)["recommendations"]
    assert (only["action"], only["reason"]) == ("nothing", "table gone, 9 scans")


def test_a_table_that_cannot_be_opened_gets_no_advice(log, capsys, tmp_path):
    (tmp_path / "t" / "metadata").mkdir(parents=True)
    (tmp_path / "t" / "metadata" / "v1.metadata.json").write_text("{broken")
    assert main(["advise", "--log", log, "--table", "lake.db.ev", "--path", str(tmp_path / "t")]) == 0
    printed = capsys.readouterr()
    assert "table not opened [TWOSTAGE." in printed.out
    assert "index create" not in printed.out


def test_a_table_that_nobody_says_where_it_is_gets_the_log_s_advice(log, capsys):
    assert main(["advise", "--log", log, "--table", "lake.db.ev"]) == 0
    printed = capsys.readouterr()
    assert "was not checked" in printed.err
    assert "index create lake.db.ev --columns dev" in printed.out
