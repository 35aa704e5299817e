"""Caption metrics against the public scorers, and their Java programs in trouble."""

import random
import shutil
import sqlite3
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from harness.metrics import Metric
from harness.statistics import interval, replicates
from harness.types import Score
from harness_tasks import _caption_text
from harness_tasks._caption_cache import OFF, CaptionCache, key
from harness_tasks._caption_scores import official, regex_tokens, without_java
from harness_tasks._caption_text import CaptionTools, Segment, ends_lines, one_line
from harness_tasks._cider import cider
from harness_tasks._java import Java, Unavailable
from harness_tasks._meteor import STATISTICS, Meteor, as_values, meteor_of

WORDS = (
    "a the man men woman dog dogs cat red crimson running runs run car automobile building 's is "
    "n't on in big large -lrb- 5 café 車 xyzzy | , of"
)
BITS = (
    "A dog runs no. No. U.S. Inc. etc. e.g. Mr. 5 3.5m $5 ( really ) 's isn't \"yes\" -- - ... … — "
    "||| <p> & http://a.b/c?d=1 a@b.co #tag 1/2 ½ 車 café 😀 \u00a0 \u200b \x00 \x07 [x] {y} `q' "
    "?! : :-) St. the"
)


@pytest.fixture(scope="module")
def tools() -> CaptionTools:
    try:
        return CaptionTools.find(120, OFF)
    except Unavailable as reason:
        pytest.skip(str(reason))


def texts(rng: random.Random, count: int, among: str, most: int = 14) -> list[str]:
    words = among.split(" ")
    return [" ".join(rng.choices(words, k=rng.randint(0, most))) for _ in range(count)]


def segments(rng: random.Random, count: int) -> list[Segment]:
    made = []
    for _ in range(count):
        references = texts(rng, rng.choice([1, 1, 2, 3]), WORDS)
        made.append((tuple(references), rng.choice([*texts(rng, 1, WORDS), references[0], ""])))
    return made


