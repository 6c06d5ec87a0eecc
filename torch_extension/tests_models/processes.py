"""Scripts in two processes of torchrun."""

import os
import re
import subprocess
import sys


def made_by(script, *arguments) -> str:
    """What the script prints after "made", in a line of one of its processes."""
    code = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*code, "--nproc-per-node", "2", str(script), *arguments],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCHACC_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"^made (.*)$", done.stdout, re.M)
    return line
