"""The loss and the speed of a training."""

from __future__ import annotations

import time


class Meter:
    """Loss and speed: since the last report, and of the session. Its watch stands still while other things are done."""

    def __init__(self):
        self.tokens = self.loss = self.seconds = 0.0
        self.last = (0.0, 0.0, 0.0)
        self._all_tokens = self._all_seconds = 0.0
        self._since: float | None = None

    def start(self) -> None:
        if self._since is None:
            self._since = time.monotonic()

    def stop(self) -> None:
        if self._since is not None:
            self.seconds += time.monotonic() - self._since
            self._since = None

    def add(self, loss: float, tokens: float) -> None:
        self.loss, self.tokens = self.loss + loss * tokens, self.tokens + tokens

    def take(self) -> tuple[float, float]:
        """(loss a token, tokens a second) since the last time."""
        self.stop()
        self.start()
        figures = self.loss / self.tokens, self.tokens / max(self.seconds, 1e-9)
        self._all_tokens, self._all_seconds = self._all_tokens + self.tokens, self._all_seconds + self.seconds
        self.tokens = self.loss = self.seconds = 0.0
        return figures

    def overall(self) -> float:
        return self._all_tokens / self._all_seconds if self._all_seconds else 0.0
