"""A prompt on the last line of a terminal, below what others write meanwhile."""

import asyncio
import shutil
import signal
import sys
import termios
from collections.abc import AsyncGenerator
from contextlib import suppress
from types import TracebackType
from typing import Self

from jackfield.cli.line_editor import Ended, LineEditor, Typed, window
from jackfield.cli.output import escape, style, width_of
from jackfield.cli.stdin_lines import read_chunk

ERASE = "\r\x1b[K"
LEAST_ROOM = 8
"""Columns for the text; a label that leaves less is left out."""


class Prompt:
    """Owns the terminal while it is entered; `write` prints above the prompt."""

    def __init__(self, label: str, editor: LineEditor) -> None:
        self._label = escape(label)
        self._editor = editor
        self._descriptor = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._descriptor)
        self._is_asking = False
        self._is_line_open = False
        """Whether something above is unfinished; the prompt is hidden meanwhile."""
        self._finished: list[str] = []
        """Lines that were typed meanwhile."""

    def __enter__(self) -> Self:
        self._take_terminal()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCONT, self._continued)
        loop.add_signal_handler(signal.SIGWINCH, self._draw)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGCONT)
        loop.remove_signal_handler(signal.SIGWINCH)
        if self._is_asking:
            self._print("\n" if self._is_line_open else ERASE)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def _take_terminal(self) -> None:
        """Keys come one by one and are not echoed; Ctrl-C and Ctrl-Z work as ever."""
        mode = termios.tcgetattr(self._descriptor)
        mode[3] &= ~(termios.ICANON | termios.ECHO)
        mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
        with suppress(termios.error):
            termios.tcsetattr(self._descriptor, termios.TCSADRAIN, mode)

    def _continued(self) -> None:
        """After Ctrl-Z and `fg`."""
        self._take_terminal()
        self._draw()

    def write(self, text: str) -> None:
        """Print above the prompt. A text without a newline at its end goes on with the next one."""
        if not text:
            return
        was_open, self._is_line_open = self._is_line_open, not text.endswith("\n")
        self._print(text if was_open or not self._is_asking else f"{ERASE}{text}")
        if not self._is_line_open:
            for line in self._finished:
                self._print(f"{self._shown_label}{line}\n")
            self._finished.clear()
        self._draw()

    async def lines(self) -> AsyncGenerator[str, None]:
        """Each line that is typed, until Ctrl-D."""
        self._is_asking = True
        self._draw()
        while data := await read_chunk(self._descriptor):
            for event in self._editor.feed(data):
                if isinstance(event, Ended):
                    return
                if isinstance(event, Typed):
                    self._keep(event.line)
                    yield event.line
                elif not self._is_line_open:
                    self.write(style("  ".join(map(escape, event.words)), "dim") + "\n")
            self._draw()

    def _keep(self, line: str) -> None:
        """A finished line stays above the prompt."""
        if self._is_line_open:
            self._finished.append(line)
        else:
            self._print(f"{ERASE}{self._shown_label}{line}\n")

    @property
    def _shown_label(self) -> str:
        return style(self._label, "bold")

    def _draw(self) -> None:
        if not self._is_asking or self._is_line_open:
            return
        columns = shutil.get_terminal_size().columns
        label, room = self._shown_label, columns - width_of(self._label) - 1
        if room < LEAST_ROOM:
            label, room = "", columns - 1
        text, column = window(self._editor.text, self._editor.cursor, max(room, 1))
        back = width_of(text) - column
        self._print(f"{ERASE}{label}{text}" + (f"\x1b[{back}D" if back else ""))

    def _print(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
