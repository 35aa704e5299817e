"""Times gcg's five metrics against the way of the public evaluate script: same jar, same digits.

    python benchmarks/gcg.py [IMAGES ...]        (default: 2500 10000)

For each size: the public way (COCOeval, PTBTokenizer, Meteor and Cider of pycocoevalcap, dense
masks, a walk over all annotations for each picture), ``harness eval`` with an empty cache, and the
same command again, of which METEOR and CIDEr are also timed by themselves. Phrases are compared by
``bow`` on both sides; the harness also makes 1000 bootstrap rounds for each number. The start of
the two Java programs, below which nobody can get, is shown apart. Exits with 1 if a number differs,
or a run is slower than it may be. The public way of 10,000 pictures takes many minutes.
"""

import contextlib
import io
import json
import math
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from benchmarks.synthetic import HEIGHT, WIDTH, answered, shapes, to_rle

OUT = Path(__file__).parent / "out"
SEED = 20251
SIZES = (2500, 10000)
THINGS = "man woman dog cat car bus bicycle tree house bench table horse boat lamp cup road".split()  # noqa: SIM905
LOOKS = "red blue small large old white black wooden green tall".split()  # noqa: SIM905
FASTER_AT_10000, SECOND_RUN = 1.5, 0.10  # at least; at most, of METEOR and CIDEr


def phrase(rng: random.Random) -> str:
    return f"a {rng.choice(LOOKS)} {rng.choice(THINGS)}"


def caption(rng: random.Random, phrases: list[str]) -> str:
    """About thirty words, as GranD-f's captions have."""
    places = ["in front of", "next to", "behind", "on the left side of", "near", "to the right of"]
    said = [f"{p} standing {rng.choice(places)} {rng.choice(THINGS)}s" for p in phrases]
    return f"The image shows {', '.join(said)}. It's a sunny day in the {rng.choice(THINGS)} area."


