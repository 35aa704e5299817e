"""Makes a random Qwen3-VL checkpoint of 0.7 M parameters: ``python tiny_qwen3vl.py FOLDER``.

It knows nothing, but it is the real architecture with its real processors, so a real server loads
it. Nothing is downloaded; the same weights come out each time.
"""

import sys
from pathlib import Path
from typing import Any

EOS, PAD, IMAGE, VIDEO = "<|im_end|>", "<|endoftext|>", "<|image_pad|>", "<|video_pad|>"
SPECIALS = [PAD, "<|im_start|>", EOS, "<|vision_start|>", "<|vision_end|>", IMAGE, VIDEO]

CORPUS = [
    "Describe the region in the image: a red square at [100, 200, 300, 400] on a blue background.",
    "Where is the small dog that lies beside the fox? Answer yes, no, or null.",
]

TEMPLATE = """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'text' %}{{ part.text }}\
{% elif 'video' in part.type %}<|vision_start|><|video_pad|><|vision_end|>\
{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}\
{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def make(folder: Path) -> None:
    """Writes weights, tokenizer and processor into ``folder``."""
    tokenizer = _tokenizer()
    model = _model({token: tokenizer.convert_tokens_to_ids(token) for token in SPECIALS})
    model.save_pretrained(folder)
    _processor(tokenizer).save_pretrained(folder)


def _transformers() -> Any:
    """The package, untyped: its own annotations do not hold together."""
    import transformers

    return transformers


def _tokenizer() -> Any:
    """A byte-level BPE of at most 400 tokens, with the special tokens that Qwen3-VL looks for."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    hf = _transformers()
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIALS, initial_alphabet=alphabet
    )
    bpe.train_from_iterator(CORPUS * 20, trainer)
    tokenizer = hf.PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=EOS,
        pad_token=PAD,
        additional_special_tokens=[token for token in SPECIALS if token not in (EOS, PAD)],
    )
    tokenizer.chat_template = TEMPLATE
    for role in ("image", "video"):
        setattr(tokenizer, f"{role}_token", f"<|{role}_pad|>")
    for role in ("start", "end"):
        setattr(tokenizer, f"vision_{role}_token", f"<|vision_{role}|>")
    return tokenizer


def _model(ids: dict[str, int]) -> Any:
    import torch

    hf = _transformers()
    text = dict(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=16384,
        rope_theta=10000.0,
        tie_word_embeddings=True,
        rope_scaling={
            "rope_type": "default",
            "mrope_section": [6, 5, 5],
            "mrope_interleaved": True,
        },
        bos_token_id=ids[PAD],
        eos_token_id=ids[EOS],
        pad_token_id=ids[PAD],
    )
    vision = dict(
        depth=3,
        hidden_size=64,
        intermediate_size=128,
        num_heads=2,
        out_hidden_size=64,
        patch_size=16,
        spatial_merge_size=2,
        temporal_patch_size=2,
        num_position_embeddings=256,
        deepstack_visual_indexes=[0, 1],
    )
    config = hf.Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=True,
        image_token_id=ids[IMAGE],
        video_token_id=ids[VIDEO],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
    )
    torch.manual_seed(0)
    model = hf.Qwen3VLForConditionalGeneration(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.3)  # so wide that replies depend on picture and question
    model.generation_config.eos_token_id = ids[EOS]
    model.generation_config.pad_token_id = ids[PAD]
    return model.to(torch.bfloat16)


def _processor(tokenizer: Any) -> Any:
    hf = _transformers()
    grid = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    area = {"shortest_edge": 32 * 32, "longest_edge": 256 * 256}  # at most 64 tokens a picture
    return hf.Qwen3VLProcessor(
        image_processor=hf.Qwen2VLImageProcessor(size=area, **grid),
        tokenizer=tokenizer,
        video_processor=hf.Qwen3VLVideoProcessor(**grid),
        chat_template=TEMPLATE,
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]))
