"""Measures the selected models in a process beside the tests, and writes docs/models.md."""

import json
import os
from pathlib import Path

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "TORCHACC_NUM_THREADS": "1",
    "TORCHACC_CACHE_DIR": "off",
    "TORCHACC_BACKEND": os.environ.get("TORCHACC_BACKEND") or "cpu",
}

import pytest  # noqa: E402
import report  # noqa: E402
from models import PROGRAMS  # noqa: E402
from workers import Workers  # noqa: E402

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def figures(request):
    """A function that waits for the figures of a model."""
    names = [item.callspec.params["name"] for item in request.session.items]
    workers = Workers()
    futures = workers.run(names)
    yield lambda name: futures[name].result()
    workers.stop()
    results = {name: future.result() for name, future in futures.items() if not future.cancelled()}
    (ROOT / "target/models.json").write_text(json.dumps(results, indent=1))
    # The table is of all models or it stays as it is.
    if len(results) == len(PROGRAMS):
        (ROOT / "docs/models.md").write_text(report.page(results))
