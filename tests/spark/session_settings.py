"""Settings of a Spark session under which it runs queries in other ways, for the same rows; and setting some for a while."""

from __future__ import annotations

import contextlib

CONFS = {
    "no_whole_stage": {"spark.sql.codegen.wholeStage": "false"},
    "no_codegen": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    "not_ansi": {"spark.sql.ansi.enabled": "false"},
    "ansi": {"spark.sql.ansi.enabled": "true"},
    "no_adaptive": {"spark.sql.adaptive.enabled": "false"},
    "no_broadcast": {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    "no_pushdown": {"spark.sql.parquet.filterPushdown": "false"},
    "no_field_ids": {"spark.sql.parquet.fieldId.read.enabled": "false"},
    "few_fields": {"spark.sql.codegen.maxFields": "2"},
    "small_batches": {"spark.sql.parquet.columnarReaderBatchSize": "7"},
    "plan_changes": {"spark.sql.optimizer.planChangeLog.level": "trace", "spark.sql.planChangeValidation": "true"},
}  # fmt: skip


@contextlib.contextmanager
def settings(spark, **confs):
    """Set confs of the session for a while."""
    for name, value in confs.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in confs:
            spark.conf.unset(name)
