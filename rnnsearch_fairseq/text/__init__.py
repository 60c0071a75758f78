"""Text as models read it: how it is prepared and split into words, vocabularies, markup, trees."""