def files(folder: Path, count: int) -> Path:
    """Annotations and predictions of ``count`` pictures; made on the first call, then kept."""
    root = folder / f"gcg-v1-{count}"
    if root.exists():
        return root
    rng, shape_rng = random.Random(SEED), np.random.default_rng(SEED)
    images: list[Any] = []
    captions: list[Any] = []
    truth: list[Any] = []
    said: list[Any] = []
    for i in range(count):
        name, number = f"sa_{rng.randrange(10**8):08d}_{i}", rng.randint(2, 6)
        labels = [phrase(rng) for _ in range(number)]
        images.append({"id": name, "height": HEIGHT, "width": WIDTH, "file_name": f"{name}.jpg"})
        captions.append(
            {"id": i + 1, "image_id": name, "caption": caption(rng, labels), "labels": labels}
        )
        guesses = [label if rng.random() < 0.7 else phrase(rng) for label in labels]
        predicted = []
        for _ in labels:
            drawn = shapes(shape_rng, 4)
            rle = to_rle(drawn)
            truth.append(
                {"id": len(truth) + 1, "image_id": name, "category_id": 1, "iscrowd": 0,
                 "segmentation": rle, "area": int(masks.area(rle)), "bbox": [0, 0, 1, 1]}
            )  # fmt: skip
            predicted.append(to_rle(answered(shape_rng, drawn, 4)))
        marked = [f"<|object_ref_start|>{g}<|object_ref_end|>" for g in guesses]
        said.append({"sample_id": f"val/{name}", "text": caption(rng, marked), "masks": predicted})
    (root / "annotations").mkdir(parents=True)
    for kind, rows in (("caption", captions), ("mask", truth)):
        content: dict[str, Any] = {"images": images, "annotations": rows}
        if kind == "mask":
            content["categories"] = [{"id": 1}]
        (root / "annotations" / f"val_gcg_coco_{kind}_gt.json").write_text(json.dumps(content))
    (root / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    return root


def bow(a: str, b: str) -> float:
    """The back-end ``bow``, told again."""
    x, y = (Counter(re.findall("[a-z0-9]+", text.lower())) for text in (a, b))
    dot = sum(n * y[word] for word, n in x.items())
    norms = [math.sqrt(sum(n * n for n in c.values())) for c in (x, y)]
    return dot / (norms[0] * norms[1]) if dot else 0.0


class PublicWay:
    """The work of the public script, in its order and with its loops; no interval, no check."""

    def __init__(self, root: Path) -> None:
        folder = root / "annotations"
        with contextlib.redirect_stdout(io.StringIO()):
            self.truth = COCO(str(folder / "val_gcg_coco_mask_gt.json"))
            self.captions = COCO(str(folder / "val_gcg_coco_caption_gt.json"))
            self.said = {}
            detections = []
            for line in (root / "predictions.jsonl").read_text().splitlines():
                row = json.loads(line)
                name = row["sample_id"].removeprefix("val/")
                found = re.findall(r"<\|object_ref_start\|>(.*?)<\|object_ref_end\|>", row["text"])
                text = " ".join(re.sub(r"<.*?>", "", row["text"]).split()).strip("'").strip()
                self.said[name] = text, [p.strip() for p in found]
                detections += [
                    {"image_id": name, "category_id": 1, "segmentation": rle, "score": 1.0}
                    for rle in row["masks"]
                ]
            self.found = self.truth.loadRes(detections)
        self.names = [image["id"] for image in self.captions.dataset["images"]]

    def ap50(self) -> dict[str, float]:
        with contextlib.redirect_stdout(io.StringIO()):
            evaluation = COCOeval(self.truth, self.found, "segm")
            evaluation.params.catIds = [1]
            evaluation.evaluate()
            evaluation.accumulate()
            evaluation.summarize()
        return {"AP50": float(evaluation.stats[1])}

    def caption_metrics(self) -> dict[str, float]:
        from pycocoevalcap.cider.cider import Cider  # type: ignore[import-untyped]
        from pycocoevalcap.meteor.meteor import Meteor  # type: ignore[import-untyped]
        from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer  # type: ignore[import-untyped]

        true = {name: self.captions.imgToAnns[name] for name in self.names}
        said = {name: [{"caption": self.said[name][0]}] for name in self.names}
        true, said = PTBTokenizer().tokenize(true), PTBTokenizer().tokenize(said)
        meteor, cider = Meteor().compute_score(true, said)[0], Cider().compute_score(true, said)[0]
        return {"METEOR": meteor, "CIDEr": float(cider)}

    def miou(self) -> dict[str, float]:
        values = []
        for name in self.names:
            true, said = self._dense(self.truth, name), self._dense(self.found, name)
            matrix, taken = _matrix(said, true), []
            while matrix.size and matrix.max() > 0:
                place = np.unravel_index(matrix.argmax(), matrix.shape)
                taken.append(matrix[place])
                matrix = np.delete(np.delete(matrix, place[0], 0), place[1], 1)
            values.append(np.mean(taken) if taken else 0.0)
        return {"mIoU": float(np.mean(values))}

    def recall(self) -> dict[str, float]:
        found = wanted = 0
        for name in self.names:
            matrix = _matrix(self._dense(self.truth, name), self._dense(self.found, name))
            rows = [row for row in self.captions.anns.values() if row["image_id"] == name]
            labels, phrases = rows[0]["labels"], self.said[name][1]
            alike = np.array([[bow(a, b) for b in phrases] for a in labels])
            wanted += len(labels)
            while matrix.size:
                place = np.unravel_index(matrix.argmax(), matrix.shape)
                if matrix[place] < 0.5 or alike[place] < 0.5:
                    break
                found += 1
                matrix[place[0]] = 0
                matrix[:, place[1]] = 0
        return {"Recall": found / wanted}

    def _dense(self, coco: COCO, name: str) -> list[NDArray[np.uint8]]:
        rows = [row for row in coco.anns.values() if row["image_id"] == name]
        return [masks.decode(row["segmentation"]) for row in rows]


def _matrix(rows: list[Any], columns: list[Any]) -> NDArray[np.float64]:
    matrix = np.zeros((len(rows), len(columns)))
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            matrix[i, j] = np.logical_and(row, column).sum() / np.logical_or(row, column).sum()
    return matrix


def public(root: Path) -> tuple[dict[str, float], dict[str, float]]:
    """(numbers, seconds by stage) of the public way."""
    numbers: dict[str, float] = {}
    seconds: dict[str, float] = {}
    with timed(seconds, "read"):
        way = PublicWay(root)
    for stage in (way.ap50, way.caption_metrics, way.miou, way.recall):
        with timed(seconds, stage.__name__):
            numbers |= stage()
    return numbers, seconds


@contextlib.contextmanager
def timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[name] = time.perf_counter() - start


def harness(root: Path, cache: Path, run: Path) -> tuple[dict[str, float], float]:
    """(numbers, seconds) of one command, from its start to its end."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "harness", "eval", "--model", "recorded", "--tasks", "gcg",
         "--set", f"model.path={root / 'predictions.jsonl'}", "--set", f"tasks.gcg.root={root}",
         "--set", f"tasks.gcg.cache={cache}", "--run", str(run), "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    seconds = time.perf_counter() - start
    estimates: Mapping[str, Any] = json.loads(done.stdout)["tasks"]["gcg"]["groups"]["val"]
    return {name: estimate["value"] for name, estimate in estimates.items()}, seconds


def captions_again(root: Path, cache: Path) -> float:
    """Seconds for METEOR and CIDEr of captions that the cache knows."""
    from harness_tasks._caption_scores import official
    from harness_tasks._caption_text import CaptionTools
    from harness_tasks._gcg_parse import read
    from harness_tasks.gcg import Gcg

    samples = list(Gcg(root=root).samples())
    rows = map(json.loads, (root / "predictions.jsonl").read_text().splitlines())
    said = [read(row["text"]).caption for row in rows]
    start = time.perf_counter()
    official(CaptionTools.find(300, cache), [said], [[sample.captions for sample in samples]])
    return time.perf_counter() - start


def java_start() -> float:
    """Seconds that both Java programs take for a single word."""
    from harness_tasks._caption_cache import OFF
    from harness_tasks._caption_text import CaptionTools

    tools = CaptionTools.find(300, OFF)
    start = time.perf_counter()
    tools.tokenize([["a"]])
    tools.segments([(("a",), "a")])
    return time.perf_counter() - start


def compare(count: int) -> bool:
    """Prints one size; whether digits and times are as they must be."""
    root = files(OUT, count)
    floor = java_start()
    theirs, stages = public(root)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        ours, cold = harness(root, folder / "cache.sqlite", folder / "a")
        again, second = harness(root, folder / "cache.sqlite", folder / "b")
        known = captions_again(root, folder / "cache.sqlite")
    worst = max(abs(ours[name] - theirs[name]) for name in theirs)
    total = sum(stages.values())
    told = ", ".join(f"{name} {seconds:.1f}" for name, seconds in stages.items())
    print(f"{count} images: {', '.join(f'{n} {v:.6f}' for n, v in ours.items())}")
    print(f"  largest difference  {worst:.1e}")
    print(f"  start of Java       {floor:7.1f} s   (in each of the next two)")
    print(f"  public way          {total:7.1f} s   ({told})")
    print(f"  harness, cold       {cold:7.1f} s   {total / cold:.1f} times faster")
    new = cold - second + known
    print(f"  harness, again      {second:7.1f} s   {100 * second / cold:.0f} % of cold")
    print(f"  captions, cold      {new:7.1f} s   (the two commands differ by nothing else)")
    print(f"  captions, again     {known:7.1f} s   {100 * known / new:.0f} % of cold", flush=True)
    fast = total / cold >= (FASTER_AT_10000 if count >= 10000 else 1.0)
    return worst < 1e-9 and again == ours and fast and known <= SECOND_RUN * new


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[1:]] or SIZES
    sys.exit(0 if all([compare(size) for size in sizes]) else 1)
