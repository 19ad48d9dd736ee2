"""Fetching from a server on the loopback that cuts, changes and refuses as real ones do."""

from __future__ import annotations

import errno
import hashlib
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.foundation.errors import DataError, ParameterError, SpaceFileError
from sfumato.space import Space, catalogue, download, files
from sfumato.space.catalogue import CatalogueEntry

WORDS = [f"word{i}" for i in range(3000)]
VECTORS = np.random.default_rng(5).normal(size=(3000, 4)).astype(np.float32)
CONTENT = "".join(f"{w} {' '.join(map(str, row))}\n" for w, row in zip(WORDS, VECTORS.tolist(), strict=True)).encode()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class Site:
    """A small web site and what was asked of it."""

    content: bytes = CONTENT
    etag: str | None = '"one"'
    modified: str | None = None
    ranges: bool = True
    honours_if_range: bool = True
    says_length: bool = True
    cuts: list[int] = field(default_factory=list)
    """How many bytes to send before cutting the connection, for the first requests."""
    failures: list[int] = field(default_factory=list)
    """Status codes to answer first."""
    requests: list[str | None] = field(default_factory=list)
    """The Range header of every request."""
    address: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        asked = handler.headers.get("Range")
        self.requests.append(asked)
        if self.failures:
            handler.send_error(self.failures.pop(0))
            return
        start = 0
        same = not self.honours_if_range or handler.headers.get("If-Range") in (self.etag, self.modified)
        if asked and self.ranges and same:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
            if start >= len(self.content):
                handler.send_error(416)
                return
        body = self.content[start:]
        handler.send_response(206 if start else 200)
        if start:
            handler.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        if self.says_length:
            handler.send_header("Content-Length", str(len(body)))
        if self.etag:
            handler.send_header("ETag", self.etag)
        if self.modified:
            handler.send_header("Last-Modified", self.modified)
        handler.end_headers()
        handler.wfile.write(body[: self.cuts.pop(0)] if self.cuts else body)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "FIRST_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 10.0)
    yield served
    server.shutdown()
    thread.join()
    server.server_close()


KNOWN = CatalogueEntry(
    name="small",
    description="for the tests",
    filename="small.txt",
    url="https://example.org/small.txt",
    page="https://example.org/",
    size=len(CONTENT),
    sha256=SHA256,
    member=None,
    licence="none",
    dimension=4,
    words=3000,
    format="GloVe text",
)


def offer(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    monkeypatch.setattr(catalogue, "_ENTRIES", (replace(KNOWN, **changes),))


@pytest.fixture(autouse=True)
def _small_catalogue(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if request.cls is not TestPublished:
        offer(monkeypatch)


class TestPublished:
    """The entries that ship."""

    def test_are_well_formed(self) -> None:
        names = [one.name for one in catalogue.entries()]
        assert len(set(names)) == len(names)
        for one in catalogue.entries():
            assert catalogue.entry(one.name) is one
            assert one.url is None or (one.url.startswith("https://") and one.url.endswith("/" + one.filename))
            assert one.page.startswith("https://")
            assert one.sha256 is None or re.fullmatch("[0-9a-f]{64}", one.sha256)
            assert one.size is None or one.size > 10**8
            assert one.words > 10**5
            assert one.licence

    def test_an_archive_has_one_hash_and_size(self) -> None:
        facts: dict[str, set[tuple[object, ...]]] = {}
        for one in catalogue.entries():
            facts.setdefault(one.filename, set()).add((one.url, one.sha256, one.size))
        assert all(len(versions) == 1 for versions in facts.values())

    def test_unknown_name_lists_the_known(self) -> None:
        with pytest.raises(ParameterError, match="glove-6b-100d"):
            catalogue.entry("glove-6b")

    def test_without_a_direct_address_the_page_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match=r"by hand, linked from https://code\.google\.com") as caught:
            catalogue.fetch("word2vec-google-news-300d", folder=tmp_path)
        assert str(tmp_path) in str(caught.value)


class TestFetch:
    def test_whole_with_progress(self, site: Site, tmp_path: Path) -> None:
        calls: list[tuple[int, int | None]] = []
        path = catalogue.fetch(
            "small",
            folder=tmp_path,
            base_url=site.address + "/",
            progress=lambda done, total: calls.append((done, total)),
        )
        assert path.read_bytes() == CONTENT
        assert calls[-1] == (len(CONTENT), len(CONTENT))
        assert sorted(file.name for file in tmp_path.iterdir()) == ["small.txt", "small.txt.sha256"]
        assert catalogue.recorded_sha256(path) == SHA256

    def test_a_file_that_is_there_is_not_fetched_again(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "small.txt").write_bytes(CONTENT)
        catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert site.requests == []

    def test_default_folder(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path / "cache"))
        path = catalogue.fetch("small", base_url=site.address)
        assert path == tmp_path / "cache" / "spaces" / "small.txt"

    @pytest.mark.parametrize("says_length", [True, False])
    def test_known_and_unknown_length(self, site: Site, tmp_path: Path, says_length: bool) -> None:
        site.says_length = says_length
        totals = set()
        catalogue.fetch("small", folder=tmp_path, base_url=site.address, progress=lambda _, total: totals.add(total))
        assert totals == {len(CONTENT) if says_length else None}

    def test_own_hash_must_be_one(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="64 hexadecimal digits"):
            catalogue.fetch("small", folder=tmp_path, sha256="abc")

    def test_only_web_addresses(self, tmp_path: Path) -> None:
        with pytest.raises(ParameterError, match="base_url"):
            catalogue.fetch("small", folder=tmp_path, base_url=tmp_path.as_uri())


