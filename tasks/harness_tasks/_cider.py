"""CIDEr-D, the metric that papers print as "CIDEr".

Source: Vedantam et al., "CIDEr: Consensus-based Image Description Evaluation", CVPR 2015, in the
form of pycocoevalcap 1.2: n = 1 to 4, sigma 6, a scale of 0 to 10, and the quirk that the length
in the Gaussian penalty is the number of bigrams.

Letters: P (image, reference) pairs, C captions, T tokens or n-grams of all captions in a row.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_ORDERS = 4
_SIGMA = 6.0

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def cider(candidates: Sequence[str], references: Sequence[Sequence[str]]) -> list[float]:
    """CIDEr-D of each image, 0 to 10. Captions are tokens joined by white space.

    Document frequencies are those of ``references``: the value of one image depends on all images,
    and with a single image it is 0. Resampling the values of a run keeps its frequencies.
    """
    if not candidates:
        return []
    counts = [len(captions) for captions in references]
    captions = [*candidates, *(caption for of_image in references for caption in of_image)]
    image_P = np.repeat(np.arange(len(candidates)), counts)
    reference_P = len(candidates) + np.arange(image_P.size)
    owner_C = np.concatenate([np.full(len(candidates), -1), image_P])  # -1: no reference
    grams = _grams([caption.split() for caption in captions])
    bigrams_C = np.bincount(grams[1][0], minlength=len(captions)).astype(np.float64)
    difference_P = bigrams_C[image_P] - bigrams_C[reference_P]
    total_P = np.zeros(image_P.size)
    for caption_T, gram_T in grams:
        total_P += _cosine(caption_T, gram_T, owner_C, image_P, reference_P)
    total_P *= np.exp(-(difference_P**2) / (2 * _SIGMA**2)) * 10 / _ORDERS
    sums = np.bincount(image_P, total_P, minlength=len(candidates))
    return list(map(float, sums / np.maximum(counts, 1)))


def _grams(words: Sequence[Sequence[str]]) -> list[tuple[Ints, Ints]]:
    """For n = 1 to 4: the caption of each n-gram, and the number that stands for the n-gram."""
    numbers: dict[str, int] = {}
    flat = [numbers.setdefault(word, len(numbers)) for caption in words for word in caption]
    gram_T = token_T = np.array(flat, np.int64)
    caption_T = np.repeat(np.arange(len(words)), [len(caption) for caption in words])
    found = [(caption_T, token_T)]
    for n in range(1, _ORDERS):
        # An n-gram is an (n-1)-gram and the token after it, if that is of the same caption.
        last = max(token_T.size - n, 0)
        whole_T = caption_T[:last] == caption_T[n:]
        pairs_T = gram_T[:last] * (len(numbers) + 1) + token_T[n:]
        _, gram_T = np.unique(pairs_T, return_inverse=True)
        found.append((caption_T[:last][whole_T], gram_T[whole_T]))
    return found


def _cosine(
    caption_T: Ints, gram_T: Ints, owner_C: Ints, image_P: Ints, reference_P: Ints
) -> Floats:
    """The clipped tf-idf cosine of each (candidate, reference) pair for one order of n-grams."""
    kinds = int(gram_T.max(initial=0)) + 1
    key_T, tf_T = np.unique(caption_T * kinds + gram_T, return_counts=True)
    caption_T, gram_T = np.divmod(key_T, kinds)
    owner_T, images = owner_C[caption_T], int((owner_C < 0).sum())
    of_references = owner_T >= 0
    in_image = owner_T[of_references] * kinds + gram_T[of_references]
    if np.unique(image_P).size < image_P.size:  # a picture with several references counts once
        in_image = np.unique(in_image)
    frequency = np.bincount(in_image % kinds, minlength=kinds)
    weight_T = tf_T * (np.log(images) - np.log(np.maximum(frequency, 1.0)))[gram_T]
    norm_C = np.sqrt(np.bincount(caption_T, weight_T**2, minlength=owner_C.size))
    # Every n-gram of a reference, looked up in the candidate of its image.
    pair_T, mine_T = (caption_T - images)[of_references], weight_T[of_references]
    wanted_T = owner_T[of_references] * kinds + gram_T[of_references]
    place_T = np.minimum(np.searchsorted(key_T, wanted_T), key_T.size - 1)
    theirs_T = np.where(key_T[place_T] == wanted_T, weight_T[place_T], 0.0)
    dot_P = np.bincount(pair_T, np.minimum(mine_T, theirs_T) * mine_T, minlength=image_P.size)
    norm_P = norm_C[image_P] * norm_C[reference_P]
    cosine_P: Floats = np.divide(dot_P, norm_P, out=np.zeros(norm_P.size), where=norm_P > 0)
    return cosine_P
