"""Fetching one large public file: resumed after a cut, checked against its hash, renamed only when whole.

While the download runs the bytes stand in ``NAME.part`` and what the server said of the file in ``NAME.part.json``.  A
later call goes on where the last one stopped, but only if the server still offers the same file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import http.client
import json
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NoReturn

from sfumato.foundation.errors import DataError

Progress = Callable[[int, int | None], None]

ATTEMPTS = 6
FIRST_PAUSE_SECONDS = 1.0
TIMEOUT_SECONDS = 60.0
_PIECE = 1 << 20
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")
_BY_HAND = "or copy the file here from another machine and read it with Space.from_file"


class _Cut(Exception):
    """The connection ended early; worth another attempt."""


@dataclass(frozen=True)
class _Offer:
    """What the server says of a file, by which the same file is known again."""

    etag: str | None
    modified: str | None
    total: int | None

    @property
    def validator(self) -> str | None:
        """The value for ``If-Range``; a weak ETag does not promise the same bytes."""
        if self.etag and not self.etag.startswith("W/"):
            return self.etag
        return self.modified


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    progress: Progress | None = None,
) -> str:
    """Fetch ``url`` into ``target`` and return the SHA-256 of what came."""
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _fetch_patiently(url, part, size, progress)
        found = file_sha256(part)
        _check(part, found, size, sha256)
        part.replace(target)
        _note_of(part).unlink(missing_ok=True)
    except OSError as error:
        _report_disk(error, target.parent)
    return found


def _check(part: Path, found: str, size: int | None, sha256: str | None) -> None:
    length = part.stat().st_size
    wrong_size = size is not None and length != size
    if not wrong_size and (sha256 is None or found == sha256.lower()):
        return
    part.unlink()
    _note_of(part).unlink(missing_ok=True)
    if wrong_size:
        raise DataError(f"the downloaded file has {length} bytes, {size} were expected; it was deleted")
    raise DataError(
        f"the downloaded file has the wrong content and was deleted: its SHA-256 is {found}, expected was {sha256}"
    )


def _fetch_patiently(url: str, part: Path, size: int | None, progress: Progress | None) -> None:
    pause = FIRST_PAUSE_SECONDS
    for attempt in range(1, ATTEMPTS + 1):
        before = _length(part)
        try:
            _fetch_once(url, part, size, progress)
            return
        except _Cut as cut:
            if attempt == ATTEMPTS:
                raise DataError(
                    f"the download stopped after {_length(part)} bytes ({cut}), {ATTEMPTS} attempts were made; what "
                    f"came is kept, so the same command goes on from there, {_BY_HAND}"
                ) from None
        if _length(part) > before:
            pause = FIRST_PAUSE_SECONDS
        time.sleep(pause)
        pause *= 2


def _fetch_once(url: str, part: Path, size: int | None, progress: Progress | None) -> None:
    known = _read_note(part)
    have = _length(part) if known and known.validator else 0
    if have and known and have == known.total:
        return
    response = _open(url, part, have, known)
    with response:
        offer, start = _offer_of(response)
        if start != have or (have and known and offer.validator != known.validator):
            if start:
                response.close()
                _forget(part)
                raise _Cut("the file has changed on the server")
            have = 0
        if size is not None and offer.total is not None and offer.total != size:
            _forget(part)
            raise DataError(f"the server offers {offer.total} bytes, {size} were expected: it is another file")
        _require_room(part.parent, offer.total, have)
        _write_note(part, offer)
        _receive(response, part, have, offer.total, progress)


def _open(url: str, part: Path, have: int, known: _Offer | None) -> Any:
    headers = {"User-Agent": "sfumato", "Accept-Encoding": "identity"}
    if have and known and known.validator:
        headers |= {"Range": f"bytes={have}-", "If-Range": known.validator}
    try:
        return urllib.request.urlopen(  # the scheme was checked by the caller
            urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS
        )
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:
            _forget(part)
            raise _Cut("the file on the server is shorter than what came") from None
        if error.code in _PASSING_STATUS:
            raise _Cut(f"the server answers {error.code}") from None
        raise DataError(
            f"the server answers {error.code} for {url}: the file is not offered there (any more); look for its new "
            f"address, {_BY_HAND}"
        ) from None
    except (ConnectionResetError, http.client.HTTPException) as error:
        raise _Cut(type(error).__name__) from None
    except OSError as error:
        if have or isinstance(getattr(error, "reason", error), (ConnectionResetError, TimeoutError)):
            raise _Cut(type(error).__name__) from None
        reason = getattr(error, "reason", error)
        raise DataError(
            f"no connection to {url} ({type(reason).__name__}); check the network and the proxy settings, {_BY_HAND}"
        ) from None


def _offer_of(response: Any) -> tuple[_Offer, int]:
    """Return the offer and the position of the first byte that follows."""
    length = response.headers.get("Content-Length")
    total = int(length) if length and length.isdecimal() else None
    start = 0
    if response.status == 206:
        found = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if found is None:
            raise DataError("the server sends a part of the file without saying which; fetch it by hand")
        start = int(found[1])
        total = None if found[2] == "*" else int(found[2])
    return _Offer(response.headers.get("ETag"), response.headers.get("Last-Modified"), total), start


def _receive(response: Any, part: Path, have: int, total: int | None, progress: Progress | None) -> None:
    done = have
    with part.open("ab" if have else "wb") as file:
        while piece := _read_piece(response):
            file.write(piece)
            done += len(piece)
            if progress is not None:
                progress(done, total)
    if total is not None and done < total:
        raise _Cut("the connection was cut")
    if total is not None and done > total:
        _forget(part)
        raise _Cut("more came than was announced")


def _read_piece(response: IO[bytes]) -> bytes:
    try:
        return response.read(_PIECE)
    except (http.client.HTTPException, OSError) as error:
        raise _Cut(type(error).__name__) from None


def _require_room(folder: Path, total: int | None, have: int) -> None:
    needed = 0 if total is None else total - have
    if needed > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, f"{needed} more bytes are needed")


def _report_disk(error: OSError, folder: Path) -> NoReturn:
    if error.errno == errno.ENOSPC:
        raise DataError(
            f"the disk of {folder} is full; free some space, or choose another folder, and run the same command "
            "again: what came is kept"
        ) from None
    raise DataError(
        f"{folder} cannot be written: {error.strerror or type(error).__name__}; choose another folder"
    ) from None


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _note_of(part: Path) -> Path:
    return part.with_name(part.name + ".json")


def _write_note(part: Path, offer: _Offer) -> None:
    content = {"etag": offer.etag, "modified": offer.modified, "total": offer.total}
    _note_of(part).write_text(json.dumps(content), encoding="utf-8")


def _read_note(part: Path) -> _Offer | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return _Offer(**json.loads(_note_of(part).read_text(encoding="utf-8")))
    return None


def _forget(part: Path) -> None:
    part.unlink(missing_ok=True)
    _note_of(part).unlink(missing_ok=True)
