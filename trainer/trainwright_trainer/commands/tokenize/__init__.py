"""Tokenizing: from text to files of token ids."""
