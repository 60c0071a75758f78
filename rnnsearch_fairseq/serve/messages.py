"""The messages of the JSON API. FastAPI checks requests by them, and describes them at /docs and /openapi.json."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

MOST_TRANSLATIONS = 32  # of a request
MOST_CHARACTERS = 2_000  # of a sentence
Sentence = Annotated[str, Field(max_length=MOST_CHARACTERS)]
Rounded = Annotated[float, AfterValidator(lambda number: round(number, 4))]


class Limits(BaseModel):
    """What the server accepts."""

    characters: int = Field(MOST_CHARACTERS, description="In a sentence")
    words: int = Field(100, description="In a sentence, as the model splits it")
    translations: int = Field(MOST_TRANSLATIONS, description="In a request: its sentences times nbest")
    waiting: int = Field(256, description="Sentences of all requests that wait; further requests are answered by 503")
    seconds: float = Field(30.0, description="For a request")


class Model(BaseModel):
    """The model and its limits."""

    source_lang: str
    target_lang: str
    beam: int = Field(description="The greatest nbest that has an effect")
    reads_trees: bool
    parses: bool = Field(description="Whether the server parses sentences that come without a tree")
    examples: list[str] = Field(description="Sentences to try")
    limits: Limits


class TranslationRequest(BaseModel):
    """Sentences to translate."""

    model_config = ConfigDict(extra="forbid", strict=True)
    sentences: list[Sentence] = Field(
        min_length=1, max_length=MOST_TRANSLATIONS, examples=[["A dog runs on the beach."]]
    )
    trees: list[str | None] | None = Field(
        None,
        description="For models that read trees: each sentence in Penn brackets or as transitions, or null",
    )
    nbest: int = Field(1, ge=1, le=MOST_TRANSLATIONS, description="Translations of each sentence")

    @model_validator(mode="after")
    def check_numbers(self) -> "TranslationRequest":
        """Check the number of trees and of translations."""
        sentences = len(self.sentences)
        if self.trees is not None and len(self.trees) != sentences:
            raise ValueError(f"there are {sentences} sentences and {len(self.trees)} trees; send one for each")
        if sentences * self.nbest > MOST_TRANSLATIONS:
            raise ValueError(f"sentences times nbest is {sentences * self.nbest}; send at most {MOST_TRANSLATIONS}")
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

    detail: str


class Answer(BaseModel):
    """A result for each sentence."""

    sentences: list[Translated | Problem]


class Partial(BaseModel):
    """The best unfinished translation during the search."""

    sentence: int = Field(description="The sentence's position in the request, from 0")
    text: str
