"""Several judges in one: the majority decides, and every vote is kept.

    [judge]
    name = "panel"
    members = [{name = "openai-chat", model = "llama-a"}, {name = "openai-chat", model = "b"}]

``harness judge agreement RUN`` tells how far the members agree.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from harness import registry
from harness.errors import ConfigError
from harness.judge import Estimate, Judge, Question, Verdict


@dataclass(frozen=True)
class Panel(Judge):
    members: tuple[dict[str, Any], ...]
    """The judges: a table each, with its name and options."""

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ConfigError("judge.members must name at least two judges")
        for member in self.members:
            if not isinstance(member.get("name"), str):
                raise ConfigError("each of judge.members needs a name")

    @property
    def name(self) -> str:
        return f"panel({', '.join(judge.name for judge in self._judges)})"

    @property
    def cacheable(self) -> bool:  # type: ignore[override]
        """A panel's verdict can be reused if each member's can."""
        return all(judge.cacheable for judge in self._judges)

    def fingerprint(self) -> Mapping[str, str]:
        return {
            f"member/{i}": json.dumps(dict(judge.fingerprint()), sort_keys=True)
            for i, judge in enumerate(self._judges)
        }

    def check(self) -> None:
        for judge in self._judges:
            judge.check()

    def ask(self, questions: Sequence[Question]) -> Iterator[Verdict]:
        """The majority's verdict on each question, once every member has answered all of them."""
        votes: dict[tuple[str, int], list[Verdict]] = {
            (q.sample_id, q.index): [] for q in questions
        }
        for judge in self._judges:
            given = {(v.sample_id, v.index): v for v in judge.ask(questions)}
            for key, cast in votes.items():
                missing = Verdict(sample_id=key[0], index=key[1], error="no verdict was given")
                cast.append(given.get(key, missing))
        for question in questions:
            yield self._decide(question, votes[question.sample_id, question.index])

    def estimate(self, questions: Sequence[Question]) -> Estimate:
        parts = [judge.estimate(questions) for judge in self._judges]
        costs = [part.cost for part in parts if part.cost is not None]
        return Estimate(
            calls=sum(part.calls for part in parts),
            prompt_tokens=sum(part.prompt_tokens for part in parts),
            completion_tokens=sum(part.completion_tokens for part in parts),
            cost=sum(costs) if costs else None,
        )

    def close(self) -> None:
        for judge in self._judges:
            judge.close()

    @cached_property
    def _judges(self) -> tuple[Judge, ...]:
        judges = []
        for i, member in enumerate(self.members):
            options = {key: value for key, value in member.items() if key != "name"}
            judges.append(registry.judges.build(member["name"], options, f"judge.members.{i}"))
        return tuple(judges)

    def _decide(self, question: Question, cast: Sequence[Verdict]) -> Verdict:
        """The reply that most members gave; of equally many, that of the member named first."""
        replies = [v for v in cast if v.error is None]
        info: dict[str, Any] = {
            "votes": [
                {"judge": judge.name, "reply": None if v.error else v.raw, "error": v.error}
                for judge, v in zip(self._judges, cast, strict=True)
            ]
        }
        costs = [float(v.info["cost"]) for v in cast if "cost" in v.info]
        if costs:
            info["cost"] = sum(costs)
        empty = Verdict(sample_id=question.sample_id, index=question.index, info=info)
        if not replies:
            reasons = "; ".join(str(v.error) for v in cast)
            return replace(empty, error=f"no member of the panel gave a verdict: {reasons}")
        counted = Counter(_plain(v.raw, question.choices) for v in replies)
        most = max(counted.values())
        winner = next(v for v in replies if counted[_plain(v.raw, question.choices)] == most)
        return replace(empty, raw=winner.raw)


def _plain(reply: str, choices: Sequence[str]) -> str:
    """What a reply votes for: one of the choices where it names one, else its own words."""
    said = reply.strip().lower().rstrip(".")
    for letter, choice in zip("abcdefghij", choices, strict=False):
        text = choice.strip().lower().rstrip(".")
        if said in (letter, text, f"{letter}. {text}"):
            return text
    return said


judge = Panel
