"""Texts -> their words, by TensorFlow's own steps, so that what is counted is what the graph finds."""

import tensorflow as tf

from beamfeed.contract.config.features import Text


def words_of(texts: tf.Tensor, section: Text) -> tf.RaggedTensor:
    """The words of strings `[batch]`: strings `[batch, words]`."""
    if section.lower:
        texts = tf.strings.lower(texts, encoding="utf-8")
    if section.split == "characters":
        return tf.strings.unicode_split(texts, "UTF-8", errors="replace")
    texts = tf.strings.regex_replace(texts, r"\pZ", " ")  # white space beyond ASCII
    if section.split == "words":
        texts = tf.strings.regex_replace(texts, r"([^\pL\pM\pN\s_'])", r" \1 ")
    return tf.strings.split(texts)
