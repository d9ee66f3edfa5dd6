"""No text for users contains a private word."""

from tests.pages.texts import PRIVATE, texts_by_source


def test_no_text_contains_a_private_word() -> None:
    private = [
        f"{source}: {word.group()!r} in {line!r}"
        for source, lines in texts_by_source().items()
        for line in lines
        for word in PRIVATE.finditer(line)
    ]
    assert private == [], "use the words of Kubernetes, KubeRay and Ray"


def test_a_private_word_is_found() -> None:
    assert PRIVATE.search("a pod that nobody reserved")
    assert not PRIVATE.search("a pod that is not ready")
