"""The toy world's language: a query and its text are the same thing; facts of looser texts."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from harness_toyworld.facts import facts
from harness_toyworld.language import VOCABULARY, Query, parse, write
from harness_toyworld.scene import (
    BANDS,
    COLORS,
    MATERIALS,
    PARTS,
    RELATIONS,
    SHAPES,
    SIDES,
    SIZES,
    TEXTURES,
    VSIDES,
)

HEAD: dict[str, SearchStrategy[Any]] = {
    field: st.sampled_from(("", *values))
    for field, values in (
        ("size", SIZES),
        ("texture", TEXTURES),
        ("material", MATERIALS),
        ("color", COLORS),
        ("shape", SHAPES),
    )
}


@st.composite
def objects(draw: st.DrawFn) -> Query:
    fields = {field: draw(values) for field, values in HEAD.items()}
    fields |= {"side": draw(st.sampled_from(("", *SIDES)))}
    fields |= {"vside": draw(st.sampled_from(("", *VSIDES)))}
    if part := draw(st.sampled_from(("", *PARTS))):
        fields |= {"with_part": part, "with_color": draw(st.sampled_from(("", *COLORS)))}
    if relation := draw(st.sampled_from(("", *RELATIONS))):
        fields |= {"relation": relation, "relative": draw(st.builds(Query, **HEAD))}
    return Query(plural=draw(st.booleans()), **fields)


QUERIES = st.one_of(
    objects(),
    st.just(Query(kind="everything")),
    st.builds(Query, kind=st.just("band"), band=st.sampled_from(BANDS)),
    st.builds(Query, kind=st.just("reflection"), owner=objects()),
    st.builds(
        Query,
        kind=st.just("part"),
        part=st.sampled_from(PARTS),
        color=HEAD["color"],
        owner=objects(),
    ),
)
TEXTS = st.lists(st.sampled_from(VOCABULARY), max_size=12).map(" ".join)


@given(QUERIES, st.sampled_from(("a", "the", "")))
def test_a_text_parses_to_the_query_that_made_it(query: Query, article: Any) -> None:
    text = write(query, article)
    assert parse(text) == query
    assert parse(f"  {text.upper()} . ") == query
    assert set(text.split()) <= set(VOCABULARY)


@given(QUERIES)
def test_articles_may_be_left_out(query: Query) -> None:
    words = [word for word in write(query).split() if word not in ("a", "an", "the")]
    assert parse(" ".join(words)) == query


@given(TEXTS)
def test_words_in_any_order_are_a_query_with_a_stable_text_or_none(text: str) -> None:
    query = parse(text)
    if query is not None:
        assert parse(write(query)) == query


@given(QUERIES, st.data())
def test_one_word_out_of_place_is_no_query_or_another_text(
    query: Query, data: st.DataObject
) -> None:
    words = write(query).split()
    at = data.draw(st.integers(0, len(words)))
    broken = " ".join([*words[:at], "unheard", *words[at:]])
    assert parse(broken) is None


LOOSE = st.sampled_from(
    (
        *VOCABULARY, *RELATIONS, "stripes", "tiny", "disc", "it", "its", "no", "not", "without",
        "next to", "but", "corner", "side", "pattern", "background", "is", "and", ".", ",",
    )
)  # fmt: skip


@given(st.lists(LOOSE, max_size=30).map(" ".join))
def test_what_facts_say_of_any_words_is_in_them(text: str) -> None:
    found = facts(text)
    claimed = {v for a in ("color", "material") for v in found.said(a)}
    claimed |= {v for part in PARTS for v in found.said("color", part)} | found.bands
    claimed |= {part for part in PARTS if found.mentions(part)}
    assert claimed <= set(text.split())
    assert all(a in range(len(found.things)) for a, _, _ in found.relations)
    assert bool(found.contradictions) == any(
        len(found.said(attribute, part)) > 1
        for attribute in (*HEAD, "side", "vside")
        for part in ("", *PARTS)
    )


@given(st.text())
def test_any_text_can_be_parsed_and_scanned(text: str) -> None:
    query = parse(text)
    assert query is None or isinstance(query, Query)
    assert facts(text).relations == ()


@pytest.mark.parametrize(
    ("query", "article", "text"),
    [
        (Query(), "a", "a thing"),
        (Query(color="orange"), "a", "an orange thing"),
        (Query(color="orange", size="large"), "a", "a large orange thing"),
        (Query(color="red", shape="circle"), "the", "the red circle"),
        (Query(color="red", shape="circle"), "", "red circle"),
        (Query(color="red", plural=True), "a", "all the red things"),
        (Query(shape="cross", plural=True), "the", "all the crosses"),
        (Query(shape="cross", plural=True), "", "crosses"),
        (Query(with_part="hat", with_color="orange"), "a", "a thing with an orange hat"),
        (Query(side="left", vside="top"), "a", "a thing at the top left"),
        (
            Query(vside="top", relation="left of", relative=Query(shape="ring")),
            "a",
            "a thing at the top left of the ring",
        ),
        (
            Query(
                size="small", texture="striped", material="metal", color="red", shape="ring",
                with_part="rim", with_color="blue", vside="bottom",
                relation="nearest to", relative=Query(size="large", shape="cross"),
            ),
            "a",
            "a small striped metal red ring with a blue rim at the bottom nearest to "
            "the large cross",
        ),
        (
            Query(kind="part", part="core", color="blue", owner=Query(shape="circle")),
            "a",
            "the blue core of the circle",
        ),
        (Query(kind="reflection", owner=Query(shape="ring")), "a", "the reflection of the ring"),
        (Query(kind="band", band="sand"), "a", "the sand"),
        (Query(kind="everything"), "the", "everything"),
    ],
)  # fmt: skip
def test_written_out(query: Query, article: Any, text: str) -> None:
    assert write(query, article) == text
    assert parse(text) == query


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("Red circles.", "all the red circles"),
        ("all red circle", "all the red circles"),
        ("A orange thing", "an orange thing"),
        ("core of a ring", "the core of the ring"),
        ("SKY", "the sky"),
        ("the thing\n left of a red\tcircle .", "a thing left of the red circle"),
    ],
)
def test_looser_spellings_are_understood(text: str, canonical: str) -> None:
    query = parse(text)
    assert query is not None
    assert write(query) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "the", "a red", "red", "a red small circle", "a red red circle",
        "a red blue circle", "a circle and a square", "a circle with", "a circle with a blue",
        "a circle with a blue ring", "a circle at the", "a circle at the left top",
        "a circle at the left with a blue core", "a circle left the square", "a circle left of",
        "a circle left of all the squares", "a circle left of the squares",
        "a circle left of the square at the left", "a circle above the square above the ring",
        "a circle nearest the square", "the core", "the core of", "the large core of the ring",
        "the reflection", "the red reflection of the ring", "everything red", "all the sky",
        "the red sky", "a circle..", "a circle, red", "a circle.a ring",
    ],
)  # fmt: skip
def test_outside_the_grammar_is_no_query(text: str) -> None:
    assert parse(text) is None


def test_predicates_are_counted() -> None:
    # shape; with a core; side; left of ..., that is red and a ring: 1 + 1 + 1 + 1 + 2
    relative = Query(color="red", shape="ring")
    query = Query(
        shape="circle", with_part="core", with_color="blue", side="left",
        relation="left of", relative=relative,
    )  # fmt: skip
    assert query.n_attributes == 6
    assert Query(kind="part", part="core", color="blue", owner=relative).n_attributes == 4
    assert Query(kind="reflection", owner=relative).n_attributes == 3
    assert Query(kind="band", band="sky").n_attributes == 1
    assert Query(kind="everything").n_attributes == 0
    assert Query(plural=True).n_attributes == 0


def test_the_vocabulary_is_small_plain_words() -> None:
    assert len(VOCABULARY) == len(set(VOCABULARY)) == 56
    assert all(set(word) <= set(string.ascii_lowercase) for word in VOCABULARY)


# --- facts


@given(objects())
def test_facts_of_a_grammatical_text_are_its_predicates(query: Query) -> None:
    found = facts(write(query))
    for attribute in (*HEAD, "side", "vside"):
        value = getattr(query, attribute)
        assert found.said(attribute) == ({value} if value else set())
    for part in PARTS:
        assert found.mentions(part) == (part == query.with_part)
        color = query.with_color if part == query.with_part else ""
        assert found.said("color", part) == ({color} if color else set())
    assert found.names_object
    assert not found.contradictions
    if query.relative is not None:
        relative = {a: value for a in HEAD if (value := getattr(query.relative, a))}
        own = {a: value for a in HEAD if (value := getattr(query, a))}
        assert found.states(own, query.relation, relative)


@pytest.mark.parametrize(
    "text",
    [
        "a red green blue yellow purple orange white black circle",
        "A circle that is red, green, blue, yellow, purple, orange, white and black.",
        "A red circle. A green circle. A blue circle.",
        "a red circle and a blue square",
        "red, green, blue",
        "The circle is red. It is blue.",
        "a red circle with a blue core. The circle is green.",
    ],
)
def test_a_list_of_colors_contradicts_itself(text: str) -> None:
    found = facts(text)
    assert "color" in found.contradictions
    assert len(found.said("color")) > 1


def test_two_colors_of_a_part_contradict_each_other() -> None:
    found = facts("a red circle with a blue core and a green core")
    assert found.contradictions == {"core"}
    assert found.said("color") == {"red"}


@pytest.mark.parametrize(
    ("text", "said", "parts"),
    [
        (
            "The big disc is violet and glossy, with stripes. Its core is blue; the hat is green.",
            {"size": "large", "shape": "circle", "color": "purple", "material": "shiny",
             "texture": "striped"},
            {"core": {"blue"}, "hat": {"green"}},
        ),
        (
            "A white circle with black stripes on a green background.",
            {"color": "white", "shape": "circle", "texture": "striped"},
            {},
        ),
        (
            "A red circle left of a small blue square. The square is dotted. It is metallic.",
            {"color": "red", "shape": "circle", "material": "metal"},
            {},
        ),
        ("A ring, on the blue water", {"shape": "ring"}, {}),
        ("A ring in the top left corner", {"shape": "ring", "side": "left", "vside": "top"}, {}),
        ("A ring at the left of the image.", {"shape": "ring", "side": "left"}, {}),
        ("A ring to the left of a red cross.", {"shape": "ring"}, {}),
        ("A large ring with a hat on top.", {"shape": "ring", "size": "large"}, {"hat": set()}),
        ("It has a dotted pattern and a red rim.", {"texture": "dotted"}, {"rim": {"red"}}),
        (
            "A circle that is not red but blue, without a core and with no stripes.",
            {"shape": "circle", "color": "blue"},
            {},
        ),
        ("", {}, {}),
        ("Ein roter Kreis", {}, {}),
    ],
)  # fmt: skip
def test_free_text(text: str, said: dict[str, str], parts: dict[str, set[str]]) -> None:
    found = facts(text)
    attributes = (*HEAD, "side", "vside")
    assert {a: set(v) for a in attributes if (v := found.said(a))} == {
        a: {value} for a, value in said.items()
    }
    assert {p: set(found.said("color", p)) for p in PARTS if found.mentions(p)} == parts


def test_relations_hold_in_both_directions() -> None:
    found = facts("There is a red circle. It is to the left of a large blue square on the sand.")
    circle, square = {"shape": "circle", "color": "red"}, {"shape": "square"}
    assert found.states(circle, "left of", square)
    assert found.states(square, "right of", circle)
    assert not found.states(square, "left of", circle)
    assert not found.states(circle, "above", square)
    assert not found.states(circle, "left of", {"shape": "ring"})
    assert not found.states({"shape": "circle", "texture": "plain"}, "left of", square)
    assert found.bands == {"sand"}
    assert not found.reflection


def test_a_list_of_directions_contradicts_itself() -> None:
    circle, square = {"shape": "circle"}, {"shape": "square"}
    both = facts("a circle left of a square. The circle is above the square.")
    assert not both.states(circle, "left of", square)
    turned = facts("a circle left of a square. The square is left of the circle.")
    assert not turned.states(circle, "left of", square)
    twice = facts("a circle left of a square. The square is right of the circle.")
    assert twice.states(circle, "left of", square)
    nearest = facts("a circle left of a square. The circle is nearest to the square.")
    assert nearest.states(circle, "left of", square)
    assert nearest.states(circle, "nearest to", square)


def test_what_is_no_relation_of_the_world_states_none() -> None:
    found = facts("a red circle next to a blue square, not left of a ring")
    assert found.relations == ()
    assert found.said("color") == {"red"}
    assert not found.contradictions


def test_a_text_without_a_noun_names_no_object() -> None:
    assert not facts("red and striped, with a core").names_object
    assert facts("the red thing").names_object
    assert facts("the reflection of the red thing").reflection
