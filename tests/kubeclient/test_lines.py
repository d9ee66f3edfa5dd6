"""Lines, from chunks with any boundaries."""

from hypothesis import given
from hypothesis import strategies as st

from webhook.cache.informer import Lines


@given(
    st.lists(st.binary(max_size=40).filter(lambda line: b"\n" not in line), max_size=20), st.data()
)
def test_lines_are_the_same_however_the_stream_is_cut(
    lines: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    splitter = Lines()
    found = [
        line
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for line in splitter.feed(stream[start:end])
    ]
    assert found == [line for line in lines if line]
    assert splitter.rest == 0


def test_a_line_of_megabytes_comes_in_one_piece_and_what_follows_it_is_kept() -> None:
    splitter = Lines()
    found = [line for _ in range(300) for line in splitter.feed(b"x" * 65536)]
    found += splitter.feed(b"\nrest")
    assert [len(line) for line in found] == [300 * 65536]
    assert splitter.rest == len(b"rest")
