"""Random words: fresh for each thread and process, and never repeated."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

from ddpmi.errors import InputError
from ddpmi.privacy import randomness
from ddpmi.privacy.randomness import Keystream, system
from tests.support.noise_oracles import ALARM, chi_square

FORKED = """
import os
from ddpmi.privacy.randomness import system
source = system()
source.words(3)
ends = [os.pipe() for _ in range(8)]
for at, (_, write) in enumerate(ends):
    if os.fork() == 0:
        os.write(write, source.words(4).tobytes())
        os._exit(0)
drawn = [os.read(read, 32).hex() for read, _ in ends] + [source.words(4).tobytes().hex()]
for _ in ends:
    os.wait()
print("\\n".join(drawn))
"""


def test_known_answer() -> None:
    """The first block under the zero key is AES-256 of the zero block."""
    assert Keystream(bytes(32)).words(2).tobytes().hex() == "dc95c078a2408989ad48a21492842087"


def test_stream_goes_on() -> None:
    """Two requests give what one request of both sizes gives."""
    once = Keystream(bytes(range(32))).words(50_000)
    twice = Keystream(bytes(range(32)))
    assert np.array_equal(once, np.concatenate([twice.words(20_000), twice.words(30_000)]))


def test_key_is_replaced() -> None:
    """After the limit the stream goes on under a new key, the same for the same first key."""
    words = randomness._REKEY_BYTES // 8
    first, second = Keystream(bytes(32)), Keystream(bytes(32))
    ours = np.concatenate([first.words(words), first.words(8)])
    kept = Keystream(bytes(32))
    kept._next_key = None  # type: ignore[assignment, method-assign]
    assert np.array_equal(ours[:words], kept.words(words))
    assert np.array_equal(ours[words:], np.concatenate([second.words(words), second.words(8)])[words:])
    assert not set(ours[words:].tolist()) & set(ours[:words].tolist())
    other = Keystream(bytes(range(32)))
    assert not set(ours[words:].tolist()) & set(np.concatenate([other.words(words), other.words(8)])[words:].tolist())
    plain = kept._cipher.update(bytes(64))
    assert plain != ours[words:].tobytes()
    assert not set(np.frombuffer(plain, dtype=np.uint64).tolist()) & set(ours[words:].tolist())


def test_system_key_is_replaced_with_fresh_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's keystream takes bytes of the operating system at every change of key."""
    stream = randomness._FreshKeystream()
    asked: list[int] = []

    def urandom(n: int) -> bytes:
        asked.append(n)
        return bytes(n)

    monkeypatch.setattr(os, "urandom", urandom)
    stream.words(randomness._REKEY_BYTES // 8)
    assert asked == []
    stream.words(1)
    assert asked == [32, 16]


def test_empty_request() -> None:
    """No words asked, none given."""
    assert system().words(0).size == 0


def test_wrong_key_is_refused() -> None:
    """A key that is not 32 bytes long is refused with a hint."""
    with pytest.raises(InputError, match="Hint: Keystream"):
        Keystream(b"short")


def test_never_copied() -> None:
    """A keystream can be neither pickled nor copied; the system's source may be, for it has no state."""
    with pytest.raises(TypeError, match="never copied"):
        pickle.dumps(Keystream(bytes(32)))
    with pytest.raises(TypeError, match="never copied"):
        copy.copy(Keystream(bytes(32)))
    assert pickle.loads(pickle.dumps(system())).words(2).size == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("first", ["", "import os; os.getpid = lambda: 1\n"])
def test_forked_children_draw_their_own(first: str) -> None:
    """Eight forked children and their parent, with one source object, draw different words, also if their numbers agree."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", first + FORKED],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.split()
    assert len(lines) == 9
    assert len(set(lines)) == 9


def test_process_number_alone_also_changes_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child made behind Python's back is seen by its process number."""
    before = randomness._stream_of_thread()
    assert randomness._stream_of_thread() is before
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert randomness._stream_of_thread() is not before


def test_threads_draw_their_own() -> None:
    """Eight threads draw 8000 different words."""
    drawn: list[int] = []
    threads = [threading.Thread(target=lambda: drawn.extend(system().words(1000).tolist())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(drawn) == len(set(drawn)) == 8000


@pytest.mark.parametrize("part", range(4))
def test_words_are_uniform(part: int) -> None:
    """Each 16-bit quarter of the system's words is uniform by chi-square."""
    quarters = system().words(1 << 21).view(np.uint16)[part::4]
    assert chi_square(np.bincount(quarters, minlength=1 << 16), np.full(1 << 16, 2.0**-16)) > ALARM


def test_neighbouring_words_are_independent() -> None:
    """The top bytes of a word and of the next are jointly uniform by chi-square."""
    tops = (system().words(1 << 22) >> np.uint64(56)).astype(np.int64)
    counts = np.bincount(tops[:-1:2] * 256 + tops[1::2], minlength=1 << 16)
    assert chi_square(counts, np.full(1 << 16, 2.0**-16)) > ALARM
