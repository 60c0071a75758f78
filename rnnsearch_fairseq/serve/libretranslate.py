"""LibreTranslate's API, which Weblate, OmegaT and others speak: ``/translate``, ``/languages`` and ``/health``.

A text is cut into its lines, and long lines into sentences; HTML is cut at its tags, too, which stay as they are.
"""

import html
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field, ValidationError
from translate.lang.data import languages

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.api import submitted, wait_for_answer
from rnnsearch_fairseq.serve.messages import (
    MAX_CHARACTERS,
    MAX_TRANSLATIONS,
    Model,
    Problem,
    TranslationRequest,
    first_error,
)
from rnnsearch_fairseq.text.scripts import count_words

MAX_FIELDS = 100  # of a form
MAX_LINE_WORDS = 40  # a longer line is cut into sentences
SENTENCE_END = re.compile(r"(?<=[.!?] )(?=[^\W\d_a-z])|(?<=[。！？])")
TAG = re.compile(r"(<[^<>]*>)")

Text = Annotated[str, Field(max_length=MAX_CHARACTERS * MAX_TRANSLATIONS)]
router = APIRouter()


class TextRequest(BaseModel):
    """One text or several; other fields of LibreTranslate, such as api_key, are ignored."""

    q: Text | Annotated[list[Text], Field(min_length=1, max_length=MAX_TRANSLATIONS, fail_fast=True)]
    source: Annotated[str, Field(max_length=20)]
    target: Annotated[str, Field(max_length=20)]
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, lt=MAX_TRANSLATIONS)


@router.get("/health")
async def check_health() -> dict[str, str]:
    """Say that the server is up."""
    return {"status": "ok"}


@router.get("/languages")
async def list_languages(request: Request) -> list[dict[str, Any]]:
    """The model's two languages; the first one is translated into the second."""
    model = request.app.state.model
    pair = ((model.source_lang, [model.target_lang]), (model.target_lang, []))
    return [
        {"code": code, "name": languages.get(_language(code), (code,))[0], "targets": targets} for code, targets in pair
    ]


@router.post(
    "/translate",
    openapi_extra={"requestBody": {"content": {"application/json": {"schema": TextRequest.model_json_schema()}}}},
)
async def translate(request: Request) -> dict[str, Any]:
    """Translate texts as LibreTranslate does; a request that cannot be answered is refused as a whole."""
    model = request.app.state.model
    asked = await _read(request, model)
    is_html = asked.format == "html"
    texts = [cut(text, is_html) for text in ([asked.q] if isinstance(asked.q, str) else asked.q)]
    sentences = list(dict.fromkeys(piece.strip() for text in texts for piece in text if _has_words(piece)))
    plain = [html.unescape(sentence) for sentence in sentences] if is_html else sentences
    results = await _translate(plain, asked.alternatives + 1, request)
    if is_html:
        results = [[html.escape(translation, quote=False) for translation in several] for several in results]
    joined = [_join(text, dict(zip(sentences, results))) for text in texts]
    answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in joined]}
    if asked.alternatives:
        answer["alternatives"] = [alternatives for _, *alternatives in joined]
    if asked.source == "auto":
        answer["detectedLanguage"] = [{"confidence": 100, "language": model.source_lang}] * len(texts)
    return answer if isinstance(asked.q, list) else {name: value for name, (value,) in answer.items()}


def cut(text: str, is_html: bool) -> list[str]:
    """Cut a text into sentences and tags, with the blanks beside them: joined, they are the text."""
    parts = TAG.split(text) if is_html else text.splitlines(keepends=True)
    return [piece for part in parts for piece in _cut_line(part)]


def _cut_line(line: str) -> list[str]:
    return SENTENCE_END.split(line) if count_words(line) > MAX_LINE_WORDS else [line]


def _has_words(piece: str) -> bool:
    return any(map(str.isalpha, html.unescape(TAG.sub("", piece))))


def _join(pieces: Sequence[str], found: dict[str, list[str]]) -> list[str]:
    """The different translations of a text, best first."""
    translations = [found.get(piece.strip(), []) for piece in pieces]
    texts = []
    for place in range(max(map(len, translations), default=0) or 1):
        chosen = zip(pieces, translations)
        texts.append("".join(_put(piece, several[: place + 1]) for piece, several in chosen))
    return list(dict.fromkeys(texts))


def _put(piece: str, translations: Sequence[str]) -> str:
    """The last of the translations, if there are any, with the blanks beside the piece."""
    return piece.replace(piece.strip(), translations[-1], 1) if translations else piece


async def _translate(sentences: list[str], nbest: int, request: Request) -> list[list[str]]:
    """The translations of each sentence, best first, asked for in requests of MAX_TRANSLATIONS."""
    texts = []
    for start in range(0, len(sentences), MAX_TRANSLATIONS // nbest):
        try:
            part = sentences[start : start + MAX_TRANSLATIONS // nbest]
            message = TranslationRequest(sentences=part, nbest=nbest)
        except ValidationError as error:
            raise HTTPException(400, first_error(error.errors())) from error
        async with submitted(message, request) as pending:
            results = (await wait_for_answer(pending, request)).sentences
        for sentence, result in zip(part, results):
            if isinstance(result, Problem):
                raise HTTPException(400, str(InputError(f"{result.error}: {sentence}")))
            texts.append([translation.text for translation in result.translations])
    return texts


async def _read(request: Request, model: Model) -> TextRequest:
    """Read a request from JSON or from a form, which another site may not send."""
    body = await request.body()
    try:
        if request.headers.get("content-type", "").startswith("application/json"):
            asked = TextRequest.model_validate_json(body)
        elif request.headers.get("sec-fetch-site") == "cross-site":
            raise HTTPException(403, "forms of other sites are refused; send JSON")
        else:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
            asked = TextRequest.model_validate({name: values[-1] for name, values in fields.items()})
    except ValidationError as error:
        raise HTTPException(400, first_error(error.errors())) from error
    except ValueError as error:  # no UTF-8, or too many fields
        raise HTTPException(400, f"the form cannot be read ({error})") from error
    pair = (model.source_lang, model.target_lang)
    source = model.source_lang if asked.source == "auto" else asked.source
    if [_language(source), _language(asked.target)] != list(map(_language, pair)):
        reason = f"{source} to {asked.target} is not supported; the model translates {pair[0]} to {pair[1]}"
        raise HTTPException(400, str(InputError(reason)))
    return asked


def _language(code: str) -> str:
    """The language of a code such as fr-CA or zh_Hans."""
    return code.replace("_", "-").split("-")[0].lower()
