from pathlib import Path
from xml.etree import ElementTree as ET

from bench.flame import drawn, read

SAMPLES = """\
main (app.py:3);Runner.run (asyncio/runners.py:118);App.call (jackfield/http/app.py:9);send (uvicorn/impl.py:1) 60
main (app.py:3);Runner.run (asyncio/runners.py:118);App.call (jackfield/http/app.py:12) 40
write (jackfield/store/sqlite.py:9) 100
"""


def test_a_picture_has_every_function_of_the_loop_with_its_share(tmp_path: Path) -> None:
    (samples := tmp_path / "samples.raw").write_text(SAMPLES, encoding="utf-8")

    picture = ET.fromstring(drawn(read(samples, below="Runner.run"), "a <title>"))

    titles = [title.text for title in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["all  100.0 %", "App.call jackfield/http/app.py 100.0 %", "send uvicorn/impl.py 60.0 %"]
