"""Access: the printed token lets a browser and a program in, and nothing else does."""

from webhook.dashboard.session import Session


def test_only_the_printed_token_and_its_cookie_are_accepted() -> None:
    session = Session()
    for other in ("", "guess", Session().token):
        assert session.enter(other) is None
        assert not session.is_of(other, other)
    cookie = session.enter(session.token)
    assert cookie
    assert cookie != session.token
    assert session.is_of(cookie, "")
    assert session.is_of("", session.token)
    assert not session.is_of(session.token, cookie)
