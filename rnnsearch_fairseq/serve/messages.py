"""The messages of the JSON API. FastAPI checks requests by them, and describes them at /docs and /openapi.json."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from rnnsearch_fairseq.errors import InputError

MAX_TRANSLATIONS = 32  # of a request
MAX_CHARACTERS = 2_000  # of a sentence
MAX_TREE_CHARACTERS = 40_000

Sentence = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Tree = Annotated[str, Field(max_length=MAX_TREE_CHARACTERS)]
Rounded = Annotated[float, AfterValidator(lambda number: round(number, 4))]


class Model(BaseModel):
    """The model, and what a request may hold."""

    source_lang: str
    target_lang: str
    beam: int = Field(description="The greatest nbest that has an effect")
    reads_trees: bool
    examples: list[str] = Field(description="Sentences to try")
    max_words: int = Field(description="In a sentence, as the model splits it")
    max_translations: int = Field(MAX_TRANSLATIONS, description="In a request: its sentences times nbest")


class TranslationRequest(BaseModel):
    """Sentences to translate."""

    model_config = ConfigDict(strict=True)
    sentences: list[Sentence] = Field(
        min_length=1, max_length=MAX_TRANSLATIONS, fail_fast=True, examples=[["A dog runs on the beach."]]
    )
    trees: Annotated[list[Tree | None], Field(max_length=MAX_TRANSLATIONS, fail_fast=True)] | None = Field(
        None, description="For models that read trees: each sentence in Penn brackets or as transitions, or null"
    )
    nbest: int = Field(1, ge=1, le=MAX_TRANSLATIONS, description="Translations of each sentence")

    @model_validator(mode="after")
    def check_numbers(self) -> "TranslationRequest":
        """Check the number of trees and of translations."""
        sentences = len(self.sentences)
        if self.trees is not None and len(self.trees) != sentences:
            raise ValueError(f"there are {sentences} sentences and {len(self.trees)} trees; send one for each")
        if sentences * self.nbest > MAX_TRANSLATIONS:
            raise ValueError(f"sentences times nbest is {sentences * self.nbest}; send at most {MAX_TRANSLATIONS}")
        return self


class Word(BaseModel):
    """A word as the model splits text; the last one on each side is end-of-sentence, </s>."""

    text: str
    unknown: bool = Field(description="The model does not know the word, or wrote the unknown word")
    logprob: Rounded | None = Field(None, description="ln p of a target word, given the words before it")


class Translation(BaseModel):
    """A translation. A null among its numbers is minus infinity."""

    text: str = Field(description="<unk> stands for a word that the model does not know, unless it is replaced")
    score: Rounded | None = Field(description="The score by which the search ranks; null: the search failed")
    logprob: Rounded | None = Field(description="ln p of the translation, given the sentence")
    words: list[Word]
    alignment: list[list[float]] | None = Field(
        description="Weights: a row for each target word; null if there are none"
    )
    phrase_alignment: list[list[float]] | None = Field(description="Of phrases; null for models that read no trees")


class Translated(BaseModel):
    """The translations of a sentence, best first."""

    source: list[Word]
    phrases: list[tuple[int, int]] | None = Field(description="The first word of each, from 0, and the one after it")
    translations: list[Translation]


class Problem(BaseModel):
    """Why there is no translation, in one sentence."""

    error: str


class Answer(BaseModel):
    """A result for each sentence."""

    sentences: list[Translated | Problem]


class Partial(BaseModel):
    """The best unfinished translation during the search."""

    sentence: int = Field(description="The sentence's position in the request, from 0")
    text: str


def first_error(errors: Sequence[Any]) -> str:
    """The first of pydantic's errors in one sentence, which does not repeat the request."""
    place = ".".join(str(name) for name in errors[0]["loc"] if name != "body")
    reason = errors[0]["msg"].removeprefix("Value error, ")
    return str(InputError(f"{place}: {reason}" if place else reason))
