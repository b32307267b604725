"""A double of the transport: wires in memory, to listen at and to tamper with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import permutations


class Wire:
    """Bytes from one party to another, in order; a send waits while too many are under way."""

    def __init__(self, capacity: int) -> None:
        self.log = bytearray()  # all that was ever sent
        self.largest_request = 0
        self.mute = False  # swallow what is sent
        self.flip: tuple[int, int] | None = None  # position in the stream and bits to change there
        self._buffer = bytearray()
        self._capacity = capacity
        self._closed = False
        self._changed = threading.Condition()

    def send(self, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.mute or self._closed or len(self._buffer) < self._capacity)
            if self.mute:
                return
            if self._closed:
                raise ConnectionResetError("closed by the peer")
            if self.flip and len(self.log) <= self.flip[0] < len(self.log) + len(data):
                at = self.flip[0] - len(self.log)
                data = data[:at] + bytes([data[at] ^ self.flip[1]]) + data[at + 1 :]
            self.log += data
            self._buffer += data
            self._changed.notify_all()

    def receive(self, size: int, heard: Callable[[], None]) -> memoryview:
        with self._changed:
            self.largest_request = max(self.largest_request, size)
            self._changed.wait_for(lambda: self._closed or len(self._buffer) >= size)
            heard()
            if len(self._buffer) < size:
                raise ConnectionResetError("closed by the peer")
            data = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._changed.notify_all()
            return memoryview(data)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """Swallow what is sent from now on, as a network does where nobody is left to receive it."""
        with self._changed:
            self.mute = True
            self._changed.notify_all()


class Wires(dict[tuple[int, int], Wire]):
    """The wires of a run, by the numbers of who sends and who receives."""

    def __init__(self, parties: int, capacity: int = 1 << 20) -> None:
        super().__init__({ends: Wire(capacity) for ends in permutations(range(parties), 2)})

    def end(self, number: int) -> Transport:
        """Return one party's end of all its wires."""
        return Transport(self, number)

    def cut(self, number: int) -> None:
        """End a party's wires, as its end does: those from it when all is read that is on the way."""
        for (sender, receiver), wire in self.items():
            if sender == number:
                wire.close()
            elif receiver == number:
                wire.abandon()


class Transport:
    """One party's end of all its wires."""

    def __init__(self, wires: Wires, number: int) -> None:
        self._wires, self._number = wires, number

    def send(self, number: int, header: bytes, payload: bytes) -> None:
        self._wires[self._number, number].send(header + payload)

    def receive(self, number: int, size: int, heard: Callable[[], None]) -> memoryview:
        return self._wires[number, self._number].receive(size, heard)

    def hurry(self, seconds: float) -> None:
        self.hurried = seconds

    def close(self) -> None:
        pass
