"""Example sentences for the page, chosen by the model's dictionary."""

from rnnsearch_fairseq.inference.translator import Translator
from rnnsearch_fairseq.modules.symbols import UNK

NUMBER = 3
# Of captions, of conversations, of news, and of the words of ``rnnsearch grammar``.
SENTENCES = {
    "en": [
        "A man is riding a bike down the street.",
        "Two children are playing in the park.",
        "A woman in a red shirt is reading a book.",
        "A brown dog is running on the beach.",
        "I want to go to school with my friends.",
        "What are you going to do this evening?",
        "She told him that she would come again tomorrow.",
        "He has been here for three days.",
        "The government said that it would change the law.",
        "The president will meet the leaders of the European Union.",
        "Last year, the price of oil rose by more than ten percent.",
        "The old queen gives the young girl an apple.",
        "The black cat sleeps in the garden of the castle.",
        "When the teacher arrives, three boys listen to the story.",
    ],
    "fr": [
        "Un homme fait du vélo dans la rue.",
        "Deux enfants jouent dans le parc.",
        "Une femme en chemise rouge lit un livre.",
        "Je veux aller à l'école avec mes amis.",
        "Il est ici depuis trois jours.",
        "Le gouvernement a dit qu'il changerait la loi.",
        "Le président va rencontrer les chefs de l'Union européenne.",
        "Le chat noir dort dans le jardin du château.",
    ],
}


def choose_examples(model: Translator) -> list[str]:
    """Up to ``NUMBER`` sentences in the source language without unknown words; see SENTENCES.

    A sentence is as usual as its rarest word was in the training text; the most usual come first.
    """
    rarest = {}
    for sentence in SENTENCES.get(model.languages[0], []):
        ids = model.read_source(sentence).ids.tolist()
        if UNK not in ids:
            rarest[sentence] = max(ids)  # the vocabulary begins with the most frequent words
    return sorted(rarest, key=rarest.get)[:NUMBER]