@pytest.mark.slow
def test_meteor_is_the_jars_own_aggregate(tools: CaptionTools) -> None:
    """The jar's EVAL of statistics is a corpus value; ours is a formula over their sums."""
    rng = random.Random(0)
    counted = tools.segments(segments(rng, 300))
    lots = [counted[a : a + size] for a, size in ((0, 1), (1, 2), (3, 7), (10, 40), (50, 250))]
    lots.append([numbers for numbers in counted if meteor_of([numbers]) == [1.0]])
    jar = str(tools.folder / _caption_text.METEOR)
    lines = ["EVAL ||| " + " ||| ".join(" ".join(map(str, n)) for n in lot) for lot in lots]
    asked = subprocess.run(
        ["java", "-jar", jar, "-", "-", "-stdio", "-l", "en", "-norm"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    said = iter(map(float, asked.stdout.split()))
    for lot in lots:
        for numbers in lot:
            assert meteor_of([numbers]) == [pytest.approx(next(said), abs=1e-12)]
        scores = [Score(sample_id=str(i), values=as_values(n)) for i, n in enumerate(lot)]
        assert Meteor()(scores) == pytest.approx(next(said), abs=1e-12)


def test_meteor_by_hand() -> None:
    # "a dog runs on the grass" / "a dog is running on grass", as the jar counts them; its value
    # is 0.374255 (spec of the protocol).
    numbers = [6, 6, 3, 3, 2, 2, 2, 2, 1, 1, *[0] * 10, 3, 5, 5]
    assert meteor_of([numbers]) == [pytest.approx(0.37425524545742395, abs=1e-12)]
    copy = Score(sample_id="c", values=as_values([3, 3, 1, 1, 2, 2, 1, 1, *[0] * 12, 1, 3, 3]))
    assert Meteor()([copy, copy]) == 1.0  # copies are not fragmented, however many
    empty = Score(sample_id="e", values=as_values([0.0] * len(STATISTICS)))
    assert Meteor()([empty]) == 0.0
    assert np.isnan(Meteor()([Score(sample_id="x", values={})]))
    assert Meteor().count([copy, empty, Score(sample_id="x", values={})]) == 2


def test_meteor_of_resamples_needs_no_java() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, (20, len(STATISTICS)))
    scores = [
        Score(sample_id=str(i), cluster=str(i), values=as_values([float(v) for v in row]))
        for i, row in enumerate(rows)
    ]

    class Called:
        def __call__(self, drawn: object) -> float:
            return Meteor()(drawn)  # type: ignore[arg-type]

        def count(self, drawn: object) -> int:
            return 0

    metrics: dict[str, Metric] = {"fast": Meteor(), "slow": Called()}
    drawn = replicates(metrics, scores, rounds=30)
    np.testing.assert_allclose(drawn["fast"], drawn["slow"], rtol=0, atol=1e-12)
    low, high = interval(drawn["fast"])
    assert low <= Meteor()(scores) <= high


@pytest.mark.parametrize("seed", range(12))
def test_cider_is_that_of_pycocoevalcap(seed: int) -> None:
    scorer = pytest.importorskip("pycocoevalcap.cider.cider")
    drawn = segments(random.Random(seed), (2, 3, 30, 120)[seed % 4])
    theirs, each = scorer.Cider().compute_score(
        {i: list(references) for i, (references, _) in enumerate(drawn)},
        {i: [candidate] for i, (_, candidate) in enumerate(drawn)},
    )
    ours = cider([candidate for _, candidate in drawn], [references for references, _ in drawn])
    assert ours == pytest.approx(list(each), abs=1e-12)
    assert np.mean(ours) == pytest.approx(theirs, abs=1e-12)


def test_cider_by_hand() -> None:
    # Two pictures: the idf of each n-gram is ln 2; one- and two-grams are equal: 10 * 2 / 4.
    assert cider(["a b", ""], [["a b"], ["c d"]]) == pytest.approx([5.0, 0.0])
    assert cider(["a b"], [["a b"]]) == [0.0]  # ln 1 = 0
    assert cider(["", ""], [[""], [""]]) == [0.0, 0.0]
    assert cider([], []) == []


def test_cider_without_java_has_its_own_name() -> None:
    ((first, _),) = without_java([["A dog runs.", "x"]], [[["a dog runs"], ["a cat"]]])
    assert first == {"CIDEr-regex": pytest.approx(7.5)}  # three words: no 4-gram
    assert regex_tokens("The man's dog, (really) 3.5m") == "the man's dog really 3 5m"


@pytest.mark.parametrize("seed", range(3))
def test_tokens_are_those_of_pycocoevalcap(tools: CaptionTools, seed: int) -> None:
    scorer = pytest.importorskip("pycocoevalcap.tokenizer.ptbtokenizer")
    rng = random.Random(seed)
    blocks = [texts(rng, 400, BITS), texts(rng, 3, BITS), ["ends with a smile :-)"]]
    for block, ours in zip(blocks, tools.tokenize(blocks), strict=True):
        theirs = scorer.PTBTokenizer().tokenize(
            {i: [{"caption": caption}] for i, caption in enumerate(block)}
        )
        assert ours == [theirs[i][0] for i in range(len(block))]


def test_no_character_shifts_the_captions_after_it(tools: CaptionTools) -> None:
    odd = [chr(code) for code in (*range(32), 127, *range(128, 161), 0x2028, 0x2029, 0xFEFF)]
    captions = [f"before{character}after" for character in odd]
    block = [text for caption in captions for text in (caption, "a marker")]
    block += ["\ud83d half a pair", "a marker", "x" * 100_000, "a marker", "a {b} " * 10_000, "end"]
    (tokens,) = tools.tokenize([block])
    assert tokens[1:-1:2] == ["a marker"] * (len(block) // 2 - 1)
    assert tokens[-1] == "end"
    assert [ends_lines(t) for t in ("a\nb", "a\u2028b", "a\rb")] == [False, True, True]
    assert one_line("a\u2029b\n\ud83d") == "a b ?"


class Fake:
    """A ``java`` on the PATH that is not quite one."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.real = folder, shutil.which("java")
        self.monkeypatch = monkeypatch

    def says(self, script: str) -> None:
        path = self.folder / "java"
        path.write_text(f'#!/bin/sh\nreal="{self.real}"\n{script}\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self.monkeypatch.setenv("PATH", f"{self.folder}:/usr/bin:/bin")


VERSION = 'case "$*" in *-version*) exit 0;; esac\n'
ONES = 'awk \'{ for (i = 1; i <= 23; i++) printf "1.0 "; print "" }\''


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    (tmp_path / "bin").mkdir()
    return Fake(tmp_path / "bin", monkeypatch)


Find = Callable[[float], CaptionTools]


@pytest.fixture
def find(tmp_path: Path) -> Find:
    if not shutil.which("java"):
        pytest.skip("there is no java")
    cache = tmp_path / "cache" / "captions.sqlite"
    return lambda timeout: CaptionTools.find(timeout, cache)


def reason(find: Find, timeout: float = 20) -> str:
    """Why METEOR cannot be had."""
    try:
        tools = find(timeout)
    except Unavailable as error:
        return str(error)
    (values,), reasons = official(tools, [["a dog", "a cat"]], [[["a dog"], ["two cats"]]])
    assert all("METEOR" not in value for value in values)
    return reasons["METEOR"]


def test_no_java(find: Find, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "no java on the PATH" in reason(find)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("sleep 60", "did not answer for 1 seconds"),
        (VERSION + "sleep 60", "did not answer for 1 seconds"),
        (VERSION + "sleep 60 | cat", "did not answer for 1 seconds"),
        ("echo broken >&2; exit 7", "ended with code 7: broken"),
        (VERSION + "exit 1", "ended with code 1 and said nothing"),
        (VERSION + "echo one; echo two", "tokenizer gave 3 lines for 2 captions"),
        (VERSION + "exit 0", "tokenizer gave 1 lines for 2 captions"),
    ],
)
def test_java_in_trouble(find: Find, fake: Fake, script: str, why: str) -> None:
    fake.says(script)
    assert why in reason(find, timeout=1)


@pytest.mark.parametrize(
    ("meteor", "why"),
    [
        (f"sed 1d | {ONES}", "METEOR gave 1 lines for 2 segments"),
        ("cat > /dev/null; exit 3", "failed at segment 1 of 2: java ended with code 3"),
        ("head -c 100000 /dev/zero | tr '\\0' e >&2; exit 3", "failed at segment 1 of 2"),
        ("sed 's/.*/Error: specify SCORE or EVAL/'", "'Error: specify SCORE or EVAL' instead of"),
        ("sed 's/.*/0,37 1,0/'", "instead of its statistics"),
        (f"({ONES}; echo more) | cat", "instead of its statistics"),
        (f"({ONES}; echo) | {ONES}", "METEOR gave 3 lines for 2 segments"),
        ("cat > /dev/null; sleep 60", "did not answer for 3 seconds"),
    ],
)
def test_meteor_in_trouble_leaves_cider(find: Find, fake: Fake, meteor: str, why: str) -> None:
    fake.says(f'case "$*" in *meteor*) {meteor}; exit $?;; esac\nexec "$real" "$@"')
    tools = find(3)
    (values,), reasons = official(tools, [["a dog", "a cat"]], [[["a dog"], ["two cats"]]])
    assert list(reasons) == ["METEOR"]
    assert why in reasons["METEOR"]
    assert [list(value) for value in values] == [["CIDEr"], ["CIDEr"]]
    # Nothing of a broken conversation is remembered.
    jar = _caption_text.SHA256[_caption_text.METEOR]
    assert tools.cache.get([key("meteor/1", jar, ["a dog"], "a dog")]) == {}


def test_a_jar_that_runs_out_of_memory_gets_more(find: Find, fake: Fake) -> None:
    fake.says(
        f'case "$*" in *-Xmx2G*) {ONES} | head -n 1; exit 1;; *meteor*) {ONES}; exit 0;; esac\n'
        'exec "$real" "$@"'
    )
    tools = find(20)
    assert tools.segments([(("a",), "a"), (("b",), "b"), (("c",), "c")]) == [(1.0,) * 23] * 3


def test_the_cache_spares_java(find: Find, fake: Fake) -> None:
    fake.says(f'case "$*" in *meteor*) {ONES}; exit $?;; esac\nexec "$real" "$@"')
    work = [["a dog", "a cat", "a dog"]], [[["a dog"], ["two cats"], ["a dog"]]]
    first = official(find(20), *work)
    fake.says(VERSION + "exit 9")
    assert official(find(20), *work) == first
    more = official(find(20), [["a bird"]], [[["a dog"]]])
    assert "code 9" in more[1]["METEOR"]


def test_a_broken_cache_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "captions.sqlite"
    path.write_bytes(b"no database at all" * 100)
    cache = CaptionCache(path)
    cache.put({"a": "1"})
    assert cache.get(["a"]) == {}
    assert "removing the file is safe" in caplog.text
    nowhere = CaptionCache(path / "below" / "a.file")
    nowhere.put({"a": "1"})
    assert nowhere.get(["a"]) == {}
    CaptionCache(OFF).put({"a": "1"})
    assert CaptionCache(OFF).get(["a"]) == {}


def test_the_cache_holds_many_and_may_be_locked(tmp_path: Path) -> None:
    cache = CaptionCache(tmp_path / "new" / "captions.sqlite")
    cache.put({key(i): str(i) for i in range(2000)})
    found = cache.get([key(i) for i in range(1500, 2500)])
    assert sorted(map(int, found.values())) == list(range(1500, 2000))
    assert key("a", "b") != key("ab") != key(["a", "b"])
    assert cache.path is not None
    holder = sqlite3.connect(cache.path)
    holder.execute("BEGIN IMMEDIATE")
    assert cache.get([key(3)]) == {key(3): "3"}
    holder.close()


def test_another_jar_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_caption_text.SHA256, _caption_text.METEOR, "0" * 64)
    with pytest.raises(Unavailable, match=r"is not the one of pycocoevalcap 1\.2"):
        CaptionTools.find(20, OFF)
    monkeypatch.setattr(_caption_text, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match="not installed"):
        CaptionTools.find(20, OFF)


def test_a_program_and_its_children_end_with_its_block(fake: Fake) -> None:
    fake.says("sleep 61.5 & sleep 61.5")
    java = Java(str(fake.folder / "java"), 30)
    nothing = subprocess.DEVNULL
    with (
        pytest.raises(RuntimeError, match="enough"),
        java.program([], stdin=nothing, stdout=nothing),
    ):
        raise RuntimeError("enough")
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 61.5" not in left.stdout
