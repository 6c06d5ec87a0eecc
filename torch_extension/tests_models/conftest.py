"""Nothing is downloaded or reported, programs are compiled anew; every test ends with a sync."""

import os

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRACKIO_DISABLE": "1",
    "TORCHACC_CACHE_DIR": "off",
    "TORCHACC_BACKEND": os.environ.get("TORCHACC_BACKEND") or "cpu",
}
os.environ.setdefault("TORCHACC_WATCHDOG", "120,abort")

import pytest  # noqa: E402
import torchacc  # noqa: E402


@pytest.fixture(autouse=True)
def _nothing_left_over(monkeypatch):
    # Version 4 of transformers tells accelerate, and whoever comes after, by the environment.
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    yield
    torchacc.sync()
