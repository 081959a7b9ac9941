"""The source and the pages use the field's words: an old word stands nowhere but where the list still allows it."""

from __future__ import annotations

import pytest

from tests.repository.vocabulary import KINDS, listed, used


@pytest.mark.parametrize("kind", KINDS)
def test_old_words_stand_in_listed_folders_only(kind: str) -> None:
    allowed, found = listed()[kind], used()[kind]
    assert not {
        word: sorted(folders - set(allowed[word])) for word, folders in found.items() if folders - set(allowed[word])
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_listed_folder_still_holds_its_word(kind: str) -> None:
    """`python -m tests.repository.vocabulary` takes the others off the list."""
    allowed, found = listed()[kind], used()[kind]
    gone = {word: sorted(set(folders) - found.get(word, set())) for word, folders in allowed.items()}
    assert not {word: folders for word, folders in gone.items() if folders}, "no longer needed: take it off the list"
