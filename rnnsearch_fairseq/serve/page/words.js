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

// A translation: {text, words}, without words while it is found. An unknown word in it is <unk>, or what replaces it.
export function translationLabel({ text, words }, language) {
  let rest = written(text, language);
  const label = [];
  for (const word of words || (rest.match(/<unk>/g) || []).map((each) => ({ text: each, unknown: true }))) {
    const part = word.text.replace(/^▁|@@$/g, ""); // marks of subwords
    const place = rest.indexOf(part);
    if (place >= 0) {
      label.push(rest.slice(0, place), ...(word.unknown ? wordLabel({ text: part, unknown: true }) : [part]));
      rest = rest.slice(place + part.length);
    }
  }
  return [...label, rest];
}

export function plainText(text, language) {
  return written(text, language).replaceAll(UNKNOWN, "[unknown word]");
}
