"""A word-level tokenizer with Qwen's chat, vision and mask tokens, for a model of a small world.

Lower case, one token a word; what is not in the vocabulary is ``<unk>``. Words of mask tokens come
back without spaces, punctuation without a space before it.
"""

import importlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

UNKNOWN, PAD, END = "<unk>", "<|endoftext|>", "<|im_end|>"
PICTURE, VIDEO = "<|image_pad|>", "<|video_pad|>"
SPECIAL = (
    PAD, "<|im_start|>", END, "<|object_ref_start|>", "<|object_ref_end|>", "<|vision_start|>",
    "<|vision_end|>", PICTURE, VIDEO,
)  # fmt: skip
LETTERS = ("A", "B", "C", "D", "E", "F")
"""Names of choices; they keep their case, unlike the article."""

CHAT_TEMPLATE = """\
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.content is string %}{{ message.content }}{% else %}{% for part in message.content %}\
{% if part.type == 'text' %}{{ part.text }}\
{% elif 'video' in part.type %}<|vision_start|><|video_pad|><|vision_end|>\
{% else %}<|vision_start|><|image_pad|><|vision_end|>{% endif %}\
{% endfor %}{% endif %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

_WORD = re.compile(r"\w+|[^\w\s]")
_TOKEN = re.compile(r"<\|[a-z_0-9]+\|>")


def words_of(texts: Iterable[str]) -> set[str]:
    """The words and punctuation marks of texts, as the tokenizer cuts them."""
    return {
        word
        for text in texts
        for word in _WORD.findall(_TOKEN.sub(" ", text).lower().replace("_", " _ "))
    }


def make_tokenizer(words: Iterable[str], mask_tokens: Sequence[str]) -> Any:
    """A ``PreTrainedTokenizerFast`` that knows these words (sorted) and mask tokens."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

    hf: Any = importlib.import_module("transformers")
    known = [UNKNOWN, *SPECIAL, *LETTERS, *mask_tokens]
    plain = sorted({*words, "user", "assistant", "system"} - set(known))
    vocabulary = {word: index for index, word in enumerate([*known, *plain])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("isolated")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.WordPiece(prefix="##", cleanup=True), decoders.Replace(" <|", "<|")]
    )
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in SPECIAL])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in mask_tokens])
    tokenizer.add_tokens([AddedToken(t, normalized=False, single_word=True) for t in LETTERS])
    wrapped = hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        unk_token=UNKNOWN,
        additional_special_tokens=[token for token in SPECIAL if token not in (PAD, END)],
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped
