"""LibreTranslate's API, which Weblate, OmegaT and others speak: ``/translate``, ``/languages`` and ``/health``.

HTML is read and written as HTML pages are (rnnsearch_fairseq.documents.html).
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, pairwise
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, HTTPException, Request
from pydantic import BaseModel, Field, model_validator
from starlette.responses import JSONResponse
from translate.lang.data import languages

from rnnsearch_fairseq.documents.html import read_html
from rnnsearch_fairseq.errors import InputError
from rnnsearch_fairseq.serve.api import submitted, wait_for_answer
from rnnsearch_fairseq.serve.messages import MAX_TRANSLATIONS, Problem, Text, Translated, TranslationRequest
from rnnsearch_fairseq.text.language import language_code
from rnnsearch_fairseq.text.sentences import SENTENCE_END, combine

MAX_CHARACTERS = 250_000  # of a request, times the translations of each text
MAX_FIELDS = 1_000  # of a form
MAX_PART = 4_000  # characters of a long text that are translated at a time
Candidate = tuple[str, list[str]]  # a translation and its faults
Result = TypeVar("Result")
THREAD = ThreadPoolExecutor(1, "texts")
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
async def translate(request: Request) -> JSONResponse:
    """Translate texts as LibreTranslate does; ``faults`` names what a translator should check in each translation.

    In a list, a text that cannot be translated stays as it is, and its fault says why.
    """
    fields = await read_fields(request)
    is_one = isinstance(fields.get("q"), str)
    asked = TextRequest.model_validate({**fields, "q": [fields["q"]]} if is_one else fields)
    model = request.app.state.model
    source = model.source_lang if asked.source == "auto" else asked.source
    given, expected = (source, asked.target), (model.source_lang, model.target_lang)
    if [*map(language_code, given)] != [*map(language_code, expected)]:
        reason = f"{' to '.join(given)} is not supported; the model translates {' to '.join(expected)}"
        raise HTTPException(400, str(InputError(reason)))
    cut, write = (cut_html, write_html) if asked.format == "html" else (cut_text, write_text)
    texts = await _run_beside_the_loop(lambda: [cut(text) for text in asked.q])
    found = await _translate([*{part: None for text in texts for part in text}], asked.alternatives + 1, request)
    if is_one and (problem := next((one for one in found.values() if isinstance(one, Problem)), None)):
        raise HTTPException(400, problem.error)

    def answer() -> dict[str, list[Any]]:
        several = []
        for text, parts in zip(asked.q, texts):
            chosen = combine([_candidates(part, found[part]) for part in parts])
            several.append(dict(write(text, parts, model.target_lang) for parts in chosen))
        named = {"translatedText": [next(iter(one)) for one in several]}
        named["faults"] = [next(iter(one.values())) for one in several]
        if asked.alternatives:
            named["alternatives"] = [[*one][1:] for one in several]
        return named

    fields = await _run_beside_the_loop(answer)
    if asked.source == "auto":
        fields["detectedLanguage"] = await detect(request) * len(texts)
    return JSONResponse({name: values[0] for name, values in fields.items()} if is_one else fields)


def _run_beside_the_loop(work: Callable[[], Result]) -> Awaitable[Result]:
    """Do what may take long in the one thread for this, so that the event loop goes on."""
    return asyncio.get_running_loop().run_in_executor(THREAD, work)


def cut_text(text: str) -> list[str]:
    """Parts of a long text, which take turns with other requests: they end with a line, or else with a sentence."""
    parts = [""]
    for line in text.splitlines(keepends=True):
        ends = [0, *(match.end() for match in SENTENCE_END.finditer(line)), len(line)]
        for start, end in pairwise(ends):
            if len(parts[-1]) + end - start > MAX_PART:
                parts.append("")
            parts[-1] += line[start:end]
    return parts


def write_text(text: str, chosen: Sequence[Candidate], language: str) -> Candidate:
    """The translation of a text, from those of its parts, with its faults."""
    return "".join(part for part, _ in chosen), [fault for _, faults in chosen for fault in faults]


def cut_html(text: str) -> list[str]:
    """The texts of HTML."""
    return [unit.sources[0] for unit in read_html(text).units]


def write_html(text: str, chosen: Sequence[Candidate], language: str) -> Candidate:
    """HTML with the translations of its texts, and their faults; the rest stays as it is."""
    document = read_html(text)
    faults = [[*unit.fill([part]), *faults] for unit, (part, faults) in zip(document.units, chosen)]
    return document.write(language).decode(), [*chain.from_iterable(faults)]


def _candidates(part: str, result: Translated | Problem) -> list[Candidate]:
    if isinstance(result, Problem):
        return [(part, [f"is not translated: {result.error}"])]
    return [(translation.text, translation.faults) for translation in result.translations]


async def _translate(parts: Sequence[str], nbest: int, request: Request) -> dict[str, Translated | Problem]:
    """The result for each part, asked for in requests of MAX_TRANSLATIONS."""
    found: dict[str, Translated | Problem] = {}
    size = MAX_TRANSLATIONS // nbest
    for some in (parts[start : start + size] for start in range(0, len(parts), size)):
        message = TranslationRequest.model_construct(sentences=some, nbest=nbest)
        async with submitted(message, request) as pending:
            found |= zip(some, (await wait_for_answer(pending, request)).sentences)
    return found