class TestCuts:
    def test_are_resumed_within_one_call(self, site: Site, tmp_path: Path) -> None:
        site.cuts = [1000, 500]
        path = catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert path.read_bytes() == CONTENT
        assert site.requests == [None, "bytes=1000-", "bytes=1500-"]

    def test_a_server_without_ranges_sends_all_again(self, site: Site, tmp_path: Path) -> None:
        site.cuts, site.ranges = [1000], False
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT
        assert site.requests == [None, "bytes=1000-"]

    @pytest.mark.parametrize(("etag", "modified"), [(None, None), ('W/"weak"', None)])
    def test_without_a_validator_nothing_is_resumed(
        self, site: Site, tmp_path: Path, etag: str | None, modified: str | None
    ) -> None:
        site.cuts, site.etag, site.modified = [1000], etag, modified
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT
        assert site.requests == [None, None]

    def test_last_modified_serves_as_validator(self, site: Site, tmp_path: Path) -> None:
        site.cuts, site.etag, site.modified = [1000], None, "Wed, 21 Oct 2015 07:28:00 GMT"
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT
        assert site.requests == [None, "bytes=1000-"]

    def test_without_end_leave_the_part_for_a_later_call(self, site: Site, tmp_path: Path) -> None:
        site.cuts = [100] * download.ATTEMPTS
        with pytest.raises(DataError, match=f"stopped after {100 * download.ATTEMPTS} bytes"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert not (tmp_path / "small.txt").exists()
        site.requests.clear()
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT
        assert site.requests == [f"bytes={100 * download.ATTEMPTS}-"]

    def test_a_whole_part_needs_no_request(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "full")

        with monkeypatch.context() as patch:
            patch.setattr(download, "_check", full)
            with pytest.raises(DataError, match="is full"):
                catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert site.requests == [None]

    @pytest.mark.parametrize("honours_if_range", [True, False])
    def test_a_file_that_changed_is_fetched_anew(
        self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, honours_if_range: bool
    ) -> None:
        site.cuts, site.honours_if_range = [1000] * download.ATTEMPTS, honours_if_range
        site.content = b"x" * len(CONTENT)
        with pytest.raises(DataError, match="stopped"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        site.content, site.etag = CONTENT, '"two"'
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT

    def test_a_file_that_shrank_is_fetched_anew(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "small.txt.part").write_bytes(b"x" * (len(CONTENT) + 5))
        (tmp_path / "small.txt.part.json").write_text('{"etag": "\\"one\\"", "modified": null, "total": null}')
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT
        assert site.requests == [f"bytes={len(CONTENT) + 5}-", None]

    @pytest.mark.parametrize("note", ["", "{", "[]", '{"other": 1}'])
    def test_a_part_of_unknown_origin_is_not_continued(self, site: Site, tmp_path: Path, note: str) -> None:
        (tmp_path / "small.txt.part").write_bytes(b"x" * 10)
        (tmp_path / "small.txt.part.json").write_text(note)
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT
        assert site.requests == [None]

    def test_passing_failures_are_tried_again(self, site: Site, tmp_path: Path) -> None:
        site.failures = [503, 429]
        assert catalogue.fetch("small", folder=tmp_path, base_url=site.address).read_bytes() == CONTENT


class TestRefusals:
    def nothing_final(self, folder: Path) -> bool:
        return not (folder / "small.txt").exists()

    def test_wrong_hash_shows_both_and_deletes(
        self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offer(monkeypatch, sha256="0" * 64)
        with pytest.raises(DataError, match=f"SHA-256 is {SHA256}, expected was {'0' * 64}"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("says_length", [True, False])
    def test_wrong_size(self, site: Site, tmp_path: Path, says_length: bool) -> None:
        site.content, site.says_length = CONTENT[:-10], says_length
        with pytest.raises(DataError, match=f"{len(CONTENT) - 10} bytes, {len(CONTENT)} were expected"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert list(tmp_path.iterdir()) == []

    def test_404(self, site: Site, tmp_path: Path) -> None:
        site.failures = [404]
        with pytest.raises(DataError, match=r"answers 404 .*Space\.from_file"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert len(site.requests) == 1
        assert self.nothing_final(tmp_path)

    def test_no_network(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with pytest.raises(DataError, match=r"no connection .*Space\.from_file"):
            catalogue.fetch("small", folder=tmp_path, base_url="http://127.0.0.1:1")

    def test_disk_too_small(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = shutil.disk_usage(tmp_path)._replace(free=10)
        monkeypatch.setattr(download.shutil, "disk_usage", lambda _: usage)
        with pytest.raises(DataError, match="is full"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert self.nothing_final(tmp_path)

    def test_disk_full_while_writing_keeps_the_part(self, site: Site, tmp_path: Path) -> None:
        def fill(done: int, _: int | None) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with pytest.raises(DataError, match="is full"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address, progress=fill)
        assert self.nothing_final(tmp_path)
        assert (tmp_path / "small.txt.part").stat().st_size > 0

    def test_folder_that_is_a_file(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "taken").write_text("")
        with pytest.raises(DataError, match="cannot be written"):
            catalogue.fetch("small", folder=tmp_path / "taken", base_url=site.address)

    def test_wrong_file_that_was_put_there(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "small.txt").write_bytes(b"other")
        with pytest.raises(DataError, match=r"wrong content.*delete it"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert (tmp_path / "small.txt").read_bytes() == b"other"


class TestTrust:
    def test_first_use_is_recorded_and_checked_ever_after(
        self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        offer(monkeypatch, sha256=None, size=None)
        path = catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        assert catalogue.recorded_sha256(path) == SHA256
        assert len(catalogue.load("small", folder=tmp_path)) == 3000
        path.write_bytes(CONTENT.replace(b"word7 ", b"wordX ", 1))
        with pytest.raises(DataError, match="wrong content"):
            catalogue.load("small", folder=tmp_path)
        with pytest.raises(DataError, match="wrong content"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address)

    def test_a_copied_file_is_recorded_at_the_first_load(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        offer(monkeypatch, sha256=None)
        (tmp_path / "small.txt").write_bytes(CONTENT)
        assert catalogue.recorded_sha256(tmp_path / "small.txt") is None
        catalogue.load("small", folder=tmp_path)
        assert catalogue.recorded_sha256(tmp_path / "small.txt") == SHA256

    def test_own_hash_replaces_the_published(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        offer(monkeypatch, sha256="0" * 64, size=5)
        for _ in range(2):  # fetched, then found
            catalogue.fetch("small", folder=tmp_path, base_url=site.address, sha256=SHA256.upper())
            assert len(catalogue.load("small", folder=tmp_path)) == 3000
        with pytest.raises(DataError, match="wrong content"):
            catalogue.fetch("small", folder=tmp_path, base_url=site.address, sha256="1" * 64)


class TestLoad:
    def test_returns_the_space(self, site: Site, tmp_path: Path) -> None:
        catalogue.fetch("small", folder=tmp_path, base_url=site.address)
        space = catalogue.load("small", folder=tmp_path, metric="angle")
        assert isinstance(space, Space)
        assert (space.name, space.metric) == ("small", "angle")
        assert list(space.words) == WORDS
        assert np.array_equal(space.vectors, VECTORS)
        assert catalogue.load("small", folder=tmp_path, limit=7).words == tuple(WORDS[:7])

    def test_by_name_from_the_default_folder(self, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SFUMATO_CACHE_DIR", str(tmp_path))
        with pytest.raises(DataError, match="sfumato space get small"):
            Space.load("small")
        catalogue.fetch("small", base_url=site.address)
        assert len(Space.load("small")) == 3000

    def test_repeated_words_count_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        offer(monkeypatch, sha256=None)
        (tmp_path / "small.txt").write_bytes(CONTENT + b"word7 1 1 1 1\n")
        with pytest.raises(SpaceFileError, match="line 3001 repeats"):
            files.read(tmp_path / "small.txt")
        assert len(catalogue.load("small", folder=tmp_path)) == 3000

    def test_wrong_dimension(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        offer(monkeypatch, dimension=5)
        (tmp_path / "small.txt").write_bytes(CONTENT)
        with pytest.raises(SpaceFileError, match="should have 5 components, the file has 4"):
            catalogue.load("small", folder=tmp_path)
