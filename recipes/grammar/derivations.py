"""Random derivations: choose the rules and the words of each sentence."""

import random
from collections.abc import Sequence
from dataclasses import replace

from recipes.grammar import lexicon
from recipes.grammar.lexicon import ANY, Adjective, Determiner, Noun, Verb
from recipes.grammar.phrases import Branch, FrenchWord, Leaf, NounPhrase, Phrase, french_words, pair, rule
from recipes.grammar.verbs import Complement, Predicate, negate, particle, predicate, verb_group

AND, BUT = ("and", "et"), ("but", "mais")


class Grammar:
    """Draws derivations. A rule takes `room`, about how many English words it may use, and divides it up."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.rare_names_left = 0

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # -- noun phrases --

    def rare_name_word(self) -> Phrase:
        """A name from the long tail, alike in both languages; rank r has a probability of about 400 / (400 + r)^2."""
        self.rare_names_left -= 1
        # The inverse of the distribution P(rank >= r) = 400 / (400 + r): divisions only, hence the same everywhere.
        rank = int(400 / (1 - self.rng.random())) - 400
        name = lexicon.rare_name(min(rank, lexicon.RARE_NAMES - 1))
        return pair("NNP", name, name)

    def rare_person(self) -> NounPhrase:
        """A person with a rare name; only a title shows a gender."""
        word = self.rare_name_word()
        title = self.rng.choice((None, None, *lexicon.TITLES))
        if title is None:
            return NounPhrase.make("NP", (word,))
        english, tag, french, gender = title
        return NounPhrase.make("NP", (pair(tag, english, french), word), gender=gender)

    def nominal(self, noun: Noun, room: int, negated: bool = False, definite: bool = False) -> NounPhrase:
        """NP -> DT JJ NN | DT NN JJ. `negated`: direct object of a negation, where indefinite articles become "de"."""
        determiners = lexicon.DEFINITE if definite else lexicon.WEIGHTED_DETERMINERS
        fitting = [d for d in determiners if d.kinds == ("all",) or any(k in d.kinds for k in noun.kinds)]
        determiner = self.rng.choice(fitting)
        plural = determiner.french[0] == "" or (determiner.french[2] != "" and self.chance(0.3))
        adjectives: list[Adjective] = []  # at most one that precedes the French noun and one that follows it
        for before in (True, False):
            suited = [a for a in lexicon.ADJECTIVES if noun.kinds[0] in a.kinds and a.before_noun == before]
            if room >= 3 + len(adjectives) and suited and self.chance(0.3):
                adjectives.append(self.rng.choice(suited))
        return determined(determiner, adjectives, noun, plural, negated)

    def genitive(self, noun: Noun) -> NounPhrase:
        """NP -> NP 's NN | NN de NP, or NP -> NP of NP."""
        owner = self.noun_phrase(("person",), 2, single=True, definite=True)
        plural = self.chance(0.3)
        if self.chance(0.5):
            return extended(determined(lexicon.THE, [], noun, plural), prepositional("of", "de", owner))
        mark = Leaf("POS", "'" if owner.plural and owner.words[-1].word.endswith("s") else "'s")
        head = pair("NNS" if plural else "NN", noun.english[plural], noun.french[plural])
        article = french_words(lexicon.THE.agree(noun.gender, plural, noun.french[plural]), mark)
        tree = Branch("NP", (Branch("NP", (*owner.english.children, mark)), head.english))
        french = article + head.french + french_words("de", mark) + owner.french
        return NounPhrase(tree, french, noun.gender, plural, kinds=noun.kinds)

    def place(self, room: int, kinds: tuple[str, ...] = ("place",) * 4 + ("open",)) -> Phrase:
        """PP -> in NP | near NP | ..."""
        if self.rare_names_left and self.chance(0.3):
            return prepositional("in", "à", rule("NP", (self.rare_name_word(),)))
        if room <= 2 or self.chance(0.15):
            city = rule("NP", (pair("NNP", *self.rng.choice(lexicon.CITIES)),))
            return prepositional(*(("near", "près de") if self.chance(0.3) else ("in", "à")), city)
        kind = self.rng.choice(kinds)
        ground = self.noun_phrase((kind,), room - 1, single=True, definite=self.chance(0.7))
        where = self.rng.randrange(10)
        if where == 0:  # "devant" translates all three words
            words = (Leaf("IN", "in"), Leaf("NN", "front"), Leaf("IN", "of"))
            side = Branch("NP", (Branch("NP", words[1:2]), Branch("PP", (words[2], ground.english))))
            return Phrase(Branch("PP", (words[0], side)), french_words("devant", *words) + ground.french)
        inside = ("in", "dans") if kind == "place" else ("on", "sur")
        english, french = {1: ("near", "près de"), 2: ("behind", "derrière")}.get(where, inside)
        return prepositional(english, french, ground)

    def modifier(self, noun: Noun, room: int) -> Phrase | None:
        """A prepositional phrase that says which one: "the book on the table". None if the noun takes none."""
        if noun.kinds[0] in ("person", "animal"):
            return self.place(room)
        if noun.kinds[0] == "thing":
            words = self.rng.choice((("on", "sur"), ("under", "sous")))
            return prepositional(*words, self.noun_phrase(("furniture",), room - 1, single=True))
        if noun.kinds[0] == "text":
            return prepositional("about", "sur", self.noun_phrase(("person",), room - 1, single=True))
        return None

    def listing(self, kinds: tuple[str, ...], room: int) -> NounPhrase:
        """NP -> NP , NP and NP. Only the last one may have a relative clause, so that it is clear where it belongs."""
        size = 3 if room >= 9 and self.chance(0.4) else 2
        items = [self.noun_phrase(kinds, 3, single=True) for _ in range(size - 1)]
        items.append(self.noun_phrase(kinds, room - 4 * (size - 1), single=True))
        first, *middle, last = items
        between = [part for item in middle for part in (pair(",", ",", ","), item)]
        genders = [item.gender for item in items]
        # A group with a masculine member is masculine. Otherwise, if a member's gender is unknown, so is the group's.
        gender = "m" if "m" in genders else None if None in genders else "f"
        parts = (first, *between, pair("CC", *AND), last)
        return NounPhrase.make("NP", parts, gender=gender, plural=True, kinds=items[0].kinds)

    def noun_phrase(
        self, kinds: tuple[str, ...], room: int, *, negated: bool = False, single: bool = False, definite: bool = False
    ) -> NounPhrase:
        """A noun phrase of one of these kinds; `single` excludes lists, in which French would repeat "à" and "de"."""
        if "person" in kinds and self.rare_names_left and self.chance(0.4):
            return self.rare_person()
        if room >= 7 and not single and not negated and self.chance(0.3):
            return self.listing(kinds, room)
        kind = self.rng.choice(kinds)
        if kind == "person" and room <= 4 and self.chance(0.25):
            english, french, gender = self.rng.choice(lexicon.NAMES)
            return NounPhrase.make("NP", (pair("NNP", english, french),), gender=gender)
        noun = self.rng.choice([noun for noun in lexicon.NOUNS if kind in noun.kinds])
        owned = noun.kinds[0] in ("thing", "text", "animal") or "kin" in noun.kinds
        if room >= 4 and owned and self.chance(0.2):
            return self.genitive(noun)
        if room >= 6 and self.chance(0.55):
            core = self.nominal(noun, room - 5, negated, definite)
            return extended(core, self.relative(core, min(room, 14) - 2))
        if room >= 5 and self.chance(0.5):
            modifier = self.modifier(noun, 3)
            if modifier:
                return extended(self.nominal(noun, room - 3, negated, definite), modifier)
        return self.nominal(noun, room, negated, definite)

    def pronoun(self) -> NounPhrase:
        third_person = [cells for cells in lexicon.SUBJECT_PRONOUNS if cells[3] == "3"]
        english, french, gender, person, number = self.rng.choice(lexicon.SUBJECT_PRONOUNS + third_person * 2)
        features = {"gender": None if gender == "-" else gender, "plural": number == "pl", "person": int(person)}
        return NounPhrase.make("NP", (pair("PRP", english, french),), **features)

    def subject(self, room: int, alive: bool = False) -> NounPhrase:
        """The subject of a clause; often a pronoun where there is little room. `alive`: a person or an animal."""
        if room <= 2 and self.chance(0.5):
            return self.pronoun()
        kinds = ("person",) * 9 + ("animal",) * 2 + (() if alive else ("thing", "text", "place", "food"))
        kind = self.rng.choice(kinds)
        return self.noun_phrase((kind,), room, definite=kind not in ("person", "animal"))

    # -- verb phrases --

    def relative(self, antecedent: NounPhrase, room: int) -> Phrase:
        """SBAR -> who VP | whom NP VP, "qui" | "que"; things and animals take "that" in place of "who" and "whom"."""
        person = antecedent.kinds[0] == "person"
        verbs = [verb for verb in lexicon.VERBS if verb.frame == "direct" and antecedent.kinds[0] in verb.objects]
        if verbs and self.chance(0.45):
            verb = self.rng.choice(verbs)
            pronoun = pair("WP", "whom", "que") if person else pair("WDT", "that", "que")
            agent = self.pronoun() if room <= 4 or self.chance(0.4) else self.noun_phrase(("person",), min(room - 2, 4))
            tense = self.tense(agent, verb)
            group = verb_group(verb, agent, tense, "", False)
            stranded = particle(verb)
            trees = tuple(Branch("PP", (leaf,)) for leaf in stranded)
            agreement = (antecedent.gender or "m", antecedent.plural)
            complement = Complement(english=trees, agreement=agreement, verb_links=stranded)
            body: Phrase = rule("S", (agent, predicate(verb, agent, tense, group, complement).phrase()))
        else:
            pronoun = pair("WP", "who", "qui") if person else pair("WDT", "that", "qui")
            body = rule("S", (self.verb_phrase(antecedent, room).phrase(),))
        return rule("SBAR", (rule("WHNP", (pronoun,)), body))

    def tense(self, subject: NounPhrase, verb: Verb) -> str:
        """A tense that the subject allows: with "être" the participle would show a gender English may not show."""
        tense = self.rng.choice(("present",) * 8 + ("past",) * 5 + ("can", "must", "will", "want"))
        return "present" if tense == "past" and verb.takes_etre and subject.gender is None else tense

    def verb_phrase(
        self, subject: NounPhrase, room: int, *, tense: str = "", question: bool = False, plain: bool = False
    ) -> Predicate:
        """A predicate for a subject; `tense` "" leaves it open, `plain` excludes negation."""
        kind = subject.kinds[0]
        if kind not in ("person", "animal") or (room >= 2 and self.chance(0.12) and tense in ("", "present", "past")):
            return self.copula(subject, room, tense, question)
        frames = ["action"] if room <= 1 else ["action", "direct", "direct"]
        if room <= 2:
            frames.append("motion")
        if room >= 3:
            frames += ["direct", "dative", "goal", "place"]
        if room >= 5:
            frames += ["direct", "direct", "giving", "giving"]
        fitting = [verb for verb in lexicon.VERBS if kind in verb.subjects]
        if tense == "past" and subject.gender is None:
            fitting = [verb for verb in fitting if not verb.takes_etre]
        frame = self.rng.choice([frame for frame in frames if any(verb.frame == frame for verb in fitting)])
        verb = self.rng.choice([verb for verb in fitting if verb.frame == frame])
        tense = tense or self.tense(subject, verb)
        negation = self.rng.choice(("not", "not", "never")) if self.chance(0.2) and not (plain or question) else ""
        group = verb_group(verb, subject, tense, negation, question)
        complement = self.complement(verb, group.head, subject, tense, room - 1, bool(negation))
        frequency = tense in ("present", "past") and not negation and not question and self.chance(0.12)
        adverb = idiom("ADVP", *self.rng.choice((("often/RB", "souvent"), ("always/RB", "toujours"))))
        return predicate(verb, subject, tense, group, complement, adverb if frequency else None)

    def copula(self, subject: NounPhrase, room: int, tense: str, question: bool) -> Predicate:
        """VP -> is ADJP | is PP. Subjects of unknown gender take no adjective."""
        tense = tense if tense in ("present", "past") else self.rng.choice(("present", "past"))
        english = (("am", "is", "are") if tense == "present" else ("was", "was", "were"))[min(subject.slot, 2)]
        verb = Leaf("VBD" if tense == "past" else "VBZ" if english == "is" else "VBP", english)
        negation = Leaf("RB", "not") if not question and self.chance(0.15) else None
        before, after = ((), ()) if negation is None else negate(negation)
        alive = subject.kinds[0] in ("person", "animal")
        if subject.gender is None or (alive and room >= 4 and self.chance(0.4)):
            property_phrase = self.place(room - 1)
        else:
            property_phrase = self.adjective_phrase(subject, subject.gender, room - 1)
        finite = FrenchWord(lexicon.AUXILIARIES["être" if tense == "present" else "était"][subject.slot], (verb,))
        french = (*before, finite, *after, *property_phrase.french)
        return Predicate(verb, negation, property_phrase.english, french)

    def adjective_phrase(self, subject: NounPhrase, gender: str, room: int) -> Phrase:
        """ADJP -> JJ | very JJ | more JJ than NP."""
        fitting = [adjective for adjective in lexicon.ADJECTIVES if subject.kinds[0] in adjective.kinds]
        adjective = self.rng.choice(fitting)
        word = pair("JJ", adjective.english, adjective.agree(gender, subject.plural))
        if room >= 4 and len(adjective.english) >= 7 and self.chance(0.5):
            rival = self.noun_phrase((subject.kinds[0],), room - 3, definite=True)
            return rule("ADJP", (pair("RBR", "more", "plus"), word, prepositional("than", "que", rival)))
        return rule("ADJP", (pair("RB", "very", "très"), word) if room >= 2 and self.chance(0.3) else (word,))

    def complement(
        self, verb: Verb, head: Leaf, subject: NounPhrase, tense: str, room: int, negated: bool
    ) -> Complement:
        """What the frame of the verb asks for."""
        if verb.frame == "direct":
            return self.direct_object(verb, subject, tense, room, negated)
        if verb.frame == "dative":
            return self.indirect_object(subject, particle(verb), head, room)
        if verb.frame == "giving":
            return self.gift(verb, subject, tense, room, negated)
        if verb.frame == "goal":
            phrase = prepositional("to", "à", self.noun_phrase(("goal",), room - 1, single=True, definite=True))
        elif verb.frame == "place" or (room >= 3 and self.chance(0.6)):
            phrase = self.place(room, ("place",)) if verb.frame == "place" else self.place(room)
        elif room >= 1 and verb.frame == "action" and self.chance(0.4):
            phrase = idiom("ADVP", *self.rng.choice((("slowly/RB", "lentement"), ("here/RB", "ici"))))
        else:
            return Complement()
        return Complement((phrase.english,), french=phrase.french)

    def object_pronoun(self, subject: NounPhrase, third_only: bool) -> list[str]:
        """A row of the table of object pronouns; never the person of the subject, which would ask for a reflexive."""
        excluded = ("1", "2") if third_only else (str(subject.person),)
        return self.rng.choice([row for row in lexicon.OBJECT_PRONOUNS if row[4] == "3" or row[4] not in excluded])

    def direct_object(self, verb: Verb, subject: NounPhrase, tense: str, room: int, negated: bool) -> Complement:
        """A noun phrase after the verb, or a clitic before it."""
        preposition = particle(verb)
        if "person" in verb.objects and room <= 5 and self.chance(0.6 if room <= 1 else 0.3):
            # In the past the participle would show the gender of "me", "you" and "us".
            english, clitic, _, gender, _, number = self.object_pronoun(subject, third_only=tense == "past")
            leaf = Leaf("PRP", english)
            agreement = None if gender == "-" else (gender, number == "pl")
            tree = governed(preposition, Branch("NP", (leaf,)))
            return Complement((tree,), french_words(clitic, leaf), (), agreement, preposition)
        phrase = self.noun_phrase(verb.objects, room, negated=negated)
        return Complement((governed(preposition, phrase.english),), french=phrase.french, verb_links=preposition)

    def indirect_object(self, subject: NounPhrase, to: tuple[Leaf, ...], head: Leaf, room: int) -> Complement:
        """Either "to him" - "lui" before the verb, or "to NP" - "à NP"; without `to`, "à" is linked with the verb."""
        if room <= 3 and self.chance(0.5):
            english, _, clitic, *_ = self.object_pronoun(subject, third_only=False)
            leaf = Leaf("PRP", english)
            return Complement((governed(to, Branch("NP", (leaf,))),), clitics=french_words(clitic, *to, leaf))
        person = self.noun_phrase(("person",), room - len(to), single=True)
        return Complement((governed(to, person.english),), french=french_words("à", *(to or (head,))) + person.french)

    def gift(self, verb: Verb, subject: NounPhrase, tense: str, room: int, negated: bool) -> Complement:
        """VP -> V NP to NP, either of them possibly a clitic: "gives them to me" - "me les donne"."""
        to = Leaf("TO", "to")
        receiver = self.indirect_object(subject, (to,), to, min(room // 2, 6))
        if self.chance(0.15):
            leaf = Leaf("PRP", "them")
            les = french_words("les", leaf)
            third = bool(receiver.clitics) and receiver.clitics[0].text in ("lui", "leur")
            clitics = les + receiver.clitics if third else receiver.clitics + les
            trees = (Branch("NP", (leaf,)), *receiver.english)
            return Complement(trees, clitics, receiver.french, ("m", True))
        thing = self.noun_phrase(verb.objects, min(room - 3, 5), negated=negated, single=True)
        return Complement((thing.english, *receiver.english), receiver.clitics, thing.french + receiver.french)

    # -- clauses and sentences --

    def simple_clause(self, room: int, tense: str = "") -> Phrase:
        """S -> NP VP, or two verb phrases joined by "and" or "but"."""
        # Things have the copula as their only verb, and the copula has no future: a future needs a living subject.
        alive = tense not in ("", "present", "past")
        subject = self.subject(self.rng.randrange(1, max(2, min(room // 2, 9)) + 1), alive)
        left = room - len(subject.words)
        joined = left >= 8 and subject.kinds[0] in ("person", "animal") and self.chance(0.4)
        if alive or not joined:
            return rule("S", (subject, self.verb_phrase(subject, left, tense=tense).phrase()))
        # The second verb must belong neither to a modal ("can buy it and obey") nor to a relative clause of the first
        # verb phrase, since its French form depends on that: one tense for both, no auxiliary, a short first half.
        tense = tense or self.rng.choice(("present", "past"))
        first = self.verb_phrase(subject, self.rng.randrange(2, 5), tense=tense, plain=True).phrase()
        second = self.verb_phrase(subject, left - len(first.words) - 1, tense=tense, plain=True).phrase()
        joint = pair("CC", *self.rng.choice((AND, AND, BUT)))
        return rule("S", (subject, rule("VP", (first, joint, second))))

    def complex_clause(self, room: int) -> Phrase:
        """A clause reported by somebody, or with a time adverb or an adverbial clause."""
        shape = self.rng.randrange(6)
        if shape == 0:
            return self.reported_clause(room)
        if shape == 1:
            english, french, tense = self.rng.choice(lexicon.TIMES)
            return fronted(idiom("NP", english, french), self.simple_clause(room - 2, tense))
        tag, english, french, tense = self.rng.choice(lexicon.SUBORDINATORS)
        tense = tense.strip("-")
        if tense != "past" and self.chance(0.12):
            inner = rule("S", (rule("NP", (pair("PRP", "it", "il"),)), rule("VP", (pair("VBZ", "rains", "pleut"),))))
        else:
            inner = self.simple_clause(max(3, room // 2 - 1), tense)
        word = pair(tag, english, french)
        adverbial = rule("SBAR", (rule("WHADVP", (word,)) if tag == "WRB" else word, inner))
        main_tense = self.rng.choice(("present", "present", "must", "will")) if tense == "present" else tense
        main = self.simple_clause(room - len(adverbial.words), main_tense)
        if self.chance(0.4):
            return fronted(adverbial, main)
        subject, verb_phrase = main.english.children  # of which the adverbial becomes the last part
        tree = Branch("S", (subject, Branch("VP", (*verb_phrase.children, adverbial.english))))
        return Phrase(tree, main.french + adverbial.french)

    def reported_clause(self, room: int) -> Phrase:
        """S -> NP says that S; never negated, which would ask for the subjunctive in French."""
        subject = self.pronoun() if self.chance(0.4) else self.noun_phrase(("person",), 2)
        base, french = self.rng.choice(lexicon.SPEECH)
        tag, english = ("VBZ", base + "s") if subject.slot == 1 else ("VBP", base)
        word = pair(tag, english, french.split()[subject.slot])
        reported = rule("SBAR", (pair("IN", "that", "que"), self.simple_clause(room - 4)))
        return rule("S", (subject, rule("VP", (word, reported))))

    def question(self, room: int) -> Phrase:
        """SQ -> does NP VP ? - est-ce que NP VP ?, with "why" before it at times, or SBARQ -> who VP ?"""
        end = pair(".", "?", "?")
        if self.chance(0.25):
            someone = NounPhrase(Branch("NP", ()), (), "m")
            question = rule("SQ", (self.verb_phrase(someone, room - 2, plain=True).phrase(),))
            return rule("SBARQ", (rule("WHNP", (pair("WP", "who", "qui"),)), question, end))
        subject = self.subject(min(3, room // 3))
        asked = self.verb_phrase(subject, room - 2 - len(subject.words), question=True)
        assert asked.auxiliary is not None, "a question has an auxiliary to front"
        tree = Branch("SQ", (asked.auxiliary, subject.english, asked.body))
        core = Phrase(tree, french_words("est-ce que", asked.auxiliary) + subject.french + asked.french)
        if self.chance(0.25):
            return rule("SBARQ", (rule("WHADVP", (pair("WRB", "why", "pourquoi"),)), core, end))
        return Phrase(Branch("SQ", (*tree.children, end.english)), core.french + end.french)

    def sentence(self, room: int) -> Phrase:
        """A sentence of about `room` words. Clauses are joined until it is long enough."""
        # Not every sentence has a place for the names it may use: about 12% come out with one.
        self.rare_names_left = self.rng.choice((0,) * 36 + (1,) * 12 + (2,) * 2)
        if room <= 16 and self.chance(0.08):
            return self.question(room)
        clauses: list[Phrase] = []
        left = room - 1
        while not clauses or left >= 6:
            part = min(left, self.rng.randrange(9, 25))
            made = self.complex_clause(part) if part >= 9 and self.chance(0.45) else self.simple_clause(part)
            clauses.append(made)
            left -= len(made.words) + 2
        stop = pair(".", ".", ".")
        parts = clauses[:1]
        if len(clauses) == 1:
            return Phrase(Branch("S", (*parts[0].english.children, stop.english)), parts[0].french + stop.french)
        for clause in clauses[1:]:
            parts += [pair(",", ",", ","), pair("CC", *self.rng.choice((AND, AND, BUT))), clause]
        return rule("S", (*parts, stop))


def idiom(label: str, english: str, french: str) -> Phrase:
    """A rule without variables, translated word for word; `english` is tagged ("this/DT morning/NN")."""
    tokens = [token.split("/") for token in english.split()]
    return rule(
        label, [pair(tag, word, french_word) for (word, tag), french_word in zip(tokens, french.split(), strict=True)]
    )


def fronted(adverbial: Phrase, main: Phrase) -> Phrase:
    """S -> adverbial , NP VP."""
    begin = rule("S", (adverbial, pair(",", ",", ",")))
    return Phrase(Branch("S", begin.english.children + main.english.children), begin.french + main.french)


def extended(core: NounPhrase, modifier: Phrase) -> NounPhrase:
    """NP -> NP PP | NP SBAR."""
    phrase = rule("NP", (core, modifier))
    return replace(core, english=phrase.english, french=phrase.french)


def prepositional(english: str, french: str, ground: Phrase) -> Phrase:
    """PP -> IN NP; "to" is TO in the Penn Treebank, whatever it does."""
    return rule("PP", (pair("TO" if english == "to" else "IN", english, french), ground))


def governed(preposition: tuple[Leaf, ...], tree: Leaf | Branch) -> Leaf | Branch:
    """PP -> IN NP in English alone, or the noun phrase as it is if the verb has no preposition."""
    return Branch("PP", (*preposition, tree)) if preposition else tree


def determined(
    determiner: Determiner, adjectives: Sequence[Adjective], noun: Noun, plural: bool, negated: bool = False
) -> NounPhrase:
    """NP -> DT JJ JJ NN: each adjective before or after the French noun, everything in agreement with it."""
    if negated and determiner.english == "some":
        determiner = ANY
    form = noun.french[plural]
    head = pair("NNS" if plural else "NN", noun.english[plural], form)
    before = [pair("JJ", a.english, a.agree(noun.gender, plural, form)) for a in adjectives if a.before_noun]
    after = [pair("JJ", a.english, a.agree(noun.gender, plural)) for a in adjectives if not a.before_noun]
    french = determiner.agree(noun.gender, plural, (before[0] if before else head).french[0].text)
    if (negated and determiner.english == "a") or (french == "des" and before):
        french = "de"  # "elle n' a pas vu de chat"; "de petits chats"
    next_word = [*(adjective.english for adjective in adjectives), noun.english[plural]][0]
    takes_an = determiner.english == "a" and (next_word[0] in "aeiou" or next_word == "honest")
    article = pair(determiner.tag, "an" if takes_an else determiner.english, french)
    phrase = rule("NP", english=(article, *before, *after, head), french=(article, *before, head, *after))
    return NounPhrase(phrase.english, phrase.french, noun.gender, plural, kinds=noun.kinds)
