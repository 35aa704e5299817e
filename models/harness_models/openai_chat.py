"""Any OpenAI-compatible chat endpoint that sees pictures: a hosted model, vLLM, SGLang, llama.cpp.

Needs ``pip install 'region-harness[openai]'``. A vLLM server on this machine is asked with
``--model openai-chat --set model.model=NAME --set model.base_url=http://localhost:8000/v1``.
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from harness import views
from harness.chat.client import ChatClient, NoAnswer
from harness.chat.pictures import Encoded, Pictures, data_url
from harness.chat.wire import Answer
from harness.codec import Codec, codec_stamp, instruction_for, read_reply, write_regions
from harness.errors import ConfigError, DataError
from harness.model import ModelAdapter
from harness.registry import CodecChoice, build_codec, codec_name
from harness.types import Prediction, Request, Zoom

PROMPT_FORMAT = "2"
"""Raise it whenever the same request would be sent in other words, another order, other pixels."""


@dataclass(frozen=True)
class OpenAIChat(ChatClient, ModelAdapter):
    instruction: str | None = None
    """Ends prompts whose replies hold regions. Default: the codec's, if they hold nothing else."""
    codec: CodecChoice = "boxes"
    """How regions are written and read."""
    max_new_tokens: int | None = None
    """The longest reply; by default what the task asks for."""
    keep_special_tokens: bool = False
    """Sends ``skip_special_tokens: false`` (vLLM, SGLang): mask tokens may be special tokens."""

    chunk_size: ClassVar[int] = 512

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_new_tokens is not None and self.max_new_tokens < 1:
            raise ConfigError(f"model.max_new_tokens must be at least 1, not {self.max_new_tokens}")

    @property
    def name(self) -> str:
        return f"openai-chat:{self.model}"

    def fingerprint(self) -> Mapping[str, str]:
        """All that can change an answer; neither the key nor credentials in the address."""
        return {
            "adapter": "openai-chat",
            **self.chat_fingerprint(),
            "max_new_tokens": json.dumps(self.max_new_tokens),
            "instruction": "the codec's" if self.instruction is None else repr(self.instruction),
            "codec": json.dumps(self.protocol(False), sort_keys=True, default=str),
            "prompt_format": PROMPT_FORMAT,
        }

    def protocol(self, masks_expected: bool) -> Mapping[str, Any]:
        return codec_stamp(codec_name(self._choice), self._codec, masks_expected)

    def predict(self, requests: Sequence[Request]) -> Iterator[Prediction]:
        """One prediction a request, as the answers arrive; raises ModelError if the server refuses.

        Only a refusal (a wrong key, no such model) before any answer ends the run. Whatever else
        goes wrong with a request is its prediction's error.
        """
        _ = self._codec  # what it lacks must show before threads start
        return self.send_all(requests, self._answer)

    def notes(self, wanted: Set[str], skipped: Set[str]) -> Sequence[str]:
        if not self._codec.vocabulary() or self.keep_special_tokens:
            return ()
        return (
            f"replies are read with {codec_name(self._choice)}, but servers often remove special "
            "tokens; if all are unparsed, set model.keep_special_tokens=true",
        )

    @property
    def _choice(self) -> CodecChoice:
        """The codec option; a table that names none sets options of ``boxes``."""
        return self.codec if isinstance(self.codec, str) else {"name": "boxes", **self.codec}

    @cached_property
    def _codec(self) -> Codec:
        return build_codec(self._choice)

    @cached_property
    def _codec_lock(self) -> threading.Lock:
        """Held while the codec works: a codec with a network in it need not be thread-safe."""
        return threading.Lock()

    @cached_property
    def _pictures(self) -> Pictures:
        return Pictures()

    def _answer(self, request: Request, stop: threading.Event) -> Prediction:
        """The prediction of a request, whatever the server does; raises ModelError if refused."""
        tries = 0
        try:
            picture = self._picture(request)
            request = replace(request, size=picture.size)
            tokens = self.max_new_tokens or request.max_new_tokens
            body = self.body(self._content(request, picture), tokens)
            answer, tries = self.send(body, request.sample_id, stop)
            return self._prediction(request, answer, tries)
        except NoAnswer as error:
            return _failed(request, str(error), error.tries)
        except DataError as error:
            return _failed(request, self._connection.clean(str(error)), tries)

    def _picture(self, request: Request) -> Encoded:
        picture = self._pictures.get(request.image)
        if request.size is not None and request.size != picture.size:
            (height, width), (told_height, told_width) = picture.size, request.size
            raise DataError(
                f"{request.image} is {width}x{height} (width x height), but the data says "
                f"{told_width}x{told_height}; get the benchmark's own pictures"
            )
        return picture

    def _content(self, request: Request, picture: Encoded) -> list[dict[str, Any]]:
        """The parts of the message: the picture first, then the text with its zooms in place."""
        url = picture.url
        if request.paint:
            painted = views.painted(picture.open(), request.regions)
            url = data_url(views.as_png(painted), "image/png")
        parts = [_picture_part(url)]
        for piece in views.pieces(request):
            if isinstance(piece, Zoom):
                cut = views.as_jpeg(views.zoomed(picture.open(), piece))
                parts.append(_picture_part(data_url(cut, "image/jpeg")))
            else:
                parts.append({"type": "text", "text": self._write_regions(piece, request)})
        if instruction := self._instruction(request):
            if parts[-1]["type"] == "text":
                parts[-1] = {"type": "text", "text": f"{parts[-1]['text']}\n{instruction}"}
            else:
                parts.append({"type": "text", "text": instruction})
        return parts

    def _write_regions(self, text: str, request: Request) -> str:
        with self._codec_lock:
            return write_regions(text, request, self._codec)

    def _instruction(self, request: Request) -> str:
        if request.wants not in ("regions", "grounded_text"):
            return ""
        if self.instruction is not None:
            return self.instruction
        return instruction_for(request, self._codec)

    def _extra_body(self) -> dict[str, Any]:
        special = {"skip_special_tokens": False} if self.keep_special_tokens else {}
        return special | super()._extra_body()

    def _prediction(self, request: Request, answer: Answer, tries: int) -> Prediction:
        with self._codec_lock:
            prediction = read_reply(request, answer.text, self._codec, self.usage(answer, tries))
        if answer.finish_reason == "length":
            prediction = replace(prediction, flags=(*prediction.flags, "truncated"))
        return prediction


def _picture_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


def _failed(request: Request, message: str, tries: int) -> Prediction:
    return Prediction(sample_id=request.sample_id, info={"attempts": tries}, error=message)


model = OpenAIChat
