// Elements of the page, and words as the page shows them. All text of others comes in by textContent.

const END = "</s>";
const WITHOUT_BLANKS = /^(ja|zh|th|km|lo|my)\b/; // languages that write no blanks between words

export const byId = (id) => document.getElementById(id);

export const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

export function make(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function decimals(number) {
  return Number.isFinite(number) ? number.toFixed(2).replace("-", "−") : "−∞";
}

const withoutMarks = (text) => text.replace(/^▁|@@$/g, "");

// Joins the pieces of words ("▁Al" "pine", "Al@@" "pine"): {text, unknown, pieces}, where pieces are places in texts.
export function joinPieces(texts, unknown, language) {
  const hasMarks = texts.some((text) => text.startsWith("▁"));
  const joined = [];
  texts.forEach((text, place) => {
    const isPiece = hasMarks ? !text.startsWith("▁") && !WITHOUT_BLANKS.test(language.replace("_", "-")) : texts[place - 1]?.endsWith("@@");
    if (!isPiece || place === 0 || text === END) {
      joined.push({ text: "", unknown: false, pieces: [] });
    }
    const word = joined.at(-1);
    word.text += withoutMarks(text);
    word.unknown ||= unknown[place];
    word.pieces.push(place);
  });
  return joined;
}

// A word, marked if the model does not know it.
export function wordLabel({ text, unknown }) {
  if (text === END) {
    return make("span", { textContent: "end", title: "end of the sentence" });
  }
  return unknown ? make("mark", { textContent: text, title: "The model does not know this word" }) : text;
}

// The text of a translation. An unknown word in it is <unk>, or what replaces it.
export function translationLabel({ text, target, target_unknown: unknown }) {
  let rest = text;
  const label = [];
  for (const word of target.filter((_, place) => unknown[place]).map(withoutMarks)) {
    const place = rest.indexOf(word);
    if (place >= 0) {
      label.push(rest.slice(0, place), wordLabel({ text: word, unknown: true }));
      rest = rest.slice(place + word.length);
    }
  }
  return [...label, rest];
}
