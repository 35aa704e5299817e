"""Runs a real vLLM server on this machine's CPU, on the random tiny Qwen3-VL."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness import serving
from harness.serving import Server

MODEL = "tiny"
"""What the server calls the checkpoint."""

ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "auto",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
}
ARGUMENTS = [
    "--dtype", "bfloat16", "--enforce-eager", "--max-model-len", "8192", "--max-num-seqs", "8",
    "--limit-mm-per-prompt", json.dumps({"image": 5, "video": 0}),
]  # fmt: skip


def make_checkpoint(folder: Path) -> Path:
    """The tiny checkpoint in ``folder``; made in a child, so that torch stays out of here."""
    script = Path(__file__).with_name("tiny_qwen3vl.py")
    made = subprocess.run(
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise RuntimeError(f"the tiny checkpoint could not be made:\n{made.stderr[-2000:]}")
    return folder


@contextmanager
def vllm_server(checkpoint: Path, log: Path, *, port: int = 0) -> Iterator[Server]:
    """A server of the checkpoint that is ready to answer; gone afterwards."""
    with serving.vllm_server(
        str(checkpoint), log, name=MODEL, port=port, arguments=ARGUMENTS, environment=ENVIRONMENT,
        patience=300,
    ) as server:  # fmt: skip
        yield server
