"""Files that never change: in order, many at a time, and read once where their names say that they stay."""

from __future__ import annotations

import pytest

from late_store import serve_late
from twostage.errors import ForbiddenLocationError, MissingFileError, StorageError
from twostage.storage import immutable_files
from twostage.storage.immutable_files import read_immutable, read_immutables, read_version
from twostage.task import Storage

NAME = "0a8b4f2c-1111-4222-8333-44445555{:04d}-m0.avro"
BODY = "manifest {}".format


@pytest.fixture
def lake(tmp_path):
    immutable_files.forget()
    (tmp_path / "t").mkdir()
    for number in range(100):
        (tmp_path / "t" / NAME.format(number)).write_text(BODY(number))
        (tmp_path / "t" / f"manifest-{number}.avro").write_text(BODY(number))
    with serve_late(tmp_path) as store:
        store.storage = Storage(
            root="s3://lake/t",
            properties={key.removeprefix("catalog."): value for key, value in store.options.items()},
        )
        yield store
    immutable_files.forget()


def places(numbers, name=NAME):
    return [(f"s3://lake/t/{name.format(number)}", len(BODY(number))) for number in numbers]


def test_all_are_asked_for_at_once_and_come_in_order(lake):
    lake.rounds = True
    found = list(read_immutables(lake.storage, places(range(20))))
    assert [one.decode() for one in found] == [BODY(number) for number in range(20)]
    assert lake.depth <= 2, "the store's window begins with 16"
    assert len(lake.log) == 20
    assert {one.method for one in lake.log} == {"GET"}


def test_what_was_read_is_not_asked_for_again(lake):
    list(read_immutables(lake.storage, places(range(5))))
    lake.reset()
    assert [one.decode() for one in read_immutables(lake.storage, places(range(7)))] == [
        BODY(number) for number in range(7)
    ]
    assert len(lake.log) == 2
    assert read_immutable(lake.storage, places([3])[0][0]) == b"manifest 3"
    assert read_immutable(lake.storage, places([50])[0][0]) == b"manifest 50"
    assert read_immutable(lake.storage, places([50])[0][0]) == b"manifest 50"
    assert len(lake.log) == 3


def test_a_name_that_may_be_used_again_is_read_again(lake):
    for _ in range(2):
        assert list(read_immutables(lake.storage, places([1], "manifest-{}.avro"))) == [b"manifest 1"]
    assert len(lake.log) == 2


def test_other_credentials_do_not_get_what_was_read_with_these(lake):
    ((path, _),) = places([1])
    read_immutable(lake.storage, path)
    other = Storage(root="s3://lake/t", properties={**lake.storage.properties, "s3.session-token": "other"})
    read_immutable(other, path)
    assert len(lake.log) == 2
    with pytest.raises(ForbiddenLocationError):
        read_immutable(Storage(root="s3://other", properties=lake.storage.properties), path)


def test_the_first_one_may_be_enough(lake):
    reading = read_immutables(lake.storage, places(range(100)), first=1)
    assert next(reading) == b"manifest 0"
    assert len(lake.log) == 1
    assert next(reading) == b"manifest 1"
    reading.close()
    assert len(lake.log) <= 1 + immutable_files.MAX_AHEAD


def test_a_file_that_is_gone_is_an_error_at_its_turn(lake):
    (lake.root / "t" / NAME.format(2)).unlink()
    reading = read_immutables(lake.storage, places(range(5)))
    assert [next(reading), next(reading)] == [b"manifest 0", b"manifest 1"]
    with pytest.raises(MissingFileError) as caught:
        next(reading)
    assert caught.value.path.endswith(NAME.format(2))


def test_large_files_and_local_ones_are_not_kept(lake, tmp_path, monkeypatch):
    monkeypatch.setattr(immutable_files, "MAX_KEPT_FILE_BYTES", 5)
    for _ in range(2):
        read_immutable(lake.storage, places([1])[0][0])
    assert len(lake.log) == 2
    local = tmp_path / "t" / NAME.format(0)
    assert read_immutable(Storage(root=str(tmp_path)), str(local)) == b"manifest 0"
    local.write_text("new")
    assert read_immutable(Storage(root=str(tmp_path)), str(local)) == b"new"


def test_a_local_file_among_remote_ones(lake, tmp_path):
    place = tmp_path / "here" / NAME.format(0)
    place.parent.mkdir()
    place.write_text("local")
    storage = Storage(root="s3://lake/t", properties=lake.storage.properties, allowed=(str(place.parent),))
    found = read_immutables(storage, [*places([1]), (str(place), 5), *places([2])])
    assert list(found) == [b"manifest 1", b"local", b"manifest 2"]
    with pytest.raises(ForbiddenLocationError):
        list(read_immutables(lake.storage, [(str(place), 5)]))


def test_a_store_that_throttles_gives_them_all_the_same(lake):
    lake.most, lake.latency = 3, 0.005
    found = list(read_immutables(lake.storage, places(range(60))))
    assert [one.decode() for one in found] == [BODY(number) for number in range(60)]
    assert any(one.status == 503 for one in lake.log)


def test_a_store_that_fails_ends_it(lake):
    from s3_server import Fault

    lake.faults = [Fault("403", path=NAME.format(1).partition("-m0")[0])]
    with pytest.raises(StorageError, match="ACCESS_DENIED"):
        list(read_immutables(lake.storage, places(range(3))))


def version_of(path):
    status = path.stat()
    return f'"{status.st_size:x}-{status.st_mtime_ns:x}"'


def test_a_file_of_any_name_is_kept_as_long_as_its_version_is_the_same(lake):
    path, file = "s3://lake/t/manifest-1.avro", lake.root / "t" / "manifest-1.avro"
    first = version_of(file)
    for given in (first, first.strip('"'), first):
        assert read_version(lake.storage, path, given) == b"manifest 1"
    assert len(lake.log) == 2, "two spellings of one version"
    file.write_text("manifest X")
    assert read_version(lake.storage, path, version_of(file)) == b"manifest X"
    assert read_version(lake.storage, path, version_of(file)) == b"manifest X"
    assert len(lake.log) == 3


def test_what_was_written_anew_since_the_listing_is_not_kept_as_what_was_listed(lake):
    path = "s3://lake/t/manifest-2.avro"
    for _ in range(2):
        assert read_version(lake.storage, path, '"an older one"') == b"manifest 2"
    assert len(lake.log) == 2


def test_a_listing_without_versions_keeps_nothing(lake):
    for _ in range(2):
        assert read_version(lake.storage, "s3://lake/t/manifest-3.avro", "") == b"manifest 3"
    assert len(lake.log) == 2
