"""Cryptographic random words, from the AES-256-CTR keystream of a secret key.

Every private release draws from `system()`, which cannot be seeded. Each thread of each process has its own key from the
operating system, and a forked child never continues the stream of its parent. Keys are replaced as they are used:
a key found in memory later does not reveal noise drawn before it was made.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ddpmi.errors import InputError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import CipherContext
    from numpy.typing import NDArray

_KEY_BYTES = 32
_NONCE_BYTES = 16
_WORD_BYTES = 8
_CHUNK_BYTES = 1 << 18
_REKEY_BYTES = 1 << 22
_ZEROS = memoryview(bytes(_CHUNK_BYTES))
_SPARE_BYTES = 15  # some versions of cryptography require a buffer that is larger than the output by this


class Source(Protocol):
    """A source of random bits for the samplers."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return n independent words, uniform over 0 .. 2^64 - 1."""


class Keystream:
    """The AES-256-CTR keystream of a given key, as 64-bit words.

    A fixed key gives a fixed stream, for tests and simulations. Releases use `system()`.

    >>> int(Keystream(bytes(32)).words(1)[0]) == int(Keystream(bytes(32)).words(1)[0])
    True
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise InputError(
                f"a keystream needs a key of {_KEY_BYTES} bytes, got {len(key)}.",
                hint="Keystream(os.urandom(32))",
            )
        self._start(key, bytes(_NONCE_BYTES))

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return the next n words of the stream.

        >>> Keystream(bytes(32)).words(3).shape
        (3,)
        """
        size = n * _WORD_BYTES
        room = np.empty(size + _SPARE_BYTES, dtype=np.uint8)
        for at in range(0, size, _CHUNK_BYTES):
            length = min(_CHUNK_BYTES, size - at)
            if self._used + length > _REKEY_BYTES:
                self._start(*self._next_key())
            self._used += length
            self._cipher.update_into(_ZEROS[:length], room[at:].data)
        return room[:size].view(np.uint64)

    def _start(self, key: bytes, nonce: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._cipher: CipherContext = Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()
        self._used = 0

    def _next_key(self) -> tuple[bytes, bytes]:
        # The stream produces its next key, and the old key is discarded ("fast key erasure").
        both = self._cipher.update(bytes(_KEY_BYTES + _NONCE_BYTES))
        return both[:_KEY_BYTES], both[_KEY_BYTES:]

    def __reduce__(self) -> str:
        raise TypeError("a keystream is never copied or pickled: two copies would give the same noise.")


class _FreshKeystream(Keystream):
    """A keystream whose keys come from the operating system, at the start and at every change of key."""

    def __init__(self) -> None:
        super().__init__(os.urandom(_KEY_BYTES))
        self._start(*self._next_key())

    def _next_key(self) -> tuple[bytes, bytes]:
        own = self._cipher.update(bytes(_KEY_BYTES))
        fresh = os.urandom(_KEY_BYTES)
        key = bytes(a ^ b for a, b in zip(own, fresh, strict=True))
        return key, os.urandom(_NONCE_BYTES)


class _PerThread(threading.local):
    """The keystream of one thread, and the process that made it."""

    stream: Keystream | None = None
    process: int | None = None


class _SystemSource:
    """Reads the keystream of the calling thread. It holds no state, so it may be pickled."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """Return n fresh words."""
        return _stream_of_thread().words(n)


_local = _PerThread()
_SYSTEM = _SystemSource()


def _stream_of_thread() -> Keystream:
    if _local.stream is None or _local.process != os.getpid():
        _local.stream = _FreshKeystream()
        _local.process = os.getpid()
    return _local.stream


def _drop_streams() -> None:
    global _local  # noqa: PLW0603 - a forked child drops the streams of all threads of its parent
    _local = _PerThread()


# Comparing process numbers is not enough: the operating system uses numbers again.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_drop_streams)


def system() -> Source:
    """Return the cryptographic source of this process; it cannot be seeded.

    >>> system().words(2).shape
    (2,)
    """
    return _SYSTEM
