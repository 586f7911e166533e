"""Tests of `/mcp` on a busy machine."""

import pytest

BUSY = 0.5
"""Seconds. An answer that takes longer is streamed; with the gateway's own 0.05 a busy machine decides which."""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jackfield.mcp.api.SOON", BUSY)
