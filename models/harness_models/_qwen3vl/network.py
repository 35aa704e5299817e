"""The forward pass of Qwen3-VL over the modules of transformers, for training and many pictures.

The stock forward runs one attention call a picture and layer and rebuilds positions sample by
sample, so small pictures are bound by kernel launches, and a picture is encoded once for each of
its texts. Here pictures of one grid are one batch, each is encoded once for all its texts, and
every shape is known beforehand (which ``torch.compile`` needs). Weights and numbers are those of
the stock modules (``tests/unit/test_qwen3vl_network.py`` holds them equal).

Letters: P pictures, N patches of one, n = N / merge^2 picture tokens of one, B rows, L tokens of a
row, C width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

Grid = tuple[int, int]
"""(rows, columns) of patches."""

VISION_THETA = 10000.0


@dataclass(frozen=True)
class Features:
    """What the language model is given of pictures: (V, C) each, one row a picture token."""

    merged: torch.Tensor
    deepstack: tuple[torch.Tensor, ...]
    """Added to the hidden states after the first, second ... decoder layer."""


def encode_pictures(network: Any, patches_PND: torch.Tensor, grid: Grid) -> Features:
    """The features of pictures of one grid, picture after picture (V = P * n).

    ``patches_PND`` is what the image processor gives for each, in its own order of patches.
    """
    tower = network.model.visual
    config = tower.config
    pictures, count, _ = patches_PND.shape
    heads = config.num_heads
    hidden = tower.patch_embed(patches_PND.flatten(0, 1)).view(pictures, count, -1)
    taps, shares, angles = _tables(
        grid,
        config.spatial_merge_size,
        tower.pos_embed.num_embeddings,
        config.hidden_size // heads,
        str(hidden.device),
    )
    places = (tower.pos_embed(taps) * shares[..., None]).sum(1)
    hidden = hidden + places.to(hidden.dtype)
    deep = []
    for layer, block in enumerate(tower.blocks):
        hidden = hidden + _vision_attention(block.attn, block.norm1(hidden), angles, heads)
        hidden = hidden + block.mlp(block.norm2(hidden))
        if layer in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(layer)]
            deep.append(merger(hidden.flatten(0, 1)))
    return Features(tower.merger(hidden.flatten(0, 1)), tuple(deep))


def join(parts: Sequence[Features]) -> Features:
    """Features of several grids in one table."""
    if len(parts) == 1:
        return parts[0]
    return Features(
        torch.cat([part.merged for part in parts]),
        tuple(torch.cat(levels) for levels in zip(*(p.deepstack for p in parts), strict=True)),
    )


def hidden_states(
    network: Any,
    ids_BL: torch.Tensor,
    positions_3BL: torch.Tensor,
    cells_BL: torch.Tensor,
    features: Features,
) -> torch.Tensor:
    """The last hidden states (B, L, C) of rows that are padded on the right.

    ``cells_BL`` names the row of ``features`` that stands at a position, -1 for text.
    """
    model = network.model.language_model
    hidden = model.embed_tokens(ids_BL)
    is_picture = (cells_BL >= 0)[..., None]
    cells = cells_BL.clamp(min=0)
    hidden = torch.where(is_picture, features.merged[cells].to(hidden.dtype), hidden)
    rotation = model.rotary_emb(hidden, positions_3BL)
    for index, layer in enumerate(model.layers):
        out = layer(hidden, attention_mask=None, position_embeddings=rotation)
        hidden = out[0] if isinstance(out, tuple) else out
        if index < len(features.deepstack):
            deep = features.deepstack[index][cells].to(hidden.dtype)
            hidden = hidden + torch.where(is_picture, deep, torch.zeros_like(deep))
    states: torch.Tensor = model.norm(hidden)
    return states


def logits_at(network: Any, hidden_MC: torch.Tensor) -> torch.Tensor:
    """The logits (M, vocabulary) of chosen positions."""
    logits: torch.Tensor = network.lm_head(hidden_MC)
    return logits


def rope_positions(
    ids: Sequence[int], picture_token: int, grids: Sequence[Grid]
) -> NDArray[np.int64]:
    """The positions (3, L) on the axes time, row, column; ``grids`` in picture tokens, in order.

    Text counts up on all axes; a picture spreads over its rows and columns, and what follows starts
    after its longer side.
    """
    tokens = np.asarray(ids)
    positions = np.empty((3, len(tokens)), np.int64)
    place = at = 0
    pictures = iter(grids)
    while at < len(tokens):
        if tokens[at] == picture_token:
            rows, columns = next(pictures)
            end = at + rows * columns
            positions[0, at:end] = place
            positions[1, at:end] = place + np.repeat(np.arange(rows), columns)
            positions[2, at:end] = place + np.tile(np.arange(columns), rows)
            place += max(rows, columns)
        else:
            ahead = np.flatnonzero(tokens[at:] == picture_token)
            end = at + int(ahead[0]) if len(ahead) else len(tokens)
            positions[:, at:end] = place + np.arange(end - at)
            place += end - at
        at = end
    return positions


def _vision_attention(
    attention: Any, hidden_PNC: torch.Tensor, angles: torch.Tensor, heads: int
) -> torch.Tensor:
    """Attention within each picture, all pictures in one call."""
    pictures, count, _ = hidden_PNC.shape
    mixed = attention.qkv(hidden_PNC).view(pictures, count, 3, heads, -1)
    query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
    cos, sin = angles.cos(), angles.sin()
    out = functional.scaled_dot_product_attention(
        _rotated(query, cos, sin), _rotated(key, cos, sin), value
    )
    projected: torch.Tensor = attention.proj(out.transpose(1, 2).reshape(pictures, count, -1))
    return projected


def _rotated(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    exact = states.float()
    first, second = exact.chunk(2, dim=-1)
    return (exact * cos + torch.cat((-second, first), dim=-1) * sin).to(states.dtype)


@lru_cache(maxsize=64)
def _tables(
    grid: Grid, merge: int, table: int, head: int, device: str
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """For each patch: the 4 learned positions around it (N, 4), their shares, its angles (N, D)."""
    row, column = _patch_places(grid, merge)
    side = round(table**0.5)
    low_r, high_r, part_r = _between(row, grid[0], side)
    low_c, high_c, part_c = _between(column, grid[1], side)
    taps = np.stack(
        [low_r * side + low_c, low_r * side + high_c, high_r * side + low_c, high_r * side + high_c]
    )
    shares = np.stack(
        [(1 - part_r) * (1 - part_c), (1 - part_r) * part_c, part_r * (1 - part_c), part_r * part_c]
    )
    quarter = head // 2
    frequency = VISION_THETA ** -(np.arange(0, quarter, 2) / quarter)
    half = np.concatenate([np.outer(row, frequency), np.outer(column, frequency)], axis=1)
    angles = np.concatenate([half, half], axis=1)
    return (
        torch.tensor(taps.T, dtype=torch.long, device=device),
        torch.tensor(shares.T, dtype=torch.float32, device=device),
        torch.tensor(angles, dtype=torch.float32, device=device),
    )


def _patch_places(grid: Grid, merge: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(row, column) of each patch; those that are merged into one token follow each other."""
    rows, columns = np.indices(grid)
    blocks = [
        axis.reshape(grid[0] // merge, merge, grid[1] // merge, merge).transpose(0, 2, 1, 3)
        for axis in (rows, columns)
    ]
    return blocks[0].ravel(), blocks[1].ravel()


def _between(
    place: NDArray[np.int64], count: int, side: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Where a patch lies on a learned axis of ``side``: entry below, entry above, share of it."""
    exact = place * ((side - 1) / (count - 1)) if count > 1 else place * 0.0
    low = np.minimum(np.floor(exact).astype(np.int64), side - 1)
    return low, np.minimum(low + 1, side - 1), exact - low
