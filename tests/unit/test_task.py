"""What the driver hands to the executors: plain values that survive pickle, and reprs without secrets."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from pathlib import Path

import pytest

from core_scan import open_table
from declared.types import Column
from scan_values import context_of, delete_of, task_of
from tables import Table
from twostage.planning.plan import plan_scan
from twostage.predicates.bounds import Bounds
from twostage.predicates.predicate import TRUE, Column as Named, Compare
from twostage.task import (
    MIN_BYTES_TO_WAIT_FOR_JOIN_KEYS,
    CredentialsEndpoint,
    ScanPlan,
    ScanTask,
    Storage,
    TaskGroup,
)

CANARY = "canary-4711-secret"


class Watched(pickle.Unpickler):
    """Notes the modules whose classes a pickle needs."""

    def __init__(self, content: bytes) -> None:
        super().__init__(io.BytesIO(content))
        self.modules: set[str] = set()

    def find_class(self, module: str, name: str) -> object:
        self.modules.add(module.partition(".")[0])
        return super().find_class(module, name)


def test_a_plan_is_plain_values(tmp_path: Path) -> None:
    """No object of Spark, Arrow or PyIceberg: an executor would have to import it before it reads the task."""
    table = Table(tmp_path, {"id": "long", "p": "string", "d": "decimal(9,2)"}, partition=["p"])
    for part in ("a", "b"):
        file = table.append([{"id": n, "p": part} for n in range(10)])
        table.delete_positions({file: [1]})
    table.delete_equal(["id"], [{"id": 3}], like=file)
    opened = open_table(table.write())
    key = Named(opened.table.schema.fields[0].id, ("id",), opened.table.schema.fields[0].type)
    plan = plan_scan(
        opened.table,
        opened.options,
        projection=opened.table.schema.fields,
        predicate=Compare(">", key, 2),
        hint=TRUE,
        limit=None,
        parallelism=1,
        scan_id="test",
    )
    reader = Watched(pickle.dumps(plan))
    found = reader.load()
    assert found.groups == plan.groups
    assert any(task.deletes and task.constants for group in found.groups for task in group.tasks)
    assert reader.modules <= {"twostage", "builtins", "decimal", "datetime"}


def test_no_repr_shows_a_secret() -> None:
    storage = Storage(
        root=f"s3://me:{CANARY}@lake/t",
        moved_from=f"s3://me:{CANARY}@old/t",
        allowed=(f"s3://me:{CANARY}@other",),
        properties={"s3.secret-access-key": CANARY},
        renewal=CredentialsEndpoint(url=f"http://c?{CANARY}", location="s3://lake", headers=(("A", CANARY),)),
    )
    delete = delete_of(Path(f"s3://me:{CANARY}@lake/d.parquet"), "equality", equality_ids=(1,))
    delete = replace(delete, path=f"s3://me:{CANARY}@lake/d", written_path=f"s3://me:{CANARY}@lake/d")
    context = context_of(Path("/lake"), [Column(1, "k", "long")], storage=storage, equality_deletes=(delete,))
    task = task_of(delete, path=f"s3://me:{CANARY}@lake/f?X-Amz-Signature={CANARY}")
    group = TaskGroup(index=0, context=context, tasks=(task,))
    plan = ScanPlan(context=context, groups=(group,), estimated_rows=1, estimated_bytes=1)
    for value in (storage, delete, context, task, group, plan):
        assert CANARY not in repr(value)
        assert type(value).__name__ in repr(value)
    assert "s3://***@lake/t" in repr(plan)


def test_a_context_s_repr_leaves_out_thousands_of_delete_files() -> None:
    deletes = tuple(delete_of(Path(f"/lake/d{n}.parquet"), "equality") for n in range(3))
    context = context_of(Path("/lake"), equality_deletes=deletes)
    assert "d1.parquet" not in repr(context)
    assert pickle.loads(pickle.dumps(context)).equality_deletes == deletes


def test_values_are_equal_by_content_and_cannot_change() -> None:
    delete = delete_of(Path("/lake/d.parquet"), "equality", keys={1: Bounds(lower=1)})
    for value in (delete, task_of(delete), context_of(Path("/lake"))):
        assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(AttributeError):
        delete.format = "orc"  # type: ignore[misc]
    assert task_of(delete) != task_of(replace(delete, sequence_number=6))


def plan_of(*groups: int, num_bytes: int) -> ScanPlan:
    """Return a plan of groups of so many tasks."""
    context = context_of(Path("/lake"))
    tasks: list[tuple[ScanTask, ...]] = [(task_of(),) * count for count in groups]
    return ScanPlan(
        context=context,
        groups=tuple(TaskGroup(index=i, context=context, tasks=some) for i, some in enumerate(tasks)),
        estimated_rows=1,
        estimated_bytes=num_bytes,
    )


@pytest.mark.parametrize(
    ("groups", "num_bytes", "expected"),
    [
        ((), 2**40, False),
        ((1,), MIN_BYTES_TO_WAIT_FOR_JOIN_KEYS, False),
        ((1,), MIN_BYTES_TO_WAIT_FOR_JOIN_KEYS + 1, True),
        ((2,), 1, True),
        ((1, 1), 1, True),
        ((0, 1), 1, False),
    ],
)
def test_join_keys_are_waited_for_where_they_could_save_some(
    groups: tuple[int, ...], num_bytes: int, expected: bool
) -> None:
    """Two ranges may lose one; a single one must be worth the planning of the filter."""
    assert plan_of(*groups, num_bytes=num_bytes).may_profit_from_keys is expected
