"""An untrained small Qwen3-VL for the toy world: the folder that ``harness train sft`` starts from.

The real architecture at a small size: patches of 8 pixels, a word-level tokenizer with the words of
the world and the tokens of its codec, and that codec beside the weights. Nothing is downloaded; the
same options give the same bytes.
"""

import importlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import registry
from harness.builder import Builder
from harness.errors import ConfigError

from .. import _tokenizer

PICTURES_READ = 2000
"""How many pictures' texts the vocabulary is taken from."""


@dataclass(frozen=True)
class Text:
    """The language model. ``width`` is the hidden size, ``mlp`` the inner size of its layers."""

    width: int = 256
    layers: int = 5
    heads: int = 8
    kv_heads: int = 4
    mlp: int = 640


@dataclass(frozen=True)
class Vision:
    """The vision tower; ``deepstack`` names layers whose output joins early text layers."""

    width: int = 128
    layers: int = 4
    heads: int = 4
    mlp: int = 512
    deepstack: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class ToyStart(Builder):
    source: dict[str, Any] = field(default_factory=lambda: {"name": "toyworld"})
    """The source it will learn from; its texts give the vocabulary."""
    codec: Path | None = None
    """Folder of a trained ``toy-vq`` codec; None is the shipped one."""
    side: int = 128
    """Pictures are resized to about this many pixels squared."""
    text: Text = Text()
    vision: Vision = Vision()
    seed: int = 0

    def build(self, out: Path) -> Mapping[str, Path]:
        """Writes the folder; refuses one that is not empty."""
        if out.exists() and any(out.iterdir()):
            raise ConfigError(f"{out} is not empty; name a new folder with --out")
        codec = registry.build_codec(self._codec_choice())
        tokenizer = _tokenizer.make_tokenizer(self._words(), codec.vocabulary())
        part = out.with_name(out.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        tokenizer.save_pretrained(part)
        _network(self, tokenizer).save_pretrained(part)
        _write_json(part / "processor_config.json", _processor(self.side))
        _write_json(part / "harness.json", {"codec": {"name": "toy-vq", "path": "codec"}})
        shutil.copytree(codec.path, part / "codec")  # type: ignore[attr-defined]  # a ToyVq
        if out.exists():
            out.rmdir()
        part.rename(out)
        return {}

    def _codec_choice(self) -> dict[str, Any]:
        return {"name": "toy-vq"} | ({"path": self.codec} if self.codec else {})

    def _words(self) -> set[str]:
        """Every word that the source's texts and the world's grammar use."""
        from ..language import VOCABULARY

        options = {key: value for key, value in self.source.items() if key != "name"}
        source = registry.sources.build(str(self.source["name"]), options, where="builder.source")
        texts: set[str] = set()
        for index in range(min(PICTURES_READ, len(source))):
            for example in source.examples(index, 0):
                texts |= {example.prompt, example.answer}
        return _tokenizer.words_of([*texts, *VOCABULARY])


def _network(options: ToyStart, tokenizer: Any) -> Any:
    """Random weights, drawn wide enough (1/sqrt(width)) for so narrow a model to learn."""
    import torch

    hf: Any = importlib.import_module("transformers")
    ids = tokenizer.convert_tokens_to_ids
    text, vision = options.text, options.vision
    config = hf.Qwen3VLConfig(
        text_config=dict(
            vocab_size=-(-len(tokenizer) // 16) * 16,
            hidden_size=text.width,
            intermediate_size=text.mlp,
            num_hidden_layers=text.layers,
            num_attention_heads=text.heads,
            num_key_value_heads=text.kv_heads,
            head_dim=32,
            max_position_embeddings=2048,
            rope_theta=10000.0,
            rope_scaling={
                "rope_type": "default",
                "mrope_section": [6, 5, 5],
                "mrope_interleaved": True,
            },
            tie_word_embeddings=True,
            initializer_range=text.width**-0.5,
            bos_token_id=ids(_tokenizer.PAD),
            eos_token_id=ids(_tokenizer.END),
            pad_token_id=ids(_tokenizer.PAD),
        ),
        vision_config=dict(
            depth=vision.layers,
            hidden_size=vision.width,
            intermediate_size=vision.mlp,
            num_heads=vision.heads,
            out_hidden_size=text.width,
            patch_size=8,
            spatial_merge_size=2,
            temporal_patch_size=2,
            num_position_embeddings=(options.side // 8) ** 2,
            deepstack_visual_indexes=list(vision.deepstack),
            initializer_range=vision.width**-0.5,
        ),
        image_token_id=ids(_tokenizer.PICTURE),
        video_token_id=ids(_tokenizer.VIDEO),
        vision_start_token_id=ids("<|vision_start|>"),
        vision_end_token_id=ids("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    torch.manual_seed(options.seed)
    network = hf.Qwen3VLForConditionalGeneration(config)
    network.generation_config = hf.GenerationConfig(
        do_sample=False,
        bos_token_id=ids(_tokenizer.PAD),
        eos_token_id=ids(_tokenizer.END),
        pad_token_id=ids(_tokenizer.PAD),
    )
    return network


def _processor(side: int) -> dict[str, Any]:
    """The processor's file: what Qwen3-VL's own would write for patches of 8 pixels."""
    half = [0.5, 0.5, 0.5]
    shared = {
        "do_convert_rgb": True, "do_normalize": True, "do_rescale": True, "do_resize": True,
        "image_mean": half, "image_std": half, "merge_size": 2, "patch_size": 8, "resample": 3,
        "rescale_factor": 1 / 255, "temporal_patch_size": 2,
        "size": {"shortest_edge": side * side, "longest_edge": side * side},
    }  # fmt: skip
    video = {"do_sample_frames": True, "fps": 2, "min_frames": 4, "max_frames": 768}
    return {
        "processor_class": "Qwen3VLProcessor",
        "image_processor": {"image_processor_type": "Qwen2VLImageProcessor", **shared},
        "video_processor": {"video_processor_type": "Qwen3VLVideoProcessor", **shared, **video},
    }


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


builder = ToyStart
