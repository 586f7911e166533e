"""Names for new things."""

import os

from jackfield.model.ids import new_id


def test_processes_that_are_forked_do_not_name_things_alike() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, new_id("x").encode())
        os._exit(0)
    os.waitpid(child, 0)
    named = os.read(reading, 100).decode()
    os.close(reading)
    os.close(writing)
    assert named[-16:] != new_id("x")[-16:]
