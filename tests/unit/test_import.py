"""``import sfumato`` is quick and needs little."""

from __future__ import annotations

import subprocess
import sys

MOST_SECONDS = 0.3
RUNS = 7
HEAVY = (
    "fastapi", "flwr", "matplotlib", "pandas", "polars", "pyarrow", "pyspark", "rich", "scipy", "spacy", "sqlalchemy",
    "torch", "transformers", "typer",
)  # fmt: skip

# The processor's time, not the clock's: other programs on the machine must not decide.
_TIMED = """
import time
start = time.process_time()
import {package}
print(time.process_time() - start)
"""

_WITH_NUMPY_AND_SCIPY_ONLY = """
import sys
from importlib.machinery import PathFinder

allowed = {"numpy", "scipy", "threadpoolctl", "sfumato"}

class Blocked:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if path is not None or top in allowed or top in sys.stdlib_module_names:
            return None
        spec = PathFinder.find_spec(name)
        if spec is not None:
            raise ModuleNotFoundError(f"{name} is blocked", name=name)
        return None

sys.meta_path.insert(0, Blocked())
import sfumato

space = sfumato.Space.from_arrays(["cold", "warm", "hot"], [[0.0], [3.0], [4.0]])
mechanism = sfumato.compile("tem", space, epsilon=1.0)
assert sfumato.verify(mechanism).passed
assert sfumato.Sanitizer(mechanism)("Hot").text.lower() in space.words
try:
    import pyarrow
except ModuleNotFoundError:
    print("done")
"""


def _python(program: str) -> str:
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_is_quick() -> None:
    def best(package: str) -> float:
        return min(float(_python(_TIMED.format(package=package))) for _ in range(RUNS))

    numpy, sfumato = best("numpy"), best("sfumato")
    assert sfumato < MOST_SECONDS, f"import sfumato took {sfumato:.3f} s, of which numpy {numpy:.3f} s"


def test_import_loads_nothing_heavy() -> None:
    loaded = set(_python("import sys, sfumato; print(*{name.partition('.')[0] for name in sys.modules})").split())
    assert loaded & set(HEAVY) == set()


def test_the_core_works_without_the_other_dependencies() -> None:
    assert _python(_WITH_NUMPY_AND_SCIPY_ONLY) == "done"
