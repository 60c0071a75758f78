"""LibreTranslate's API, which Weblate, OmegaT and others speak: ``/translate``, ``/languages`` and ``/health``.

A text is cut into its lines; HTML is cut at its tags, too, which stay as they are.
"""

import html
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field
from translate.lang.data import languages

from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.api import submitted, wait_for_answer
from rnnsearch_fairseq.serve.messages import MAX_TRANSLATIONS, Problem, TranslationRequest
from rnnsearch_fairseq.text.language import language_code
from rnnsearch_fairseq.text.sentences import combine

TAG = re.compile(r"(<[^<>]*>)")
router = APIRouter()


class TextRequest(BaseModel):
    """One text or several; other fields of LibreTranslate, such as api_key, are ignored."""

    q: str | Annotated[list[str], Field(max_length=MAX_TRANSLATIONS, fail_fast=True)]
    source: str
    target: str
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
    names = {code: languages.get(language_code(code), (code,))[0] for code, _ in pair}
    return [{"code": code, "name": names[code], "targets": targets} for code, targets in pair]


@router.post("/translate")
async def translate(request: Request) -> dict[str, Any]:
    """Translate texts as LibreTranslate does, from JSON or a form; a request is answered or refused as a whole."""
    body = await request.body()
    if request.headers.get("content-type", "").startswith("application/json"):
        asked = TextRequest.model_validate_json(body)
    else:
        asked = TextRequest.model_validate(dict(parse_qsl(body.decode(errors="replace"), keep_blank_values=True)))
    model = request.app.state.model
    source = model.source_lang if asked.source == "auto" else asked.source
    given, expected = (source, asked.target), (model.source_lang, model.target_lang)
    if [*map(language_code, given)] != [*map(language_code, expected)]:
        reason = f"{' to '.join(given)} is not supported; the model translates {' to '.join(expected)}"
        raise HTTPException(400, str(InputError(reason)))
    is_html = asked.format == "html"
    texts = [cut(text, is_html) for text in ([asked.q] if isinstance(asked.q, str) else asked.q)]
    sentences = list(dict.fromkeys(piece.strip() for text in texts for piece in text if _has_words(piece)))
    found = await _translate(sentences, is_html, asked.alternatives + 1, request)
    joined = [_join(text, found) for text in texts]
    answer: dict[str, list[Any]] = {"translatedText": [best for best, *_ in joined]}
    if asked.alternatives:
        answer["alternatives"] = [alternatives for _, *alternatives in joined]
    if asked.source == "auto":
        answer["detectedLanguage"] = [{"confidence": 100, "language": model.source_lang}] * len(texts)
    return answer if isinstance(asked.q, list) else {name: value for name, (value,) in answer.items()}


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
