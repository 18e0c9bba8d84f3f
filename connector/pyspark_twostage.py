"""Where Spark discovers the source: it imports modules named ``pyspark_*`` and takes ``DefaultSource``."""

from twostage.spark.source import TwoStageSource as DefaultSource  # noqa: F401
