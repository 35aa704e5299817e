"""The batched forward equals the stock one: pictures, positions, logits."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from harness_models._qwen3vl import network as batched  # noqa: E402

PICTURE = 6
GRIDS = [(4, 6), (8, 4), (2, 2)]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """A random Qwen3-VL whose every part matters to the output."""
    text = dict(
        vocab_size=40, hidden_size=48, intermediate_size=64, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
        rope_scaling={"rope_type": "default", "mrope_section": [4, 2, 2],
                      "mrope_interleaved": True},
    )  # fmt: skip
    vision = dict(
        depth=3, hidden_size=32, intermediate_size=48, num_heads=2, out_hidden_size=48,
        patch_size=8, spatial_merge_size=2, temporal_patch_size=2, num_position_embeddings=36,
        deepstack_visual_indexes=[0, 1],
    )  # fmt: skip
    config = transformers.Qwen3VLConfig(
        text_config=text, vision_config=vision, image_token_id=PICTURE, video_token_id=7,
        vision_start_token_id=4, vision_end_token_id=5, tie_word_embeddings=True,
    )  # fmt: skip
    torch.manual_seed(0)
    network = transformers.Qwen3VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.2)
    return network


def row(*grids: tuple[int, int], tail: int = 5) -> list[int]:
    ids = [1, 2]
    for rows, columns in grids:
        ids += [4, *[PICTURE] * (rows * columns // 4), 5, 9]
    return [*ids, *range(10, 10 + tail)]


@pytest.mark.parametrize("grid", GRIDS)
def test_pictures_are_encoded_as_the_stock_tower_does(tiny: Any, grid: tuple[int, int]) -> None:
    count = grid[0] * grid[1]
    patches = torch.randn(3, count, 3 * 2 * 8 * 8)
    mine = batched.encode_pictures(tiny, patches, grid)
    grids = torch.tensor([[1, *grid]] * 3)
    stock = tiny.model.visual(patches.flatten(0, 1), grid_thw=grids)
    torch.testing.assert_close(mine.merged, stock.pooler_output, rtol=1e-4, atol=1e-5)
    for one, other in zip(mine.deepstack, stock.deepstack_features, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("grids", [[], [(4, 6)], [(4, 6), (8, 4)], [(2, 2), (2, 2), (4, 6)]])
def test_positions_are_those_of_the_stock_model(tiny: Any, grids: list[tuple[int, int]]) -> None:
    ids = row(*grids)
    kinds = torch.tensor([[int(i == PICTURE) for i in ids]])
    stock, _ = tiny.model.get_rope_index(
        torch.tensor([ids]), kinds, torch.tensor([[1, *g] for g in grids]) if grids else None
    )
    merged = [(rows // 2, columns // 2) for rows, columns in grids]
    np.testing.assert_array_equal(batched.rope_positions(ids, PICTURE, merged), stock[:, 0])


def test_logits_equal_the_stock_forward_in_a_padded_batch(tiny: Any) -> None:
    rows = [row((4, 6)), row((8, 4), (4, 6), tail=9), row((4, 6), tail=2)]
    pictures = {0: [0], 1: [1, 0], 2: [0]}
    patches = {g: torch.randn(1, g[0] * g[1], 384) for g in ((4, 6), (8, 4))}
    table = [(4, 6), (8, 4)]
    features = batched.join([batched.encode_pictures(tiny, patches[g], g) for g in table])
    starts = [0, 6]
    length = max(map(len, rows))
    ids = torch.zeros(3, length, dtype=torch.long)
    cells = torch.full((3, length), -1)
    positions = torch.zeros(3, 3, length, dtype=torch.long)
    for i, tokens in enumerate(rows):
        ids[i, : len(tokens)] = torch.tensor(tokens)
        used = [c for p in pictures[i] for c in range(starts[p], starts[p] + [6, 8][p])]
        cells[i, : len(tokens)][ids[i, : len(tokens)] == PICTURE] = torch.tensor(used)
        merged = [(table[p][0] // 2, table[p][1] // 2) for p in pictures[i]]
        positions[:, i, : len(tokens)] = torch.tensor(
            batched.rope_positions(tokens, PICTURE, merged)
        )
    hidden = batched.hidden_states(tiny, ids, positions, cells, features)
    for i, tokens in enumerate(rows):
        stock = tiny(
            input_ids=torch.tensor([tokens]),
            pixel_values=torch.cat([patches[table[p]][0] for p in pictures[i]]),
            image_grid_thw=torch.tensor([[1, *table[p]] for p in pictures[i]]),
            mm_token_type_ids=torch.tensor([[int(t == PICTURE) for t in tokens]]),
        ).logits[0]
        mine = batched.logits_at(tiny, hidden[i, : len(tokens)])
        torch.testing.assert_close(mine, stock, rtol=1e-3, atol=1e-4)
