"""The two Java programs of the caption metrics, called directly: PTB tokens and METEOR statistics.

Both come with pycocoevalcap 1.2 (their hashes are checked): ``PTBTokenizer -preserveLines
-lowerCase`` and ``meteor-1.5.jar -stdio -l en -norm``. Differences to that package's own callers,
none of which changes a number on clean text:

- characters that would end a line are replaced by a space, and the lines that come back are
  counted (there, every later caption silently gets the tokens of its neighbour);
- a program that fails, is silent or says too little makes the metric unavailable, with the reason
  (there, all captions become empty, or the caller hangs);
- requests to METEOR are sent without waiting for the reply to the one before, equal ones once,
  known ones never (see _caption_cache).
"""

import hashlib
import json
import math
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from subprocess import DEVNULL, PIPE

from . import _caption_cache
from ._java import Died, Java, Unavailable
from ._meteor import STATISTICS

TOKENIZER = Path("tokenizer") / "stanford-corenlp-3.4.1.jar"
METEOR = Path("meteor") / "meteor-1.5.jar"
SHA256 = {
    TOKENIZER: "2fcb91bb7a111f93d71e264f4ee0e3afd19ba0dde6d21b38605088df9e940399",
    METEOR: "1e57b4c72c0830ebe68558f1c799a624e96cbc1b6045c9f6330e26dcff6eafc2",
}
DROPPED = frozenset(
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-",
     ".", "?", "!", ",", ":", "-", "--", "...", ";"]
)  # fmt: skip
"""Tokens that do not count. Compared as they are: a bracket arrives in lower case and is kept."""

LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_TO_SPACE = str.maketrans(dict.fromkeys(LINE_ENDS, " "))
_SECONDS_PER_LINE = 0.05  # on top of the time-out, for the tokenizer, which answers all at once
_AT_ONCE = 2  # tokenizers; more were not faster on two cores
_HEAPS = ("2G", "8G")  # METEOR's usual heap, and the one for captions of many thousand words

References = tuple[str, ...]
Segment = tuple[References, str]
"""The references of a picture and its candidate, tokens joined by spaces."""

Statistics = tuple[float, ...]


def one_line(text: str) -> str:
    """The text with a space for each character that ends a line somewhere, fit for UTF-8."""
    return text.translate(_TO_SPACE).encode("utf-8", "replace").decode("utf-8")


def ends_lines(text: str) -> bool:
    """Whether the text holds a character, newline apart, that would shift the tokens of others."""
    return one_line(text) != text.replace("\n", " ")


