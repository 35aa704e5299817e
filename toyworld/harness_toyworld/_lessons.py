"""What a model of the toy world is taught: one question about a scene and the answer, drawn.

The prompts are those of the benchmark tasks and of CycleGRPO, so that what is learnt here is asked
there. Regions are named by the number of their entity.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from harness.source import Example

from . import captions, expressions, oracle, questions
from .language import Query, write
from .scene import Entity, Scene

T = TypeVar("T")

VERSION = 1
"""Raise it whenever the same numbers would draw another example."""

NO_TARGET = "null"
MOST_TARGETS = 4
"""How many mask groups an answer has at most."""

GRES = "Please segment {expression} in this image."
GROUNDING = (
    "Please carefully check the image and detect the object this sentence describes: {expression}"
)
CRITIC = (
    "All spatial relationships are defined from the viewer's perspective, where 'front' means "
    "closer to the viewer and 'back' means farther from the viewer. Please provide the "
    "segmentation mask of the object the following statement describes:\n        {expression}\n"
    "        Ensure that all details mentioned about the object are accurate. If a matching object "
    "is found, provide its segmentation mask in the format "
    "`<|mt_start|><|mt_xxxx|><|mt_xxxx|><|mt_end|>`. If no matching object is found, output null."
)
DLC = "Given a detailed description of this region {region}."
DLC_ZOOM = " Zoom in with the perspective as {zoom_0}, {zoom_region_0}."
ACTOR = (
    "Could you please give me a detailed description of the following regions? {region}. Please "
    "respond with interleaved segmentation masks for the corresponding parts of the answer."
)
ACTOR_ZOOM = " Zoom in on {region} with the perspective as {zoom_0}, {zoom_region_0}."
PLAIN = "Could you please give me a detailed description of the following region? {region}."
DETAILED = "Describe {region} in detail."
RELATED = (
    "1. Describe {region} in detail 2. Describe the relationship between {region} and {other}.",
    "Describe {region} in detail, including the relationship with {other}.",
)
BRIEF = (
    "Could you please give me a brief description of the image? Please respond with interleaved "
    "segmentation masks for the corresponding parts of the answer."
)

VAGUE_LEVELS = ((1, 0.55), (2, 0.28), (3, 0.12), (4, 0.05))

Lesson = Callable[[np.random.Generator, Scene], Example | None]


def draw(rng: np.random.Generator, scene: Scene, no_target: float) -> Example:
    """One example; ``no_target`` is the share of expressions that match nothing."""
    kind = _weighed(rng, SHARES)
    if kind == "refer" and rng.random() < no_target:
        return _grounding(rng, expressions.absent(rng, scene), ())
    example = LESSONS[kind](rng, scene)
    return example if example is not None else refer(rng, scene)


def refer(rng: np.random.Generator, scene: Scene) -> Example:
    """An expression, and all that it matches."""
    query = _weighed_query(rng, scene)
    ids = oracle.match(query, scene)
    targets = expressions.reading_order(scene.entities[i] for i in ids)
    return _grounding(rng, query, targets)


def vague(rng: np.random.Generator, scene: Scene) -> Example:
    """A caption that is true, and mostly says one attribute."""
    entity = _region(rng, scene)
    level = _weighed(rng, VAGUE_LEVELS)
    answer = write(expressions.describe(rng, scene, entity, level))
    return _about(_weighed(rng, VAGUE_PROMPTS), entity, answer, "vague")


def detailed(rng: np.random.Generator, scene: Scene) -> Example:
    """A caption that says all."""
    entity = _region(rng, scene)
    return _about(DETAILED, entity, write(expressions.full(scene, entity)), "detailed")


def related(rng: np.random.Generator, scene: Scene) -> Example | None:
    """An object and where it is as seen from another."""
    pairs = [
        (a, relation, b)
        for a in scene.objects
        for b in scene.objects
        if a.id != b.id and (relation := captions.direction(a, b, scene))
    ]
    if not pairs:
        return None
    a, relation, b = pairs[int(rng.integers(len(pairs)))]
    query = replace(captions.noun(a), relation=relation, relative=captions.noun(b))
    wording = RELATED[int(rng.random() < 0.2)]
    prompt = wording.replace("{region}", _mark(a)).replace("{other}", _mark(b))
    return Example(prompt, write(query), kind="related")


def question(rng: np.random.Generator, scene: Scene) -> Example | None:
    """A multiple-choice question about regions, as the task gar-vqa puts it."""
    kind = _weighed(rng, QUESTION_KINDS)
    asked = questions.ask(kind, scene, rng, int(rng.integers(12)))
    if asked is None:
        return None
    options = [f"{letter}. {c}" for letter, c in zip("ABCD", asked.choices, strict=False)]
    text = "\n".join(
        [
            f"Question: {asked.text}",
            "Options:",
            *options,
            "Answer with the correct option's letter directly.",
        ]
    )
    for place, entity in enumerate(asked.regions):
        text = text.replace(f"<Prompt{place}>", f"{{region_{entity}}}")
    return Example(text, asked.letter, kind=kind)


def grounded(rng: np.random.Generator, scene: Scene) -> Example | None:
    """The caption of the scene, each phrase marked and followed by its mask."""
    said = captions.caption(scene)
    if said is None:
        return None
    text, rest = "", said.text[0].lower() + said.text[1:]
    for phrase, entity in said.phrases:
        before, rest = rest.split(phrase, 1)
        text += f"{before}<|object_ref_start|>{phrase}<|object_ref_end|>{{region_{entity}}}"
    return Example(BRIEF, text + rest, kind="grounded")


SHARES = (
    ("refer", 0.5), ("vague", 0.2), ("question", 0.14), ("detailed", 0.06), ("related", 0.04),
    ("grounded", 0.06),
)  # fmt: skip
LESSONS: Mapping[str, Lesson] = {
    "refer": refer, "vague": vague, "question": question, "detailed": detailed,
    "related": related, "grounded": grounded,
}  # fmt: skip
EXPRESSIONS = (
    ("level", 0.38), ("unique", 0.15), ("group", 0.15), ("part", 0.12), ("band", 0.08),
    ("relation", 0.08), ("reflection", 0.04),
)  # fmt: skip
VAGUE_PROMPTS = ((DLC + DLC_ZOOM, 0.4), (DLC, 0.1), (ACTOR, 0.2), (ACTOR + ACTOR_ZOOM, 0.15),
                 (PLAIN, 0.15))  # fmt: skip
GROUNDING_PROMPTS = ((GRES, 0.4), (GROUNDING, 0.4), (CRITIC, 0.2))
QUESTION_KINDS = tuple((kind, 2.0 if kind == "ordering" else 1.0) for kind in questions.KINDS)


def _weighed_query(rng: np.random.Generator, scene: Scene) -> Query:
    """An expression of a kind that the scene has."""
    objects = scene.objects
    entity = objects[int(rng.integers(len(objects)))]
    kind = _weighed(rng, EXPRESSIONS)
    query: Query | None = None
    if kind == "unique":
        query = expressions.unique(rng, scene, entity)
    elif kind == "group":
        query = expressions.group(rng, scene)
    elif kind == "part":
        query = expressions.part_expression(rng, scene)
    elif kind == "band":
        query = expressions.band_expression(rng, scene)
    elif kind == "relation":
        query = expressions.relation_expression(rng, scene)
    elif kind == "reflection":
        query = expressions.reflection_expression(rng, scene)
    return query or expressions.describe(rng, scene, entity, int(rng.integers(1, 5)))


def _grounding(rng: np.random.Generator, query: Query, targets: Sequence[Entity]) -> Example:
    expression = write(query, "a" if rng.random() < 0.3 else "the")
    prompt = _weighed(rng, GROUNDING_PROMPTS).replace("{expression}", expression)
    answer = "".join(_mark(entity) for entity in targets[:MOST_TARGETS]) or NO_TARGET
    return Example(prompt, answer, kind="refer" if targets else "absent")


def _region(rng: np.random.Generator, scene: Scene) -> Entity:
    """Mostly an object; one in ten is any region."""
    entities = scene.entities if rng.random() < 0.1 else scene.objects
    return entities[int(rng.integers(len(entities)))]


def _about(prompt: str, entity: Entity, answer: str, kind: str) -> Example:
    zooms = (entity.id,) if "{zoom_0}" in prompt else ()
    return Example(prompt.replace("{region}", _mark(entity)), answer, zooms, kind)


def _mark(entity: Entity) -> str:
    return f"{{region_{entity.id}}}"


def _weighed(rng: np.random.Generator, choices: Sequence[tuple[T, float]]) -> T:
    """One of the choices, drawn by its weight."""
    left = rng.random() * sum(weight for _, weight in choices)
    for choice, weight in choices:
        left -= weight
        if left < 0:
            return choice
    return choices[-1][0]
