"""The messages of the JSON API. FastAPI checks requests against them, and describes them at /openapi.json."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from turbohtml import unescape

MAX_TRANSLATIONS = 32  # of a request
MAX_BYTES = 256_000  # of a request
MAX_WEIGHTS = 40_000  # of a translation: 200 words of 200
DIGITS = 4
WEIGHTS = f"Attention to source words, a row for each target word; null if none, or over {MAX_WEIGHTS:,} numbers"
# Where a length has a bound, pydantic refuses half of a character (a surrogate), which JSON can hold.
Text = Annotated[str, Field(max_length=MAX_BYTES)]
# Moses tokens may hold HTML entities.
Words = Annotated[list[str], BeforeValidator(lambda words: [unescape(word) for word in words])]
Rounded = BeforeValidator(lambda tensor: tensor if tensor is None else tensor.double().round(decimals=DIGITS).tolist())
Matrix = Annotated[list[list[float]] | None, Rounded]


class Model(BaseModel):
    """The model, and what a request may hold."""

    source_lang: str
    target_lang: str
    beam: int = Field(description="The greatest nbest that has an effect")
    reads_trees: bool
    about: str = Field(description="What it was trained on and for")
    examples: list[str] = Field(description="Sentences to try")
    max_translations: int = Field(MAX_TRANSLATIONS, description="In a request: its sentences times nbest")


class TranslationRequest(BaseModel):
    """Sentences to translate, with trees for models that read trees, in Penn brackets or as transitions, or null."""

    sentences: list[Text] = Field(min_length=1, fail_fast=True, examples=[["A dog runs on the beach."]])
    trees: Annotated[list[Text | None], Field(fail_fast=True)] | None = None
    nbest: int = Field(1, ge=1, description="Translations of each sentence")

    @model_validator(mode="after")
    def check_numbers(self) -> "TranslationRequest":
        sentences = len(self.sentences)
        if self.trees is not None and len(self.trees) != sentences:
            raise ValueError(f"there are {sentences} sentences and {len(self.trees)} trees; send one for each")
        if sentences * self.nbest > MAX_TRANSLATIONS:
            raise ValueError(f"sentences times nbest is {sentences * self.nbest}; send at most {MAX_TRANSLATIONS}")
        return self


class Translation(BaseModel):
    """A translation. A null among its numbers is minus infinity."""

    model_config = ConfigDict(from_attributes=True)
    text: str = Field(description="<unk> stands for a word that the model does not know, unless it is replaced")
    faults: list[str] = Field([], description="What a translator should check, such as markup that is missing")
    score: float | None = Field(description="The score by which the search ranks; null: the search failed")
    target: Words = Field(description="The words of the translation as the model splits text, and end-of-sentence")
    target_unknown: list[bool] = Field(description="Whether the model wrote the unknown word")
    logprobs: Annotated[list[float], Rounded] = Field(description="ln p of each word, given the words before it")
    weights: Matrix = Field(description=WEIGHTS)
    phrase_weights: Matrix = Field(description="The attention to phrases; null for models that read no trees")


class Translated(BaseModel):
    """The translations of a sentence, best first. A phrase is its first word, from 0, and the word after its last."""

    source: Words = Field(description="The words of the sentence as the model splits text, and end-of-sentence")
    source_unknown: list[bool] = Field(description="Whether the model does not know the word")
    phrases: list[tuple[int, int]] | None
    translations: list[Translation]


class Problem(BaseModel):
    """Why there is no translation, in one sentence."""

    error: str


class Answer(BaseModel):
    """A result for each sentence."""

    sentences: list[Translated | Problem]
