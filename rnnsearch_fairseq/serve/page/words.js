// Elements of the page, and words as the page shows them. All text of others comes in by textContent.

const UNKNOWN = "<unk>";
const END = "</s>";
// A blank between words, unless Latin letters, digits or their punctuation are on both sides.
const BLANK_BETWEEN_SIGNS = /(?<![!-\u024f]) | (?![!-\u024f])/g;

export const byId = (id) => document.getElementById(id);

export function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function forEars(text) {
  return make("span", { className: "for-ears", textContent: text });
}

export function decimals(number) {
  return number === null ? "−∞" : number.toFixed(2).replace("-", "−");
}

// Japanese and Chinese are written without blanks.
export function written(text, language) {
  return /^(ja|zh)\b/.test(language.replace("_", "-")) ? text.replace(BLANK_BETWEEN_SIGNS, "") : text;
}

function marked(text, readOut) {
  const mark = make("mark", { className: "unknown", textContent: text, title: "The model does not know this word" });
  return [mark, forEars(readOut)];
}

// A word as the model splits text: {text, unknown}.
export function wordLabel(word) {
  if (word.text === END) {
    return [make("span", { textContent: "end", title: "end of the sentence" })];
  }
  if (word.text === UNKNOWN) {
    return marked("unknown", " word");
  }
  return word.unknown ? marked(word.text, " (unknown)") : [word.text];
}

// A translation, in which <unk> stands for each unknown word.
export function textLabel(text, language) {
  return written(text, language)
    .split(UNKNOWN)
    .flatMap((part, index) => (index === 0 ? [part] : [...marked("unknown", " word"), part]));
}

export function plainText(text, language) {
  return written(text, language).replaceAll(UNKNOWN, "[unknown word]");
}
