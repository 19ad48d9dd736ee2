"""Published word vectors that can be fetched by name.

Every entry has a published size and SHA-256, though seldom from the publisher of the vectors, who gives none:

* GloVe: the checksums of torchtext (``torchtext/experimental/vectors.py``) and of Embeddings.jl
  (``src/glove.jl``), which agree;
* fastText: the checksums of Embeddings.jl (``src/fasttext.jl``), each repeated by another project that fetched the same
  address on its own;
* word2vec GoogleNews: the checksum of Embeddings.jl (``src/word2vec.jl``) only, taken from a mirror of the file.

An entry without a hash is trusted on first use: the SHA-256 of the first copy is recorded beside it, as ``sha256sum``
writes it, and every later use is checked against that record (:func:`recorded_sha256` returns it).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sfumato.foundation.checks import require_one_of
from sfumato.foundation.errors import DataError, ParameterError, SpaceFileError
from sfumato.space import files
from sfumato.space.cache import cache_folder
from sfumato.space.download import Progress, download, file_sha256
from sfumato.space.metric import DistanceFunction
from sfumato.space.space import Space


@dataclass(frozen=True)
class CatalogueEntry:
    """What is known of a published file of word vectors."""

    name: str
    description: str
    filename: str
    url: str | None
    """The direct address; None where there is none and the file must be fetched by hand from :attr:`page`."""
    page: str
    """Where the publisher describes the file."""
    size: int | None
    """Bytes of the file to download."""
    sha256: str | None
    member: str | None
    """Which file of the archive holds the vectors."""
    licence: str
    dimension: int
    words: int
    """As published; not checked, and a repeated word counts once when the file is read."""
    format: str


_GLOVE_PAGE = "https://nlp.stanford.edu/projects/glove/"
_GLOVE_LICENCE = "Open Data Commons Public Domain Dedication and License 1.0"
_FASTTEXT_PAGE = "https://fasttext.cc/docs/en/english-vectors.html"
_FASTTEXT_LICENCE = "Creative Commons Attribution-Share-Alike 3.0"


def _glove_6b(dimension: int) -> CatalogueEntry:
    return CatalogueEntry(
        name=f"glove-6b-{dimension}d",
        description="GloVe, Wikipedia 2014 and Gigaword 5, 6 billion tokens, lower case",
        filename="glove.6B.zip",
        url="https://nlp.stanford.edu/data/glove.6B.zip",
        page=_GLOVE_PAGE,
        size=862_182_613,
        sha256="617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        member=f"glove.6B.{dimension}d.txt",
        licence=_GLOVE_LICENCE,
        dimension=dimension,
        words=400_000,
        format="GloVe text",
    )


_ENTRIES: tuple[CatalogueEntry, ...] = (
    *(_glove_6b(dimension) for dimension in (50, 100, 200, 300)),
    CatalogueEntry(
        name="glove-42b-300d",
        description="GloVe, Common Crawl, 42 billion tokens, lower case",
        filename="glove.42B.300d.zip",
        url="https://nlp.stanford.edu/data/glove.42B.300d.zip",
        page=_GLOVE_PAGE,
        size=1_877_800_501,
        sha256="03d5d7fa28e58762ace4b85fb71fe86a345ef0b5ff39f5390c14869da0fc1970",
        member="glove.42B.300d.txt",
        licence=_GLOVE_LICENCE,
        dimension=300,
        words=1_917_494,
        format="GloVe text",
    ),
    CatalogueEntry(
        name="glove-840b-300d",
        description="GloVe, Common Crawl, 840 billion tokens, case kept",
        filename="glove.840B.300d.zip",
        url="https://nlp.stanford.edu/data/glove.840B.300d.zip",
        page=_GLOVE_PAGE,
        size=2_176_768_927,
        sha256="c06db255e65095393609f19a4cfca20bf3a71e20cc53e892aafa490347e3849f",
        member="glove.840B.300d.txt",
        licence=_GLOVE_LICENCE,
        dimension=300,
        words=2_196_017,
        format="GloVe text",
    ),
    CatalogueEntry(
        name="word2vec-google-news-300d",
        description="word2vec, Google News, about 100 billion tokens, words and phrases, case kept",
        filename="GoogleNews-vectors-negative300.bin.gz",
        url=None,
        page="https://code.google.com/archive/p/word2vec/",
        size=1_647_046_227,
        sha256="21c05ae916a67a4da59b1d006903355cced7de7da1e42bff9f0504198c748da8",
        member=None,
        licence="Apache License 2.0",
        dimension=300,
        words=3_000_000,
        format="word2vec binary",
    ),
    CatalogueEntry(
        name="fasttext-crawl-300d-2m",
        description="fastText, Common Crawl, 600 billion tokens, case kept",
        filename="crawl-300d-2M.vec.zip",
        url="https://dl.fbaipublicfiles.com/fasttext/vectors-english/crawl-300d-2M.vec.zip",
        page=_FASTTEXT_PAGE,
        size=1_523_785_255,
        sha256="5bfffffbabdab299d4c9165c47275e8f982807a6eaca37ee1f71d3a79ddb544d",
        member="crawl-300d-2M.vec",
        licence=_FASTTEXT_LICENCE,
        dimension=300,
        words=1_999_995,
        format="fastText text",
    ),
    CatalogueEntry(
        name="fasttext-wiki-news-300d-1m",
        description="fastText, Wikipedia 2017, UMBC webbase and statmt.org news, 16 billion tokens, case kept",
        filename="wiki-news-300d-1M.vec.zip",
        url="https://dl.fbaipublicfiles.com/fasttext/vectors-english/wiki-news-300d-1M.vec.zip",
        page=_FASTTEXT_PAGE,
        size=681_808_098,
        sha256="bdeb85f44892c505953e3654183e9cb0d792ee51be0992460593e27198d746f8",
        member="wiki-news-300d-1M.vec",
        licence=_FASTTEXT_LICENCE,
        dimension=300,
        words=999_994,
        format="fastText text",
    ),
)


def entries() -> tuple[CatalogueEntry, ...]:
    """Return every entry.

    >>> [entry.name for entry in entries()][:2]
    ['glove-6b-50d', 'glove-6b-100d']
    """
    return _ENTRIES


def entry(name: str) -> CatalogueEntry:
    """Return one entry.

    >>> entry("glove-840b-300d").dimension
    300
    """
    known = {one.name: one for one in entries()}
    require_one_of(known, name=name)
    return known[name]


def default_folder() -> Path:
    """Return the folder for fetched files; see :func:`sfumato.space.cache.cache_folder`."""
    return cache_folder() / "spaces"


def fetch(
    name: str,
    *,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    base_url: str | None = None,
    sha256: str | None = None,
) -> Path:
    """Download an entry's file unless it is there already, check it, and return its path.

    ``progress`` is called with the bytes done and their total (None where the server does not say).  ``base_url``
    names a mirror that offers the file under its usual name.  ``sha256`` replaces the entry's hash, and its size with
    it, for a file that was published anew.  A file put into the folder by hand is checked and used in the same way.
    """
    wanted = entry(name)
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise ParameterError("sha256 must be 64 hexadecimal digits")
    target = _target(wanted, folder)
    expected = sha256 or wanted.sha256
    if target.exists():
        found = _verify(target, expected or recorded_sha256(target))
        if sha256 is not None:
            _record(target, found)  # what `load` is to check from now on
        return target
    found = download(
        _address(wanted, target, base_url),
        target,
        size=wanted.size if sha256 is None else None,
        sha256=expected,
        progress=progress,
    )
    _record(target, found)
    return target


def load(
    name: str,
    *,
    metric: str | DistanceFunction = "euclidean",
    limit: int | None = None,
    folder: str | Path | None = None,
) -> Space:
    """Return the space of a fetched entry, or of its ``limit`` first (most frequent) words.

    The file is checked each time, against the hash with which it was fetched; of a repeated word the first is kept.
    """
    wanted = entry(name)
    target = _target(wanted, folder)
    if not target.exists():
        raise DataError(f"{name} was not fetched yet; run: sfumato space get {name}")
    _verify(target, recorded_sha256(target) or wanted.sha256)
    words, vectors, scale = files.read(target, limit=limit, member=wanted.member, duplicates="first")
    if vectors.shape[1] != wanted.dimension:
        raise SpaceFileError(f"{name} should have {wanted.dimension} components, the file has {vectors.shape[1]}")
    return Space.from_arrays(words, vectors, metric=metric, name=name, scale=scale)


def recorded_sha256(path: Path) -> str | None:
    """Return the SHA-256 that was recorded when a file was first used, or None."""
    try:
        content = _record_of(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    return content.split(" ", 1)[0] or None


def _target(wanted: CatalogueEntry, folder: str | Path | None) -> Path:
    return (Path(folder) if folder is not None else default_folder()) / wanted.filename


def _address(wanted: CatalogueEntry, target: Path, base_url: str | None) -> str:
    if base_url is not None:
        if urlsplit(base_url).scheme not in ("http", "https"):
            raise ParameterError("base_url must be an http or https address")
        return f"{base_url.rstrip('/')}/{wanted.filename}"
    if wanted.url is None:
        raise DataError(
            f"{wanted.name} has no direct address: download {wanted.filename} by hand, linked from {wanted.page}, put "
            f"it into {target.parent} and run the same command again; it is checked then"
        )
    return wanted.url


def _verify(path: Path, expected: str | None) -> str:
    try:
        found = file_sha256(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}; check its permissions") from None
    if expected is None:
        _record(path, found)
    elif found != expected.lower():
        raise DataError(
            f"{path} has the wrong content: its SHA-256 is {found}, expected is {expected}; delete it and run "
            "'sfumato space get' again"
        )
    return found


def _record_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _record(path: Path, found: str) -> None:
    try:
        _record_of(path).write_text(f"{found}  {path.name}\n", encoding="ascii")
    except OSError as error:
        raise DataError(f"{path.parent} cannot be written: {error.strerror}; choose another folder") from None
