// The form, the requests, and the results.

import { drawAlignment } from "./picture.js";
import { byId, decimals, joinPieces, make, sum, translationLabel, wordLabel } from "./words.js";

const NO_ALIGNMENT =
  "This translation has no alignment. Either the text is too long to show one, or the model is an RNNencdec: an RNNencdec " +
  "puts the whole sentence into one vector, and writes every word of " +
  "the translation from that vector, without looking at single words of the sentence again.";
const WORDS = "Where the model looked for each word that it wrote: the weights of a row sum to 1. Point at a square for its weight.";
const PHRASES = "The tree joins words into phrases. The model looks at words (squares) and at phrases (round), each below " +
  "its place in the tree.";
const NO_PARSE = "This model reads trees, too, but this sentence has no parse: it looks at words alone.";
let model = null;
let running = null; // the AbortController of the request whose results are shown

function languageName(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code.replace("_", "-"));
  } catch {
    return code;
  }
}

function showProblem(element, text) {
  element.textContent = `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.?]$/.test(text) ? "" : "."}`;
  element.hidden = false;
}

// A sentence and its translations

class Result {
  // heading: the number and the text of a sentence among several.
  constructor(heading) {
    this.article = byId("result").content.firstElementChild.cloneNode(true);
    this.part("h2").textContent = heading || "Translation";
    this.part(".translation").lang = model.target_lang;
    this.part(".source").lang = model.source_lang;
    this.part(".alignment").addEventListener("toggle", () => this.draw());
    this.part(".alignment").open = !heading;
  }

  part(selector) {
    return this.article.querySelector(selector);
  }

  finish(answer) {
    if (answer.error) {
      this.part(".translation").hidden = true;
      showProblem(this.part(".problem"), answer.error);
      return;
    }
    this.sentence = answer;
    this.part(".found").hidden = false;
    if (answer.source_unknown.includes(true)) {
      const words = joinPieces(answer.source.slice(0, -1), answer.source_unknown, model.source_lang);
      const labels = words.flatMap((word) => [wordLabel(word), " "]);
      this.part(".source").replaceChildren(...labels, "(The model does not know the marked words.)");
      this.part(".source").hidden = false;
    }
    this.part(".others").hidden = answer.translations.length < 2;
    this.part(".others fieldset").append(...answer.translations.map((translation) => this.choice(translation)));
    this.part("input").checked = true;
    this.show(answer.translations[0]);
  }

  choice(translation) {
    const button = make("input", { type: "radio", name: this.part("h2").textContent });
    button.addEventListener("change", () => this.show(translation));
    const text = make("bdi", { lang: model.target_lang }, ...translationLabel(translation));
    const title = `Score ${decimals(translation.score)}`;
    return make("label", {}, button, text, make("span", { className: "score note", title, textContent: percent(translation) }));
  }

  show(translation) {
    this.translation = translation;
    this.part(".translation").replaceChildren(...translationLabel(translation));
    this.part(".faults").replaceChildren(...translation.faults.map((fault) => make("li", { textContent: `This translation ${fault}.` })));
    this.part(".probability").textContent =
      `Probability of a word: ${percent(translation)} (geometric mean of ${translation.target.length}). ` +
      `Log-probability of the translation: ${decimals(logprob(translation))}.`;
    this.draw();
  }

  // A table of many words is drawn only when it is to be seen.
  draw() {
    if (!this.part(".alignment").open || !this.translation) {
      return;
    }
    const { phrases } = this.sentence;
    const about = !phrases ? "" : phrases.length > 0 ? PHRASES : NO_PARSE;
    this.part(".explanation").textContent = this.translation.weights ? `${WORDS} ${about}` : NO_ALIGNMENT;
    if (this.translation.weights) {
      const { direction } = getComputedStyle(byId("sentence"));
      this.part(".picture").replaceChildren(drawAlignment(this.sentence, this.translation, model, direction));
    }
  }
}

function logprob({ logprobs }) {
  return logprobs.includes(null) ? -Infinity : sum(logprobs); // null is minus infinity
}

function percent(translation) {
  return `${Math.round(100 * Math.exp(logprob(translation) / translation.target.length))}%`;
}

// The form

function linesOf(id) {
  return byId(id).value.split("\n").map((line) => line.replace(/\s+/g, " ").trim());
}

function readForm() {
  const sentences = linesOf("sentence").filter(Boolean);
  // The parse of a single sentence may be on several lines.
  const parses = sentences.length > 1 ? linesOf("parse") : [linesOf("parse").join(" ").trim()];
  const trees = sentences.map((_, index) => (model.reads_trees && parses[index]) || null);
  const nbest = Math.max(1, Math.min(model.beam, Math.floor(model.max_translations / sentences.length)));
  return { sentences, trees, nbest };
}

// The server's answer; an error if there is none, a refusal, or another program's page.
async function ask(path, options) {
  let response, answer;
  try {
    response = await fetch(path, options);
    answer = await response.json();
  } catch {
    throw new Error("the server cannot be reached; is it running?");
  }
  if (!response.ok) {
    throw new Error(answer?.error ?? "the server cannot be reached; is it running?");
  }
  return answer;
}

async function translate() {
  running?.abort();
  const { signal } = (running = new AbortController());
  byId("problem").hidden = true;
  byId("results").replaceChildren();
  const request = readForm();
  const count = request.sentences.length;
  if (count === 0 || count > model.max_translations) {
    const most = `at most ${model.max_translations} are translated at a time`;
    showProblem(byId("problem"), count === 0 ? "there is no text to translate" : `there are ${count} lines, and ${most}`);
    return;
  }
  const isSingle = count === 1;
  const results = request.sentences.map((sentence, index) => new Result(isSingle ? "" : `${index + 1}. ${sentence}`));
  byId("results").replaceChildren(...results.map((result) => result.article));
  byId("results").setAttribute("aria-busy", "true");
  results[0].part(".translation").scrollIntoView({ block: "nearest" });
  try {
    const headers = { "Content-Type": "application/json" };
    const { sentences } = await ask("api/translate", { method: "POST", headers, body: JSON.stringify(request), signal });
    sentences.forEach((answer, index) => results[index].finish(answer));
  } catch (error) {
    if (signal.aborted) {
      return; // other results are shown now
    }
    byId("results").replaceChildren();
    showProblem(byId("problem"), error.message);
  }
  byId("results").setAttribute("aria-busy", "false");
}

async function start() {
  model = await ask("api/model");
  const { source_lang: source, target_lang: target } = model;
  byId("languages").textContent = `${languageName(source)} to ${languageName(target)}`;
  document.title = `Translate ${languageName(source)} to ${languageName(target)}`;
  byId("about").textContent = model.about;
  byId("sentence").lang = source;
  byId("parse-field").hidden = !model.reads_trees;
  byId("examples").hidden = model.examples.length === 0;
  for (const example of model.examples) {
    const button = make("button", { type: "button", lang: source, textContent: example });
    button.addEventListener("click", () => {
      [byId("sentence").value, byId("parse").value] = [example, ""];
      translate();
    });
    byId("examples").append(button);
  }
  byId("form").addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  byId("sentence").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      byId("form").requestSubmit();
    }
  });
}

start().catch((error) => showProblem(byId("problem"), error.message));
