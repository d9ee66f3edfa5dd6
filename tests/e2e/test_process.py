"""Ports and logs of programs under test. Needs no control plane."""

import socket
from pathlib import Path

import pytest

from tests.e2e.process import accepts_connections, free_port, lines


def test_a_port_is_kept_for_the_program_that_receives_it() -> None:
    port = free_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # a program is started again on the port it had
        with socket.create_server(("127.0.0.1", port)):
            assert accepts_connections(port)
        assert not accepts_connections(port)


def test_a_line_that_is_being_written_is_not_read(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes('{"a": "ä"}\n{"b": "ä'.encode()[:-1])
    assert lines(log) == ['{"a": "ä"}']
    log.write_text("")
    assert lines(log) == []
