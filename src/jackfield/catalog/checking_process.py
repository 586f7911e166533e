"""The process that checks what would hold up the gateway: a question a line on stdin, an answer a line on stdout.

An empty line says that it is ready.

Above: `checking.py` asks. Below: `schemas.py`. It ends when its stdin does.
"""

import sys
from collections import OrderedDict
from typing import BinaryIO

import msgspec

from jackfield.catalog.checking import CheckAnswer, CheckQuestion, Weight, nodes_in, weight_of
from jackfield.protocol.schemas import ArgumentChecker, fault_in

MOST_KEPT = 128
EXPLAINED = 200_000
"""Looks at a value for which every fault is looked for; else the first one has to do."""

_Kept = OrderedDict[str, tuple[ArgumentChecker, Weight]]


def main(questions: BinaryIO, answers: BinaryIO) -> None:
    read = msgspec.json.Decoder(CheckQuestion).decode
    kept: _Kept = OrderedDict()
    answers.write(b"\n")
    answers.flush()
    for line in questions:
        answers.write(msgspec.json.encode(_answer(read(line), kept)) + b"\n")
        answers.flush()


def _answer(question: CheckQuestion, kept: _Kept) -> CheckAnswer:
    if not bytes(question.value):
        schema = msgspec.json.decode(question.schema)
        fault = fault_in(schema, is_foreign=question.is_foreign, brings_values=question.brings_values)
        return CheckAnswer(fault=fault)
    checker, weight = _checker(question, kept)
    value = msgspec.json.decode(question.value)
    if nodes_in(bytes(question.value)) * weight.looks <= EXPLAINED:
        return CheckAnswer(faults=checker.check(value))
    return CheckAnswer(faults=checker.first_fault(value))


def _checker(question: CheckQuestion, kept: _Kept) -> tuple[ArgumentChecker, Weight]:
    if question.key in kept:
        kept.move_to_end(question.key)
        return kept[question.key]
    schema = msgspec.json.decode(question.schema)
    checker = ArgumentChecker(schema, whole=question.whole)
    made = kept[question.key] = (checker, weight_of(schema, is_linear=checker.is_linear))
    if len(kept) > MOST_KEPT:
        kept.popitem(last=False)
    return made


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
