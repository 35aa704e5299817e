"""How long a judge takes: DLC-Bench's 992 calls against a stub server that answers after 200 ms.

    python benchmarks/judging.py

Exits 1 if the first run takes more than 15 s, or a second run of the same captions asks anything.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

OUT = Path(__file__).resolve().parent / "out" / "judging"
OBJECTS, QUESTIONS, LATENCY, MOST = 100, 892, 0.2, 15.0
REPLY = {
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "A"}}],
    "usage": {"prompt_tokens": 250, "completion_tokens": 1},
}


class Stub(BaseHTTPRequestHandler):
    """Answers "A" to everything, late."""

    protocol_version = "HTTP/1.1"
    asked = 0
    lock = threading.Lock()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        with Stub.lock:
            Stub.asked += 1
        time.sleep(LATENCY)
        body = json.dumps(REPLY).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


def write_benchmark(folder: Path) -> None:
    """A set of DLC-Bench's size: 100 objects with 892 questions, and a caption for each."""
    names, questions, captions = {}, {}, []
    for i in range(OBJECTS):
        key, count = str(i), QUESTIONS // OBJECTS + (i < QUESTIONS % OBJECTS)
        names[key] = f"thing {i}"
        questions[key] = [_question(i, k, count) for k in range(count)]
        captions.append(
            {"sample_id": key, "text": f"A thing {i} with a handle and a red rim. " * 5}
        )
    folder.mkdir(parents=True)
    (folder / "class_names.json").write_text(json.dumps(names))
    (folder / "qa.json").write_text(json.dumps(questions))
    (folder / "captions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in captions))


def _question(thing: int, number: int, count: int) -> dict[str, Any]:
    if number < count - 5:
        choices = [["right", 1], ["wrong", -1], ["part only", 0.5], ["not mentioned", 0]]
        return {"question": f"Part {number} of {thing}?", "choices": choices, "type": "positive"}
    choices = [["not mentioned", 1], ["mentioned", -1]]
    return {"question": f"Extra {number} of {thing}?", "choices": choices, "type": "negative"}


def judge(url: str, run: str) -> tuple[float, dict[str, Any]]:
    """One `harness eval` in a process of its own: (seconds, result of the task)."""
    command = [
        sys.executable, "-m", "harness", "eval", "--model", "recorded", "--tasks", "dlc",
        "--set", f"model.path={OUT / 'captions.jsonl'}", "--set", f"tasks.dlc.root={OUT}",
        "--judge", "openai-chat", "--set", "judge.model=stub", "--set", f"judge.base_url={url}",
        "--set", "judge.max_concurrency=64", "--run", str(OUT / run), "--json", "--quiet",
    ]  # fmt: skip
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    return time.perf_counter() - started, json.loads(done.stdout)["tasks"]["dlc"]


def main() -> int:
    """Judges once for real and once from the cache; returns the exit code."""
    shutil.rmtree(OUT, ignore_errors=True)
    write_benchmark(OUT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.request_queue_size = 128
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    first, result = judge(url, "first")
    asked = Stub.asked
    again, _ = judge(url, "again")
    print(f"{result['questions']} questions, {asked} calls of {LATENCY:.1f} s: {first:.1f} s")
    print(f"one after the other they take {asked * LATENCY:.0f} s: {asked * LATENCY / first:.0f} x")
    print(f"the same captions again: {Stub.asked - asked} calls, {again:.1f} s")
    ok = first <= MOST and Stub.asked == asked and result["judge_errors"] == 0
    print("ok" if ok else f"MISSED: at most {MOST:.0f} s, nothing asked twice, no judge error")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