@dataclass(frozen=True)
class CaptionTools:
    """Both programs, ready to be called."""

    java: Java
    folder: Path
    cache: _caption_cache.CaptionCache

    @classmethod
    def find(cls, timeout: float, cache: Path) -> "CaptionTools":
        """The tools of this machine; raises Unavailable with the reason if one is missing."""
        spec = find_spec("pycocoevalcap")
        places = list(spec.submodule_search_locations or ()) if spec else []
        if not places:
            raise Unavailable("pycocoevalcap is not installed (pip install pycocoevalcap==1.2)")
        folder = Path(places[0])
        for jar, expected in SHA256.items():
            try:
                found = hashlib.sha256((folder / jar).read_bytes()).hexdigest()
            except OSError as error:
                raise Unavailable(f"{jar.name} of pycocoevalcap cannot be read ({error})") from None
            if found != expected:
                raise Unavailable(f"{jar.name} is not the one of pycocoevalcap 1.2; install that")
        return cls(Java.find(timeout), folder, _caption_cache.CaptionCache(cache))

    def tokenize(self, blocks: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tokens of each caption, joined by spaces, without punctuation; "" for none.

        A block is what the public scorers hand over at once: how a caption ends can depend on the
        line after it, and on there being none, so each block gets a start of Java of its own (they
        run side by side) and is remembered as a whole. Raises Unavailable.
        """
        blocks = [[one_line(caption) for caption in block] for block in blocks]
        keys = [_caption_cache.key("ptb/1", SHA256[TOKENIZER], block) for block in blocks]
        known = self.cache.get(keys)
        todo = {k: block for k, block in zip(keys, blocks, strict=True) if k not in known}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            new = dict(
                zip(todo, map(json.dumps, pool.map(self._tokens, todo.values())), strict=True)
            )
        self.cache.put(new)
        known |= new
        return [json.loads(known[key]) for key in keys]

    def _tokens(self, captions: Sequence[str]) -> list[str]:
        """The tokens of each caption of a block."""
        with tempfile.NamedTemporaryFile(suffix=".txt") as file, tempfile.TemporaryFile() as out:
            file.write("\n".join(captions).encode("utf-8"))
            file.flush()
            arguments = (
                "-cp", self.folder / TOKENIZER, "edu.stanford.nlp.process.PTBTokenizer",
                "-preserveLines", "-lowerCase", file.name,
            )  # fmt: skip
            patient = Java(self.java.path, self.java.timeout + len(captions) * _SECONDS_PER_LINE)
            with patient.program(arguments, stdin=DEVNULL, stdout=out) as program:
                program.wait()
            out.seek(0)
            lines = out.read().decode("utf-8", "replace").split("\n")
        if len(lines) != len(captions):
            raise Unavailable(
                f"the PTB tokenizer gave {len(lines)} lines for {len(captions)} captions"
            )
        return [_without_punctuation(line) for line in lines]

    def segments(self, segments: Sequence[Segment]) -> list[Statistics]:
        """METEOR's statistics (``_meteor.STATISTICS``) of each segment; raises Unavailable."""
        keys = [_caption_cache.key("meteor/1", SHA256[METEOR], *segment) for segment in segments]
        known = self.cache.get(list(dict.fromkeys(keys)))
        todo = {key: segment for key, segment in zip(keys, segments, strict=True)}
        todo = {key: segment for key, segment in todo.items() if key not in known}
        if todo:
            new = dict(zip(todo, self._score(list(todo.values())), strict=True))
            self.cache.put(new)
            known |= new
        return [tuple(map(float, known[key].split())) for key in keys]

    def _score(self, segments: Sequence[Segment]) -> list[str]:
        """The jar's line for each segment; raises Unavailable unless there is one for each.

        A jar that dies (of a caption of many thousand words, for want of memory) is started once
        more, with more memory, for what is left.
        """
        lines: list[str] = []
        for heap in _HEAPS:
            try:
                self._score_once(segments[len(lines) :], lines, heap)
            except Died as error:
                if len(lines) == len(segments):
                    break
                died = (
                    f"METEOR's jar failed at segment {len(lines) + 1} of {len(segments)}: {error}"
                )
            else:
                break
        else:
            raise Unavailable(died)
        if len(lines) != len(segments):
            raise Unavailable(f"METEOR gave {len(lines)} lines for {len(segments)} segments")
        return lines

    def _score_once(self, segments: Sequence[Segment], lines: list[str], heap: str) -> None:
        """Appends the jar's lines as they come, to know how far it got when it dies."""
        arguments = (
            f"-Xmx{heap}", "-jar", self.folder / METEOR, "-", "-", "-stdio", "-l", "en", "-norm",
        )  # fmt: skip
        with self.java.program(arguments, stdin=PIPE, stdout=PIPE) as program:
            program.feed("".join(map(_request, segments)).encode("utf-8"))
            for line in program.lines():
                if not _is_statistics(line):
                    raise Unavailable(f"METEOR said {line!r:.200} instead of its statistics")
                lines.append(line)


def _request(segment: Segment) -> str:
    references, candidate = segment
    candidate = candidate.replace("|||", "").replace("  ", " ")
    return " ||| ".join(("SCORE", *references, candidate)) + "\n"


def _is_statistics(line: str) -> bool:
    try:
        numbers = list(map(float, line.split()))
    except ValueError:
        return False
    return len(numbers) == len(STATISTICS) and all(0 <= n < math.inf for n in numbers)


def _without_punctuation(line: str) -> str:
    return " ".join(word for word in line.rstrip().split(" ") if word not in DROPPED)
