"""Reading words and vectors from the files in which they are published.

==================  ==================================================================================
GloVe               text without a header
word2vec, fastText  text with a header ``count dimension`` (``.vec``), and word2vec's binary
``.npz``            keys ``words`` (unicode, or UTF-8 bytes joined by line feeds), ``vectors``, ``scale``
==================  ==================================================================================

Each may also be gzipped or a member of a zip archive.  The format is told by content, never by the file's name.
A fastText model (``.bin``) is refused: its word vectors are averages over character n-grams, which the ``.vec`` file
published beside it already holds.
"""

from __future__ import annotations

import gzip
import lzma
import zipfile
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import numpy.typing as npt

from sfumato.foundation.checks import require_count, require_one_of
from sfumato.foundation.errors import ParameterError, SpaceFileError
from sfumato.space.formats import Rows, read_rows, row_slices

_FOREIGN = (
    (b"\xba\x16\x4f\x2f", "a fastText model; read the .vec file that is published beside it"),
    (b"\x93NUMPY", "a single array; store words and vectors together with numpy.savez"),
    (b"version https://git-lfs", "a Git LFS pointer; fetch the file itself with 'git lfs pull'"),
    (b"\x89HDF\r\n", "an HDF5 file"),
    (b"SQLite format 3\x00", "an SQLite database"),
    (b"PAR1\x15", "a Parquet file"),
    (b"%PDF-", "a PDF document"),
    (b"\x7fELF", "a program"),
    (b"MZ\x90\x00", "a program"),
    (b"\x89PNG\r\n", "an image"),
    (b"\xff\xd8\xff", "an image"),
    (b"GIF8", "an image"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (b"Rar!\x1a\x07", "a rar archive; unpack it first"),
    (b"\xfd7zXZ\x00", "an xz file; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "a zstd file; unpack it first"),
    (b"\x80\x02", "a Python pickle, which is never read: it can run any program"),
    (b"\x80\x03", "a Python pickle, which is never read: it can run any program"),
    (b"\x80\x04", "a Python pickle, which is never read: it can run any program"),
    (b"\x80\x05", "a Python pickle, which is never read: it can run any program"),
    (b"<!DOCTYPE", "a web page, perhaps an error page in place of the file; download it again"),
    (b"<!doctype", "a web page, perhaps an error page in place of the file; download it again"),
    (b"\xff\xfe", "UTF-16 text; convert it to UTF-8"),
    (b"\xfe\xff", "UTF-16 text; convert it to UTF-8"),
)
_LONGEST_MAGIC = 64
_ROWS_AT_ONCE = 65_536
_MOST_WRAPPINGS = 3


def read(
    path: Path,
    *,
    limit: int | None = None,
    member: str | None = None,
    duplicates: str = "error",
) -> tuple[list[str], npt.NDArray[Any], float]:
    """Return words, their vectors (float32 or int8) and the scale by which the vectors are to be multiplied.

    ``limit`` stops after so many words, ``member`` names the file inside a zip archive with several, and
    ``duplicates="first"`` keeps the first of a repeated word where the default is an error.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name) / "tiny.txt"
    >>> _ = path.write_text("cold 0.5 -1\\n. . . 2 0\\n", encoding="utf-8")
    >>> words, vectors, scale = read(path)
    >>> words, vectors.tolist(), scale
    (['cold', '. . .'], [[0.5, -1.0], [2.0, 0.0]], 1.0)
    >>> folder.cleanup()
    """
    require_one_of(("error", "first"), duplicates=duplicates)
    if limit is not None:
        require_count(limit=limit)
        limit = int(limit)
    path = Path(path)
    try:
        with ExitStack() as stack:
            stream = cast(BinaryIO, stack.enter_context(path.open("rb")))
            return _read_stream(stream, stack, limit, member, duplicates)
    except SpaceFileError as error:
        raise SpaceFileError(f"{path.name}: {error}") from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise SpaceFileError(
            f"{path.name}: the compressed file is damaged or cut short ({type(error).__name__}); download it again"
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SpaceFileError(f"{path.name}: cannot be read: {reason}; check the path and its permissions") from None
    except MemoryError:
        raise SpaceFileError(f"{path.name}: does not fit in memory; read fewer words with limit=") from None


def _read_stream(
    stream: BinaryIO, stack: ExitStack, limit: int | None, member: str | None, duplicates: str
) -> tuple[list[str], npt.NDArray[Any], float]:
    wanted = member
    for _ in range(_MOST_WRAPPINGS):
        magic = stream.read(_LONGEST_MAGIC)
        stream.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            stream = cast(BinaryIO, stack.enter_context(gzip.GzipFile(fileobj=stream)))
        elif magic.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            archive = stack.enter_context(zipfile.ZipFile(stream))
            names = _members(archive)
            if wanted is None and any(name.endswith(".npy") for name in names):
                return _read_npz(stream, limit, duplicates)
            stream = stack.enter_context(_opened(archive, _chosen(names, wanted)))
            wanted = None
        else:
            break
    if wanted is not None:
        raise ParameterError("member names a file inside a zip archive, which this file is not")
    _refuse_foreign(magic)
    words, vectors = read_rows(stream, limit=limit, duplicates=duplicates)
    return words, vectors, 1.0


def _members(archive: zipfile.ZipFile) -> list[str]:
    return [
        info.filename for info in archive.infolist() if not info.is_dir() and not info.filename.startswith("__MACOSX/")
    ]


def _chosen(names: list[str], wanted: str | None) -> str:
    if wanted is not None and wanted in names:
        return wanted
    if wanted is None and len(names) == 1:
        return names[0]
    if not names:
        raise SpaceFileError("the archive is empty")
    problem = "there is no such member in" if wanted else "there are several files in"
    raise SpaceFileError(f"{problem} the archive; choose with member= one of: {', '.join(sorted(names))}")


def _opened(archive: zipfile.ZipFile, name: str) -> BinaryIO:
    try:
        return cast(BinaryIO, archive.open(name))
    except RuntimeError:
        raise SpaceFileError(
            "the archive is encrypted or compressed in a way that is not read; unpack it first"
        ) from None


def _refuse_foreign(magic: bytes) -> None:
    if not magic:
        raise SpaceFileError("the file is empty")
    bzip2 = magic.startswith(b"BZh") and magic[4:10] == b"1AY&SY"
    if bzip2 or magic.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        raise SpaceFileError("the file is compressed in a way that is not read; unpack it first")
    for prefix, description in _FOREIGN:
        if magic.startswith(prefix):
            raise SpaceFileError(f"this is {description}")


def _read_npz(stream: BinaryIO, limit: int | None, duplicates: str) -> tuple[list[str], npt.NDArray[Any], float]:
    stream.seek(0)
    try:
        with np.load(stream, allow_pickle=False) as data:
            words = _npz_words(data["words"])
            vectors = data["vectors"]
            scale = np.asarray(data.get("scale", 1.0))
    except KeyError as error:
        raise SpaceFileError(f"the archive lacks an array {error}; it needs 'words' and 'vectors'") from None
    except ValueError:
        raise SpaceFileError("an array is damaged or holds Python objects, which are never read") from None
    if vectors.ndim != 2 or vectors.shape[1] == 0 or vectors.dtype.kind not in "iuf":
        raise SpaceFileError("'vectors' must be a two-dimensional array of numbers")
    if len(words) != len(vectors):
        raise SpaceFileError(f"there are {len(words)} words but {len(vectors)} vectors")
    if scale.size != 1 or scale.dtype.kind not in "iuf" or not (np.isfinite(scale).all() and scale.item() > 0):
        raise SpaceFileError("'scale' must be one finite number greater than 0")
    rows = Rows(limit, duplicates, unit="row", first=0)
    for part in row_slices(len(words), _ROWS_AT_ONCE):
        if limit is not None and duplicates == "error":
            part = slice(part.start, min(part.stop, limit))
        rows.add(words[part], _storable(vectors[part]))
        if limit is not None and len(rows.words) >= limit:
            break
    found, array = rows.result()
    if limit is not None and len(found) > limit:
        found, array = found[:limit], array[:limit].copy()
    return found, array, float(scale.item())


def _npz_words(array: npt.NDArray[Any]) -> list[str]:
    if array.dtype.kind == "U" and array.ndim == 1:
        return cast(list[str], array.tolist())
    if array.dtype == np.uint8 and array.ndim == 1:
        try:
            return array.tobytes().decode("utf-8").split("\n")
        except UnicodeDecodeError:
            raise SpaceFileError("'words' is not UTF-8") from None
    raise SpaceFileError("'words' must be a unicode array, or uint8 with the UTF-8 bytes of words joined by line feeds")


def _storable(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return vectors as int8 where they are, else as float32; whole numbers must not lose a digit."""
    if vectors.dtype == np.int8:
        return vectors
    with np.errstate(over="ignore"):
        converted = vectors.astype(np.float32)
    if vectors.dtype.kind in "iu" and not np.array_equal(converted.astype(np.float64), vectors):
        raise SpaceFileError("'vectors' holds whole numbers that float32 cannot; store them as int8 with a 'scale'")
    return converted
