"""A small English-French corpus, written by a synchronous grammar.

Each rule of a synchronous grammar (Chiang 2006, "An introduction to synchronous grammars") builds an English
constituent and its French translation together, so that every sentence pair comes with its exact English parse and word
alignment. What the corpus promises:

* The French sentence is a function of the English one: "they" is always "ils", "you" always "vous", and where the
  English does not show a gender ("I", "we", "you", bare rare names) no rule is used in which French must show it.
* Both sides are tokenised as the Moses tokenizer would do it ("l' homme"). Only names, titles and "I" have capitals.
* Rare names are open-ended: held-out sentences contain names that no training sentence has. They are spelt alike in
  both languages and start with a consonant, so that no elision depends on them.
* The parses have the labels and the bracketing of the Penn Treebank, without its empty elements and function labels.
* The same seed gives the same sentences on every Python from 3.10 on.

Links are sure links, and every word has one. A word without a counterpart is linked with the word that requires it:

* "not" and "never" with both parts of the negation, "ne ... pas", "ne ... jamais";
* "do", "does", "did" with the finite French verb, whose tense and person they carry, and in questions with "est-ce
  que" too, as every other fronted verb is;
* a simple past, "saw", with both words of the "passé composé", "a vu"; after "did", the auxiliary with "did" and the
  participle with the verb;
* the English preposition of a verb that takes a direct object in French ("waits for" - "attend") with that verb; the
  French "à" of a verb that takes a direct object in English ("answers" - "répond à") with that verb;
* "to" before an infinitive with the infinitive; before a pronoun that becomes a clitic ("to him" - "lui") with the
  clitic;
* "'s" with "de" and with the article of the thing possessed, which English leaves out;
* a contraction ("au", "du", "des", "aux") with everything its two parts were linked with.
"""

from recipes.grammar.corpus import SentencePair, generate, write_corpus

__all__ = ["SentencePair", "generate", "write_corpus"]
