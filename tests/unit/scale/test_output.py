from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from sfumato.foundation.errors import DataError
from sfumato.scale import PendingFile, checked_target


def test_nothing_is_left_without_a_commit(tmp_path: Path) -> None:
    def fail_half_way() -> None:
        with PendingFile(tmp_path / "out") as pending:
            pending.stream.write(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    with PendingFile(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_the_old_file_stays_until_the_commit(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_bytes(b"old")
    with PendingFile(target) as pending:
        pending.stream.write(b"new")
        assert pending.sha256() == hashlib.sha256(b"new").hexdigest()
        assert target.read_bytes() == b"old"
        pending.commit()
    assert target.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [target]


def test_the_usual_permissions_of_a_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with PendingFile(tmp_path / "out") as pending:
            pending.commit()
    finally:
        os.umask(before)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_an_existing_file_needs_force(tmp_path: Path) -> None:
    target = tmp_path / "out"
    assert checked_target(target) == target
    target.touch()
    with pytest.raises(DataError, match=r"exists; .*--force"):
        checked_target(target)
    assert checked_target(target, force=True) == target


def test_a_source_is_never_replaced_not_even_through_a_link(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.touch()
    (tmp_path / "hard").hardlink_to(source)
    (tmp_path / "soft").symlink_to(source)
    for name in ("in", "hard", "soft"):
        with pytest.raises(DataError, match="one of the inputs"):
            checked_target(tmp_path / name, sources=[source], force=True)


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert checked_target(tmp_path / "link", force=True) == tmp_path / "real"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_device_is_not_replaced() -> None:
    with pytest.raises(DataError, match="not a regular file"):
        checked_target(Path("/dev/full"), force=True)


def test_a_folder_is_not_replaced_and_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not a regular file"):
        checked_target(tmp_path, force=True)
    with pytest.raises(DataError, match="is not a folder"):
        checked_target(tmp_path / "none" / "out")
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="is not a folder"):
        checked_target(tmp_path / "file" / "out")
