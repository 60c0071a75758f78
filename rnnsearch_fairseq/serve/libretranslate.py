"""LibreTranslate's API, which Weblate, OmegaT and others speak: ``/translate``, ``/languages`` and ``/health``.

A text is cut into its lines; HTML is cut at its tags, too, which stay as they are.
"""

import html
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field, model_validator
from translate.lang.data import languages

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.api import submitted, wait_for_answer
from rnnsearch_fairseq.serve.messages import MAX_TRANSLATIONS, Problem, Text, TranslationRequest
from rnnsearch_fairseq.text.language import language_code
from rnnsearch_fairseq.text.sentences import combine

MAX_CHARACTERS = 250_000  # of a request, times the translations of each text
MAX_FIELDS = 1_000  # of a form
TAG = re.compile(r"(<[^<>]*>)")
router = APIRouter()


class TextRequest(BaseModel):
    """Texts, and how to translate them; other fields of LibreTranslate, such as api_key, are ignored."""

    q: Annotated[list[Text], Field(fail_fast=True)]
    source: str
    target: str
    format: Literal["text", "html"] = "text"
    alternatives: int = Field(0, ge=0, lt=MAX_TRANSLATIONS)

    @model_validator(mode="after")
    def check_size(self) -> "TextRequest":
        if (characters := sum(map(len, self.q)) * (self.alternatives + 1)) > MAX_CHARACTERS:
            most = f"at most {MAX_CHARACTERS:,} are translated at a time"
            raise ValueError(f"characters times translations are {characters:,}, and {most}; send fewer texts")
        return self


async def read_fields(request: Request) -> dict[str, Any]:
    """Read JSON or a form, without the fields that are null; a field that a form has several times is a list."""
    kind, body = request.headers.get("content-type", "").partition(";")[0].strip().lower(), await request.body()
    fields: Any = {}
    try:
        if kind == "application/json":
            fields = json.loads(body)
        elif kind == "multipart/form-data":
            fields = _by_name((await request.form(max_fields=MAX_FIELDS)).multi_items())
        elif kind == "application/x-www-form-urlencoded":
            fields = _by_name(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
        else:
            raise HTTPException(400, "send JSON or a form, with its Content-Type")
    except (ValueError, RecursionError) as error:
        raise HTTPException(400, str(InputError(f"the request cannot be read as {kind} ({error})"))) from error
    if not isinstance(fields, dict):
        raise HTTPException(400, 'send a JSON object, such as {"q": "Hello.", "source": "en", "target": "fr"}')
    return {name: value for name, value in fields.items() if value is not None}


def _by_name(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields: dict[str, list[Any]] = {}
    for name, value in pairs:
        fields.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in fields.items()}


@router.get("/health")
async def check_health() -> dict[str, str]:
    """Say that the server is up."""
    return {"status": "ok"}


@router.get("/languages")
async def list_languages(request: Request) -> list[dict[str, Any]]:
    """The model's two languages; the first one is translated into the second."""
    source, target = _names(request)
    return [{**source, "targets": [target["code"]]}, {**target, "targets": []}]


@router.get("/frontend/settings")
async def describe_settings(request: Request) -> dict[str, Any]:
    """What LibreTranslate tells its page."""
    source, target = _names(request)
    names = ("apiKeys", "keyRequired", "suggestions", "filesTranslation")
    settings = {"charLimit": MAX_CHARACTERS, "supportedFilesFormat": [], **dict.fromkeys(names, False)}
    return {**settings, "language": {"source": source, "target": target}}


@router.post("/detect")
async def detect(request: Request) -> list[dict[str, Any]]:
    """The language that the model reads, with no confidence, as no language is detected."""
    return [{"confidence": 0, "language": request.app.state.model.source_lang}]


def _names(request: Request) -> list[dict[str, str]]:
    model = request.app.state.model
    codes = (model.source_lang, model.target_lang)
    return [{"code": code, "name": languages.get(language_code(code), (code,))[0]} for code in codes]


@router.post("/translate")
async def translate(request: Request) -> dict[str, Any]:
    """Translate texts as LibreTranslate does, from JSON or a form; a request is answered or refused as a whole."""
    fields = await read_fields(request)
    is_one = isinstance(fields.get("q"), str)
    asked = TextRequest.model_validate({**fields, "q": [fields["q"]]} if is_one else fields)
    model = request.app.state.model
    source = model.source_lang if asked.source == "auto" else asked.source
    given, expected = (source, asked.target), (model.source_lang, model.target_lang)
    if [*map(language_code, given)] != [*map(language_code, expected)]:
        reason = f"{' to '.join(given)} is not supported; the model translates {' to '.join(expected)}"
        raise HTTPException(400, str(InputError(reason)))
    is_html = asked.format == "html"
    texts = [cut(text, is_html) for text in asked.q]
    sentences = list(dict.fromkeys(piece.strip() for text in texts for piece in text if _has_words(piece)))
    found = await _translate(sentences, is_html, asked.alternatives + 1, request)
    joined = [_join(text, found) for text in texts]
    answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in joined]}
    if asked.alternatives:
        answer["alternatives"] = [alternatives for _, *alternatives in joined]
    if asked.source == "auto":
        answer["detectedLanguage"] = (await detect(request)) * len(texts)
    return answer if not is_one else {name: value for name, (value,) in answer.items()}


def cut(text: str, is_html: bool) -> list[str]:
    """Cut a text into its lines, or HTML into its tags and the text between them; joined, the pieces are the text."""
    return TAG.split(text) if is_html else text.splitlines(keepends=True)


def _has_words(piece: str) -> bool:
    return any(map(str.isalpha, html.unescape(TAG.sub("", piece))))


async def _translate(sentences: list[str], is_html: bool, nbest: int, request: Request) -> dict[str, list[str]]:
    """The translations of each sentence, best first, asked for in requests of MAX_TRANSLATIONS."""
    found = {}
    size = MAX_TRANSLATIONS // nbest
    for part in (sentences[start : start + size] for start in range(0, len(sentences), size)):
        plain = [html.unescape(sentence) if is_html else sentence for sentence in part]
        async with submitted(TranslationRequest.model_construct(sentences=plain, nbest=nbest), request) as pending:
            results = (await wait_for_answer(pending, request)).sentences
        for sentence, result in zip(part, results):
            if isinstance(result, Problem):
                raise HTTPException(400, str(InputError(f"{result.error}: {sentence}")))
            texts = [translation.text for translation in result.translations]
            found[sentence] = [html.escape(text, quote=False) for text in texts] if is_html else texts
    return found


def _join(pieces: Sequence[str], found: dict[str, list[str]]) -> list[str]:
    """The different translations of a text, best first."""
    several = [found.get(piece.strip(), [piece.strip()]) for piece in pieces]
    texts = (
        "".join(piece.replace(piece.strip(), text, 1) for piece, text in zip(pieces, chosen))
        for chosen in combine(several)
    )
    return list(dict.fromkeys(texts))
