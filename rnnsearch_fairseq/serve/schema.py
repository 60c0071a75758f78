"""The OpenAPI description of the JSON API."""

from typing import Any

from rnnsearch_fairseq import __version__
from rnnsearch_fairseq.serve.translator import Limits


def _object(required: list[str], description: str = "", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "required": required, "properties": properties, "additionalProperties": False}
    return schema | ({"description": description} if description else {})


def _list(items: dict[str, Any], description: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "description": description, **more}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _weights(of: str) -> dict[str, Any]:
    row = _list({"type": "number", "minimum": 0, "maximum": 1})
    return _list(row, f"For each target word, a row of weights, one for each {of}", type=["array", "null"])


LOGPROB = {"type": ["number", "null"], "description": "Natural logarithm; null is minus infinity"}
SCHEMAS: dict[str, Any] = {
    "Error": _object(["error"], "Why there is no answer, in one sentence", error={"type": "string"}),
    "Word": _object(
        ["text", "unknown"],
        "A word as the model splits text; the last one on each side is end-of-sentence, </s>",
        text={"type": "string"},
        unknown={"type": "boolean", "description": "The model does not know the word, or wrote the unknown word"},
        logprob=LOGPROB | {"description": "ln p of a target word, given the words before it"},
    ),
    "Translation": _object(
        ["text", "score", "logprob", "words"],
        text={"type": "string", "description": "<unk> stands for a word that the model does not know"},
        score=LOGPROB | {"description": "The score by which the search ranks; null: the search failed"},
        logprob=LOGPROB | {"description": "ln p of the translation, given the sentence, not divided by its length"},
        words=_list(_ref("Word")),
        alignment=_weights("source word") | {"description": "Null if the model has no attention"},
        phrase_alignment=_weights("phrase"),
    ),
    "Translated": _object(
        ["source", "translations"],
        source=_list(_ref("Word")),
        phrases=_list(
            _list({"type": "integer"}, minItems=2, maxItems=2),
            "For models that read trees: the first word of each phrase, from 0, and the word after its last one",
        ),
        translations=_list(_ref("Translation"), "Best first"),
    ),
    "Answer": _object(["sentences"], sentences=_list({"oneOf": [_ref("Translated"), _ref("Error")]})),
    "Partial": _object(
        ["sentence", "text"],
        "The best unfinished translation during the search",
        sentence={"type": "integer", "description": "The sentence's position in the request, from 0"},
        text={"type": "string"},
    ),
    "Model": _object(
        ["source_lang", "target_lang", "beam", "reads_trees", "parses", "examples", "limits"],
        source_lang={"type": "string"},
        target_lang={"type": "string"},
        beam={"type": "integer", "description": "The greatest nbest"},
        reads_trees={"type": "boolean"},
        parses={"type": "boolean", "description": "Whether the server can parse sentences: see parse in a request"},
        examples=_list({"type": "string"}, "Sentences to try"),
        limits=_object(
            ["characters", "words", "sentences", "bytes", "seconds"],
            characters={"type": "integer", "description": "In a sentence"},
            words={"type": "integer", "description": "In a sentence, as the model splits it"},
            sentences={"type": "integer", "description": "In a request"},
            bytes={"type": "integer", "description": "In a request"},
            seconds={"type": "number", "description": "For a request"},
        ),
    ),
}


REFUSALS = {
    "400": "The request differs from this description",
    "408": "The request came too slowly",
    "413": "The request is too large",
    "415": "The request is not application/json",
    "503": "Busy, or out of time: try again after the seconds in Retry-After",
}


def openapi(beam: int, limits: Limits) -> dict[str, Any]:
    """Build the document, OpenAPI 3.1."""
    request = _object(
        ["sentences"],
        sentences=_list({"type": "string"}, "Sentences to translate", minItems=1, maxItems=limits.sentences),
        trees=_list(
            {"type": ["string", "null"]},
            "For models that read trees, the parse of each sentence: Penn brackets, transitions (S S R), or null",
        ),
        parse={
            "type": "boolean",
            "default": False,
            "description": "Whether to parse the sentences that have no tree; refused if the server cannot",
        },
        nbest={"type": "integer", "minimum": 1, "maximum": beam, "default": 1, "description": "Translations of each"},
        alignment={"type": "boolean", "default": True, "description": "Whether to return alignments"},
    )
    refusals = {status: _content(_ref("Error"), description=text) for status, text in REFUSALS.items()}
    lines = {"oneOf": [_ref("Partial"), _ref("Answer"), _ref("Error")]}
    model = _content(_ref("Model"), description="The model and its limits")
    answer = _content(_ref("Answer"), description="A result for each sentence")
    stream = _content(lines, "application/x-ndjson", description="Unfinished translations, then the answer or an error")
    body = {"requestBody": _content(_ref("Request"), required=True)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rnnsearch_fairseq.serve",
            "version": __version__,
            "description": "Each sentence of a request gets a translation, or an error with its number, from 1.",
        },
        "paths": {
            "/api/model": {"get": {"responses": {"200": model}}},
            "/api/translate": {"post": {**body, "responses": {"200": answer, **refusals}}},
            "/api/translate/stream": {"post": {**body, "responses": {"200": stream, **refusals}}},
        },
        "components": {"schemas": {"Request": request, **SCHEMAS}},
    }


def _content(schema: dict[str, Any], kind: str = "application/json", **more: Any) -> dict[str, Any]:
    return {"content": {kind: {"schema": schema}}, **more}
